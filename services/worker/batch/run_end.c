#include "worker/batch/run_end.h"

#include "worker/batch/run_private.h"

#include "base/log.h"

#include <stdatomic.h>

void batch_recycle(batch_t *batch)
{
    run_t *run = batch->run;

    if (batch->buffers)
        model_buffers_put(batch->model, batch->buffers);
    batch->buffers = NULL;
    run->under_way--;
    TAILQ_INSERT_HEAD(&run->free, batch, link);
    batch_release_peers(batch, run->options.peers);
    if (--batch->model->serving->under_way == 0 && run->options.model_idle)
        run->options.model_idle(run->options.ctx, batch->model);
}

int64_t run_free_in_ns(const run_t *run, uint32_t device)
{
    const batch_t *batch;
    int64_t sum = 0;

    TAILQ_FOREACH(batch, &run->devices[device].queue, link)
    {
        const executor_t *executor = batch->executor;
        if (batch->state != BATCH_SUBMITTED)
            continue;
        if (executor->ops->left_ns && !batch->waits)
            sum += executor->ops->left_ns(executor, batch);
        else
            sum += batch_latency_ns(batch, batch->count);
    }
    return sum;
}

static void run_count(const batch_t *batch, status_t status)
{
    model_t *model = batch->model;

    if (status == STATUS_CANCELLED && batch->revoked) {
        metrics_add(model->serving->batches_revoked, 1); /* its tasks are the scheduler's again */
        return;
    }
    metrics_add(status == STATUS_OK ? model->serving->batches_ok : model->serving->batches_failed, 1);
    if (status == STATUS_OK)
        metrics_add(model->serving->tasks_ok, batch->count - batch->lost);
    metrics_add(model->serving->tasks_failed, status == STATUS_OK ? batch->failed_count : batch->granted);
}

static void count_revocation(run_t *run, const batch_t *batch, status_t status)
{
    int64_t ran_ns = batch->finished_ns - batch->started_ns;

    if (status != STATUS_CANCELLED) {
        metrics_add(run->revoked_late, 1);
    } else if (!batch->started_ns) {
        metrics_add(run->revoked_waiting, 1);
    } else {
        metrics_add(run->revoked_stopped, 1);
        metrics_observe(batch->model->serving->stopped, ran_ns);
    }
}

/* Nobody says so but a batch that fails. */
static void look_for_loss(const run_t *run, uint32_t d)
{
    model_device_t *device = &run->options.devices->list[d];
    const engine_ops_t *ops = run->options.devices->ops;

    if (device->lost || !ops->is_lost || !ops->is_lost(device->engine))
        return;
    device->lost = true;
    log_error("device_lost", LOG_STR("device", device->name));
    if (run->options.device_lost)
        run->options.device_lost(run->options.ctx, d);
}

void batch_report(batch_t *batch, status_t status, const char *reason, int64_t push_ns)
{
    run_t *run = batch->run;
    bool ran = batch->started_ns != 0;

    batch_let_go(batch);
    batch_vacate(batch);
    TAILQ_REMOVE(&run->devices[batch->device].queue, batch, link);
    run->devices[batch->device].queued--;
    atomic_fetch_sub(&run->options.devices->list[batch->device].batches, 1);
    run_count(batch, status);
    if (batch->revoked)
        count_revocation(run, batch, status);
    run_report_t report = {.batch_id = batch->id,
                           .generation = batch->generation,
                           .device = batch->device,
                           .status = status,
                           .reason = reason,
                           .exec_ns = ran ? batch->finished_ns - batch->started_ns : 0,
                           .device_ns = batch->device_ns,
                           .fetch_ns = batch->fetched_ns ? batch->fetched_ns - batch->granted_ns : 0,
                           .push_ns = push_ns,
                           .free_in_ns = run_free_in_ns(run, batch->device),
                           .failed_row = batch->failed_row,
                           .failed_status = batch->failed_status,
                           .failed_count = batch->failed_count};
    run->options.report(run->options.ctx, &report);
    if (status != STATUS_OK)
        look_for_loss(run, batch->device);
}

void batch_abort(batch_t *batch, status_t status, const char *reason)
{
    batch_report(batch, status, reason, 0);
    batch_recycle(batch);
}

void run_refuse(run_t *run, uint32_t generation, const Control__Grant *grant, status_t status,
                const char *reason)
{
    run_report_t report = {.batch_id = grant->batch_id,
                           .generation = generation,
                           .device = grant->device,
                           .status = status,
                           .reason = reason};

    log_warn_limited("grant_refused", LOG_U64("batch", grant->batch_id),
                     LOG_STR("status", status_name(status)), LOG_STR("reason", reason));
    run->options.report(run->options.ctx, &report);
}
