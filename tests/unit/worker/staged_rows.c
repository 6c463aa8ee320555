/* Which rows can share a batch of the stages, where several axes vary. */
#include "worker/modes/executor_staged.h"

#include <criterion/criterion.h>
#include <string.h>

enum { AXES = 3, BATCHES = 4 };

static engine_tensor_t inputs[] = {{.name = "image",
                                    .dtype = DTYPE_F32,
                                    .rank = AXES,
                                    .dims = {-1, -1, -1},
                                    .symbols = {"height", "width", "channels"}}};
static const engine_model_info_t info = {.inputs = inputs, .input_count = 1, .batchable = true};
static model_shapes_t shapes;
static model_stages_t stages;
static model_t model;
static staged_t staged;
static batch_t batches[BATCHES];
static batch_shapes_t sizes[BATCHES];
static stage_shapes_t not_read;

/* References in order of their elements; the last holds all. */
static void set_up(void)
{
    static const shape_config_t config = {
        .dim_count = 2,
        .dims = {{.name = "height", .size_max = 8, .pad_to = {4, 8}, .pad_to_count = 2},
                 {.name = "width", .size_max = 8, .pad_to = {4, 8}, .pad_to_count = 2}}};
    static const uint32_t references[][AXES] = {{2, 4, 3}, {4, 2, 3}, {4, 4, 3}, {8, 8, 3}};

    cr_assert_eq(axes_find(&shapes.axes, &info, &config, NULL), STATUS_OK);
    for (uint32_t i = 0; i < 4; i++) {
        memcpy(shapes.references[i], references[i], sizeof(references[i]));
        stages.pads[i] = true;
    }
    shapes.reference_count = 4;
    stages.shapes = &shapes;
    model.shapes = &shapes;
    model.info = &info;
    staged = (staged_t){.model = &model, .stages = &stages, .shapes = &not_read};
}

TestSuite(staged_rows, .init = set_up);

static const batch_t *come(uint32_t slot, uint32_t height, uint32_t width, uint32_t channels)
{
    sizes[slot] = (batch_shapes_t){.sizes = {height, width, channels}};
    batches[slot] = (batch_t){.shapes = &sizes[slot]};
    staged.slots[slot] = &batches[slot];
    staged_rows_come(&staged, &batches[slot]);
    return &batches[slot];
}

Test(staged_rows, a_row_is_as_long_as_the_least_reference_that_holds_it)
{
    cr_expect_eq(come(0, 1, 4, 3)->length, 2 * 4 * 3);
    cr_expect_eq(batches[0].pad_to, shapes.references[0]);
    cr_expect_eq(come(1, 3, 3, 3)->length, 4 * 4 * 3);
    cr_expect_eq(come(2, 5, 7, 3)->length, 8 * 8 * 3);
    cr_expect_eq(batches[0].shape, batches[1].shape);
    cr_expect_eq(batches[1].shape, batches[2].shape);
}

Test(staged_rows, what_is_in_neither_reference_shares_no_batch)
{
    come(0, 2, 4, 3);
    come(1, 4, 2, 3);
    cr_expect_neq(batches[0].shape, batches[1].shape);
    come(2, 4, 4, 3);
    cr_expect_eq(batches[2].shape, batches[0].shape, "it holds both; one it must be");
    come(3, 4, 2, 3);
    cr_expect_eq(batches[3].shape, batches[1].shape);
}

Test(staged_rows, a_row_is_not_padded_to_more_than_twice_its_size)
{
    cr_expect_eq(come(0, 4, 8, 3)->pad_to, shapes.references[3]);
    cr_expect_null(come(1, 5, 6, 3)->pad_to);
    cr_expect_eq(batches[1].length, 5 * 6 * 3);
    cr_expect_neq(batches[1].shape, batches[0].shape);
}

Test(staged_rows, what_no_reference_holds_shares_a_batch_with_its_like_only)
{
    come(0, 2, 4, 5);
    come(1, 2, 2, 5);
    cr_expect_null(batches[0].pad_to);
    cr_expect_eq(batches[0].length, 2 * 4 * 5);
    cr_expect_neq(batches[0].shape, batches[1].shape, "no reference has five channels");
    cr_expect_eq(come(2, 2, 4, 5)->shape, batches[0].shape);
    stages.pads[2] = stages.pads[3] = false;
    cr_expect_null(come(3, 4, 4, 3)->pad_to, "the stages are not prepared for it");
}
