/*
 * Upper bounds of delays, from what was observed: the 99th percentile of the last 256 samples of each kind, within
 * sane limits. Never a configured network delay (DESIGN.md 2.3); the initial value only counts until the first
 * samples are there.
 */
#ifndef SCHEDULER_DELAY_H
#define SCHEDULER_DELAY_H

#include <stdint.h>

/* Window of a percentile: one outlier in a hundred is what a bound should not chase, and 256 samples of a peer that
 * is pinged ten times a second forget a bad phase within half a minute. */
enum { DELAY_WINDOW = 256, DELAY_CLASSES = 12 };

/* No bound leaves these limits: below is noise of the clock, above one wild host would stop the whole cluster. */
#define DELAY_LEAST_NS INT64_C(20000)
#define DELAY_MOST_NS INT64_C(50000000)

typedef struct {
    uint32_t count; /* samples held, at most DELAY_WINDOW */
    uint32_t next;
    int64_t samples_ns[DELAY_WINDOW];
} delay_window_t;

void delay_add(delay_window_t *window, int64_t sample_ns);

/* The q-quantile (nearest rank), or fallback_ns when nothing was seen. Copies and selects: not for hot paths. */
int64_t delay_quantile_ns(const delay_window_t *window, double q, int64_t fallback_ns);

/* quantile 0.99 (of few samples: all but the largest) within the limits. */
int64_t delay_bound_ns(const delay_window_t *window, int64_t fallback_ns);

/* Fetching the inputs of a batch of b: fixed + b * per_task, an upper bound for every size seen. Sizes are kept apart
 * in powers of two, since a mixture of sizes would hide what one more input costs. */
typedef struct {
    delay_window_t classes[DELAY_CLASSES];
    double mean_batch[DELAY_CLASSES];
} fetch_delay_t;

void fetch_delay_add(fetch_delay_t *delay, uint32_t batch, int64_t fetch_ns);
void fetch_delay_bound(const fetch_delay_t *delay, int64_t fallback_ns, int64_t *fixed_ns,
                       int64_t *per_task_ns);

#endif
