/* Sums over axes by runs, beside sums one element after the other. */
#include "graph/ops/sum.h"

#include "base/prng.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

enum { CASES = 2000, RANK_MAX = 5 };

static tensor_t draw(prng_t *random)
{
    static const int64_t sizes[] = {1, 2, 3, 5, 8, 17, 300};
    tensor_t x = {.dtype = DTYPE_F32, .rank = 1 + (uint32_t)prng_below(random, RANK_MAX)};
    size_t count = 1;
    for (uint32_t d = 0; d < x.rank; d++) {
        x.dims[d] = sizes[prng_below(random, 7)];
        if (count * (size_t)x.dims[d] > 20000)
            x.dims[d] = prng_below(random, 20) > 0;
        count *= (size_t)x.dims[d];
    }
    float *data = malloc(count * sizeof *data + 1);
    for (size_t i = 0; i < count; i++)
        data[i] = (float)(prng_uniform(random) - 0.3);
    x.data = data;
    return x;
}

/* Where element i of x goes, in the order of what is kept. */
static size_t goes_to(const tensor_t *x, unsigned mask, size_t i)
{
    size_t at = 0, step = 1;
    for (uint32_t d = x->rank; d-- > 0; i /= (size_t)x->dims[d])
        if (!(mask & 1u << d)) {
            at += i % (size_t)x->dims[d] * step;
            step *= (size_t)x->dims[d];
        }
    return at;
}

static void check(const tensor_t *x, unsigned mask)
{
    size_t results = 1, each = 1;
    for (uint32_t d = 0; d < x->rank; d++)
        *(mask & 1u << d ? &each : &results) *= (size_t)x->dims[d];
    double *sums = calloc(results + 1, sizeof *sums);
    float *y = malloc((results + 1) * sizeof *y);
    for (size_t i = 0; i < results * each; i++)
        sums[goes_to(x, mask, i)] += (double)((const float *)x->data)[i];
    y[results] = 42;
    sum_f32(x, mask, (double)each, y);
    for (size_t r = 0; r < results && each; r++)
        cr_assert_float_eq((double)y[r], sums[r] / (double)each, 1e-7, "rank %u, mask %x, result %zu",
                           x->rank, mask, r);
    for (size_t r = 0; r < results && !each; r++)
        cr_assert(isnan(y[r]), "a mean of nothing");
    cr_assert_eq(y[results], 42, "beyond the end");
    free(sums);
    free(y);
}

Test(sum, any_axes_of_any_shape)
{
    prng_t random;
    prng_init(&random, 7);
    for (uint32_t i = 0; i < CASES; i++) {
        tensor_t x = draw(&random);
        check(&x, (unsigned)prng_below(&random, 1u << x.rank));
        free(x.data);
    }
}
