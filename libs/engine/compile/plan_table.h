/*
 * The compiled plans of a model: one for each batch size or, where dimensions vary, for each set of shapes,
 * of which the least recently used one makes room. Engines that compile have such a table in each model; any
 * thread may use it.
 */
#ifndef ENGINE_COMPILE_PLAN_TABLE_H
#define ENGINE_COMPILE_PLAN_TABLE_H

#include "engine/engine.h"
#include "graph/ir/tensor.h"

#include <pthread.h>

enum { PLAN_TABLE_SHAPES_MAX = 256 }; /* sets of shapes that are kept for a model */

/* First member of an engine's plan; the table's own, zero before. */
typedef struct {
    tensor_t *shapes; /* of the inputs, when they vary */
    uint64_t used;
    uint32_t users; /* threads that run it: it stays as long as there are any */
} plan_entry_t;

typedef struct {
    pthread_mutex_t building; /* plans are built one at a time, by whoever needs one first */
    pthread_mutex_t mutex;    /* everything below, and the entries */
    plan_entry_t **by_batch;  /* [1..max_batch]; NULL when dimensions vary */
    plan_entry_t *by_shape[PLAN_TABLE_SHAPES_MAX];
    uint32_t max_batch, input_count;
    uint64_t clock;
    void (*destroy)(plan_entry_t *plan);
} plan_table_t;

status_t plan_table_init(plan_table_t *table, const engine_model_info_t *info, bool varies,
                         void (*destroy)(plan_entry_t *plan), err_t *err);
/* Nothing may be in use. One of all zeros is fine. */
void plan_table_dispose(plan_table_t *table);

/* Makes a plan; under `building`. */
typedef status_t (*plan_build_fn)(void *ctx, const tensor_t *inputs, plan_entry_t **plan, err_t *err);

/* The plan for these inputs, built when it is not there. The caller is one of its users until plan_table_release. */
status_t plan_table_get(plan_table_t *table, uint32_t batch, const tensor_t *inputs, plan_build_fn build,
                        void *ctx, plan_entry_t **plan, err_t *err);
/* The same when it is there; else NULL. */
plan_entry_t *plan_table_find(plan_table_t *table, uint32_t batch, const tensor_t *inputs);
/* The shapes of the plan that was used last, where dimensions vary. False: there is none, and inputs stay. */
bool plan_table_last_shapes(plan_table_t *table, tensor_t *inputs);
void plan_table_release(plan_table_t *table, plan_entry_t *plan);

#endif
