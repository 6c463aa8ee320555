/*
 * One model on one GPU: its template, its constants there, and a plan per batch size or set of shapes.
 */
#ifndef ENGINE_CUDA_MODEL_H
#define ENGINE_CUDA_MODEL_H

#include "engine/cuda/plan.h"
#include "engine/describe.h"

#include <pthread.h>

enum {
    MODEL_SHAPES_MAX = 32
}; /* plans kept for models whose dimensions vary; the least recently used one goes */

typedef struct {
    plan_t *plan;
    tensor_t *shapes; /* of the inputs */
    uint64_t used;
} slot_t;

struct engine_model {
    char name[80]; /* for messages */
    engine_t *engine;
    device_t *device;
    pool_t *pool;
    description_t description;
    graph_t *graph;
    engine_precision_t precision;
    constants_t constants;
    pthread_mutex_t building; /* plans are built one at a time */
    pthread_mutex_t mutex;    /* the two tables */
    plan_t **by_batch;        /* [1..max_batch] */
    slot_t by_shape[MODEL_SHAPES_MAX];
    uint64_t clock;
    bool by_value; /* shapes depend on contents: interpreted on the CPU */
    bool varies;
};

status_t model_create(engine_t *engine, device_t *device, pool_t *pool, const engine_load_t *what,
                      engine_model_t **model, err_t *err);
void model_destroy(engine_model_t *model);

/* The shapes of a batch, for models that do not vary otherwise. */
void model_batch_shapes(const engine_model_t *model, uint32_t batch, tensor_t *inputs);

/* NULL when it was not built yet. */
plan_t *model_find_plan(engine_model_t *model, uint32_t batch, const tensor_t *inputs);
/* Finds it or builds it. A plan of a varying model lives until MODEL_SHAPES_MAX others were used after it. */
status_t model_plan(engine_model_t *model, uint32_t batch, const tensor_t *inputs, plan_t **plan, err_t *err);

/* Builds a plan that the model does not keep, with constants of the caller's; for the accuracy report. */
status_t model_plan_for(engine_model_t *model, engine_precision_t precision, effort_t effort,
                        constants_t *constants, const tensor_t *inputs, plan_t **plan, err_t *err);

#endif
