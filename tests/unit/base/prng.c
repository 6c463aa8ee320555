#include "base/prng.h"

#include <criterion/criterion.h>
#include <math.h>

enum { DRAWS = 200000 };

/* The first numbers of xoshiro256** from the state {1, 2, 3, 4}, as its authors' C code gives them. */
Test(prng, is_xoshiro256_starstar)
{
    prng_t prng = {{1, 2, 3, 4}};
    static const uint64_t expected[] = {11520, 0, 1509978240, 1215971899390074240};
    for (int i = 0; i < 4; i++)
        cr_expect_eq(prng_u64(&prng), expected[i]);
}

Test(prng, same_seed_same_numbers_other_stream_other_numbers)
{
    prng_t a, b, c;
    prng_init_stream(&a, 5, 1);
    prng_init_stream(&b, 5, 1);
    prng_init_stream(&c, 5, 2);
    int same = 0;
    for (int i = 0; i < 100; i++) {
        uint64_t x = prng_u64(&a);
        cr_expect_eq(x, prng_u64(&b));
        same += x == prng_u64(&c);
    }
    cr_expect_eq(same, 0);
}

Test(prng, bounded_numbers_are_even_and_inside)
{
    prng_t prng;
    uint64_t seen[6] = {0};
    prng_init(&prng, 1);
    for (int i = 0; i < DRAWS; i++)
        seen[prng_below(&prng, 6)]++;
    for (int i = 0; i < 6; i++)
        cr_expect_float_eq((double)seen[i] / DRAWS, 1.0 / 6, 0.005);
    for (int i = 0; i < 1000; i++) {
        int64_t v = prng_range(&prng, -3, 3);
        cr_expect(v >= -3 && v <= 3);
    }
    cr_expect_eq(prng_range(&prng, 7, 7), 7);
    prng_range(&prng, INT64_MIN, INT64_MAX);
}

typedef struct {
    double mean, variance;
} moments_t;

static moments_t moments(const double *x)
{
    double sum = 0, squares = 0;
    for (int i = 0; i < DRAWS; i++)
        sum += x[i];
    for (int i = 0; i < DRAWS; i++)
        squares += (x[i] - sum / DRAWS) * (x[i] - sum / DRAWS);
    return (moments_t){sum / DRAWS, squares / DRAWS};
}

static double draws[DRAWS];

Test(prng, uniform_has_its_moments)
{
    prng_t prng;
    prng_init(&prng, 2);
    for (int i = 0; i < DRAWS; i++) {
        draws[i] = prng_uniform(&prng);
        cr_assert(draws[i] >= 0 && draws[i] < 1);
    }
    cr_expect_float_eq(moments(draws).mean, 0.5, 0.005);
    cr_expect_float_eq(moments(draws).variance, 1.0 / 12, 0.002);
}

Test(prng, exponential_has_its_moments)
{
    prng_t prng;
    prng_init(&prng, 3);
    for (int i = 0; i < DRAWS; i++)
        draws[i] = prng_exponential(&prng, 2.0);
    cr_expect_float_eq(moments(draws).mean, 2.0, 0.03);
    cr_expect_float_eq(moments(draws).variance, 4.0, 0.15);
}

Test(prng, normal_has_its_moments)
{
    prng_t prng;
    prng_init(&prng, 4);
    for (int i = 0; i < DRAWS; i++)
        draws[i] = prng_normal(&prng, -1.0, 3.0);
    cr_expect_float_eq(moments(draws).mean, -1.0, 0.03);
    cr_expect_float_eq(moments(draws).variance, 9.0, 0.15);
}

Test(prng, gamma_has_its_moments)
{
    static const double shapes[] = {0.05, 0.5, 1.0, 4.0};
    prng_t prng;
    prng_init(&prng, 5);
    for (int s = 0; s < 4; s++) {
        for (int i = 0; i < DRAWS; i++)
            draws[i] = prng_gamma(&prng, shapes[s], 1.0 / shapes[s]);
        moments_t m = moments(draws);
        cr_expect_float_eq(m.mean, 1.0, 0.05, "shape %g: mean %g", shapes[s], m.mean);
        cr_expect_float_eq(m.variance * shapes[s], 1.0, 0.1, "shape %g: variance %g", shapes[s], m.variance);
    }
}
