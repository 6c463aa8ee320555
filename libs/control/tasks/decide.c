/* Hot path. Allocates nothing but the turn's scratch arena. */
#include "control/tasks/decide.h"

#include "base/clock.h"
#include "control/models/placement.h"
#include "control/models/shapes.h"
#include "control/tasks/batches.h"
#include "control/tasks/deadline.h"
#include "control/tasks/prove.h"
#include "control/tasks/queue.h"
#include "control/tasks/revoked.h"
#include "grant_rows.h"

/* ---- What was decided ---- */

/* The sink's context. */
typedef struct {
    tasks_t *tasks;
    subcluster_t *subcluster;
} decider_t;

static grant_node_t *grant_node(tasks_t *tasks, uint32_t rows)
{
    size_t bytes = sizeof(grant_node_t) + (size_t)rows * GRANT_ROW_WORDS * sizeof(uint64_t);
    grant_node_t *node = pb_arena_alloc(&tasks->turn->scratch, bytes);
    if (!node)
        return NULL;
    control__grant__init(&node->grant);
    grant_rows_begin(&node->grant, (uint64_t *)(node + 1));
    node->next = NULL;
    return node;
}

static void put_row(Control__Grant *grant, const task_t *task, int64_t now_ns)
{
    /* A row whose gateway has just gone keeps its place, for the core has sized the batch with it; the worker finds
     * no such peer and leaves it out. */
    const grant_row_t row = {.gateway = task->gateway ? task->gateway->peer.index : UINT32_MAX,
                             .task_id = task->id,
                             .handle_hi = task->handle_hi,
                             .handle_lo = task->handle_lo,
                             .offset_bytes = task->offset_bytes,
                             .len_bytes = task->len_bytes,
                             .budget_ns = task->answer_ns - now_ns};
    grant_rows_append(grant, &row);
}

static void note_grant(tasks_t *tasks, const sched_action_t *action, int64_t now_ns)
{
    model_t *model = models_get(tasks->models, shapes_model(tasks->models, action->model));
    model->granted_ns = now_ns;
    metrics_add(model->metrics.granted, action->grant.count);
    metrics_add(model->metrics.batches, 1);
    metrics_observe(model->metrics.batch_size, action->grant.count);
    metrics_add(model->metrics.stretches, action->grant.stretches != 0);
    for (uint32_t i = 0; i < action->grant.count; i++)
        metrics_observe(model->metrics.queue_seconds, now_ns - action->grant.tasks[i].arrival_ns);
}

/* Whether a gateway missed a result is known once it was due, and the gateway has waited a little and said so. */
static void note_trial(tasks_t *tasks, const batch_t *batch, device_t *device)
{
    enum { WAIT_MS = 100 };
    const model_t *model = models_get(tasks->models, batch->model);
    if (!placement_is_on_trial(model, device))
        return;
    int64_t latest_ns = batch_latest_answer_ns(batch), now_ns = tasks->turn->now_ns;
    placement_granted(tasks->models, model, device,
                      (latest_ns > now_ns ? latest_ns : now_ns) + WAIT_MS * NS_PER_MS);
}

static void on_grant(tasks_t *tasks, subcluster_t *sub, const sched_action_t *action)
{
    int64_t now_ns = tasks->turn->now_ns;
    device_t *device = sub->devices[action->grant.gpu];
    worker_t *worker = device->worker;
    uint32_t count = action->grant.count;
    batch_t *batch = batch_make(tasks, device, action);
    grant_node_t *node = batch ? grant_node(tasks, count) : NULL;
    task_t **link = batch ? &batch->first : NULL;
    for (uint32_t i = 0; i < count; i++) {
        task_t *task = task_of_tag(tasks, action->grant.tasks[i].tag);
        if (task && !batch)
            task_drop(tasks, task, STATUS_UNAVAILABLE, CONTROL__STAGE__STAGE_LOST, RETRY_AFTER_SHED_MS);
        if (!task || !batch)
            continue;
        task->batch = batch;
        if (task->retries > 0 && task->again_ns == 0)
            task->again_ns = now_ns;
        *link = task;
        link = &task->next_row;
        if (node)
            put_row(&node->grant, task, now_ns);
        batch->count++;
    }
    worker
        ->grant_count++; /* also without memory: the flush sees that one is missing and gives the worker up */
    worker->batches_total++;
    note_grant(tasks, action, now_ns);
    if (batch)
        note_trial(tasks, batch, device);
    if (!node)
        return;
    node->grant.batch_id = batch->id;
    node->grant.model = batch->model;
    if (batch->first && batch->first->shape) {
        node->grant.n_size = batch->first->shape->axis_count;
        node->grant.size = batch->first->shape->sizes; /* stays as long as the task refers to it */
    }
    node->grant.device = device->index;
    const batch_t *joined = batch_of(device, action->grant.stretches);
    node->grant.stretches = joined ? joined->id : 0;
    *worker->grants_tail = node;
    worker->grants_tail = &node->next;
}

/* The core has held it for an SLO, and its client would wait for longer. */
static bool wants_more(const tasks_t *tasks, task_t *task)
{
    const model_t *model = models_get(tasks->models, task->model);
    return task->gateway && model && deadline_again(task, model, tasks->turn->now_ns);
}

static void on_drop(tasks_t *tasks, const sched_action_t *action)
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
    task_t *task = task_of_tag(tasks, action->drop.task.tag);
    if (!task)
        return;
    sched_drop_t reason = action->drop.reason;
    bool moved = reason == SCHED_DROP_MODEL_REMOVED && task->gateway;
    if (moved || (reason == SCHED_DROP_EXPIRED && wants_more(tasks, task))) {
        if (task_enqueue(tasks, task) == STATUS_OK)
            return;                        /* its model may be served elsewhere by now */
        reason = SCHED_DROP_MODEL_REMOVED; /* it has time, but nobody serves it any more */
    }
    if (task->retries > 0)
        task_drop(tasks, task, (status_t)task->failed_status, (Control__Stage)task->failed_stage,
                  RETRY_AFTER_SHED_MS);
    else
        task_drop(tasks, task, meaning[reason].status, meaning[reason].stage, meaning[reason].retry_after_ms);
}

/* The tasks are queued in the core again, and cost no retry. */
static void on_preempt(tasks_t *tasks, const subcluster_t *sub, const sched_action_t *action)
{
    batch_t *batch = batch_of(sub->devices[action->preempt.gpu], action->preempt.batch_id);
    if (!batch)
        return;
    worker_t *worker = batch->device->worker;
    if (worker->revoked_count < sizeof worker->revoked / sizeof worker->revoked[0])
        worker->revoked[worker->revoked_count++] = batch->id;
    revoked_note(tasks, batch);
    for (task_t *task = batch->first, *next; task; task = next) {
        next = task->next_row;
        task->batch = NULL;
        task->next_row = NULL;
    }
    batch_give(tasks, batch);
}

static void on_action(void *ctx, const sched_action_t *action)
{
    const decider_t *by = ctx;
    switch (action->kind) {
    case SCHED_GRANT:
        on_grant(by->tasks, by->subcluster, action);
        break;
    case SCHED_DROP:
        on_drop(by->tasks, action);
        break;
    case SCHED_PREEMPT:
        on_preempt(by->tasks, by->subcluster, action);
        break;
    }
}

static void run(tasks_t *tasks, subcluster_t *sub)
{
    subcluster_run(sub, on_action, &(decider_t){tasks, sub});
}

void decide_due(tasks_t *tasks)
{
    for (uint32_t i = 0; i < tasks->subclusters->count; i++)
        if (subcluster_is_due(tasks->subclusters->all[i], tasks->turn->now_ns))
            run(tasks, tasks->subclusters->all[i]);
}

/* At once if one was told something by another's decisions after its own turn. */
int64_t decide(tasks_t *tasks)
{
    int64_t now_ns = tasks->turn->now_ns, wake_ns = proofs_expire(tasks);
    for (uint32_t i = 0; i < tasks->subclusters->count; i++) {
        subcluster_t *sub = tasks->subclusters->all[i];
        if (sub->dirty || sub->wake_ns <= now_ns)
            run(tasks, sub);
    }
    placement_close_trials(tasks->models);
    for (uint32_t i = 0; i < tasks->subclusters->count; i++) {
        int64_t due_ns = tasks->subclusters->all[i]->dirty ? now_ns : tasks->subclusters->all[i]->wake_ns;
        wake_ns = due_ns < wake_ns ? due_ns : wake_ns;
    }
    return wake_ns;
}
