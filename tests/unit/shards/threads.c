/*
 * Real threads: requests from two clients, batches that end, GPUs that join, drain and leave and models that
 * move all the while. Every request is answered: its batch is done, or it is dropped; none is lost, none is
 * answered twice.
 */
#include "base/clock.h"
#include "base/prng.h"
#include "shards/shards.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { MODELS = 6, GPUS = 6, SHARDS = 2, REQUESTS = 20000, CLIENTS = 2, ENDS = 1 << 16 };
enum { ROW_NS = 1000, FIXED_NS = 100000 };
#define MS INT64_C(1000000)

typedef struct {
    shards_t *shards;
    _Atomic unsigned char answered[CLIENTS * REQUESTS]; /* 1: dropped, 2: granted at least once */
    _Atomic uint32_t dropped;
    _Atomic bool stop;
} system_t;

static void on_action(void *ctx, uint32_t shard, const sched_action_t *action)
{
    system_t *system = ctx;
    if (action->kind == SCHED_DROP) {
        unsigned char before = atomic_fetch_or(&system->answered[action->drop.task.tag], 1);
        cr_assert((before & 1) == 0, "a request was dropped twice");
        atomic_fetch_add(&system->dropped, 1);
        return;
    }
    for (uint32_t i = 0; i < action->grant.count; i++)
        atomic_fetch_or(&system->answered[action->grant.tasks[i].tag], 2);
    /* The batch is over at once, and took more or less than its profile: the worker's report goes round by the inbox. */
    (void)shard;
    int64_t start_ns = action->grant.start_ns;
    int64_t took_ns =
        (FIXED_NS + ROW_NS * action->grant.count) * (int64_t)(80 + action->grant.tasks[0].tag % 60) / 100;
    (void)shards_batch_ran(system->shards, action->grant.batch_id, start_ns, start_ns + took_ns);
    while (!shards_batch_done(system->shards, action->grant.batch_id, action->grant.start_ns))
        ;
}

typedef struct {
    system_t *system;
    uint32_t index;
} client_t;

static void *client_main(void *arg)
{
    const client_t *client = arg;
    prng_t prng;
    prng_init(&prng, client->index);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        int64_t now_ns = clock_now_ns();
        sched_task_t task = {.tag = client->index * REQUESTS + i,
                             .arrival_ns = now_ns,
                             .deadline_ns = now_ns + prng_range(&prng, 2, 30) * MS};
        while (shards_submit(client->system->shards, (uint32_t)prng_below(&prng, MODELS), &task) != STATUS_OK)
            sched_yield();
        if (i % 16 == 0)
            sched_yield();
    }
    return NULL;
}

static void *trouble_main(void *arg)
{
    system_t *system = arg;
    prng_t prng;
    prng_init(&prng, 99);
    while (!atomic_load(&system->stop)) {
        uint32_t gpu = 1 + (uint32_t)prng_below(&prng, GPUS - 1); /* GPU 0 stays */
        switch (prng_below(&prng, 4)) {
        case 0:
            (void)shards_remove_gpu(system->shards, gpu);
            break;
        case 1:
            (void)shards_drain_gpu(system->shards, gpu);
            break;
        case 2:
            (void)shards_add_gpu(system->shards, gpu, clock_now_ns());
            break;
        default:
            (void)shards_move_model(system->shards, (uint32_t)prng_below(&prng, MODELS),
                                    (uint32_t)prng_below(&prng, SHARDS));
        }
        sched_yield();
    }
    return NULL;
}

static system_t *start(const char *policy)
{
    system_t *system = calloc(1, sizeof *system);
    shards_options_t options = {
        .limits = {.models_max = MODELS, .gpus_max = GPUS, .tasks_max = CLIENTS * REQUESTS, .batch_max = 64},
        .shard_count = SHARDS,
        .policy = policy,
        .balance_ns = 20 * MS,
        .sink = on_action,
        .ctx = system};
    err_t err = {0};
    cr_assert_eq(shards_create(&options, &system->shards, &err), STATUS_OK, "%s", err.text);
    for (uint32_t m = 0; m < MODELS; m++) {
        profile_t profile;
        cr_assert_eq(profile_from_line(&profile, ROW_NS, FIXED_NS, 64, NULL), STATUS_OK);
        cr_assert_eq(shards_add_model(system->shards, 0, m, &profile, NULL, &err), STATUS_OK);
    }
    for (uint32_t g = 0; g < GPUS; g++)
        cr_assert_eq(shards_add_gpu(system->shards, g, 0), STATUS_OK);
    cr_assert_eq(shards_start(system->shards, &err), STATUS_OK, "%s", err.text);
    return system;
}

static void expect_all_answered(system_t *system)
{
    int64_t end_ns = clock_now_ns() + 60 * NS_PER_S;
    for (uint32_t i = 0; i < CLIENTS * REQUESTS; i++) {
        while (atomic_load(&system->answered[i]) == 0 && clock_now_ns() < end_ns)
            sched_yield();
        cr_assert_neq(atomic_load(&system->answered[i]), 0, "request %u was lost", i);
    }
}

static shards_stats_t stats_now(system_t *system)
{
    shards_stats_t stats;
    shards_hold(system->shards);
    shards_stats(system->shards, &stats);
    shards_release(system->shards);
    return stats;
}

/* The trouble may have had no processor while the requests came. */
static void wait_for_a_move(system_t *system)
{
    int64_t end_ns = clock_now_ns() + 60 * NS_PER_S;
    while (stats_now(system).moves == 0 && clock_now_ns() < end_ns)
        sched_yield();
}

/* What was queued again when the last GPU left is granted once more. */
static void wait_for_quiet(system_t *system)
{
    shards_stats_t stats = {.all.queued = 1};
    int64_t end_ns = clock_now_ns() + 60 * NS_PER_S;
    while ((stats.all.queued > 0 || stats.all.in_flight > 0) && clock_now_ns() < end_ns) {
        stats = stats_now(system);
        sched_yield();
    }
}

static void hammer(const char *policy)
{
    system_t *system = start(policy);
    pthread_t clients[CLIENTS], trouble;
    client_t args[CLIENTS];
    cr_assert_eq(pthread_create(&trouble, NULL, trouble_main, system), 0);
    for (uint32_t c = 0; c < CLIENTS; c++) {
        args[c] = (client_t){system, c};
        cr_assert_eq(pthread_create(&clients[c], NULL, client_main, &args[c]), 0);
    }
    for (uint32_t c = 0; c < CLIENTS; c++)
        pthread_join(clients[c], NULL);
    expect_all_answered(system);
    wait_for_a_move(system);
    atomic_store(&system->stop, true);
    pthread_join(trouble, NULL);
    wait_for_quiet(system);
    shards_stop(system->shards);
    shards_stats_t stats;
    shards_stats(system->shards, &stats);
    cr_expect_eq(stats.all.queued, 0);
    /* Every task was dropped, or granted once more often than its GPU was lost. */
    uint64_t dropped = atomic_load(&system->dropped);
    cr_expect_eq(stats.all.granted - stats.requeued + dropped, CLIENTS * REQUESTS);
    cr_expect_eq(stats.all.submitted, CLIENTS * REQUESTS);
    cr_expect_gt(stats.moves, 0);
    shards_destroy(system->shards);
    free(system);
}

Test(threads, every_request_is_answered_once, .timeout = 120)
{
    hammer("fermata");
}

Test(threads, and_with_eager_batches, .timeout = 120)
{
    hammer("eager");
}

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void wait_until(int64_t at_ns)
{
    struct timespec at = {.tv_sec = at_ns / NS_PER_S, .tv_nsec = at_ns % NS_PER_S};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

/* A thread that spins uses a whole core; how little a sleeping one uses is a figure of docs/line-rate.md. */
#define IDLE_MOST 0.10

/* The time that passes is what is measured here, not a way to wait for something. */
Test(threads, idle_threads_sleep, .timeout = 120)
{
    system_t *system = start("fermata");
    double begin = cpu_seconds();
    int64_t begin_ns = clock_now_ns();
    wait_until(begin_ns + NS_PER_S);
    double used = (cpu_seconds() - begin) / ((double)(clock_now_ns() - begin_ns) / 1e9);
    cr_expect_lt(used, IDLE_MOST, "idle threads use %.2f %% of a core", used * 100);
    shards_stop(system->shards);
    cr_assert_eq(shards_start(system->shards, NULL), STATUS_OK, "stopped threads start again");
    shards_destroy(system->shards);
    free(system);
}

/* ---- Timers ---- */

typedef struct {
    shards_t *shards;
    _Atomic int64_t granted_ns; /* 0: not yet; negative: dropped */
} timed_t;

static void note_time(void *ctx, uint32_t shard, const sched_action_t *action)
{
    timed_t *timed = ctx;
    (void)shard;
    int64_t now_ns = clock_now_ns();
    if (action->kind == SCHED_GRANT)
        (void)shards_batch_done(timed->shards, action->grant.batch_id, now_ns);
    atomic_store(&timed->granted_ns, action->kind == SCHED_GRANT ? now_ns : -now_ns);
}

static int by_size(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

enum { TRIES = 201 };

/* A batch of one, l(b) = b + 1 ms, is ready at d - l(2) - the bound of lateness. How late each leaves, the earliest first. */
static void time_grants(timed_t *timed, int64_t late_ns[TRIES])
{
    for (int i = 0; i < TRIES; i++) {
        atomic_store(&timed->granted_ns, 0);
        int64_t now_ns = clock_now_ns(), due_ns = now_ns + 6 * MS - 3 * MS - MS / 2;
        sched_task_t task = {.arrival_ns = now_ns, .deadline_ns = now_ns + 6 * MS};
        cr_assert_eq(shards_submit(timed->shards, 0, &task), STATUS_OK);
        wait_until(due_ns + MS / 4);
        int64_t at_ns;
        while ((at_ns = atomic_load(&timed->granted_ns)) == 0)
            sched_yield();
        late_ns[i] = llabs(at_ns) - due_ns;
    }
    qsort(late_ns, TRIES, sizeof late_ns[0], by_size);
}

/* Other work on the machine delays some. Where it delays most of them it is tried again. */
Test(threads, grants_leave_when_they_are_due, .timeout = 120)
{
    static int64_t late_ns[TRIES];
    timed_t timed = {0};
    profile_t profile;
    shards_options_t options = {.limits = {.models_max = 1, .gpus_max = 1, .tasks_max = 8, .batch_max = 8},
                                .shard_count = 1,
                                .policy = "deferred",
                                .delays = {.wake_ns = MS / 2},
                                .sink = note_time,
                                .ctx = &timed};
    cr_assert_eq(shards_create(&options, &timed.shards, NULL), STATUS_OK);
    cr_assert_eq(profile_from_line(&profile, MS, MS, 8, NULL), STATUS_OK);
    cr_assert_eq(shards_add_model(timed.shards, 0, 0, &profile, NULL, NULL), STATUS_OK);
    cr_assert_eq(shards_start(timed.shards, NULL), STATUS_OK);
    cr_assert_eq(shards_add_gpu(timed.shards, 0, 0), STATUS_OK);
    int64_t end_ns = clock_now_ns() + 60 * NS_PER_S;
    do {
        time_grants(&timed, late_ns);
        cr_expect_geq(late_ns[0], 0, "%d ns before its time", (int)-late_ns[0]);
    } while (late_ns[TRIES / 2] >= MS / 2 && clock_now_ns() < end_ns);
    cr_expect_lt(late_ns[TRIES / 2], MS / 2, "the median is %d ns late", (int)late_ns[TRIES / 2]);
    shards_destroy(timed.shards);
}
