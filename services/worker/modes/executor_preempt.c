/*
 * `preempt`: as whole, and a batch that runs can be stopped at the exit points of its model (exec/preempt.h).
 * All models of a device in this mode share one executor.
 */
#include "exec/preempt.h"
#include "worker/modes/carrier.h"

#include <stdlib.h>

static void preempt_ended(launch_t *launch)
{
    batch_t *batch = CONTAINER_OF(launch, batch_t, launch);
    carrier_t *carrier = (carrier_t *)batch->executor;
    bool again;

    batch->err = launch->err;
    batch->device_ns += launch->time.charged_ns;
    batch->over = batch_take_output_shapes(batch, carrier->executor.env->devices, launch->status, &again);
    if (again && batch->revoked) {
        batch->over = err_set(&batch->err, STATUS_CANCELLED, "revoked");
    } else if (again) {
        carrier_launch(carrier, launch);
        carrier_decide(carrier);
        return;
    }
    if (launch->job.started_ns) {
        batch->started_ns = launch->job.started_ns;
        batch->finished_ns = launch->job.finished_ns;
    }
    carrier_end(carrier, batch->exec_launch,
                launch->status == STATUS_CANCELLED ? DRIVER_STOPPED : DRIVER_FINISHED);
    carrier_decide(carrier);
}

static status_t preempt_launch(void *device, const exec_action_t *action, err_t *err)
{
    carrier_t *carrier = device;
    batch_t *batch = carrier_batch(action->batch);
    const mode_choice_t *choice = &batch->model->choice;

    (void)err;
    batch->begun = true;
    batch->exec_launch = action->launch.launch;
    batch->launch.ended = preempt_ended;
    batch->launch.job = (engine_job_t){.model = batch->model->on_device[carrier->executor.device],
                                       .batch = batch->count,
                                       .inputs = (const void *const *)batch->buffers->inputs,
                                       .outputs = batch->buffers->outputs,
                                       .exits = choice->exits,
                                       .exit_count = choice->exits ? choice->exit_points : 0,
                                       .stoppable = true};
    if (batch->model->shapes)
        batch_put_shapes(batch, &batch->launch.job);
    carrier_launch(carrier, &batch->launch);
    return STATUS_OK;
}

static void preempt_act(void *ctx, const exec_action_t *action)
{
    carrier_t *carrier = ctx;
    batch_t *batch = carrier_batch(action->batch);

    switch (action->kind) {
    case EXEC_LAUNCH:
        break;
    case EXEC_STOP:
        carrier_stop(carrier, &batch->launch);
        break;
    case EXEC_COMPLETE: /* or it failed */
        if (batch->over == STATUS_OK)
            carrier->executor.env->rows(batch, 0, batch->count, batch->count);
        carrier_over(carrier, batch, batch->over);
        break;
    default:
        err_set(&batch->err, STATUS_CANCELLED, "revoked");
        carrier_over(carrier, batch, STATUS_CANCELLED);
        break;
    }
}

static bool preempt_takes(const executor_t *executor, const batch_t *batch)
{
    (void)batch;
    return exec_room(((const carrier_t *)executor)->driver.exec) > 0;
}

static void preempt_submit(executor_t *executor, batch_t *batch)
{
    carrier_t *carrier = (carrier_t *)executor;
    exec_query_t query = {.tag = carrier_id(batch), .rows = batch->count, .arrival_ns = batch->granted_ns};

    carrier_submit(carrier, batch, &query, 1);
}

static const driver_device_ops_t preempt_device = {.launch = preempt_launch, .carry_out = carrier_carry_out};
static const driver_user_ops_t preempt_user = {.act = preempt_act};

static const executor_ops_t preempt_ops = {.mode = MODE_PREEMPT,
                                           .takes = preempt_takes,
                                           .submit = preempt_submit,
                                           .revoke = carrier_revoke,
                                           .destroy = carrier_destroy};

executor_t *executor_create_preempt(const executor_env_t *env, uint32_t device, err_t *err)
{
    carrier_t *carrier = calloc(1, sizeof(*carrier));

    if (!carrier) {
        err_set(err, STATUS_NO_MEMORY, "out of memory");
        return NULL;
    }
    exec_t *exec = exec_create_preempt(ENGINE_MAX_BATCH, err);
    if (carrier_init(carrier, &preempt_ops, env, device, exec, &preempt_device, &preempt_user, err) !=
        STATUS_OK) {
        free(carrier);
        return NULL;
    }
    return &carrier->executor;
}
