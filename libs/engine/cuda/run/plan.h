/*
 * A plan: a program with its constants on a device and its kernels chosen. It does not change any more; each
 * stream that runs it has a runner of its own (runner.h), and all share the ways to and from the borders
 * (segment.h).
 */
#ifndef ENGINE_CUDA_RUN_PLAN_H
#define ENGINE_CUDA_RUN_PLAN_H

#include "engine/compile/plan_table.h"
#include "engine/cuda/device/device.h"
#include "engine/cuda/run/pool.h"

#include <stdatomic.h>

typedef struct runner runner_t;
typedef struct transfers transfers_t;

typedef struct {
    plan_entry_t entry;
    program_t *program;
    device_t *device;
    engine_precision_t precision;
    size_t scratch_bytes, host_bytes;
    size_t slot_bytes, *input_offsets, *output_offsets; /* of one batch's inputs and outputs */
    void **constants;
    atomic_int alike;    /* its operators are those of the model's cuts: 1 yes, -1 no, 0 nobody has looked */
    uint32_t *io_before; /* bindings to inputs or outputs in the steps in front of each */

    pthread_mutex_t mutex; /* the two lists; what is in them stays as long as the plan */
    runner_t *runners;
    transfers_t *transfers;
} plan_t;

/*
 * Uploads the constants that are not there yet, places the program in memory of its own for as long as it
 * takes to choose the kernels, and makes the plan, which takes the program over (also on failure).
 */
status_t plan_create(program_t *program, constants_t *constants, device_t *device, pool_t *pool,
                     engine_precision_t precision, effort_t effort, plan_t **plan, err_t *err);
void plan_destroy(plan_t *plan);

/* ---- slots.c ---- */

/* For plan_create: fills in slot_bytes and the offsets, and io_before. False: no memory. */
bool plan_lay_out_slot(plan_t *plan);
bool plan_count_io(plan_t *plan);

/* Pointers to the inputs and outputs of a batch that lie in a slot from `base` on. */
void plan_place_slot(const plan_t *plan, void *base, void **inputs, void **outputs);

/* The steps touch inputs or outputs, so that it matters in which slot these lie. */
bool plan_touches_slot(const plan_t *plan, uint32_t first_step, uint32_t end_step);

#endif
