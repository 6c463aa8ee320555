/*
 * One opened CPU and the models on it: the inside of the engine, shared by its source files only.
 */
#ifndef ENGINE_ONEDNN_MODEL_H
#define ENGINE_ONEDNN_MODEL_H

#include "engine/cpu.h"
#include "engine/onednn/segment.h"
#include "engine/onednn/weights.h"
#include "graph/cuts.h"

enum {
    MODEL_SHAPES_MAX =
        256, /* plans kept for models whose dimensions vary; the least recently used one goes */
};

/* What one stream works with: its thread's, nobody else touches it. */
typedef struct {
    dnnl_stream_t stream;
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
};

typedef struct {
    plan_t *plan;
    tensor_t *shapes; /* of the inputs */
    uint64_t used;
} slot_t;

struct engine_model {
    engine_t *engine;
    description_t description;
    graph_t *graph;
    weights_t weights;
    pthread_mutex_t building; /* plans are built one at a time, by whoever needs one first */
    pthread_mutex_t cutting;  /* around building: the cuts are found once */
    pthread_mutex_t mutex;    /* the two tables, and the users and segments of the plans in them */
    plan_t **by_batch;        /* [1..max_batch] */
    slot_t by_shape[MODEL_SHAPES_MAX];
    uint64_t clock;
    uint64_t graph_bytes, counted_bytes;
    uint64_t work_bytes; /* the largest of its plans */
    bool by_value, varies;

    /* Written once, by model_cuts. */
    engine_cuts_t cuts; /* ops = 0: not asked for */
    graph_cuts_t graph_cuts;
    edge_t *edges; /* for each value of graph_cuts.values */
};

static inline const engine_model_info_t *model_info(const engine_model_t *model)
{
    return &model->description.info;
}

/* ---- plans.c ---- */

/* Those of the plan that was used last, of a model whose dimensions vary. False: there is none, and inputs stay. */
bool model_last_shapes(engine_model_t *model, tensor_t *inputs);

/* A plan with a user stays until plan_release. */
status_t model_plan(engine_model_t *model, uint32_t batch, const tensor_t *inputs, plan_t **plan, err_t *err);
void model_release_plan(engine_model_t *model, plan_t *plan);

/* The instance that a plan is made of. */
status_t model_instance(engine_model_t *model, const tensor_t *inputs, graph_t **instance, err_t *err);

/* The segment of a plan that has a user, made when it is not there. range->to is set. */
status_t model_segment(engine_model_t *model, plan_t *plan, const engine_range_t *range, uint32_t batch,
                       segment_t **segment, err_t *err);

/* The engine's memory in use changes by this; NO_MEMORY beyond its limit. */
status_t model_account(engine_t *engine, int64_t change_bytes, err_t *err);

/* The shapes of a batch, with `size` for what varies. */
void model_shapes(const engine_model_t *model, uint32_t batch, int64_t size, tensor_t *inputs);

/* ---- cuts.c ---- */

status_t model_cuts(engine_model_t *model, engine_cuts_t *cuts, err_t *err);
void model_dispose_cuts(engine_model_t *model);
/* What a border holds at a cut; nothing at the ends. */
edges_t model_edges(const engine_model_t *model, uint32_t op);
status_t border_create(engine_model_t *model, const uint32_t *cuts, uint32_t cut_count, uint32_t rows,
                       const engine_shape_t *largest_shapes, engine_border_t **border, err_t *err);
void border_destroy(engine_border_t *border);
uint64_t border_bytes(const engine_border_t *border);

#endif
