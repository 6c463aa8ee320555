#include "worker/batch/run_end.h"
#include "worker/batch/run_fetch.h"
#include "worker/batch/run_private.h"

#include "base/clock.h"
#include "grant_rows.h"

#include <stdatomic.h>
#include <stdlib.h>

/* A fetch is waited for at least this long, whatever the budget says: a late answer is better than one
 * lost to a hiccup. */
static const int64_t FETCH_MIN_NS = 20 * NS_PER_MS;
/* Kept for what comes after the fetch: the hand-over to the device, and the way of the results and of the answer. */
static const int64_t FETCH_SPARE_NS = 5 * NS_PER_MS;
/* No time on the wire is believed beyond this, ahead or past. */
static const int64_t BUDGET_MOST_NS = 3600 * NS_PER_S;
/* Nor longer than this: a gateway that is silent so long is gone. */
static const int64_t FETCH_MOST_NS = NS_PER_S;

static int64_t believed_ns(int64_t ns)
{
    if (ns > BUDGET_MOST_NS)
        return BUDGET_MOST_NS;
    return ns < -BUDGET_MOST_NS ? -BUDGET_MOST_NS : ns;
}

static int64_t shortest_budget_ns(const Control__Grant *grant)
{
    int64_t shortest_ns = BUDGET_MOST_NS;

    for (uint32_t i = 0; i < grant->rows; i++) {
        int64_t budget_ns = grant_rows_at(grant, i).budget_ns;
        shortest_ns = budget_ns < shortest_ns ? budget_ns : shortest_ns;
    }
    return believed_ns(shortest_ns);
}

/* As long as the most urgent row can still be answered: a fetch that stalls for a moment costs less than the batch, and rows that do not
 * come make none of the others late. */
static int64_t fetch_timeout_ns(const batch_t *batch)
{
    int64_t budget_ns = batch->answer_by_ns - batch->granted_ns;

    budget_ns = budget_ns < FETCH_MOST_NS ? budget_ns : FETCH_MOST_NS;
    int64_t after_ns =
        batch_latency_ns(batch, batch->granted) + run_free_in_ns(batch->run, batch->device) + FETCH_SPARE_NS;
    return budget_ns - after_ns > FETCH_MIN_NS ? budget_ns - after_ns : FETCH_MIN_NS;
}

static batch_t *run_take(run_t *run)
{
    batch_t *batch = TAILQ_FIRST(&run->free);

    if (batch) {
        TAILQ_REMOVE(&run->free, batch, link);
        return batch;
    }
    batch = calloc(1, sizeof(*batch));
    if (batch)
        batch->run = run;
    return batch;
}

static status_t grant_check(const run_t *run, const model_t *model, const Control__Grant *grant,
                            const char **reason)
{
    *reason = grant_rows_objection(grant);
    if (*reason)
        return STATUS_INVALID_ARGUMENT;
    if (!model || !serving_takes_grants(model)) {
        *reason = model ? "the model is not ready on this worker" : "unknown model id";
        return STATUS_NOT_FOUND;
    }
    if (grant->device >= run->options.devices->count) {
        *reason = "no such device";
        return STATUS_INVALID_ARGUMENT;
    }
    if (grant->rows > model->info->max_batch) {
        *reason = "the batch is larger than the model's max_batch";
        return STATUS_TOO_LARGE;
    }
    *reason = model->shapes ? axes_objection(&model->shapes->axes, grant->size, grant->n_size) : NULL;
    if (*reason)
        return STATUS_INVALID_ARGUMENT;
    if (run->options.devices->list[grant->device].lost) {
        *reason = "the device is lost";
        return STATUS_UNAVAILABLE;
    }
    if (run->stopping || run->devices[grant->device].queued >= RUN_QUEUE_MAX) {
        *reason = run->stopping ? "the worker is stopping" : "the device's queue is full";
        return STATUS_UNAVAILABLE;
    }
    return STATUS_OK;
}

/* Takes a batch with buffers and room; NULL: no memory. */
static batch_t *run_prepare(run_t *run, model_t *model, const Control__Grant *grant)
{
    batch_t *batch = run_take(run);

    if (!batch)
        return NULL;
    batch->model = model;
    batch->group_count = 0;
    model->serving->under_way++;
    batch->granted = grant->rows;
    run->under_way++;
    if (batch_reserve(batch, model, batch->granted))
        batch->buffers = model_buffers_get(model, run->options.devices, grant->device);
    if (!batch->buffers || !batch_size(batch, run->options.devices, grant)) {
        batch_recycle(batch);
        return NULL;
    }
    return batch;
}

void run_grant(run_t *run, uint32_t generation, model_t *model, const Control__Grant *grant)
{
    const char *reason = "";
    status_t status = grant_check(run, model, grant, &reason);
    batch_t *batch = NULL;

    if (status == STATUS_OK && !(batch = run_prepare(run, model, grant))) {
        status = STATUS_NO_MEMORY;
        reason = "no memory for the batch";
    }
    if (status != STATUS_OK) {
        run_refuse(run, generation, grant, status, reason);
        return;
    }
    batch->id = grant->batch_id;
    batch->generation = generation;
    batch->device = grant->device;
    batch->granted_ns = clock_now_ns();
    batch->fetched_ns = batch->started_ns = batch->finished_ns = batch->device_ns = 0;
    batch->pending = batch->push_count = batch->lost = 0;
    batch->revoked = batch->begun = batch->shared = batch->on_device = batch->apart = false;
    batch->stretches = grant->stretches;
    batch->answer_by_ns = batch->granted_ns + shortest_budget_ns(grant);
    batch->state = BATCH_FETCHING;
    TAILQ_INSERT_TAIL(&run->devices[batch->device].queue, batch, link);
    run->devices[batch->device].queued++;
    atomic_fetch_add(&run->options.devices->list[batch->device].batches, 1);
    atomic_store(&run->options.devices->list[batch->device].granted_ns, batch->granted_ns);
    batch_place(batch, run->options.peers, grant);
    batch_fetch(batch, (uint64_t)fetch_timeout_ns(batch));
}
