#include "model/parts/shapes.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* An engine that writes down which batches it is asked to prepare, and takes dimensions from dim_min to dim_max. */
static int64_t dim_min, dim_max;
static uint32_t prepared, fail_at;
static char log_text[1024];

static status_t prepare_shapes(engine_model_t *model, uint32_t batch, const engine_shape_t *shapes,
                               err_t *err)
{
    size_t len = strlen(log_text);

    (void)model;
    cr_assert_eq(shapes[0].dims[0], batch);
    for (uint32_t k = 1; k < shapes[0].rank; k++)
        if (shapes[0].dims[k] < dim_min || shapes[0].dims[k] > dim_max)
            return err_set(err, STATUS_INVALID_ARGUMENT, "no kernel of this size");
    if (++prepared == fail_at)
        return err_set(err, STATUS_NO_MEMORY, "no memory");
    snprintf(log_text + len, sizeof(log_text) - len, "%ux%d ", batch, (int)shapes[0].dims[1]);
    return STATUS_OK;
}

static const engine_ops_t ops = {.prepare_shapes = prepare_shapes}, unable = {0};

static engine_tensor_t input;
static engine_model_info_t info;
static shape_config_t config;
static shapes_choice_t choice;
static model_shapes_t shapes;
static err_t err;

static void give(const engine_tensor_t *tensor)
{
    input = *tensor;
    info = (engine_model_info_t){.inputs = &input, .input_count = 1, .batchable = true, .max_batch = 3};
    choice = (shapes_choice_t){.ops = &ops, .config = &config};
}

static void give_words(void)
{
    give(&(engine_tensor_t){.name = "ids", .rank = 1, .dims = {-1}, .symbols = {"words"}});
}

static void give_table(void)
{
    give(&(engine_tensor_t){.name = "table", .rank = 2, .dims = {-1, -1}, .symbols = {"rows", "columns"}});
}

static void give_picture(void)
{
    give(&(engine_tensor_t){.name = "image", .rank = 3, .dims = {3, -1, -1}, .symbols = {NULL, "h", "w"}});
}

static void set_up(void)
{
    dim_min = 0, dim_max = INT64_MAX, prepared = fail_at = 0, log_text[0] = '\0';
    config = (shape_config_t){0}, err = (err_t){0};
    give_words();
}

TestSuite(model_shapes, .init = set_up);

static dim_config_t *bound(const char *name, uint32_t size_max)
{
    dim_config_t *dim = &config.dims[config.dim_count++];

    snprintf(dim->name, sizeof(dim->name), "%s", name);
    dim->size_max = size_max;
    return dim;
}

/* A reference of one or, with a second name, two sizes. */
static void refer(const char *name, uint32_t size, const char *second, uint32_t second_size)
{
    reference_config_t *reference = &config.references[config.reference_count++];

    snprintf(reference->sizes[reference->count].axis, AXIS_NAME_BYTES, "%s", name);
    reference->sizes[reference->count++].size = size;
    if (!second)
        return;
    snprintf(reference->sizes[reference->count].axis, AXIS_NAME_BYTES, "%s", second);
    reference->sizes[reference->count++].size = second_size;
}

static status_t choose(void)
{
    cr_assert_eq(axes_find(&shapes.axes, &info, &config, &err), STATUS_OK, "%s", err.text);
    return shapes_choose(&shapes, &choice, &err);
}

/* "16 128 512", or what was wrong. */
static const char *chosen(void)
{
    static char text[REFERENCES_MAX * (SHAPES_TEXT_BYTES + 1)];
    char sizes[SHAPES_TEXT_BYTES];
    size_t len = 0;

    if (choose() != STATUS_OK)
        return err.text;
    text[0] = '\0';
    for (uint32_t r = 0; r < shapes.reference_count; r++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", r ? " " : "",
                                shapes_text(&shapes.axes, shapes.references[r], sizes));
    return text;
}

/* ---- axes that depend on one another ---- */

/* A mask as long as the words that were and those that come: nothing but a run tells. */
static status_t takes_sums(void *arg, const uint32_t *sizes, err_t *why)
{
    (*(int *)arg)++;
    return sizes[1] == sizes[0] + sizes[2] ? STATUS_OK
                                           : err_set(why, STATUS_INVALID_ARGUMENT, "the mask does not fit");
}

static status_t takes_nothing(void *arg, const uint32_t *sizes, err_t *why)
{
    (*(int *)arg)++;
    return err_set(why, STATUS_INVALID_ARGUMENT, "not %u", sizes[0]);
}

Test(model_shapes, fit_together)
{
    int runs = 0;

    give(&(engine_tensor_t){
        .name = "x", .rank = 4, .dims = {-1, -1, -1, 2}, .symbols = {"words", "total", "past"}});
    choice.ops = &unable;
    choice.takes = takes_sums;
    choice.takes_arg = &runs;
    cr_expect_str_eq(chosen(), "1x17x16 1x129x128 1x513x512");
    cr_expect_lt(runs, 24, "%d", runs);
    runs = 0;
    choice.takes = takes_nothing;
    cr_expect(strstr(chosen(), "profile_shapes: not "), "%s", err.text);
    cr_expect_lt(runs, 128, "%d", runs);
}

Test(model_shapes, rows_that_run_alone_are_few)
{
    give(&(engine_tensor_t){.name = "x", .rank = 2, .dims = {-1, 8}, .symbols = {"batch"}});
    info.batchable = false;
    choice.ops = &unable;
    cr_expect_str_eq(chosen(), "1 2 3");
    give_table();
    info.batchable = false;
    choice.ops = &unable;
    cr_expect_str_eq(chosen(), "1x16 1x128 1x512");
}

/* ---- what config.yaml asks for ---- */

Test(model_shapes, are_those_of_the_config_by_what_they_cost)
{
    give_table();
    refer("columns", 30, "rows", 20);
    refer("rows", 4, "columns", 5);
    refer("rows", 30, "columns", 20);
    refer("rows", 8, "columns", 8);
    cr_expect_str_eq(chosen(), "4x5 8x8 20x30", "two of 600 elements cost the same");
    cr_expect(shapes.wanted);
    cr_expect_eq(prepared, 0, "the config is trusted until they are measured");
}

Test(model_shapes, a_config_must_give_every_size_and_keep_its_bounds)
{
    give_table();
    bound("rows", 64);
    refer("rows", 64, NULL, 0);
    cr_expect_str_eq(chosen(), "profile_shapes: an entry has no size for 'columns'");
    config.reference_count = 0, config.references[0].count = 0;
    refer("rows", 65, "columns", 1);
    cr_expect_str_eq(chosen(), "profile_shapes: 65 is beyond the largest size of 'rows', 64");
    config.reference_count = 0, config.references[0].count = 0;
    refer("rows", 64, "sides", 1);
    cr_expect_str_eq(chosen(), "profile_shapes: no dimension 'sides' varies in this model");
}

static void pad_words(uint32_t count)
{
    dim_config_t *dim = bound("words", count * 10);

    for (uint32_t i = 0; i < count; i++)
        dim->pad_to[i] = (i + 1) * 10;
    dim->pad_to_count = count;
}

Test(model_shapes, are_what_inputs_are_padded_to)
{
    pad_words(3);
    cr_expect_str_eq(chosen(), "10 20 30");
    cr_expect(shapes.wanted);
    config.dim_count = 0;
    pad_words(1);
    cr_expect_str_eq(chosen(), "10");
    config.dim_count = 0;
    pad_words(PAD_SIZES_MAX);
    cr_expect_str_eq(chosen(), "10 50 90 140 180 230 270 320", "spread, from the least to the largest");
}

Test(model_shapes, what_is_not_padded_is_of_a_usual_size)
{
    dim_config_t *dim;

    give_table();
    dim = bound("columns", 40);
    dim->pad_to[0] = 20, dim->pad_to[1] = 40, dim->pad_to_count = 2;
    cr_expect_str_eq(chosen(), "128x20 128x40");
    bound("rows", 50);
    cr_expect_str_eq(chosen(), "50x20 50x40");
}

Test(model_shapes, are_that_of_the_picture_pipeline)
{
    give_picture();
    choice.picture_input = "image", choice.picture_width = 320, choice.picture_height = 240;
    cr_expect_str_eq(chosen(), "240x320");
    cr_expect(shapes.wanted);
    choice.picture_input = "other";
    cr_expect_str_eq(chosen(), "224x224 448x448");
    give(&(engine_tensor_t){.name = "image", .rank = 3, .dims = {-1, -1, 3}, .symbols = {"h", "w"}});
    choice.picture_input = "image", choice.picture_width = 320, choice.picture_height = 240;
    choice.channels_last = true;
    cr_expect_str_eq(chosen(), "240x320");
}

Test(model_shapes, a_picture_that_the_bounds_do_not_admit_is_refused)
{
    give_picture();
    choice.picture_input = "image", choice.picture_width = 320, choice.picture_height = 240;
    bound("w", 320), bound("h", 239);
    cr_expect_str_eq(chosen(), "preprocess: 240 is beyond the largest size of 'h', 239");
    refer("w", 100, "h", 100);
    cr_expect_str_eq(chosen(), "preprocess: 240 is beyond the largest size of 'h', 239");
    config.dims[1].size_max = 240;
    cr_expect_str_eq(chosen(), "100x100");
}

/* ---- what is usual ---- */

Test(model_shapes, are_usual_lengths_within_bounds)
{
    cr_expect_str_eq(chosen(), "16 128 512");
    cr_expect_not(shapes.wanted);
    bound("words", 64);
    cr_expect_str_eq(chosen(), "16 64");
    choice.ops = &unable;
    cr_expect_str_eq(chosen(), "16 64", "an engine that cannot tell is believed to take them");
}

Test(model_shapes, the_model_need_not_take_all_of_them)
{
    dim_min = 100;
    cr_expect_str_eq(chosen(), "128 512");
    give_picture();
    dim_min = 0;
    cr_expect_str_eq(chosen(), "224x224 448x448");
    bound("h", 100), bound("w", 100);
    dim_min = 3;
    cr_expect_str_eq(chosen(), "100x100");
    config.dim_count = 0, dim_max = 200;
    cr_expect_str_eq(chosen(), "16x16 128x128", "pictures as small as texts are long");
}

Test(model_shapes, if_it_takes_none_the_config_must_say)
{
    dim_min = 600;
    cr_expect_eq(choose(), STATUS_INVALID_ARGUMENT);
    cr_expect(strstr(err.text, "config.yaml must give profile_shapes: no kernel"), "%s", err.text);
    refer("words", 700, NULL, 0);
    cr_expect_str_eq(chosen(), "700");
}

/* ---- preparing ---- */

Test(model_shapes, every_batch_is_prepared_where_the_config_wants_it)
{
    const _Atomic(int) stop = 0;

    pad_words(2);
    cr_assert_eq(choose(), STATUS_OK);
    cr_expect_eq(shapes_prepare(&shapes, &ops, NULL, &stop, &err), STATUS_OK);
    cr_expect_str_eq(log_text, "1x10 2x10 3x10 1x20 2x20 3x20 ");
    cr_expect_eq(shapes_prepare(&shapes, &unable, NULL, &stop, &err), STATUS_OK);

    config.dim_count = 0, log_text[0] = '\0';
    cr_assert_eq(choose(), STATUS_OK);
    log_text[0] = '\0';
    cr_expect_eq(shapes_prepare(&shapes, &ops, NULL, &stop, &err), STATUS_OK);
    cr_expect_str_eq(log_text, "", "nobody says that requests will have usual sizes");
}

Test(model_shapes, preparing_ends_with_the_first_failure_or_when_told)
{
    _Atomic(int) stop = 0;

    pad_words(2);
    cr_assert_eq(choose(), STATUS_OK);
    fail_at = 5;
    cr_expect_eq(shapes_prepare(&shapes, &ops, NULL, &stop, &err), STATUS_NO_MEMORY);
    cr_expect_str_eq(log_text, "1x10 2x10 3x10 1x20 ");
    stop = 1;
    log_text[0] = '\0';
    cr_expect_eq(shapes_prepare(&shapes, &ops, NULL, &stop, &err), STATUS_CANCELLED);
    cr_expect_str_eq(log_text, "");
}

/* ---- correcting ---- */

/* References of 10 and 100 words, which take 1 ms and 10 ms at any batch size. */
static void measure(void)
{
    profile_t profile;

    refer("words", 10, NULL, 0);
    refer("words", 100, NULL, 0);
    cr_assert_eq(choose(), STATUS_OK, "%s", err.text);
    shapes.family = (family_t){0};
    for (uint32_t r = 0; r < 2; r++) {
        cr_assert_eq(profile_from_line(&profile, 0, shapes.references[r][0] * 100000, 3, &err), STATUS_OK);
        cr_assert_eq(family_add(&shapes.family, shapes.references[r][0], &profile, &err), STATUS_OK);
    }
    shapes_start(&shapes);
}

static int64_t after_many(uint32_t taken_by, int64_t took_ns, uint32_t words)
{
    for (int i = 0; i < 2000; i++)
        shapes_took(&shapes, &taken_by, 2, took_ns);
    shapes_correct(&shapes);
    return shapes_latency_ns(&shapes, &words, 2);
}

Test(model_shapes, a_batch_moves_the_reference_that_is_the_closest)
{
    measure();
    uint32_t small = 10, large = 100;
    int64_t large_ns = shapes_latency_ns(&shapes, &large, 2),
            small_ns = shapes_latency_ns(&shapes, &small, 2);

    cr_expect_eq(after_many(small, 2 * small_ns, large), large_ns, "not the one far away");
    cr_expect_gt(shapes_latency_ns(&shapes, &small, 2), small_ns * 3 / 2);
}

Test(model_shapes, batches_between_references_say_as_much_as_they_differ_from_what_was_foreseen)
{
    measure();
    uint32_t between = 80, large = 100;
    int64_t large_ns = shapes_latency_ns(&shapes, &large, 2);

    cr_expect_lt(after_many(between, 8 * large_ns / 10, large), large_ns * 105 / 100);
    cr_expect_gt(after_many(between, 12 * large_ns / 10, large), large_ns * 13 / 10);
}

Test(model_shapes, batches_beyond_the_references_say_nothing_about_them)
{
    measure();
    uint32_t small = 10, large = 100;
    int64_t large_ns = shapes_latency_ns(&shapes, &large, 2),
            small_ns = shapes_latency_ns(&shapes, &small, 2);

    cr_expect_eq(after_many(1000, 100 * large_ns, large), large_ns);
    cr_expect_eq(after_many(1, 100 * large_ns, small), small_ns);
}
