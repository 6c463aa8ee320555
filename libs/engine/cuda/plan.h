/*
 * A plan: a program with its places on a device, ready to run. Two slots of inputs and outputs let the next batch be
 * copied in while this one is computed; the work space is the engine's and serves one batch at a time.
 */
#ifndef ENGINE_CUDA_PLAN_H
#define ENGINE_CUDA_PLAN_H

#include "engine/cuda/device.h"
#include "engine/cuda/pool.h"

enum { PLAN_SLOTS = 2 };

/* Memory that all plans of an engine share; it grows, and then everything that was bound to it is bound anew. */
typedef struct {
    device_t *device;
    pool_t *pool;
    void *work, *scratch, *slots[PLAN_SLOTS];
    size_t work_bytes, scratch_bytes, slot_bytes;
    uint64_t generation; /* counts the changes */
    stream_t in, compute, out;
} space_t;

typedef struct {
    program_t *program;
    device_graph_t *graphs[PLAN_SLOTS];
    bool captures; /* false: a step runs on the CPU, or recording failed once */
    uint64_t generation;
    size_t scratch_bytes, slot_bytes, host_bytes;
    void **constants, **inputs[PLAN_SLOTS], **outputs[PLAN_SLOTS];
    size_t *input_offsets, *output_offsets;
    void *host; /* pinned, for HOST steps */
    device_t *device;
} plan_t;

/*
 * Uploads the constants that are not there yet, places the program in memory of its own for as long as it takes to choose
 * the kernels, and makes the plan, which takes the program over (also on failure).
 */
status_t plan_create(program_t *program, constants_t *constants, device_t *device, pool_t *pool,
                     engine_precision_t precision, effort_t effort, plan_t **plan, err_t *err);
void plan_destroy(plan_t *plan);

void space_init(space_t *space, device_t *device, pool_t *pool);
/* One that works beside the engine's, on STREAM_PREPARE alone. */
void space_init_aside(space_t *space, device_t *device, pool_t *pool);
void space_dispose(space_t *space);
/* Makes room for a plan. Nothing may be running. */
status_t space_reserve(space_t *space, const plan_t *plan, err_t *err);

/* Binds the plan to the space and records its graphs, unless that was done. Nothing may be running. */
status_t plan_ready(plan_t *plan, space_t *space, err_t *err);

/* Queues the copy of the inputs into a slot on the space's stream in. */
status_t plan_copy_in(plan_t *plan, space_t *space, uint32_t slot, const void *const *inputs, err_t *err);
/* Queues the computation on its stream compute; returns after it when steps run on the CPU. */
status_t plan_compute(plan_t *plan, space_t *space, uint32_t slot, err_t *err);
/* Queues the copy of one output to the host on its stream out. */
status_t plan_copy_out(plan_t *plan, space_t *space, uint32_t slot, uint32_t output, void *to, err_t *err);

#endif
