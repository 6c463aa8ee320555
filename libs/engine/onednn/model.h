/*
 * One opened CPU and the models on it: the inside of the engine, shared by its source files only.
 */
#ifndef ENGINE_ONEDNN_MODEL_H
#define ENGINE_ONEDNN_MODEL_H

#include "engine/compile/borders.h"
#include "engine/onednn/lower/conv_way.h"
#include "engine/onednn/run/segment.h"
#include "engine/onednn/run/weights.h"
#include "engine/queue/cpu.h"

/* What one stream works with: its thread's, but when a model leaves that it was made for. */
typedef struct {
    dnnl_stream_t stream;
    pthread_mutex_t running; /* held for a run, and while others shrink it */
    void *work;
    size_t work_bytes;
} workspace_t;

struct engine {
    cpu_t cpu;
    dnnl_engine_t dnnl;
    int threads; /* of each stream */
    uint64_t memory_limit_bytes;
    _Atomic uint64_t memory_bytes;
    workspace_t *spaces; /* one for each stream */
    pthread_mutex_t listing;
    engine_model_t *models; /* all that are loaded */
};

struct engine_model {
    blueprint_t blueprint; /* first */
    engine_t *engine;
    engine_model_t *next; /* in the engine's list */
    weights_t weights;
    conv_choices_t choices;
    pthread_mutex_t segmenting; /* the forks of the plans, and what the model takes: */
    uint64_t graph_bytes, counted_bytes;
    uint64_t weight_bytes;  /* reordered, as of the newest plan */
    uint64_t dropped_bytes; /* of the graph's, likewise */
    uint64_t work_bytes;    /* the largest of its plans */
    uint64_t fork_bytes;    /* of all of its plans */
};

static inline const engine_model_info_t *model_info(const engine_model_t *model)
{
    return &model->blueprint.description.info;
}

/* ---- plans.c ---- */

status_t model_init_plans(engine_model_t *model, err_t *err);

/* A plan with a user stays until model_release_plan. */
status_t model_plan(engine_model_t *model, uint32_t batch, const tensor_t *inputs, plan_t **plan, err_t *err);
void model_release_plan(engine_model_t *model, plan_t *plan);

/* A segment of a plan that has a user; what it needs is made when it is not there. range->to is set. */
status_t model_segment(engine_model_t *model, plan_t *plan, const engine_range_t *range, uint32_t batch,
                       segment_t *segment, err_t *err);

/* The engine's memory in use changes by this; NO_MEMORY beyond its limit. */
status_t model_account(engine_t *engine, int64_t change_bytes, err_t *err);

/* ---- cuts.c ---- */

extern const border_ops_t model_borders;

#endif
