/*
 * Measures ℓ(b) of a loaded model by running it with zero inputs on its device. Blocks; not on the loop. The worker and
 * `fermata profile` measure with this same code.
 */
#ifndef MODEL_PROFILER_H
#define MODEL_PROFILER_H

#include "engine/engine.h"
#include "model/measure/profiler_check.h"
#include "model/parts/axes.h"
#include "profile/profile.h"

enum {
    PROFILER_SIZES_MAX = 64,  /* sizes of one run; profiler_sizes makes 20 of the largest max_batch */
    PROFILER_RUNS_MAX = 1001, /* of one size: ten of them lie above the 99th percentile */
};

typedef struct {
    uint32_t batch, runs;
    int64_t min_ns, median_ns, p95_ns, p99_ns;
} profiler_sample_t;

/* Zero in all below `stop` means what the worker does. */
typedef struct {
    const engine_ops_t *ops;
    engine_t *engine;
    engine_model_t *model;
    int64_t budget_ns; /* for all sizes */
    const _Atomic(int) *stop;
    /* rising, each within 1..max_batch; NULL: those of profiler_sizes, unless coarse */
    const uint32_t *sizes;
    uint32_t size_count;
    bool coarse;          /* without sizes of one's own: few, those of profiler_coarse_sizes */
    int64_t size_goal_ns; /* how long one size is measured, whether or not it has settled before */
    /* Twenty runs of a size that takes less will do, and those between powers of two are left to the line, unless
     * they are in `sizes`. */
    int64_t small_ns;
    bool on_host;       /* it computes on this machine's CPUs: time that these lose is in the samples */
    const axes_t *axes; /* of a model whose dimensions vary; NULL of others */
    const uint32_t *axis_sizes;
    /* Beside models that serve: batches of others that the device has to run, for whose end each run waits
     * a while (NULL: there are none); how long a run may keep them waiting, beyond which sizes are left to the
     * fitted line, but for a few runs of the first two, which make a slope and may take three times as long (NULL: no
     * matter); and when the last batch of others was granted: without one for a second nobody waits (NULL: there is
     * always one). */
    const _Atomic(uint32_t) *busy;
    const _Atomic(int64_t) *step_most_ns, *granted_ns;
} profiler_t;

/* Whether anybody would wait for a run: not where nothing of others runs, and nothing was granted for so long. Measuring
 * itself asks for PROFILER_QUIET_NS. */
#define PROFILER_QUIET_NS (1000 * INT64_C(1000000))
bool profiler_others_are_served(const profiler_t *profiler, int64_t quiet_ns);

/*
 * Sizes twice as large each first, then those between: two runs to warm up and three that count (one and two of a size
 * whose run is longer than 60 ms or the goal, one and one above 400 ms and the goal). Then rounds with one run of each
 * size, in random order, until the medians have settled (profiler_series.h), 60 ms for each size have passed, or what
 * size_goal_ns says. Sizes that would exceed the budget are left out, but for two, so that there is a slope; waiting
 * for gaps counts a quarter. One sample alone, of several sizes, comes of others who may not be kept waiting. Samples
 * rise. CANCELLED when *stop was set; else what the engine says.
 */
status_t profiler_run(const profiler_t *profiler, profiler_sample_t samples[PROFILER_SIZES_MAX],
                      uint32_t *count, err_t *err);

/* The profile of the medians, for the model's max_batch. Its spread is the median over the sizes of p95 / median, its
 * noise that of 1 - least / median: one size that met a disturbance does not count. */
status_t profiler_fit(const profiler_sample_t *samples, uint32_t count, uint32_t max_batch,
                      profile_t *profile, err_t *err);

/* Both; where the share of their time that this process's threads lost meanwhile is more, that is the noise. */
status_t profiler_measure(const profiler_t *profiler, profile_t *profile, err_t *err);

/*
 * Runs batches of random sizes, from the smallest to the largest of `sizes`, for size_goal_ns, as they come when
 * serving: one run of each size drawn. seed chooses the sizes.
 */
status_t profiler_check(const profiler_t *profiler, const profile_t *profile, uint64_t seed,
                        profiler_check_t *check, err_t *err);

/* Sizes 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, … and max_batch. Returns how many. */
uint32_t profiler_sizes(uint32_t max_batch, uint32_t *sizes, uint32_t cap);
/* Sizes 1, 4, 16, 64, … and max_batch: between them a line is off by little. */
uint32_t profiler_coarse_sizes(uint32_t max_batch, uint32_t *sizes, uint32_t cap);

#endif
