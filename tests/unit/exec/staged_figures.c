/*
 * The worked examples of DVABatch: Figure 3's three cases, Figure 8's meta operations, Figure 10's hazards.
 */
#include "lab.h"
#include "staged_show.h"

#include <criterion/criterion.h>
#include <math.h>

/* Four operators A, B, C, D of one unit each. */
static void model(lab_t *lab, double a, double others)
{
    *lab = (lab_t){.op_count = 4, .stages = 4};
    for (uint32_t i = 0; i < 4; i++) {
        double prefer = i == 0 ? a : others;
        lab->ops[i] = (lab_op_t){.ns = (double)LAB_T / fmax(1, 4 / prefer), .prefer = prefer};
    }
}

static staged_config_t config(lab_t *lab, const staged_schedule_t *schedule)
{
    return (staged_config_t){.stages = lab->stages,
                             .pairs = 2,
                             .new_pairs = 1,
                             .width = 1,
                             .rows_max = 4,
                             .queries_max = 64,
                             .eager = true,
                             .comp_wait_ns = 2 * LAB_T,
                             .cost = lab_cost,
                             .cost_ctx = lab,
                             .schedule = schedule};
}

/* Four rows in halves cost as much as all at once: they go on in parts, unless these have to cost less. What is told
 * is of one row, of which A takes half as long as each of the others. */
Test(joinable, what_is_not_split)
{
    lab_t lab;
    uint32_t until[4];
    model(&lab, 1, 2);
    staged_config_t joins = config(&lab, NULL);
    cr_expect_eq(staged_joinable(&joins, 1, 1000, until), 0);
    joins.split_slack = -0.05;
    cr_assert_eq(staged_joinable(&joins, 1, 1000, until), 4);
    cr_expect_arr_eq(until, ((uint32_t[]){142, 428, 714, 1000}), sizeof(until), "%u %u %u %u", until[0],
                     until[1], until[2], until[3]);
}

/* The upper halves of the figure: one entry, one exit, a window of 4 T. */
static exec_t *one_entry(lab_t *lab)
{
    lab->stages = 1;
    whole_config_t whole = {.gather = true, .rows_max = 4, .queries_max = 64, .window_ns = 4 * LAB_T};
    return exec_create_whole(&whole, NULL);
}

/* In T. */
static void expect_average(lab_t *lab, double expected)
{
    lab_run(lab);
    cr_assert_eq(lab->completed, lab->coming_count);
    cr_assert_float_eq(lab->latency_sum / lab->completed, expected, 1e-6, "%g instead of %g",
                       lab->latency_sum / lab->completed, expected);
    lab_close(lab);
}

static void four_at_once(lab_t *lab, uint32_t three, uint32_t last)
{
    for (int i = 0; i < 4; i++)
        lab_query(lab, 0, i < 3 ? three : last);
}

static void late_three(lab_t *lab)
{
    lab_query(lab, 0, 100);
    for (int i = 0; i < 3; i++)
        lab_query(lab, 5, 100);
}

Test(figure3, input_diversity)
{
    lab_t lab;
    model(&lab, 4, 4);
    lab_open(&lab, one_entry(&lab));
    four_at_once(&lab, 50, 100);
    expect_average(&lab, 4);

    model(&lab, 4, 4);
    staged_config_t staged = config(&lab, &staged_schedule_input);
    staged.new_pairs = staged.width = 2;
    lab_open(&lab, exec_create_staged(&staged, NULL));
    four_at_once(&lab, 50, 100);
    expect_average(&lab, 2.5);

    /* The figure lets both batches be in one stage; with the paper's one executor per stage they follow each other. */
    model(&lab, 4, 4);
    staged = config(&lab, &staged_schedule_input);
    staged.new_pairs = 2;
    lab_open(&lab, exec_create_staged(&staged, NULL));
    four_at_once(&lab, 50, 100);
    expect_average(&lab, 2.625);
}

Test(figure3, operator_diversity)
{
    lab_t lab;
    model(&lab, 4, 1);
    lab_open(&lab, one_entry(&lab));
    four_at_once(&lab, 100, 100);
    expect_average(&lab, 4);

    model(&lab, 4, 1);
    staged_config_t staged = config(&lab, &staged_schedule_operator);
    lab_open(&lab, exec_create_staged(&staged, NULL));
    four_at_once(&lab, 100, 100);
    expect_average(&lab, 2.875);
}

Test(figure3, load_diversity)
{
    lab_t lab;
    model(&lab, 4, 4);
    lab_open(&lab, one_entry(&lab));
    late_three(&lab);
    expect_average(&lab, 8);

    model(&lab, 4, 4);
    staged_config_t staged = config(&lab, &staged_schedule_load);
    staged.window_ns = 4 * LAB_T;
    staged.eager = false;
    lab_open(&lab, exec_create_staged(&staged, NULL));
    late_three(&lab);
    expect_average(&lab, 5.25);
}

static const char *table(const lab_t *lab)
{
    static char text[256];
    staged_print_table(lab->driver.exec, text, sizeof(text));
    return text;
}

static const char *queue(const lab_t *lab, uint32_t stage)
{
    static char text[2][128];
    static uint32_t turn;
    turn = !turn;
    staged_print_queue(lab->driver.exec, stage - 1, text[turn], sizeof(text[turn]));
    return text[turn];
}

/* Splits behind the third of four stages, as the figure does. */
static uint32_t split_at_3(const staged_view_t *view)
{
    return view->stage == 2 && view->rows == 4 ? 2 : 0;
}

static uint32_t stretch_all(const staged_view_t *view)
{
    return view->waiting_count;
}

static const staged_schedule_t figure8 = {
    .name = "figure8", .enter = staged_enter_together, .stretch = stretch_all, .split = split_at_3};

/* new with 2 queries; stretched by 2 while executor 2 works; split in two behind stage 3. */
Test(figure8, new_stretch_split)
{
    lab_t lab;
    model(&lab, 4, 4);
    staged_config_t staged = config(&lab, &figure8);
    lab_open(&lab, exec_create_staged(&staged, NULL));
    lab_query(&lab, 0, 100);
    lab_query(&lab, 0, 100);
    lab_query(&lab, 1.5, 100);
    lab_query(&lab, 1.5, 100);

    lab_run_until(&lab, 0);
    cr_assert_str_eq(table(&lab), "1 bs=2 [0 0 0 0]");
    lab_run_until(&lab, 1); /* (a): stage 1 has done 2, executor 2 works on them */
    cr_assert_str_eq(table(&lab), "1 bs=2 [2 0 0 0]");
    cr_assert_eq(staged_executor(lab.driver.exec, 1, 0), STAGED_WORKING);
    lab_run_until(&lab, 1.5); /* (b): bs is 4 at once, the new rows are with executor 1 */
    cr_assert_str_eq(table(&lab), "1 bs=4 [2 0 0 0]");
    cr_assert_eq(staged_executor(lab.driver.exec, 0, 0), STAGED_WORKING);
    lab_run_until(&lab, 2); /* executor 2 has done the first two and pushes nothing */
    cr_assert_str_eq(table(&lab), "1 bs=4 [2 2 0 0]");
    cr_assert_str_eq(queue(&lab, 3), "");
    cr_assert_eq(staged_executor(lab.driver.exec, 2, 0), STAGED_ACTIVE);
    lab_run_until(&lab, 3.5); /* they have caught up: start = 0, num = 4 */
    cr_assert_str_eq(table(&lab), "1 bs=4 [4 4 0 0]");
    cr_assert_eq(staged_executor(lab.driver.exec, 2, 0), STAGED_WORKING);
    lab_run_until(&lab, 4.5); /* (c): two batches in the table, one in the queue, one with executor 4 */
    cr_assert_str_eq(table(&lab), "2 bs=2 [2 2 2 0]; 3 bs=2 [2 2 2 0]");
    cr_assert_str_eq(queue(&lab, 4), "3:0+2");
    lab_run(&lab);
    cr_assert_str_eq(
        lab.log,
        "run1(1:0+2)0>0 run2(1:0+2)0>0 run1(1:2+2)1>1 run2(1:2+2)1>0 merge(1:2+2) run3(1:0+4)0>0 "
        "split(1>2:0+2) split(1>3:2+2) run4(2:0+2)0>0 complete(2:2)@5.5 run4(3:2+2)0>0 complete(3:2)@6.5");
    lab_close(&lab);
}

static const char *states(const lab_t *lab)
{
    static char text[STAGED_STAGES_MAX + 1];
    for (uint32_t stage = 0; stage < lab->stages; stage++)
        text[stage] = "iacw"[staged_executor(lab->driver.exec, stage, 0)];
    text[lab->stages] = '\0';
    return text;
}

static const char *buffers(const lab_t *lab, uint32_t pair)
{
    static char text[2][STAGED_STAGES_MAX + 2];
    for (uint32_t border = 0; border <= lab->stages; border++)
        text[pair][border] = "axrw"[staged_buffer(lab->driver.exec, border, pair)];
    text[pair][lab->stages + 1] = '\0';
    return text[pair];
}

/* Figure 10(b): with one pair, an executor in front must not begin while one behind works, though its
 * buffers are not in use: it stays inactive until the last stage is through. */
Test(figure10, one_pair_runs_one_batch_after_the_other)
{
    static const char *const expected[][2] = {
        {"waaa", "rwaaa"}, {"iwaa", "xrwaa"}, {"iiwa", "xxrwa"}, {"iiiw", "xxxrw"}, {"waaa", "rwaaa"}};
    lab_t lab;
    model(&lab, 4, 4);
    staged_config_t staged = config(&lab, &staged_schedule_operator);
    staged.pairs = 1;
    lab_open(&lab, exec_create_staged(&staged, NULL));
    lab_query(&lab, 0, 100);
    lab_query(&lab, 0.5, 100);
    for (int at = 0; at < 5; at++) {
        lab_run_until(&lab, at);
        cr_assert_str_eq(states(&lab), expected[at][0]);
        cr_assert_str_eq(buffers(&lab, 0), expected[at][1]);
    }
    lab_close(&lab);
}

/* Figure 10(a): executor 2 has been active with pair 1 since it passed on the first batch, and pulls one
 * on pair 0, whose output executor 3 still reads: it must check and wait, where the traditional rule would
 * overwrite. */
Test(figure10, an_executor_checks_the_pair_of_its_batch)
{
    lab_t lab;
    model(&lab, 4, 4);
    lab.ops[2].ns = 5 * (double)LAB_T;
    staged_config_t staged = config(&lab, &staged_schedule_operator);
    staged.new_pairs = 2;
    lab_open(&lab, exec_create_staged(&staged, NULL));
    lab_query(&lab, 0, 100);
    lab_query(&lab, 2.1, 100);
    lab_run_until(&lab, 3.2);
    cr_assert_str_eq(states(&lab), "acwa");
    cr_assert_str_eq(buffers(&lab, 0), "xxrwa");
    cr_assert_str_eq(buffers(&lab, 1), "aaaaa");
    lab_run_until(&lab, 6.9);
    cr_assert_str_eq(states(&lab), "acwa");
    lab_run_until(&lab, 7); /* executor 3 is active again, with pair 1, and only then tells executor 2 */
    cr_assert_str_eq(states(&lab), "awaw");
    lab_run(&lab);
    cr_assert_eq(lab.completed, 2);
    lab_close(&lab);
}
