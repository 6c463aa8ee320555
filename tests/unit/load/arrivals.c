#include "load/arrivals.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <stdlib.h>

Test(arrivals, uniform_never_drifts)
{
    arrivals_t a;
    arrivals_init(&a, ARRIVALS_UNIFORM, 3, 7, 0);
    const int64_t first = arrivals_next_ns(&a);
    cr_assert(first >= 0 && first < NS_PER_S / 3);
    for (int i = 0; i < 3000000; i++)
        arrivals_advance(&a);
    /* A period of a third of a second has no exact form; after a million seconds the offset still does. */
    const int64_t drift = arrivals_next_ns(&a) - first - INT64_C(1000000) * NS_PER_S;
    cr_assert(drift >= -1 && drift <= 1, "drifted by %lld ns", (long long)drift);
}

Test(arrivals, poisson_has_the_rate_and_the_spread)
{
    arrivals_t a;
    double sum = 0, squares = 0, before = 0;
    const int count = 200000;
    arrivals_init(&a, ARRIVALS_POISSON, 1000, 11, 0);
    for (int i = 0; i < count; i++) {
        double gap = a.next_ns - before;
        before = a.next_ns;
        sum += gap;
        squares += gap * gap;
        arrivals_advance(&a);
    }
    const double mean = sum / count, variance = squares / count - mean * mean;
    cr_assert_float_eq(mean, 1e6, 1e4);
    cr_assert_float_eq(variance / (mean * mean), 1, 0.03, "exponential gaps have a variance of mean squared");
}

Test(arrivals, same_seed_same_times_other_stream_other_times)
{
    arrivals_t a, b, c;
    arrivals_init(&a, ARRIVALS_POISSON, 100, 5, 0);
    arrivals_init(&b, ARRIVALS_POISSON, 100, 5, 0);
    arrivals_init(&c, ARRIVALS_POISSON, 100, 5, 2);
    int equal_to_c = 0;
    for (int i = 0; i < 1000; i++) {
        cr_assert_eq(arrivals_next_ns(&a), arrivals_next_ns(&b));
        equal_to_c += arrivals_next_ns(&a) == arrivals_next_ns(&c);
        arrivals_advance(&a);
        arrivals_advance(&b);
        arrivals_advance(&c);
    }
    cr_assert_lt(equal_to_c, 5);
}

/* libs/sim/arrivals.c: stream m for model m, of which a first number goes elsewhere. */
Test(arrivals, times_are_the_simulators)
{
    enum { SEED = 3, MODEL = 2 };
    const double period_ns = 1e7;
    arrivals_t a;
    prng_t prng;
    prng_init_stream(&prng, SEED, MODEL);
    (void)prng_uniform(&prng);
    arrivals_init(&a, ARRIVALS_POISSON, 100, SEED, MODEL);
    for (double at_ns = 0; at_ns < 1e9; arrivals_advance(&a)) {
        at_ns += prng_exponential(&prng, period_ns);
        cr_assert_float_eq((double)arrivals_next_ns(&a), at_ns, 1);
    }
    prng_init_stream(&prng, SEED, MODEL);
    (void)prng_uniform(&prng);
    const double phase = prng_uniform(&prng);
    arrivals_init(&a, ARRIVALS_UNIFORM, 100, SEED, MODEL);
    cr_assert_float_eq((double)arrivals_next_ns(&a), phase * period_ns, 1);
}

Test(arrivals, another_rate_keeps_what_was_left_of_the_period)
{
    arrivals_t a;
    arrivals_init(&a, ARRIVALS_UNIFORM, 10, 7, 0); /* every 100 ms */
    const int64_t first = arrivals_next_ns(&a);
    arrivals_advance(&a);
    const int64_t at = first + 40 * NS_PER_MS; /* 60 ms before the second, which is 0.6 of a period */
    arrivals_set_rate(&a, at, 100);
    cr_assert_lt(llabs(arrivals_next_ns(&a) - (at + 6 * NS_PER_MS)), 2);
    for (int i = 0; i < 1000000; i++)
        arrivals_advance(&a);
    cr_assert_lt(llabs(arrivals_next_ns(&a) - (at + 6 * NS_PER_MS) - INT64_C(10000) * NS_PER_S), 2,
                 "drifted");
}

Test(arrivals, rate_zero_stops_and_a_rate_begins_again)
{
    arrivals_t a;
    arrivals_init(&a, ARRIVALS_UNIFORM, 10, 7, 0);
    const int64_t first = arrivals_next_ns(&a);
    arrivals_set_rate(&a, 0, 0);
    cr_assert_eq(arrivals_next_ns(&a), INT64_MAX);
    arrivals_set_rate(&a, 5 * NS_PER_S, 0);
    arrivals_set_rate(&a, 7 * NS_PER_S, 10);
    cr_assert_lt(llabs(arrivals_next_ns(&a) - (7 * NS_PER_S + first)), 2);
}

Test(arrivals, poisson_has_each_rate_in_its_time)
{
    arrivals_t a;
    int counts[3] = {0};
    static const double rates[3] = {1000, 4000, 500};
    arrivals_init(&a, ARRIVALS_POISSON, rates[0], 11, 0);
    for (int64_t phase = 0; phase < 3; phase++) {
        const int64_t end = (phase + 1) * 20 * NS_PER_S;
        for (; arrivals_next_ns(&a) < end; counts[phase]++)
            arrivals_advance(&a);
        if (phase < 2)
            arrivals_set_rate(&a, end, rates[phase + 1]);
    }
    for (int i = 0; i < 3; i++) /* five standard deviations of a count of 10,000 to 80,000 */
        cr_assert_float_eq(counts[i], rates[i] * 20, 5 * 283, "%d in phase %d", counts[i], i);
}
