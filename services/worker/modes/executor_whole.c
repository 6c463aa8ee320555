/*
 * `whole` hands its batches on at once: the engine's queue runs them in order, one at a time, and starts the
 * next without a turn of the loop between. That is all that exec/whole.h would decide.
 */
#include "worker/modes/executor.h"

#include <stdlib.h>

static void whole_ended(launch_t *launch)
{
    batch_t *batch = CONTAINER_OF(launch, batch_t, launch);
    const executor_env_t *env = batch->executor->env;
    bool again;

    batch->err = launch->err;
    batch->device_ns += launch->time.charged_ns;
    status_t status = batch_take_output_shapes(batch, env->devices, launch->status, &again);
    if (again && batch->revoked) {
        status = err_set(&batch->err, STATUS_CANCELLED, "revoked");
    } else if (again) {
        launch_submit(env->launcher, batch->device, launch);
        return;
    }
    if (status == STATUS_OK) {
        batch->started_ns = launch->job.started_ns;
        batch->finished_ns = launch->job.finished_ns;
        env->rows(batch, 0, batch->count, batch->count);
    }
    env->ended(batch, status);
}

static void whole_submit(executor_t *executor, batch_t *batch)
{
    batch->launch.ended = whole_ended;
    batch->launch.job = (engine_job_t){.model = batch->model->on_device[executor->device],
                                       .batch = batch->count,
                                       .inputs = (const void *const *)batch->buffers->inputs,
                                       .outputs = batch->buffers->outputs};
    if (batch->model->shapes)
        batch_put_shapes(batch, &batch->launch.job);
    launch_submit(executor->env->launcher, executor->device, &batch->launch);
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
