/*
 * A histogram of durations with fixed memory (about 36 KiB) and a relative error of at most 1/256: 128 linear
 * buckets per power of two, exact below 256 ns, up to HISTOGRAM_MAX_NS (73 minutes); longer ones count as the
 * maximum. One owner, no locks; give each thread its own and merge. Plain data: copy by assignment, zero to
 * reset.
 */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_SUB_BITS = 7, HISTOGRAM_MAX_BITS = 42 };
enum { HISTOGRAM_BUCKETS = (HISTOGRAM_MAX_BITS - HISTOGRAM_SUB_BITS + 1) << HISTOGRAM_SUB_BITS };
#define HISTOGRAM_MAX_NS ((INT64_C(1) << HISTOGRAM_MAX_BITS) - 1)

typedef struct {
    uint64_t count;
    int64_t sum_ns;
    int64_t min_ns; /* meaningful when count > 0 */
    int64_t max_ns;
    uint64_t buckets[HISTOGRAM_BUCKETS];
} histogram_t;

void histogram_init(histogram_t *h);
void histogram_record(histogram_t *h, int64_t value_ns); /* negative counts as 0 */
void histogram_merge(histogram_t *into, const histogram_t *from);

/* The value that a fraction q in [0, 1] of the recorded ones does not exceed (nearest rank); 0 when empty. */
int64_t histogram_quantile_ns(const histogram_t *h, double q);
double histogram_mean_ns(const histogram_t *h);

#endif
