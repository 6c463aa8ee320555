/* What a task finds ahead of it, from below: what is counted, what is not, and where nothing is said. */
#include "sched/sched.h"

#include "base/clock.h"

#include <criterion/criterion.h>

enum { MODEL = 0, OTHER = 1, GPUS = 4, BATCH = 8 };

/* A row takes 1 ms and a batch 2 more, so that rows of the largest take 1.25; told is 7/8 of that. */
static const int64_t ROW_NS = 1250 * NS_PER_US * 7 / 8;
static const int64_t ALONE_NS = 3 * NS_PER_MS;

typedef struct {
    sched_t *sched;
    uint64_t tags;
} rig_t;

static void on_action(void *ctx, const sched_action_t *action)
{
    (void)ctx;
    (void)action;
}

static rig_t make(uint32_t gpus)
{
    err_t err = {0};
    profile_t profile;
    sched_limits_t limits = {
        .models_max = 2, .gpus_max = GPUS, .tasks_max = 20000, .batch_max = BATCH, .gpu_inflight_max = 2};
    rig_t rig = {.sched = sched_create(&limits, &err)};
    cr_assert(rig.sched, "%s", err.text);
    cr_assert_eq(sched_set_policy(rig.sched, 0, "eager", NULL, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(profile_from_line(&profile, NS_PER_MS, 2 * NS_PER_MS, BATCH, &err), STATUS_OK);
    const sched_model_opts_t opts = {.slo_ns = NS_PER_S};
    cr_assert_eq(sched_add_model(rig.sched, 0, MODEL, &profile, &opts, &err), STATUS_OK, "%s", err.text);
    for (uint32_t g = 0; g < gpus; g++)
        cr_assert_eq(sched_add_gpu(rig.sched, 0, g, 0), STATUS_OK);
    return rig;
}

static void submit(rig_t *rig, uint32_t count, int64_t deadline_ns)
{
    for (uint32_t i = 0; i < count; i++) {
        sched_task_t task = {.tag = rig->tags++, .deadline_ns = deadline_ns};
        cr_assert_eq(sched_submit(rig->sched, 0, MODEL, &task, NULL), STATUS_OK);
    }
}

static sched_backlog_t look(const rig_t *rig, int64_t now_ns)
{
    sched_backlog_t backlog = {0};
    cr_assert(sched_backlog(rig->sched, now_ns, MODEL, &backlog));
    cr_assert_null(sched_validate(rig->sched));
    return backlog;
}

static void expect_nothing(const rig_t *rig, int64_t now_ns, const char *why)
{
    sched_backlog_t backlog;
    cr_expect_not(sched_backlog(rig->sched, now_ns, MODEL, &backlog), "%s", why);
}

static uint64_t rows(const sched_backlog_t *backlog, int64_t now_ns)
{
    return (uint64_t)((backlog->ends_ns - now_ns) / backlog->row_ns);
}

Test(backlog, what_waits_is_shared_by_the_gpus)
{
    for (uint32_t gpus = 1; gpus <= GPUS; gpus++) {
        rig_t rig = make(gpus);
        submit(&rig, 400, NS_PER_S);
        sched_backlog_t backlog = look(&rig, 0);
        cr_expect_eq(backlog.row_ns, ROW_NS / gpus);
        cr_expect_eq(rows(&backlog, 0), 400);
        cr_expect_eq(backlog.deadline_ns, NS_PER_S);
        sched_destroy(rig.sched);
    }
}

/* In any order of coming; those without order wait in a heap. */
Test(backlog, what_cannot_make_it_is_not_ahead)
{
    rig_t rig = make(1);
    submit(&rig, 100, NS_PER_S);
    submit(&rig, 50, ALONE_NS / 2); /* not even alone */
    submit(&rig, 500, 103 * NS_PER_MS);
    submit(&rig, 100, NS_PER_S);
    sched_backlog_t backlog = look(&rig, 0);
    /* The parts are of 1/64 s: from 93.75 ms on, less what one takes alone, as many as find the time. */
    uint64_t made = (uint64_t)((NS_PER_S * 6 / 64 - ALONE_NS) / ROW_NS);
    cr_expect_eq(rows(&backlog, 0), 200 + made, "%lu", (unsigned long)rows(&backlog, 0));
    sched_destroy(rig.sched);
}

Test(backlog, more_than_there_is_time_for_is_not_ahead)
{
    rig_t rig = make(1);
    submit(&rig, 10000, 500 * NS_PER_MS);
    sched_backlog_t backlog = look(&rig, 0);
    cr_expect_leq(backlog.ends_ns, 500 * NS_PER_MS - ALONE_NS);
    cr_expect_geq(backlog.ends_ns, 480 * NS_PER_MS - ALONE_NS);
    /* And as time passes, less. */
    backlog = look(&rig, 400 * NS_PER_MS);
    cr_expect_leq(backlog.ends_ns, 500 * NS_PER_MS - ALONE_NS);
    expect_nothing(&rig, 600 * NS_PER_MS, "all of them are too late");
    sched_destroy(rig.sched);
}

Test(backlog, what_runs_goes_before)
{
    rig_t rig = make(1);
    submit(&rig, 400, NS_PER_S);
    (void)sched_run(rig.sched, 0, on_action, NULL); /* two batches are granted: 20 ms */
    sched_backlog_t backlog = look(&rig, 0);
    cr_expect_eq(backlog.ends_ns, 2 * 10 * NS_PER_MS * 7 / 8 + (400 - 2 * BATCH) * ROW_NS);
    sched_destroy(rig.sched);
}

/* Four batches of 10 ms. */
Test(backlog, little_is_no_reason_to_say_anything)
{
    rig_t rig = make(1);
    expect_nothing(&rig, 0, "nothing waits");
    submit(&rig, 36, NS_PER_S);
    expect_nothing(&rig, 0, "less than some batches wait");
    submit(&rig, 1, NS_PER_S);
    cr_expect_eq(look(&rig, 0).row_ns, ROW_NS);
    sched_destroy(rig.sched);
}

Test(backlog, only_gpus_that_may_run_it_count)
{
    rig_t rig = make(3);
    submit(&rig, 400, NS_PER_S);
    cr_assert_eq(sched_allow(rig.sched, 0, MODEL, 1, false), STATUS_OK);
    cr_expect_eq(look(&rig, 0).row_ns, ROW_NS / 2);
    cr_assert_eq(sched_drain_gpu(rig.sched, 0, 0), STATUS_OK);
    cr_expect_eq(look(&rig, 0).row_ns, ROW_NS);
    cr_assert_eq(sched_drain_gpu(rig.sched, 0, 2), STATUS_OK);
    expect_nothing(&rig, 0, "none is left");
    sched_backlog_t backlog;
    cr_expect_not(sched_backlog(rig.sched, 0, OTHER, &backlog), "there is no such model");
    sched_destroy(rig.sched);
}

Test(backlog, gpus_that_do_more_than_whole_batches_are_not_judged)
{
    rig_t rig = make(1);
    const sched_gpu_mode_t mode = {.slots = 2};
    submit(&rig, 400, NS_PER_S);
    cr_assert_eq(sched_set_gpu_mode(rig.sched, 0, 0, &mode), STATUS_OK);
    expect_nothing(&rig, 0, "batches run side by side");
    sched_destroy(rig.sched);
}

Test(backlog, who_was_turned_away_counts_as_given_up)
{
    rig_t rig = make(1);
    sched_model_stats_t stats;
    submit(&rig, 100, NS_PER_S);
    sched_note_refused(rig.sched, MODEL, 50);
    sched_note_refused(rig.sched, OTHER, 50);
    cr_assert(sched_model_stats(rig.sched, MODEL, &stats));
    cr_expect_eq(stats.submitted, 150);
    cr_expect_eq(stats.dropped[SCHED_DROP_WINDOW], 50);
    cr_expect_eq(stats.queued, 100);
    cr_expect_null(sched_validate(rig.sched));
    sched_destroy(rig.sched);
}
