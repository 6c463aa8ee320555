/*
 * Where models are cut into stages.
 */
#include "exec/stages.h"

#include <criterion/criterion.h>
#include <string.h>

enum { OPS = 8 };
static const uint32_t all[] = {1, 2, 3, 4, 5, 6, 7}, few[] = {2, 5, 6};
static const stages_model_t everywhere = {.ops = OPS, .cuts = all, .cut_count = 7};
static const stages_model_t somewhere = {.ops = OPS, .cuts = few, .cut_count = 3};
static uint32_t at[STAGED_STAGES_MAX];

static void expect(uint32_t count, const uint32_t *want, uint32_t want_count)
{
    cr_assert_eq(count, want_count, "%u cuts", count);
    cr_assert(!count || !memcmp(at, want, count * sizeof *want), "%u %u %u", at[0], at[1], at[2]);
}

Test(stages, of_equal_time)
{
    static const int64_t equal[OPS] = {1, 1, 1, 1, 1, 1, 1, 1}, heavy[OPS] = {50, 1, 1, 1, 1, 1, 1, 44};
    expect(stages_even(&everywhere, equal, 4, at), (uint32_t[]){2, 4, 6}, 3);
    expect(stages_even(&everywhere, heavy, 2, at), (uint32_t[]){1}, 1);
    expect(stages_even(&everywhere, heavy, 3, at), (uint32_t[]){1, 7}, 2);
    expect(stages_even(&everywhere, equal, 1, at), NULL, 0);
}

Test(stages, only_at_cuts)
{
    static const int64_t equal[OPS] = {1, 1, 1, 1, 1, 1, 1, 1};
    expect(stages_even(&somewhere, equal, 2, at), (uint32_t[]){5}, 1);
    expect(stages_even(&somewhere, equal, 4, at), few, 3);
    expect(stages_even(&somewhere, equal, 20, at), few, 3);
}

Test(stages, the_longest_part_is_known)
{
    static const int64_t op_ns[OPS] = {1, 4, 2, 3, 1, 5, 3, 1}, none[OPS] = {0};
    cr_assert_float_eq(stages_longest(&everywhere, op_ns, (uint32_t[]){2, 5}, 2), 9.0 / 20, 1e-9, "the last");
    cr_assert_float_eq(stages_longest(&everywhere, op_ns, (uint32_t[]){6, 7}, 2), 16.0 / 20, 1e-9,
                       "the first");
    cr_assert_float_eq(stages_longest(&everywhere, op_ns, (uint32_t[]){1, 5}, 2), 10.0 / 20, 1e-9);
    cr_assert_float_eq(stages_longest(&everywhere, op_ns, NULL, 0), 1, 1e-9);
    cr_assert_float_eq(stages_longest(&everywhere, none, (uint32_t[]){4}, 1), 1, 1e-9, "nothing is known");
}

Test(stages, where_somebody_says)
{
    err_t err;
    cr_assert_eq(stages_named(&somewhere, (uint32_t[]){2, 6}, 2, at, &err), STATUS_OK);
    expect(2, (uint32_t[]){2, 6}, 2);
    cr_assert_eq(stages_named(&somewhere, (uint32_t[]){2, 4}, 2, at, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(err.text, "the model cannot be cut before operator 4; the nearest places are 2 and 5");
    cr_assert_eq(stages_named(&somewhere, (uint32_t[]){6, 2}, 2, at, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(err.text, "cut 2 comes after cut 6");
}

/* Operators 0..2 cost the same for 1 as for 8 rows, 3..5 cost by the row, 6 and 7 are full with 4. */
Test(stages, where_the_preferred_size_changes)
{
    static const uint32_t sizes[] = {1, 2, 4, 8};
    static const int64_t op_ns[4 * OPS] = {80, 80, 80, 10, 10, 10, 40, 40, 80, 80, 80, 20, 20, 20, 40, 40,
                                           80, 80, 80, 40, 40, 40, 40, 40, 80, 80, 80, 80, 80, 80, 80, 80};
    const stages_profile_t profile = {.sizes = sizes, .size_count = 4, .op_ns = op_ns};
    cr_assert_eq(stages_preferred_size(&everywhere, &profile, 0, 3), 3);
    cr_assert_eq(stages_preferred_size(&everywhere, &profile, 3, 6), 0);
    cr_assert_eq(stages_preferred_size(&everywhere, &profile, 6, 8), 2);
    expect(stages_by_preference(&everywhere, &profile, 8, at), (uint32_t[]){3, 6}, 2);
    expect(stages_by_preference(&everywhere, &profile, 2, at), (uint32_t[]){3}, 1);
}

Test(stages, short_ones_are_not_worth_a_cut)
{
    static const uint32_t sizes[] = {1, 2};
    static const int64_t op_ns[2 * OPS] = {100, 100, 100, 1, 100, 100, 100, 100,
                                           100, 100, 100, 2, 100, 100, 100, 100};
    const stages_profile_t profile = {.sizes = sizes, .size_count = 2, .op_ns = op_ns};
    expect(stages_by_preference(&everywhere, &profile, 8, at), NULL, 0);
}
