/*
 * Measures ℓ(b) of a loaded model by running it with zero inputs on its device. Blocks; not on the loop.
 */
#ifndef WORKER_PROFILER_H
#define WORKER_PROFILER_H

#include "engine/engine.h"
#include "profile/profile.h"

typedef struct {
    const engine_ops_t *ops;
    engine_t *engine;
    engine_model_t *model;
    int64_t budget_ns;
    const _Atomic(int) *stop;
} profiler_t;

/*
 * Sizes 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, … and max_batch, in this order: two runs to warm up, then the median of as
 * many as fit 60 ms, but at least 3. Ends early when the budget is used up (size 1 and 2 are always measured, so that there is a
 * slope). CANCELLED when *stop was set; else what the engine says.
 */
status_t profiler_measure(const profiler_t *profiler, profile_t *profile, err_t *err);

/* The sizes above for a max_batch. Returns how many. */
uint32_t profiler_sizes(uint32_t max_batch, uint32_t *sizes, uint32_t cap);

#endif
