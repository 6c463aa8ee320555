#include "engine/cuda/lower/view.h"

#include <criterion/criterion.h>
#include <string.h>

static view_t plain(uint32_t rank, const int64_t *dims)
{
    view_t v = {.dtype = DTYPE_F32, .rank = rank};
    memcpy(v.dims, dims, rank * sizeof *dims);
    view_set_layout(&v, LAYOUT_PLAIN);
    return v;
}

#define PLAIN(...) plain(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]){__VA_ARGS__})

static void collapse2(const view_t *a, const view_t *b, k_space_t *space, k_view_t k[2])
{
    view_collapse((const view_t *[]){a, b}, 2, space, (k_view_t *[]){&k[0], &k[1]});
}

Test(cuda_view, dense_operands_become_one_dimension)
{
    view_t a = PLAIN(2, 3, 4, 5);
    k_space_t space;
    k_view_t k[2];
    collapse2(&a, &a, &space, k);
    cr_assert_eq(space.rank, 1);
    cr_assert_eq(space.dims[0], 120);
    cr_assert_eq(k[1].strides[0], 1);
}

Test(cuda_view, broadcast_dimensions_stay_apart)
{
    view_t out = PLAIN(8, 64, 7, 7), bias = PLAIN(64, 1, 1), wide;
    k_space_t space;
    k_view_t k[2];
    cr_assert(view_broadcast(&bias, 4, out.dims, &wide));
    collapse2(&out, &wide, &space, k);
    cr_assert_eq(space.rank, 3);
    cr_assert_eq(space.dims[2], 49);
    cr_assert_eq(k[1].strides[0], 0);
    cr_assert_eq(k[1].strides[1], 1);
    cr_assert_eq(k[1].strides[2], 0);
}

Test(cuda_view, channels_innermost_walk_in_memory_order)
{
    view_t a = PLAIN(2, 8, 5, 5);
    k_space_t space;
    k_view_t k[2];
    view_set_layout(&a, LAYOUT_CHANNELS_LAST);
    cr_assert_eq(a.strides[1], 1);
    cr_assert_eq(a.strides[3], 8);
    cr_assert(view_is(&a, LAYOUT_CHANNELS_LAST));
    cr_assert_not(view_is(&a, LAYOUT_PLAIN));
    cr_assert(view_is_dense(&a));
    collapse2(&a, &a, &space, k);
    cr_assert_eq(space.rank, 1, "alike operands merge in any layout");
}

Test(cuda_view, a_slice_is_not_dense)
{
    view_t a = PLAIN(4, 6);
    view_slice(&a, 1, 2, 3, 1);
    cr_assert_eq(a.offset, 2);
    cr_assert_not(view_is_dense(&a));
    a = PLAIN(4, 6);
    view_slice(&a, 0, 3, 4, -1);
    cr_assert_eq(a.offset, 18);
    cr_assert_eq(a.strides[0], -6);
}

Test(cuda_view, shapes_that_do_not_go_together_are_refused)
{
    view_t a = PLAIN(3), wide;
    cr_assert_not(view_broadcast(&a, 2, (int64_t[]){2, 4}, &wide));
    cr_assert_not(view_broadcast(&a, 0, NULL, &wide));
}

Test(cuda_view, reshape_splits_and_merges_what_strides_allow)
{
    view_t a = PLAIN(2, 12, 5), heads, turned, back;
    cr_assert(view_reshape(&a, 4, (int64_t[]){2, 3, 4, 5}, &heads));
    cr_assert_eq(heads.strides[1], 20);
    view_permute(&heads, (uint32_t[]){0, 2, 1, 3}, &turned);
    cr_assert_eq(turned.strides[1], 5);
    cr_assert_not(view_reshape(&turned, 2, (int64_t[]){2, 60}, &back), "permuted dimensions do not merge");
    cr_assert(view_reshape(&turned, 5, (int64_t[]){2, 2, 2, 3, 5}, &back), "but they split");
    cr_assert_eq(back.strides[1], 10);
    cr_assert_eq(back.strides[2], 5);
}

Test(cuda_view, ones_come_and_go_in_any_layout)
{
    view_t a = PLAIN(4, 64, 1, 1), flat;
    view_set_layout(&a, LAYOUT_CHANNELS_LAST);
    cr_assert(view_is(&a, LAYOUT_PLAIN));
    cr_assert(view_reshape(&a, 2, (int64_t[]){4, 64}, &flat));
    cr_assert_eq(flat.strides[0], 64);
}

Test(cuda_view, what_needs_more_than_32_bits_is_found)
{
    view_t a = PLAIN(1 << 20, 1 << 10), b = PLAIN(1 << 20, 1 << 12), c = PLAIN(INT64_C(1) << 40);
    cr_assert(view_fits(&a));
    cr_assert_not(view_fits(&b));
    cr_assert_not(view_fits(&c));
}
