/*
 * What a mode refuses, and the order of `whole`.
 */
#include "lab.h"

#include <criterion/criterion.h>
#include <string.h>

static staged_cost_t nothing(void *ctx, uint32_t stage, uint32_t rows, uint32_t length)
{
    (void)ctx, (void)stage, (void)rows, (void)length;
    return (staged_cost_t){0};
}

static const staged_config_t good = {.stages = 2,
                                     .pairs = 2,
                                     .new_pairs = 1,
                                     .width = 1,
                                     .rows_max = 8,
                                     .queries_max = 16,
                                     .cost = nothing,
                                     .schedule = &staged_schedule_load};

static void expect_refused(staged_config_t config, const char *text)
{
    err_t err;
    cr_assert(exec_create_staged(&config, &err) == NULL);
    cr_assert_eq(err.code, STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(err.text, text), "\"%s\" does not speak of %s", err.text, text);
}

Test(modes, a_bad_configuration_is_named)
{
    staged_config_t config = good;
    config.stages = 0;
    expect_refused(config, "stages is 0");
    config = good, config.stages = STAGED_STAGES_MAX + 1;
    expect_refused(config, "stages");
    config = good, config.pairs = 0;
    expect_refused(config, "pairs");
    config = good, config.new_pairs = 3;
    expect_refused(config, "new_pairs");
    config = good, config.rows_max = EXEC_ROWS_MAX + 1;
    expect_refused(config, "rows_max");
    config = good, config.queries_max = 4;
    expect_refused(config, "queries_max");
    config = good, config.cost = NULL;
    expect_refused(config, "cost");
    whole_config_t whole = {.rows_max = 0};
    cr_assert(exec_create_whole(&whole, NULL) == NULL);
}

Test(modes, queries_that_do_not_fit_are_refused_whole)
{
    err_t err;
    exec_query_t queries[20];
    for (uint32_t i = 0; i < 20; i++)
        queries[i] = (exec_query_t){.tag = i, .rows = 1};
    exec_t *exec = exec_create_staged(&good, &err);
    cr_assert_eq(exec_submit(exec, 0, queries, 0, 0, &err), STATUS_INVALID_ARGUMENT);
    queries[3].rows = 2;
    cr_assert_eq(exec_submit(exec, 0, queries, 4, 0, &err), STATUS_INVALID_ARGUMENT);
    queries[3].rows = 1;
    cr_assert_eq(exec_submit(exec, 0, queries, 17, 0, &err), STATUS_UNAVAILABLE);
    cr_assert_eq(exec_room(exec), 16);
    cr_assert(!exec_finished(exec, 0, 7), "nothing runs");
    cr_assert(!exec_preempt(exec, 0, 7), "nor waits");
    exec_destroy(exec);
}

static uint32_t back[16], back_count, launched;

static void note_back(void *ctx, const exec_action_t *action)
{
    (void)ctx;
    launched += action->kind == EXEC_LAUNCH ? action->launch.query_count : 0;
    if (action->kind == EXEC_REQUEUE)
        back[back_count++] = (uint32_t)action->done.queries[0].tag;
}

Test(modes, staged_gives_back_what_has_not_entered)
{
    staged_config_t config = good;
    exec_query_t queries[6];
    back_count = launched = 0;
    for (uint32_t i = 0; i < 6; i++)
        queries[i] = (exec_query_t){.tag = i, .rows = 1};
    config.eager = true;
    config.schedule = &staged_schedule_load;
    exec_t *exec = exec_create_staged(&config, NULL);
    cr_assert_eq(exec_submit(exec, 0, queries, 1, 7, NULL), STATUS_OK);
    exec_run(exec, 0, note_back, NULL);
    cr_assert_eq(launched, 1);
    cr_assert(!exec_preempt(exec, 0, 7), "it has entered");
    cr_assert_eq(exec_submit(exec, 0, queries + 1, 2, 8, NULL), STATUS_OK);
    cr_assert_eq(exec_submit(exec, 0, queries + 3, 1, 9, NULL), STATUS_OK);
    cr_assert_eq(exec_submit(exec, 0, queries + 4, 2, 10, NULL), STATUS_OK);
    cr_assert(exec_preempt(exec, 0, 10));
    cr_assert(exec_preempt(exec, 0, 8));
    cr_assert(!exec_preempt(exec, 0, 8), "asked twice");
    exec_run(exec, 0, note_back, NULL);
    cr_assert_eq(back_count, 4);
    for (uint32_t i = 0; i < 4; i++)
        cr_assert_eq(back[i], i < 2 ? 1 + i : 2 + i);
    cr_assert_eq(exec_room(exec), 15, "one waits");
    cr_assert(exec_finished(exec, 1, 1));
    for (uint64_t launch = 2; launch < 8; launch++) {
        exec_run(exec, 1, note_back, NULL);
        (void)exec_finished(exec, 1, launch);
    }
    cr_assert_eq(back_count, 4);
    cr_assert_eq(exec_room(exec), 16);
    cr_assert_null(exec_validate(exec));
    exec_destroy(exec);
}

Test(modes, whole_runs_granted_batches_in_order_on_two_buffers)
{
    static lab_t lab;
    err_t err;
    lab = (lab_t){.op_count = 1, .stages = 1, .ops = {{.ns = (double)LAB_T, .prefer = 1}}};
    whole_config_t config = {.rows_max = 8};
    lab_open(&lab, exec_create_whole(&config, NULL));
    exec_query_t query = {.tag = 1, .rows = 2, .length = 100};
    cr_assert_eq(exec_submit(lab.driver.exec, 0, &query, 1, 11, &err), STATUS_OK);
    query.rows = 1;
    cr_assert_eq(exec_submit(lab.driver.exec, 0, &query, 1, 12, &err), STATUS_OK);
    cr_assert_eq(exec_room(lab.driver.exec), 0);
    cr_assert_eq(exec_submit(lab.driver.exec, 0, &query, 1, 13, &err), STATUS_UNAVAILABLE);
    query.rows = 9;
    cr_assert_eq(exec_submit(lab.driver.exec, 0, &query, 1, 13, &err), STATUS_INVALID_ARGUMENT);
    lab.driver.wake_ns = 0;
    lab_run(&lab);
    cr_assert_str_eq(lab.log, "run1(11:0+2)0>0 complete(11:1)@2 run1(12:0+1)1>1 complete(12:1)@3");
    cr_assert_eq(exec_room(lab.driver.exec), 2);
    lab_close(&lab);
}

/* One stage: the staged mode is `whole`, and nothing is stretched or split. */
Test(modes, one_stage_is_whole)
{
    static lab_t lab;
    lab = (lab_t){.op_count = 4, .stages = 1};
    for (uint32_t i = 0; i < 4; i++)
        lab.ops[i] = (lab_op_t){.ns = (double)LAB_T, .prefer = 1};
    staged_config_t config = good;
    config.stages = 1;
    config.eager = true;
    config.comp_wait_ns = INT64_MAX;
    config.cost = lab_cost;
    config.cost_ctx = &lab;
    config.schedule = &staged_schedule_combined;
    lab_open(&lab, exec_create_staged(&config, NULL));
    lab_query(&lab, 0, 100);
    lab_query(&lab, 1, 100);
    lab_query(&lab, 2, 100);
    lab_run(&lab);
    cr_assert_str_eq(lab.log, "run1(1:0+1)0>0 complete(1:1)@4 run1(2:0+2)0>0 complete(2:2)@12");
    lab_close(&lab);
}

/* A baseline forms its next batch when the running one has ended; with `ahead` already when that one has
 * read its inputs, and whoever comes later waits for both. */
Test(modes, a_batch_formed_ahead_leaves_later_queries_behind)
{
    static const char *const expected[] = {
        "run1(1:0+1)0>0 complete(1:1)@4 run1(2:0+2)1>1 complete(2:2)@12",
        "run1(1:0+1)0>0 complete(1:1)@4 run1(2:0+1)1>1 complete(2:1)@8 run1(3:0+1)0>0 complete(3:1)@12"};
    for (int ahead = 0; ahead < 2; ahead++) {
        static lab_t lab;
        lab = (lab_t){.op_count = 1, .stages = 1, .ops = {{.ns = 4 * (double)LAB_T, .prefer = 1}}};
        whole_config_t config = {.gather = true, .rows_max = 8, .queries_max = 8, .ahead = ahead};
        lab_open(&lab, exec_create_whole(&config, NULL));
        lab_query(&lab, 0, 100);
        lab_query(&lab, 1, 100);
        lab_query(&lab, 3, 100);
        lab_run_until(&lab, 0.5);
        cr_assert(whole_inputs_read(lab.driver.exec, 1));
        cr_assert(!whole_inputs_read(lab.driver.exec, 2), "that has not begun");
        lab_run(&lab);
        cr_assert_str_eq(lab.log, expected[ahead]);
        lab_close(&lab);
    }
}

static void open_two_pairs(lab_t *lab)
{
    staged_config_t config = good;
    config.new_pairs = 2;
    config.cost = lab_cost;
    config.cost_ctx = lab;
    lab_open(lab, exec_create_staged(&config, NULL));
}

/* Policy III: a second batch begins beside the first while that leaves room on the device, and waits where
 * it would only slow it. */
Test(modes, a_batch_waits_while_an_older_one_fills_the_device)
{
    static const struct {
        double prefer;
        const char *log;
    } cases[] = {
        {2, "run1(1:0+1)0>0 run2(1:0+1)0>0 run1(2:0+1)1>1 complete(1:1)@2 run2(2:0+1)1>1 complete(2:1)@3"},
        {1, "run1(1:0+1)0>0 run2(1:0+1)0>0 complete(1:1)@2 run1(2:0+1)0>0 run2(2:0+1)0>0 complete(2:1)@4"},
    };
    for (int i = 0; i < 2; i++) {
        static lab_t lab;
        lab = (lab_t){.op_count = 2, .stages = 2};
        lab.ops[0] = lab.ops[1] = (lab_op_t){.ns = (double)LAB_T, .prefer = cases[i].prefer};
        open_two_pairs(&lab);
        lab_query(&lab, 0, 100);
        lab_query(&lab, 0.5, 100);
        lab_run(&lab);
        cr_assert_str_eq(lab.log, cases[i].log);
        lab_close(&lab);
    }
}

/* It begins all the same where the older one loses less than it gains: three rows that fill the device by
 * a quarter beside one that fills it. */
Test(modes, a_batch_that_gains_more_than_the_older_one_loses_begins)
{
    static lab_t lab;
    lab = (lab_t){.op_count = 2, .stages = 2};
    lab.ops[0] = (lab_op_t){.ns = (double)LAB_T, .prefer = 12};
    lab.ops[1] = (lab_op_t){.ns = 4 * (double)LAB_T, .prefer = 1};
    open_two_pairs(&lab);
    lab_query(&lab, 0, 100);
    for (int i = 0; i < 3; i++)
        lab_query(&lab, 2, 100);
    lab_run_until(&lab, 2);
    cr_assert_str_eq(lab.log, "run1(1:0+1)0>0 run2(1:0+1)0>0 run1(2:0+3)1>1");
    lab_close(&lab);
}
