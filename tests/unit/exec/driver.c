/* What a driver does when its device fails, when nothing is to come, and when it is told more while it decides. */
#include "accel/device.h"
#include "exec/whole.h"

#include <criterion/criterion.h>

typedef struct {
    driver_t driver;
    uint32_t sent, completed, launched, carried;
    uint64_t launch;             /* the last */
    status_t launching, waiting; /* how a device that does nothing answers */
} play_t;

static int64_t next_ns(const void *ctx)
{
    return ((const play_t *)ctx)->sent == 0 ? 5 : EXEC_NEVER;
}

static status_t come(void *ctx, int64_t now_ns, err_t *err)
{
    play_t *play = ctx;
    const exec_query_t query = {
        .tag = ++play->sent, .rows = 1, .arrival_ns = now_ns, .deadline_ns = EXEC_NEVER};
    return exec_submit(play->driver.exec, now_ns, &query, 1, 0, err);
}

static void act(void *ctx, const exec_action_t *action)
{
    if (action->kind == EXEC_COMPLETE)
        ((play_t *)ctx)->completed += action->done.count;
}

static const driver_user_ops_t user = {next_ns, come, act};

static play_t *play_new(const driver_device_ops_t *on, void *device, err_t *err)
{
    static play_t play;
    const whole_config_t config = {.gather = true, .rows_max = 4, .queries_max = 4};
    play = (play_t){.driver = {.on = on, .user = &user, .ctx = &play, .wake_ns = EXEC_NEVER, .err = err}};
    play.driver.device = device ? device : &play;
    play.driver.exec = exec_create_whole(&config, NULL);
    cr_assert(play.driver.exec);
    return &play;
}

/* ---- A device that does nothing ---- */

static status_t idle_wait(void *device, int64_t until_ns, int64_t *now_ns, err_t *err)
{
    *now_ns = until_ns;
    return ((play_t *)device)->waiting == STATUS_OK ? STATUS_OK : err_set(err, STATUS_IO, "unplugged");
}

static bool idle_take_end(void *device, driver_end_t *end)
{
    (void)device;
    (void)end;
    return false;
}

static status_t idle_launch(void *device, const exec_action_t *action, err_t *err)
{
    (void)action;
    return ((play_t *)device)->launching == STATUS_OK ? STATUS_OK : err_set(err, STATUS_NO_MEMORY, "full");
}

static const driver_device_ops_t idle = {.wait = idle_wait, .take_end = idle_take_end, .launch = idle_launch};

Test(driver, a_device_that_refuses_a_launch_ends_it)
{
    err_t err = {0};
    play_t *play = play_new(&idle, NULL, &err);
    play->launching = STATUS_NO_MEMORY;
    cr_expect_eq(driver_step(&play->driver, EXEC_NEVER), STATUS_NO_MEMORY);
    cr_expect_str_eq(err.text, "full");
    cr_expect_eq(driver_step(&play->driver, EXEC_NEVER), STATUS_NO_MEMORY, "and nothing more happens");
    exec_destroy(play->driver.exec);
}

Test(driver, a_device_that_fails_while_it_is_waited_for_ends_it)
{
    err_t err = {0};
    play_t *play = play_new(&idle, NULL, &err);
    play->waiting = STATUS_IO;
    cr_expect_eq(driver_step(&play->driver, EXEC_NEVER), STATUS_IO);
    cr_expect_str_eq(err.text, "unplugged");
    cr_expect_eq(play->sent, 0, "nothing comes to it");
    exec_destroy(play->driver.exec);
}

Test(driver, a_step_waits_for_no_more_than_it_is_told)
{
    play_t *play = play_new(&idle, NULL, NULL);
    cr_expect_eq(driver_step(&play->driver, 3), STATUS_OK);
    cr_expect(play->driver.now_ns == 3 && play->sent == 0);
    cr_expect_eq(driver_due_ns(&play->driver), 5);
    cr_expect_eq(driver_step(&play->driver, EXEC_NEVER), STATUS_OK);
    cr_expect(play->driver.now_ns == 5 && play->sent == 1);
    exec_destroy(play->driver.exec);
}

/* ---- One that has ended when its launches are carried out ---- */

static status_t put_aside(void *device, const exec_action_t *action, err_t *err)
{
    play_t *play = device;
    (void)err;
    play->launched++;
    play->launch = action->launch.launch;
    return STATUS_OK;
}

static void carry_out(void *device)
{
    play_t *play = device;
    const driver_end_t end = {play->launch, DRIVER_STOPPED}; /* which whole knows nothing of */
    cr_expect(play->driver.deciding, "behind the decision, not after the driver has returned");
    play->carried++;
    if (play->launch == 0)
        return;
    play->launch = 0;
    driver_end(&play->driver, &end);
    (void)driver_run(&play->driver);
    cr_expect_eq(play->completed, 0, "what follows is not decided within");
}

static const driver_device_ops_t at_once = {.launch = put_aside, .carry_out = carry_out};

Test(driver, what_it_is_told_while_it_decides_is_decided_behind)
{
    play_t *play = play_new(&at_once, NULL, NULL);
    const exec_query_t query = {.rows = 1, .deadline_ns = EXEC_NEVER};
    for (uint32_t i = 0; i < 2; i++)
        cr_assert_eq(exec_submit(play->driver.exec, 0, &query, 1, 0, NULL), STATUS_OK);
    cr_expect_eq(driver_run(&play->driver), STATUS_OK);
    cr_expect_eq(play->launched, 1);
    cr_expect_eq(play->completed, 2, "both in one batch");
    cr_expect_eq(play->carried, 2);
    cr_expect_not(play->driver.deciding);
    exec_destroy(play->driver.exec);
}

/* ---- The emulated one ---- */

static uint32_t operators(void *ctx, const exec_part_t *part, accel_op_t *ops)
{
    (void)ctx;
    (void)part;
    ops[0] = (accel_op_t){.ns = 10, .occupancy = 1};
    return 1;
}

Test(driver, the_emulated_device_says_when_nothing_moves)
{
    err_t err = {0};
    const accel_device_config_t config = {.streams = 1, .ops_max = 4, .operators = operators};
    accel_device_t *device = accel_device_create(&config, NULL);
    play_t *play = play_new(&accel_device_ops, device, &err);
    cr_expect_eq(driver_step(&play->driver, EXEC_NEVER), STATUS_OK); /* it comes, and runs */
    cr_expect_eq(driver_step(&play->driver, EXEC_NEVER), STATUS_OK);
    cr_expect(play->completed == 1 && play->driver.now_ns == 15);
    cr_expect_eq(driver_step(&play->driver, EXEC_NEVER), STATUS_INTERNAL);
    exec_destroy(play->driver.exec);
    accel_device_destroy(device);
}
