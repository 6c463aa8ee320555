#include "worker/modes/carrier.h"

#include "base/clock.h"

#include <stdlib.h>

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

void carrier_carry_out(void *device)
{
    carrier_t *carrier = device;

    submit_due(carrier);
    if (carrier->stop)
        launch_stop(carrier->stop);
    carrier->stop = NULL;
    tell_over(carrier);
}

void carrier_decide(carrier_t *carrier)
{
    driver_t *driver = &carrier->driver;

    driver->now_ns = clock_now_ns();
    (void)driver_run(driver);
    if (driver->deciding)
        return;
    if (carrier->doomed)
        carrier_destroy(&carrier->executor);
    else if (driver->wake_ns == EXEC_NEVER)
        loop_timer_stop(&carrier->wake);
    else
        loop_timer_start(&carrier->wake, driver->wake_ns);
}

void carrier_submit(carrier_t *carrier, batch_t *batch, const exec_query_t *queries, uint32_t count)
{
    (void)exec_submit(carrier->driver.exec, clock_now_ns(), queries, count, carrier_id(batch), NULL);
    carrier_decide(carrier);
}

void carrier_end(carrier_t *carrier, uint64_t launch, driver_end_kind_t kind)
{
    const driver_end_t end = {launch, kind};

    carrier->driver.now_ns = clock_now_ns();
    driver_end(&carrier->driver, &end);
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

    if (!exec_preempt(carrier->driver.exec, clock_now_ns(), carrier_id(batch)))
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
                      uint32_t device, exec_t *exec, const driver_device_ops_t *on,
                      const driver_user_ops_t *user, err_t *err)
{
    carrier->executor = (executor_t){.ops = ops, .env = env, .device = device};
    carrier->driver = (driver_t){
        .exec = exec, .on = on, .device = carrier, .user = user, .ctx = carrier, .wake_ns = EXEC_NEVER};
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
    if (carrier->driver.deciding)
        return;
    loop_timer_dispose(&carrier->wake);
    exec_destroy(carrier->driver.exec);
    free(carrier);
}
