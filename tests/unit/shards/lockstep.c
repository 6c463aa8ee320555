/*
 * The shards on one thread decide what sched_t decides: the same trace (arrivals and cancellations, batches
 * that end early and late, take other times than their profile says, or fail and are tried again, GPUs that join, drain and
 * leave, models that come, change and go; or clients that wait for their answers, or few requests and long batches)
 * gives the same grants and the same drops, for one shard and for three.
 */
#include "base/heap.h"
#include "base/prng.h"
#include "sched/core.h"
#include "shards/internal.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH_MAX = 64 };
enum {
    MODELS = 7,
    GPUS = 5,
    CLIENTS = 8,
    LONG = 10,          /* so many times as long */
    SPARSE_GAP_MS = 15, /* from one request to the next */
    REQUESTS = 6000,
    LINES_MAX = 3 * REQUESTS,
    LINE_BYTES = 64,
    BATCHES = 8192
};
#define MS INT64_C(1000000)

typedef struct {
    heap_node_t node;
    uint64_t batch_id;
    bool fails;
    int64_t started_ns; /* 0: that is not told */
    uint32_t gpu, model, count;
    sched_task_t tasks[BATCH_MAX];
} batch_t;

typedef struct {
    sched_t *sched; /* one of the two */
    shards_t *shards;
    int64_t now_ns;
    uint64_t seed;
    heap_t ends;
    batch_t batches[BATCHES];
    uint32_t batch_count;
    char (*lines)[LINE_BYTES];
    size_t count, drops;
    bool eventful;  /* all that can happen does, and not only tasks, batches and GPUs */
    bool scattered; /* batches take other times than their profiles, and that is told */
    bool closed;    /* clients that ask again when they have their answers, in place of a stream */
    bool sparse;    /* few requests, and models whose batches take longer than others can wait */
    bool reserves;  /* GPUs were left to who must have one */
    uint32_t sent;
    profile_t profiles[MODELS];
    int64_t gpu_free_ns[GPUS]; /* scattered: really */
    bool absent[MODELS], denied;
    sched_ref_t refs[REQUESTS];
    uint32_t model_of[REQUESTS];
} run_t;

/* Returns when the batch has really ended. */
static int64_t scatter(run_t *run, batch_t *batch, const sched_action_t *action, prng_t *prng)
{
    int64_t latency_ns = profile_latency_ns(&run->profiles[batch->model], batch->count);
    int64_t free_ns = run->gpu_free_ns[batch->gpu];
    batch->started_ns = action->grant.start_ns > free_ns ? action->grant.start_ns : free_ns;
    run->gpu_free_ns[batch->gpu] = batch->started_ns + latency_ns * prng_range(prng, 90, 150) / 100;
    return run->gpu_free_ns[batch->gpu];
}

static void note(run_t *run, const sched_action_t *action)
{
    cr_assert_lt(run->count, LINES_MAX);
    if (action->kind == SCHED_DROP && action->drop.reason == SCHED_DROP_CANCELLED)
        return; /* sched_cancel has said so at once */
    char *line = run->lines[run->count++];
    if (action->kind == SCHED_DROP) {
        run->drops++;
        snprintf(line, LINE_BYTES, "%012" PRId64 " drop %u %06" PRIu64 " %d", run->now_ns, action->model,
                 action->drop.task.tag, (int)action->drop.reason);
        return;
    }
    snprintf(line, LINE_BYTES, "%012" PRId64 " gpu%u %u %06" PRIu64 " x%u %" PRId64, run->now_ns,
             action->grant.gpu, action->model, action->grant.tasks[0].tag, action->grant.count,
             action->grant.start_ns);
    cr_assert_lt(run->batch_count, BATCHES);
    batch_t *batch = &run->batches[run->batch_count++];
    batch->batch_id = action->grant.batch_id;
    batch->gpu = action->grant.gpu;
    batch->model = action->model;
    batch->count = action->grant.count;
    memcpy(batch->tasks, action->grant.tasks, batch->count * sizeof *batch->tasks);
    prng_t prng; /* what becomes of a batch hangs on the batch, as the order within one moment is free */
    prng_init(&prng, run->seed + action->grant.tasks[0].tag + (uint64_t)run->now_ns);
    int64_t late_ns = prng_range(&prng, -MS / 2, MS); /* reports come a little early or late */
    batch->fails = run->eventful && prng_below(&prng, 20) == 0;
    int64_t end_ns = action->grant.finish_ns + late_ns;
    if (run->scattered)
        end_ns = scatter(run, batch, action, &prng);
    heap_insert(&run->ends, &batch->node, end_ns, run->batch_count);
}

static void on_sched(void *ctx, const sched_action_t *action)
{
    note(ctx, action);
}

static void on_shards(void *ctx, uint32_t shard, const sched_action_t *action)
{
    (void)shard;
    note(ctx, action);
}

static void gpu_event(run_t *run, int which, uint32_t gpu)
{
    for (uint32_t i = 0; i < run->batch_count; i++) /* the core queues the tasks of a GPU that leaves again */
        run->batches[i].fails &= which != 2 || run->batches[i].gpu != gpu;
    if (run->sched) {
        if (which == 0)
            sched_add_gpu(run->sched, run->now_ns, gpu, run->now_ns);
        else if (which == 1)
            sched_drain_gpu(run->sched, run->now_ns, gpu);
        else
            sched_remove_gpu(run->sched, run->now_ns, gpu);
        return;
    }
    if (which == 0)
        shards_add_gpu(run->shards, gpu, run->now_ns);
    else if (which == 1)
        shards_drain_gpu(run->shards, gpu);
    else
        shards_remove_gpu(run->shards, gpu);
}

static int64_t decide(run_t *run)
{
    return run->sched ? sched_run(run->sched, run->now_ns, on_sched, run)
                      : shards_step(run->shards, run->now_ns);
}

static void submit(run_t *run, uint32_t model, const sched_task_t *task)
{
    status_t status = run->sched ? sched_submit(run->sched, run->now_ns, model, task, &run->refs[task->tag])
                                 : shards_submit(run->shards, model, task);
    run->model_of[task->tag] = model;
    cr_assert_eq(status, run->absent[model] ? STATUS_NOT_FOUND : STATUS_OK);
}

static void tell_ran(run_t *run, const batch_t *batch, int64_t at_ns)
{
    if (run->sched)
        (void)sched_batch_ran(run->sched, run->now_ns, batch->batch_id, batch->started_ns, at_ns);
    else
        cr_assert(shards_batch_ran(run->shards, batch->batch_id, batch->started_ns, at_ns));
}

/* The tasks of a batch that has failed are submitted again, as the service does. */
static void tell_end(run_t *run, const batch_t *batch, int64_t at_ns)
{
    if (batch->started_ns && !batch->fails)
        tell_ran(run, batch, at_ns);
    if (run->sched)
        sched_batch_done(run->sched, run->now_ns, batch->batch_id, at_ns);
    else
        cr_assert(shards_batch_done(run->shards, batch->batch_id, at_ns));
    for (uint32_t i = 0; batch->fails && i < batch->count; i++)
        submit(run, batch->model, &batch->tasks[i]);
}

static void ask(run_t *run, uint32_t model, int64_t budget_ns)
{
    sched_task_t task = {
        .tag = run->sent++, .arrival_ns = run->now_ns, .deadline_ns = run->now_ns + budget_ns};
    submit(run, model, &task);
}

static void ask_again(run_t *run, const batch_t *batch)
{
    for (uint32_t i = 0; run->closed && i < batch->count && run->sent < REQUESTS; i++)
        ask(run, batch->model, 60 * MS);
}

static void report_ends(run_t *run)
{
    while (heap_min_key(&run->ends) <= run->now_ns) {
        int64_t at_ns = heap_min_key(&run->ends);
        const batch_t *batch = CONTAINER_OF(heap_pop(&run->ends), batch_t, node);
        tell_end(run, batch, at_ns);
        ask_again(run, batch);
    }
}

/* ---- What happens besides ---- */

static bool is_long(const run_t *run, uint32_t model)
{
    return run->sparse && model >= MODELS / 2;
}

static void make_profile(profile_t *profile, uint32_t model, uint32_t tenths)
{
    cr_assert_eq(profile_from_line(profile, (1 + model % 3) * MS / 20 * tenths,
                                   (3 + model) * MS / 10 * tenths, 64, NULL),
                 STATUS_OK);
}

static void add_model(run_t *run, uint32_t model)
{
    profile_t profile;
    sched_model_opts_t opts = {.slo_ns = 40 * MS};
    make_profile(&profile, model, is_long(run, model) ? 10 * LONG : 10);
    run->profiles[model] = profile;
    status_t status = run->sched ? sched_add_model(run->sched, run->now_ns, model, &profile, &opts, NULL)
                                 : shards_add_model(run->shards, run->now_ns, model, &profile, &opts, NULL);
    cr_assert_eq(status, STATUS_OK);
}

static void come_or_go(run_t *run, uint32_t model)
{
    run->absent[model] = !run->absent[model];
    if (!run->absent[model])
        add_model(run, model);
    else if (run->sched)
        cr_assert_eq(sched_remove_model(run->sched, run->now_ns, model), STATUS_OK);
    else
        cr_assert_eq(shards_remove_model(run->shards, run->now_ns, model), STATUS_OK);
}

static void change_profile(run_t *run, uint32_t model, uint32_t tenths)
{
    profile_t profile;
    make_profile(&profile, model, tenths);
    run->profiles[model] = profile;
    status_t status = run->sched ? sched_update_profile(run->sched, run->now_ns, model, &profile)
                                 : shards_update_profile(run->shards, run->now_ns, model, &profile);
    cr_assert_eq(status, STATUS_OK);
}

/* One lead for batches of any size, which stays: the matcher's horizon is the largest lead of those that were ready
 * together, so that with several it hangs on the order of messages within one moment. */
static void set_delays(run_t *run, int64_t wake_ns)
{
    sched_delays_t delays = {.ctrl_ns = MS / 10, .fixed_ns = MS / 10, .wake_ns = wake_ns};
    if (run->sched)
        sched_set_delays(run->sched, run->now_ns, &delays);
    else
        shards_set_delays(run->shards, &delays);
}

static void change_permission(run_t *run)
{
    run->denied = !run->denied;
    status_t status = run->sched ? sched_allow(run->sched, run->now_ns, 2, 1, !run->denied)
                                 : shards_allow(run->shards, run->now_ns, 2, 1, !run->denied);
    cr_assert_eq(status, STATUS_OK);
}

static void change_gpu(run_t *run)
{
    int64_t free_ns = run->now_ns + 5 * MS;
    if (run->sched)
        sched_gpu_free(run->sched, run->now_ns, 2, free_ns);
    else
        cr_assert_eq(shards_gpu_free(run->shards, 2, free_ns), STATUS_OK);
}

static void cancel(run_t *run, uint32_t tag)
{
    if (run->sched)
        (void)sched_cancel(run->sched, run->now_ns, run->refs[tag]);
    else
        (void)shards_cancel(run->shards, run->model_of[tag], tag); /* the model may have left */
}

static void change_something(run_t *run, uint32_t sent)
{
    switch (sent / 100 % 7) {
    case 0:
        come_or_go(run, 6);
        break;
    case 1:
        change_profile(run, 1, 8 + sent / 100 % 5);
        break;
    case 2:
        set_delays(run, sent % 3 * MS / 20);
        break;
    case 3:
        change_permission(run);
        break;
    case 4:
        change_gpu(run);
        break;
    case 5:
        for (uint32_t i = 1; i < 40; i += 3)
            cancel(run, sent - i);
        break;
    default:
        come_or_go(run, 0);
        break;
    }
}

static void play(run_t *run, uint64_t seed)
{
    prng_t prng;
    prng_init(&prng, seed);
    run->seed = seed;
    int64_t next_ns = run->closed ? SCHED_NEVER : MS, wake_ns = 0;
    for (uint32_t i = 0; run->closed && i < CLIENTS; i++)
        ask(run, 0, 60 * MS);
    while (run->sent < REQUESTS || run->ends.len > 0 || wake_ns < next_ns) {
        int64_t at_ns = run->sent < REQUESTS ? next_ns : SCHED_NEVER;
        at_ns = wake_ns < at_ns ? wake_ns : at_ns;
        at_ns = heap_min_key(&run->ends) < at_ns ? heap_min_key(&run->ends) : at_ns;
        if (at_ns == SCHED_NEVER || at_ns > (run->sparse ? 20000 : 4000) * MS)
            break;
        run->now_ns = at_ns > run->now_ns ? at_ns : run->now_ns;
        report_ends(run);
        if (run->sent < REQUESTS && next_ns <= run->now_ns) {
            int64_t budget_ns = prng_range(&prng, 20, 60) * MS;
            uint32_t model = (uint32_t)prng_below(&prng, MODELS);
            ask(run, model, is_long(run, model) ? 10 * budget_ns : budget_ns);
            uint32_t sent = run->sent;
            next_ns +=
                (int64_t)prng_exponential(&prng, run->sparse ? SPARSE_GAP_MS * (double)MS : (double)MS / 3);
            if (sent % 500 == 250) /* GPU 4 drains, leaves at once or comes back */
                gpu_event(run, (int)(sent / 500 % 3 + 1) % 3, 4);
            if (run->eventful && sent % 100 == 99)
                change_something(run, sent);
        }
        wake_ns = decide(run);
        run->reserves |= run->sched && run->sched->shards[MODELS - 1].plan.idle > 0;
    }
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

static sched_limits_t limits(void)
{
    return (sched_limits_t){
        .models_max = MODELS, .gpus_max = GPUS, .tasks_max = REQUESTS, .batch_max = BATCH_MAX};
}

static void add_models(run_t *run)
{
    set_delays(run, 0);
    for (uint32_t m = 0; m < MODELS; m++)
        add_model(run, m);
    for (uint32_t g = 0; g < GPUS; g++)
        gpu_event(run, 0, g);
}

typedef enum { PLAIN, EVENTFUL, SCATTERED, CLOSED, SPARSE } course_t; /* scattered: eventful too */

static run_t *run_one(const char *policy, const char *params, course_t course, uint32_t shard_count,
                      uint64_t seed)
{
    run_t *run = calloc(1, sizeof *run);
    run->eventful = course == EVENTFUL || course == SCATTERED;
    run->closed = course == CLOSED;
    run->sparse = course == SPARSE;
    run->scattered = course == SCATTERED;
    run->lines = calloc(LINES_MAX, sizeof *run->lines);
    cr_assert_eq(heap_init(&run->ends, BATCHES, NULL), STATUS_OK);
    sched_limits_t most = limits();
    if (shard_count == 0) {
        run->sched = sched_create(&most, NULL);
        cr_assert_eq(sched_set_policy(run->sched, 0, policy, params, NULL), STATUS_OK);
    } else {
        shards_options_t options = {.limits = most,
                                    .shard_count = shard_count,
                                    .policy = policy,
                                    .params = params,
                                    .tags_max = REQUESTS,
                                    .sink = on_shards,
                                    .ctx = run};
        cr_assert_eq(shards_create(&options, &run->shards, NULL), STATUS_OK);
    }
    add_models(run);
    play(run, seed);
    qsort(run->lines, run->count, sizeof *run->lines, by_text); /* the order within one moment is free */
    return run;
}

static void dispose(run_t *run)
{
    sched_destroy(run->sched);
    shards_destroy(run->shards);
    heap_dispose(&run->ends);
    free(run->lines);
    free(run);
}

static sched_model_stats_t stats_of(run_t *run, uint32_t model)
{
    sched_model_stats_t stats = {0};
    bool known = run->sched ? sched_model_stats(run->sched, model, &stats)
                            : shards_model_stats(run->shards, model, &stats);
    cr_assert_eq(known, !run->absent[model]);
    return stats;
}

static void compare_runs(run_t *one, run_t *other, const char *what)
{
    for (size_t i = 0; i < one->count && i < other->count; i++)
        cr_assert_str_eq(other->lines[i], one->lines[i], "%s, line %zu: %s | %s", what, i, one->lines[i],
                         other->lines[i]);
    cr_assert_eq(other->count, one->count);
    for (uint32_t m = 0; m < MODELS; m++) {
        sched_model_stats_t a = stats_of(one, m), b = stats_of(other, m);
        cr_assert_eq(memcmp(&a, &b, sizeof a), 0, "%s: the counts of model %u differ", what, m);
    }
}

/* They do differ from what they would be with batches that take what their profiles say. */
static void expect_learned(const run_t *run)
{
    for (uint32_t m = 1; m < 6; m++) { /* those that stay */
        sched_scatter_t scatter;
        cr_assert(sched_model_scatter(run->sched, m, &scatter));
        cr_expect(scatter.guard > 1 && scatter.guard > scatter.mean, "model %u: %g, %g", m, scatter.mean,
                  scatter.guard);
    }
}

static void compare_all(const char *policy, const char *params, course_t course)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        run_t *one = run_one(policy, params, course, 0, seed);
        if (course == SCATTERED)
            expect_learned(one);
        if (course == CLOSED)
            cr_expect_gt(one->batch_count, 3 * REQUESTS / CLIENTS, "they go to one GPU: %u batches",
                         one->batch_count);
        if (course == SPARSE)
            cr_expect(one->reserves, "no GPU is left to who must have one");
        cr_assert_gt(one->count, 100);
        for (uint32_t k = 1; k <= 3; k += 2) {
            char what[64];
            (void)snprintf(what, sizeof what, "%s, %u shards, seed %d", policy, k, (int)seed);
            run_t *other = run_one(policy, params, course, k, seed);
            compare_runs(one, other, what);
            dispose(other);
        }
        dispose(one);
    }
}

static void compare(const char *policy, const char *params)
{
    compare_all(policy, params, PLAIN);
    compare_all(policy, params, EVENTFUL);
    compare_all(policy, params, SCATTERED);
}

Test(lockstep, fermata)
{
    compare("fermata", NULL);
}

Test(lockstep, fermata_with_clients_that_wait)
{
    compare_all("fermata", NULL, CLOSED);
}

Test(lockstep, fermata_with_gpus_left_to_who_must_have_one)
{
    compare_all("fermata", NULL, SPARSE);
}

Test(lockstep, deferred)
{
    compare("deferred", "drop=window");
}

Test(lockstep, eager)
{
    compare("eager", NULL);
}

Test(lockstep, timeout)
{
    compare("timeout", NULL);
}

Test(lockstep, a_model_moves_with_its_queue)
{
    run_t *run = calloc(1, sizeof *run);
    run->lines = calloc(LINES_MAX, sizeof *run->lines);
    cr_assert_eq(heap_init(&run->ends, BATCHES, NULL), STATUS_OK);
    shards_options_t options = {
        .limits = limits(), .shard_count = 2, .policy = "deferred", .sink = on_shards, .ctx = run};
    cr_assert_eq(shards_create(&options, &run->shards, NULL), STATUS_OK);
    add_models(run);
    uint32_t from = shards_owner(run->shards, 0);
    for (uint32_t i = 0; i < 10; i++) {
        sched_task_t task = {.tag = i, .deadline_ns = 40 * MS};
        cr_assert_eq(shards_submit(run->shards, 0, &task), STATUS_OK);
    }
    int64_t wake_ns = shards_step(run->shards, 0);
    cr_expect_eq(run->count, 0, "it waits for more");
    cr_expect_eq(shards_move_model(run->shards, 0, 1 - from), STATUS_OK);
    cr_expect_eq(shards_step(run->shards, 0), wake_ns);
    cr_expect_eq(shards_owner(run->shards, 0), 1 - from);
    run->now_ns = wake_ns;
    shards_step(run->shards, wake_ns);
    cr_assert_eq(run->count, 1);
    cr_expect(strstr(run->lines[0], "x10") != NULL, "%s", run->lines[0]);
    shards_stats_t stats;
    shards_stats(run->shards, &stats);
    cr_expect_eq(stats.moves, 1);
    cr_expect_eq(stats.all.submitted, 10);
    cr_expect_eq(stats.all.granted, 10);
    dispose(run);
}

typedef struct {
    shards_t *shards;
    sched_action_t grant;
    uint32_t shard;
} granted_t;

static void note_grant(void *ctx, uint32_t shard, const sched_action_t *action)
{
    granted_t *granted = ctx;
    cr_assert_eq(action->kind, SCHED_GRANT);
    granted->grant = *action;
    granted->shard = shard;
}

/* Returns how long its grant says that it takes. */
static int64_t grant_one(granted_t *granted, int64_t now_ns)
{
    sched_task_t task = {.arrival_ns = now_ns, .deadline_ns = now_ns + 40 * MS};
    cr_assert_eq(shards_submit(granted->shards, 0, &task), STATUS_OK);
    granted->grant.grant.count = 0;
    shards_step(granted->shards, now_ns);
    cr_assert_eq(granted->grant.grant.count, 1);
    return granted->grant.grant.finish_ns - granted->grant.grant.start_ns;
}

static int64_t run_one_row(granted_t *granted, int64_t now_ns, int64_t took_ns)
{
    int64_t expected_ns = grant_one(granted, now_ns), start_ns = granted->grant.grant.start_ns;
    uint64_t id = granted->grant.grant.batch_id;
    cr_assert(shards_batch_ran(granted->shards, id, start_ns, start_ns + took_ns));
    cr_assert(shards_batch_done(granted->shards, id, start_ns + took_ns));
    shards_step(granted->shards, start_ns + took_ns);
    return expected_ns;
}

/* What its batches take is known to whoever has it, and to nobody else. */
Test(lockstep, a_model_moves_with_what_was_learned_of_it)
{
    granted_t granted = {0};
    profile_t profile;
    shards_options_t options = {.limits = {.models_max = 1, .gpus_max = 1, .tasks_max = 8, .batch_max = 8},
                                .shard_count = 2,
                                .policy = "eager",
                                .sink = note_grant,
                                .ctx = &granted};
    cr_assert_eq(profile_from_line(&profile, MS, MS, 8, NULL), STATUS_OK);
    cr_assert_eq(shards_create(&options, &granted.shards, NULL), STATUS_OK);
    cr_assert_eq(shards_add_model(granted.shards, 0, 0, &profile, NULL, NULL), STATUS_OK);
    cr_assert_eq(shards_add_gpu(granted.shards, 0, 0), STATUS_OK);
    cr_expect_eq(run_one_row(&granted, 100 * MS, 3 * MS), 2 * MS);
    cr_expect_eq(run_one_row(&granted, 200 * MS, 3 * MS), 3 * MS);
    uint32_t from = granted.shard;
    cr_assert_eq(shards_move_model(granted.shards, 0, 1 - from), STATUS_OK);
    shards_step(granted.shards, 300 * MS);
    cr_expect_eq(run_one_row(&granted, 400 * MS, 3 * MS), 3 * MS);
    cr_expect_eq(granted.shard, 1 - from);

    /* A batch that another shard has granted teaches nothing; its end counts. */
    cr_expect_eq(grant_one(&granted, 500 * MS), 3 * MS);
    cr_assert_eq(shards_move_model(granted.shards, 0, from), STATUS_OK);
    shards_step(granted.shards, 501 * MS);
    uint64_t id = granted.grant.grant.batch_id;
    cr_assert(shards_batch_ran(granted.shards, id, 500 * MS, 530 * MS));
    cr_assert(shards_batch_done(granted.shards, id, 530 * MS));
    cr_expect_eq(run_one_row(&granted, 600 * MS, 3 * MS), 3 * MS);
    cr_expect_eq(granted.shard, from);

    /* Another profile, by far: all is forgotten, wherever it was learned. */
    cr_assert_eq(profile_from_line(&profile, MS, 4 * MS, 8, NULL), STATUS_OK);
    cr_assert_eq(shards_update_profile(granted.shards, 700 * MS, 0, &profile), STATUS_OK);
    cr_expect_eq(run_one_row(&granted, 700 * MS, 5 * MS), 5 * MS);
    cr_assert_eq(shards_move_model(granted.shards, 0, 1 - from), STATUS_OK);
    shards_step(granted.shards, 800 * MS);
    cr_expect_eq(run_one_row(&granted, 900 * MS, 5 * MS), 5 * MS);
    shards_destroy(granted.shards);
}

typedef struct {
    shards_t *shards;
    int64_t order_ns; /* the matcher's turn comes amidst the shard's, of that time; 0: it does not */
    uint32_t grants;
    int64_t granted_deadline_ns;
} crossing_t;

static bool match_amidst(void *ctx, uint32_t shard, int64_t now_ns)
{
    crossing_t *crossing = ctx;
    (void)shard;
    return now_ns == crossing->order_ns && binder_turn(&crossing->shards->binder, now_ns, 1);
}

static void note_deadline(void *ctx, uint32_t shard, const sched_action_t *action)
{
    crossing_t *crossing = ctx;
    (void)shard;
    if (action->kind != SCHED_GRANT)
        return;
    crossing->grants++;
    crossing->granted_deadline_ns = action->grant.tasks[0].deadline_ns;
}

/* The only task goes just when its batch is granted, and another one comes: that is still held for as long as it pays. */
Test(lockstep, a_grant_that_crosses_a_cancellation_is_for_nobody_else)
{
    crossing_t crossing = {0};
    profile_t profile;
    shards_options_t options = {
        .limits = {.models_max = 1, .gpus_max = 1, .tasks_max = 8, .batch_max = 8},
        .tags_max = 8,
        .shard_count = 1,
        .policy = "deferred",
        .turn = match_amidst,
        .sink = note_deadline,
        .ctx = &crossing,
    };
    cr_assert_eq(profile_from_line(&profile, MS, MS, 8, NULL), STATUS_OK);
    cr_assert_eq(shards_create(&options, &crossing.shards, NULL), STATUS_OK);
    cr_assert_eq(shards_add_model(crossing.shards, 0, 0, &profile, NULL, NULL), STATUS_OK);
    cr_assert_eq(shards_add_gpu(crossing.shards, 0, 0), STATUS_OK);
    sched_task_t first = {.tag = 1, .deadline_ns = 6 * MS};
    cr_assert_eq(shards_submit(crossing.shards, 0, &first), STATUS_OK);
    shards_step(crossing.shards, 0);
    cr_expect_eq(crossing.grants, 0, "it is ready at 3 ms, when two rows would just make it");
    crossing.order_ns = 3 * MS;
    sched_task_t second = {.tag = 2, .arrival_ns = 3 * MS, .deadline_ns = 9 * MS};
    cr_assert_eq(shards_cancel(crossing.shards, 0, 1), STATUS_OK);
    cr_assert_eq(shards_submit(crossing.shards, 0, &second), STATUS_OK);
    cr_expect_eq(shards_step(crossing.shards, 3 * MS), 6 * MS);
    cr_expect_eq(crossing.grants, 0);
    shards_stats_t stats;
    shards_stats(crossing.shards, &stats);
    cr_expect_eq(stats.unused, 1);
    shards_step(crossing.shards, 6 * MS);
    cr_expect_eq(crossing.grants, 1);
    cr_expect_eq(crossing.granted_deadline_ns, second.deadline_ns);
    shards_destroy(crossing.shards);
}

Test(lockstep, what_cannot_be_is_refused)
{
    err_t err;
    shards_t *shards;
    shards_options_t options = {.limits = limits(), .shard_count = 1, .sink = on_shards};
    static const char *const alone[] = {"nexus", "shepherd"};
    for (int i = 0; i < 2; i++) {
        options.policy = alone[i];
        cr_expect_eq(shards_create(&options, &shards, &err), STATUS_UNSUPPORTED);
    }
    options.policy = "none";
    cr_expect_eq(shards_create(&options, &shards, &err), STATUS_INVALID_ARGUMENT);
    options.policy = NULL;
    options.shard_count = SHARDS_MAX + 1;
    cr_expect_eq(shards_create(&options, &shards, &err), STATUS_INVALID_ARGUMENT);
    options.shard_count = 2;
    cr_assert_eq(shards_create(&options, &shards, &err), STATUS_OK);
    sched_task_t task = {0};
    cr_expect_eq(shards_submit(shards, 3, &task), STATUS_NOT_FOUND);
    cr_expect_eq(shards_submit(shards, MODELS, &task), STATUS_NOT_FOUND);
    cr_expect_eq(shards_add_gpu(shards, GPUS, 0), STATUS_NOT_FOUND);
    cr_expect_eq(shards_move_model(shards, 0, 2), STATUS_NOT_FOUND);
    cr_expect(shards_batch_done(shards, UINT64_MAX, 0), "nonsense is taken and has no effect");
    cr_expect(shards_batch_ran(shards, UINT64_MAX, 0, 1));
    cr_expect(shards_batch_ran(shards, 3, 1, 0));
    cr_expect_eq(shards_remove_gpu(shards, 2), STATUS_OK, "nor has a GPU that is not there");
    cr_expect_eq(shards_cancel(shards, 0, 1), STATUS_NOT_FOUND);
    cr_expect_eq(shards_remove_model(shards, 0, 0), STATUS_NOT_FOUND);
    cr_expect_eq(shards_remove_model(shards, 0, MODELS), STATUS_NOT_FOUND);
    cr_expect_eq(shards_set_policy(shards, 0, "nexus", NULL, &err), STATUS_UNSUPPORTED);
    cr_expect_eq(shards_set_policy(shards, 0, "fermata", "none=1", &err), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(shards_allow(shards, 0, 0, 0, false), STATUS_NOT_FOUND);
    profile_t profile = {0};
    cr_expect_eq(shards_add_model(shards, 0, 0, &profile, NULL, &err), STATUS_INVALID_ARGUMENT);
    make_profile(&profile, 0, 10);
    cr_expect_eq(shards_add_model(shards, 0, MODELS, &profile, NULL, &err), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(shards_add_model(shards, 0, 0, &profile, NULL, &err), STATUS_OK);
    cr_expect_eq(shards_add_model(shards, 0, 0, &profile, NULL, &err), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(shards_cancel(shards, 0, UINT64_MAX), STATUS_OK, "it names nobody");
    shards_step(shards, 0);
    shards_destroy(shards);
}

static void note_reason(void *ctx, uint32_t shard, const sched_action_t *action)
{
    (void)shard;
    sched_drop_t *reason = ctx;
    cr_assert_eq(action->kind, SCHED_DROP);
    *reason = action->drop.reason;
}

Test(lockstep, a_full_shard_says_so)
{
    sched_drop_t reason = SCHED_DROP_REASONS;
    shards_t *shards;
    profile_t profile;
    shards_options_t options = {.limits = {.models_max = 1, .gpus_max = 1, .tasks_max = 2, .batch_max = 8},
                                .shard_count = 1,
                                .sink = note_reason,
                                .ctx = &reason};
    make_profile(&profile, 0, 10);
    cr_assert_eq(shards_create(&options, &shards, NULL), STATUS_OK);
    cr_assert_eq(shards_add_model(shards, 0, 0, &profile, NULL, NULL), STATUS_OK);
    for (uint32_t i = 0; i < 3; i++) {
        sched_task_t task = {.tag = i, .deadline_ns = 100 * MS};
        cr_assert_eq(shards_submit(shards, 0, &task), STATUS_OK);
    }
    shards_step(shards, 0);
    cr_expect_eq(reason, SCHED_DROP_NO_ROOM);
    shards_destroy(shards);
}
