#include "model/measure/profiler_series.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SETTLED_RUNS = 20,  /* one of them lies above the 95th percentile */
    SETTLED_LOOK = 4,   /* as many more before it is looked at again */
    SETTLED_MOST = 100, /* what these do not tell is how restless the machine is: serving corrects that */
};
/* Of the median; what a profile is off by for other reasons is several times that (docs/engines.md). */
#define SETTLED_ERROR 0.01

static int compare_i64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* The standard error of a median is 1.253 sigma / sqrt(n), and the quartiles are 1.349 sigma apart. */
static double error_of_median(const int64_t *sorted, uint32_t count)
{
    int64_t apart_ns = sorted[count * 3 / 4] - sorted[count / 4], median_ns = sorted[count / 2];

    return median_ns > 0 ? 1.253 / 1.349 * (double)apart_ns / (double)median_ns / sqrt(count) : 0;
}

bool series_is_settled(const series_t *series)
{
    int64_t sorted[PROFILER_RUNS_MAX];

    if (series->runs < SETTLED_RUNS || series->runs % SETTLED_LOOK != 0)
        return false;
    if (series->runs >= SETTLED_MOST)
        return true;
    memcpy(sorted, series->took, series->runs * sizeof(sorted[0]));
    qsort(sorted, series->runs, sizeof(sorted[0]), compare_i64);
    return error_of_median(sorted, series->runs) <= SETTLED_ERROR;
}

/* The smallest value that is not below a share of them all; sorted. */
static int64_t percentile(const int64_t *sorted, uint32_t count, double share)
{
    uint32_t rank = (uint32_t)ceil(share * count);

    return sorted[rank ? rank - 1 : 0];
}

void series_sum_up(series_t *series, profiler_sample_t *sample)
{
    qsort(series->took, series->runs, sizeof(series->took[0]), compare_i64);
    *sample = (profiler_sample_t){.batch = series->batch,
                                  .runs = series->runs,
                                  .min_ns = series->took[0],
                                  .median_ns = series->took[(series->runs - 1) / 2],
                                  .p95_ns = percentile(series->took, series->runs, 0.95),
                                  .p99_ns = percentile(series->took, series->runs, 0.99)};
}

void series_order(uint32_t *sizes, uint32_t count)
{
    uint32_t between[PROFILER_SIZES_MAX], between_count = 0, kept = 0;

    for (uint32_t i = 0; i < count; i++) {
        bool last = i + 1 == count;
        if (kept == 0 || last || sizes[i] >= 2 * sizes[kept - 1])
            sizes[kept++] = sizes[i];
        else
            between[between_count++] = sizes[i];
    }
    memcpy(&sizes[kept], between, between_count * sizeof(between[0]));
}

int64_t series_expect_ns(const series_t *measured, uint32_t count, uint32_t batch)
{
    const series_t *near = &measured[0];

    for (uint32_t i = 1; i < count; i++) {
        if (measured[i].batch <= batch && measured[i].batch > near->batch)
            near = &measured[i];
    }
    return near->took[near->runs - 1] * batch / near->batch;
}
