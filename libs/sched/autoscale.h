/*
 * Advice to whoever can add or release GPUs (Symphony 3.5). It rests on two properties of a good policy:
 * beyond the peak the bad rate r says what is missing, N·r/(1-r) GPUs; below it the idle fraction f says what
 * is too much, N·f.
 *
 * Adding is quick: one window with too many bad requests. Releasing is slow: only what was idle in every one
 * of several windows, less a reserve, so that a short lull releases nothing. After any advice that was
 * followed (the number of GPUs changed) the windows begin anew, because what was measured belongs to another
 * cluster.
 *
 * Pure; embedded in its owner; nothing to dispose.
 */
#ifndef SCHED_AUTOSCALE_H
#define SCHED_AUTOSCALE_H

#include <stdint.h>

typedef struct {
    int64_t window_ns;
    double bad_limit;       /* above it GPUs are missing */
    double idle_reserve;    /* part of the GPUs that may be idle for good measure */
    uint32_t quiet_windows; /* without too many bad requests, before anything is released */
} autoscale_params_t;

/* 5 s windows, 1 % bad, 10 % reserve, 6 quiet windows. */
extern const autoscale_params_t autoscale_defaults;

/* Sums since the start, modulo 2^64: only differences are looked at. */
typedef struct {
    uint64_t requests, bad, busy_ns;
} autoscale_sums_t;

typedef struct {
    autoscale_params_t params;
    autoscale_sums_t begun; /* at the begin of the window */
    int64_t begun_ns;
    uint32_t gpus;
    uint32_t quiet;                 /* windows in a row */
    double least_idle;              /* of those */
    double bad_rate, idle_fraction; /* of the last window */
    int32_t advice;
    int started;
} autoscale_t;

void autoscale_init(autoscale_t *autoscale, const autoscale_params_t *params);

/* Call about every second. Returns the advice: GPUs to add (> 0), to release (< 0), or 0. It stays until
 * the next window ends or the number of GPUs changes. At least one GPU is always kept. */
int32_t autoscale_observe(autoscale_t *autoscale, int64_t now_ns, uint32_t gpus,
                          const autoscale_sums_t *sums);

#endif
