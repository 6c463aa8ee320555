/*
 * One opened device and the models on it: the inside of the engine, shared by its source files only.
 */
#ifndef ENGINE_ONNXRUNTIME_MODEL_H
#define ENGINE_ONNXRUNTIME_MODEL_H

#include "engine/compile/borders.h"
#include "engine/onnxruntime/session.h"
#include "engine/onnxruntime/stopper.h"
#include "engine/queue/cpu.h"

enum {
    MODEL_COPIES = 2
}; /* what a session takes, in sizes of the file: weights as they are and as it packs them */

struct engine {
    cpu_t cpu; /* first */
    session_threads_t threads;
    char *providers;     /* owned: threads.providers */
    stopper_t *stoppers; /* one for each lane */
    uint32_t stopper_count;
};

typedef struct part part_t; /* parts.c */

/* What a model has when it is cut. */
typedef struct {
    pthread_mutex_t mutex; /* the list, and the cuts while they are looked for */
    part_t *list;
    uint32_t timers;      /* jobs that time operators: the parts for that stay */
    char *names;          /* of the tensors and operators at the cuts */
    void *looked_through; /* while the cuts are looked for */
} parts_t;

struct engine_model {
    blueprint_t blueprint; /* first; it has a graph only while the cuts are looked for */
    engine_t *engine;
    engine_load_t load; /* owned: parts are made of it later */
    OrtSession *session;
    uint32_t nodes; /* as libs/graph reads it; 0 where it does not */
    const char *input_names[ENGINE_MAX_IO], *output_names[ENGINE_MAX_IO];
    bool binds[ENGINE_MAX_IO]; /* onnxruntime writes this output where the job wants it */
    parts_t parts;
};

static inline const engine_model_info_t *model_info(const engine_model_t *model)
{
    return &model->blueprint.description.info;
}

/* ---- runs.c ---- */

/* Of a lane: the job that it has. */
status_t model_run(cpu_lane_t *lane, engine_job_t *job, err_t *err);

/* What one run of a session takes and gives. Outputs without a value are made by onnxruntime. */
typedef struct {
    OrtSession *session;
    const char *const *input_names, *const *output_names;
    uint32_t input_count, output_count;
    OrtValue *const *inputs;
    OrtValue **outputs;
} call_t;

/* CANCELLED: the job was stopped. INVALID_ARGUMENT: what it was given is to blame. */
status_t model_call(const cpu_lane_t *lane, engine_job_t *job, const call_t *call, err_t *err);

#endif
