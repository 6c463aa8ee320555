/*
 * An execution mode on a real engine, fed with queries as they would come to it: how long they take. What
 * `fermata profile --stages` tries numbers of stages with.
 */
#ifndef FERMATA_PROFILE_TRIAL_H
#define FERMATA_PROFILE_TRIAL_H

#include "exec/staged.h"
#include "fermata/profile/trial_work.h"

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
    const trial_arrival_t *work;    /* the queries, of one row each, by when they come */
    uint32_t queries;
    bool closed; /* each query comes when the one before it has been answered, whatever `work` says of when */
    /* whole: the next batch is formed as soon as one is launched, for an engine does not say when it has read its
     * inputs; the simulator forms it when the first operator has ended. */
    bool ahead;
    const _Atomic(int) *stop;
} trial_t;

/* Plays `exec` (made for these stages, or exec/whole.h) until all queries are answered: how long each took, and all of
 * them together. All inputs are zero. CANCELLED when *stop was set; else what the engine says. */
status_t trial_run(const trial_t *trial, exec_t *exec, int64_t *latency_ns, int64_t *took_ns, err_t *err);

#endif
