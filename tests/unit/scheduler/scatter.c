/*
 * A worker whose batches take longer than its profile says: what it is granted follows what it reports. Times are so long that what
 * the machine does besides is little beside them.
 */
#include "base/strbuf.h"
#include "sched/sched.h"
#include "scheduler/admin/state.h"
#include "scheduler/shell.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

#define ROW_NS (50 * NS_PER_MS)
#define FIXED_NS (350 * NS_PER_MS)

static int64_t profile_ns(uint32_t rows)
{
    return FIXED_NS + rows * ROW_NS;
}

static int64_t took_ns(uint32_t rows)
{
    return profile_ns(rows) * 13 / 10;
}

static const grant_t *last_grant(const duo_t *s)
{
    return &s->worker.grants[s->worker.grant_count - 1];
}

static void run_last(duo_t *s)
{
    const grant_t *grant = last_grant(s);
    stage_pass(&s->stage, took_ns(grant->rows) + NS_PER_MS);
    worker_ran(&s->worker, grant->batch_id, took_ns(grant->rows));
}

static duo_t *begin(void)
{
    duo_t *s = duo_new(1);
    duo_begin(s, ROW_NS, FIXED_NS);
    stage_note_plans(&s->stage);
    return s;
}

static void run_one(duo_t *s, uint64_t id)
{
    gateway_send(&s->gateway, s->gateway.model_id, id, 1, 10 * NS_PER_S);
    stage_until(&s->stage, worker_has_task(&s->worker, id));
    run_last(s);
}

/* Three batches of one row each, one after the other. */
static void learn(duo_t *s)
{
    for (uint64_t id = 1; id <= 3; id++)
        run_one(s, id);
}

/* False: all of them were given up, as they are by a machine that stands still for long enough. */
static bool some_granted(duo_t *s, uint64_t first_id, uint32_t count, int64_t budget_ns)
{
    uint32_t grants = s->worker.grant_count;
    uint64_t drops = s->gateway.drop_total;
    gateway_send(&s->gateway, s->gateway.model_id, first_id, count, budget_ns);
    stage_until(&s->stage, s->worker.grant_count > grants || s->gateway.drop_total == drops + count);
    return s->worker.grant_count > grants;
}

/* So much is planned for the last grant, besides the way to the worker: 5 % of it at most. */
static void expect_predicted(const duo_t *s, int64_t latency_ns)
{
    cr_assert_eq(s->stage.plan_count, s->worker.grant_count);
    int64_t planned_ns = s->stage.plan_ns[s->worker.grant_count - 1];
    cr_expect(planned_ns >= latency_ns && planned_ns <= latency_ns * 105 / 100, "%lld ms for %u rows",
              (long long)(planned_ns / NS_PER_MS), last_grant(s)->rows);
}

static sched_scatter_t shown(const duo_t *s)
{
    static const char key[] = "\"scatter\":{\"mean\":";
    sched_scatter_t scatter = {0};
    strbuf_t text;
    strbuf_init(&text, 1 << 20);
    state_json(s->stage.scheduler->control, loop_now_ns(), &text);
    const char *mean = strstr(text.data, key);
    cr_assert_not_null(mean);
    char *end;
    scatter.mean = strtod(mean + sizeof key - 1, &end);
    cr_assert_eq(strncmp(end, ",\"guard\":", 9), 0);
    scatter.guard = strtod(end + 9, NULL);
    strbuf_dispose(&text);
    return scatter;
}

static void expect_nothing_learned(const duo_t *s)
{
    sched_scatter_t scatter = shown(s);
    cr_expect(scatter.mean == 1 && scatter.guard == 1, "%g, %g", scatter.mean, scatter.guard);
}

Test(scatter, predictions_follow_and_batches_become_smaller)
{
    duo_t *s = begin();
    expect_nothing_learned(s);
    gateway_send(&s->gateway, s->gateway.model_id, 100, 1, 10 * NS_PER_S);
    stage_until(&s->stage, s->worker.grant_count == 1);
    expect_predicted(s, profile_ns(1));
    run_last(s);
    learn(s);

    /* Eight rows would make it by the profile. */
    int64_t until_ns = clock_now_ns() + HANG_NS;
    for (uint64_t id = 200; !some_granted(s, id, 8, profile_ns(8) + 100 * NS_PER_MS); id += 10) {
        cr_assert(clock_now_ns() < until_ns);
        run_one(s, id + 8); /* so that what was learned is not forgotten */
    }
    const grant_t *grant = last_grant(s);
    cr_expect(grant->rows >= 1 && took_ns(grant->rows) <= profile_ns(8) + 100 * NS_PER_MS, "%u rows",
              grant->rows);
    sched_scatter_t scatter = shown(s);
    cr_expect(scatter.mean > 1.25 && scatter.mean < 1.31 && scatter.guard >= scatter.mean, "%g, %g",
              scatter.mean, scatter.guard);
    expect_predicted(s, (int64_t)(scatter.mean * 0.999 * (double)profile_ns(grant->rows)));
    duo_free(s);
}

Test(scatter, what_was_learned_long_ago_refuses_nothing)
{
    const int64_t budget_ns = profile_ns(1) * 12 / 10;
    duo_t *s = begin();
    learn(s);
    gateway_send(&s->gateway, s->gateway.model_id, 10, 1, budget_ns);
    stage_until(&s->stage, gateway_dropped(&s->gateway, 10) != NULL);
    cr_expect_eq(gateway_dropped(&s->gateway, 10)->status, STATUS_DEADLINE_EXCEEDED);
    stage_pass(&s->stage, 1200 * NS_PER_MS); /* more than SCATTER_OLD_NS */
    for (uint64_t id = 11; !some_granted(s, id, 1, budget_ns); id++) {
        cr_assert_lt(id, 31);
        stage_pass(&s->stage, 100 * NS_PER_MS);
    }
    expect_predicted(s, profile_ns(1));
    duo_free(s);
}

/* A worker that says nonsense of its batches is not believed. */
Test(scatter, times_that_cannot_be_teach_nothing)
{
    static const int64_t nonsense_ns[] = {0, -1, INT64_MAX, INT64_MIN, 3600 * NS_PER_S};
    duo_t *s = begin();
    for (uint64_t i = 0; i < sizeof nonsense_ns / sizeof nonsense_ns[0]; i++) {
        gateway_send(&s->gateway, s->gateway.model_id, 1 + i, 1, 10 * NS_PER_S);
        stage_until(&s->stage, worker_has_task(&s->worker, 1 + i));
        worker_ran(&s->worker, last_grant(s)->batch_id, nonsense_ns[i]);
    }
    gateway_send(&s->gateway, s->gateway.model_id, 100, 1, 10 * NS_PER_S);
    stage_until(&s->stage, worker_has_task(&s->worker, 100));
    expect_predicted(s, profile_ns(1));
    expect_nothing_learned(s);
    duo_free(s);
}
