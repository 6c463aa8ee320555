/* Granted batches on their way through three stages: they join, split and leave row by row, each reported once. */
#include "support.h"

#include <string.h>

static rig_t rig;

static void begin(void)
{
    rig_init(&rig);
    rig_stage(&rig, 3);
}

/* Rows of gateway 10; task and arena row are both 10 * batch + i. */
static void grant_rows(uint64_t batch_id, uint32_t rows, uint64_t stretches)
{
    grant_t grant;

    grant_init(&grant, batch_id, 0);
    grant.grant.stretches = stretches;
    for (uint32_t i = 0; i < rows; i++)
        grant_add(&rig, &grant, 10, 10 * batch_id + i, (uint32_t)(10 * batch_id + i));
    grant_send(&rig, &grant);
}

static void finish_stage(void)
{
    rig_until(&rig, engine_held() > 0);
    engine_finish(STATUS_OK, NULL);
    rig_barrier(&rig);
}

/* Each task has the answer to its own input. */
static void check_answers(int count)
{
    const gateway_t *gateway = &rig.gateways[0];

    rig_until(&rig, gateway->done == count);
    for (int i = 0; i < count; i++) {
        const pushed_t *pushed = &gateway->pushed[i];
        float task = (float)pushed->task_id;
        cr_assert_float_eq(pushed->values[0], 10 * task, 0, "task %g", (double)task);
        cr_assert_float_eq(pushed->values[1], 10 * task + 4, 0);
    }
}

static void end(void)
{
    rig_until(&rig, run_under_way(rig.run) == 0);
    run_forget(rig.run, rig.model);
    rig_dispose(&rig);
}

Test(staged, a_batch_passes_all_stages)
{
    begin();
    grant_rows(1, 3, 0);
    for (uint32_t s = 0; s < 3; s++) {
        rig_until(&rig, engine_held() == 1);
        cr_assert_eq(engine_oldest()->range.from, s);
        cr_assert_eq(engine_oldest()->range.to, s + 1);
        cr_assert_eq(engine_oldest()->batch, 3);
        cr_assert_eq(rig.report_count, 0);
        finish_stage();
    }
    check_answers(3);
    cr_assert_eq(rig.report_count, 1);
    cr_assert_eq(rig.reports[0].report.status, STATUS_OK);
    cr_assert_geq(rig.reports[0].report.exec_ns, 12345);
    cr_assert_eq(rig.gateways[0].pushed[0].timing.batch_size, 3);
    end();
}

Test(staged, batches_that_were_not_granted_to_join_come_one_after_the_other)
{
    begin();
    grant_rows(1, 2, 0);
    rig_until(&rig, engine_held() == 1);
    grant_rows(2, 2, 0);
    rig_barrier(&rig);
    cr_assert_eq(engine_held(), 1);
    for (int i = 0; i < 6; i++)
        finish_stage();
    check_answers(4);
    cr_assert_eq(rig.report_count, 2);
    cr_assert_eq(metrics_value(rig.model->serving->stage_batches), 2);
    cr_assert_eq(metrics_value(rig.model->serving->stage_stretched), 0);
    end();
}

Test(staged, rows_that_were_granted_to_join_catch_up_and_leave_with_the_batch)
{
    begin();
    grant_rows(1, 2, 0);
    rig_until(&rig, engine_held() == 1);
    grant_rows(2, 3, 1);
    rig_until(&rig, engine_held() == 1);
    rig_barrier(&rig);
    finish_stage(); /* the first stage of batch 1; the other is here */
    rig_until(&rig, engine_held() == 1);
    for (int stages = 0; rig.report_count < 2 && stages < 6; stages++)
        finish_stage();
    check_answers(5);
    cr_assert_eq(rig.report_count, 2);
    cr_assert_eq(rig.gateways[0].pushed[0].timing.batch_size, 5, "they left together");
    cr_assert_eq(metrics_value(rig.model->serving->stage_stretched), 3);
    cr_assert_eq(metrics_value(rig.model->serving->stretch_joined), 1);
    cr_assert_eq(metrics_value(rig.model->serving->stretch_alone), 0);
    end();
}

/* Device 0 runs these two together and a third alone: for no longer than the clock says, and none of it
 * counts twice. */
Test(staged, what_batches_are_charged_adds_up_to_the_busy_time_of_the_device)
{
    int64_t charged_ns = 0, begin_ns = clock_now_ns();

    begin();
    grant_rows(1, 2, 0);
    rig_until(&rig, engine_held() == 1);
    grant_rows(2, 3, 1);
    grant_rows(3, 1, 0);
    while (rig.report_count < 3)
        finish_stage();
    check_answers(6);
    for (int i = 0; i < 3; i++) {
        cr_expect_gt(rig.reports[i].report.device_ns, 0);
        charged_ns += rig.reports[i].report.device_ns;
    }
    cr_expect_eq(charged_ns, (int64_t)metrics_value(rig.devices.list[0].busy));
    cr_expect_leq(charged_ns, clock_now_ns() - begin_ns);
    end();
}

Test(staged, a_wish_to_join_a_batch_that_has_left_is_a_batch_of_its_own)
{
    begin();
    grant_rows(1, 1, 0);
    for (int i = 0; i < 3; i++)
        finish_stage();
    rig_until(&rig, rig.report_count == 1);
    grant_rows(2, 2, 1);
    for (int i = 0; i < 3; i++)
        finish_stage();
    check_answers(3);
    cr_assert_eq(metrics_value(rig.model->serving->stretch_alone), 1);
    end();
}

Test(staged, batches_that_wait_together_do_not_enter_together)
{
    begin();
    grant_rows(1, 1, 0);
    rig_until(&rig, engine_held() == 1);
    grant_rows(2, 2, 0);
    grant_rows(3, 2, 0);
    grant_rows(4, 1, 2); /* before 2 has begun */
    rig_barrier(&rig);
    for (int i = 0; i < 3; i++)
        finish_stage();
    rig_until(&rig, engine_held() == 1);
    cr_assert_eq(engine_oldest()->batch, 3, "2, and 4 that was granted to join it");
    for (int i = 0; i < 6; i++)
        finish_stage();
    check_answers(6);
    cr_assert_eq(metrics_value(rig.model->serving->stage_batches), 3);
    cr_assert_eq(metrics_value(rig.model->serving->stretch_joined), 1);
    end();
}

Test(staged, what_has_not_entered_is_given_back_when_it_is_revoked)
{
    begin();
    for (uint64_t id = 1; id <= 3; id++)
        grant_rows(id, 2, 0);
    rig_until(&rig, engine_held() == 1);
    rig_barrier(&rig);
    run_revoke(rig.run, 7, 1);
    cr_assert_eq(rig.report_count, 0, "it runs, and ends as usual");
    run_revoke(rig.run, 7, 2);
    cr_assert_eq(rig.report_count, 1);
    cr_assert_eq(rig.reports[0].report.batch_id, 2);
    cr_assert_eq(rig.reports[0].report.status, STATUS_CANCELLED);
    for (int i = 0; i < 6; i++)
        finish_stage();
    check_answers(4);
    cr_assert_eq(rig.report_count, 3);
    end();
}

Test(staged, a_scheduler_that_is_gone_takes_along_what_has_not_entered)
{
    begin();
    for (uint64_t id = 1; id <= 5; id++)
        grant_rows(id, 1, 0);
    rig_until(&rig, engine_held() == 1);
    rig_barrier(&rig);
    run_revoke_all(rig.run);
    cr_assert_eq(rig.report_count, 4);
    for (int i = 0; i < 3; i++)
        finish_stage();
    check_answers(1);
    end();
}

/* Under `load`, where 0 is no limit, rows join without having been granted to. */
Test(staged, a_schedule_of_its_own_lets_what_waits_join)
{
    begin();
    rig.model->choice.stages->schedule = &staged_schedule_load;
    grant_rows(1, 2, 0);
    rig_until(&rig, engine_held() == 1);
    grant_rows(2, 3, 0);
    rig_barrier(&rig);
    while (rig.report_count < 2)
        finish_stage();
    check_answers(5);
    cr_assert_eq(metrics_value(rig.model->serving->stage_stretched), 3);
    end();
}

Test(staged, a_schedule_of_its_own_has_batches_side_by_side)
{
    begin();
    rig.model->choice.stages->schedule = &staged_schedule_input;
    rig.model->choice.stages->beside = true;
    grant_rows(1, 2, 0);
    rig_until(&rig, engine_held() == 1);
    grant_rows(2, 3, 0);
    finish_stage();
    rig_until(&rig, engine_held() == 2);
    while (rig.report_count < 2)
        finish_stage();
    check_answers(5);
    cr_assert_eq(metrics_value(rig.model->serving->stage_batches), 2);
    cr_assert_eq(metrics_value(rig.model->serving->stage_beside), 1);
    end();
}

/* Rows that catch up do not wait for the stage in which the batch is that they are to join. */
Test(staged, what_catches_up_runs_on_another_stream_than_its_batch)
{
    rig_init(&rig);
    rig_stage(&rig, 4);
    grant_rows(1, 2, 0);
    for (int i = 0; i < 2; i++)
        finish_stage();
    rig_until(&rig, engine_held() == 1);
    cr_assert_eq(engine_oldest()->range.from, 2);
    grant_rows(2, 3, 1);
    rig_until(&rig, engine_held() == 2);
    cr_assert_eq(engine_oldest()->next->range.from, 0);
    cr_assert_neq(engine_oldest()->next->range.stream, engine_oldest()->range.stream);
    while (rig.report_count < 2)
        finish_stage();
    check_answers(5);
    cr_assert_eq(metrics_value(rig.model->serving->stage_stretched), 3);
    end();
}

/* Batches 1 and 2 follow each other, 4 joins 3. */
Test(staged, a_batch_that_was_alone_in_the_stages_tells_how_long_it_takes)
{
    begin();
    grant_rows(1, 2, 0);
    rig_until(&rig, engine_held() == 1);
    grant_rows(2, 2, 0);
    for (int i = 0; i < 6; i++)
        finish_stage();
    rig_until(&rig, rig.report_count == 2);
    cr_expect_eq(metrics_value(rig.model->serving->profile_error), 2);
    grant_rows(3, 2, 0);
    rig_until(&rig, engine_held() == 1);
    grant_rows(4, 3, 3);
    rig_barrier(&rig);
    while (rig.report_count < 4)
        finish_stage();
    cr_expect_eq(metrics_value(rig.model->serving->profile_error), 2, "these ran together");
    check_answers(9);
    end();
}

Test(staged, a_batch_goes_on_in_parts_where_these_cost_no_more)
{
    begin();
    rig.model->choice.stages->splits = true;
    rig.model->config.split_slack = 3; /* four parts of a millisecond each instead of one */
    grant_rows(1, 4, 0);
    for (int stages = 0; rig.report_count == 0 && stages < 9; stages++)
        finish_stage();
    check_answers(4);
    cr_assert_eq(rig.report_count, 1);
    cr_assert_geq(metrics_value(rig.model->serving->stage_splits), 1);
    cr_assert_lt(rig.gateways[0].pushed[0].timing.batch_size, 4);
    end();
}

Test(staged, a_stage_that_fails_loses_the_rows_that_were_in_it)
{
    begin();
    grant_rows(1, 2, 0);
    finish_stage();
    rig_until(&rig, engine_held() == 1);
    engine_finish(STATUS_INTERNAL, "no such primitive");
    rig_until(&rig, engine_held() == 1);
    finish_stage();
    rig_until(&rig, rig.report_count == 1);
    cr_assert_eq(rig.reports[0].report.status, STATUS_INTERNAL);
    cr_assert_str_eq(rig.reports[0].reason, "no such primitive");
    cr_assert_eq(rig.gateways[0].begun, 0);
    end();
}

/* 1 fails in its first stage, and again in the second, together with 2. */
Test(staged, what_is_reported_is_the_first_failure_of_a_batch)
{
    begin();
    grant_rows(1, 2, 0);
    rig_until(&rig, engine_held() == 1);
    grant_rows(2, 3, 1);
    rig_barrier(&rig);
    engine_finish(STATUS_INTERNAL, "first");
    rig_until(&rig, engine_held() == 1 && engine_oldest()->batch == 3);
    finish_stage();
    rig_until(&rig, engine_held() == 1 && engine_oldest()->batch == 5);
    engine_finish(STATUS_INTERNAL, "second");
    rig_until(&rig, engine_held() == 1);
    finish_stage();
    rig_until(&rig, rig.report_count == 2);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(rig.reports[i].report.status, STATUS_INTERNAL);
        cr_assert_str_eq(rig.reports[i].reason, rig.reports[i].report.batch_id == 1 ? "first" : "second");
    }
    cr_assert_eq(rig.gateways[0].begun, 0);
    end();
}

Test(staged, stopping_in_the_middle_leaks_nothing)
{
    begin();
    for (uint64_t id = 1; id <= 4; id++)
        grant_rows(id, 2, id == 2);
    rig_until(&rig, engine_held() >= 1);
    finish_stage();
    while (rig.report_count < 1)
        finish_stage();
    rig_dispose(&rig);
    cr_assert_eq(rig.report_count, 4, "each batch once, also on the way out");
}
