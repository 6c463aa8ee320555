/*
 * `whole` hands its batches on at once: the engine's queue runs them in order, one at a time, and starts the
 * next without a turn of the loop between. That is all that exec/whole.h would decide.
 */
#include "worker/modes/executor.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>

/* Where row `first` of each tensor lies. */
static void *const *from_row(void **at, const void *const *buffers, const size_t *row_bytes, uint32_t count,
                             uint32_t first)
{
    for (uint32_t k = 0; k < count; k++)
        at[k] = (uint8_t *)(uintptr_t)buffers[k] + first * row_bytes[k];
    return at;
}

/* Rows that lie one after the other. */
static void put_together(batch_t *batch, uint32_t first, engine_job_t *job)
{
    const engine_model_info_t *info = batch->model->info;

    job->inputs = batch_inputs(batch);
    job->outputs = batch_outputs(batch);
    if (first > 0) {
        job->inputs = (const void *const *)from_row(batch->part_inputs, job->inputs, batch->in_bytes,
                                                    info->input_count, first);
        job->outputs = from_row(batch->part_outputs, (const void *const *)job->outputs, batch->out_bytes,
                                info->output_count, first);
    }
    if (batch->model->shapes)
        batch_put_shapes(batch, job);
}

static void put_apart(const batch_t *batch, uint32_t first, engine_job_t *job)
{
    const engine_model_info_t *info = batch->model->info;

    job->row_inputs = batch->row_inputs + first * info->input_count;
    job->row_outputs = batch->row_outputs + first * info->output_count;
}

static void launch_part(executor_t *executor, batch_t *batch, const batch_part_t *part)
{
    batch->launch.job =
        (engine_job_t){.model = batch->model->on_device[executor->device], .batch = part->count};
    if (batch->apart)
        put_apart(batch, part->first, &batch->launch.job);
    else
        put_together(batch, part->first, &batch->launch.job);
    launch_submit(executor->env->launcher, executor->device, &batch->launch);
}

static void refuse_row(batch_t *batch, uint32_t row, status_t status)
{
    batch_lose_row(batch, row, status);
    log_warn_limited("inputs_refused", LOG_STR("model", batch->model->name), LOG_U64("batch", batch->id),
                     LOG_ERR(&batch->err));
}

/*
 * What a batch holds is to blame, and that is mostly one row of it: halves run until those that fail stand alone, so that they
 * cost the others nothing but time. Of such a batch nothing is learned.
 */
static void part_failed(batch_t *batch, const batch_part_t *part, status_t status)
{
    uint32_t half = part->count / 2;

    batch->shared = true;
    if (part->count == 1) {
        refuse_row(batch, part->first, status);
        return;
    }
    batch->parts[batch->part_count++] = (batch_part_t){part->first + half, part->count - half};
    batch->parts[batch->part_count++] = (batch_part_t){part->first, half};
}

/* An unknown category, a string that is too long. With shapes, rows are not looked at one by one. */
static bool rows_are_to_blame(const batch_t *batch, status_t status)
{
    return !batch->model->shapes && (status == STATUS_INVALID_ARGUMENT || status == STATUS_TOO_LARGE);
}

/* What is to be run next is the last of the parts. OK: those that are over need no more. */
static status_t part_ended(batch_t *batch, const batch_part_t *part)
{
    const launch_t *launch = &batch->launch;
    bool again;
    status_t status = batch_take_output_shapes(batch, batch->executor->env->devices, launch->status, &again);

    if (again) {
        batch->parts[batch->part_count++] = *part;
        return STATUS_OK;
    }
    if (status != STATUS_OK && !rows_are_to_blame(batch, status))
        return status;
    if (!batch->started_ns)
        batch->started_ns = launch->job.started_ns;
    batch->finished_ns = launch->job.finished_ns;
    if (batch->part_count == 0 && status == STATUS_OK)
        batch_let_go(batch);
    if (status == STATUS_OK)
        batch->executor->env->rows(batch, part->first, part->count, part->count);
    else
        part_failed(batch, part, status);
    return STATUS_OK;
}

static void whole_ended(launch_t *launch)
{
    batch_t *batch = CONTAINER_OF(launch, batch_t, launch);
    executor_t *executor = batch->executor;
    batch_part_t part = batch->parts[--batch->part_count];

    batch->err = launch->err;
    batch->device_ns += launch->time.charged_ns;
    status_t status = part_ended(batch, &part);
    if (status == STATUS_OK && batch->part_count > 0 && batch->revoked)
        status = err_set(&batch->err, STATUS_CANCELLED, "revoked");
    if (status == STATUS_OK && batch->part_count > 0)
        launch_part(executor, batch, &batch->parts[batch->part_count - 1]);
    else
        executor->env->ended(batch, status);
}

static void whole_submit(executor_t *executor, batch_t *batch)
{
    batch->launch.ended = whole_ended;
    batch->parts[0] = (batch_part_t){0, batch->count};
    batch->part_count = 1;
    if (batch_place_outputs(batch))
        metrics_add(batch->model->serving->outputs_in_place, 1);
    launch_part(executor, batch, &batch->parts[0]);
}

static bool whole_revoke(executor_t *executor, batch_t *batch)
{
    (void)executor;
    return launch_cancel(&batch->launch);
}

static void whole_destroy(executor_t *executor)
{
    free(executor);
}

static const executor_ops_t whole_ops = {
    .mode = MODE_WHOLE, .submit = whole_submit, .revoke = whole_revoke, .destroy = whole_destroy};

executor_t *executor_create_whole(const executor_env_t *env, uint32_t device, err_t *err)
{
    executor_t *executor = calloc(1, sizeof(*executor));

    if (!executor)
        err_set(err, STATUS_NO_MEMORY, "out of memory");
    else
        *executor = (executor_t){.ops = &whole_ops, .env = env, .device = device};
    return executor;
}
