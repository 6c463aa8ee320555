/* The worker's stream when memory runs out: nothing is told by halves, the stream begins anew and tells it all. */
#include "control_play.h"
#include "failing_alloc.h"

static void connect_welcomed(void)
{
    play_init();
    play_start();
    rig_until(&rig, scheduler.fake.hellos == 1);
    fake_scheduler_welcome(&scheduler.fake, 1);
    rig_until(&rig, scheduler.ready_models == 1);
}

/* What was armed has failed, and the worker is there again. */
static void expect_anew(void)
{
    rig_until(&rig, scheduler.fake.hellos == 2);
    cr_assert(alloc_has_failed());
    fake_scheduler_welcome(&scheduler.fake, 1);
    rig_until(&rig, scheduler.ready_models == 2);
}

Test(control_memory, none_for_the_control_itself)
{
    worker_control_options_t options = {.scheduler = "127.0.0.1:1"};
    worker_control_t *control = NULL;
    err_t err;

    rig_init(&rig);
    alloc_fail_next(ALLOC_CALLOC, 0);
    options.metrics = rig.metrics;
    cr_assert_eq(worker_control_create(&options, &control, &err), STATUS_NO_MEMORY);
    cr_assert(alloc_has_failed());
    cr_assert_null(control);
    rig_dispose(&rig);
}

Test(control_memory, none_for_the_hello)
{
    play_init();
    play_start();
    alloc_fail_next(ALLOC_MALLOC, 2 * (sizeof(void *) + sizeof(Control__Device)) + 1);
    rig_until(&rig, scheduler.fake.hellos == 1);
    cr_assert(alloc_has_failed(), "the first stream said nothing");
    cr_assert_eq(scheduler.fake.hello_devices, 2);
    fake_scheduler_welcome(&scheduler.fake, 1);
    rig_until(&rig, scheduler.ready_models == 1);
    play_dispose();
}

Test(control_memory, none_to_say_that_it_drains)
{
    connect_welcomed();
    alloc_fail_next(ALLOC_MALLOC, 0);
    worker_control_drain(scheduler.control, true);
    expect_anew();
    cr_assert_eq(scheduler.draining, 2, "the new stream hears it");
    play_dispose();
}

Test(control_memory, none_to_report_a_model)
{
    connect_welcomed();
    alloc_fail_next(ALLOC_CALLOC, 0);
    worker_control_report_model(scheduler.control, rig.model, NULL);
    expect_anew();
    play_dispose();
}

/* The batch is the scheduler's again: it has lost the stream that granted it. */
static void expect_unreported(alloc_kind_t kind)
{
    connect_welcomed();
    say_grant(1, 1, 42);
    rig_until(&rig, engine_held() == 1);
    alloc_fail_next(kind, 0);
    engine_finish(STATUS_INTERNAL, "it burns");
    expect_anew();
    cr_assert_eq(scheduler.done, 0);
    say_grant(1, 2, 42);
    rig_until(&rig, engine_held() == 1);
    engine_finish(STATUS_INTERNAL, "it burns");
    rig_until(&rig, scheduler.done == 1);
    cr_assert_eq(scheduler.batches[0].id, 2);
    cr_assert_str_eq(scheduler.batches[0].reason, "it burns");
    play_dispose();
}

Test(control_memory, none_for_a_batch_that_has_ended)
{
    expect_unreported(ALLOC_REALLOC);
}

Test(control_memory, none_for_the_reason_of_a_batch)
{
    expect_unreported(ALLOC_STRDUP);
}

/* Without its number in the table every grant of the model would be refused. */
Test(control_memory, none_for_the_number_of_a_model)
{
    connect_welcomed();
    alloc_fail_next(ALLOC_REALLOC, 64 * sizeof(void *));
    say_grant(1, 1, 42);
    expect_anew();
    say_grant(1, 2, 42);
    rig_until(&rig, engine_held() == 1);
    engine_finish(STATUS_OK, NULL);
    rig_until(&rig, scheduler.done == 1);
    cr_assert_eq(scheduler.batches[0].id, 2);
    cr_assert_eq(scheduler.batches[0].status, STATUS_OK);
    play_dispose();
}
