#include "base/histogram.h"

#include "base/prng.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

static histogram_t h, other; /* too large for the stack of a test */

Test(histogram, empty)
{
    histogram_init(&h);
    cr_expect_eq(histogram_quantile_ns(&h, 0.5), 0);
    cr_expect_eq(histogram_mean_ns(&h), 0.0);
}

Test(histogram, small_values_are_exact)
{
    histogram_init(&h);
    for (int64_t v = 1; v <= 100; v++)
        histogram_record(&h, v);
    cr_expect_eq(histogram_quantile_ns(&h, 0.5), 50);
    cr_expect_eq(histogram_quantile_ns(&h, 0.99), 99);
    cr_expect_eq(histogram_quantile_ns(&h, 0), 1);
    cr_expect_eq(histogram_quantile_ns(&h, 1), 100);
    cr_expect_eq(histogram_mean_ns(&h), 50.5);
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

Test(histogram, quantiles_are_within_the_promised_error)
{
    enum { N = 20001 };
    static int64_t values[N];
    prng_t prng;
    prng_init(&prng, 11);
    histogram_init(&h);
    for (int i = 0; i < N; i++) {
        values[i] = (int64_t)exp(prng_uniform(&prng) * 28); /* 1 ns to 1,446 s, even over the powers */
        histogram_record(&h, values[i]);
    }
    qsort(values, N, sizeof *values, by_value);
    for (int permille = 1; permille < 1000; permille++) {
        double q = permille / 1000.0;
        int64_t exact = values[(int)ceil(q * N) - 1], got = histogram_quantile_ns(&h, q);
        cr_assert_leq(llabs(got - exact), exact / 256 + 1, "q=%g exact %ld got %ld", q, exact, got);
    }
    cr_expect_eq(histogram_quantile_ns(&h, 1), values[N - 1]);
    cr_expect_eq(h.min_ns, values[0]);
}

Test(histogram, out_of_range_values_count_at_the_ends)
{
    histogram_init(&h);
    histogram_record(&h, -5);
    histogram_record(&h, INT64_MAX);
    cr_expect_eq(h.min_ns, 0);
    cr_expect_eq(histogram_quantile_ns(&h, 1), HISTOGRAM_MAX_NS);
    cr_expect_eq(h.count, 2);
}

Test(histogram, merging_is_recording_into_one)
{
    static histogram_t both;
    prng_t prng;
    prng_init(&prng, 12);
    histogram_init(&h);
    histogram_init(&other);
    histogram_init(&both);
    for (int i = 0; i < 1000; i++) {
        int64_t v = (int64_t)prng_below(&prng, 1000000);
        histogram_record(i % 3 == 0 ? &h : &other, v);
        histogram_record(&both, v);
    }
    histogram_merge(&h, &other);
    cr_expect_arr_eq(&h, &both, sizeof h);
}
