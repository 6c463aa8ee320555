/* Hot path. Allocates nothing per task but pool slots. */
#include "scheduler/submit.h"

#include "loop/loop.h"
#include "scheduler/catalogue.h"
#include "scheduler/deadline.h"
#include "scheduler/driver.h"
#include "scheduler/gateways.h"
#include "scheduler/registry.h"
#include "scheduler/service.h"
#include "scheduler/shapes.h"
#include "scheduler/subcluster.h"
#include "scheduler/tasks.h"

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

status_t task_enqueue(scheduler_t *s, task_t *task)
{
    const model_t *model = catalogue_model(s, task->model);
    subcluster_t *home = model->home;
    if (home == NULL)
        return STATUS_NOT_FOUND;
    task->queue = home;
    if (task->shape != NULL && !shapes_enter(task->shape)) /* first: what it takes is known then */
        return STATUS_UNAVAILABLE;
    task->queued_ns = loop_now_ns();
    sched_task_t entry = {
        .tag = task_tag(s, task),
        .arrival_ns = task->arrival_ns,
        .deadline_ns = deadline_hold_ns(task, model, home, task->queued_ns),
    };
    return subcluster_submit(home, task->shape != NULL ? task->shape->core_id : task->model, &entry,
                             &task->ref);
}

/* It came, for the advice on devices and for the plans. */
static void count(model_t *model)
{
    model->home->sums.requests++;
    model->ran.requests++;
}

/* It counts as bad: more devices would have had room for it. */
static void refuse(model_t *model, gateway_t *gateway, uint64_t id, Control__Stage stage,
                   uint32_t retry_after_ms)
{
    model->home->sums.bad++;
    model->dropped++;
    metrics_add(model->metrics.dropped, 1);
    gateway_drop(gateway, id, STATUS_UNAVAILABLE, stage, retry_after_ms);
}

/* False: the task was answered. Else *shape is held, or NULL where the model has no axes. */
static bool hold_shape(gateway_t *gateway, uint64_t id, model_t *model, const uint32_t *sizes,
                       uint32_t size_count, shape_t **shape)
{
    *shape = NULL;
    if (size_count != shapes_axis_count(model)) {
        peer_complain(&gateway->peer, NONSENSE_ARRAYS, "a task without a size for each axis of its model");
        gateway_drop(gateway, id, STATUS_INVALID_ARGUMENT, CONTROL__STAGE__STAGE_ADMISSION, 0);
        return false;
    }
    if (size_count == 0)
        return true;
    *shape = shapes_hold(gateway->peer.scheduler, model, sizes, size_count);
    if (*shape == NULL) {
        count(model);
        refuse(model, gateway, id, CONTROL__STAGE__STAGE_SHAPES, RETRY_AFTER_SHED_MS);
    }
    return *shape != NULL;
}

/* One message of tasks. */
typedef struct {
    gateway_t *gateway;
    const Control__TaskBatch *tasks;
    int64_t now_ns;
    uint32_t share; /* of the table, for this gateway */
    bool made_room; /* all that could leave has left */
} submission_t;

/* What each of the gateways may hold of the table of tasks once that is half full: one that floods finds
 * its own share taken, and the others theirs free. */
static uint32_t share_of_table(const scheduler_t *s)
{
    uint32_t gateways = 0;
    for (uint32_t i = 0; i < PEERS_MAX; i++)
        gateways += s->gateways[i] != NULL;
    return s->options.tasks_max / (gateways > 0 ? gateways : 1);
}

static bool floods(const submission_t *in)
{
    const scheduler_t *s = in->gateway->peer.scheduler;
    return s->tasks.lent >= s->options.tasks_max / 2 && in->gateway->by_id.len >= in->share;
}

/* NULL: there is no room, for this gateway or for any. No time passes within a message, so that room is made once. */
static task_t *take(submission_t *in, uint64_t id)
{
    scheduler_t *s = in->gateway->peer.scheduler;
    task_t *task = floods(in) ? NULL : task_take(s, in->gateway, id);
    if (task == NULL && !in->made_room) {
        in->made_room = true;
        driver_decide_due(s, in->now_ns);
        task = floods(in) ? NULL : task_take(s, in->gateway, id);
    }
    if (task == NULL && floods(in))
        peer_complain(&in->gateway->peer, NONSENSE_FLOOD,
                      "it holds its share of the table of tasks; more are refused");
    return task;
}

/* False: the task was answered, or is none. */
static bool admit(submission_t *in, size_t i, const model_t *model)
{
    gateway_t *gateway = in->gateway;
    uint64_t id = in->tasks->id[i];
    gateway->tasks_total++;
    if (idmap_get(&gateway->by_id, id) != NULL) {
        peer_complain(&gateway->peer, NONSENSE_DUPLICATE, "a task id that is still in use");
        return false; /* the first one is answered */
    }
    if (model == NULL) {
        peer_complain(&gateway->peer, NONSENSE_MODEL, "task for an unknown catalogue id");
        gateway_drop(gateway, id, STATUS_NOT_FOUND, CONTROL__STAGE__STAGE_ADMISSION, 0);
        return false;
    }
    if (model->home == NULL) {
        gateway_drop(gateway, id, STATUS_UNAVAILABLE, CONTROL__STAGE__STAGE_ADMISSION, RETRY_AFTER_LOST_MS);
        return false;
    }
    return true;
}

/* False: the task was answered. *made is what is known of it. */
static bool let_in(submission_t *in, size_t i, model_t *model, task_t *made)
{
    gateway_t *gateway = in->gateway;
    const Control__TaskBatch *t = in->tasks;
    int64_t alone_ns = deadline_alone_ns(made, model), budget_ns = t->budget_ns[i];
    if (deadline_infeasible(model->home, alone_ns, budget_ns)) {
        if (!deadline_try(model, alone_ns, budget_ns, in->now_ns)) {
            model->infeasible++;
            metrics_add(model->metrics.infeasible, 1);
            gateway_drop(gateway, t->id[i], STATUS_DEADLINE_EXCEEDED, CONTROL__STAGE__STAGE_ADMISSION, 0);
            return false;
        }
        model->granted_ns = in->now_ns;
        made->trial = true;
        return true;
    }
    count(model);
    if (!shed_admits(&model->home->shed, t->n_priority > 0 ? t->priority[i] : 0)) {
        /* for those of higher priority */
        refuse(model, gateway, t->id[i], CONTROL__STAGE__STAGE_ADMISSION, RETRY_AFTER_SHED_MS);
        return false;
    }
    return true;
}

static void submit_one(submission_t *in, size_t i, const uint32_t *sizes)
{
    scheduler_t *s = in->gateway->peer.scheduler;
    const Control__TaskBatch *t = in->tasks;
    model_t *model = catalogue_model(s, t->model[i]);
    task_t made = {0};
    if (!admit(in, i, model) || !hold_shape(in->gateway, t->id[i], model, sizes,
                                            t->n_size_count > 0 ? t->size_count[i] : 0, &made.shape))
        return;
    task_t *task = NULL;
    if (let_in(in, i, model, &made)) {
        task = take(in, t->id[i]);
        if (task == NULL && made.trial)
            gateway_drop(in->gateway, t->id[i], STATUS_UNAVAILABLE, CONTROL__STAGE__STAGE_ADMISSION,
                         RETRY_AFTER_FULL_MS);
        else if (task == NULL)
            refuse(model, in->gateway, t->id[i], CONTROL__STAGE__STAGE_ADMISSION, RETRY_AFTER_FULL_MS);
    }
    if (task == NULL) {
        if (made.shape != NULL)
            shapes_release(made.shape);
        return;
    }
    fill_task(task, t, i, in->now_ns);
    task->shape = made.shape;
    task->trial = made.trial;
    status_t status = task_enqueue(s, task);
    if (status != STATUS_OK)
        task_drop(s, task, status, CONTROL__STAGE__STAGE_ADMISSION, RETRY_AFTER_FULL_MS);
}

void submit_tasks(gateway_t *gateway, const Control__TaskBatch *tasks)
{
    scheduler_t *s = gateway->peer.scheduler;
    if (!arrays_fit(tasks)) {
        peer_complain(&gateway->peer, NONSENSE_ARRAYS, "task batch ignored");
        return;
    }
    submission_t in = {
        .gateway = gateway, .tasks = tasks, .now_ns = loop_now_ns(), .share = share_of_table(s)};
    const uint32_t *sizes = tasks->size;
    for (size_t i = 0; i < tasks->n_id; i++) {
        submit_one(&in, i, sizes);
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

void submit_cancels(gateway_t *gateway, const Control__CancelBatch *cancels)
{
    scheduler_t *s = gateway->peer.scheduler;
    for (size_t i = 0; i < cancels->n_id; i++) {
        task_t *task = idmap_get(&gateway->by_id, cancels->id[i]);
        if (task != NULL) /* else it ended while the message was under way */
            cancel_task(s, task);
    }
    scheduler_touch(s);
}

void submit_gateway_gone(gateway_t *gateway)
{
    scheduler_t *s = gateway->peer.scheduler;
    while (gateway->tasks != NULL)
        cancel_task(s, gateway->tasks);
    scheduler_touch(s);
}
