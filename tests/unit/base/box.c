#include "base/box.h"

#include <criterion/criterion.h>
#include <string.h>

Test(box, a_small_one_is_laid_into_a_larger_one_and_taken_out_in_place)
{
    const int64_t small[] = {2, 2, 2}, wide[] = {2, 3, 4};
    const box_element_t element = {BOX_UNSIGNED, sizeof(uint16_t)};
    const uint16_t from[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    uint16_t to[24];
    box_fill(to, 24, element, 9);
    box_copy(to, wide, from, small, small, 3, sizeof(uint16_t));
    const uint16_t padded[24] = {1, 2, 9, 9, 3, 4, 9, 9, 9, 9, 9, 9, 5, 6, 9, 9, 7, 8, 9, 9, 9, 9, 9, 9};
    cr_expect_arr_eq(to, padded, sizeof padded);
    box_copy(to, small, to, wide, small, 3, sizeof(uint16_t));
    cr_expect_arr_eq(to, from, sizeof from);
}

Test(box, what_is_alike_behind_a_dimension_is_copied_at_once)
{
    const int64_t small[] = {2, 3}, wide[] = {4, 3};
    const uint8_t from[6] = {1, 2, 3, 4, 5, 6};
    uint8_t to[12] = {0};
    box_copy(to, wide, from, small, small, 2, 1);
    cr_expect_arr_eq(to, ((uint8_t[12]){1, 2, 3, 4, 5, 6}), 12);
    box_copy(to, wide, from + 5, small, small, 0, 1);
    cr_expect_eq(to[0], 6, "a scalar");
}

static uint64_t filled(box_kind_t kind, size_t bits, double value)
{
    uint64_t word = 0;
    box_fill(&word, 1, (box_element_t){kind, bits / 8}, value);
    return word;
}

Test(box, values_are_those_of_the_type)
{
    cr_expect_eq(filled(BOX_SIGNED, 8, -1), 0xff);
    cr_expect_eq(filled(BOX_SIGNED, 64, -2), UINT64_MAX - 1);
    cr_expect_eq(filled(BOX_SIGNED, 16, 1e9), 0x7fff);
    cr_expect_eq(filled(BOX_UNSIGNED, 8, -5), 0);
    cr_expect_eq(filled(BOX_UNSIGNED, 32, 1e12), UINT32_MAX);
    cr_expect_eq(filled(BOX_BOOL, 8, 0.5), 1);
    cr_expect_eq(filled(BOX_FLOAT, 32, 1), 0x3f800000);
    cr_expect_eq(filled(BOX_FLOAT, 64, 1), 0x3ff0000000000000);
    cr_expect_eq(filled(BOX_BFLOAT, 16, 1), 0x3f80);
    cr_expect_eq(filled(BOX_FLOAT, 16, 1), 0x3c00);
    cr_expect_eq(filled(BOX_FLOAT, 16, -65504), 0xfbff);
    cr_expect_eq(filled(BOX_FLOAT, 16, 1e6), 0x7c00);
    cr_expect_eq(filled(BOX_FLOAT, 16, 5.9604644775390625e-8), 0x0001, "the smallest of all");
    cr_expect_eq(filled(BOX_FLOAT, 16, -1e4), 0xf0e2);
    cr_expect_eq(filled(BOX_SIGNED, 64, 0), 0);
}
