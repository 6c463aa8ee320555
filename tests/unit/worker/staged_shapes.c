/* Batches of rows that differ in size in mode staged: only rows of one shape come together, and what does
 * not suit runs whole. */
#include "support.h"

static rig_t rig;

static void begin(void)
{
    rig_init(&rig);
    rig_stage(&rig, 3);
    rig_vary(&rig);
}

/* Rows of gateway 10 with `size` elements in the first input; task and arena row are both 10 * batch + i. */
static void grant_rows(uint64_t batch_id, uint32_t rows, uint32_t size, uint64_t stretches)
{
    grant_t grant;

    grant_init(&grant, batch_id, 0);
    grant.size = size;
    grant.grant.stretches = stretches;
    for (uint32_t i = 0; i < rows; i++)
        grant_add(&rig, &grant, 10, 10 * batch_id + i, (uint32_t)(10 * batch_id + i));
    grant_send(&rig, &grant);
}

static void turn(int times)
{
    for (int i = 0; i < times; i++)
        loop_run_once(rig.loop, NS_PER_MS);
}

static void finish(status_t status)
{
    rig_until(&rig, engine_held() > 0);
    engine_finish(status, status == STATUS_OK ? NULL : "as the test wants");
    turn(5);
}

static void finish_all(int reports)
{
    while (rig.report_count < reports)
        finish(STATUS_OK);
}

/* Each task has the answer to its own input: the second input begins behind `size` elements of the first. */
static void check_answer(uint64_t task, uint32_t size)
{
    const gateway_t *gateway = &rig.gateways[0];
    uint32_t row = IN_A + IN_B;

    for (int i = 0; i < gateway->done; i++) {
        const pushed_t *pushed = &gateway->pushed[i];
        if (pushed->task_id != task)
            continue;
        cr_assert_float_eq(pushed->values[0], (double)(10 * task), 0);
        cr_assert_float_eq(pushed->values[1], (double)(10 * (task + size / row) + size % row), 0);
        return;
    }
    cr_assert_fail("task %llu has no answer", (unsigned long long)task);
}

static void end(void)
{
    rig_until(&rig, run_under_way(rig.run) == 0);
    run_forget(rig.run, rig.model);
    rig_dispose(&rig);
}

Test(staged_shapes, rows_of_one_shape_join_past_those_of_others)
{
    begin();
    grant_rows(1, 2, 4, 0);
    rig_until(&rig, engine_held() == 1);
    grant_rows(2, 1, 8, 0);
    grant_rows(3, 2, 4, 1);
    turn(20);
    finish(STATUS_OK); /* the first stage of batch 1 */
    cr_assert_eq(metrics_value(rig.model->stage_stretched), 2);
    finish_all(3);
    rig_until(&rig, rig.gateways[0].done == 5);
    for (uint64_t task = 10; task < 12; task++)
        check_answer(task, 4);
    check_answer(20, 8);
    check_answer(31, 4);
    cr_assert_eq(metrics_value(rig.model->stretch_joined), 1);
    cr_assert_eq(metrics_value(rig.model->stage_batches), 2);
    end();
}

Test(staged_shapes, rows_that_were_to_join_a_batch_of_another_shape_are_a_batch_of_their_own)
{
    begin();
    grant_rows(1, 2, 4, 0);
    rig_until(&rig, engine_held() == 1);
    grant_rows(2, 2, 8, 1);
    turn(20);
    finish_all(2);
    rig_until(&rig, rig.gateways[0].done == 4);
    check_answer(10, 4);
    check_answer(21, 8);
    cr_assert_eq(metrics_value(rig.model->stretch_joined), 0);
    cr_assert_eq(metrics_value(rig.model->stretch_alone), 1);
    cr_assert_eq(metrics_value(rig.model->stage_stretched), 0);
    end();
}

Test(staged_shapes, what_is_larger_than_the_stages_runs_whole)
{
    begin();
    grant_rows(1, 2, 12, 7);
    rig_until(&rig, engine_held() == 1);
    cr_assert_eq(engine_oldest()->range.to, 0);
    cr_assert_eq(engine_oldest()->batch, 2);
    finish(STATUS_OK);
    rig_until(&rig, rig.gateways[0].done == 2);
    cr_assert_eq(rig.reports[0].report.status, STATUS_OK);
    check_answer(11, 12);
    cr_assert_eq(metrics_value(rig.model->unfit), 1);
    cr_assert_eq(metrics_value(rig.model->stretch_alone), 1);
    cr_assert_eq(metrics_value(rig.model->stage_batches), 0);
    end();
}

/* What an engine says of a shape with which the model has other operators. */
Test(staged_shapes, a_shape_that_the_stages_turn_out_not_to_suit_runs_whole)
{
    begin();
    grant_rows(1, 2, 8, 0);
    for (uint32_t s = 0; s < 3; s++)
        finish(STATUS_UNSUPPORTED);
    rig_until(&rig, engine_held() == 1);
    cr_assert_eq(rig.report_count, 0);
    cr_assert_eq(engine_oldest()->range.to, 0, "whole");
    finish(STATUS_OK);
    rig_until(&rig, rig.gateways[0].done == 2);
    cr_assert_eq(rig.reports[0].report.status, STATUS_OK);
    cr_assert_eq(rig.reports[0].report.failed_count, 0);
    check_answer(10, 8);
    cr_assert_eq(metrics_value(rig.model->unfit), 1);
    end();
}

Test(staged_shapes, what_cannot_run_whole_either_is_reported_once)
{
    begin();
    grant_rows(1, 1, 8, 0);
    for (uint32_t s = 0; s < 4; s++)
        finish(STATUS_UNSUPPORTED);
    rig_until(&rig, rig.report_count == 1);
    cr_assert_eq(rig.reports[0].report.status, STATUS_UNSUPPORTED);
    turn(20);
    cr_assert_eq(rig.report_count, 1);
    cr_assert_eq(engine_held(), 0);
    end();
}
