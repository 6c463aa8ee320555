/*
 * A model as an engine that compiles it has read it: the template, what it says of itself, its plans, and where it can
 * be cut. The same for oneDNN and CUDA.
 */
#ifndef ENGINE_COMPILE_BLUEPRINT_H
#define ENGINE_COMPILE_BLUEPRINT_H

#include "engine/compile/describe.h"
#include "engine/compile/plan_table.h"
#include "graph/passes/cuts.h"
#include "graph/passes/fuse.h"

#include <pthread.h>

enum { BLUEPRINT_TRIAL_SIZE = 16 }; /* of what varies, where some size must be tried */

typedef struct border_ops border_ops_t; /* "engine/compile/borders.h" */

/* First member of an engine's model. */
typedef struct {
    description_t description;
    graph_t *graph;
    graph_allow_fn allows;
    const border_ops_t *borders;
    bool by_value;           /* shapes depend on contents: it is interpreted */
    bool varies;             /* some dimension beside the batch */
    pthread_mutex_t cutting; /* the cuts are found once */
    engine_cuts_t cuts;      /* written once; ops = 0: nobody has asked yet */
    graph_cuts_t graph_cuts;
    void *edges;        /* the engine's, for each of graph_cuts.values; written once, with the cuts */
    plan_table_t plans; /* the engine begins and ends it */
} blueprint_t;

/*
 * In steps, for an engine that describes its models otherwise and keeps no graph: it begins one, fills the description, and has
 * the graph read when it is to be cut. INVALID_ARGUMENT and UNSUPPORTED say what is wrong with it; the blueprint stays as it was.
 */
void blueprint_begin(blueprint_t *b, graph_allow_fn allows, const border_ops_t *borders);
status_t blueprint_read(blueprint_t *b, const engine_load_t *what, err_t *err);
void blueprint_forget(blueprint_t *b); /* the graph */

/* allows: which epilogues the engine can append. After a failure there is nothing to dispose of. */
status_t blueprint_open(blueprint_t *b, const engine_load_t *what, graph_allow_fn allows,
                        const border_ops_t *borders, err_t *err);
void blueprint_dispose(blueprint_t *b); /* one of all zeros is fine */

/* The shapes of a batch, with `size` for what varies. */
void blueprint_shapes(const blueprint_t *b, uint32_t batch, int64_t size, tensor_t *inputs);

/* The same for a try: shapes that the model is known to take, where some were used before. */
void blueprint_trial_shapes(blueprint_t *b, uint32_t batch, tensor_t *inputs);

/* What a plan is made of: an instance with epilogues. UNSUPPORTED when contents decide its shapes. */
status_t blueprint_instance(const blueprint_t *b, const tensor_t *inputs, graph_t **instance, err_t *err);

/* INVALID_ARGUMENT unless the model can be cut to this range; `to` is set. */
status_t blueprint_check_range(const blueprint_t *b, const engine_range_t *range, uint32_t streams,
                               uint32_t ops, err_t *err);

/* UNSUPPORTED unless the instance has the operators that the cuts were found with. */
status_t blueprint_check_instance(const blueprint_t *b, const graph_t *instance, err_t *err);

#endif
