#include "worker/modes/pads.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* Pictures of any height and width, of `channels` elements each, and marks of one row of them. */
static engine_tensor_t inputs[] = {
    {.name = "image", .rank = 3, .dims = {-1, -1, -1}, .symbols = {"height", "width", "channels"}},
    {.name = "marks", .dtype = DTYPE_BOOL, .rank = 1, .dims = {-1}, .symbols = {"width"}},
    {.name = "scale", .dtype = DTYPE_F32, .rank = 0}};
static engine_tensor_t outputs[2];
static const engine_model_info_t info = {
    .inputs = inputs, .outputs = outputs, .input_count = 3, .output_count = 2, .batchable = true};
static const uint32_t own[] = {1, 2, 2}, wide[] = {2, 3, 2};
static axes_t axes;
static err_t err;

static void set_up(void)
{
    static shape_config_t config = {
        .dim_count = 2,
        .dims = {{.name = "height", .size_max = 8, .pad_to = {2, 8}, .pad_to_count = 2},
                 {.name = "width", .size_max = 8, .pad_to = {3, 8}, .pad_to_count = 2}},
        .pad_value_count = 2,
        .pad_values = {{"image", -2}, {"marks", 1}}};
    inputs[0].dtype = DTYPE_I8;
    outputs[0] = (engine_tensor_t){.name = "map",
                                   .dtype = DTYPE_U16,
                                   .rank = 3,
                                   .dims = {2, -1, -1},
                                   .symbols = {NULL, "height", "width"}};
    outputs[1] = (engine_tensor_t){.name = "class", .dtype = DTYPE_F32, .rank = 1, .dims = {5}};
    cr_assert_eq(axes_find(&axes, &info, &config, &err), STATUS_OK, "%s", err.text);
}

TestSuite(pads, .init = set_up);

Test(pads, a_row_is_laid_into_a_larger_one_with_the_pad_value)
{
    const int8_t image[1 * 2 * 2] = {1, 2, 3, 4};
    int8_t laid[2 * 3 * 2];
    pads_lay(&axes, 0, own, wide, image, laid);
    cr_expect_arr_eq(laid, ((int8_t[12]){1, 2, 3, 4, -2, -2, -2, -2, -2, -2, -2, -2}), sizeof(laid));
}

Test(pads, the_pad_value_is_one_of_the_type)
{
    const uint8_t marks[2] = {0, 1};
    const uint16_t half[4] = {1, 2, 3, 4};
    const int64_t words[4] = {1, 2, 3, 4};
    uint8_t laid_marks[3];
    uint16_t laid_half[12];
    int64_t laid_words[12];
    pads_lay(&axes, 1, own, wide, marks, laid_marks);
    cr_expect_arr_eq(laid_marks, ((uint8_t[3]){0, 1, 1}), 3);
    inputs[0].dtype = DTYPE_F16;
    pads_lay(&axes, 0, own, wide, half, laid_half);
    cr_expect_arr_eq(laid_half, ((uint16_t[6]){1, 2, 3, 4, 0xc000, 0xc000}), 12);
    inputs[0].dtype = DTYPE_BF16;
    pads_lay(&axes, 0, own, wide, half, laid_half);
    cr_expect_arr_eq(laid_half, ((uint16_t[6]){1, 2, 3, 4, 0xc000, 0xc000}), 12);
    inputs[0].dtype = DTYPE_U16;
    pads_lay(&axes, 0, own, wide, half, laid_half);
    cr_expect_arr_eq(laid_half, ((uint16_t[6]){1, 2, 3, 4, 0, 0}), 12, "the nearest that it has");
    inputs[0].dtype = DTYPE_I64;
    pads_lay(&axes, 0, own, wide, words, laid_words);
    cr_expect_arr_eq(laid_words, ((int64_t[6]){1, 2, 3, 4, -2, -2}), 48);
}

Test(pads, an_input_that_does_not_vary_stays_as_it_is)
{
    const float scale = 7;
    float laid = 0;
    pads_lay(&axes, 2, own, wide, &scale, &laid);
    cr_expect_float_eq(laid, 7, 0);
}

Test(pads, an_output_is_cut_back_along_the_axes_that_it_follows)
{
    const engine_shape_t map = {.rank = 4, .dims = {6, 2, 2, 3}}, other = {.rank = 2, .dims = {6, 5}};
    const uint16_t came[12] = {1, 2, 0, 0, 0, 0, 3, 4, 0, 0, 0, 0};
    uint16_t row[4];
    engine_shape_t cut;
    cr_assert_eq(pads_cut_shape(&axes, 0, own, wide, &map, &cut, &err), STATUS_OK);
    cr_expect_arr_eq(cut.dims, ((int64_t[4]){6, 2, 1, 2}), 32);
    pads_cut(&axes, 0, own, wide, came, row);
    cr_expect_arr_eq(row, ((uint16_t[4]){1, 2, 3, 4}), 8);
    cr_assert_eq(pads_cut_shape(&axes, 1, own, wide, &other, &cut, &err), STATUS_OK);
    cr_expect_arr_eq(cut.dims, other.dims, 16);
}

Test(pads, an_output_that_does_not_follow_its_axis_is_told)
{
    const engine_shape_t longer = {.rank = 4, .dims = {6, 2, 2, 4}};
    engine_shape_t cut;
    cr_assert_eq(pads_cut_shape(&axes, 0, own, wide, &longer, &cut, &err), STATUS_INTERNAL);
    cr_expect_str_eq(err.text, "output 'map' has 4 where 'width' was 3, so its padding is not known");
}

Test(pads, rows_nest_where_what_differs_is_padded)
{
    cr_expect(axes_can_pad(&axes));
    cr_expect(axes_nest(&axes, own, wide));
    cr_expect(axes_nest(&axes, own, own));
    cr_expect_not(axes_nest(&axes, wide, own));
    cr_expect_not(axes_nest(&axes, own, (uint32_t[]){8, 1, 2}), "narrower");
    cr_expect_not(axes_nest(&axes, own, (uint32_t[]){2, 3, 4}), "channels are not padded");
}

Test(pads, a_model_is_not_padded_whose_outputs_could_not_be_cut)
{
    static const shape_config_t nothing;
    outputs[1].dims[0] = -1; /* it has no name */
    cr_assert_eq(axes_find(&axes, &info, &nothing, &err), STATUS_OK);
    axes.list[0].pad_to_count = 1;
    cr_expect_not(axes_can_pad(&axes));
    outputs[1].symbols[0] = "channels";
    cr_assert_eq(axes_find(&axes, &info, &nothing, &err), STATUS_OK);
    cr_expect_not(axes_can_pad(&axes), "nobody said that it can be padded");
    axes.list[0].pad_to_count = 1;
    cr_expect(axes_can_pad(&axes));
}
