/* Delay bounds from samples. */
#include "scheduler/delay.h"
#include "base/prng.h"

#include <criterion/criterion.h>

Test(delay, nothing_seen_is_the_fallback_within_the_limits)
{
    static delay_window_t window;
    cr_expect_eq(delay_bound_ns(&window, 1000000), 1000000);
    cr_expect_eq(delay_bound_ns(&window, 0), DELAY_LEAST_NS);
    cr_expect_eq(delay_bound_ns(&window, INT64_MAX), DELAY_MOST_NS);
}

Test(delay, quantiles_are_those_of_a_sorted_list)
{
    static delay_window_t window;
    prng_t prng;
    prng_init(&prng, 3);
    for (uint32_t n = 1; n <= DELAY_WINDOW; n++) {
        delay_add(&window, prng_range(&prng, 0, 50));
        for (double q = 0; q <= 1; q += 0.125) {
            int64_t value = delay_quantile_ns(&window, q, -1);
            uint32_t below = 0, upto = 0;
            for (uint32_t i = 0; i < window.count; i++) {
                below += window.samples_ns[i] < value;
                upto += window.samples_ns[i] <= value;
            }
            uint32_t rank = (uint32_t)(q * n) < n ? (uint32_t)(q * n) : n - 1;
            cr_assert(below <= rank && rank < upto, "n %u q %g", n, q);
        }
    }
}

Test(delay, a_bad_phase_is_forgotten)
{
    static delay_window_t window;
    for (int i = 0; i < DELAY_WINDOW; i++)
        delay_add(&window, 10000000);
    cr_expect_eq(delay_bound_ns(&window, 0), 10000000);
    for (int i = 0; i < DELAY_WINDOW; i++)
        delay_add(&window, 100000);
    cr_expect_eq(delay_bound_ns(&window, 0), 100000);
}

Test(delay, one_outlier_in_256_is_not_chased)
{
    static delay_window_t window;
    for (int i = 0; i < DELAY_WINDOW; i++)
        delay_add(&window, i == 100 ? 40000000 : 100000);
    cr_expect_eq(delay_bound_ns(&window, 0), 100000);
}

Test(delay, nor_is_one_of_the_first)
{
    for (int count = 8; count <= DELAY_WINDOW; count++) {
        delay_window_t window = {0};
        for (int i = 0; i < count; i++)
            delay_add(&window, i == 3 ? 40000000 : 100000);
        cr_assert_eq(delay_bound_ns(&window, 0), 100000, "%d samples", count);
    }
}

Test(delay, fetching_is_a_line_over_all_sizes_seen)
{
    static fetch_delay_t fetch;
    int64_t fixed_ns, per_task_ns;
    fetch_delay_bound(&fetch, 1000000, &fixed_ns, &per_task_ns);
    cr_expect_eq(fixed_ns, 1000000);
    cr_expect_eq(per_task_ns, 0);
    for (int i = 0; i < 200; i++) {
        fetch_delay_add(&fetch, 1, 100000 + 30000);
        fetch_delay_add(&fetch, 8, 100000 + 8 * 30000);
        fetch_delay_add(&fetch, 20, 100000 + 20 * 30000);
    }
    fetch_delay_bound(&fetch, 1000000, &fixed_ns, &per_task_ns);
    cr_expect(fixed_ns >= 99000 && fixed_ns <= 101000, "%ld", (long)fixed_ns);
    cr_expect(per_task_ns >= 29000 && per_task_ns <= 31000, "%ld", (long)per_task_ns);
}

Test(delay, a_slow_class_between_is_covered_and_not_multiplied)
{
    static fetch_delay_t fetch;
    int64_t fixed_ns, per_task_ns;
    for (int i = 0; i < 200; i++) {
        fetch_delay_add(&fetch, 1, 100000);
        fetch_delay_add(&fetch, 2, 2100000);
        fetch_delay_add(&fetch, 64, 100000 + 63 * 1000);
    }
    fetch_delay_bound(&fetch, 1000000, &fixed_ns, &per_task_ns);
    cr_expect(per_task_ns >= 990 && per_task_ns <= 1010, "%ld", (long)per_task_ns);
    cr_expect(fixed_ns + 2 * per_task_ns >= 2099000 && fixed_ns <= 2101000, "%ld", (long)fixed_ns);
}

/* Larger batches that came faster: no slope, and the bound is that of the slowest. */
Test(delay, a_falling_line_is_flat)
{
    static fetch_delay_t fetch;
    int64_t fixed_ns, per_task_ns;
    for (int i = 0; i < 50; i++) {
        fetch_delay_add(&fetch, 1, 900000);
        fetch_delay_add(&fetch, 32, 200000);
    }
    fetch_delay_bound(&fetch, 1000000, &fixed_ns, &per_task_ns);
    cr_expect_eq(per_task_ns, 0);
    cr_expect_eq(fixed_ns, 900000);
}
