#include "shards/shards.h"

#include "base/clock.h"
#include "shards/internal.h"

#include <sched.h>
#include <unistd.h>

/* ---- Messages from any thread ---- */

uint32_t shards_owner(const shards_t *shards, uint32_t model)
{
    return atomic_load_explicit(&shards->owner[model], memory_order_acquire);
}

static bool has_model(const shards_t *shards, uint32_t model)
{
    return model < shards->options.limits.models_max && shards->planner.view[model].present;
}

status_t shards_submit(shards_t *shards, uint32_t model, const sched_task_t *task)
{
    if (!has_model(shards, model))
        return STATUS_NOT_FOUND;
    worker_t *worker = &shards->workers[shards_owner(shards, model)];
    inbox_t message = {.kind = INBOX_TASK, .model = model, .task = *task};
    if (!mpsc_push(&worker->inbox, &message))
        return STATUS_UNAVAILABLE;
    waiter_wake(&worker->waiter);
    return STATUS_OK;
}

status_t shards_submit_here(shards_t *shards, uint32_t shard, int64_t now_ns, uint32_t model,
                            const sched_task_t *task)
{
    if (!has_model(shards, model))
        return STATUS_NOT_FOUND;
    return worker_submit(&shards->workers[shard], now_ns, model, task);
}

bool shards_batch_done(shards_t *shards, uint64_t batch_id, int64_t free_at_ns)
{
    if (batch_shard(batch_id) >= shards->options.shard_count)
        return true;
    worker_t *worker = &shards->workers[batch_shard(batch_id)];
    inbox_t message = {.kind = INBOX_DONE, .done = {.batch_id = batch_id, .free_ns = free_at_ns}};
    if (!mpsc_push(&worker->inbox, &message))
        return false;
    waiter_wake(&worker->waiter);
    return true;
}

void shards_batch_done_here(shards_t *shards, uint32_t shard, uint64_t batch_id, int64_t free_at_ns)
{
    worker_batch_done(&shards->workers[shard], batch_id, free_at_ns);
}

static status_t control(shards_t *shards, const control_t *message)
{
    if (!mpsc_push(&shards->binder.control, message))
        return STATUS_UNAVAILABLE;
    waiter_wake(&shards->binder.waiter);
    return STATUS_OK;
}

static status_t control_gpu(shards_t *shards, control_kind_t kind, uint32_t gpu, int64_t free_ns)
{
    if (gpu >= shards->options.limits.gpus_max)
        return STATUS_NOT_FOUND;
    return control(shards, &(control_t){.kind = kind, .which = gpu, .free_ns = free_ns});
}

status_t shards_add_gpu(shards_t *shards, uint32_t gpu, int64_t free_at_ns)
{
    return control_gpu(shards, CONTROL_ADD_GPU, gpu, free_at_ns);
}

status_t shards_remove_gpu(shards_t *shards, uint32_t gpu)
{
    return control_gpu(shards, CONTROL_REMOVE_GPU, gpu, 0);
}

status_t shards_drain_gpu(shards_t *shards, uint32_t gpu)
{
    return control_gpu(shards, CONTROL_DRAIN_GPU, gpu, 0);
}

status_t shards_move_model(shards_t *shards, uint32_t model, uint32_t to)
{
    if (!has_model(shards, model) || to >= shards->options.shard_count)
        return STATUS_NOT_FOUND;
    return control(shards, &(control_t){.kind = CONTROL_MOVE, .which = model, .to = to});
}

void shards_stats(shards_t *shards, shards_stats_t *stats)
{
    shard_counts_t sum = {0};
    *stats = (shards_stats_t){.candidates = shards->binder.candidates,
                              .stale = shards->binder.stale,
                              .moves = shards->binder.moves};
    for (uint32_t k = 0; k < shards->options.shard_count; k++) {
        stats->unused += shards->workers[k].unused;
        stats->requeued += shards->workers[k].requeued;
        for (uint32_t m = 0; m < shards->options.limits.models_max; m++) {
            counts_add(&sum, &shards->workers[k].models[m].own);
            sum.stats.queued += shards->workers[k].models[m].queue.len;
        }
    }
    stats->all = sum.stats;
}

/* ---- On the caller's thread ---- */

int64_t shards_step(shards_t *shards, int64_t now_ns)
{
    planner_t *planner = &shards->planner;
    binder_t *binder = &shards->binder;
    int64_t wake_ns = SCHED_NEVER;
    bool any;
    for (uint32_t k = 0; k < shards->options.shard_count;
         k++) { /* what has come counts in the plan of this moment */
        while (worker_receive(&shards->workers[k], now_ns))
            ;
    }
    while (binder_turn(binder, now_ns, 0))
        ;
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

static void *worker_main(void *arg)
{
    worker_t *worker = arg;
    waiter_t *waiter = &worker->waiter;
    pin(worker->shards, worker->index);
    waiter_use_exact_timers();
    while (!stopped(worker->shards)) {
        int64_t now_ns = clock_now_ns();
        if (worker_turn(worker, now_ns))
            waiter_note_work(waiter, now_ns);
        if (!waiter_may_sleep(waiter, now_ns))
            continue;
        waiter_prepare(waiter);
        if (worker_turn(worker, clock_now_ns()) || stopped(worker->shards))
            waiter_cancel(waiter);
        else
            waiter_sleep(waiter, worker_wake_ns(worker));
    }
    return NULL;
}

static void *binder_main(void *arg)
{
    enum { GRANTS_PER_TURN = 64 };
    binder_t *binder = arg;
    waiter_t *waiter = &binder->waiter;
    pin(binder->shards, binder->shards->options.shard_count);
    waiter_use_exact_timers();
    while (!stopped(binder->shards)) {
        int64_t now_ns = clock_now_ns();
        if (binder_turn(binder, now_ns, GRANTS_PER_TURN))
            waiter_note_work(waiter, now_ns);
        if (!waiter_may_sleep(waiter, now_ns))
            continue;
        waiter_prepare(waiter);
        if (binder_turn(binder, clock_now_ns(), GRANTS_PER_TURN) || stopped(binder->shards))
            waiter_cancel(waiter);
        else
            waiter_sleep(waiter, binder_wake_ns(binder));
    }
    return NULL;
}

static void *planner_main(void *arg)
{
    planner_t *planner = arg;
    while (!stopped(planner->shards)) {
        while (planner_turn(planner, clock_now_ns()))
            ;
        waiter_prepare(&planner->waiter);
        if (stopped(planner->shards) || planner_is_due(planner, clock_now_ns()))
            waiter_cancel(&planner->waiter);
        else
            waiter_sleep(&planner->waiter, planner->tick_ns);
    }
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
