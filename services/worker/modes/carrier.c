#include "worker/modes/carrier.h"

#include "base/clock.h"

#include <stdlib.h>

static void carrier_sink(void *ctx, const exec_action_t *action)
{
    carrier_t *carrier = ctx;

    carrier->act(carrier, action);
}

static void submit_due(carrier_t *carrier)
{
    launch_t *launch = carrier->due;

    carrier->due = NULL;
    carrier->due_tail = &carrier->due;
    while (launch) {
        launch_t *next = launch->next;
        launch_submit(carrier->executor.env->launcher, carrier->executor.device, launch);
        launch = next;
    }
}

static void tell_over(carrier_t *carrier)
{
    batch_t *batch;

    while ((batch = TAILQ_FIRST(&carrier->over))) {
        TAILQ_REMOVE(&carrier->over, batch, turn);
        carrier->executor.env->ended(batch, batch->over);
    }
}

void carrier_decide(carrier_t *carrier)
{
    int64_t wake_ns;

    carrier->again = true;
    if (carrier->deciding)
        return;
    carrier->deciding = true;
    while (carrier->again) {
        carrier->again = false;
        wake_ns = exec_run(carrier->exec, clock_now_ns(), carrier_sink, carrier);
        submit_due(carrier);
        if (carrier->stop)
            launch_stop(carrier->stop);
        carrier->stop = NULL;
        tell_over(carrier);
    }
    carrier->deciding = false;
    if (carrier->doomed)
        carrier_destroy(&carrier->executor);
    else if (wake_ns == EXEC_NEVER)
        loop_timer_stop(&carrier->wake);
    else
        loop_timer_start(&carrier->wake, wake_ns);
}

void carrier_launch(carrier_t *carrier, launch_t *launch)
{
    launch->next = NULL;
    *carrier->due_tail = launch;
    carrier->due_tail = &launch->next;
}

void carrier_stop(carrier_t *carrier, launch_t *launch)
{
    carrier->stop = launch;
}

void carrier_over(carrier_t *carrier, batch_t *batch, status_t status)
{
    batch->over = status;
    TAILQ_INSERT_TAIL(&carrier->over, batch, turn);
}

bool carrier_revoke(executor_t *executor, batch_t *batch)
{
    carrier_t *carrier = (carrier_t *)executor;

    if (!exec_preempt(carrier->exec, clock_now_ns(), carrier_id(batch)))
        return false;
    carrier_decide(carrier);
    return true;
}

static void carrier_on_wake(loop_timer_t *timer, void *arg)
{
    (void)timer;
    carrier_decide(arg);
}

status_t carrier_init(carrier_t *carrier, const executor_ops_t *ops, const executor_env_t *env,
                      uint32_t device, exec_t *exec,
                      void (*act)(carrier_t *carrier, const exec_action_t *action), err_t *err)
{
    carrier->executor = (executor_t){.ops = ops, .env = env, .device = device};
    carrier->exec = exec;
    carrier->act = act;
    carrier->due_tail = &carrier->due;
    TAILQ_INIT(&carrier->over);
    if (!exec)
        return err->code;
    status_t status = loop_timer_init(&carrier->wake, env->launcher->loop, carrier_on_wake, carrier, err);
    if (status != STATUS_OK)
        exec_destroy(exec);
    return status;
}

void carrier_destroy(executor_t *executor)
{
    carrier_t *carrier = (carrier_t *)executor;

    carrier->doomed = true;
    if (carrier->deciding)
        return;
    loop_timer_dispose(&carrier->wake);
    exec_destroy(carrier->exec);
    free(carrier);
}
