/* Messages from any thread to the halves; on the thread that holds them all, they are worked off at once. */
#include "base/clock.h"
#include "shards/internal.h"

void shards_settle(shards_t *shards, int64_t now_ns)
{
    bool any;
    do {
        any = false;
        for (uint32_t k = 0; k < shards->options.shard_count; k++)
            any |= worker_receive(&shards->workers[k], now_ns);
        any |= binder_turn(&shards->binder, now_ns, 0);
    } while (any);
}

static bool post(worker_t *worker, const inbox_t *message)
{
    if (!mpsc_push(&worker->inbox, message))
        return false;
    if (!worker->shards->options.quiet)
        waiter_wake(&worker->waiter);
    return true;
}

/* Of or about a task: to the shard that has its model. */
static status_t post_task(shards_t *shards, inbox_kind_t kind, uint32_t model, const sched_task_t *task)
{
    uint32_t owner = model < shards->options.limits.models_max ? shards_owner(shards, model) : OWNER_NONE;
    if (owner == OWNER_NONE)
        return STATUS_NOT_FOUND;
    inbox_t message = {.kind = kind, .model = model, .task = *task};
    return post(&shards->workers[owner], &message) ? STATUS_OK : STATUS_UNAVAILABLE;
}

/* About a batch: to the shard that granted it, which the id names. */
static bool post_batch(shards_t *shards, const inbox_t *message)
{
    uint32_t shard = batch_shard(message->batch.batch_id);
    return shard >= shards->options.shard_count || post(&shards->workers[shard], message);
}

status_t shards_submit(shards_t *shards, uint32_t model, const sched_task_t *task)
{
    return post_task(shards, INBOX_TASK, model, task);
}

status_t shards_cancel(shards_t *shards, uint32_t model, uint64_t tag)
{
    return post_task(shards, INBOX_CANCEL, model, &(sched_task_t){.tag = tag});
}

status_t shards_submit_here(shards_t *shards, uint32_t shard, int64_t now_ns, uint32_t model,
                            const sched_task_t *task)
{
    if (!shards_has_model(shards, model))
        return STATUS_NOT_FOUND;
    return worker_submit(&shards->workers[shard], now_ns, model, task);
}

bool shards_batch_ran(shards_t *shards, uint64_t batch_id, int64_t started_ns, int64_t ended_ns)
{
    inbox_t message = {
        .kind = INBOX_RAN,
        .batch = {.batch_id = batch_id, .at_ns = ended_ns, .started_ns = started_ns},
    };
    return post_batch(shards, &message);
}

double shards_needed(const shards_t *shards)
{
    return (double)atomic_load_explicit(&shards->planner.needed, memory_order_relaxed) / NEEDED_WHOLE;
}

bool shards_batch_done(shards_t *shards, uint64_t batch_id, int64_t free_at_ns)
{
    inbox_t message = {.kind = INBOX_DONE, .batch = {.batch_id = batch_id, .at_ns = free_at_ns}};
    return post_batch(shards, &message);
}

bool shards_batch_undone(shards_t *shards, uint64_t batch_id, int64_t free_at_ns)
{
    inbox_t message = {.kind = INBOX_UNDONE, .batch = {.batch_id = batch_id, .at_ns = free_at_ns}};
    return post_batch(shards, &message);
}

void shards_batch_done_here(shards_t *shards, uint32_t shard, uint64_t batch_id, int64_t free_at_ns)
{
    worker_batch_done(&shards->workers[shard], batch_id, free_at_ns, BATCH_DONE);
}

static status_t control(shards_t *shards, const control_t *message)
{
    if (atomic_load_explicit(&shards->holder, memory_order_relaxed) == pthread_self()) {
        binder_control(&shards->binder, clock_now_ns(), message);
        shards_settle(shards, clock_now_ns());
        return STATUS_OK;
    }
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

status_t shards_gpu_free(shards_t *shards, uint32_t gpu, int64_t free_at_ns)
{
    return control_gpu(shards, CONTROL_GPU_FREE, gpu, free_at_ns);
}

status_t shards_move_model(shards_t *shards, uint32_t model, uint32_t to)
{
    if (!shards_has_model(shards, model) || to >= shards->options.shard_count)
        return STATUS_NOT_FOUND;
    return control(shards, &(control_t){.kind = CONTROL_MOVE, .which = model, .to = to});
}
