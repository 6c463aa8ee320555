/* Means, their errors, and modes compared on the same queries. */
#include "fermata/profile/trial_stats.h"

#include <criterion/criterion.h>
#include <math.h>

enum { COUNT = 200 };

static int64_t base[COUNT], other[COUNT];

/* Two levels that change from block to block: an error of the mean, and none of what is common to both. */
static void fill(int64_t times)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        base[i] = (i / (COUNT / TRIAL_BLOCKS)) % 2 ? 30000000 : 10000000;
        other[i] = times * base[i];
    }
}

Test(trial_stats, what_both_share_is_no_error_of_the_change)
{
    double error;
    fill(1);
    cr_assert_float_eq(trial_change(other, base, COUNT, &error), 0, 1e-12);
    cr_assert_float_eq(error, 0, 1e-12);
    fill(2);
    cr_assert_float_eq(trial_change(other, base, COUNT, &error), 1, 1e-12);
    cr_assert_float_eq(error, 0, 1e-12);
}

/* One block of ten is twice as slow: the rest bears no part of that. */
Test(trial_stats, what_one_block_does_is)
{
    double error, block = (double)COUNT / TRIAL_BLOCKS;
    fill(1);
    for (uint32_t i = 0; i < COUNT; i++)
        base[i] = 10000000, other[i] = i < block ? 20000000 : 10000000;
    cr_assert_float_eq(trial_change(other, base, COUNT, &error), 0.1, 1e-12);
    cr_assert_float_eq(error, 2.262 * sqrt((0.9 * 0.9 + 9 * 0.1 * 0.1) / 9 / 10), 1e-9);
}

Test(trial_stats, a_sum)
{
    trial_result_t result;
    fill(1);
    base[COUNT - 1] = 90000000;
    trial_sum_up(base, COUNT, 4000000000, &result);
    cr_assert_float_eq(result.avg_ms, 20.3, 1e-9);
    cr_assert_float_eq(result.p99_ms, 30, 1e-9);
    cr_assert_float_eq(result.throughput_rps, 50, 1e-9);
    cr_assert(result.avg_error_ms > 7 && result.avg_error_ms < 8, "%g", result.avg_error_ms);
    cr_assert_eq(base[COUNT - 1], 90000000, "by size");
}
