#include "model/measure/profiler_check.h"

#include <math.h>
#include <stdlib.h>

static const double LATE = 0.05;

static int by_size_and_time(const void *a, const void *b)
{
    const profiler_run_t *x = a, *y = b;

    if (x->batch != y->batch)
        return (x->batch > y->batch) - (x->batch < y->batch);
    return (x->took_ns > y->took_ns) - (x->took_ns < y->took_ns);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Sorts them. */
static void percentiles(double *values, uint32_t count, double *p50, double *p90)
{
    qsort(values, count, sizeof(*values), by_value);
    *p50 = values[(count - 1) / 2];
    *p90 = values[(uint32_t)ceil(0.9 * count) - 1];
}

/* What a run may be divided by. */
static double positive(int64_t ns)
{
    return ns > 0 ? (double)ns : 1;
}

/* The three ways to be off, one value for each run, one array after the other. */
typedef struct {
    double *off, *jitter, *fit;
} distances_t;

/* Runs of one size, sorted. */
static void add_size(const profiler_run_t *runs, uint32_t count, const profile_t *profile, distances_t *at,
                     profiler_check_t *check)
{
    double median = positive(runs[count / 2].took_ns);
    double predicted = (double)profile_latency_ns(profile, runs->batch);
    double bias = (predicted - median) / median;

    if (fabs(bias) > fabs(check->worst)) {
        check->worst = bias;
        check->worst_batch = runs->batch;
    }
    for (uint32_t i = 0; i < count; i++) {
        double measured = positive(runs[i].took_ns);
        *at->off++ = fabs(measured - predicted) / measured;
        *at->jitter++ = fabs(measured - median) / median;
        *at->fit++ = fabs(bias);
        check->late += measured > predicted * (1 + LATE);
    }
}

void profiler_check_sum_up(profiler_run_t *runs, uint32_t count, const profile_t *profile, double *room,
                           profiler_check_t *check)
{
    distances_t at = {room, room + count, room + 2 * count};

    *check = (profiler_check_t){.runs = count, .worst_batch = runs->batch};
    qsort(runs, count, sizeof(*runs), by_size_and_time);
    for (uint32_t begin = 0, end; begin < count; begin = end) {
        for (end = begin + 1; end < count && runs[end].batch == runs[begin].batch; end++)
            ;
        add_size(runs + begin, end - begin, profile, &at, check);
    }
    check->late /= count;
    percentiles(room, count, &check->off_p50, &check->off_p90);
    percentiles(room + count, count, &check->jitter_p50, &check->jitter_p90);
    percentiles(room + 2 * count, count, &check->fit_p50, &check->fit_p90);
}
