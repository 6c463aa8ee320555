#include "graph/ir/tensor.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* The kernel, asked to copy it, says what a read would run into. */
static bool can_be_read(const char *at)
{
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    bool can = write(ends[1], at, 1) == 1;
    close(ends[0]);
    close(ends[1]);
    return can;
}

Test(blob, what_is_dropped_cannot_be_read_until_there_is_room_again)
{
    enum { LEN = BLOB_DROP_LEAST_BYTES + 5 };
    blob_t *blob = blob_create(LEN);
    unsigned char *data = blob_data(blob);
    memset(data, 7, LEN);
    size_t dropped = blob_drop(blob);
    cr_expect_geq(dropped, BLOB_DROP_LEAST_BYTES - 4096 * 16u);
    cr_expect_not(can_be_read((char *)data + LEN / 2));
    cr_expect_eq(blob_drop(blob), 0, "once");
    cr_expect_eq(blob_restore(blob), dropped);
    cr_expect_eq(blob_data(blob), data);
    memset(data, 9, LEN);
    cr_expect_eq(data[LEN / 2], 9);
    cr_expect_eq(blob_restore(blob), 0, "it is there");
    cr_expect_gt(blob_drop(blob), 0);
    blob_unref(blob);
}

Test(blob, a_small_one_is_kept)
{
    blob_t *blob = blob_create(BLOB_DROP_LEAST_BYTES - 1);
    cr_expect_eq(blob_drop(blob), 0);
    cr_expect(can_be_read(blob_data(blob)));
    blob_unref(blob);
}

Test(blob, no_more_are_dropped_than_the_kernel_has_mappings_for)
{
    enum { TOO_MANY = BLOB_DROPS_MOST + 3 };
    blob_t **blobs = calloc(TOO_MANY, sizeof(*blobs));
    uint32_t dropped = 0;
    for (uint32_t i = 0; i < TOO_MANY; i++) {
        blobs[i] = blob_create(BLOB_DROP_LEAST_BYTES);
        dropped += blob_drop(blobs[i]) > 0;
    }
    cr_expect_eq(dropped, BLOB_DROPS_MOST);
    blob_unref(blobs[0]);
    cr_expect_gt(blob_drop(blobs[TOO_MANY - 1]), 0, "another one has been freed");
    for (uint32_t i = 1; i < TOO_MANY; i++)
        blob_unref(blobs[i]);
    free(blobs);
}
