/* Batches of rows that differ in size in mode overlap: each part says its shape, durations go by lengths, and
 * what does not suit runs whole. */
#include "support.h"

#include <math.h>

enum {
    SEGMENTS = 3,
    /* Features of a plan of one model. */
    FROM = 1,
    TO,
    ROWS,
    LENGTH,
};

static rig_t rig;
static overlap_plan_t plan;

static void pass_on(void)
{
    for (uint32_t layer = 1; layer + 1 < PREDICTOR_LAYERS; layer++)
        plan.predictor.weight[layer][0][0] = 1;
}

/* models: 1, or a second one whose rows are all alike. Every group is foretold to take a millisecond. */
static void begin(uint32_t models)
{
    uint32_t ops[] = {SEGMENTS, SEGMENTS};

    rig_init(&rig);
    if (models > 1)
        rig_add_model(&rig);
    plan = (overlap_plan_t){.device = "manual"};
    predictor_init(&plan.predictor, models, ops, MAX_BATCH, 1);
    predictor_set_length(&plan.predictor, 0, IN_A_MAX + IN_B);
    plan.predictor.bias[PREDICTOR_LAYERS - 1][0] = logf(1e6f);
    plan.models[0].length_min = IN_A + IN_B;
    plan.models[0].length_max = IN_A_MAX + IN_B;
    plan.models[0].sizes[0] = IN_A_MAX;
    plan.models[0].size_count = 1;
    plan.models[1].length_min = plan.models[1].length_max = 1;
    rig_segment(&rig, SEGMENTS, &plan);
    rig_vary(&rig);
}

/* A batch without a budget has an hour, and a group takes half of it at most: one segment is foretold to take
 * 1,000 s, two 1,800, all three 3,240. */
static void begin_in_parts(void)
{
    begin(1);
    plan.predictor.weight[0][0][TO] = 1;
    plan.predictor.weight[0][0][FROM] = -1;
    pass_on();
    plan.predictor.weight[PREDICTOR_LAYERS - 1][0][0] = SEGMENTS * logf(1.8f);
    plan.predictor.bias[PREDICTOR_LAYERS - 1][0] = logf(1e12f) - logf(1.8f);
}

Test(overlap_shapes, every_part_of_a_batch_says_its_shape)
{
    begin_in_parts();
    for (uint32_t size = 4; size <= 8; size += 4) {
        rig_grant_sized(&rig, size, 2, size, 0);
        for (uint32_t segment = 0; segment < SEGMENTS; segment++) {
            rig_until(&rig, engine_held() == 1);
            const engine_job_t *job = engine_oldest();
            cr_assert_eq(job->range.from, segment);
            cr_assert_eq(job->range.to, segment + 1);
            cr_assert_eq(job->input_shapes[0].dims[1], size);
            rig_finish(&rig, STATUS_OK);
        }
    }
    rig_until(&rig, rig.gateways[0].done == 4);
    for (uint64_t row = 0; row < 2; row++) {
        rig_check_sized(&rig, 40 + row, 4);
        rig_check_sized(&rig, 80 + row, 8);
    }
    cr_assert_eq(metrics_value(rig.model->serving->unfit), 0);
    rig_end(&rig);
}

/* A length of 6 is foretold to take 10 ms, of 10 10,000 s. */
Test(overlap_shapes, durations_go_by_the_length_of_the_rows)
{
    begin(1);
    float slope = logf(1e6f) / (1 - 0.6f);
    plan.predictor.weight[0][0][LENGTH] = 1;
    pass_on();
    plan.predictor.weight[PREDICTOR_LAYERS - 1][0][0] = slope;
    plan.predictor.bias[PREDICTOR_LAYERS - 1][0] = logf(1e7f) - slope * 0.6f;
    rig_grant_sized(&rig, 1, 1, 8, 0);
    rig_until(&rig, rig.report_count == 1);
    cr_assert_eq(rig.reports[0].report.status, STATUS_DEADLINE_EXCEEDED);
    for (uint32_t size = 4; size >= 2; size -= 2) { /* the shorter one was not measured */
        rig_grant_sized(&rig, 10 + size, 1, size, 0);
        rig_until(&rig, engine_held() == 1);
        cr_assert_eq(engine_oldest()->input_shapes[0].dims[1], size);
        rig_finish(&rig, STATUS_OK);
    }
    rig_until(&rig, rig.gateways[0].done == 2);
    rig_check_sized(&rig, 140, 4);
    rig_check_sized(&rig, 120, 2);
    rig_end(&rig);
}

Test(overlap_shapes, rows_that_are_all_alike_run_beside_them_and_say_no_shape)
{
    grant_t grant;

    begin(2);
    rig_grant_sized(&rig, 1, 1, 8, 0);
    rig_until(&rig, engine_held() == 1);
    rig_grant_sized(&rig, 2, 1, 4, 0);
    grant_init(&grant, 3, 0);
    grant_add(&rig, &grant, 10, 30, 30);
    grant_send_to(&rig, rig.second, &grant);
    rig_barrier(&rig);
    rig_finish(&rig, STATUS_OK);
    rig_until(&rig, engine_held() == 2);
    const engine_job_t *varying = engine_oldest(), *fixed = varying->next;
    cr_assert_eq(varying->input_shapes[0].dims[1], 4);
    cr_assert_null(fixed->input_shapes);
    rig_finish_all(&rig, 3);
    rig_until(&rig, rig.gateways[0].done == 3);
    rig_check_sized(&rig, 10, 8);
    rig_check_sized(&rig, 20, 4);
    rig_end(&rig);
}

Test(overlap_shapes, what_is_larger_than_anything_measured_runs_whole)
{
    begin(1);
    rig_grant_sized(&rig, 1, 2, 12, 0);
    rig_finish_unfit(&rig, 12);
    rig_end(&rig);
}

/* What an engine says of a shape with which the model has other operators. */
Test(overlap_shapes, a_shape_that_the_segments_turn_out_not_to_suit_runs_whole)
{
    begin_in_parts();
    rig_grant_sized(&rig, 1, 2, 8, 0);
    rig_finish(&rig, STATUS_UNSUPPORTED);
    rig_finish_unfit(&rig, 8);
    rig_end(&rig);
}

Test(overlap_shapes, what_cannot_run_whole_either_is_reported_once)
{
    begin(1);
    rig_grant_sized(&rig, 1, 1, 8, 0);
    rig_finish(&rig, STATUS_UNSUPPORTED);
    rig_finish(&rig, STATUS_UNSUPPORTED);
    rig_until(&rig, rig.report_count == 1);
    cr_assert_eq(rig.reports[0].report.status, STATUS_UNSUPPORTED);
    rig_barrier(&rig);
    cr_assert_eq(rig.report_count, 1);
    cr_assert_eq(engine_held(), 0);
    rig_end(&rig);
}
