/*
 * What one stream works with: its queues on the device, and memory that all plans which run there share. It
 * grows, and then everything that was bound to it is bound anew. Two slots of inputs and outputs let the next
 * batch be copied in while this one is computed; the work space serves one batch at a time.
 */
#ifndef ENGINE_CUDA_RUN_SPACE_H
#define ENGINE_CUDA_RUN_SPACE_H

#include "engine/cuda/run/plan.h"

enum { SPACE_SLOTS = 2 };

typedef struct {
    device_t *device;
    pool_t *pool;
    uint32_t lane; /* of the device */
    stream_t in, compute, out;
    void *work, *scratch, *slots[SPACE_SLOTS];
    size_t work_bytes, scratch_bytes, slot_bytes;
    uint64_t generation; /* counts the changes */
} space_t;

void space_init(space_t *space, device_t *device, pool_t *pool, uint32_t lane);
void space_dispose(space_t *space);
bool space_has_room(const space_t *space, const plan_t *plan);
/* Makes room for a plan. Nothing may be running. */
status_t space_reserve(space_t *space, const plan_t *plan, err_t *err);
/* Zeros everywhere. */
status_t space_clear(space_t *space, err_t *err);

#endif
