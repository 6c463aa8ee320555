/*
 * What is alive at a cut, between a border and the memory in which the steps look for it. The steps of a
 * range of operators are those of the whole plan, so that what comes out is, bit by bit, what the whole plan
 * computes.
 *
 *     border:  | value 0: row 0, row 1, …, row capacity - 1 | value 1: row 0, … | …
 *
 * A border holds a value dense, in the layout and type that it has in the plan of some usual batch. A plan in
 * which it lies otherwise, or in several places, copies it with a kernel; else it is copied as it is.
 */
#ifndef ENGINE_CUDA_RUN_SEGMENT_H
#define ENGINE_CUDA_RUN_SEGMENT_H

#include "engine/compile/borders.h"
#include "engine/cuda/run/space.h"

/* A value on the borders of a cut. */
typedef struct {
    int32_t value;
    bool used; /* false: no step behind the cut looks for it */
    dtype_t dtype;
    layout_kind_t layout;
} edge_t;

typedef struct {
    const edge_t *edges;
    uint32_t count;
} edges_t;

/* Says how a value lies on a border at the cut before `op`, as it does in this program. */
edge_t edge_of(const program_t *program, int32_t value, uint32_t op);
/* What one of `batch` rows of it takes on a border. */
size_t edge_room_bytes(const edge_t *edge, const tensor_t *t, uint32_t batch);

/* The ways of all values at a cut into the plan's memory, or out of it, made when they are not there; the plan's. */
status_t plan_transfers(plan_t *plan, uint32_t op, bool into, edges_t edges, uint32_t batch,
                        const transfers_t **transfers, err_t *err);
void transfers_destroy(transfers_t *first);

/* Of one row of a border. */
size_t transfers_row_bytes(const transfers_t *transfers);

/* Queues the copies of the rows from `row` on on the space's stream compute; inputs lie in `slot`. */
status_t transfers_run(const transfers_t *transfers, const space_t *space, uint32_t slot,
                       const engine_border_t *border, uint32_t row, err_t *err);

#endif
