/*
 * Scheduler-only throughput, as the public Symphony code's stress tool defines it: requests and GPUs live in this
 * process, time is real, the generator counts, and the result is the highest request rate at which at most 1 % of the
 * requests are dropped or late.
 *
 *   bench-sched --models 20 --gpus 32 --alpha-us 1 --beta-us 5000 --slo-ms 100 [--policy fermata] [--json]
 *   bench-sched … --rate 1000000 --clock virtual    one run in virtual time: under callgrind the same instructions every time
 *                                             (valgrind --tool=callgrind --toggle-collect=steady_state)
 */
#include "bench_sched.h"

#include "base/clock.h"
#include "config/config.h"
#include "sched/matcher.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const clock_words[] = {"real", "cpu", "virtual", NULL};

#define NUMBER(field, type_, text, preset, low, high)                                             \
    {                                                                                             \
        .name = #field, .type = type_, .group = "Bench", .help = text, .def = preset, .min = low, \
        .max = high, .offset = offsetof(bench_options_t, field)                                   \
    }

static const config_option_t options[] = {
    NUMBER(models, CONFIG_INT, "Models, all alike.", "20", 1, 60000),
    NUMBER(gpus, CONFIG_INT, "Emulated GPUs.", "32", 1, 65536),
    NUMBER(alpha_us, CONFIG_DOUBLE, "Latency of one more row.", "1", 0, 1000000),
    NUMBER(beta_us, CONFIG_DOUBLE, "Latency of a batch of none.", "5000", 0, 1000000),
    NUMBER(slo_ms, CONFIG_DOUBLE, "Time from a request to the end of its batch.", "100", 1, 100000),
    NUMBER(inflight, CONFIG_INT, "Batches granted to a GPU at once.", "2", 1, 2),
    NUMBER(seconds, CONFIG_DOUBLE, "Measured time of one run.", "1", 0, 1000),
    NUMBER(warm_seconds, CONFIG_DOUBLE, "Time of one run before it counts.", "1", 0, 1000),
    NUMBER(rate, CONFIG_DOUBLE, "Requests/s: one run at this rate; 0: search.", "0", 0, 1000000000),
    NUMBER(bad_limit, CONFIG_DOUBLE, "Part of the requests that may be dropped or late.", "0.01", 0, 1),
    NUMBER(shards, CONFIG_INT, "Shard threads, and a matcher's; 0: the whole core on one thread.", "0", 0,
           64),
    NUMBER(repeat, CONFIG_INT, "Tries of a rate before it counts as too high.", "2", 1, 100),
    NUMBER(delay_us, CONFIG_DOUBLE, "Bound of the way from a grant to its GPU (threads).", "100", 0, 1000000),
    NUMBER(step_us, CONFIG_DOUBLE, "Virtual time between two turns of the loop.", "10", 0, 1000000),
    {.name = "policy",
     .type = CONFIG_STRING,
     .group = "Bench",
     .help = "Batching policy.",
     .def = "fermata",
     .offset = offsetof(bench_options_t, policy)},
    {.name = "policy_params",
     .type = CONFIG_STRING,
     .group = "Bench",
     .help = "Its parameters.",
     .metavar = "KEY=VALUE,...",
     .offset = offsetof(bench_options_t, policy_params)},
    {.name = "clock",
     .type = CONFIG_ENUM,
     .group = "Bench",
     .help = "Time as it is, this thread's CPU time (for a machine that others use too), or virtual time.",
     .def = "real",
     .choices = clock_words,
     .offset = offsetof(bench_options_t, clock)},
    {.name = "pin",
     .type = CONFIG_BOOL,
     .group = "Bench",
     .help = "Pin each thread to a CPU of its own.",
     .def = "true",
     .offset = offsetof(bench_options_t, pin)},
    {.name = "json",
     .type = CONFIG_BOOL,
     .group = "Output",
     .help = "Print one line of JSON.",
     .offset = offsetof(bench_options_t, json)},
};

static const config_schema_t schema = {
    .program = "bench-sched",
    .summary = "Measures the scheduling core alone: requests and GPUs are in this process.",
    .options = options,
    .options_len = sizeof options / sizeof *options,
};

typedef struct {
    const bench_options_t *options;
    sched_t *sched;
    world_t world;
    int64_t now_ns, wake_ns;
    uint64_t turns;
} bench_t;

/* Requests that are told before the next decision: a loop that is behind must not fall further behind by
 * one long turn. */
enum { REQUESTS_PER_TURN = 256 };

/* ---- One run ---- */

static int64_t now_ns(const bench_t *bench)
{
    if (bench->options->clock == CLOCK_REAL)
        return clock_now_ns();
    if (bench->options->clock == CLOCK_VIRTUAL)
        return bench->now_ns + (int64_t)(bench->options->step_us * 1e3);
    struct timespec at;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    return NS_PER_S + at.tv_sec * NS_PER_S + at.tv_nsec;
}

static void on_action(void *ctx, const sched_action_t *action)
{
    bench_t *bench = ctx;
    world_on_action(&bench->world, bench->now_ns, action);
}

static void turn(bench_t *bench)
{
    uint32_t model;
    sched_task_t task;
    uint64_t batch_id;
    int64_t free_ns;
    bool news = false;
    for (int i = 0; i < REQUESTS_PER_TURN && world_next_request(&bench->world, bench->now_ns, &model, &task);
         i++) {
        if (sched_submit(bench->sched, bench->now_ns, model, &task, NULL) != STATUS_OK)
            world_on_refused(&bench->world, &task);
        news = true;
    }
    while (world_next_end(&bench->world, bench->now_ns, &batch_id, &free_ns)) {
        sched_batch_done(bench->sched, bench->now_ns, batch_id, free_ns);
        news = true;
    }
    if (news || bench->now_ns >= bench->wake_ns)
        bench->wake_ns = sched_run(bench->sched, bench->now_ns, on_action, bench);
    bench->turns++;
}

static void run_until(bench_t *bench, int64_t end_ns)
{
    while (bench->now_ns < end_ns) {
        bench->now_ns = now_ns(bench);
        turn(bench);
    }
}

/* What callgrind counts. */
__attribute__((noinline)) void steady_state(void *bench, int64_t end_ns);
void steady_state(void *bench, int64_t end_ns)
{
    run_until(bench, end_ns);
}

static status_t build(bench_t *bench, double rate, err_t *err)
{
    const bench_options_t *o = bench->options;
    profile_t profile;
    double waiting = rate * o->slo_ms / 1e3 * 2.5; /* an SLO's worth that waits, one that runs, and some */
    sched_limits_t limits = {.models_max = (uint32_t)o->models,
                             .gpus_max = (uint32_t)o->gpus,
                             .tasks_max = (uint32_t)fmin(waiting + 65536, 1 << 26),
                             .batch_max = PROFILE_BATCH_MAX,
                             .gpu_inflight_max = (uint32_t)o->inflight};
    sched_model_opts_t opts = {.slo_ns = (int64_t)(o->slo_ms * 1e6), .rate_hint = rate / (double)o->models};
    status_t status = profile_from_line(&profile, (int64_t)(o->alpha_us * 1e3), (int64_t)(o->beta_us * 1e3),
                                        PROFILE_BATCH_MAX, err);
    if (status != STATUS_OK)
        return status;
    bench->sched = sched_create(&limits, err);
    if (!bench->sched)
        return err ? err->code : STATUS_NO_MEMORY;
    status = sched_set_policy(bench->sched, bench->now_ns, o->policy, o->policy_params, err);
    for (uint32_t m = 0; m < o->models && status == STATUS_OK; m++)
        status = sched_add_model(bench->sched, bench->now_ns, m, &profile, &opts, err);
    for (uint32_t g = 0; g < o->gpus && status == STATUS_OK; g++)
        status = sched_add_gpu(bench->sched, bench->now_ns, g, bench->now_ns);
    return status;
}

static status_t run(const bench_options_t *o, double rate, result_t *result, err_t *err)
{
    bench_t bench = {.options = o};
    bench.now_ns = now_ns(&bench);
    status_t status = build(&bench, rate, err);
    if (status == STATUS_OK) {
        world_params_t params = {.models = (uint32_t)o->models,
                                 .gpus = (uint32_t)o->gpus,
                                 .stride = 1,
                                 .slo_ns = (int64_t)(o->slo_ms * 1e6),
                                 .rate = rate,
                                 .seed = 1};
        bench.now_ns = now_ns(&bench);
        int64_t warm_ns = bench.now_ns + (int64_t)(o->warm_seconds * 1e9);
        int64_t end_ns = warm_ns + (int64_t)(o->seconds * 1e9);
        status = world_init(&bench.world, &params, bench.now_ns, warm_ns, err);
        if (status == STATUS_OK) {
            run_until(&bench, warm_ns);
            uint64_t sent = bench.world.sent, turns = bench.turns, granted = bench.world.granted,
                     batches = bench.world.batch_count;
            steady_state(&bench, end_ns);
            *result = (result_t){
                .rate = (double)(bench.world.sent - sent) / o->seconds,
                .bad_rate = bench.world.counted ? (double)bench.world.bad / (double)bench.world.counted : 0,
                .lag_ms = (double)world_lag_ns(&bench.world, bench.now_ns) / 1e6,
                .turns_per_s = (double)(bench.turns - turns) / o->seconds,
                .batch = (double)(bench.world.granted - granted) /
                         fmax(1, (double)(bench.world.batch_count - batches))};
        }
        world_dispose(&bench.world);
    }
    sched_destroy(bench.sched);
    return status;
}

static status_t run_any(const bench_options_t *o, double rate, result_t *result, err_t *err)
{
    return o->shards > 0 ? run_threads(o, rate, result, err) : run(o, rate, result, err);
}

/* ---- The highest rate ---- */

/* Who is so far behind at the end (part of the SLO) takes in fewer requests than come, and fails later if not yet. */
#define LAG_PART 0.1

/* The best of some tries: other work on the machine only ever makes a run worse. */
static status_t passes(const bench_options_t *o, double rate, bool *pass, result_t *best, err_t *err)
{
    *pass = false;
    for (int64_t i = 0; i < o->repeat && !*pass; i++) {
        result_t result;
        status_t status = run_any(o, rate, &result, err);
        if (status != STATUS_OK)
            return status;
        *pass = result.bad_rate <= o->bad_limit && result.lag_ms <= LAG_PART * o->slo_ms;
        if (*pass)
            *best = result;
    }
    return STATUS_OK;
}

static status_t search(const bench_options_t *o, result_t *best, err_t *err)
{
    double low = 0, high = 50e3;
    bool pass = true;
    *best = (result_t){0};
    while (pass && high < 64e6) {
        status_t status = passes(o, high, &pass, best, err);
        if (status != STATUS_OK)
            return status;
        low = pass ? high : low;
        high = pass ? high * 2 : high;
    }
    while (high / fmax(low, 1) > 1.04) {
        double middle = low > 0 ? sqrt(low * high) : high / 2;
        status_t status = passes(o, middle, &pass, best, err);
        if (status != STATUS_OK)
            return status;
        *(pass ? &low : &high) = middle;
        if (high < 1000)
            break;
    }
    return STATUS_OK;
}

/* ---- The matcher alone ---- */

/* Candidates as models send them with each new request: ready a little later each time, none of them due. Every 16th
 * update a candidate is due at once and a grant and the GPU's free-at follow: batches of 16 requests. */
static double matcher_updates_per_s(const bench_options_t *o)
{
    enum { UPDATES = 1 << 21, PER_GRANT = 16 };
    matcher_t matcher;
    match_grant_t grant;
    uint32_t models = (uint32_t)o->models, gpus = (uint32_t)o->gpus, done = 0;
    if (matcher_init(&matcher, models, gpus, NULL) != STATUS_OK)
        return 0;
    for (uint32_t g = 0; g < gpus; g++)
        matcher_on_gpu_free(&matcher, g, 0);
    int64_t start_ns = clock_now_ns(), now_ns = 1;
    for (uint32_t i = 0; i < UPDATES; i++, now_ns += 100) {
        uint32_t model = (i * 2654435761u) % models;
        int64_t ready_ns = i % PER_GRANT == 0 ? now_ns : now_ns + 50 * NS_PER_MS - i % 4096;
        candidate_t candidate = {
            .batch = 16, .ready_ns = ready_ns, .latest_ns = ready_ns + NS_PER_MS, .key = ready_ns};
        matcher_on_candidate(&matcher, now_ns, model, &candidate);
        while (matcher_next(&matcher, now_ns, &grant)) {
            matcher_on_gpu_free(&matcher, grant.gpu, now_ns + 10 * NS_PER_US);
            done++;
        }
    }
    double seconds = (double)(clock_now_ns() - start_ns) / 1e9;
    matcher_dispose(&matcher);
    return done > 0 ? UPDATES / seconds : 0;
}

static void print(const bench_options_t *o, const result_t *result, double updates)
{
    if (o->json)
        printf("{\"models\":%" PRId64 ",\"gpus\":%" PRId64
               ",\"policy\":\"%s\",\"requests_per_s_per_shard\":%.0f,\"bad_rate\":%.5f,"
               "\"candidate_updates_per_s\":%.0f,\"mean_batch\":%.1f,\"shards\":%" PRId64 "}\n",
               o->models, o->gpus, o->policy, result->rate, result->bad_rate, updates, result->batch,
               o->shards);
    else
        printf("%4" PRId64 " models  %5" PRId64 " GPUs  alpha %g us  beta %g us  SLO %g ms  %s\n"
               "  %10.0f requests/s per shard   %.2f %% bad   batches of %.1f   %.0f turns/s\n"
               "  %10.0f candidate updates/s of the matcher\n",
               o->models, o->gpus, o->alpha_us, o->beta_us, o->slo_ms, o->policy, result->rate,
               100 * result->bad_rate, result->batch, result->turns_per_s, updates);
}

int main(int argc, char **argv)
{
    bench_options_t o;
    config_t *config;
    int exit_code;
    if (!config_start(&schema, argc, argv, &o, &config, &exit_code))
        return exit_code;
    err_t err = {0};
    result_t result = {0};
    if (o.shards > 0 && (o.clock != CLOCK_REAL || o.shards > o.models)) {
        fprintf(stderr, "bench-sched: threads run in real time, and each shard needs a model\n");
        config_destroy(config);
        return EXIT_CODE_USAGE;
    }
    status_t status = o.rate > 0 ? run_any(&o, o.rate, &result, &err) : search(&o, &result, &err);
    result.rate /= (double)(o.shards > 1 ? o.shards : 1);
    if (status == STATUS_OK)
        print(&o, &result, o.clock == CLOCK_VIRTUAL ? 0 : matcher_updates_per_s(&o));
    config_destroy(config);
    return config_exit(&schema, status, &err);
}
