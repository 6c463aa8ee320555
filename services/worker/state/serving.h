/*
 * What the worker knows of a model that it serves, beside what was loaded: its state, who waits for what, its series. It hangs
 * on the model (model->serving) from the moment the worker has it. Loop thread.
 *
 *   UNLOADED ─▶ LOADING ─▶ READY ─▶ UNLOADING ─▶ UNLOADED          models/lifecycle.c moves it
 *                  └─────▶ FAILED
 *
 * While it is LOADING the loader thread has the model; when no batch of an UNLOADING one is left the loader thread takes it
 * off the devices.
 */
#ifndef WORKER_SERVING_H
#define WORKER_SERVING_H

#include "model/model.h"

/* How measuring one of its profiles once more, while it serves, went so far. */
typedef struct {
    int64_t next_ns;
    uint32_t tries; /* in a row, that did not end in a profile without doubt */
    bool all_sizes; /* all were measured that there is time for */
    bool afresh;    /* the scheduler does not believe the profile: as if there were none */
} model_again_t;

typedef enum { MODEL_LOADING, MODEL_READY, MODEL_FAILED, MODEL_UNLOADING, MODEL_UNLOADED } model_state_t;
enum { MODEL_STATES = MODEL_UNLOADED + 1 };

struct serving {
    model_state_t state;
    uint32_t under_way; /* batches that use it */
    model_t *successor; /* loading, to take its place when ready; owned */
    model_t *predecessor, *next_retired;
    uint64_t waiting;      /* bit i: command slot i of lifecycle.c waits for its next state */
    int64_t release_at_ns; /* UNLOADING: patience with the scheduler ends */
    bool released;         /* UNLOADING: no grant comes any more */
    bool leaving;          /* UNLOADING: the loader has it, or will when its last batch has ended */
    bool vanishes;         /* it is no longer in the repository: forgotten once unloaded */
    bool measuring; /* the loader runs it once more, beside its batches, and reads its measured profiles */
    model_again_t again[FAMILY_MAX]; /* of each of its profiles */
    bool unreadable;                 /* what is on disk now cannot be read; it has been logged */
    bool superseded; /* another model_t has its place: destroyed once its last batch has ended */
    metric_t *batches_ok, *batches_failed, *batches_revoked, *tasks_ok, *tasks_failed, *push_failed;
    metric_t *inputs_in_place, *outputs_in_place;
    metric_t *exec, *fetch, *push, *profile_error, *stopped, *late;
    metric_t *overlap_dropped, *stretch_joined, *stretch_alone, *stage_batches, *stage_beside,
        *stage_stretched, *stage_padded, *stage_splits, *unfit;
};
typedef struct serving serving_t;

/* The model is served from now on, in state LOADING; nothing changes if it is already. NO_MEMORY. */
status_t serving_begin(model_t *model, err_t *err);
/* Frees both. devices may be NULL for one that was never loaded. */
void serving_destroy(model_t *model, const model_devices_t *devices);

void serving_name_metrics(const model_t *model, metrics_t *metrics); /* its series */
/* Logs and counts that its mode was refused; logs that another mode was found to be faster. Once per load. */
void serving_tell_mode(const model_t *model, metrics_t *metrics);

/* Whether a batch of it may begin. */
static inline bool serving_takes_grants(const model_t *model)
{
    const serving_t *serving = model->serving;
    return serving->state == MODEL_READY || (serving->state == MODEL_UNLOADING && !serving->released);
}

const char *model_state_name(model_state_t state);

#endif
