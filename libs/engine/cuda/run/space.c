#include "engine/cuda/run/space.h"

void space_init(space_t *space, device_t *device, pool_t *pool, uint32_t lane)
{
    *space = (space_t){.device = device,
                       .pool = pool,
                       .lane = lane,
                       .in = device_stream(lane, LANE_IN),
                       .compute = device_stream(lane, LANE_COMPUTE),
                       .out = device_stream(lane, LANE_OUT),
                       .generation = 1};
}

void space_dispose(space_t *space)
{
    pool_free(space->pool, space->work);
    pool_free(space->pool, space->scratch);
    for (uint32_t s = 0; s < SPACE_SLOTS; s++)
        pool_free(space->pool, space->slots[s]);
}

bool space_has_room(const space_t *space, const plan_t *plan)
{
    return space->work_bytes >= plan->program->work_bytes && space->scratch_bytes >= plan->scratch_bytes &&
           space->slot_bytes >= plan->slot_bytes;
}

/* The old piece goes first: what grows may need its room. After a failure there is none, and the next run
 * asks again. */
static status_t regrow(space_t *space, void **memory, size_t *have, size_t want, err_t *err)
{
    if (want <= *have)
        return STATUS_OK;
    pool_free(space->pool, *memory);
    *memory = NULL;
    *have = 0;
    space->generation++;
    status_t status = pool_alloc(space->pool, want, memory, err);
    if (status == STATUS_OK)
        *have = want;
    return status;
}

status_t space_reserve(space_t *space, const plan_t *plan, err_t *err)
{
    status_t status = regrow(space, &space->work, &space->work_bytes, plan->program->work_bytes, err);
    if (status == STATUS_OK)
        status = regrow(space, &space->scratch, &space->scratch_bytes, plan->scratch_bytes, err);
    size_t have = space->slot_bytes, want = plan->slot_bytes;
    for (uint32_t s = 0; status == STATUS_OK && want > have && s < SPACE_SLOTS; s++) {
        space->slot_bytes = have;
        status = regrow(space, &space->slots[s], &space->slot_bytes, want, err);
    }
    if (status != STATUS_OK)
        space->slot_bytes = space->slots[0] && space->slots[1] ? space->slot_bytes : 0;
    return status;
}

status_t space_clear(space_t *space, err_t *err)
{
    status_t status = device_zero(space->device, space->compute, space->work, space->work_bytes, err);
    for (uint32_t s = 0; status == STATUS_OK && s < SPACE_SLOTS; s++)
        status = device_zero(space->device, space->compute, space->slots[s], space->slot_bytes, err);
    return status;
}
