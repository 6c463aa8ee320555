/*
 * Abacus's Figure 12, and what the controller keeps to.
 */
#include "exec/overlap_share.h"
#include "exec/predictor.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define MS INT64_C(1000000)

static char text[512];
static uint32_t asked;
static int64_t now_ns;

/* The figure's numbers: all of q3 takes 10 ms, all of q2 5 ms more, each operator of q1 5 ms more. */
static void add_up(void *ctx, const overlap_group_t *groups, uint32_t count, int64_t *ns)
{
    static const int64_t each_ns[] = {5 * MS, 5 * MS / 4, 10 * MS / 4};
    (void)ctx;
    asked++;
    for (uint32_t i = 0; i < count; i++) {
        ns[i] = 0;
        for (uint32_t j = 0; j < groups[i].count; j++)
            ns[i] += each_ns[groups[i].parts[j].model] * (groups[i].parts[j].to - groups[i].parts[j].from);
    }
}

static void sink(void *ctx, const exec_action_t *action)
{
    (void)ctx;
    size_t len = strlen(text);
    if (action->kind == EXEC_LAUNCH)
        for (uint32_t i = 0; i < action->launch.count; i++) {
            const exec_part_t *part = &action->launch.parts[i];
            snprintf(text + len, sizeof(text) - len, "%sq%u[%u,%u)", len ? " " : "", (unsigned)part->tag,
                     part->from, part->to);
            len = strlen(text);
        }
    else
        snprintf(text + len, sizeof(text) - len, "%s%s(q%u)", len ? " " : "",
                 action->kind == EXEC_DROP      ? "drop"
                 : action->kind == EXEC_REQUEUE ? "requeue"
                                                : "complete",
                 (unsigned)action->done.queries[0].tag);
}

static exec_t *open_exec(const overlap_config_t *config)
{
    exec_t *exec = exec_create_overlap(config, NULL);
    cr_assert(exec != NULL);
    asked = 0;
    now_ns = 0;
    return exec;
}

static overlap_config_t three(overlap_order_t order, uint32_t ways)
{
    return (overlap_config_t){
        .order = order, .models = 3, .ops = {6, 4, 4}, .ways = ways, .queries_max = 8, .predict = add_up};
}

static exec_t *make(overlap_order_t order, uint32_t ways)
{
    overlap_config_t config = three(order, ways);
    return open_exec(&config);
}

static void submit_rows(exec_t *exec, uint32_t tag, uint32_t rows, int64_t headroom_ms)
{
    exec_query_t query = {.tag = tag,
                          .model = tag - 1,
                          .rows = rows,
                          .arrival_ns = now_ns,
                          .deadline_ns = now_ns + headroom_ms * MS};
    cr_assert_eq(exec_submit(exec, now_ns, &query, 1, 100 + tag, NULL), STATUS_OK);
}

static void submit(exec_t *exec, uint32_t tag, int64_t headroom_ms)
{
    submit_rows(exec, tag, 8, headroom_ms);
}

static const char *run(exec_t *exec)
{
    text[0] = '\0';
    exec_run(exec, now_ns, sink, NULL);
    cr_assert(exec_validate(exec) == NULL, "%s", exec_validate(exec));
    return text;
}

Test(overlap, figure_12)
{
    for (uint32_t ways = 1; ways <= 4; ways++) {
        exec_t *exec = make(OVERLAP_ABACUS, ways);
        submit(exec, 1, 45);
        submit(exec, 2, 35);
        submit(exec, 3, 25);
        cr_assert_str_eq(run(exec), "q1[0,2) q2[0,4) q3[0,4)");
        cr_assert(ways < 3 || asked <= 6, "%u predictions with %u ways", asked, ways);
        now_ns = 25 * MS;
        cr_assert(exec_finished(exec, now_ns, 1));
        cr_assert_str_eq(run(exec), "complete(q2) complete(q3) q1[2,6)");
        now_ns = 45 * MS;
        cr_assert(exec_finished(exec, now_ns, 2));
        cr_assert_str_eq(run(exec), "complete(q1)");
        exec_destroy(exec);
    }
}

/* Equation 3: a query that would fit now, but not behind the running group. */
Test(overlap, the_running_group_is_taken_off_the_headroom)
{
    exec_t *exec = make(OVERLAP_ABACUS, 4);
    submit(exec, 1, 30);
    cr_assert_str_eq(run(exec), "q1[0,6)");
    submit(exec, 3, 39);
    cr_assert_str_eq(run(exec), "drop(q3)");
    submit(exec, 3, 40);
    cr_assert_str_eq(run(exec), "");
    now_ns = 30 * MS;
    cr_assert(exec_finished(exec, now_ns, 1));
    cr_assert_str_eq(run(exec), "complete(q1) q3[0,4)");
    exec_destroy(exec);
}

/* Three that cannot all end in time: by their deadlines the longest is served and the two others are late. */
Test(overlap, triage_lets_few_be_late)
{
    static const struct {
        bool triage, by_rows;
        uint32_t rows;
        const char *first, *then;
    } cases[] = {
        {false, false, 8, "q1[0,6) drop(q2) drop(q3)", "complete(q1)"},
        {true, false, 8, "q1[0,3) q2[0,4) q3[0,4) drop(q1)", "complete(q2) complete(q3)"},
        {true, true, 8, "q1[0,3) q2[0,4) q3[0,4) drop(q1)", "complete(q2) complete(q3)"},
        {true, true, 80, "q1[0,6) drop(q3) drop(q2)", "complete(q1)"}, /* as many answers as take longer */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        overlap_config_t config = three(OVERLAP_ABACUS, 4);
        config.triage = cases[i].triage;
        config.by_rows = cases[i].by_rows;
        exec_t *exec = open_exec(&config);
        submit_rows(exec, 1, cases[i].rows, 30);
        submit(exec, 2, 32);
        submit(exec, 3, 33);
        cr_assert_str_eq(run(exec), cases[i].first);
        now_ns = 30 * MS;
        cr_assert(exec_finished(exec, now_ns, 1));
        cr_assert_str_eq(run(exec), cases[i].then, "case %zu: %s", i, text);
        exec_destroy(exec);
    }
}

/* Model 0 fills the device by itself, 1 and 2 leave half of it idle: each takes 10 ms alone. */
static void half_idle(void *ctx, const overlap_group_t *groups, uint32_t count, int64_t *ns)
{
    (void)ctx;
    for (uint32_t i = 0; i < count; i++) {
        int64_t full_ns = 0, half_ns = 0;
        for (uint32_t j = 0; j < groups[i].count; j++) {
            const exec_part_t *part = &groups[i].parts[j];
            int64_t part_ns = 10 * MS * (part->to - part->from) / (part->model ? 4 : 6);
            full_ns += part->model ? 0 : part_ns;
            half_ns = part->model && part_ns > half_ns ? part_ns : half_ns;
        }
        ns[i] = full_ns + half_ns;
    }
}

Test(overlap, what_saves_no_time_side_by_side_waits)
{
    static const char *const first[] = {"q1[0,6) q2[0,4) q3[0,4)", "q1[0,6)"};
    for (int saving = 0; saving < 2; saving++) {
        overlap_config_t config = three(OVERLAP_ABACUS, 4);
        config.predict = half_idle;
        config.least_saving = saving ? 0.5 : 0;
        exec_t *exec = open_exec(&config);
        submit(exec, 1, 40);
        submit(exec, 2, 50);
        submit(exec, 3, 60);
        cr_assert_str_eq(run(exec), first[saving]);
        now_ns = 20 * MS;
        cr_assert(exec_finished(exec, now_ns, 1));
        cr_assert_str_eq(run(exec),
                         saving ? "complete(q1) q2[0,4) q3[0,4)" : "complete(q1) complete(q2) complete(q3)");
        exec_destroy(exec);
    }
}

/* A long query runs in several groups, and a pressed one that comes in between is served. */
Test(overlap, groups_of_limited_length_let_others_in)
{
    for (int limited = 0; limited < 2; limited++) {
        overlap_config_t config = three(OVERLAP_ABACUS, 4);
        config.group_part = limited ? 0.5 : 0;
        exec_t *exec = open_exec(&config);
        submit(exec, 3, 20);
        cr_assert_str_eq(run(exec), "q3[0,4)");
        submit(exec, 1, 60);
        now_ns = 10 * MS;
        cr_assert(exec_finished(exec, now_ns, 1));
        cr_assert_str_eq(run(exec), limited ? "complete(q3) q1[0,2)" : "complete(q3) q1[0,6)");
        now_ns = 12 * MS;
        submit(exec, 2, 15);
        cr_assert_str_eq(run(exec), limited ? "" : "drop(q2)");
        now_ns = limited ? 20 * MS : 40 * MS;
        cr_assert(exec_finished(exec, now_ns, 2));
        cr_assert_str_eq(run(exec), limited ? "q2[0,4)" : "complete(q1)");
        exec_destroy(exec);
    }
}

Test(overlap, a_query_that_comes_too_late_does_not_move_the_limit_of_groups)
{
    overlap_config_t config = three(OVERLAP_ABACUS, 4);
    config.group_part = 0.5;
    exec_t *exec = open_exec(&config);
    submit(exec, 1, -3600 * 1000);
    cr_assert_str_eq(run(exec), "drop(q1)");
    submit(exec, 1, 40);
    cr_assert_str_eq(run(exec), "q1[0,4)", "half of 40 ms");
    exec_destroy(exec);
}

Test(overlap, the_baselines_run_one_query_at_a_time)
{
    static const char *const expected[] = {
        [OVERLAP_FCFS] = "q1[0,6)", [OVERLAP_SJF] = "q2[0,4)", [OVERLAP_EDF] = "q3[0,4)"};
    for (overlap_order_t order = OVERLAP_FCFS; order <= OVERLAP_EDF; order++) {
        exec_t *exec = make(order, 1);
        submit(exec, 1, 45);
        submit(exec, 2, 35);
        submit(exec, 3, 25);
        cr_assert_str_eq(run(exec), expected[order]);
        now_ns = 50 * MS;
        cr_assert(exec_finished(exec, now_ns, 1));
        run(exec);
        cr_assert(strstr(text, "drop(q") != NULL, "the others are late");
        exec_destroy(exec);
    }
}

/* What a query takes alone: q2 would end at its deadline to the nanosecond, q3 behind it. */
Test(overlap, the_baselines_drop_by_prediction_when_told_so)
{
    for (overlap_order_t order = OVERLAP_FCFS; order <= OVERLAP_EDF; order++)
        for (int predicted = 0; predicted < 2; predicted++) {
            overlap_config_t config = three(order, 1);
            config.drop_predicted = predicted;
            exec_t *exec = open_exec(&config);
            submit(exec, 2, 5);
            submit(exec, 3, 9);
            cr_assert_str_eq(run(exec), predicted ? "drop(q3) q2[0,4)" : "q2[0,4)");
            now_ns = 8 * MS;
            cr_assert(exec_finished(exec, now_ns, 1));
            cr_assert_str_eq(run(exec), predicted ? "complete(q2)" : "complete(q2) q3[0,4)");
            exec_destroy(exec);
        }
}

Test(overlap, a_stopped_query_goes_back_at_once_or_behind_its_group)
{
    exec_t *exec = make(OVERLAP_ABACUS, 4);
    submit(exec, 1, 45);
    submit(exec, 2, 35);
    submit(exec, 3, 25);
    cr_assert_str_eq(run(exec), "q1[0,2) q2[0,4) q3[0,4)");
    cr_assert(exec_preempt(exec, 0, 101), "it has operators left");
    cr_assert(!exec_preempt(exec, 0, 101), "asked twice");
    cr_assert(!exec_preempt(exec, 0, 102), "its last one runs");
    cr_assert(!exec_preempt(exec, 0, 109), "nobody has heard of it");
    cr_assert_str_eq(run(exec), "");
    submit(exec, 2, 100);
    cr_assert(exec_preempt(exec, 0, 102), "another one of that name");
    cr_assert_str_eq(run(exec), "requeue(q2)", "no part of it runs");
    cr_assert(exec_finished(exec, 0, 1));
    cr_assert_str_eq(run(exec), "complete(q2) complete(q3) requeue(q1)");
    exec_destroy(exec);
}

Test(overlap, it_says_what_it_cannot_run)
{
    err_t err;
    exec_query_t query = {.model = 3, .rows = 1};
    exec_t *exec = make(OVERLAP_ABACUS, 4);
    cr_assert_eq(exec_submit(exec, 0, &query, 1, 0, &err), STATUS_INVALID_ARGUMENT);
    exec_destroy(exec);
    overlap_config_t config = {.models = 1, .ops = {1}, .ways = 1, .queries_max = 1};
    cr_assert(exec_create_overlap(&config, &err) == NULL, "no duration model");
    config.order = OVERLAP_EDF;
    config.drop_predicted = true;
    cr_assert(exec_create_overlap(&config, &err) == NULL, "nothing to predict with");
    config.drop_predicted = false;
    config.ways = 0;
    cr_assert(exec_create_overlap(&config, &err) == NULL);
}

/* ---- what a query keeps busy ---- */

/* A device on which model m takes alone_ms[m], and queries that together keep more than all of it busy are
 * slowed down. */
static double parts[3];
static const int64_t alone_ms[] = {10, 30, 30};

static void contend(void *ctx, const overlap_group_t *groups, uint32_t count, int64_t *ns)
{
    (void)ctx;
    for (uint32_t i = 0; i < count; i++) {
        double left[3] = {0}, now = 0;
        for (uint32_t j = 0; j < groups[i].count; j++)
            left[groups[i].parts[j].model] = (double)alone_ms[groups[i].parts[j].model];
        for (bool busy = true; busy;) {
            double sum = 0, least = 0;
            for (uint32_t m = 0; m < 3; m++) {
                sum += left[m] > 1e-9 ? parts[m] : 0;
                least = left[m] > 1e-9 && (least == 0 || left[m] < least) ? left[m] : least;
            }
            for (uint32_t m = 0; m < 3; m++)
                left[m] -= left[m] > 1e-9 ? least : 0;
            now += least * (sum > 1 ? sum : 1);
            busy = least > 0;
        }
        ns[i] = (int64_t)(now * (double)MS);
    }
}

static double share(uint32_t models, uint32_t model)
{
    overlap_config_t config = {.models = models, .ops = {4, 4, 4}, .predict = contend};
    return overlap_share(&config, model, 1, (const uint32_t[]){1, 1, 1});
}

Test(overlap, a_query_keeps_busy_what_the_durations_of_groups_say)
{
    parts[0] = parts[1] = parts[2] = 0.8;
    cr_assert_float_eq(share(2, 0), 0.8, 1e-3);
    cr_assert_float_eq(share(3, 2), 0.8, 1e-3);
    parts[0] = parts[1] = parts[2] = 1;
    cr_assert_float_eq(share(2, 1), 1, 1e-3, "one after the other");
    parts[0] = parts[1] = parts[2] = 0.1;
    cr_assert_float_eq(share(2, 0), 0.5, 1e-3, "a pair cannot tell less");
    cr_assert_float_eq(share(3, 0), 0.5, 1e-3);
    cr_assert_float_eq(share(1, 0), 1, 0, "nobody to run beside");
    parts[0] = 1;
    parts[1] = parts[2] = 0.5;
    cr_assert_float_eq(share(3, 0), 1, 1e-3, "who slows others down keeps more busy");
    cr_assert_float_eq(share(3, 1), 0.5, 1e-3);
}

/* One row keeps 0.6 busy, four and more all of it. */
static void saturate(void *ctx, const overlap_group_t *groups, uint32_t count, int64_t *ns)
{
    (void)ctx;
    for (uint32_t i = 0; i < count; i++) {
        double busy = 0.6 + (groups[i].parts[0].rows - 1) * 0.4 / 3;
        ns[i] = (int64_t)((busy < 1 ? busy : 1) * groups[i].count * (double)MS);
        ns[i] = groups[i].count == 1 ? MS : ns[i];
    }
}

Test(overlap, no_batch_keeps_more_busy_than_is_told)
{
    overlap_config_t config = {.models = 2, .ops = {4, 4}, .predict = saturate};
    overlap_busy_t busy = overlap_busy(&config, 0, 64, (const uint32_t[]){1, 1}, 1000);
    cr_expect(busy.fixed + busy.row >= 595 && busy.fixed + busy.row <= 605, "one: %u", busy.fixed + busy.row);
    cr_expect(busy.fixed + 4 * busy.row >= 995, "four: %u", busy.fixed + 4 * busy.row);
}

/* Each takes its length in milliseconds; two fit beside each other while both are short. */
static void fill(void *ctx, const overlap_group_t *groups, uint32_t count, int64_t *ns)
{
    (void)ctx;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t sum = 0, most = 0;
        for (uint32_t j = 0; j < groups[i].count; j++) {
            sum += groups[i].parts[j].length;
            most = groups[i].parts[j].length > most ? groups[i].parts[j].length : most;
        }
        ns[i] = (most > 4 ? sum : most) * MS;
    }
}

Test(overlap, what_a_query_keeps_busy_is_asked_for_with_the_lengths_of_each_model)
{
    overlap_config_t config = {.models = 2, .ops = {4, 4}, .predict = fill};
    cr_assert_float_eq(overlap_share(&config, 0, 1, (const uint32_t[]){3, 3}), 0.5, 1e-3);
    for (uint32_t model = 0; model < 2; model++) {
        cr_assert_float_eq(overlap_share(&config, model, 1, (const uint32_t[]){3, 6}), 1, 1e-3);
        cr_assert_float_eq(overlap_share(&config, model, 1, (const uint32_t[]){6, 3}), 1, 1e-3);
    }
}
