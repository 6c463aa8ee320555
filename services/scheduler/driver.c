/*
 * Hot path. Drives the sub-clusters: tasks and ended batches in, grants and drops out. Allocates nothing per task but
 * pool slots and the turn's scratch arena.
 *
 * Whatever happens in one turn of the loop (many messages) is told to the sub-clusters first; each then decides once,
 * and each peer gets at most one frame.
 */
#include "base/clock.h"
#include "base/log.h"
#include "scheduler/internal.h"

#include <stdlib.h>

enum { RETRY_AFTER_FULL_MS = 100, RETRY_AFTER_SHED_MS = 50, RETRY_AFTER_LOST_MS = 1000 };

/* ---- Tasks in ---- */

/* Absent, or as many as all tasks together say. */
static bool sizes_fit(const Control__TaskBatch *t)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < t->n_size_count; i++)
        sum += t->size_count[i];
    return (t->n_size_count == 0 || t->n_size_count == t->n_id) && sum == t->n_size;
}

static bool arrays_fit(const Control__TaskBatch *t)
{
    size_t n = t->n_id;
    return t->n_model == n && t->n_budget_ns == n && t->n_handle_hi == n && t->n_handle_lo == n &&
           t->n_offset_bytes == n && t->n_len_bytes == n && (t->n_priority == n || t->n_priority == 0) &&
           sizes_fit(t);
}

/* A budget may be gone already (negative), but its size must make sense. */
static int64_t clamp_budget(gateway_t *gateway, int64_t budget_ns)
{
    if (budget_ns <= DURATION_MOST_NS && budget_ns >= -DURATION_MOST_NS)
        return budget_ns;
    peer_complain(&gateway->peer, NONSENSE_TIME, "task budget beyond an hour");
    return budget_ns > 0 ? DURATION_MOST_NS : -DURATION_MOST_NS;
}

static void fill_task(task_t *task, const Control__TaskBatch *t, size_t i, int64_t now_ns)
{
    gateway_t *gateway = task->gateway;
    task->model = t->model[i];
    task->handle_hi = t->handle_hi[i];
    task->handle_lo = t->handle_lo[i];
    task->offset_bytes = t->offset_bytes[i];
    task->len_bytes = t->len_bytes[i];
    task->arrival_ns = now_ns;
    task->answer_ns = now_ns - gateway->peer.delay_ns + clamp_budget(gateway, t->budget_ns[i]);
}

/*
 * Until when the batch must have finished: the answer has its way back, and batches end later than predicted. Together
 * they take at most a quarter of the budget: on a host so bad that more was measured it is better to try than to refuse
 * everything, and only what is tried brings new measurements.
 */
static int64_t finish_deadline_ns(const subcluster_t *sub, const task_t *task)
{
    enum { RESERVE_SHARE = 4 };
    int64_t reserve_ns =
        sub->delays.push_bound_ns + task->gateway->peer.delay_ns + sub->delays.overrun_bound_ns;
    int64_t most_ns = (task->answer_ns - task->arrival_ns) / RESERVE_SHARE;
    if (reserve_ns > most_ns)
        reserve_ns = most_ns > 0 ? most_ns : 0;
    return task->answer_ns - reserve_ns;
}

/* To the sub-cluster that serves its model now. */
static status_t enqueue(scheduler_t *s, task_t *task)
{
    subcluster_t *home = catalogue_model(s, task->model)->home;
    if (home == NULL)
        return STATUS_NOT_FOUND;
    sched_task_t entry = {
        .tag = task_tag(s, task),
        .arrival_ns = task->arrival_ns,
        .deadline_ns = finish_deadline_ns(home, task),
    };
    task->queue = home;
    if (task->shape != NULL && !shapes_enter(task->shape))
        return STATUS_UNAVAILABLE;
    return subcluster_submit(home, task->shape != NULL ? task->shape->core_id : task->model, &entry,
                             &task->ref);
}

static void refuse(model_t *model, gateway_t *gateway, uint64_t id, Control__Stage stage)
{
    model->home->sums.bad++;
    model->dropped++;
    metrics_add(model->metrics.dropped, 1);
    gateway_drop(gateway, id, STATUS_UNAVAILABLE, stage, RETRY_AFTER_SHED_MS);
}

/* False: the task was answered. Else *shape is held, or NULL where the model has no axes. */
static bool hold_shape(gateway_t *gateway, uint64_t id, model_t *model, const uint32_t *sizes, uint32_t count,
                       shape_t **shape)
{
    *shape = NULL;
    if (count != shapes_axis_count(model)) {
        peer_complain(&gateway->peer, NONSENSE_ARRAYS, "a task without a size for each axis of its model");
        gateway_drop(gateway, id, STATUS_INVALID_ARGUMENT, CONTROL__STAGE__STAGE_ADMISSION, 0);
        return false;
    }
    if (count == 0)
        return true;
    *shape = shapes_hold(gateway->peer.scheduler, model, sizes, count);
    if (*shape == NULL)
        refuse(model, gateway, id, CONTROL__STAGE__STAGE_SHAPES);
    return *shape != NULL;
}

/* What each of the gateways may hold of the table of tasks once that is half full: one that floods finds its own share taken, and
 * the others theirs free. */
static uint32_t share_of_table(const scheduler_t *s)
{
    uint32_t gateways = 0;
    for (uint32_t i = 0; i < PEERS_MAX; i++)
        gateways += s->gateways[i] != NULL;
    return s->options.tasks_max / (gateways > 0 ? gateways : 1);
}

static bool floods(gateway_t *gateway, uint32_t share)
{
    const scheduler_t *s = gateway->peer.scheduler;
    if (s->tasks.lent < s->options.tasks_max / 2 || gateway->by_id.len < share)
        return false;
    peer_complain(&gateway->peer, NONSENSE_FLOOD,
                  "it holds its share of the table of tasks; more are refused");
    return true;
}

static void submit_one(gateway_t *gateway, const Control__TaskBatch *t, size_t i, const uint32_t *sizes,
                       int64_t now_ns, uint32_t share)
{
    scheduler_t *s = gateway->peer.scheduler;
    model_t *model = catalogue_model(s, t->model[i]);
    shape_t *shape;
    gateway->tasks_total++;
    if (idmap_get(&gateway->by_id, t->id[i]) != NULL) {
        peer_complain(&gateway->peer, NONSENSE_DUPLICATE, "a task id that is still in use");
        return; /* the first one is answered */
    }
    if (model == NULL) {
        peer_complain(&gateway->peer, NONSENSE_MODEL, "task for an unknown catalogue id");
        gateway_drop(gateway, t->id[i], STATUS_NOT_FOUND, CONTROL__STAGE__STAGE_ADMISSION, 0);
        return;
    }
    if (model->home == NULL) {
        gateway_drop(gateway, t->id[i], STATUS_UNAVAILABLE, CONTROL__STAGE__STAGE_ADMISSION,
                     RETRY_AFTER_LOST_MS);
        return;
    }
    model->home->sums.requests++;
    model->ran.requests++;
    if (!shed_admits(&model->home->shed, t->n_priority > 0 ? t->priority[i] : 0)) {
        refuse(model, gateway, t->id[i], CONTROL__STAGE__STAGE_ADMISSION); /* for those of higher priority */
        return;
    }
    if (!hold_shape(gateway, t->id[i], model, sizes, t->n_size_count > 0 ? t->size_count[i] : 0, &shape))
        return;
    task_t *task = floods(gateway, share) ? NULL : task_take(s, gateway, t->id[i]);
    if (task == NULL) {
        if (shape != NULL)
            shapes_release(shape);
        gateway_drop(gateway, t->id[i], STATUS_UNAVAILABLE, CONTROL__STAGE__STAGE_ADMISSION,
                     RETRY_AFTER_FULL_MS);
        return;
    }
    fill_task(task, t, i, now_ns);
    task->shape = shape;
    status_t status = enqueue(s, task);
    if (status != STATUS_OK)
        task_drop(s, task, status, CONTROL__STAGE__STAGE_ADMISSION, RETRY_AFTER_FULL_MS);
}

void driver_submit(gateway_t *gateway, const Control__TaskBatch *tasks)
{
    scheduler_t *s = gateway->peer.scheduler;
    if (!arrays_fit(tasks)) {
        peer_complain(&gateway->peer, NONSENSE_ARRAYS, "task batch ignored");
        return;
    }
    int64_t now_ns = now_of();
    uint32_t share = share_of_table(s);
    const uint32_t *sizes = tasks->size;
    for (size_t i = 0; i < tasks->n_id; i++) {
        submit_one(gateway, tasks, i, sizes, now_ns, share);
        sizes += tasks->n_size_count > 0 ? tasks->size_count[i] : 0;
    }
    scheduler_touch(s);
}

/* What waits leaves the core at once; what is granted goes on without anybody waiting for it. */
static void cancel_task(scheduler_t *s, task_t *task)
{
    model_t *model = catalogue_model(s, task->model);
    if (model != NULL)
        metrics_add(model->metrics.cancelled, 1);
    if (task->batch == NULL && subcluster_cancel(task->queue, task->ref))
        task_give(s, task);
    else
        task_orphan(task);
}

void driver_cancel(gateway_t *gateway, const Control__CancelBatch *cancels)
{
    scheduler_t *s = gateway->peer.scheduler;
    for (size_t i = 0; i < cancels->n_id; i++) {
        task_t *task = idmap_get(&gateway->by_id, cancels->id[i]);
        if (task != NULL) /* else it ended while the message was under way */
            cancel_task(s, task);
    }
    scheduler_touch(s);
}

void driver_gateway_gone(gateway_t *gateway)
{
    scheduler_t *s = gateway->peer.scheduler;
    while (gateway->tasks != NULL)
        cancel_task(s, gateway->tasks);
    scheduler_touch(s);
}

/* ---- Batches ---- */

static batch_t *batch_make(scheduler_t *s, device_t *device, const sched_action_t *action)
{
    batch_t *batch = pool_get(&s->batches);
    if (batch == NULL)
        return NULL;
    *batch = (batch_t){.id = ++s->batches_made,
                       .core_id = action->grant.batch_id,
                       .device = device,
                       .model = shapes_model(s, action->model),
                       .granted_ns = now_of(),
                       .finish_ns = action->grant.finish_ns,
                       .next = device->batches};
    if (!idmap_put(&s->batches_by_id, batch->id, batch)) {
        pool_put(&s->batches, batch);
        return NULL;
    }
    if (device->batches != NULL)
        device->batches->prev = batch;
    device->batches = batch;
    device->inflight++;
    return batch;
}

/* Its tasks must have been taken care of. */
static void batch_give(scheduler_t *s, batch_t *batch)
{
    device_t *device = batch->device;
    (void)idmap_remove(&s->batches_by_id, batch->id);
    if (batch->prev != NULL)
        batch->prev->next = batch->next;
    else
        device->batches = batch->next;
    if (batch->next != NULL)
        batch->next->prev = batch->prev;
    device->inflight--;
    pool_put(&s->batches, batch);
}

/* A task whose batch came to nothing is tried once more, if somebody still waits for it and it can still make it. */
static void try_again(scheduler_t *s, task_t *task, status_t failed, Control__Stage stage)
{
    task->batch = NULL;
    task->next_row = NULL;
    task->failed_status = (uint8_t)failed;
    task->failed_stage = (uint8_t)stage;
    bool again = task->gateway != NULL && task->retries < RETRIES_MAX && enqueue(s, task) == STATUS_OK;
    if (!again) {
        task_drop(s, task, failed, stage, RETRY_AFTER_SHED_MS);
        return;
    }
    task->retries++;
    metrics_add(catalogue_model(s, task->model)->metrics.retried, 1);
}

static int64_t latest_answer_ns(const batch_t *batch)
{
    int64_t latest_ns = INT64_MIN;
    for (const task_t *task = batch->first; task != NULL; task = task->next_row)
        latest_ns = task->answer_ns > latest_ns ? task->answer_ns : latest_ns;
    return latest_ns;
}

static void batch_failed(scheduler_t *s, batch_t *batch, int64_t free_ns, status_t status,
                         Control__Stage stage)
{
    subcluster_batch_ended(batch->device->subcluster, batch->core_id, free_ns);
    for (task_t *task = batch->first, *next; task != NULL; task = next) {
        next = task->next_row;
        try_again(s, task, status, stage);
    }
    batch_give(s, batch);
    scheduler_touch(s);
}

void driver_device_lost(device_t *device)
{
    revoked_forget(device);
    while (device->batches != NULL)
        batch_failed(device->worker->peer.scheduler, device->batches, now_of(), STATUS_UNAVAILABLE,
                     CONTROL__STAGE__STAGE_LOST);
}

/* Rows that failed although the batch ran. Their positions are few as a rule; a row named twice counts once. */
static void drop_failed_rows(worker_t *worker, batch_t *batch, const Control__BatchDone *done)
{
    if (done->n_failed_row != done->n_failed_status) {
        peer_complain(&worker->peer, NONSENSE_ARRAYS, "failed rows and their statuses differ in number");
        return;
    }
    for (size_t i = 0; i < done->n_failed_row; i++) {
        task_t *task = batch->first;
        for (uint32_t row = 0; task != NULL && row < done->failed_row[i]; row++)
            task = task->next_row;
        if (task == NULL) {
            peer_complain(&worker->peer, NONSENSE_BATCH, "a failed row beyond the batch");
            continue;
        }
        if (task->gateway == NULL)
            continue;
        uint32_t status = done->failed_status[i];
        if (status == STATUS_OK || status > STATUS_INTERNAL)
            status = STATUS_INTERNAL;
        gateway_drop(task->gateway, task->id, (status_t)status, CONTROL__STAGE__STAGE_FETCH, 0);
        task_orphan(task); /* told; its slot goes with the batch */
    }
}

static void batch_succeeded(worker_t *worker, batch_t *batch, const Control__BatchDone *done, int64_t free_ns)
{
    scheduler_t *s = worker->peer.scheduler;
    model_t *model = catalogue_model(s, batch->model);
    int64_t now_ns = now_of();
    subcluster_t *sub = batch->device->subcluster;
    subcluster_delays_t *delays = &sub->delays;
    fetch_delay_add(&delays->fetch, batch->count, peer_duration(&worker->peer, done->fetch_ns));
    delay_add(&delays->push, peer_duration(&worker->peer, done->push_ns));
    delay_add(&delays->overrun, now_ns - worker->peer.delay_ns - batch->finish_ns);
    int64_t exec_ns = peer_duration(&worker->peer, done->exec_ns);
    sub->sums.busy_ns += exec_ns;
    model->ran.busy_ns += exec_ns;
    model->ran.rows += batch->count;
    drop_failed_rows(worker, batch, done);
    for (task_t *task = batch->first, *next; task != NULL; task = next) {
        next = task->next_row;
        model->done += task->gateway != NULL;
        if (task->gateway != NULL && now_ns > task->answer_ns)
            subcluster_note_bad(sub);
        task_give(s, task);
    }
    subcluster_batch_ended(sub, batch->core_id, free_ns);
    batch_give(s, batch);
}

void driver_batch_done(worker_t *worker, const Control__BatchDone *done)
{
    scheduler_t *s = worker->peer.scheduler;
    batch_t *batch = idmap_get(&s->batches_by_id, done->batch_id);
    if (batch == NULL && revoked_done(worker, done))
        return;
    if (batch == NULL || batch->device->worker != worker) {
        /* Of a device that had counted as lost: nothing depends on it. */
        peer_complain(&worker->peer, NONSENSE_BATCH, "a batch is done that is not in flight there");
        return;
    }
    device_t *device = batch->device;
    if (done->device != device->index)
        peer_complain(&worker->peer, NONSENSE_DEVICE, "a batch is done on another device than granted");
    int64_t free_ns = now_of() + peer_duration(&worker->peer, done->free_in_ns);
    if (done->status == STATUS_OK) {
        batch_succeeded(worker, batch, done, free_ns);
    } else {
        status_t status = done->status <= STATUS_INTERNAL ? (status_t)done->status : STATUS_INTERNAL;
        log_warn("batch_failed", LOG_STR("worker", worker->peer.name), LOG_U64("batch", batch->id),
                 LOG_STR("status", status_name(status)), LOG_STR("reason", done->reason));
        placement_shun(s, catalogue_model(s, batch->model), worker, latest_answer_ns(batch));
        batch_failed(s, batch, free_ns, status, CONTROL__STAGE__STAGE_WORKER);
    }
    device_settle(device);
    scheduler_touch(s);
}

/* ---- What was decided ---- */

/* The sink's context. */
typedef struct {
    scheduler_t *scheduler;
    subcluster_t *subcluster;
} decider_t;

static grant_node_t *grant_node(scheduler_t *s, uint32_t rows)
{
    size_t bytes = sizeof(grant_node_t) + rows * (5 * sizeof(uint64_t) + 2 * sizeof(uint32_t));
    grant_node_t *node = rpc_arena_alloc(&s->scratch, bytes);
    if (node == NULL)
        return NULL;
    Control__Grant *g = &node->grant;
    control__grant__init(g);
    g->n_task_id = g->n_handle_hi = g->n_handle_lo = g->n_offset_bytes = g->n_budget_ns = rows;
    g->n_gateway = g->n_len_bytes = rows;
    g->task_id = (uint64_t *)(node + 1);
    g->handle_hi = g->task_id + rows;
    g->handle_lo = g->handle_hi + rows;
    g->offset_bytes = g->handle_lo + rows;
    g->budget_ns = (int64_t *)(g->offset_bytes + rows);
    g->gateway = (uint32_t *)(g->budget_ns + rows);
    g->len_bytes = g->gateway + rows;
    node->next = NULL;
    return node;
}

static void put_row(Control__Grant *g, uint32_t row, const task_t *task, int64_t now_ns)
{
    /* A row whose gateway has just gone keeps its place, for the core has sized the batch with it; the worker finds
     * no such peer and leaves it out. */
    g->gateway[row] = task->gateway != NULL ? task->gateway->peer.index : UINT32_MAX;
    g->task_id[row] = task->id;
    g->handle_hi[row] = task->handle_hi;
    g->handle_lo[row] = task->handle_lo;
    g->offset_bytes[row] = task->offset_bytes;
    g->len_bytes[row] = task->len_bytes;
    g->budget_ns[row] = task->answer_ns - now_ns;
}

static void note_grant(scheduler_t *s, const sched_action_t *action, int64_t now_ns)
{
    model_t *model = catalogue_model(s, shapes_model(s, action->model));
    metrics_add(model->metrics.granted, action->grant.count);
    metrics_add(model->metrics.batches, 1);
    metrics_observe(model->metrics.batch_size, action->grant.count);
    metrics_add(model->metrics.stretches, action->grant.stretches != 0);
    for (uint32_t i = 0; i < action->grant.count; i++)
        metrics_observe(model->metrics.queue_seconds, now_ns - action->grant.tasks[i].arrival_ns);
}

/* Of a batch of the core that runs there; 0: none. */
static uint64_t batch_id_of(const device_t *device, uint64_t core_id)
{
    const batch_t *batch = core_id != 0 ? device->batches : NULL;
    while (batch != NULL && batch->core_id != core_id)
        batch = batch->next;
    return batch != NULL ? batch->id : 0;
}

/* start_in_ns stays 0: the worker begins when inputs and device are ready. The core's start is a bound, made of the
 * slowest delays seen; to wait for it would make every batch as slow as the slowest, and what begins earlier only
 * ends earlier, which the worker reports. */
static void on_grant(scheduler_t *s, subcluster_t *sub, const sched_action_t *action)
{
    int64_t now_ns = now_of();
    device_t *device = sub->devices[action->grant.gpu];
    worker_t *worker = device->worker;
    uint32_t count = action->grant.count;
    batch_t *batch = batch_make(s, device, action);
    grant_node_t *node = batch != NULL ? grant_node(s, count) : NULL;
    task_t **link = batch != NULL ? &batch->first : NULL;
    for (uint32_t i = 0; i < count && batch != NULL; i++) {
        task_t *task = task_of_tag(s, action->grant.tasks[i].tag);
        if (task == NULL)
            continue;
        task->batch = batch;
        *link = task;
        link = &task->next_row;
        if (node != NULL)
            put_row(&node->grant, batch->count, task, now_ns);
        batch->count++;
    }
    worker
        ->grant_count++; /* also without memory: the flush sees that one is missing and gives the worker up */
    worker->batches_total++;
    note_grant(s, action, now_ns);
    if (node == NULL)
        return;
    node->grant.batch_id = batch->id;
    node->grant.model = batch->model;
    if (batch->first != NULL && batch->first->shape != NULL) {
        node->grant.n_size = batch->first->shape->axis_count;
        node->grant.size = batch->first->shape->sizes; /* stays as long as the task refers to it */
    }
    node->grant.device = device->index;
    node->grant.finish_in_ns = action->grant.finish_ns - now_ns;
    node->grant.stretches = batch_id_of(device, action->grant.stretches);
    *worker->grants_tail = node;
    worker->grants_tail = &node->next;
}

static void on_drop(scheduler_t *s, const sched_action_t *action)
{
    static const struct {
        status_t status;
        Control__Stage stage;
        uint32_t retry_after_ms;
    } meaning[SCHED_DROP_REASONS] = {
        [SCHED_DROP_EXPIRED] = {STATUS_DEADLINE_EXCEEDED, CONTROL__STAGE__STAGE_QUEUE, 0},
        [SCHED_DROP_WINDOW] = {STATUS_UNAVAILABLE, CONTROL__STAGE__STAGE_QUEUE, RETRY_AFTER_SHED_MS},
        [SCHED_DROP_GPU_LOST] = {STATUS_UNAVAILABLE, CONTROL__STAGE__STAGE_LOST, RETRY_AFTER_SHED_MS},
        [SCHED_DROP_MODEL_REMOVED] = {STATUS_UNAVAILABLE, CONTROL__STAGE__STAGE_LOST, RETRY_AFTER_LOST_MS},
        [SCHED_DROP_NO_ROOM] = {STATUS_UNAVAILABLE, CONTROL__STAGE__STAGE_ADMISSION, RETRY_AFTER_FULL_MS},
    };
    task_t *task = task_of_tag(s, action->drop.task.tag);
    if (task == NULL)
        return;
    sched_drop_t reason = action->drop.reason;
    bool moved = reason == SCHED_DROP_MODEL_REMOVED && task->gateway != NULL;
    if (moved && enqueue(s, task) == STATUS_OK)
        return; /* its model is served elsewhere by now */
    if (task->retries > 0)
        task_drop(s, task, (status_t)task->failed_status, (Control__Stage)task->failed_stage,
                  RETRY_AFTER_SHED_MS);
    else
        task_drop(s, task, meaning[reason].status, meaning[reason].stage, meaning[reason].retry_after_ms);
}

static batch_t *batch_of(const device_t *device, uint64_t core_id)
{
    batch_t *batch = device->batches;
    while (batch != NULL && batch->core_id != core_id)
        batch = batch->next;
    return batch;
}

/* The tasks are queued in the core again, and cost no retry. */
static void on_preempt(scheduler_t *s, const subcluster_t *sub, const sched_action_t *action)
{
    batch_t *batch = batch_of(sub->devices[action->preempt.gpu], action->preempt.batch_id);
    if (batch == NULL)
        return;
    worker_t *worker = batch->device->worker;
    if (worker->revoked_count < sizeof worker->revoked / sizeof worker->revoked[0])
        worker->revoked[worker->revoked_count++] = batch->id;
    revoked_note(batch, s);
    for (task_t *task = batch->first, *next; task != NULL; task = next) {
        next = task->next_row;
        task->batch = NULL;
        task->next_row = NULL;
    }
    batch_give(s, batch);
}

static void on_action(void *ctx, const sched_action_t *action)
{
    const decider_t *by = ctx;
    switch (action->kind) {
    case SCHED_GRANT:
        on_grant(by->scheduler, by->subcluster, action);
        break;
    case SCHED_DROP:
        on_drop(by->scheduler, action);
        break;
    case SCHED_PREEMPT:
        on_preempt(by->scheduler, by->subcluster, action);
        break;
    }
}

/* Those that have something to decide. Returns when the next of them is due: at once if one was told something by
 * another's decisions after its own turn. */
static int64_t decide(scheduler_t *s, int64_t now_ns)
{
    int64_t wake_ns = SCHED_NEVER;
    for (uint32_t i = 0; i < s->subcluster_count; i++) {
        subcluster_t *sub = s->subclusters[i];
        if (sub->dirty || sub->wake_ns <= now_ns)
            subcluster_run(sub, on_action, &(decider_t){s, sub});
    }
    for (uint32_t i = 0; i < s->subcluster_count; i++) {
        int64_t due_ns = s->subclusters[i]->dirty ? now_ns : s->subclusters[i]->wake_ns;
        wake_ns = due_ns < wake_ns ? due_ns : wake_ns;
    }
    return wake_ns;
}

void driver_run(scheduler_t *s)
{
    int64_t now_ns = now_of();
    s->wake_ns = decide(s, now_ns);
    if (s->wake_ns == SCHED_NEVER)
        loop_timer_stop(&s->wake);
    else
        loop_timer_start(&s->wake, s->wake_ns);
    metrics_observe(s->metric.decision, now_of() - now_ns);
    workers_flush(s);
    gateways_flush(s);
    rpc_arena_reset(&s->scratch);
    s->dirty = false; /* all that was touched meanwhile has just been sent */
}

static void on_wake(loop_timer_t *timer, void *arg)
{
    (void)timer;
    scheduler_t *s = arg;
    delay_add(&s->lateness, now_of() - s->wake_ns);
    scheduler_touch(s);
}

/* ---- Making ---- */

status_t driver_init(scheduler_t *s, err_t *err)
{
    uint32_t inflight = s->options.device_inflight_max;
    status_t status = pool_init(&s->tasks, sizeof(task_t), s->options.tasks_max, err);
    if (status == STATUS_OK)
        status = pool_init(&s->batches, sizeof(batch_t), s->options.devices_max * inflight, err);
    if (status == STATUS_OK)
        status = idmap_init(&s->batches_by_id, s->options.devices_max * inflight, err);
    if (status == STATUS_OK)
        status = loop_timer_init(&s->wake, s->loop, on_wake, s, err);
    if (status != STATUS_OK)
        return status;
    s->models = calloc(s->options.models_max, sizeof(*s->models));
    if (s->models == NULL)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %u models", s->options.models_max);
    if (shapes_init(s, err) != STATUS_OK)
        return err->code;
    return subclusters_init(s, err);
}

void driver_dispose(scheduler_t *s)
{
    subclusters_dispose(s);
    shapes_dispose(s);
    loop_timer_dispose(&s->wake);
    idmap_dispose(&s->batches_by_id);
    pool_dispose(&s->batches);
    pool_dispose(&s->tasks);
}
