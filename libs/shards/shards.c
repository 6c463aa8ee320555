#include "shards/shards.h"

#include "base/clock.h"
#include "shards/internal.h"

#include <sched.h>
#include <unistd.h>

/* ---- On the caller's thread ---- */

int64_t shards_decide(shards_t *shards, int64_t now_ns)
{
    planner_t *planner = &shards->planner;
    binder_t *binder = &shards->binder;
    int64_t wake_ns = SCHED_NEVER;
    bool any;
    shards_settle(shards, now_ns); /* what has come counts in the plan of this moment */
    planner_turn(planner, now_ns);
    do { /* one grant at a time: the next one sees what the first has left */
        any = false;
        for (uint32_t k = 0; k < shards->options.shard_count; k++)
            any |= worker_turn(&shards->workers[k], now_ns);
        any |= binder_turn(binder, now_ns, 1);
    } while (any);
    for (uint32_t k = 0; k < shards->options.shard_count; k++) {
        int64_t worker_ns = worker_wake_ns(&shards->workers[k]);
        wake_ns = worker_ns < wake_ns ? worker_ns : wake_ns;
    }
    wake_ns = binder_wake_ns(binder) < wake_ns ? binder_wake_ns(binder) : wake_ns;
    return planner->tick_ns < wake_ns ? planner->tick_ns : wake_ns;
}

int64_t shards_step(shards_t *shards, int64_t now_ns)
{
    return shards_decide(shards, now_ns);
}

/* ---- Threads ---- */

static bool stopped(const shards_t *shards)
{
    return atomic_load_explicit(&shards->stop, memory_order_acquire);
}

static void pin(const shards_t *shards, uint32_t which)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    if (!shards->options.pin || cpus < 2)
        return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(which % (uint32_t)cpus, &set);
    (void)pthread_setaffinity_np(pthread_self(), sizeof set, &set); /* refused: it runs where it may */
}

/* One of the halves as a thread sees it. */
typedef struct {
    shards_t *shards;
    gate_t *gate;
    waiter_t *waiter;
    void *half;
    bool (*turn)(void *half, int64_t now_ns);
    int64_t (*wake_ns)(const void *half);
} half_t;

static void run_half(const half_t *half)
{
    waiter_use_exact_timers();
    gate_enter(half->gate);
    while (!stopped(half->shards)) {
        if (gate_asked(half->gate))
            gate_wait(half->gate);
        int64_t now_ns = clock_now_ns();
        if (half->turn(half->half, now_ns))
            waiter_note_work(half->waiter, now_ns);
        if (!waiter_may_sleep(half->waiter, now_ns))
            continue;
        waiter_prepare(half->waiter);
        if (half->turn(half->half, clock_now_ns()) || stopped(half->shards)) {
            waiter_cancel(half->waiter);
            continue;
        }
        int64_t wake_ns = half->wake_ns(half->half);
        gate_leave(half->gate);
        waiter_sleep(half->waiter, wake_ns);
        gate_enter(half->gate);
    }
    gate_leave(half->gate);
}

static bool turn_worker(void *half, int64_t now_ns)
{
    return worker_turn(half, now_ns);
}

static int64_t wake_worker(const void *half)
{
    return worker_wake_ns(half);
}

static void *worker_main(void *arg)
{
    worker_t *worker = arg;
    pin(worker->shards, worker->index);
    run_half(&(half_t){.shards = worker->shards,
                       .gate = &worker->gate,
                       .waiter = &worker->waiter,
                       .half = worker,
                       .turn = turn_worker,
                       .wake_ns = wake_worker});
    return NULL;
}

static bool turn_binder(void *half, int64_t now_ns)
{
    enum { GRANTS_PER_TURN = 64 };
    return binder_turn(half, now_ns, GRANTS_PER_TURN);
}

static int64_t wake_binder(const void *half)
{
    return binder_wake_ns(half);
}

static void *binder_main(void *arg)
{
    binder_t *binder = arg;
    pin(binder->shards, binder->shards->options.shard_count);
    run_half(&(half_t){.shards = binder->shards,
                       .gate = &binder->gate,
                       .waiter = &binder->waiter,
                       .half = binder,
                       .turn = turn_binder,
                       .wake_ns = wake_binder});
    return NULL;
}

static bool turn_planner(void *half, int64_t now_ns)
{
    return planner_turn(half, now_ns);
}

static int64_t wake_planner(const void *half)
{
    const planner_t *planner = half;
    return planner->tick_ns;
}

static void *planner_main(void *arg)
{
    planner_t *planner = arg;
    run_half(&(half_t){.shards = planner->shards,
                       .gate = &planner->gate,
                       .waiter = &planner->waiter,
                       .half = planner,
                       .turn = turn_planner,
                       .wake_ns = wake_planner});
    return NULL;
}

static status_t start_thread(shards_t *shards, pthread_t *thread, void *(*main_fn)(void *), void *arg,
                             err_t *err)
{
    if (pthread_create(thread, NULL, main_fn, arg) != 0)
        return err_set(err, STATUS_NO_MEMORY, "no thread number %u of the scheduling core",
                       shards->threads + 1);
    shards->threads++;
    return STATUS_OK;
}

/* The order of the threads' numbers, for the start and the end: shards, matcher, planner. */
status_t shards_start(shards_t *shards, err_t *err)
{
    uint32_t count = shards->options.shard_count;
    status_t status = STATUS_OK;
    atomic_store(&shards->stop, false);
    shards->threaded = true;
    for (uint32_t k = 0; k < count && status == STATUS_OK; k++)
        status = start_thread(shards, &shards->workers[k].thread, worker_main, &shards->workers[k], err);
    if (status == STATUS_OK)
        status = start_thread(shards, &shards->binder.thread, binder_main, &shards->binder, err);
    if (status == STATUS_OK)
        status = start_thread(shards, &shards->planner.thread, planner_main, &shards->planner, err);
    if (status != STATUS_OK)
        shards_stop(shards);
    return status;
}

void shards_stop(shards_t *shards)
{
    uint32_t count = shards->options.shard_count;
    atomic_store_explicit(&shards->stop, true, memory_order_release);
    for (uint32_t k = 0; k < count; k++)
        waiter_wake(&shards->workers[k].waiter);
    waiter_wake(&shards->binder.waiter);
    waiter_wake(&shards->planner.waiter);
    for (uint32_t t = 0; t < shards->threads; t++) {
        pthread_t thread = t < count    ? shards->workers[t].thread
                           : t == count ? shards->binder.thread
                                        : shards->planner.thread;
        pthread_join(thread, NULL);
    }
    shards->threads = 0;
    shards->threaded = false;
}
