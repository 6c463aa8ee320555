/*
 * A segment: a range of the operators of a plan, run on one stream. It has bindings of its own, so that several
 * streams can run the same plan at a time; primitives, constants and the places of the buffers are the plan's, and so
 * what comes out is, bit by bit, what the whole plan computes.
 *
 * What is alive at a cut is copied from the border into the work space before, and out of it behind. A border holds each
 * value in one layout for all batch sizes; a plan that has it in another one reorders it on the way:
 *
 *     border:  | value 0: row 0, row 1, …, row capacity - 1 | value 1: row 0, … | …
 */
#ifndef ENGINE_ONEDNN_SEGMENT_H
#define ENGINE_ONEDNN_SEGMENT_H

#include "engine/blueprint.h"
#include "engine/onednn/plan.h"

#include <stdatomic.h>

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

/* Where one value of a segment comes from or goes to. */
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

struct segment {
    segment_t *next;
    engine_range_t range;
    plan_t *plan;
    uint32_t batch;
    step_t *steps;
    uint32_t step_count;
    uint32_t first_step;
    binding_t *work, *inputs;
    uint32_t work_count, input_count;
    const void *bound_to;
    transfers_t loads, stores;
    bool is_last;
};

typedef struct {
    dnnl_stream_t stream;
    void *work; /* the plan's work_bytes */
    const atomic_bool *stop;
} segment_run_t;

/* range.to is set. NO_MEMORY; UNSUPPORTED when oneDNN cannot reorder a value. */
status_t segment_create(plan_t *plan, const engine_range_t *range, uint32_t batch, edges_t source,
                        edges_t target, dnnl_engine_t engine, segment_t **segment, err_t *err);
void segments_destroy(segment_t *first);

/* CANCELLED when it stopped at an exit. One thread at a time. */
status_t segment_run(segment_t *segment, const segment_run_t *how, engine_job_t *job, err_t *err);

/* One row of a value on a border, for a plan's or an instance's shapes; rows = dimension 0 of its inputs. */
size_t edge_row_bytes(const edge_t *edge, const tensor_t *t, uint32_t batch);

/* Its rows lie one after the other, each in one piece. */
bool edge_is_sliceable(const dnnl_memory_desc_t *md);

#endif
