/*
 * Latency profiles: the one place that turns (model, batch size) into nanoseconds (DESIGN.md 2.8, 6).
 *
 * A profile is a measured table for batches 1..table_len, continued by the fitted line alpha·b + beta up to
 * max_batch; a profile with no table is the line alone. The latency is monotone in the batch size: whatever
 * builds a profile repairs it and says so in `repaired`.
 *
 * profile_t is a plain value: no heap, no owner, copied freely. Everything here is pure and thread-safe as
 * long as nobody writes the same profile. Files are read and written by profile/profile_csv.h and
 * profile_cache.h.
 */
#ifndef PROFILE_PROFILE_H
#define PROFILE_PROFILE_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    PROFILE_TABLE_MAX = 256,     /* measured sizes kept: beyond, a line is as good as any measurement */
    PROFILE_BATCH_MAX = 1 << 16, /* no engine takes more rows; keeps b·alpha far from overflow */
};

typedef struct {
    int64_t alpha_ns; /* cost of one more row: the fit, and the slope beyond the table */
    int64_t beta_ns;  /* fixed cost of a batch: the fit */
    uint32_t max_batch;
    uint32_t table_len; /* 0: the line alone */
    uint32_t points;    /* different sizes that were measured; 0: none, as of a line that was given */
    double residual;    /* root mean square of (measured - fit) / measured; 0 for a line */
    /* the 95th percentile of the runs that were measured, as a multiple of the table; 1 = not known */
    double spread;
    /* share of the table's times that may be other work of the machine; 0 = none, or not known */
    double noise;
    bool repaired;                           /* some latency was raised to that of a smaller batch */
    int64_t table_ns[PROFILE_TABLE_MAX + 1]; /* [b] for 1 <= b <= table_len, never falling; [0] = 0 */
} profile_t;

/* One measurement. */
typedef struct {
    uint32_t batch;
    int64_t latency_ns;
} profile_point_t;

/* The line alpha·b + beta for 1..max_batch; a model of no cost (0, 0) is allowed. INVALID_ARGUMENT if alpha
 * or beta is negative or over an hour, or max_batch is 0 or beyond PROFILE_BATCH_MAX. */
status_t profile_from_line(profile_t *profile, int64_t alpha_ns, int64_t beta_ns, uint32_t max_batch,
                           err_t *err);

/* From measurements in any order: sizes between two measured ones are interpolated, larger ones continued by
 * the slope of the fit (of one size alone: each row as long as its rows); a size measured twice counts with its
 * larger latency; latencies that fall are raised.
 * The table always covers 1..min(largest measured, PROFILE_TABLE_MAX). max_batch 0: the largest measured.
 * INVALID_ARGUMENT: no points, a batch of 0 or beyond PROFILE_BATCH_MAX, a negative latency. */
status_t profile_from_points(profile_t *profile, const profile_point_t *points, uint32_t count,
                             uint32_t max_batch, err_t *err);

/* Least squares of alpha·b + beta in parts of each latency, both kept >= 0; *residual as in profile_t. count >= 1. One
 * size alone says nothing of what a batch saves: the line through the origin, which no larger batch exceeds by much. */
void profile_fit(const profile_point_t *points, uint32_t count, int64_t *alpha_ns, int64_t *beta_ns,
                 double *residual);

/* The slower of the two at each size, up to the smaller max_batch: what holds on either of two devices. */
void profile_merge_slower(profile_t *into, const profile_t *other);

/* Beyond its table it goes on as another one of the same model does there, in proportion to both at its last size. One
 * without a table, or with a longer one than the other, stays as it is. */
void profile_continue(profile_t *profile, const profile_t *other);

/* Latency of a batch, 1 <= batch (beyond max_batch the line is continued). O(1). */
static inline int64_t profile_latency_ns(const profile_t *profile, uint32_t batch)
{
    if (batch <= profile->table_len)
        return profile->table_ns[batch];
    if (profile->table_len == 0)
        return profile->alpha_ns * (int64_t)batch + profile->beta_ns;
    return profile->table_ns[profile->table_len] + profile->alpha_ns * (int64_t)(batch - profile->table_len);
}

/* Largest batch <= max_batch with latency(b) + b·extra_ns <= budget_ns; 0 if not even one fits. extra_ns >= 0
 * is what each row costs besides (fetching its input). O(log table_len), O(1) for a line. */
uint32_t profile_largest_batch_sloped(const profile_t *profile, int64_t budget_ns, int64_t extra_ns);

static inline uint32_t profile_largest_batch(const profile_t *profile, int64_t budget_ns)
{
    return profile_largest_batch_sloped(profile, budget_ns, 0);
}

/* Whether it says what a further row costs: a single measured size of several does not. */
static inline bool profile_is_whole(const profile_t *profile)
{
    return profile->points != 1 || profile->max_batch == 1;
}

/* How many times what a batch takes undisturbed it is planned with, as far as the measurement tells: at least 1. What is
 * over PROFILE_DOUBT_MOST is worth measuring again at another time. */
#define PROFILE_DOUBT_MOST 1.5
static inline double profile_doubt(const profile_t *profile)
{
    return (profile->spread > 1 ? profile->spread : 1) / (1 - profile->noise);
}

/* NULL when every promise of profile_t holds, else the one that is broken. */
const char *profile_validate(const profile_t *profile);

#endif
