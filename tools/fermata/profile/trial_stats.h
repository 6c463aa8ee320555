/*
 * What came out of trials: means with how far they can be trusted, and two modes compared on the same queries.
 *
 * Latencies of neighbours depend on each other. So the queries are taken in blocks, in the order in which
 * they came, and errors are those of the blocks' means: half of the 95 % interval by Student's t.
 */
#ifndef FERMATA_PROFILE_TRIAL_STATS_H
#define FERMATA_PROFILE_TRIAL_STATS_H

#include <stdint.h>

enum { TRIAL_BLOCKS = 10 };

typedef struct {
    double avg_ms, avg_error_ms, p99_ms, throughput_rps;
} trial_result_t;

/* By how much the mean is another than that of `base`, as a part of it. Both are latencies of the same queries, in
 * order; count >= TRIAL_BLOCKS. What both have in common, such as a burst, does not count towards the error. */
double trial_change(const int64_t *latency_ns, const int64_t *base_ns, uint32_t count, double *error);

/* count >= TRIAL_BLOCKS queries, in order before and by size afterwards, that took took_ns in all. */
void trial_sum_up(int64_t *latency_ns, uint32_t count, int64_t took_ns, trial_result_t *result);

#endif
