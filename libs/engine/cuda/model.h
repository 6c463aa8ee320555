/*
 * One model on one GPU: its template, its constants there, its plans, and where it can be cut.
 */
#ifndef ENGINE_CUDA_MODEL_H
#define ENGINE_CUDA_MODEL_H

#include "engine/compile/borders.h"
#include "engine/cuda/run/segment.h"

/* What all models of an engine share. */
typedef struct {
    device_t *device;
    pool_t pool;
    space_t aside;               /* to run something beside the jobs */
    pthread_mutex_t aside_mutex; /* around its use */
} gpu_t;

struct engine_model {
    blueprint_t blueprint; /* first */
    char name[80];         /* for messages */
    engine_t *engine;
    gpu_t *gpu;
    engine_precision_t precision;
    constants_t constants; /* under plans.building */
    uint64_t plan_bytes;   /* under plans.building: what the largest plan takes of a stream's memory */
    uint64_t streams[(ENGINE_MAX_STREAMS + 63) / 64]; /* under plans.building: those it is prepared on */
};

static inline const engine_model_info_t *model_info(const engine_model_t *model)
{
    return &model->blueprint.description.info;
}

status_t model_create(engine_t *engine, gpu_t *gpu, const engine_load_t *what, engine_model_t **model,
                      err_t *err);
void model_destroy(engine_model_t *model);

/* The plan, built when it is not there; it stays until model_release_plan. */
status_t model_plan(engine_model_t *model, uint32_t batch, const tensor_t *inputs, plan_t **plan, err_t *err);
void model_release_plan(engine_model_t *model, plan_t *plan);
/* NULL when it was not built yet. */
plan_t *model_find_plan(engine_model_t *model, uint32_t batch, const tensor_t *inputs);

/* The model is prepared on this stream: it takes its work space there as well. */
void model_note_stream(engine_model_t *model, uint32_t stream);

/* Builds a plan that the model does not keep, with constants of the caller's; for the accuracy report.
 * Under plans.building. */
status_t model_plan_for(engine_model_t *model, engine_precision_t precision, effort_t effort,
                        constants_t *constants, const tensor_t *inputs, plan_t **plan, err_t *err);

/* ---- cuts.c ---- */

extern const border_ops_t model_borders;

/* A range of operators of a plan, ready to be run. `to` is set. */
typedef struct {
    uint32_t from, to, first_step, end_step;
    bool is_last, alike; /* alike: its operators are those of the cuts, so exits mean something */
    const transfers_t *loads, *stores; /* NULL at the ends of the model */
} segment_t;

status_t model_segment(engine_model_t *model, plan_t *plan, const engine_range_t *range, uint32_t batch,
                       segment_t *segment, err_t *err);

#endif
