/*
 * A model as an engine that compiles it has read it: the template, what it says of itself, and where it can
 * be cut. What comes before the plans, and is the same for oneDNN and CUDA.
 */
#ifndef ENGINE_BLUEPRINT_H
#define ENGINE_BLUEPRINT_H

#include "engine/describe.h"
#include "engine/plan_table.h"
#include "graph/cuts.h"
#include "graph/fuse.h"

#include <pthread.h>

enum { BLUEPRINT_TRIAL_SIZE = 16 }; /* of what varies, where some size must be tried */

/* How the engine lays values out on borders, and the memory that they are in. */
typedef struct {
    /* Once, when the cuts of the graph are known: chooses a layout for each value of model's graph_cuts;
     * may take out cuts. */
    status_t (*choose)(engine_model_t *model, err_t *err);
    /* Bytes that value i of graph_cuts.values takes for each of `batch` rows. */
    size_t (*row_bytes)(const engine_model_t *model, uint32_t i, const tensor_t *t, uint32_t batch);
    /* The engine's memory; NO_MEMORY. */
    status_t (*take)(engine_model_t *model, uint64_t len_bytes, void **data, err_t *err);
    void (*give)(engine_model_t *model, void *data, uint64_t len_bytes);
} border_layout_t;

typedef struct {
    description_t description;
    graph_t *graph;
    graph_allow_fn allows;
    const border_layout_t *layout;
    bool by_value;           /* shapes depend on contents: it is interpreted */
    bool varies;             /* some dimension beside the batch */
    pthread_mutex_t cutting; /* the cuts are found once */
    engine_cuts_t cuts;      /* written once; ops = 0: nobody has asked yet */
    graph_cuts_t graph_cuts;
} blueprint_t;

/* allows: which epilogues the engine can append. After a failure there is nothing to dispose of. */
status_t blueprint_open(blueprint_t *b, const engine_load_t *what, graph_allow_fn allows,
                        const border_layout_t *layout, err_t *err);
void blueprint_dispose(blueprint_t *b); /* one of all zeros is fine */

/* The shapes of a batch, with `size` for what varies. */
void blueprint_shapes(const blueprint_t *b, uint32_t batch, int64_t size, tensor_t *inputs);

/* The same for a try: shapes that the model is known to take, where some were used before. */
void blueprint_trial_shapes(const blueprint_t *b, plan_table_t *plans, uint32_t batch, tensor_t *inputs);

/* What a plan is made of: an instance with epilogues. UNSUPPORTED when contents decide its shapes. */
status_t blueprint_instance(const blueprint_t *b, const tensor_t *inputs, graph_t **instance, err_t *err);

/* As cuts() of engine.h; plans are the model's. */
status_t blueprint_cuts(blueprint_t *b, engine_model_t *model, plan_table_t *plans, engine_cuts_t *cuts,
                        err_t *err);

/* For `choose`: the batch whose layouts borders have, and how many values graph_cuts has. */
uint32_t blueprint_layout_batch(const blueprint_t *b);
uint32_t blueprint_value_count(const blueprint_t *b);

/* The values that a border holds at a cut: `count` of graph_cuts.values from `first` on; none at the ends. */
void blueprint_values(const blueprint_t *b, uint32_t op, uint32_t *first, uint32_t *count);

/* Values of one cut after the other, each with room for all rows. */
struct engine_border {
    engine_model_t *model;
    const border_layout_t *layout; /* of the model */
    uint32_t rows;
    uint64_t len_bytes;
    char *data; /* in the engine's memory */
};

/* As border_create() of engine.h. */
status_t blueprint_border_create(const blueprint_t *b, engine_model_t *model, const uint32_t *cuts,
                                 uint32_t cut_count, uint32_t rows, const engine_shape_t *largest_shapes,
                                 engine_border_t **border, err_t *err);
/* These are those of engine.h. */
void blueprint_border_destroy(engine_border_t *border);
uint64_t blueprint_border_bytes(const engine_border_t *border);

/* INVALID_ARGUMENT unless the rows of the job are inside the border of its model, UNSUPPORTED when they
 * are larger than those it was made for; NULL is fine. */
status_t blueprint_check_border(const engine_border_t *border, const engine_job_t *job, size_t row_bytes,
                                err_t *err);

/* INVALID_ARGUMENT unless the model can be cut to this range; `to` is set. */
status_t blueprint_check_range(const blueprint_t *b, const engine_range_t *range, uint32_t streams,
                               uint32_t ops, err_t *err);

/* UNSUPPORTED unless the instance has the operators that the cuts were found with. */
status_t blueprint_check_instance(const blueprint_t *b, const graph_t *instance, err_t *err);

#endif
