/* Hot path. Allocates nothing but the turn's scratch arena. */
#include "scheduler/driver.h"

#include "loop/loop.h"
#include "scheduler/batches.h"
#include "scheduler/catalogue.h"
#include "scheduler/deadline.h"
#include "scheduler/delay.h"
#include "scheduler/devices.h"
#include "scheduler/gateways.h"
#include "scheduler/revoked.h"
#include "scheduler/service.h"
#include "scheduler/shapes.h"
#include "scheduler/subcluster.h"
#include "scheduler/subclusters.h"
#include "scheduler/submit.h"
#include "scheduler/tasks.h"
#include "scheduler/workers.h"

#include <stdlib.h>

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
    model->granted_ns = now_ns;
    metrics_add(model->metrics.granted, action->grant.count);
    metrics_add(model->metrics.batches, 1);
    metrics_observe(model->metrics.batch_size, action->grant.count);
    metrics_add(model->metrics.stretches, action->grant.stretches != 0);
    for (uint32_t i = 0; i < action->grant.count; i++)
        metrics_observe(model->metrics.queue_seconds, now_ns - action->grant.tasks[i].arrival_ns);
}

static void on_grant(scheduler_t *s, subcluster_t *sub, const sched_action_t *action)
{
    int64_t now_ns = loop_now_ns();
    device_t *device = sub->devices[action->grant.gpu];
    worker_t *worker = device->worker;
    uint32_t count = action->grant.count;
    batch_t *batch = batch_make(s, device, action);
    grant_node_t *node = batch != NULL ? grant_node(s, count) : NULL;
    task_t **link = batch != NULL ? &batch->first : NULL;
    for (uint32_t i = 0; i < count; i++) {
        task_t *task = task_of_tag(s, action->grant.tasks[i].tag);
        if (task != NULL && batch == NULL)
            task_drop(s, task, STATUS_UNAVAILABLE, CONTROL__STAGE__STAGE_LOST, RETRY_AFTER_SHED_MS);
        if (task == NULL || batch == NULL)
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
    const batch_t *joined = batch_of(device, action->grant.stretches);
    node->grant.stretches = joined != NULL ? joined->id : 0;
    *worker->grants_tail = node;
    worker->grants_tail = &node->next;
}

/* The core has held it for an SLO, and its client would wait for longer. */
static bool wants_more(const scheduler_t *s, task_t *task)
{
    const model_t *model = catalogue_model(s, task->model);
    return task->gateway != NULL && model != NULL && deadline_again(task, model, loop_now_ns());
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
    if (moved && task_enqueue(s, task) == STATUS_OK)
        return; /* its model is served elsewhere by now */
    if (reason == SCHED_DROP_EXPIRED && wants_more(s, task) && task_enqueue(s, task) == STATUS_OK)
        return;
    if (task->retries > 0)
        task_drop(s, task, (status_t)task->failed_status, (Control__Stage)task->failed_stage,
                  RETRY_AFTER_SHED_MS);
    else
        task_drop(s, task, meaning[reason].status, meaning[reason].stage, meaning[reason].retry_after_ms);
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

static void run(scheduler_t *s, subcluster_t *sub)
{
    subcluster_run(sub, on_action, &(decider_t){s, sub});
}

void driver_decide_due(scheduler_t *s, int64_t now_ns)
{
    for (uint32_t i = 0; i < s->subcluster_count; i++)
        if (subcluster_is_due(s->subclusters[i], now_ns))
            run(s, s->subclusters[i]);
}

/* Those that have something to decide. Returns when the next of them is due: at once if one was told something by
 * another's decisions after its own turn. */
static int64_t decide(scheduler_t *s, int64_t now_ns)
{
    int64_t wake_ns = SCHED_NEVER;
    for (uint32_t i = 0; i < s->subcluster_count; i++) {
        subcluster_t *sub = s->subclusters[i];
        if (sub->dirty || sub->wake_ns <= now_ns)
            run(s, sub);
    }
    for (uint32_t i = 0; i < s->subcluster_count; i++) {
        int64_t due_ns = s->subclusters[i]->dirty ? now_ns : s->subclusters[i]->wake_ns;
        wake_ns = due_ns < wake_ns ? due_ns : wake_ns;
    }
    return wake_ns;
}

void driver_run(scheduler_t *s)
{
    int64_t now_ns = loop_now_ns();
    /* Here and not in the timer's call: other work of the loop comes between the two. */
    if (s->wake_ns <= now_ns)
        delay_add(&s->lateness, now_ns, now_ns - s->wake_ns);
    s->wake_ns = decide(s, now_ns);
    if (s->wake_ns == SCHED_NEVER)
        loop_timer_stop(&s->wake);
    else
        loop_timer_start(&s->wake, s->wake_ns);
    metrics_observe(s->metric.decision, loop_now_ns() - now_ns);
    workers_flush(s);
    gateways_flush(s);
    rpc_arena_reset(&s->scratch);
    s->dirty = false; /* all that was touched meanwhile has just been sent */
}

static void on_wake(loop_timer_t *timer, void *arg)
{
    (void)timer;
    scheduler_touch(arg);
}

/* ---- Making ---- */

status_t driver_init(scheduler_t *s, err_t *err)
{
    s->wake_ns = SCHED_NEVER;
    const uint32_t batches_max =
        s->options.devices_max * subcluster_inflight_most(s->options.device_inflight_max);
    status_t status = pool_init(&s->tasks, sizeof(task_t), s->options.tasks_max, err);
    if (status == STATUS_OK)
        status = pool_init(&s->batches, sizeof(batch_t), batches_max, err);
    if (status == STATUS_OK)
        status = idmap_init(&s->batches_by_id, batches_max, err);
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
