/*
 * What measuring decides by: the runs of one size, when there are enough of them, in which order sizes are worth their
 * time. Pure.
 */
#ifndef MODEL_PROFILER_SERIES_H
#define MODEL_PROFILER_SERIES_H

#include "model/measure/profiler.h"

typedef struct {
    uint32_t batch, runs;
    bool done; /* no more runs of it are wanted */
    int64_t took[PROFILER_RUNS_MAX];
} series_t;

/* Whether the median would hardly change with more runs: its standard error, as the quartiles tell it, is below a
 * hundredth of it. Looks only every few runs, never before there are enough for a 95th percentile; a hundred will do. */
bool series_is_settled(const series_t *series);

/* Sorts the runs, of which there is one at least. */
void series_sum_up(series_t *series, profiler_sample_t *sample);

/* The sizes, rising, in the order in which they are worth measuring: the first, each that is twice as large as the one
 * before, the largest; then those between. Wherever time runs out, what has been measured spans what has not. */
void series_order(uint32_t *sizes, uint32_t count);

/* A batch if each row takes as long as in the largest measured one that is not larger (else in the first). count >= 1. */
int64_t series_expect_ns(const series_t *measured, uint32_t count, uint32_t batch);

#endif
