#include "exec/driver.h"

#include "exec/whole.h"

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t driver_due_ns(const driver_t *driver)
{
    return least(driver->wake_ns, driver->user->next_ns(driver->ctx));
}

static void act(void *ctx, const exec_action_t *action)
{
    driver_t *driver = ctx;
    if (driver->status != STATUS_OK)
        return;
    if (action->kind == EXEC_LAUNCH)
        driver->status = driver->on->launch(driver->device, action, driver->err);
    else if (action->kind == EXEC_STOP && driver->on->stop)
        driver->on->stop(driver->device, action->stop.launch);
    if (driver->status == STATUS_OK)
        driver->user->act(driver->ctx, action);
}

status_t driver_run(driver_t *driver)
{
    driver->again = true;
    if (driver->deciding)
        return driver->status;
    driver->deciding = true;
    while (driver->again) {
        driver->again = false;
        driver->wake_ns = exec_run(driver->exec, driver->now_ns, act, driver);
        if (driver->on->carry_out)
            driver->on->carry_out(driver->device);
    }
    driver->deciding = false;
    return driver->status;
}

void driver_end(driver_t *driver, const driver_end_t *end)
{
    if (end->kind == DRIVER_INPUTS_READ)
        whole_inputs_read(driver->exec, end->launch);
    else if (end->kind != DRIVER_STOPPED || !exec_stopped(driver->exec, driver->now_ns, end->launch))
        (void)exec_finished(driver->exec, driver->now_ns, end->launch);
}

status_t driver_step(driver_t *driver, int64_t due_ns)
{
    driver_end_t end;
    if (driver->status != STATUS_OK)
        return driver->status;
    driver->status =
        driver->on->wait(driver->device, least(due_ns, driver_due_ns(driver)), &driver->now_ns, driver->err);
    while (driver->status == STATUS_OK && driver->user->next_ns(driver->ctx) <= driver->now_ns)
        driver->status = driver->user->come(driver->ctx, driver->now_ns, driver->err);
    while (driver->status == STATUS_OK && driver->on->take_end(driver->device, &end))
        driver_end(driver, &end);
    return driver->status == STATUS_OK ? driver_run(driver) : driver->status;
}
