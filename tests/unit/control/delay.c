/* Delay bounds from samples. */
#include "control/cluster/delay.h"
#include "base/prng.h"

#include <criterion/criterion.h>

Test(delay, nothing_seen_is_the_fallback_within_the_limits)
{
    static delay_window_t window;
    cr_expect_eq(delay_bound_ns(&window, 0, 1000000), 1000000);
    cr_expect_eq(delay_bound_ns(&window, 0, 0), DELAY_LEAST_NS);
    cr_expect_eq(delay_bound_ns(&window, 0, INT64_MAX), DELAY_MOST_NS);
}

Test(delay, quantiles_are_those_of_a_sorted_list)
{
    static delay_window_t window;
    prng_t prng;
    prng_init(&prng, 3);
    for (uint32_t n = 1; n <= DELAY_WINDOW; n++) {
        delay_add(&window, 0, prng_range(&prng, 0, 50));
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
        delay_add(&window, 0, 10000000);
    cr_expect_eq(delay_bound_ns(&window, 0, 0), 10000000);
    for (int i = 0; i < DELAY_WINDOW; i++)
        delay_add(&window, 0, 100000);
    cr_expect_eq(delay_bound_ns(&window, 0, 0), 100000);
}

/* 25 s of pings, three of which come while the host stands still: six times within five seconds. */
static int64_t fill_with_stalls(delay_window_t *window)
{
    int64_t now_ns = 0;
    for (int i = 0; i < DELAY_WINDOW; i++) {
        bool stalled = i > DELAY_WINDOW - 50 && i % 8 < 3;
        now_ns += 100000000;
        delay_add(window, now_ns, stalled ? 40000000 : 100000);
    }
    return now_ns;
}

Test(delay, a_host_that_stood_still_is_forgiven_within_a_second)
{
    static delay_window_t window;
    int64_t now_ns = fill_with_stalls(&window);
    cr_expect_gt(delay_bound_ns(&window, now_ns, 1000000), 5000000);
    int64_t later_ns = delay_bound_ns(&window, now_ns + 1000000000, 1000000);
    cr_expect_lt(later_ns, 3000000, "%ld", (long)later_ns);
    later_ns = delay_bound_ns(&window, now_ns + INT64_C(5000000000), 1000000);
    cr_expect_lt(later_ns, 110000, "%ld", (long)later_ns);
}

Test(delay, what_comes_again_and_again_is_believed)
{
    static delay_window_t window;
    for (int i = 0; i < 1000; i++) /* 100 a second, one in ten slow */
        delay_add(&window, i * INT64_C(10000000), i % 10 == 9 ? 8000000 : 100000);
    cr_expect_gt(delay_bound_ns(&window, INT64_C(10000000000), 0), 6000000);
}

Test(delay, the_usual_fades_where_nothing_is_measured)
{
    delay_window_t window = {0};
    for (int i = 0; i < 2; i++)
        delay_add(&window, 0, 40000000); /* the only batches that ran were stalled */
    cr_expect_eq(delay_bound_ns(&window, DELAY_OLD_NS, 1000000), 40000000);
    cr_expect_lt(delay_bound_ns(&window, 2 * DELAY_OLD_NS, 1000000), 4000000);
    cr_expect_eq(delay_bound_ns(&window, 20 * DELAY_OLD_NS, 1000000), 1000000);
    window = (delay_window_t){0};
    delay_add(&window, 0, 200000); /* below the initial value it stays what it is */
    cr_expect_eq(delay_bound_ns(&window, 20 * DELAY_OLD_NS, 1000000), 200000);
}

Test(delay, one_outlier_in_256_is_not_chased)
{
    static delay_window_t window;
    for (int i = 0; i < DELAY_WINDOW; i++)
        delay_add(&window, 0, i == 100 ? 40000000 : 100000);
    cr_expect_eq(delay_bound_ns(&window, 0, 0), 100000);
}

/* 256 different ones, in some order. */
Test(delay, most_and_many_keep_their_bounds)
{
    static delay_window_t window;
    for (int i = 0; i < DELAY_WINDOW; i++)
        delay_add(&window, 0, 100000 + 1000 * (i * 101 % DELAY_WINDOW));
    delay_bounds_t bounds = delay_bounds(&window, 0, 0);
    cr_expect_eq(bounds.most_ns, 100000 + 1000 * 253);
    cr_expect_eq(bounds.many_ns, 100000 + 1000 * 215);
    cr_expect_eq(bounds.usual_ns, 100000 + 1000 * 128);
    bounds = delay_bounds(&window, 20 * DELAY_OLD_NS, 50000);
    cr_expect_eq(bounds.most_ns, 50000, "both are forgotten");
    cr_expect_eq(bounds.many_ns, 50000);
    static const delay_window_t none;
    bounds = delay_bounds(&none, 0, 1000000);
    cr_expect(bounds.most_ns == 1000000 && bounds.many_ns == 1000000);
}

Test(delay, nor_is_one_of_the_first)
{
    for (int count = 8; count <= DELAY_WINDOW; count++) {
        delay_window_t window = {0};
        for (int i = 0; i < count; i++)
            delay_add(&window, 0, i == 3 ? 40000000 : 100000);
        cr_assert_eq(delay_bound_ns(&window, 0, 0), 100000, "%d samples", count);
    }
}

Test(delay, fetching_is_a_line_over_all_sizes_seen)
{
    static fetch_delay_t fetch;
    fetch_bounds_t bounds = fetch_delay_bounds(&fetch, 0, 1000000);
    cr_expect_eq(bounds.fixed.most_ns, 1000000);
    cr_expect_eq(bounds.per_task_ns, 0);
    for (int i = 0; i < 200; i++) {
        fetch_delay_add(&fetch, 0, 1, 100000 + 30000);
        fetch_delay_add(&fetch, 0, 8, 100000 + 8 * 30000);
        fetch_delay_add(&fetch, 0, 20, 100000 + 20 * 30000);
    }
    bounds = fetch_delay_bounds(&fetch, 0, 1000000);
    cr_expect(bounds.fixed.most_ns >= 99000 && bounds.fixed.most_ns <= 101000, "%ld",
              (long)bounds.fixed.most_ns);
    cr_expect(bounds.per_task_ns >= 29000 && bounds.per_task_ns <= 31000, "%ld", (long)bounds.per_task_ns);
}

Test(delay, a_slow_class_between_is_covered_and_not_multiplied)
{
    static fetch_delay_t fetch;
    for (int i = 0; i < 200; i++) {
        fetch_delay_add(&fetch, 0, 1, 100000);
        fetch_delay_add(&fetch, 0, 2, 2100000);
        fetch_delay_add(&fetch, 0, 64, 100000 + 63 * 1000);
    }
    fetch_bounds_t bounds = fetch_delay_bounds(&fetch, 0, 1000000);
    cr_expect(bounds.per_task_ns >= 990 && bounds.per_task_ns <= 1010, "%ld", (long)bounds.per_task_ns);
    cr_expect(bounds.fixed.most_ns + 2 * bounds.per_task_ns >= 2099000 && bounds.fixed.most_ns <= 2101000,
              "%ld", (long)bounds.fixed.most_ns);
}

/* Larger batches that came faster: no slope, and the bound is that of the slowest. */
Test(delay, a_falling_line_is_flat)
{
    static fetch_delay_t fetch;
    for (int i = 0; i < 50; i++) {
        fetch_delay_add(&fetch, 0, 1, 900000);
        fetch_delay_add(&fetch, 0, 32, 200000);
    }
    fetch_bounds_t bounds = fetch_delay_bounds(&fetch, 0, 1000000);
    cr_expect_eq(bounds.per_task_ns, 0);
    cr_expect_eq(bounds.fixed.most_ns, 900000);
}

/* The slope is that of most; what many keep of the rest is what is left of theirs. */
Test(delay, fetches_that_scatter_have_two_bounds)
{
    static fetch_delay_t fetch;
    fetch_bounds_t bounds = fetch_delay_bounds(&fetch, 0, 1000000);
    cr_expect_eq(bounds.fixed.many_ns, 1000000);
    for (int i = 0; i < 200; i++) {
        int64_t slow_ns = i % 10 ? 0 : 500000;
        fetch_delay_add(&fetch, 0, 1, 130000 + slow_ns);
        fetch_delay_add(&fetch, 0, 20, 100000 + 20 * 30000 + slow_ns);
    }
    bounds = fetch_delay_bounds(&fetch, 0, 1000000);
    cr_expect_eq(bounds.per_task_ns, 30000);
    cr_expect_eq(bounds.fixed.most_ns, 600000);
    cr_expect_eq(bounds.fixed.many_ns, 100000);
    for (int i = 0; i < DELAY_WINDOW; i++)
        fetch_delay_add(&fetch, 0, 1, 1000); /* the slope becomes so steep that nothing is left */
    bounds = fetch_delay_bounds(&fetch, 0, 1000000);
    cr_expect_eq(bounds.fixed.most_ns, DELAY_LEAST_NS);
    cr_expect_eq(bounds.fixed.many_ns, DELAY_LEAST_NS);
}
