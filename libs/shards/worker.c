/*
 * Hot path. One shard: the queues of its models. What comes in, in this order each turn: the planner's
 * questions, parcels, orders, the inbox; then candidates are made anew where something changed.
 */
#include "shards/internal.h"

#include <assert.h>
#include <stdlib.h>

enum {
    INBOX_PER_TURN = 256
}; /* then it is time to decide: a shard that is behind must not answer grants late too */

void worker_mark_dirty(worker_t *worker, uint32_t model)
{
    shard_mark_dirty(worker->models, &worker->dirty, model);
}

/* ---- Candidates ---- */

static void emit_drop(worker_t *worker, uint32_t model, const sched_task_t *task, sched_drop_t reason)
{
    const shards_options_t *options = &worker->shards->options;
    sched_action_t action = {.kind = SCHED_DROP, .model = model, .drop = {.task = *task, .reason = reason}};
    options->sink(options->ctx, worker->index, &action);
}

static void emit_dropped(worker_t *worker, shard_t *shard)
{
    for (uint32_t task; (task = shard_take_dropped(shard)) != TASK_NONE;) {
        task_slot_t slot = worker->pool.slots[task];
        task_pool_give(&worker->pool, task);
        emit_drop(worker, shard->model, &slot.task, (sched_drop_t)slot.reason);
    }
}

static void make_candidate(worker_t *worker, int64_t now_ns, shard_t *shard)
{
    policy_t *policy = &worker->shards->planner.policy;
    policy->ops->candidate(policy, shard, now_ns, SHARD_ANY_GPU, &shard->candidate);
    shard_set_expiry(shard, &worker->expiry, worker->expiry_nodes);
    emit_dropped(worker, shard);
}

static void publish(worker_t *worker, const shard_t *shard)
{
    shards_t *shards = worker->shards;
    slot_value_t value = {.candidate = shard->candidate, .seen = worker->seen[shard->index]};
    if (!slot_put(&shards->slots[shard->index], &value))
        return;
    atomic_fetch_or_explicit(&shards->fresh[shard->index / 64], UINT64_C(1) << shard->index % 64,
                             memory_order_release);
    worker->published = true;
}

static void refresh(worker_t *worker, int64_t now_ns, shard_t *shard)
{
    make_candidate(worker, now_ns, shard);
    publish(worker, shard);
}

static bool refresh_due(worker_t *worker, int64_t now_ns)
{
    bool any = worker->dirty != TASK_NONE;
    while (worker->dirty != TASK_NONE) {
        shard_t *shard = &worker->models[worker->dirty];
        worker->dirty = shard->dirty_next;
        shard->dirty = false;
        if (shard->present)
            refresh(worker, now_ns, shard);
        else
            emit_dropped(worker, shard);
    }
    while (heap_min_key(&worker->expiry) <= now_ns) {
        refresh(worker, now_ns, &worker->models[heap_min(&worker->expiry) - worker->expiry_nodes]);
        any = true;
    }
    return any;
}

/* ---- Tasks that belong elsewhere ---- */

static void refuse(worker_t *worker, uint32_t model, const sched_task_t *task, sched_drop_t reason)
{
    worker->models[model].own.stats.dropped[reason]++;
    emit_drop(worker, model, task, reason);
}

static void send_on(worker_t *worker, uint32_t model, const parcel_task_t *task)
{
    shards_t *shards = worker->shards;
    uint32_t owner = shards_owner(shards, model);
    parcel_t *parcel = owner != OWNER_NONE ? parcel_create(model, 1) : NULL;
    if (!parcel) {
        if (!task->cancel)
            refuse(worker, model, &task->task,
                   owner == OWNER_NONE ? SCHED_DROP_MODEL_REMOVED : SCHED_DROP_NO_ROOM);
        return;
    }
    parcel->tasks[0] = *task;
    parcel_send(&shards->workers[owner].parcels, parcel);
    waiter_wake(&shards->workers[owner].waiter);
}

/* ---- Tasks by their tags ---- */

static uint32_t place_of(const worker_t *worker, uint64_t tag)
{
    uint32_t place = (uint32_t)tag;
    return place < worker->shards->options.tags_max ? place : TASK_NONE;
}

static uint32_t take_slot(worker_t *worker, uint32_t model, const sched_task_t *task)
{
    uint32_t index = task_pool_take(&worker->pool, model, task);
    uint32_t place = place_of(worker, task->tag);
    if (index != TASK_NONE && place != TASK_NONE)
        worker->places[place] = index;
    return index;
}

static void cancel(worker_t *worker, uint32_t model, uint64_t tag)
{
    shard_t *shard = &worker->models[model];
    uint32_t place = place_of(worker, tag);
    if (place == TASK_NONE)
        return;
    if (!shard->present) {
        send_on(worker, model, &(parcel_task_t){.task.tag = tag, .cancel = true});
        return;
    }
    sched_task_t task = worker->pool.slots[worker->places[place]].task;
    if (task.tag != tag || worker->pool.slots[worker->places[place]].model != model ||
        !shard_cancel(shard, worker->places[place]))
        return; /* it has come out, or is in a batch */
    worker_mark_dirty(worker, model);
    emit_drop(worker, model, &task, SCHED_DROP_CANCELLED);
}

static parcel_task_t pop(worker_t *worker, shard_t *shard)
{
    uint32_t task = model_queue_pop(&shard->queue, &worker->pool);
    const task_slot_t *slot = &worker->pool.slots[task];
    parcel_task_t popped = {.task = slot->task, .lost = slot->lost != 0};
    task_pool_give(&worker->pool, task);
    return popped;
}

/* The model goes first, its queue behind it: in one parcel, or task by task when there is no memory for that. */
static void give_model(worker_t *worker, uint32_t model, uint32_t to)
{
    shards_t *shards = worker->shards;
    shard_t *shard = &worker->models[model];
    assert(shard->present);
    parcel_t *queue = parcel_create(model, shard->queue.len);
    worker->seen[model]++;
    shard->present = false;
    shard->candidate = (candidate_t){0};
    heap_remove(&worker->expiry, &worker->expiry_nodes[model]);
    shard_judge_no_more(shard);
    shards->handover[model].seen = worker->seen[model];
    parcel_send(&shards->workers[to].parcels, &shards->handover[model]);
    atomic_store_explicit(&shards->owner[model], to, memory_order_release);
    for (uint32_t i = 0; queue && i < queue->count; i++)
        queue->tasks[i] = pop(worker, shard);
    if (queue)
        parcel_send(&shards->workers[to].parcels, queue);
    while (shard->queue.len) {
        parcel_task_t task = pop(worker, shard);
        send_on(worker, model, &task);
    }
    waiter_wake(&shards->workers[to].waiter);
}

static void queue_again(worker_t *worker, int64_t now_ns, uint32_t model, const parcel_task_t *task)
{
    uint32_t index = take_slot(worker, model, &task->task);
    if (index == TASK_NONE)
        refuse(worker, model, &task->task, SCHED_DROP_NO_ROOM);
    else if (task->fresh)
        shard_submit(&worker->models[model], now_ns, index);
    else
        shard_requeue(&worker->models[model], index, task->lost);
}

static void unpack(worker_t *worker, int64_t now_ns, const parcel_t *parcel)
{
    shard_t *shard = &worker->models[parcel->model];
    if (parcel->with_model) {
        shard->present = true;
        shard->crowd = (shard_crowd_t){0}; /* of when it was here before */
        shard_judge_on(shard);
        worker->seen[parcel->model] = parcel->seen;
    }
    for (uint32_t i = 0; i < parcel->count; i++) {
        if (!shard->present)
            send_on(worker, parcel->model, &parcel->tasks[i]);
        else if (parcel->tasks[i].cancel)
            cancel(worker, parcel->model, parcel->tasks[i].task.tag);
        else
            queue_again(worker, now_ns, parcel->model, &parcel->tasks[i]);
    }
    worker_mark_dirty(worker, parcel->model);
}

static bool take_parcels(worker_t *worker, int64_t now_ns)
{
    parcel_t *parcel = parcel_take_all(&worker->parcels);
    bool any = parcel;
    while (parcel) {
        parcel_t *next = parcel->next;
        bool fixed = parcel->with_model; /* from here on its next shard may send it on */
        unpack(worker, now_ns, parcel);
        if (!fixed)
            free(parcel);
        parcel = next;
    }
    return any;
}

/* ---- Orders ---- */

static void answer(worker_t *worker, const answer_t *message)
{
    bool sent = spsc_push(&worker->answers, message);
    assert(sent); /* three for each batch that may be in flight: there is room */
    (void)sent;
    worker->answered = true;
}

static void emit_grant(worker_t *worker, const worker_batch_t *batch, uint32_t gpu, int64_t start_ns,
                       int64_t finish_ns)
{
    const shards_options_t *options = &worker->shards->options;
    uint32_t task = batch->first_task;
    for (uint32_t i = 0; i < batch->count; i++) {
        worker->granted[i] = worker->pool.slots[task].task;
        task = worker->pool.slots[task].next;
    }
    sched_action_t action = {.kind = SCHED_GRANT,
                             .model = batch->model,
                             .grant = {.gpu = gpu,
                                       .batch_id = batch->batch_id,
                                       .start_ns = start_ns,
                                       .finish_ns = finish_ns,
                                       .tasks = worker->granted,
                                       .count = batch->count}};
    options->sink(options->ctx, worker->index, &action);
}

/* Its first task may have gone meanwhile: then the batch is another one, which may have to be held. */
static bool still_good(worker_t *worker, int64_t now_ns, shard_t *shard, const order_t *order)
{
    if (shard->dirty || shard_wake_ns(shard) <= now_ns)
        make_candidate(worker, now_ns, shard);
    const candidate_t *candidate = &shard->candidate;
    int64_t start_ns = now_ns + candidate->lead_ns;
    bool enough = candidate->idle && order->gpus >= candidate->idle;
    int64_t from_ns = enough ? candidate->early_ns : candidate->ready_ns;
    bool held = from_ns > start_ns && from_ns > order->at_ns + candidate->lead_ns;
    return candidate->batch && !held && order->gpu_free_ns <= candidate->latest_ns &&
           start_ns <= candidate->latest_ns;
}

static void on_grant(worker_t *worker, int64_t now_ns, const order_t *order)
{
    shard_t *shard = &worker->models[order->model];
    assert(shard->present && order->number == worker->seen[order->model] + 1);
    worker->seen[order->model]++;
    if (!still_good(worker, now_ns, shard, order)) {
        worker->unused++;
        answer(worker, &(answer_t){.kind = ANSWER_UNUSED, .batch_id = order->batch_id});
        publish(worker, shard);
        return;
    }
    worker_batch_t *batch = &worker->batches[batch_index(order->batch_id)];
    uint32_t count = candidate_share(&shard->candidate, order->gpus);
    shard_note_silence(shard, now_ns, count);
    *batch = (worker_batch_t){.batch_id = order->batch_id, .model = order->model, .count = count};
    batch->first_task = shard_pop_batch(shard, count);
    int64_t start_ns = shard_earliest_ns(shard, now_ns, order->gpu_free_ns, count);
    int64_t finish_ns = start_ns + shard_expected_ns(shard, count);
    batch->promised_ns = start_ns;
    sched_model_stats_t *stats = &shard->counts->stats;
    stats->granted += count;
    stats->in_flight += count;
    stats->batches++;
    stats->busy_ns += (uint64_t)(finish_ns - start_ns);
    answer(worker, &(answer_t){.kind = ANSWER_TAKEN,
                               .batch_id = order->batch_id,
                               .start_ns = start_ns,
                               .finish_ns = finish_ns,
                               .unsure_ns = shard_unsure_ns(shard, count)});
    worker->due_ns = order->due_ns;
    emit_grant(worker, batch, order->gpu, start_ns, finish_ns);
    shard_end_doubt(shard);
    refresh(worker, now_ns, shard);
}

static void end_task(worker_t *worker, const worker_batch_t *batch, uint32_t task, batch_end_t how)
{
    shard_t *shard = &worker->models[batch->model];
    const task_slot_t *slot = &worker->pool.slots[task];
    if (how != BATCH_DONE && shard->present) {
        shard_requeue(shard, task, how == BATCH_LOST);
        return;
    }
    if (how != BATCH_DONE)
        send_on(worker, batch->model,
                &(parcel_task_t){.task = slot->task, .lost = slot->lost || how == BATCH_LOST});
    task_pool_give(&worker->pool, task);
}

/* Forgets the batch; its tasks are done, or queued again where their model is now. */
static void end_batch(worker_t *worker, worker_batch_t *batch, batch_end_t how)
{
    bool orphan = batch->model == BATCH_NO_MODEL;
    uint32_t task = batch->first_task;
    for (uint32_t i = 0; i < batch->count; i++) {
        uint32_t next = worker->pool.slots[task].next;
        if (orphan)
            task_pool_give(&worker->pool, task);
        else
            end_task(worker, batch, task, how);
        task = next;
    }
    batch->batch_id = 0;
    if (orphan)
        return;
    worker->models[batch->model].counts->stats.in_flight -= batch->count;
    if (how == BATCH_DONE)
        return;
    worker->requeued += batch->count;
    worker_mark_dirty(worker, batch->model);
}

/* NULL: its GPU has left, or its end was told twice, or it never was. */
static worker_batch_t *find_batch(worker_t *worker, uint64_t batch_id)
{
    uint32_t index = batch_index(batch_id);
    bool known = batch_id != 0 && index < worker->shards->binder.batches.capacity &&
                 worker->batches[index].batch_id == batch_id;
    return known ? &worker->batches[index] : NULL;
}

/* Only where its model still is: who has that by now is the only one to learn. */
static void on_ran(worker_t *worker, int64_t now_ns, const inbox_t *message)
{
    const worker_batch_t *batch = find_batch(worker, message->batch.batch_id);
    if (!batch || message->batch.at_ns < message->batch.started_ns || batch->model == BATCH_NO_MODEL ||
        !worker->models[batch->model].present)
        return;
    shard_ran_t ran = {.first_task = batch->first_task,
                       .count = batch->count,
                       .rows = batch->count,
                       .alone = true,
                       .promised_ns = batch->promised_ns,
                       .started_ns = message->batch.started_ns,
                       .ended_ns = message->batch.at_ns};
    if (shard_learn(&worker->models[batch->model], now_ns, &ran))
        worker_mark_dirty(worker, batch->model);
}

void worker_batch_done(worker_t *worker, uint64_t batch_id, int64_t free_ns, batch_end_t how)
{
    worker_batch_t *batch = find_batch(worker, batch_id);
    if (!batch)
        return;
    end_batch(worker, batch, how);
    answer(worker, &(answer_t){.kind = ANSWER_DONE, .batch_id = batch_id, .finish_ns = free_ns});
}

static bool take_orders(worker_t *worker, int64_t now_ns)
{
    order_t order;
    bool any = false;
    while (spsc_pop(&worker->orders, &order)) {
        any = true;
        worker_batch_t *batch = &worker->batches[batch_index(order.batch_id)];
        if (order.kind == ORDER_GRANT)
            on_grant(worker, now_ns, &order);
        else if (order.kind == ORDER_GIVE)
            give_model(worker, order.model, order.gpu);
        else if (batch->batch_id == order.batch_id)
            end_batch(worker, batch, BATCH_LOST);
    }
    return any;
}

/* ---- The inbox ---- */

status_t worker_submit(worker_t *worker, int64_t now_ns, uint32_t model, const sched_task_t *task)
{
    shard_t *shard = &worker->models[model];
    if (!shard->present) {
        send_on(worker, model, &(parcel_task_t){.task = *task, .fresh = true});
        return STATUS_OK;
    }
    uint32_t index = take_slot(worker, model, task);
    if (index == TASK_NONE)
        return STATUS_UNAVAILABLE;
    if (shard_submit(shard, now_ns, index))
        worker_mark_dirty(worker, model);
    return STATUS_OK;
}

static void take_message(worker_t *worker, int64_t now_ns, const inbox_t *message)
{
    switch (message->kind) {
    case INBOX_TASK:
        if (worker_submit(worker, now_ns, message->model, &message->task) != STATUS_OK)
            refuse(worker, message->model, &message->task, SCHED_DROP_NO_ROOM);
        break;
    case INBOX_CANCEL:
        cancel(worker, message->model, message->task.tag);
        break;
    case INBOX_RAN:
        on_ran(worker, now_ns, message);
        break;
    case INBOX_DONE:
        worker_batch_done(worker, message->batch.batch_id, message->batch.at_ns, BATCH_DONE);
        break;
    case INBOX_UNDONE:
        worker_batch_done(worker, message->batch.batch_id, message->batch.at_ns, BATCH_UNDONE);
        break;
    }
}

static bool take_inbox(worker_t *worker, int64_t now_ns)
{
    const shards_options_t *options = &worker->shards->options;
    inbox_t message;
    int taken = 0;
    if (options->may_take && !options->may_take(options->ctx, worker->index))
        return false;
    for (; taken < INBOX_PER_TURN && mpsc_pop(&worker->inbox, &message); taken++)
        take_message(worker, now_ns, &message);
    return taken > 0;
}

bool worker_receive(worker_t *worker, int64_t now_ns)
{
    bool any = take_parcels(worker, now_ns);
    any |= take_orders(worker, now_ns);
    return take_inbox(worker, now_ns) || any;
}

/* ---- The planner's questions ---- */

static void take_plans(worker_t *worker)
{
    const planner_t *planner = &worker->shards->planner;
    for (uint32_t m = 0; m < planner->policy.models_max; m++) {
        shard_plan_t *plan = &worker->models[m].plan, old = *plan;
        *plan = planner->view[m].plan;
        plan->refuse_debt = old.refuse_debt; /* these two go on here */
        plan->refuse_seen = old.refuse > 0 ? old.refuse_seen : worker->models[m].own.stats.submitted;
        if (worker->models[m].present)
            worker_mark_dirty(worker, m);
    }
}

static bool take_delays(worker_t *worker)
{
    sched_delays_t delays;
    if (!shards_take_delays(worker->shards, &worker->delays_taken, &delays))
        return false;
    for (uint32_t m = 0; m < worker->shards->options.limits.models_max; m++) {
        shard_set_delays(&worker->models[m], &delays);
        if (worker->models[m].present)
            worker_mark_dirty(worker, m);
    }
    return true;
}

bool worker_tell(worker_t *worker)
{
    /* In this order: what was handed out before the question is then taken before it is answered, and
     * while plans are being handed out no question is open. */
    uint32_t ask = atomic_load_explicit(&worker->ask, memory_order_acquire);
    uint32_t planned = atomic_load_explicit(&worker->planned, memory_order_acquire);
    bool any = take_delays(worker);
    if (planned != worker->plan_taken) {
        take_plans(worker);
        worker->plan_taken = planned;
        any = true;
    }
    if (ask != atomic_load_explicit(&worker->told, memory_order_relaxed)) {
        for (uint32_t m = 0; m < worker->shards->options.limits.models_max; m++)
            worker->counts[m] = worker->models[m].own;
        atomic_store_explicit(&worker->told, ask, memory_order_release);
        waiter_wake(&worker->shards->planner.waiter);
        any = true;
    }
    return any;
}

/* ---- The turn ---- */

bool worker_turn(worker_t *worker, int64_t now_ns)
{
    const shards_options_t *options = &worker->shards->options;
    worker->answered = worker->published = false;
    bool any = worker_tell(worker);
    any |= take_parcels(worker, now_ns);
    any |= take_orders(worker, now_ns);
    any |= take_inbox(worker, now_ns);
    if (options->turn)
        any |= options->turn(options->ctx, worker->index, now_ns);
    any |= refresh_due(worker, now_ns);
    if (worker->answered || worker->published)
        waiter_wake(&worker->shards->binder.waiter);
    return any;
}

int64_t worker_wake_ns(const worker_t *worker)
{
    return heap_min_key(&worker->expiry);
}
