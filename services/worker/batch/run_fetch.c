#include "worker/batch/run_fetch.h"

#include "worker/batch/run_end.h"
#include "worker/batch/run_execute.h"
#include "worker/batch/run_private.h"

#include "base/clock.h"
#include "base/log.h"

#include <string.h>

/* A gateway that knows nothing of an input any more has a client that went away, or gave up in time. */
static bool are_gone(const batch_t *batch)
{
    for (uint32_t i = 0; i < batch->failed_count; i++)
        if (batch->failed_status[i] != STATUS_NOT_FOUND)
            return false;
    return true;
}

static void log_missing_rows(const batch_t *batch)
{
    log_at(are_gone(batch) ? LOG_DEBUG : LOG_WARN, "inputs_missing", LOG_STR("model", batch->model->name),
           LOG_U64("batch", batch->id), LOG_U64("rows", batch->failed_count), LOG_U64("of", batch->granted),
           LOG_STR("status", status_name((status_t)batch->failed_status[batch->failed_count - 1])),
           LOG_MS("after_ms", batch->fetched_ns - batch->granted_ns));
}

static void batch_fetched(batch_t *batch)
{
    batch->fetched_ns = clock_now_ns();
    batch_compact(batch);
    if (batch->failed_count && !batch->revoked)
        log_missing_rows(batch);
    if (batch->revoked) {
        batch_abort(batch, STATUS_CANCELLED, "revoked");
    } else if (batch->count == 0) {
        batch_abort(batch, are_gone(batch) ? STATUS_CANCELLED : STATUS_UNAVAILABLE,
                    "no input of the batch could be fetched");
    } else {
        batch_submit(batch);
    }
}

static void group_on_fetched(void *ctx, status_t status)
{
    batch_group_t *group = ctx;

    (void)status; /* each item has its own */
    group->request = 0;
    if (--group->batch->pending == 0)
        batch_fetched(group->batch);
}

/* Only whole batches are read by nobody but the engine, and only engines of the CPU read any memory. */
static bool reads_anywhere(const batch_t *batch)
{
    return batch->model->choice.mode == MODE_WHOLE && strcmp(batch->run->options.devices->kind, "cuda") != 0;
}

void batch_fetch(batch_t *batch, uint64_t timeout_ns)
{
    if (reads_anywhere(batch) && batch_hold(batch)) {
        for (uint32_t i = 0; i < batch->count; i++)
            batch->items[i].status = STATUS_OK;
        batch_fetched(batch);
        return;
    }
    /* Requests never end within transfer_fetch, so pending cannot fall to 0 in this loop. */
    for (uint32_t g = 0; g < batch->group_count; g++) {
        batch_group_t *group = &batch->groups[g];
        status_t status = STATUS_UNAVAILABLE;
        if (group->count == 0)
            continue;
        if (group->peer->here) {
            transfer_take(group->peer->here, batch->items + group->first, group->count);
            continue;
        }
        if (group->peer->transfer)
            status = transfer_fetch(group->peer->transfer, batch->items + group->first, group->count,
                                    timeout_ns, group_on_fetched, group, &group->request);
        if (status == STATUS_OK) {
            batch->pending++;
            continue;
        }
        for (uint32_t i = 0; i < group->count; i++)
            batch->items[group->first + i].status = status;
    }
    if (batch->pending == 0)
        batch_fetched(batch);
}
