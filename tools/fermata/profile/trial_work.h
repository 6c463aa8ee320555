/*
 * The queries of a trial: drawn once and played to several modes, so that what differs is the modes' doing. And how
 * soon they could be answered at the best.
 */
#ifndef FERMATA_PROFILE_TRIAL_WORK_H
#define FERMATA_PROFILE_TRIAL_WORK_H

#include "fermata/profile/mix.h"

typedef struct {
    int64_t at_ns;   /* since the beginning of the trial; rising */
    uint32_t length; /* of the row, see profile_mix_t; 1 where nothing but the batch varies */
} trial_arrival_t;

/* Poisson; rate_rps 0: all come at the beginning. mix NULL: rows are all alike. */
void trial_work_draw(const profile_mix_t *mix, double rate_rps, uint64_t seed, trial_arrival_t *work,
                     uint32_t count);

/* What a row of each length takes; [length]. */
typedef struct {
    double alone_ns[MIX_SHAPES_MAX + 1]; /* in a batch of its own */
    double least_ns[MIX_SHAPES_MAX + 1]; /* of all streams, in the batch size that is best for it */
} trial_cost_t;

/* From what whole batches of up to rows_max take on one stream. mix NULL: `profile` is of the one length there is. */
void trial_cost_init(trial_cost_t *cost, const profile_mix_t *mix, const profile_t *profile,
                     uint32_t rows_max, uint32_t streams);

/*
 * Below which mean latency no schedule comes: no query leaves before the time that it takes alone, and no k
 * queries before the device has done the least work of k, those with the least left first (which is the best
 * order). NO_MEMORY.
 */
status_t trial_bound(const trial_cost_t *cost, const trial_arrival_t *work, uint32_t count, double *mean_ns,
                     err_t *err);

#endif
