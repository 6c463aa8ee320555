/*
 * A fork: the steps of a plan with bindings of their own, for one stream, so that several streams can run the
 * same plan at a time; primitives, constants and the places of the buffers are the plan's. Beside them, for
 * each cut that was asked for, how what is alive there comes in from a border and goes out to one. Any range
 * of operators between two cuts then costs nothing more: a plan has at most one fork for each stream, and
 * each of them at most two lists for each cut.
 */
#ifndef ENGINE_ONEDNN_RUN_FORK_H
#define ENGINE_ONEDNN_RUN_FORK_H

#include "engine/onednn/run/plan.h"

/* A value in a border. */
typedef struct {
    int32_t value;
    bool described; /* in the layout md but for dimension 0; else row-major */
    dnnl_memory_desc_t md;
} edge_t;

/* What a border holds at a cut; no edges: the inputs or outputs of the model. */
typedef struct {
    const edge_t *edges;
    uint32_t count;
} edges_t;

/* Where one value at a cut comes from or goes to. */
typedef struct {
    uint32_t buffer;          /* of the plan */
    size_t row_bytes;         /* in the border */
    size_t before_bytes;      /* row_bytes of the values in front of it there */
    size_t len_bytes;         /* of all rows of the batch there */
    dnnl_primitive_t reorder; /* NULL: copied as it is */
    dnnl_memory_t from, to;
} transfer_t;

typedef struct {
    transfer_t *list;
    uint32_t count;
    size_t row_bytes; /* of all values */
} transfers_t;

struct fork {
    fork_t *next; /* of the same plan */
    plan_t *plan;
    uint32_t stream, batch;
    step_t *steps;               /* as many as the plan's */
    binding_t *work, *inputs;    /* the same */
    transfers_t *loads, *stores; /* by the operator behind the cut; no list: not asked for yet */
    const void *bound_to;
    size_t len_bytes; /* of all this, about */
};

/* NO_MEMORY. */
status_t fork_create(plan_t *plan, uint32_t stream, uint32_t batch, dnnl_engine_t engine, fork_t **fork,
                     err_t *err);
void forks_destroy(fork_t *first);

/* Makes its loads, or its stores, at the cut before op. NO_MEMORY; UNSUPPORTED when oneDNN cannot reorder a value. */
status_t fork_reach(fork_t *fork, edges_t edges, uint32_t op, bool loads, dnnl_engine_t engine, err_t *err);

/* Those of steps first <= x < end: bindings are kept in the order of the steps. */
const binding_t *fork_bindings_of(const binding_t *all, uint32_t all_count, uint32_t first, uint32_t end,
                                  uint32_t *count);

/* One row of a value on a border, for a plan's or an instance's shapes; rows = dimension 0 of its inputs. */
size_t edge_row_bytes(const edge_t *edge, const tensor_t *t, uint32_t batch);

/* Its rows lie one after the other, each in one piece. */
bool edge_is_sliceable(const dnnl_memory_desc_t *md);

#endif
