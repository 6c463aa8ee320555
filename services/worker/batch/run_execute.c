#include "worker/batch/run_execute.h"

#include "worker/batch/run_end.h"
#include "worker/batch/run_private.h"
#include "worker/batch/run_push.h"

#include "base/clock.h"
#include "base/log.h"

/* ---- executors ---- */

static executor_t *make_executor(run_t *run, uint32_t device, model_t *model, model_mode_t mode, err_t *err)
{
    switch (mode) {
    case MODE_STAGED:
        return executor_create_staged(&run->env, device, model, err);
    case MODE_OVERLAP:
        return executor_create_overlap(&run->env, device, model->choice.segments->plan, err);
    case MODE_PREEMPT:
        return executor_create_preempt(&run->env, device, err);
    default:
        return executor_create_whole(&run->env, device, err);
    }
}

/* NULL: err says why. */
static executor_t *device_executor(run_t *run, uint32_t device, model_t *model, model_mode_t mode, err_t *err)
{
    executor_t **at = &run->devices[device].executors;

    for (; *at; at = &(*at)->next) {
        bool fits = (*at)->ops->mode == mode;
        if (fits && (!(*at)->model || (*at)->model == model))
            return *at;
    }
    *at = make_executor(run, device, model, mode, err);
    return *at;
}

static executor_t *batch_executor(batch_t *batch)
{
    model_mode_t mode = batch->unfit ? MODE_WHOLE : batch->model->choice.mode;

    metrics_add(batch->model->serving->unfit, batch->unfit);
    return device_executor(batch->run, batch->device, batch->model, mode, &batch->err);
}

static void device_drop_executor(executor_t **at)
{
    executor_t *executor = *at;

    *at = executor->next;
    executor->ops->destroy(executor);
}

void run_forget(run_t *run, const model_t *model)
{
    for (uint32_t d = 0; d < run->options.devices->count; d++) {
        executor_t **at = &run->devices[d].executors;
        while (*at) {
            if ((*at)->model == model)
                device_drop_executor(at);
            else
                at = &(*at)->next;
        }
    }
}

/* ---- batches ---- */

static uint64_t between_ns(int64_t from_ns, int64_t to_ns)
{
    return to_ns > from_ns ? (uint64_t)(to_ns - from_ns) : 0;
}

static void batch_rows(batch_t *batch, uint32_t first, uint32_t count, uint32_t together)
{
    transfer_timing_t timing = {.batch_size = together,
                                .queue_ns = between_ns(batch->fetched_ns, batch->started_ns),
                                .fetch_ns = between_ns(batch->granted_ns, batch->fetched_ns),
                                .exec_ns = between_ns(batch->started_ns, batch->finished_ns)};

    batch_fill_results(batch, first, count, &timing);
    batch_push(batch, first, count);
}

/* How far off the prediction was. True: it has been corrected by that. */
static bool learn(const batch_t *batch, int64_t exec_ns)
{
    int64_t off_ns = exec_ns - model_latency_ns(batch->model, batch_sizes(batch), batch->count);

    metrics_observe(batch->model->serving->profile_error, off_ns < 0 ? -off_ns : off_ns);
    if (off_ns > 0)
        metrics_add(batch->model->serving->late, 1);
    return model_took(batch->model, clock_now_ns(), batch_sizes(batch), batch->count, exec_ns);
}

static void batch_observe(batch_t *batch)
{
    run_t *run = batch->run;
    int64_t exec_ns = batch->finished_ns - batch->started_ns;

    metrics_observe(batch->model->serving->exec, exec_ns);
    if (!batch->shared && learn(batch, exec_ns) && run->options.profile_changed)
        run->options.profile_changed(run->options.ctx, batch->model);
    metrics_observe(batch->model->serving->fetch, batch->fetched_ns - batch->granted_ns);
    metrics_observe(run->late_start, batch->started_ns - batch->granted_ns);
}

static void log_failed(const batch_t *batch)
{
    const model_devices_t *devices = batch->run->options.devices;

    log_error_limited("batch_failed", LOG_STR("model", batch->model->name), LOG_U64("batch", batch->id),
                      LOG_STR("device", devices->list[batch->device].name), LOG_ERR(&batch->err));
}

/* Its shape is what the mode of its model cannot run, and no row has left. */
static bool batch_suits_whole_only(const batch_t *batch, status_t status)
{
    return status == STATUS_UNSUPPORTED && batch->model->shapes && !batch->unfit && !batch->push_count &&
           batch->model->choice.mode != MODE_WHOLE;
}

/* False: no memory. */
static bool batch_runs_whole(batch_t *batch)
{
    turns_t *turns = &batch->run->devices[batch->device].turns;

    batch->unfit = true;
    executor_t *executor = batch_executor(batch);
    if (!executor)
        return false;
    batch_regain_rows(batch);
    batch->executor = executor;
    batch->begun = batch->shared = false;
    batch->started_ns = batch->finished_ns = 0;
    turns_ended(turns);
    turns_submit(turns, batch);
    return true;
}

/* Also one that failed may still be pushing rows that had left it before. With the last batch of a model
 * its executor may go: so that comes last. */
static void batch_ended(batch_t *batch, status_t status)
{
    turns_t *turns = &batch->run->devices[batch->device].turns;

    if (batch_suits_whole_only(batch, status)) {
        if (batch->revoked)
            status = err_set(&batch->err, STATUS_CANCELLED, "revoked");
        else if (batch_runs_whole(batch))
            return;
        else
            status = batch->err.code;
    }
    if (status == STATUS_OK)
        batch_observe(batch);
    else if (status != STATUS_CANCELLED && status != STATUS_DEADLINE_EXCEEDED)
        log_failed(batch);
    batch->state = BATCH_PUSHING;
    batch_report(batch, status, status == STATUS_OK ? "" : batch->err.text,
                 batch->push_count ? clock_now_ns() - batch->finished_ns : 0);
    turns_ended(turns);
    batch_settle_pushes(batch);
}

void batch_submit(batch_t *batch)
{
    batch->unfit = !mode_suits(batch->model, batch_sizes(batch));
    metrics_add(batch->model->serving->stretch_alone, batch->unfit && batch->stretches);
    batch->executor = batch_executor(batch);
    if (!batch->executor) {
        log_failed(batch);
        batch_abort(batch, batch->err.code, batch->err.text);
        return;
    }
    batch->state = BATCH_SUBMITTED;
    turns_submit(&batch->run->devices[batch->device].turns, batch);
}

/* ---- life ---- */

void run_execute_init(run_t *run)
{
    run->env = (executor_env_t){.launcher = &run->launcher,
                                .devices = run->options.devices,
                                .metrics = run->options.metrics,
                                .rows = batch_rows,
                                .ended = batch_ended};
}

void run_execute_dispose(run_t *run)
{
    for (uint32_t d = 0; d < run->options.devices->count; d++) {
        while (run->devices[d].executors)
            device_drop_executor(&run->devices[d].executors);
    }
}
