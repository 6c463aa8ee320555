/*
 * An execution mode on a real engine, fed with queries as they would come to it: how long they take. What
 * `fermata profile --stages` tries numbers of stages with.
 */
#ifndef FERMATA_TRIAL_H
#define FERMATA_TRIAL_H

#include "exec/staged.h"
#include "fermata/profile_mix.h"

enum { TRIAL_PAIRS = 2 };

typedef struct {
    const engine_ops_t *ops;
    engine_t *engine;
    engine_model_t *model;
    uint32_t streams;               /* of the engine */
    uint32_t rows_max;              /* of a batch */
    uint32_t at[STAGED_STAGES_MAX]; /* where each stage but the first begins */
    uint32_t stages;                /* 1: the model runs whole */
    const profile_mix_t *mix;       /* shapes of the rows; NULL: nothing but the batch varies */
    double rate_rps;                /* Poisson; 0: all are there from the beginning */
    uint32_t queries;               /* of one row */
    uint64_t seed;
    const _Atomic(int) *stop;
} trial_t;

typedef struct {
    double avg_ms, p99_ms, throughput_rps;
} trial_result_t;

/* Plays `exec` (made for these stages, or exec/whole.h) until all queries are answered. All inputs are
 * zero. CANCELLED when *stop was set; else what the engine says. */
status_t trial_run(const trial_t *trial, exec_t *exec, trial_result_t *result, err_t *err);

#endif
