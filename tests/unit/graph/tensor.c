#include "graph/ir/tensor.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

Test(half, every_half_survives_the_round_trip)
{
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        float value = half_to_float((uint16_t)bits);
        if (isnan(value))
            cr_assert(isnan(half_to_float(float_to_half(value))));
        else
            cr_assert_eq(float_to_half(value), bits, "%04x", bits);
    }
}

Test(half, rounds_to_nearest_even)
{
    cr_assert_eq(float_to_half(1.0f + 0x1p-11f), 0x3c00, "halfway, down to even");
    cr_assert_eq(float_to_half(1.0f + 3 * 0x1p-11f), 0x3c02, "halfway, up to even");
    cr_assert_eq(float_to_half(65519.0f), 0x7bff);
    cr_assert_eq(float_to_half(65520.0f), 0x7c00, "to infinity");
    cr_assert_eq(float_to_half(0x1p-25f), 0, "halfway to the smallest subnormal");
    cr_assert_eq(float_to_half(0x1.1p-25f), 1);
    cr_assert_eq(float_to_half(-0.0f), 0x8000);
}

Test(bf16, every_value_survives_the_round_trip)
{
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        float value = bf16_to_float((uint16_t)bits);
        if (!isnan(value))
            cr_assert_eq(float_to_bf16(value), bits, "%04x", bits);
    }
    cr_assert_eq(float_to_bf16(1.00390625f), 0x3f80, "halfway, down to even");
    cr_assert_eq(float_to_bf16(1.0f + 3 * 0x1p-8f), 0x3f82, "halfway, up to even");
    cr_assert_eq(float_to_bf16(1.0f + 0x1.01p-8f), 0x3f81, "not cut off");
    cr_assert_eq(float_to_bf16(-0x1.ff8p127f), 0xff80, "to infinity");
    cr_assert(isnan(bf16_to_float(float_to_bf16(NAN))));
}

Test(tensor, sizes_that_overflow_are_refused)
{
    err_t err;
    tensor_t t = {.dtype = DTYPE_F32, .rank = 3, .dims = {1 << 20, 1 << 20, 1 << 20}};
    cr_assert_eq(tensor_check(&t, &err), STATUS_TOO_LARGE);
    t.dims[0] = 0;
    cr_assert_eq(tensor_check(&t, &err), STATUS_TOO_LARGE, "a zero does not hide the rest");
    t.dims[1] = -1;
    cr_assert_eq(tensor_check(&t, &err), STATUS_INVALID_ARGUMENT);
    t = (tensor_t){.dtype = DTYPE_F32, .rank = 2, .dims = {0, 7}};
    cr_assert_eq(tensor_check(&t, &err), STATUS_OK);
    cr_assert_eq(tensor_bytes(&t), 0);
    t.dtype = DTYPE_STRING;
    cr_assert_eq(tensor_check(&t, &err), STATUS_UNSUPPORTED);
}

Test(tensor, text_is_bounded)
{
    char text[TENSOR_TEXT_BYTES];
    tensor_t t = {.dtype = DTYPE_I64, .rank = 8};
    cr_assert_str_eq(tensor_text(&(tensor_t){.dtype = DTYPE_F32, .rank = 2, .dims = {1, 3}}, text),
                     "f32[1,3]");
    for (int i = 0; i < 8; i++)
        t.dims[i] = INT64_MIN;
    cr_assert_lt(strlen(tensor_text(&t, text)), sizeof text);
}
