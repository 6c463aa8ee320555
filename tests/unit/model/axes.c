#include "model/parts/axes.h"

#include <criterion/criterion.h>
#include <endian.h>
#include <stdio.h>
#include <string.h>

/* Words of one length in two inputs, a picture of any size, and boxes whose number only the model knows. */
static const engine_tensor_t inputs[] = {
    {.name = "ids", .dtype = DTYPE_I64, .rank = 1, .dims = {-1}, .symbols = {"sequence"}},
    {.name = "mask", .dtype = DTYPE_U8, .rank = 1, .dims = {-1}, .symbols = {"sequence"}},
    {.name = "image", .dtype = DTYPE_F32, .rank = 3, .dims = {3, -1, -1}},
};
static const engine_tensor_t outputs[] = {
    {.name = "tags", .dtype = DTYPE_F32, .rank = 2, .dims = {-1, 5}, .symbols = {"sequence"}},
    {.name = "boxes", .dtype = DTYPE_F32, .rank = 2, .dims = {-1, 4}, .symbols = {"found"}},
};
static const shape_config_t nothing;
static engine_model_info_t info;
static shape_config_t config;
static axes_t axes;
static err_t err;

static void set_up(void)
{
    config = nothing;
    err = (err_t){0};
    info = (engine_model_info_t){
        .inputs = inputs, .outputs = outputs, .input_count = 3, .output_count = 2, .batchable = true};
    cr_assert_eq(axes_find(&axes, &info, &nothing, &err), STATUS_OK, "%s", err.text);
}

TestSuite(axes, .init = set_up);

static void name_dim(const char *name, uint32_t size_max)
{
    dim_config_t *dim = &config.dims[config.dim_count++];

    snprintf(dim->name, sizeof(dim->name), "%s", name);
    dim->size_max = size_max;
}

/* The model has `count` float inputs with three dimensions that vary, and `last`. */
static void give_cubes(uint32_t count, int64_t last)
{
    static engine_tensor_t cubes[2];

    for (uint32_t i = 0; i < count; i++)
        cubes[i] = (engine_tensor_t){
            .dtype = DTYPE_F32, .rank = 4, .dims = {-1, -1, -1, last}, .symbols = {"x", "y", "z", "w"}};
    info = (engine_model_info_t){.inputs = cubes, .input_count = count, .batchable = true};
    cr_assert_eq(axes_find(&axes, &info, &nothing, &err), STATUS_OK, "%s", err.text);
}

/* ---- finding them ---- */

Test(axes, of_one_name_are_one_and_others_are_named_after_their_input)
{
    cr_assert_eq(axes.count, 3);
    cr_expect_str_eq(axes.list[0].name, "sequence");
    cr_expect_str_eq(axes.list[1].name, "image[2]", "the batch counts as a dimension");
    cr_expect_str_eq(axes.list[2].name, "image[3]");
    cr_expect_eq(axes.list[0].size_max, AXIS_SIZE_MAX);
    cr_expect_eq(axes.of_input[0][0], 1);
    cr_expect_eq(axes.of_input[1][0], 1);
    cr_expect_eq(axes.of_input[2][0], 0, "that is always 3");
    cr_expect_eq(axes.of_input[2][2], 3);
    cr_expect_eq(axes_index(&axes, "image[3]"), 2);
    cr_expect_eq(axes_index(&axes, "found"), -1, "no request says how many");

    info.batchable = false;
    cr_assert_eq(axes_find(&axes, &info, &nothing, &err), STATUS_OK);
    cr_expect_str_eq(axes.list[1].name, "image[1]");
}

Test(axes, outputs_follow_one_or_are_open)
{
    cr_expect_eq(axes.open_outputs, 2);
    cr_expect_eq(axes.of_output[0][0], 1);
    cr_expect_eq(axes.of_output[0][1], 0);
    cr_expect_eq(axes.of_output[1][0], 0);
}

Test(axes, are_present_where_inputs_or_outputs_vary)
{
    static const engine_tensor_t fixed = {.name = "x", .rank = 2, .dims = {3, 0}};

    cr_expect(axes_present(&info));
    info.inputs = &fixed, info.input_count = 1;
    cr_expect(axes_present(&info), "for the outputs");
    cr_assert_eq(axes_find(&axes, &info, &nothing, &err), STATUS_OK);
    cr_expect_eq(axes.count, 0);
    cr_expect_eq(axes.open_outputs, 2);
    info.output_count = 0;
    cr_expect_not(axes_present(&info));
}

Test(axes, take_bounds_and_padding_from_the_config)
{
    name_dim("image[3]", 640);
    name_dim("sequence", 64);
    config.dims[1].pad_to_count = 2;
    memcpy(config.dims[1].pad_to, (uint32_t[]){16, 64}, 2 * sizeof(uint32_t));
    config.pad_values[config.pad_value_count++] = (pad_value_t){"mask", 7};
    cr_assert_eq(axes_find(&axes, &info, &config, &err), STATUS_OK, "%s", err.text);
    cr_expect_eq(axes.list[0].size_max, 64);
    cr_expect_eq(axes.list[0].pad_to_count, 2);
    cr_expect_eq(axes.list[0].pad_to[1], 64);
    cr_expect_eq(axes.list[1].size_max, AXIS_SIZE_MAX);
    cr_expect_eq(axes.list[2].size_max, 640);
    cr_expect_eq(axes.pad_value[1], 7);
    cr_expect_eq(axes.pad_value[0], 0);
}

Test(axes, refuse_a_config_that_names_what_the_model_has_not)
{
    name_dim("sequence", 64);
    name_dim("found", 9);
    cr_expect_eq(axes_find(&axes, &info, &config, &err), STATUS_INVALID_ARGUMENT);
    cr_expect(strstr(err.text, "dims: no dimension 'found'"), "%s", err.text);

    config.dim_count = 1;
    config.pad_values[config.pad_value_count++] = (pad_value_t){"tags", 7};
    cr_expect_eq(axes_find(&axes, &info, &config, &err), STATUS_INVALID_ARGUMENT);
    cr_expect(strstr(err.text, "pad_value: the model has no input 'tags'"), "%s", err.text);
}

Test(axes, are_bounded_in_number)
{
    engine_tensor_t many[AXES_MAX / 4 + 1];
    char names[AXES_MAX / 4 + 1][8];

    for (uint32_t i = 0; i <= AXES_MAX / 4; i++) {
        snprintf(names[i], sizeof(names[i]), "x%u", i);
        many[i] = (engine_tensor_t){.name = names[i], .rank = 4, .dims = {-1, -1, -1, -1}};
    }
    info = (engine_model_info_t){.inputs = many, .input_count = AXES_MAX / 4};
    cr_assert_eq(axes_find(&axes, &info, &nothing, &err), STATUS_OK, "%s", err.text);
    cr_expect_eq(axes.count, AXES_MAX);
    cr_expect_eq(axes.of_input[AXES_MAX / 4 - 1][3], AXES_MAX);
    info.input_count++;
    cr_expect_eq(axes_find(&axes, &info, &nothing, &err), STATUS_UNSUPPORTED);
    cr_expect(strstr(err.text, "more than 16 dimensions"), "%s", err.text);
}

Test(axes, refuse_names_that_are_too_long)
{
    char symbol[AXIS_NAME_BYTES + 1];
    engine_tensor_t tensor = {.name = "x", .rank = 1, .dims = {-1}, .symbols = {symbol}};

    memset(symbol, 's', sizeof(symbol));
    symbol[AXIS_NAME_BYTES - 1] = '\0';
    info = (engine_model_info_t){.inputs = &tensor, .input_count = 1};
    cr_assert_eq(axes_find(&axes, &info, &nothing, &err), STATUS_OK, "%s", err.text);
    cr_expect_str_eq(axes.list[0].name, symbol);
    symbol[AXIS_NAME_BYTES - 1] = 's', symbol[AXIS_NAME_BYTES] = '\0';
    cr_expect_eq(axes_find(&axes, &info, &nothing, &err), STATUS_UNSUPPORTED);
    cr_expect(strstr(err.text, "input 'x'"), "%s", err.text);

    tensor.name = symbol, tensor.symbols[0] = NULL;
    cr_expect_eq(axes_find(&axes, &info, &nothing, &err), STATUS_UNSUPPORTED, "nor after an input");
}

/* ---- using them ---- */

Test(axes, object_to_sizes_that_the_model_does_not_take)
{
    name_dim("sequence", 64);
    cr_assert_eq(axes_find(&axes, &info, &config, &err), STATUS_OK);
    cr_expect_null(axes_objection(&axes, (uint32_t[]){64, 1, AXIS_SIZE_MAX}, 3));
    cr_expect_not_null(axes_objection(&axes, (uint32_t[]){65, 1, 1}, 3));
    cr_expect_null(axes_objection(&axes, (uint32_t[]){64, 0, 1}, 3), "nothing is a size");
    cr_expect_not_null(axes_objection(&axes, (uint32_t[]){64, 1, UINT32_MAX}, 3));
    cr_expect_not_null(axes_objection(&axes, (uint32_t[]){64, 1}, 2));
    cr_expect_not_null(axes_objection(&axes, (uint32_t[]){64, 1, 1, 1}, 4));
    cr_expect_not_null(axes_objection(&axes, NULL, 0));
}

Test(axes, tell_how_large_a_row_is)
{
    const uint32_t sizes[] = {10, 20, 30};

    cr_expect_eq(axes_row_bytes(&axes, 0, sizes), 10 * 8);
    cr_expect_eq(axes_row_bytes(&axes, 1, sizes), 10);
    cr_expect_eq(axes_row_bytes(&axes, 2, sizes), 3 * 20 * 30 * 4);
    cr_expect_eq(axes_elements(&axes, sizes), 10 + 10 + 3 * 20 * 30);
    cr_expect_eq(axes_length(&axes, sizes), 10 + 10 + 3 * 20 * 30);
}

Test(axes, sizes_that_overflow_are_no_small_row)
{
    const uint32_t most[] = {AXIS_SIZE_MAX, AXIS_SIZE_MAX, AXIS_SIZE_MAX, AXIS_SIZE_MAX};

    give_cubes(1, -1);
    cr_expect_eq(axes_elements(&axes, most), UINT64_MAX, "2^80");
    cr_expect_eq(axes_row_bytes(&axes, 0, most), UINT64_MAX);
    give_cubes(1, 4);
    cr_expect_eq(axes_elements(&axes, most), 1ULL << 62);
    cr_expect_eq(axes_length(&axes, most), UINT32_MAX);
    cr_expect_eq(axes_row_bytes(&axes, 0, most), UINT64_MAX, "2^64 bytes");
    give_cubes(2, 8);
    cr_expect_eq(axes_elements(&axes, most), UINT64_MAX, "twice 2^63");
}

Test(axes, lay_out_the_inputs_of_a_batch)
{
    engine_shape_t shapes[ENGINE_MAX_IO];

    axes_input_shapes(&axes, (uint32_t[]){10, 20, 30}, 6, shapes);
    cr_expect_eq(shapes[1].rank, 2);
    cr_expect_arr_eq(shapes[1].dims, ((int64_t[]){6, 10}), 2 * sizeof(int64_t));
    cr_expect_eq(shapes[2].rank, 4);
    cr_expect_arr_eq(shapes[2].dims, ((int64_t[]){6, 3, 20, 30}), 4 * sizeof(int64_t));

    info.batchable = false;
    axes_input_shapes(&axes, (uint32_t[]){10, 20, 30}, 1, shapes);
    cr_expect_eq(shapes[2].rank, 3);
    cr_expect_arr_eq(shapes[2].dims, ((int64_t[]){3, 20, 30}), 3 * sizeof(int64_t));
}

Test(axes, an_output_is_as_many_rows_of_what_the_model_says_or_does_not_fit)
{
    const engine_shape_t good = {.rank = 3, .dims = {6, 9, 4}}, flat = {.rank = 2, .dims = {6, 36}},
                         wide = {.rank = 3, .dims = {6, 9, 5}}, none = {.rank = 3, .dims = {6, 0, 4}},
                         endless = {.rank = 3, .dims = {6, UINT32_MAX + 1LL, 4}};

    cr_expect(axes_output_fits(&info, 1, &good, 6));
    cr_expect(axes_output_fits(&info, 1, &none, 6), "nothing found");
    cr_expect_not(axes_output_fits(&info, 1, &good, 5));
    cr_expect_not(axes_output_fits(&info, 1, &flat, 6));
    cr_expect_not(axes_output_fits(&info, 1, &wide, 6));
    cr_expect_not(axes_output_fits(&info, 1, &endless, 6), "its size travels in 32 bits");
    cr_expect_eq(axes_output_row_bytes(&info, 1, &good), 9 * 4 * 4);
    cr_expect_eq(axes_output_row_bytes(&info, 1, &none), 0);

    info.batchable = false;
    const engine_shape_t whole = {.rank = 2, .dims = {9, 4}};
    cr_expect(axes_output_fits(&info, 1, &whole, 1));
    cr_expect_not(axes_output_fits(&info, 1, &good, 6));
    cr_expect_eq(axes_output_row_bytes(&info, 1, &whole), 9 * 4 * 4);
}

Test(axes, the_bytes_of_an_impossible_output_are_no_small_number)
{
    const engine_shape_t shape = {.rank = 4, .dims = {1, UINT32_MAX, UINT32_MAX, 4}};

    cr_expect_eq(axes_output_row_bytes(&info, 1, &shape), UINT64_MAX);
}

Test(axes, the_sizes_of_outputs_travel_in_their_order)
{
    const engine_shape_t shapes[] = {{.rank = 3, .dims = {6, 10, 5}}, {.rank = 3, .dims = {6, 2, 4}}};
    uint32_t sizes[3] = {0, 0, 77};

    axes_output_sizes(&axes, shapes, sizes);
    cr_expect_eq(le32toh(sizes[0]), 10);
    cr_expect_eq(le32toh(sizes[1]), 2);
    cr_expect_eq(sizes[2], 77, "no more than are open");
}
