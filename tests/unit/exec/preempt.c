/*
 * Stopping batches at exit points.
 */
#include "exec/preempt.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static char text[512];

static void sink(void *ctx, const exec_action_t *action)
{
    static const char *const words[] = {"launch", "merge", "split", "complete", "drop", "stop", "requeue"};
    (void)ctx;
    size_t len = strlen(text);
    snprintf(text + len, sizeof(text) - len, "%s%s(%u)", len ? " " : "", words[action->kind],
             (unsigned)action->batch);
}

static const char *run(exec_t *exec)
{
    text[0] = '\0';
    exec_run(exec, 0, sink, NULL);
    cr_assert(exec_validate(exec) == NULL);
    return text;
}

static void grant(exec_t *exec, uint64_t batch)
{
    exec_query_t query = {.rows = 4};
    cr_assert_eq(exec_submit(exec, 0, &query, 1, batch, NULL), STATUS_OK);
}

static exec_t *make(void)
{
    exec_t *exec = exec_create_preempt(8, NULL);
    cr_assert(exec != NULL);
    text[0] = '\0';
    return exec;
}

Test(preempt, a_running_batch_stops_and_the_next_begins)
{
    exec_t *exec = make();
    grant(exec, 7);
    cr_assert_str_eq(run(exec), "launch(7)");
    grant(exec, 8);
    cr_assert(exec_preempt(exec, 0, 7));
    cr_assert(!exec_preempt(exec, 0, 7), "asked twice");
    cr_assert_str_eq(run(exec), "stop(7)");
    cr_assert_str_eq(run(exec), "", "said once");
    cr_assert(exec_stopped(exec, 0, 1));
    cr_assert_str_eq(run(exec), "requeue(7) launch(8)");
    cr_assert(exec_finished(exec, 0, 2));
    cr_assert_str_eq(run(exec), "complete(8)");
    exec_destroy(exec);
}

Test(preempt, past_the_last_exit_point_it_completes)
{
    exec_t *exec = make();
    grant(exec, 7);
    run(exec);
    cr_assert(exec_preempt(exec, 0, 7));
    run(exec);
    cr_assert(exec_finished(exec, 0, 1));
    cr_assert_str_eq(run(exec), "complete(7)");
    exec_destroy(exec);
}

Test(preempt, what_has_just_ended_or_is_unknown_is_not_stopped)
{
    exec_t *exec = make();
    grant(exec, 7);
    run(exec);
    cr_assert(!exec_preempt(exec, 0, 9));
    cr_assert(!exec_stopped(exec, 0, 1), "nobody asked it to");
    cr_assert(exec_finished(exec, 0, 1));
    cr_assert(!exec_preempt(exec, 0, 7));
    cr_assert_str_eq(run(exec), "complete(7)");
    cr_assert(!exec_preempt(exec, 0, 7));
    exec_destroy(exec);
}

Test(preempt, what_has_not_begun_is_given_back)
{
    exec_t *exec = make();
    grant(exec, 7);
    run(exec);
    grant(exec, 8);
    cr_assert(exec_preempt(exec, 0, 8));
    cr_assert_str_eq(run(exec), "requeue(8)");
    cr_assert_eq(exec_room(exec), 1);
    exec_destroy(exec);
}

enum { OPS = 100 };

/* Operators of 1 us, before each of which there is a cut. */
static stages_model_t even_model(int64_t op_ns[OPS], uint32_t cuts[OPS])
{
    for (uint32_t i = 0; i < OPS; i++) {
        op_ns[i] = 1000;
        cuts[i] = i + 1;
    }
    return (stages_model_t){.ops = OPS, .cuts = cuts, .cut_count = OPS - 1};
}

Test(preempt, exit_points_are_a_trade)
{
    int64_t op_ns[OPS];
    uint32_t cuts[OPS], at[STAGED_STAGES_MAX];
    stages_model_t model = even_model(op_ns, cuts), single = {.ops = 1};
    preempt_plan_t plan = preempt_plan(&model, op_ns, 10, 0.05, at); /* cheap: as few as keep the delay */
    cr_assert_eq(plan.exit_points, 24);
    cr_assert(plan.delay < 0.05 && plan.overhead < 0.05);
    plan = preempt_plan(&model, op_ns, 1000, 0.05, at); /* dear: four, and a delay of a fifth */
    cr_assert_eq(plan.exit_points, 4);
    cr_assert_float_eq(plan.delay, 0.2, 1e-9);
    cr_assert(plan.overhead < 0.05);
    plan = preempt_plan(&single, op_ns, 10, 0.05, at);
    cr_assert_eq(plan.exit_points, 0);
    cr_assert_float_eq(plan.delay, 1, 1e-9);
}

Test(preempt, exit_points_lie_by_time)
{
    int64_t op_ns[OPS];
    uint32_t cuts[OPS], at[STAGED_STAGES_MAX];
    stages_model_t model = even_model(op_ns, cuts);
    op_ns[0] = 101000; /* half of the time: no exit in it */
    preempt_plan_t plan = preempt_plan(&model, op_ns, 2000, 0.05, at);
    cr_assert_eq(at[0], 1);
    cr_assert_float_eq(plan.delay, 101000.0 / 200000, 1e-9, "nothing makes it less");
    cr_assert_eq(plan.exit_points, 1, "more would bring nothing");
    model.cuts = cuts + 49; /* from the middle on */
    model.cut_count = 50;
    op_ns[0] = 1000;
    plan = preempt_plan(&model, op_ns, 10, 0.05, at);
    cr_assert_float_eq(plan.delay, 0.5, 1e-9);
    cr_assert_eq(at[0], 50);
}
