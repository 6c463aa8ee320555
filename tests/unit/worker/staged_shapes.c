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

Test(staged_shapes, rows_of_one_shape_join_past_those_of_others)
{
    begin();
    rig_grant_sized(&rig, 1, 2, 4, 0);
    rig_until(&rig, engine_held() == 1);
    rig_grant_sized(&rig, 2, 1, 8, 0);
    rig_grant_sized(&rig, 3, 2, 4, 1);
    rig_barrier(&rig);
    rig_finish(&rig, STATUS_OK); /* the first stage of batch 1 */
    cr_assert_eq(metrics_value(rig.model->serving->stage_stretched), 2);
    rig_finish_all(&rig, 3);
    rig_until(&rig, rig.gateways[0].done == 5);
    for (uint64_t task = 10; task < 12; task++)
        rig_check_sized(&rig, task, 4);
    rig_check_sized(&rig, 20, 8);
    rig_check_sized(&rig, 31, 4);
    cr_assert_eq(metrics_value(rig.model->serving->stretch_joined), 1);
    cr_assert_eq(metrics_value(rig.model->serving->stage_batches), 2);
    rig_end(&rig);
}

Test(staged_shapes, rows_that_were_to_join_a_batch_of_another_shape_are_a_batch_of_their_own)
{
    begin();
    rig_grant_sized(&rig, 1, 2, 4, 0);
    rig_until(&rig, engine_held() == 1);
    rig_grant_sized(&rig, 2, 2, 8, 1);
    rig_barrier(&rig);
    rig_finish_all(&rig, 2);
    rig_until(&rig, rig.gateways[0].done == 4);
    rig_check_sized(&rig, 10, 4);
    rig_check_sized(&rig, 21, 8);
    cr_assert_eq(metrics_value(rig.model->serving->stretch_joined), 0);
    cr_assert_eq(metrics_value(rig.model->serving->stretch_alone), 1);
    cr_assert_eq(metrics_value(rig.model->serving->stage_stretched), 0);
    rig_end(&rig);
}

Test(staged_shapes, what_is_larger_than_the_stages_runs_whole)
{
    begin();
    rig_grant_sized(&rig, 1, 2, 12, 7);
    rig_finish_unfit(&rig, 12);
    cr_assert_eq(metrics_value(rig.model->serving->stretch_alone), 1);
    cr_assert_eq(metrics_value(rig.model->serving->stage_batches), 0);
    rig_end(&rig);
}

/* As policy I has it. No row is late, however slow the test is: then the older would go first. */
static void begin_beside(uint32_t streams)
{
    enum { STAGES = 3 };

    begin();
    rig.devices.streams = streams;
    for (uint32_t i = 0; i < STAGES * (MAX_BATCH + 1); i++)
        rig.model->choice.stages->cost_ns[i] = 60 * NS_PER_S;
    rig.model->choice.stages->beside = true;
    rig.model->choice.stages->schedule = &staged_schedule_input;
}

static uint32_t size_of(const engine_job_t *job)
{
    return (uint32_t)job->input_shapes[0].dims[1];
}

/* Two batches of different shapes, each on its own pair of borders. */
Test(staged_shapes, batches_of_different_shapes_are_in_the_stages_together)
{
    begin_beside(2);
    rig_grant_sized(&rig, 1, 2, 4, 0);
    rig_until(&rig, engine_held() == 1);
    const engine_job_t *first = engine_oldest();
    cr_assert_eq(size_of(first), 4);
    uint32_t stream = first->range.stream;
    rig_grant_sized(&rig, 2, 1, 8, 0);
    rig_until(&rig, engine_held() == 2);
    rig_finish(&rig,
               STATUS_OK); /* the first stage of batch 1: its second is now behind the first of batch 2 */
    cr_assert_eq(engine_held(), 2);
    cr_assert_eq(size_of(engine_oldest()), 8);
    cr_assert_eq(engine_oldest()->range.from, 0);
    cr_assert_neq(engine_oldest()->range.stream, stream);
    rig_finish_all(&rig, 2);
    rig_until(&rig, rig.gateways[0].done == 3);
    rig_check_sized(&rig, 10, 4);
    rig_check_sized(&rig, 11, 4);
    rig_check_sized(&rig, 20, 8);
    cr_assert_eq(metrics_value(rig.model->serving->stage_batches), 2);
    rig_end(&rig);
}

/* On one stream, at the borders of its stages, a batch is passed by one whose rows take less each. */
Test(staged_shapes, a_batch_passes_one_of_another_shape)
{
    begin_beside(1);
    rig_grant_sized(&rig, 1, 1, 8, 0);
    rig_until(&rig, engine_held() == 1);
    rig_grant_sized(&rig, 2, 2, 4, 0);
    rig_barrier(&rig);
    cr_assert_eq(engine_held(), 1, "a full device");
    for (int stage = 0; stage < 3; stage++) {
        rig_finish(&rig, STATUS_OK);
        cr_assert_eq(size_of(engine_oldest()), 4);
        cr_assert_eq(engine_oldest()->range.from, (uint32_t)stage);
    }
    rig_finish(&rig, STATUS_OK);
    rig_until(&rig, rig.report_count == 1);
    rig_finish_all(&rig, 2);
    rig_until(&rig, rig.gateways[0].done == 3);
    cr_assert_eq(rig.gateways[0].pushed[2].task_id, 10, "the first to come is the last to leave");
    rig_check_sized(&rig, 10, 8);
    rig_check_sized(&rig, 20, 4);
    rig_check_sized(&rig, 21, 4);
    rig_end(&rig);
}

/* What an engine says of a shape with which the model has other operators. */
Test(staged_shapes, a_shape_that_the_stages_turn_out_not_to_suit_runs_whole)
{
    begin();
    rig_grant_sized(&rig, 1, 2, 8, 0);
    for (uint32_t s = 0; s < 3; s++)
        rig_finish(&rig, STATUS_UNSUPPORTED);
    rig_finish_unfit(&rig, 8);
    rig_end(&rig);
}

Test(staged_shapes, what_cannot_run_whole_either_is_reported_once)
{
    begin();
    rig_grant_sized(&rig, 1, 1, 8, 0);
    for (uint32_t s = 0; s < 4; s++)
        rig_finish(&rig, STATUS_UNSUPPORTED);
    rig_until(&rig, rig.report_count == 1);
    cr_assert_eq(rig.reports[0].report.status, STATUS_UNSUPPORTED);
    rig_barrier(&rig);
    cr_assert_eq(rig.report_count, 1);
    cr_assert_eq(engine_held(), 0);
    rig_end(&rig);
}
