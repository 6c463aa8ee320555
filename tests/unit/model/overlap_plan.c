/* The overlap plan: its file, and whether its lengths are those of a model. */
#include "model/modes/overlap_plan.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static overlap_plan_t written, got;
static err_t err;

/* Two models, the second of words and pictures: 3 + 2 · height · width elements a row. */
static void make(void)
{
    uint32_t ops[] = {5, 7};

    predictor_init(&written.predictor, 2, ops, 16, 1);
    predictor_set_times(&written.predictor, 1, (int64_t[]){1, 2, 40, 5, 5, 60, 2});
    predictor_set_length(&written.predictor, 1, 303);
    snprintf(written.device, sizeof(written.device), "onednn; some CPU; 2 threads");
    for (int i = 0; i < 2; i++) {
        snprintf(written.models[i].name, sizeof(written.models[i].name), "m%d", i);
        snprintf(written.models[i].hash, sizeof(written.models[i].hash), "fnv1a:%d bf16", i);
        written.models[i].version = i + 1;
        written.models[i].length_min = written.models[i].length_max = 1;
    }
    written.models[1].length_min = 11;
    written.models[1].length_max = 303;
    written.models[1].sizes[0] = 10;
    written.models[1].sizes[1] = 15;
    written.models[1].size_count = 2;
}

Test(overlap_plan, comes_back_from_its_file_as_it_was)
{
    char path[] = "/tmp/overlap-plan-XXXXXX";
    int file = mkstemp(path);

    cr_assert_geq(file, 0);
    make();
    for (uint32_t layer = 0; layer < PREDICTOR_LAYERS; layer++)
        for (uint32_t unit = 0; unit < written.predictor.width[layer + 1]; unit++) {
            written.predictor.bias[layer][unit] = (float)(layer + unit) / 3;
            for (uint32_t from = 0; from < written.predictor.width[layer]; from++)
                written.predictor.weight[layer][unit][from] = (float)from / 7 - (float)unit;
        }
    cr_assert_eq(overlap_plan_write(path, &written, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(overlap_plan_read(path, &got, &err), STATUS_OK, "%s", err.text);
    cr_assert_arr_eq(&got, &written, sizeof(got));
    cr_assert_eq(overlap_plan_find(&got, "m1", 2, "fnv1a:1 bf16", 16, &err), 1);
    cr_assert_eq(overlap_plan_find(&got, "m1", 2, "fnv1a:1 bf16", 17, &err), UINT32_MAX);
    cr_assert(strstr(err.text, "16 rows at most"), "%s", err.text);
    cr_assert_eq(overlap_plan_find(&got, "m1", 3, "fnv1a:1 bf16", 16, &err), UINT32_MAX);
    cr_assert_eq(overlap_plan_find(&got, "m1", 2, "fnv1a:2 bf16", 16, &err), UINT32_MAX);
    close(file);
    remove(path);
}

/* A file that is right up to this line, and ends with it. */
static void check_lengths(const char *lengths, const char *said)
{
    char path[] = "/tmp/overlap-plan-XXXXXX";
    int file = mkstemp(path);

    cr_assert_geq(file, 0);
    dprintf(file, "fermata-overlap 3\ndevice x\nrows_max 8\nmodel a 1 3 -\n%s\n", lengths);
    close(file);
    cr_assert_eq(overlap_plan_read(path, &got, &err), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(err.text, said), "'%s': %s", lengths, err.text);
    remove(path);
}

Test(overlap_plan, lengths_that_are_none_are_refused_with_their_line)
{
    check_lengths("places index", ":5: 'lengths' is expected here");
    check_lengths("lengths 8", ":5: lengths are: the shortest, the longest, sizes of the longest");
    check_lengths("lengths 8 16 0", ":5: lengths are:");
    check_lengths("lengths 8 16 4x", ":5: lengths are:");
    check_lengths("lengths 8 16 4x-2", ":5: lengths are:");
    check_lengths("lengths 8 16 4194304", ":5: lengths are:");
    check_lengths("lengths 8 16 1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1", ":5: lengths are:");
    check_lengths("lengths 0 16 8", ":5: these are no lengths");
    check_lengths("lengths 32 16 8", ":5: these are no lengths");
    check_lengths("lengths 8 4000000000 8", ":5: these are no lengths");
    check_lengths("lengths 8 16 -", ":5: these are no lengths");
    check_lengths("lengths 8 16 8", ":6: the file ends here");
}

/* ---- the model it is for ---- */

static engine_tensor_t inputs[] = {
    {.name = "words", .dtype = DTYPE_F32, .rank = 1, .dims = {3}, .row_bytes = 12},
    {.name = "map", .dtype = DTYPE_F32, .rank = 3, .dims = {2, -1, -1}, .symbols = {NULL, "h", "w"}}};
static const engine_model_info_t info = {
    .inputs = inputs, .input_count = 2, .batchable = true, .max_batch = 16};

Test(overlap_plan, fits_a_model_whose_rows_are_of_its_lengths)
{
    static const shape_config_t any;
    axes_t axes;

    make();
    cr_assert_eq(axes_find(&axes, &info, &any, &err), STATUS_OK, "%s", err.text);
    cr_assert(overlap_plan_fits(&written, 0, NULL, &err), "%s", err.text);
    cr_assert(overlap_plan_fits(&written, 1, &axes, &err), "%s", err.text);
    cr_assert_not(overlap_plan_fits(&written, 1, NULL, &err));
    cr_assert(strstr(err.text, "nothing but its batch varies"), "%s", err.text);
    cr_assert_not(overlap_plan_fits(&written, 0, &axes, &err));
    cr_assert(strstr(err.text, "not one size for each"), "%s", err.text);
    written.models[1].sizes[0] = 11;
    cr_assert_not(overlap_plan_fits(&written, 1, &axes, &err));
    cr_assert(strstr(err.text, "its rows have 333 elements where the plan says 303"), "%s", err.text);
    written.models[1].sizes[0] = 10;
    axes.list[1].size_max = 14;
    cr_assert_not(overlap_plan_fits(&written, 1, &axes, &err));
    cr_assert(strstr(err.text, "out of range"), "%s", err.text);
}

Test(overlap_plan, rows_shorter_than_any_that_was_measured_count_as_those)
{
    make();
    cr_assert_eq(overlap_plan_length(&written, 0, 1), 1);
    cr_assert_eq(overlap_plan_length(&written, 1, 5), 11);
    cr_assert_eq(overlap_plan_length(&written, 1, 11), 11);
    cr_assert_eq(overlap_plan_length(&written, 1, 100), 100);
    cr_assert_eq(overlap_plan_length(&written, 1, 303), 303);
    cr_assert_eq(overlap_plan_length(&written, 1, UINT64_MAX), 303);
}
