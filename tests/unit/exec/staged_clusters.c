/*
 * Policy I by the costs: what leaves room goes side by side (Figure 3 has that), what fills the device goes shortest
 * first, past longer batches at the borders of their stages.
 */
#include "lab.h"

#include <criterion/criterion.h>
#include <string.h>

/* Stages of one operator of one unit each, filled by `prefer` rows; as many executors as pairs. */
static void begin(lab_t *lab, uint32_t stages, double prefer, uint32_t rows_max)
{
    *lab = (lab_t){.op_count = stages, .stages = stages};
    for (uint32_t i = 0; i < stages; i++)
        lab->ops[i] = (lab_op_t){.ns = (double)LAB_T, .prefer = prefer};
    staged_config_t config = {.stages = stages,
                              .pairs = 2,
                              .new_pairs = 2,
                              .width = 2,
                              .rows_max = rows_max,
                              .queries_max = 64,
                              .eager = true,
                              .cost = lab_cost,
                              .cost_ctx = lab,
                              .schedule = &staged_schedule_input};
    lab_open(lab, exec_create_staged(&config, NULL));
}

static void expect_log(lab_t *lab, const char *log)
{
    lab_run(lab);
    cr_assert_str_eq(lab->log, log);
    lab_close(lab);
}

Test(staged_clusters, a_short_batch_passes_a_long_one_at_a_border)
{
    static lab_t lab;
    begin(&lab, 4, 1, 4);
    lab_query(&lab, 0, 100);
    lab_query(&lab, 0.5, 50);
    expect_log(&lab, "run1(1:0+1)0>0 run1(2:0+1)1>1 run2(2:0+1)1>1 run3(2:0+1)1>1 run4(2:0+1)1>1 "
                     "complete(2:1)@3 run2(1:0+1)0>0 run3(1:0+1)0>0 run4(1:0+1)0>0 complete(1:1)@6");
}

Test(staged_clusters, nobody_passes_a_batch_that_has_less_left)
{
    static lab_t lab;
    begin(&lab, 4, 1, 4);
    lab_query(&lab, 0, 100);
    lab_query(&lab, 3.2, 50);
    expect_log(&lab, "run1(1:0+1)0>0 run2(1:0+1)0>0 run3(1:0+1)0>0 run4(1:0+1)0>0 complete(1:1)@4 "
                     "run1(2:0+1)0>0 run2(2:0+1)0>0 run3(2:0+1)0>0 run4(2:0+1)0>0 complete(2:1)@6");
}

/* A batch of three would take as long as its rows one after the other: the first of them need not wait for the last. */
Test(staged_clusters, rows_go_one_by_one_where_a_batch_saves_nothing)
{
    static lab_t lab;
    begin(&lab, 1, 1, 4);
    for (uint32_t i = 0; i < 3; i++)
        lab_query(&lab, 0, i == 0 ? 100 : 50);
    expect_log(&lab, "run1(1:0+1)0>0 complete(1:1)@0.5 run1(2:0+1)0>0 complete(2:1)@1 "
                     "run1(3:0+1)0>0 complete(3:1)@2");
}

Test(staged_clusters, rows_go_together_where_a_batch_takes_no_longer)
{
    static lab_t lab;
    begin(&lab, 1, 4, 4);
    for (uint32_t i = 0; i < 4; i++)
        lab_query(&lab, 0, 100);
    expect_log(&lab, "run1(1:0+4)0>0 complete(1:4)@1");
}

/* Short rows come as fast as they are done. The long one waits eight times what it takes, and is then the first. */
Test(staged_clusters, no_row_is_passed_for_ever)
{
    static lab_t lab;
    begin(&lab, 2, 1, 4);
    lab_query(&lab, 0, 50);
    lab_query(&lab, 0.1, 100);
    for (uint32_t i = 1; i < 20; i++)
        lab_query(&lab, i, 50);
    lab_run_until(&lab, 16.5);
    cr_assert_eq(lab.completed, 16, "the long one still waits");
    lab_run(&lab);
    /* The first 16 take 1 each; the long one passes the next at its border, leaves at 18.5 and holds up those four. */
    cr_assert_float_eq(lab.latency_sum, 16 + 18.4 + 4 * 3, 1e-6, "%g", lab.latency_sum);
    lab_close(&lab);
}

typedef struct {
    uint64_t launch;
    uint32_t stream, stage, shape;
} seen_t;

static seen_t seen[8];
static uint32_t seen_count;

static void see(void *ctx, const exec_action_t *action)
{
    (void)ctx;
    if (action->kind == EXEC_LAUNCH)
        seen[seen_count++] = (seen_t){.launch = action->launch.launch,
                                      .stream = action->launch.parts[0].stream,
                                      .stage = action->launch.parts[0].from,
                                      .shape = action->launch.queries[0].shape};
}

static staged_cost_t half_the_device(void *ctx, uint32_t stage, uint32_t rows, uint32_t length)
{
    (void)ctx, (void)stage;
    int64_t ns = (int64_t)rows * length * LAB_T;
    return (staged_cost_t){.ns = ns, .busy_ns = ns / 2};
}

/* Two streams: each batch stays on its own, and the third batch waits for one of them. Rows of different shapes are in
 * the stages together. */
Test(staged_clusters, batches_keep_to_their_streams)
{
    staged_config_t config = {.stages = 3,
                              .pairs = 2,
                              .new_pairs = 2,
                              .width = 2,
                              .streams = 2,
                              .rows_max = 4,
                              .queries_max = 8,
                              .eager = true,
                              .cost = half_the_device,
                              .schedule = &staged_schedule_input};
    exec_t *exec = exec_create_staged(&config, NULL);
    exec_query_t queries[3];
    for (uint32_t i = 0; i < 3; i++)
        queries[i] = (exec_query_t){.tag = i, .rows = 1, .length = 1 + i, .shape = i};
    seen_count = 0;
    cr_assert_eq(exec_submit(exec, 0, queries, 3, 0, NULL), STATUS_OK);
    exec_run(exec, 0, see, NULL);
    cr_assert_eq(seen_count, 2);
    cr_assert_neq(seen[0].stream, seen[1].stream);
    cr_assert_neq(seen[0].shape, seen[1].shape);
    for (uint32_t i = 0; i < 2; i++) { /* the second batch goes on, then the first */
        cr_assert(exec_finished(exec, 1 + i, seen[1 - i].launch));
        exec_run(exec, 1 + i, see, NULL);
        cr_assert_eq(seen_count, 3 + i);
        cr_assert_eq(seen[2 + i].stage, 1);
        cr_assert_eq(seen[2 + i].stream, seen[1 - i].stream);
    }
    cr_assert_null(exec_validate(exec));
    exec_destroy(exec);
}
