/*
 * `preempt`: as whole, and a batch that runs can be stopped at the exit points of its model (exec/preempt.h).
 * All models of a device in this mode share one executor.
 */
#include "exec/preempt.h"
#include "worker/modes/carrier.h"

#include "base/clock.h"

#include <stdlib.h>

static void preempt_ended(launch_t *launch)
{
    batch_t *batch = CONTAINER_OF(launch, batch_t, launch);
    carrier_t *carrier = (carrier_t *)batch->executor;
    int64_t now_ns = clock_now_ns();
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
    bool stopped =
        launch->status == STATUS_CANCELLED && exec_stopped(carrier->exec, now_ns, batch->exec_launch);
    if (!stopped)
        exec_finished(carrier->exec, now_ns, batch->exec_launch);
    carrier_decide(carrier);
}

static void start(carrier_t *carrier, batch_t *batch, uint64_t exec_launch)
{
    const mode_choice_t *choice = &batch->model->choice;

    batch->begun = true;
    batch->exec_launch = exec_launch;
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
}

static void preempt_act(carrier_t *carrier, const exec_action_t *action)
{
    batch_t *batch = carrier_batch(action->batch);

    switch (action->kind) {
    case EXEC_LAUNCH:
        start(carrier, batch, action->launch.launch);
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
    return exec_room(((const carrier_t *)executor)->exec) > 0;
}

static void preempt_submit(executor_t *executor, batch_t *batch)
{
    carrier_t *carrier = (carrier_t *)executor;
    exec_query_t query = {.tag = carrier_id(batch), .rows = batch->count, .arrival_ns = batch->granted_ns};

    /* There is room and the batch is not empty: it cannot be refused. */
    (void)exec_submit(carrier->exec, clock_now_ns(), &query, 1, carrier_id(batch), NULL);
    carrier_decide(carrier);
}

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
    if (carrier_init(carrier, &preempt_ops, env, device, exec, preempt_act, err) != STATUS_OK) {
        free(carrier);
        return NULL;
    }
    return &carrier->executor;
}
