/*
 * Upper bounds of delays, from what was observed: the 99th percentile of the last 256 samples of each kind, and the 84th for models
 * that lose little by what comes later (sched_delays_t), within sane limits. Never a configured network delay (DESIGN.md 2.3);
 * the initial value only counts until the first samples are there.
 *
 * A bound heals with time. By how much a sample lies above the usual (the window's median) halves with every DELAY_HALF_NS
 * of its age beyond DELAY_FRESH_NS: what a host did that stood still for a moment is believed for about as long, whether or not anything new was
 * measured since. What lies above the usual again and again is measured again and again. And where nothing was measured
 * for DELAY_OLD_NS the usual itself fades to the initial value.
 */
#ifndef CONTROL_CLUSTER_DELAY_H
#define CONTROL_CLUSTER_DELAY_H

#include "sched/sched.h"

/* Window of a percentile: one outlier in a hundred is what a bound should not chase. */
enum { DELAY_WINDOW = 256, DELAY_CLASSES = 12 };

/* No bound leaves these limits: below is noise of the clock, above one wild host would stop the whole cluster. */
#define DELAY_LEAST_NS INT64_C(20000)
#define DELAY_MOST_NS INT64_C(50000000)
/* The longest delay that is believed at all is below 4 ms, 8 % of a deadline of 50 ms, one second after it was seen. */
#define DELAY_HALF_NS INT64_C(200000000)
#define DELAY_FRESH_NS INT64_C(250000000)
#define DELAY_OLD_NS INT64_C(1000000000)

typedef struct {
    uint32_t count; /* samples held, at most DELAY_WINDOW */
    uint32_t next;
    int64_t samples_ns[DELAY_WINDOW];
    int64_t seen_ns[DELAY_WINDOW]; /* when each came */
} delay_window_t;

/* now_ns: of any clock that does not run backwards, the same for all that is asked of a window. */
void delay_add(delay_window_t *window, int64_t now_ns, int64_t sample_ns);

/* The q-quantile (nearest rank) of the samples as they were, or fallback_ns when nothing was seen. Copies and selects: not
 * for hot paths; nor are the bounds. */
int64_t delay_quantile_ns(const delay_window_t *window, double q, int64_t fallback_ns);

/* What SCHED_DELAYS_MOST, and SCHED_DELAYS_MANY, of them keep, and half. */
typedef struct {
    int64_t most_ns, many_ns, usual_ns;
} delay_bounds_t;

/* Of the samples as old as they are now, within the limits. The largest of eight or more counts for none of them. */
delay_bounds_t delay_bounds(const delay_window_t *window, int64_t now_ns, int64_t fallback_ns);

static inline int64_t delay_bound_ns(const delay_window_t *window, int64_t now_ns, int64_t fallback_ns)
{
    return delay_bounds(window, now_ns, fallback_ns).most_ns;
}

/* Of two ways, the longer of each bound. */
delay_bounds_t delay_bounds_longer(delay_bounds_t a, delay_bounds_t b);

/* Fetching the inputs of a batch of b: fixed + b * per_task, an upper bound for every size seen. Sizes are kept apart
 * in powers of two, since a mixture of sizes would hide what one more input costs. */
typedef struct {
    delay_window_t classes[DELAY_CLASSES];
    double mean_batch[DELAY_CLASSES];
} fetch_delay_t;

typedef struct {
    delay_bounds_t fixed;
    int64_t per_task_ns; /* in either */
} fetch_bounds_t;

void fetch_delay_add(fetch_delay_t *delay, int64_t now_ns, uint32_t batch, int64_t fetch_ns);
fetch_bounds_t fetch_delay_bounds(const fetch_delay_t *delay, int64_t now_ns, int64_t fallback_ns);

#endif
