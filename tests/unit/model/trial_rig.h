#pragma once
/* A model that is loaded on trial by a loader of a few shell words, and what was heard of it. Functions assert with Criterion. */

#include "model/repository.h"
#include "model/trial/trial.h"
#include "model/trial/wire.h"
#include "shell_program.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct {
    metrics_t *metrics;
    model_devices_t devices;
    trials_t *trials;
    model_t *model;
    model_load_options_t options;
    _Atomic(int) stop;
    char folder[32]; /* of rig_make_urgent; "": none */
    err_t err;
} rig_t;

/* What was heard of the first engine that passed. */
typedef struct {
    const model_t *model;
    uint32_t times;
    char engine[TRIAL_ENGINE_BYTES];
    uint64_t bytes, limit_bytes; /* of the model, and what its loader may have by then */
} heard_t;

/* Loaders, as shell_program makes them. This says these answers between the words. */
const char *a_player(const trial_answer_t *answers, uint32_t count, const char *before, const char *after);
/* The same, when it is started for the first time: it crashes behind them. Later it is the real one. */
const char *a_player_once(const trial_answer_t *answers, uint32_t count);

void rig_start(rig_t *rig, const char *loader, int64_t timeout_ns, const char *engine);
void rig_start_threads(rig_t *rig, const char *loader, int64_t timeout_ns, const char *engine,
                       uint32_t threads);
/* The same model in a repository, with an SLO so short that it matters which engine it runs on, and time to measure that. */
void rig_make_urgent(rig_t *rig);
void rig_end(rig_t *rig);
status_t rig_try(rig_t *rig);
status_t rig_try_early(rig_t *rig, heard_t *heard);
bool rig_says(const rig_t *rig, const char *words);
