#include "profile/correction.h"

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
