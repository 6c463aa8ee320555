/*
 * A plan: one instance of a model (one batch size or set of shapes), compiled to a list of steps over one work space.
 *
 * Buffers that live in the work space get their place when the plan is complete; what points to them is bound
 * to the work space of the engine before a run, and again only when that has moved. A run allocates nothing.
 */
#ifndef ENGINE_ONEDNN_RUN_PLAN_H
#define ENGINE_ONEDNN_RUN_PLAN_H

#include "engine/compile/plan_table.h"
#include "graph/ops/op.h"

#include <oneapi/dnnl/dnnl.h>

typedef enum { BUFFER_WORK, BUFFER_CONSTANT, BUFFER_INPUT } buffer_kind_t;

typedef struct {
    buffer_kind_t kind;
    size_t len_bytes;
    uint32_t first, last; /* steps between which a WORK buffer is alive */
    size_t offset;        /* WORK: in the work space */
    void *data;           /* CONSTANT */
    uint32_t input;       /* INPUT: which one */
    uint32_t reads;       /* while building: reads of the values in it that are still to come */
} buffer_t;

/* Something that must be told where a buffer is. */
typedef struct {
    uint32_t buffer, step;
    dnnl_memory_t memory; /* NULL: a plain pointer */
    void **pointer;
} binding_t;

typedef struct {
    dnnl_primitive_t primitive; /* NULL: a reference kernel */
    dnnl_exec_arg_t *args;
    int arg_count;
    op_ctx_t ctx;
    tensor_t *tensors; /* of a kernel: what ctx points to, inputs first */
} step_t;

/* A value lies in a buffer, from a step on. */
typedef struct {
    int32_t value;
    uint32_t buffer, step;
    bool described;               /* else row-major, of a type that oneDNN does not know */
    const dnnl_memory_desc_t *md; /* NULL: row-major. The instance's */
} place_t;

typedef struct fork fork_t; /* "engine/onednn/run/fork.h" */

typedef struct {
    uint32_t buffer;
    tensor_t shape;
} plan_output_t;

typedef struct {
    plan_entry_t entry;
    engine_model_t *model;
    graph_t *instance; /* owns the small arrays, and the constants */
    buffer_t *buffers;
    step_t *steps;
    binding_t *work, *inputs; /* bindings by kind of buffer */
    plan_output_t *outputs;
    place_t *places;
    uint32_t *op_steps; /* steps in front of each node, and of the end */
    fork_t *forks;      /* one for each stream that runs parts of it; the model's lock */
    uint32_t place_count, place_capacity;
    uint32_t buffer_count, buffer_capacity, step_count, step_capacity, output_count;
    uint32_t work_count, work_capacity, input_count, input_capacity;
    size_t work_bytes;
    uint64_t signature; /* of the instance: see graph/passes/cuts.h */
    const void *bound_to;
} plan_t;

void plan_destroy(plan_t *plan);

/* Gives every WORK buffer its offset: buffers whose lives overlap do not overlap in space. */
status_t plan_place(plan_t *plan, err_t *err);

/* One step, its arguments bound. */
status_t plan_run_step(step_t *step, dnnl_stream_t stream, err_t *err);

/* Tells it where its buffer is. */
void plan_bind(const binding_t *binding, void *address);

/* Runs on the calling thread, and on one at a time. work has work_bytes; inputs[i] is the tensor of input
 * i. Reports the failing step. */
status_t plan_run(plan_t *plan, dnnl_stream_t stream, void *work, const void *const *inputs, err_t *err);

/* Where output i is after a run. */
const void *plan_output(const plan_t *plan, uint32_t i, const void *work, const void *const *inputs);

#endif
