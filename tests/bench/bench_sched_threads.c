/* bench-sched on threads: each shard thread makes the requests of its own models and runs the batches that
 * it grants. */
#include "base/clock.h"
#include "bench_sched.h"
#include "shards/shards.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { REQUESTS_PER_TURN = 256 };

typedef struct {
    shards_t *shards;
    world_t *worlds; /* one per shard, of its thread */
    int64_t *now_ns;
} threads_t;

static void on_action(void *ctx, uint32_t shard, const sched_action_t *action)
{
    threads_t *threads = ctx;
    world_on_action(&threads->worlds[shard], threads->now_ns[shard * 8], action);
}

static bool on_turn(void *ctx, uint32_t shard, int64_t now_ns)
{
    threads_t *threads = ctx;
    world_t *world = &threads->worlds[shard];
    uint32_t model;
    sched_task_t task;
    uint64_t batch_id;
    int64_t free_ns;
    threads->now_ns[shard * 8] = now_ns;
    for (int i = 0; i < REQUESTS_PER_TURN && world_next_request(world, now_ns, &model, &task); i++) {
        if (shards_submit_here(threads->shards, shard, now_ns, model, &task) != STATUS_OK)
            world_on_refused(world, &task);
    }
    while (world_next_end(world, now_ns, &batch_id, &free_ns))
        shards_batch_done_here(threads->shards, shard, batch_id, free_ns);
    return true; /* the generator is the clock: this thread never sleeps */
}

static status_t build(threads_t *threads, const bench_options_t *o, double rate, err_t *err)
{
    profile_t profile;
    uint32_t shards = (uint32_t)o->shards;
    double waiting = rate / shards * o->slo_ms / 1e3 * 2.5;
    sched_model_opts_t opts = {.slo_ns = (int64_t)(o->slo_ms * 1e6)};
    shards_options_t options = {
        .limits = {.models_max = (uint32_t)o->models,
                   .gpus_max = (uint32_t)o->gpus,
                   .tasks_max = (uint32_t)fmin(waiting + 65536, 1 << 26),
                   .batch_max = PROFILE_BATCH_MAX,
                   .gpu_inflight_max = (uint32_t)o->inflight},
        .shard_count = shards,
        .policy = o->policy,
        .params = o->policy_params,
        .delays = {.ctrl_ns = (int64_t)(o->delay_us * 1e3), .wake_ns = 50 * NS_PER_US},
        .pin = o->pin,
        .sink = on_action,
        .turn = on_turn,
        .ctx = threads};
    status_t status = profile_from_line(&profile, (int64_t)(o->alpha_us * 1e3), (int64_t)(o->beta_us * 1e3),
                                        PROFILE_BATCH_MAX, err);
    if (status == STATUS_OK)
        status = shards_create(&options, &threads->shards, err);
    for (uint32_t m = 0; m < o->models && status == STATUS_OK; m++)
        status = shards_add_model(threads->shards, 0, m, &profile, &opts, err);
    return status;
}

static status_t build_worlds(threads_t *threads, const bench_options_t *o, double rate, int64_t begin_ns,
                             int64_t warm_ns, err_t *err)
{
    uint32_t shards = (uint32_t)o->shards, models = (uint32_t)o->models;
    threads->worlds = calloc(shards, sizeof *threads->worlds);
    threads->now_ns = calloc(shards * 8, sizeof *threads->now_ns); /* a cache line each */
    status_t status = threads->worlds && threads->now_ns
                          ? STATUS_OK
                          : err_set(err, STATUS_NO_MEMORY, "no memory for %u worlds", shards);
    for (uint32_t k = 0; k < shards && status == STATUS_OK; k++) {
        uint32_t own = models / shards + (k < models % shards);
        world_params_t params = {.models = own,
                                 .gpus = (uint32_t)o->gpus,
                                 .first_model = k,
                                 .stride = shards,
                                 .slo_ns = (int64_t)(o->slo_ms * 1e6),
                                 .rate = rate * own / models,
                                 .seed = k + 1};
        status = world_init(&threads->worlds[k], &params, begin_ns, warm_ns, err);
    }
    return status;
}

/* GPUs join while the threads run: as many messages as the mailbox takes, the rest a moment later. */
static void add_gpus(threads_t *threads, const bench_options_t *o)
{
    for (uint32_t g = 0; g < o->gpus; g++) {
        while (shards_add_gpu(threads->shards, g, 0) != STATUS_OK)
            ;
    }
}

static void sleep_until(int64_t at_ns)
{
    struct timespec at = {.tv_sec = at_ns / NS_PER_S, .tv_nsec = at_ns % NS_PER_S};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0)
        ;
}

static void sum(const threads_t *threads, const bench_options_t *o, double seconds, result_t *result)
{
    uint64_t counted = 0, bad = 0, granted = 0, batches = 0;
    int64_t lag_ns = 0;
    shards_stats_t stats;
    shards_stats(threads->shards, &stats);
    for (uint32_t k = 0; k < o->shards; k++) {
        counted += threads->worlds[k].counted;
        bad += threads->worlds[k].bad;
        granted += threads->worlds[k].granted;
        batches += threads->worlds[k].batch_count;
        lag_ns = world_lag_ns(&threads->worlds[k], threads->now_ns[k * 8]) > lag_ns
                     ? world_lag_ns(&threads->worlds[k], threads->now_ns[k * 8])
                     : lag_ns;
    }
    *result = (result_t){.rate = (double)counted / o->seconds,
                         .bad_rate = counted ? (double)bad / (double)counted : 0,
                         .batch = (double)granted / fmax(1, (double)batches),
                         .candidates_per_s = (double)stats.candidates / seconds,
                         .lag_ms = (double)lag_ns / 1e6};
}

status_t run_threads(const bench_options_t *o, double rate, result_t *result, err_t *err)
{
    threads_t threads = {0};
    status_t status = build(&threads, o, rate, err);
    int64_t begin_ns = clock_now_ns();
    int64_t warm_ns = begin_ns + (int64_t)(o->warm_seconds * 1e9);
    int64_t end_ns = warm_ns + (int64_t)(o->seconds * 1e9);
    if (status == STATUS_OK)
        status = build_worlds(&threads, o, rate, begin_ns, warm_ns, err);
    if (status == STATUS_OK)
        status = shards_start(threads.shards, err);
    if (status == STATUS_OK) {
        add_gpus(&threads, o);
        sleep_until(end_ns);
        shards_stop(threads.shards);
        sum(&threads, o, o->warm_seconds + o->seconds, result);
    }
    shards_destroy(threads.shards);
    for (uint32_t k = 0; threads.worlds && k < o->shards; k++)
        world_dispose(&threads.worlds[k]);
    free(threads.worlds);
    free(threads.now_ns);
    return status;
}
