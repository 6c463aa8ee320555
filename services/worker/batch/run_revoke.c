#include "worker/batch/run_end.h"
#include "worker/batch/run_private.h"

static void batch_revoke(batch_t *batch)
{
    run_t *run = batch->run;

    batch->revoked = true;
    switch (batch->state) {
    case BATCH_FETCHING:
        /* The last cancelled request ends the batch, so `pending` is looked at before each. */
        for (uint32_t g = 0; batch->pending > 0 && g < batch->group_count; g++)
            transfer_cancel(run->options.pool, batch->groups[g].request);
        break;
    case BATCH_SUBMITTED:
        if (turns_withdraw(&run->devices[batch->device].turns, batch))
            batch_abort(batch, STATUS_CANCELLED, "revoked");
        else
            batch->executor->ops->revoke(batch->executor, batch);
        break;
    case BATCH_PUSHING:
        break;
    }
}

void run_revoke(run_t *run, uint32_t generation, uint64_t batch_id)
{
    for (uint32_t d = 0; d < run->options.devices->count; d++) {
        batch_t *batch;
        TAILQ_FOREACH(batch, &run->devices[d].queue, link)
        {
            if (batch->id == batch_id && batch->generation == generation) {
                batch_revoke(batch);
                turns_advance(&run->devices[d].turns);
                return;
            }
        }
    }
    metrics_add(run->revoked_late, 1);
}

/* One that an executor has and may not have begun, and that was not asked to end. */
static batch_t *device_unrevoked(run_device_t *device)
{
    batch_t *batch;

    TAILQ_FOREACH(batch, &device->queue, link)
    {
        if (!batch->revoked && !batch->begun)
            return batch;
    }
    return NULL;
}

/* First those that no executor has: so that none of them gets its turn when another ends. */
static void device_revoke_all(run_device_t *device)
{
    batch_t *batch = TAILQ_FIRST(&device->queue), *next;

    for (; batch; batch = next) {
        next = TAILQ_NEXT(batch, link);
        if (batch->state != BATCH_SUBMITTED || batch->waits)
            batch_revoke(batch);
    }
    while ((batch = device_unrevoked(device)))
        batch_revoke(batch);
}

void run_revoke_all(run_t *run)
{
    for (uint32_t d = 0; d < run->options.devices->count; d++)
        device_revoke_all(&run->devices[d]);
}
