/* Batches of one model in groups of its three segments, on an engine that finishes a part when the test says so. */
#include "support.h"

#include <math.h>

enum { SEGMENTS = 3 };

static rig_t rig;
static overlap_plan_t plan;

/* Every group is foretold to take this long. */
static void begin(double ns)
{
    uint32_t ops[] = {SEGMENTS};

    rig_init(&rig);
    plan = (overlap_plan_t){.device = "manual"};
    predictor_init(&plan.predictor, 1, ops, MAX_BATCH, 1);
    plan.predictor.bias[PREDICTOR_LAYERS - 1][0] = (float)log(ns);
    rig_segment(&rig, SEGMENTS, &plan);
}

/* Two models; a group takes a second, times four for each segment of the second up to which it goes. */
static void begin_pair(void)
{
    uint32_t ops[] = {SEGMENTS, SEGMENTS};
    enum { SECOND_TO = 2 + 4 + 1 }; /* features: two members, four of the first, then from and to */

    rig_init(&rig);
    rig_add_model(&rig);
    plan = (overlap_plan_t){.device = "manual"};
    predictor_init(&plan.predictor, 2, ops, MAX_BATCH, 1);
    plan.predictor.weight[0][0][SECOND_TO] = SEGMENTS;
    for (uint32_t layer = 1; layer + 1 < PREDICTOR_LAYERS; layer++)
        plan.predictor.weight[layer][0][0] = 1;
    plan.predictor.weight[PREDICTOR_LAYERS - 1][0][0] = logf(4);
    plan.predictor.bias[PREDICTOR_LAYERS - 1][0] = logf(1e9f);
    rig_segment(&rig, SEGMENTS, &plan);
}

static void grant_row_to(model_t *model, uint64_t batch_id, int64_t budget_ns)
{
    grant_t grant;

    grant_init(&grant, batch_id, 0);
    grant_add(&rig, &grant, 10, batch_id, (uint32_t)batch_id);
    grant_row_t row = grant_rows_at(&grant.grant, 0);
    row.budget_ns = budget_ns;
    grant_rows_put(&grant.grant, 0, &row);
    grant_send_to(&rig, model, &grant);
}

static void grant_row(uint64_t batch_id, int64_t budget_ns)
{
    grant_row_to(rig.model, batch_id, budget_ns);
}

Test(overlap, the_tighter_deadline_goes_first_and_each_is_reported_once)
{
    begin(1e6);
    grant_row(1, 10 * NS_PER_S);
    rig_until(&rig, engine_held() == 1);
    grant_row(2, 9 * NS_PER_S); /* the borders of one model are enough for two of its batches */
    grant_row(3, 8 * NS_PER_S);
    rig_barrier(&rig);
    cr_assert_eq(engine_held(), 1, "one group at a time, and one query of a model in it");
    for (int i = 0; i < 3; i++) {
        rig_until(&rig, engine_held() == 1);
        cr_assert_eq(engine_oldest()->range.from, 0);
        cr_assert_eq(engine_oldest()->range.to, SEGMENTS);
        engine_finish(STATUS_OK, NULL);
        rig_until(&rig, rig.report_count == i + 1);
    }
    rig_until(&rig, rig.gateways[0].done == 3);
    for (int i = 0; i < 3; i++) {
        const pushed_t *pushed = &rig.gateways[0].pushed[i];
        cr_assert_float_eq(pushed->values[0], 10 * (float)pushed->task_id, 0);
        cr_assert_eq(rig.reports[i].report.status, STATUS_OK);
    }
    rig_end(&rig);
}

Test(overlap, what_cannot_end_in_time_is_dropped_with_its_reason)
{
    begin(5e9);
    grant_row(1, NS_PER_S);
    rig_until(&rig, rig.report_count == 1);
    cr_assert_eq(rig.reports[0].report.status, STATUS_DEADLINE_EXCEEDED);
    cr_assert_str_eq(rig.reports[0].reason, "overlap: it cannot end in time any more");
    cr_assert_eq(engine_held(), 0);
    cr_assert_eq(metrics_value(rig.model->serving->overlap_dropped), 1);
    rig_end(&rig);
}

/* Batch 2 has ten seconds in all, which is room for one segment of batch 3 beside it, four seconds; the
 * other two of that take 64 then, as all of it would have, and of its 71 it has less than that left. */
Test(overlap, a_running_batch_whose_rest_cannot_make_it_is_dropped_when_its_part_has_ended)
{
    begin_pair();
    grant_row(1, 10 * NS_PER_S);
    rig_until(&rig, engine_held() == 1);
    grant_row(2, 10 * NS_PER_S);
    grant_row_to(rig.second, 3, 71 * NS_PER_S);
    rig_barrier(&rig);
    engine_finish(STATUS_OK, NULL);
    rig_until(&rig, engine_held() == 2);
    cr_assert_eq(metrics_value(rig.second->serving->overlap_dropped), 1, "it is known while the part runs");
    cr_assert_eq(rig.report_count, 1);
    while (engine_held())
        engine_finish(STATUS_OK, NULL);
    rig_until(&rig, rig.report_count == 3);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(rig.reports[i].report.status,
                     rig.reports[i].report.batch_id == 3 ? STATUS_DEADLINE_EXCEEDED : STATUS_OK);
    rig_barrier(&rig);
    cr_assert_eq(engine_held(), 0, "its rest does not run");
    cr_assert_eq(rig.gateways[0].done, 2);
    rig_end(&rig);
}

Test(overlap, a_failure_of_a_part_fails_its_batch_alone)
{
    begin(1e6);
    grant_row(1, 10 * NS_PER_S);
    grant_row(2, 10 * NS_PER_S);
    rig_until(&rig, engine_held() == 1);
    engine_finish(STATUS_INTERNAL, "gone");
    rig_until(&rig, rig.report_count == 1);
    cr_assert_eq(rig.reports[0].report.status, STATUS_INTERNAL);
    rig_until(&rig, engine_held() == 1);
    engine_finish(STATUS_OK, NULL);
    rig_until(&rig, rig.gateways[0].done == 1);
    rig_end(&rig);
}

Test(overlap, what_waits_for_its_first_group_is_given_back_when_it_is_revoked)
{
    begin(1e6);
    grant_row(1, 10 * NS_PER_S);
    rig_until(&rig, engine_held() == 1);
    grant_row(2, 9 * NS_PER_S);
    rig_barrier(&rig);
    run_revoke(rig.run, 7, 1);
    cr_assert_eq(rig.report_count, 0, "it runs, and ends as usual");
    run_revoke_all(rig.run);
    cr_assert_eq(rig.report_count, 1);
    cr_assert_eq(rig.reports[0].report.batch_id, 2);
    cr_assert_eq(rig.reports[0].report.status, STATUS_CANCELLED);
    engine_finish(STATUS_OK, NULL);
    rig_until(&rig, rig.gateways[0].done == 1);
    cr_assert_eq(rig.gateways[0].pushed[0].task_id, 1);
    rig_end(&rig);
}

Test(overlap, stopping_in_the_middle_leaks_nothing)
{
    begin(1e6);
    for (uint64_t id = 1; id <= 4; id++)
        grant_row(id, 10 * NS_PER_S);
    rig_until(&rig, engine_held() == 1);
    rig_dispose(&rig);
    cr_assert_eq(rig.report_count, 4);
}
