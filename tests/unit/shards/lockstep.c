/*
 * The shards on one thread decide what sched_t decides: the same trace (arrivals, batches that end early and late, GPUs that
 * join, drain and leave) gives the same grants and the same drops, for one shard and for three.
 */
#include "base/heap.h"
#include "base/prng.h"
#include "shards/shards.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODELS = 7, GPUS = 5, REQUESTS = 6000, LINES_MAX = 3 * REQUESTS, LINE_BYTES = 64, BATCHES = 8192 };
#define MS INT64_C(1000000)

typedef struct {
    heap_node_t node;
    uint64_t batch_id;
} batch_t;

typedef struct {
    sched_t *sched; /* one of the two */
    shards_t *shards;
    int64_t now_ns;
    prng_t lateness;
    heap_t ends;
    batch_t batches[BATCHES];
    uint32_t batch_count;
    char (*lines)[LINE_BYTES];
    size_t count, drops;
} run_t;

static void note(run_t *run, const sched_action_t *action)
{
    cr_assert_lt(run->count, LINES_MAX);
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
    int64_t late_ns = prng_range(&run->lateness, -MS / 2, MS); /* reports come a little early or late */
    heap_insert(&run->ends, &batch->node, action->grant.finish_ns + late_ns, run->batch_count);
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

static void report_ends(run_t *run)
{
    while (heap_min_key(&run->ends) <= run->now_ns) {
        int64_t at_ns = heap_min_key(&run->ends);
        uint64_t id = CONTAINER_OF(heap_pop(&run->ends), batch_t, node)->batch_id;
        if (run->sched)
            sched_batch_done(run->sched, run->now_ns, id, at_ns);
        else
            cr_assert(shards_batch_done(run->shards, id, at_ns));
    }
}

static void play(run_t *run, uint64_t seed)
{
    prng_t prng;
    prng_init(&prng, seed);
    prng_init(&run->lateness, seed + 1);
    int64_t next_ns = MS, wake_ns = 0;
    uint32_t sent = 0;
    while (sent < REQUESTS || run->ends.len > 0 || wake_ns < next_ns) {
        int64_t at_ns = sent < REQUESTS ? next_ns : SCHED_NEVER;
        at_ns = wake_ns < at_ns ? wake_ns : at_ns;
        at_ns = heap_min_key(&run->ends) < at_ns ? heap_min_key(&run->ends) : at_ns;
        if (at_ns == SCHED_NEVER || at_ns > 4000 * MS)
            break;
        run->now_ns = at_ns > run->now_ns ? at_ns : run->now_ns;
        report_ends(run);
        if (sent < REQUESTS && next_ns <= run->now_ns) {
            sched_task_t task = {.tag = sent++,
                                 .arrival_ns = run->now_ns,
                                 .deadline_ns = run->now_ns + prng_range(&prng, 20, 60) * MS};
            uint32_t model = (uint32_t)prng_below(&prng, MODELS);
            if (run->sched)
                sched_submit(run->sched, run->now_ns, model, &task, NULL);
            else
                cr_assert_eq(shards_submit(run->shards, model, &task), STATUS_OK);
            next_ns += (int64_t)prng_exponential(&prng, (double)MS / 3);
            if (sent % 500 == 250) /* GPU 4 drains, leaves at once or comes back */
                gpu_event(run, (int)(sent / 500 % 3 + 1) % 3, 4);
        }
        wake_ns = decide(run);
    }
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

static sched_limits_t limits(void)
{
    return (sched_limits_t){.models_max = MODELS, .gpus_max = GPUS, .tasks_max = REQUESTS, .batch_max = 64};
}

static void add_models(run_t *run)
{
    for (uint32_t m = 0; m < MODELS; m++) {
        profile_t profile;
        cr_assert_eq(profile_from_line(&profile, (1 + m % 3) * MS / 2, (3 + m) * MS, 64, NULL), STATUS_OK);
        sched_model_opts_t opts = {.slo_ns = 40 * MS};
        status_t status = run->sched ? sched_add_model(run->sched, 0, m, &profile, &opts, NULL)
                                     : shards_add_model(run->shards, m, &profile, &opts, NULL);
        cr_assert_eq(status, STATUS_OK);
    }
    for (uint32_t g = 0; g < GPUS; g++)
        gpu_event(run, 0, g);
}

static run_t *run_one(const char *policy, const char *params, uint32_t shard_count, uint64_t seed)
{
    run_t *run = calloc(1, sizeof *run);
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

static void compare(const char *policy, const char *params)
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        run_t *one = run_one(policy, params, 0, seed);
        cr_assert_gt(one->count, 100);
        for (uint32_t k = 1; k <= 3; k += 2) {
            run_t *other = run_one(policy, params, k, seed);
            for (size_t i = 0; i < one->count && i < other->count; i++)
                cr_assert_str_eq(other->lines[i], one->lines[i], "%s, %u shards, seed %d, line %zu: %s | %s",
                                 policy, k, (int)seed, i, one->lines[i], other->lines[i]);
            cr_assert_eq(other->count, one->count);
            dispose(other);
        }
        dispose(one);
    }
}

Test(lockstep, fermata)
{
    compare("fermata", NULL);
}

Test(lockstep, deferred)
{
    compare("deferred", "drop=window");
}

Test(lockstep, eager)
{
    compare("eager", NULL);
}

Test(lockstep, a_model_moves_with_its_queue)
{
    run_t *run = calloc(1, sizeof *run);
    prng_init(&run->lateness, 1);
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
    cr_expect_eq(shards_remove_gpu(shards, 2), STATUS_OK, "nor has a GPU that is not there");
    shards_step(shards, 0);
    shards_destroy(shards);
}
