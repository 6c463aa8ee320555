#include "load/arrivals.h"

#include "base/clock.h"

#include <criterion/criterion.h>

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
