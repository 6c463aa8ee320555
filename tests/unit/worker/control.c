/* The worker's stream against a scheduler that is played by the test. */
#include "control_play.h"

Test(control, registers_and_runs_a_granted_batch)
{
    play_init();
    play_start();
    rig_until(&rig, scheduler.fake.hellos == 1);
    cr_assert_eq(scheduler.fake.hello_epoch, 0);
    cr_assert_eq(scheduler.fake.hello_devices, 2);
    cr_assert_eq(scheduler.models, 0, "nothing before the welcome");
    fake_scheduler_welcome(&scheduler.fake, 9);
    rig_until(&rig, scheduler.ready_models == 1);

    say_grant(9, 1, 42);
    rig_until(&rig, engine_held() == 1);
    engine_finish(STATUS_OK, NULL);
    rig_until(&rig, scheduler.done == 1 && rig.gateways[0].done == 1);
    cr_assert_eq(scheduler.batches[0].id, 1);
    cr_assert_eq(scheduler.batches[0].status, STATUS_OK);
    cr_assert_float_eq(rig.gateways[0].pushed[0].values[0], 30, 0);

    say_grant(9, 2, 7);
    rig_until(&rig, scheduler.done == 2);
    cr_assert_eq(scheduler.batches[1].status, STATUS_NOT_FOUND);
    cr_assert_str_eq(scheduler.batches[1].reason, "unknown model id");
    play_dispose();
}

Test(control, answers_pings_with_what_was_in_them)
{
    play_init();
    play_start();
    rig_until(&rig, scheduler.fake.hellos == 1);
    fake_scheduler_welcome(&scheduler.fake, 1);
    fake_scheduler_ping(&scheduler.fake, 1, 0xABCDEF);
    rig_until(&rig, scheduler.fake.pongs == 1);
    cr_assert_eq(scheduler.fake.pong_ns, 0xABCDEF);
    play_dispose();
}

Test(control, a_new_scheduler_gets_everything_anew_and_an_old_one_is_not_obeyed)
{
    play_init();
    play_start();
    rig_until(&rig, scheduler.fake.hellos == 1);
    fake_scheduler_welcome(&scheduler.fake, 5);
    rig_until(&rig, scheduler.ready_models == 1);
    say_grant(5, 1, 42);
    rig_until(&rig, engine_held() == 1);
    say_grant(5, 2, 42);
    rig_until(&rig, engine_held() == 2);
    fake_scheduler_unlisten(&scheduler.fake);

    fake_scheduler_listen(&scheduler.fake);
    rig_until(&rig, scheduler.fake.hellos == 2);
    cr_assert_eq(scheduler.fake.hello_epoch, 5, "says which one it knew");
    cr_assert_eq(engine_held(), 1, "what had not begun was revoked");
    fake_scheduler_welcome(&scheduler.fake, 6);
    rig_until(&rig, scheduler.ready_models == 2);
    engine_finish(STATUS_OK, NULL);
    rig_until(&rig, rig.gateways[0].done == 1);
    say_grant(5, 3, 42); /* an older epoch */
    say_grant(6, 4, 42);
    rig_until(&rig, engine_held() == 1);
    engine_finish(STATUS_OK, NULL);
    rig_until(&rig, scheduler.done >= 1 && run_under_way(rig.run) == 0);
    cr_assert_eq(scheduler.done, 1, "neither the old batch nor the old grant is reported");
    cr_assert_eq(scheduler.batches[0].id, 4);
    fake_scheduler_unlisten(&scheduler.fake);

    fake_scheduler_listen(&scheduler.fake);
    rig_until(&rig, scheduler.fake.hellos == 3);
    fake_scheduler_welcome(&scheduler.fake, 5); /* the old one is back: it is left at once */
    rig_until(&rig, scheduler.fake.hellos == 4);
    cr_assert_eq(scheduler.ready_models, 2);
    play_dispose();
}

Test(control, a_worker_that_drains_tells_each_new_scheduler)
{
    play_init();
    play_start();
    rig_until(&rig, scheduler.fake.hellos == 1);
    worker_control_drain(scheduler.control, true); /* before anybody can hear it */
    fake_scheduler_welcome(&scheduler.fake, 1);
    rig_until(&rig, scheduler.ready_models == 1);
    cr_assert_eq(scheduler.draining, 2);
    fake_scheduler_unlisten(&scheduler.fake);
    fake_scheduler_listen(&scheduler.fake);
    rig_until(&rig, scheduler.fake.hellos == 2);
    fake_scheduler_welcome(&scheduler.fake, 2);
    rig_until(&rig, scheduler.ready_models == 2);
    cr_assert_eq(scheduler.draining, 4, "before its models");
    worker_control_drain(scheduler.control, false);
    rig_until(&rig, scheduler.ready == 2);
    play_dispose();
}

Test(control, a_lost_device_is_told_behind_its_batches_and_to_each_new_scheduler)
{
    play_init();
    play_start();
    rig_until(&rig, scheduler.fake.hellos == 1);
    fake_scheduler_welcome(&scheduler.fake, 1);
    rig_until(&rig, scheduler.ready_models == 1);
    say_grant(1, 1, 42);
    rig_until(&rig, engine_held() == 1);
    engine_lose();
    engine_finish(STATUS_UNAVAILABLE, "the GPU is lost");
    rig_until(&rig, scheduler.failed == 1);
    cr_assert_eq(scheduler.done_before_failed, 1);
    cr_assert_eq(scheduler.batches[0].status, STATUS_UNAVAILABLE);
    cr_assert_eq(scheduler.ready, 1, "the other one");
    fake_scheduler_unlisten(&scheduler.fake);
    fake_scheduler_listen(&scheduler.fake);
    rig_until(&rig, scheduler.fake.hellos == 2);
    fake_scheduler_welcome(&scheduler.fake, 2);
    rig_until(&rig, scheduler.ready_models == 2);
    cr_assert_eq(scheduler.failed, 2);
    play_dispose();
}

Test(control, a_refusal_is_met_by_trying_again)
{
    play_init();
    scheduler.fake.refuses = true;
    play_start();
    rig_until(&rig, scheduler.fake.stream != NULL);
    rig_until(&rig, scheduler.fake.stream == NULL);
    scheduler.fake.refuses = false;
    int before = scheduler.fake.hellos;
    rig_until(&rig, scheduler.fake.hellos > before && scheduler.fake.stream != NULL);
    fake_scheduler_welcome(&scheduler.fake, 1);
    rig_until(&rig, scheduler.ready_models == 1);
    play_dispose();
}
