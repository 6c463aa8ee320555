/*
 * What `fermata profile` finds out for the execution modes (docs/modes/profiling.md): the stages of `staged` and the
 * exit points of `preempt`, by trying them on the loaded model.
 */
#ifndef FERMATA_PROFILE_MODES_H
#define FERMATA_PROFILE_MODES_H

#include "fermata/profile/trial.h"
#include "fermata/profile/trial_stats.h"
#include "model/measure/profiler.h"
#include "profile/profile_cache.h"

#include <jansson.h>
#include <stdio.h>

enum {
    PROFILE_TRIES_MAX = 32,
    PROFILE_LOADS = 5,       /* peak, low, medium, high, closed */
    PROFILE_BASELINES = 2,   /* ZeroBatch and DelayBatch */
    PROFILE_COMPARED = 5,    /* these, the chosen one, and the late baselines */
    PROFILE_LOADS_TIMES = 4, /* a load is played so many times as long as a try: means are to be compared */
};

typedef struct {
    const char *mode;     /* "staged", or a baseline */
    const char *schedule; /* of staged; else "" */
    uint32_t stages;
    bool by_preference; /* cut where the preferred batch size changes, not evenly */
    bool late;       /* a baseline that forms its next batch when the last has ended, not when it has begun */
    double wait_ms;  /* T_comp_wait, or the window of DelayBatch */
    double rate_rps; /* that came; 0: as many as could be served */
    trial_result_t result;
} profile_try_t;

/* A mode at one load. Changes are of the mean, against Triton's ZeroBatch and DelayBatch on the same
 * queries; none at the peak, where all are there from the beginning. */
typedef struct {
    profile_try_t try;
    double change[PROFILE_BASELINES], change_error[PROFILE_BASELINES];
} profile_load_t;

typedef struct {
    uint32_t points;
    double overhead, delay; /* of the whole batch */
} profile_exits_t;

typedef struct {
    profile_try_t tries[PROFILE_TRIES_MAX];
    uint32_t try_count, chosen_try;
    /* [0]: all queries are there from the beginning; then at 1/4, 3/5 and 9/10 of what DelayBatch served of these; and
     * one at a time. */
    profile_load_t loads[PROFILE_LOADS][PROFILE_COMPARED];
    double bound_ms[PROFILE_LOADS]; /* no schedule has a lower mean; trial_work.h */
    uint32_t load_count;
    profile_exits_t exits[PROFILE_TRIES_MAX];
    uint32_t exits_count, chosen_exits;
} profile_found_t;

typedef struct {
    const profiler_t *profiler; /* of the model */
    const profile_t *profile;   /* at its axis_sizes */
    const profile_mix_t
        *mix;         /* measured; the shapes of the rows that come. NULL: nothing but the batch varies */
    uint32_t streams; /* of the engine */
    double seconds;   /* of each try; PROFILE_LOADS_TIMES as long for each of `loads` */
    uint64_t seed;
    double split_slack; /* of the model's config */
    bool loads;         /* fill `loads` too */
} profile_how_t;

/*
 * Tries 2, 3, 4, 6, 8 and 12 even stages and those where the preferred batch size changes, and for the best
 * of them several T_comp_wait, with single rows coming at 60 % of what DelayBatch serves of a backlog; beside them
 * ZeroBatch and DelayBatch. What had the least mean latency of the stages goes into `modes`, and whether one
 * of the other two had less. Where rows of several shapes come, the numbers of stages are tried with policy I,
 * and T_comp_wait with policies II and III. UNSUPPORTED: the model cannot be cut.
 */
status_t profile_stages(const profile_how_t *how, profile_modes_t *modes, profile_found_t *found, err_t *err);

/* Exit points whose overhead and delay are both below 5 %, as few as there can be; else those with the
 * least delay; none when each costs 5 % or more. */
status_t profile_exit_points(const profile_how_t *how, profile_modes_t *modes, profile_found_t *found,
                             err_t *err);

void profile_found_table(const profile_found_t *found, FILE *out);
json_t *profile_found_json(const profile_found_t *found);

#endif
