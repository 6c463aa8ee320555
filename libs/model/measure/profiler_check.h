/*
 * How well a profile foretells single runs, and whose fault it is where it does not: the profile's, which is
 * off from what runs of a size usually take, or the machine's, on which runs of one size take different
 * times. Pure.
 */
#ifndef MODEL_PROFILER_CHECK_H
#define MODEL_PROFILER_CHECK_H

#include "profile/profile.h"

typedef struct {
    uint32_t batch;
    int64_t took_ns;
} profiler_run_t;

typedef struct {
    uint32_t runs;
    double off_p50, off_p90;       /* of |measured - predicted| / measured */
    double jitter_p50, jitter_p90; /* of |measured - median of the runs of its size| / that median */
    double fit_p50, fit_p90;       /* of |median - predicted| / median, each size as often as it was run */
    double worst;                  /* the largest (predicted - median) / median, with its sign ... */
    uint32_t worst_batch;          /* ... and where */
    double late;                   /* share of the runs that took more than 5 % longer than predicted */
} profiler_check_t;

/* Of at least one run, in any order; sorts them. room: for 3·count numbers. */
void profiler_check_sum_up(profiler_run_t *runs, uint32_t count, const profile_t *profile, double *room,
                           profiler_check_t *check);

#endif
