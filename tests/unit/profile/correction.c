#include "profile/correction.h"

#include "base/prng.h"

#include <criterion/criterion.h>

enum { MANY = 4000 };

static profile_t base, corrected;
static correction_t correction;

static void set_up(void)
{
    cr_assert_eq(profile_from_line(&base, 1000, 9000, 32, NULL), STATUS_OK);
    correction_init(&correction, 1);
}

TestSuite(correction, .init = set_up);

static void add(uint32_t batch, double times, int count)
{
    for (int i = 0; i < count; i++)
        correction_add(&correction, &base, batch,
                       (int64_t)((double)profile_latency_ns(&base, batch) * times));
}

Test(correction, nothing_measured_changes_nothing)
{
    cr_expect_not(correction_is_due(&correction));
    correction_apply(&correction, &base, &corrected);
    for (uint32_t b = 1; b <= 32; b++)
        cr_expect_eq(profile_latency_ns(&corrected, b), profile_latency_ns(&base, b), "batch %u", b);
    cr_expect_null(profile_validate(&corrected));
}

Test(correction, batches_as_predicted_change_nothing)
{
    add(4, 1, MANY);
    cr_expect_not(correction_is_due(&correction));
}

Test(correction, one_batch_moves_little)
{
    add(8, 1000, 1);
    cr_expect_float_eq(correction.factor[3], 1 + CORRECTION_PERCENTILE / CORRECTION_MEMORY, 1e-9);
    cr_expect_not(correction_is_due(&correction), "one hiccup is told nobody");
}

Test(correction, many_move_it_to_what_is_measured)
{
    add(8, 1.2, MANY);
    cr_assert(correction_is_due(&correction));
    correction_apply(&correction, &base, &corrected);
    cr_expect_float_eq((double)profile_latency_ns(&corrected, 8), 1.2 * 17000, 5);
    cr_expect_eq(profile_latency_ns(&corrected, 7), profile_latency_ns(&base, 7), "another class");
    cr_expect_not(correction_is_due(&correction), "it has been told");
    cr_expect_eq(corrected.max_batch, 32);
    cr_expect_null(profile_validate(&corrected));
}

Test(correction, stays_within_its_bounds)
{
    add(1, 50, MANY);
    add(16, 0.01, MANY);
    correction_apply(&correction, &base, &corrected);
    cr_expect_float_eq((double)profile_latency_ns(&corrected, 1), 2 * 10000, 5);
    cr_expect_geq(correction.factor[4], CORRECTION_LEAST - 1e-9);
    cr_expect_leq(correction.factor[0], CORRECTION_MOST + 1e-9);
    cr_expect_null(profile_validate(&corrected), "never falling all the same");
    cr_expect_geq(profile_latency_ns(&corrected, 16), profile_latency_ns(&corrected, 15));
}

Test(correction, comes_back_when_the_machine_does)
{
    add(2, 1.5, MANY);
    correction_apply(&correction, &base, &corrected);
    add(2, 1, MANY);
    cr_expect(correction_is_due(&correction));
    correction_apply(&correction, &base, &corrected);
    cr_expect_float_eq((double)profile_latency_ns(&corrected, 2), 11000, 5);
}

Test(correction, passes_over_what_is_no_measurement)
{
    correction_add(&correction, &base, 0, 5);
    correction_add(&correction, &base, 4, 0);
    correction_add(&correction, &base, 4, -1);
    cr_assert_eq(profile_from_line(&base, 0, 0, 4, NULL), STATUS_OK);
    correction_add(&correction, &base, 4, 100);
    for (int c = 0; c < CORRECTION_CLASSES; c++)
        cr_expect_eq(correction.factor[c], 1.0);
    correction_apply(&correction, &base, &corrected);
    cr_expect_eq(profile_latency_ns(&corrected, 4), 0);
}

Test(correction, goes_beyond_a_table_by_its_line)
{
    cr_assert_eq(profile_from_line(&base, 1000, 9000, 1024, NULL), STATUS_OK);
    add(200, 1.1, MANY);
    correction_apply(&correction, &base, &corrected);
    cr_expect_eq(corrected.max_batch, 1024);
    cr_expect_float_eq((double)profile_latency_ns(&corrected, 200), 1.1 * 209000, 5);
    cr_expect_null(profile_validate(&corrected));
}

Test(correction, rests_where_nineteen_of_twenty_batches_are_below)
{
    /* Every tenth batch takes 1.1, every fiftieth 1.5 times as long: the 95th percentile is 1.1. */
    for (int i = 0; i < 20 * MANY; i++)
        add(8, i % 50 == 0 ? 1.5 : i % 10 == 0 ? 1.1 : 1, 1);
    cr_expect_float_eq(correction.factor[3], 1.1, 0.02, "it is %g", correction.factor[3]);
}

Test(correction, begins_at_the_spread_that_was_measured)
{
    correction_init(&correction, 1.25);
    cr_expect_not(correction_is_due(&correction));
    correction_apply(&correction, &base, &corrected);
    cr_expect_float_eq((double)profile_latency_ns(&corrected, 8), 1.25 * 17000, 5);
    add(8, 1, MANY);
    cr_expect_float_eq(correction.factor[3], 1, 0.01, "it was a disturbed measurement");
    correction_init(&correction, 40);
    cr_expect_eq(correction.factor[0], CORRECTION_MOST);
    correction_init(&correction, 0);
    cr_expect_eq(correction.factor[0], 1.0);
}

/* One second of batches that take between low and high times what was measured; how many until the factor is within the
 * bounds. */
static int batches_until(prng_t *random, const double times[2], const double bounds[2])
{
    int count = 0;

    for (; count < 50; count++) {
        if (correction.factor[3] >= bounds[0] && correction.factor[3] <= bounds[1])
            break;
        add(8, times[0] + (times[1] - times[0]) * prng_uniform(random), 1);
    }
    return count;
}

/* A batch each 20 ms: a quiet second, five beside other work, and quiet again. */
Test(correction, falls_as_fast_as_it_rises)
{
    const double quiet[] = {0.97, 1.03}, busy[] = {1.3, 1.7}, never[] = {9, 9};
    const double near_busy[] = {0.85 * 1.68, 2}, near_quiet[] = {0.5, 1.15};
    prng_t random;

    prng_init(&random, 7);
    batches_until(&random, quiet, never);
    int rise = batches_until(&random, busy, near_busy);
    for (int i = 0; i < 5; i++)
        batches_until(&random, busy, never);
    cr_assert_lt(rise, 50);
    cr_assert_float_eq(correction.factor[3], 1.68, 0.05, "it is %g", correction.factor[3]);
    int fall = batches_until(&random, quiet, near_quiet);
    cr_expect_leq(fall, rise, "%d batches, where the rise took %d", fall, rise);
    batches_until(&random, quiet, never);
    cr_expect_float_eq(correction.factor[3], 1.03, 0.05, "and stays there: %g", correction.factor[3]);
}

Test(correction, a_few_fast_batches_are_no_quiet_machine)
{
    add(8, 1.5, MANY);
    for (int i = 0; i < 20; i++) {
        add(8, 0.6, CORRECTION_RUN - 1);
        add(8, 1.5, 1);
    }
    cr_expect_gt(correction.factor[3], 1.4, "it is %g", correction.factor[3]);
}
