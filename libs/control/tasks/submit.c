/* Hot path. Allocates nothing per task but pool slots. */
#include "control/tasks/submit.h"

#include "control/models/shapes.h"
#include "control/tasks/deadline.h"
#include "control/tasks/decide.h"
#include "control/tasks/handed.h"
#include "control/tasks/queue.h"

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
           (t->n_admitted == n || t->n_admitted == 0) && sizes_fit(t);
}

/* A budget may be gone already (negative), but its size must make sense. */
static int64_t clamp_budget(gateway_t *gateway, int64_t budget_ns)
{
    if (budget_ns <= DURATION_MOST_NS && budget_ns >= -DURATION_MOST_NS)
        return budget_ns;
    peer_complain(&gateway->peer, NONSENSE_TIME, "task budget beyond an hour");
    return budget_ns > 0 ? DURATION_MOST_NS : -DURATION_MOST_NS;
}

static void fill_task(task_t *task, model_t *model, const Control__TaskBatch *t, size_t i, int64_t now_ns)
{
    gateway_t *gateway = task->gateway;
    task->model = model->id;
    model->tasks++;
    task->handle_hi = t->handle_hi[i];
    task->handle_lo = t->handle_lo[i];
    task->offset_bytes = t->offset_bytes[i];
    task->len_bytes = t->len_bytes[i];
    task->arrival_ns = now_ns;
    task->answer_ns = now_ns - gateway->peer.delay.most_ns + clamp_budget(gateway, t->budget_ns[i]);
}

/* One message of tasks. */
typedef struct {
    tasks_t *tasks;
    gateway_t *gateway;
    const Control__TaskBatch *batch;
    uint32_t share; /* of the table, for this gateway */
    bool made_room; /* all that could leave has left */
} submission_t;

/* One of them, on its way in. */
typedef struct {
    uint64_t id;
    model_t *model;
    int64_t budget_ns;
    uint32_t priority;
    bool admitted; /* by its gateway, which was told what is refused */
    task_t made;   /* what is known of it before it has its slot */
} entry_t;

static void answer(const submission_t *in, const entry_t *entry, status_t status, Control__Stage stage,
                   uint32_t retry_after_ms)
{
    gateway_drop(in->gateway, entry->id, status, stage, retry_after_ms);
}

/* It came, for the advice on devices and for the plans. */
static void count(model_t *model)
{
    model->home->sums.requests++;
    model->ran.requests++;
}

/* It counts as bad, unless it is only tried: more devices would have had room for it. */
static void refuse(const submission_t *in, const entry_t *entry, Control__Stage stage,
                   uint32_t retry_after_ms)
{
    model_t *model = entry->model;
    if (!entry->made.trial) {
        model->home->sums.bad++;
        model->dropped++;
        metrics_add(model->metrics.dropped, 1);
    }
    answer(in, entry, STATUS_UNAVAILABLE, stage, retry_after_ms);
}

/* False: the task was answered. Else its shape is held, or NULL where the model has no axes. */
static bool hold_shape(const submission_t *in, entry_t *entry, const uint32_t *sizes, uint32_t size_count)
{
    if (size_count != shapes_axis_count(entry->model)) {
        peer_complain(&in->gateway->peer, NONSENSE_ARRAYS,
                      "a task without a size for each axis of its model");
        answer(in, entry, STATUS_INVALID_ARGUMENT, CONTROL__STAGE__STAGE_ADMISSION, 0);
        return false;
    }
    if (size_count == 0)
        return true;
    entry->made.shape = shapes_hold(in->tasks->models, entry->model, sizes, size_count);
    if (!entry->made.shape) {
        count(entry->model);
        refuse(in, entry, CONTROL__STAGE__STAGE_SHAPES, RETRY_AFTER_SHED_MS);
    }
    return entry->made.shape;
}

/* What each of the gateways may hold of the table of tasks once that is half full: one that floods finds
 * its own share taken, and the others theirs free. */
static uint32_t share_of_table(const tasks_t *tasks)
{
    uint32_t gateways = roster_gateways(tasks->roster);
    return tasks->turn->options.tasks_max / (gateways > 0 ? gateways : 1);
}

static bool floods(const submission_t *in)
{
    const tasks_t *tasks = in->tasks;
    return tasks->pool.lent >= tasks->turn->options.tasks_max / 2 && in->gateway->by_id.len >= in->share;
}

/* NULL: there is no room, for this gateway or for any. No time passes within a message, so that room is made once. */
static task_t *take(submission_t *in, uint64_t id)
{
    task_t *task = floods(in) ? NULL : task_take(in->tasks, in->gateway, id);
    if (!task && !in->made_room) {
        in->made_room = true;
        decide_due(in->tasks);
        task = floods(in) ? NULL : task_take(in->tasks, in->gateway, id);
    }
    if (!task && floods(in))
        peer_complain(&in->gateway->peer, NONSENSE_FLOOD,
                      "it holds its share of the table of tasks; more are refused");
    return task;
}

/* False: the task was answered, or is none. */
static bool admit(const submission_t *in, const entry_t *entry)
{
    gateway_t *gateway = in->gateway;
    gateway->tasks_total++;
    if (idmap_get(&gateway->by_id, entry->id)) {
        peer_complain(&gateway->peer, NONSENSE_DUPLICATE, "a task id that is still in use");
        return false; /* the first one is answered */
    }
    if (!entry->model) {
        peer_complain(&gateway->peer, NONSENSE_MODEL, "task for an unknown catalogue id");
        answer(in, entry, STATUS_NOT_FOUND, CONTROL__STAGE__STAGE_ADMISSION, 0);
        return false;
    }
    if (!entry->model->home) {
        answer(in, entry, STATUS_UNAVAILABLE, CONTROL__STAGE__STAGE_ADMISSION, RETRY_AFTER_LOST_MS);
        return false;
    }
    return true;
}

/* Whether those of higher priority leave room for it. */
static bool has_room(shed_t *shed, const entry_t *entry)
{
    if (!entry->admitted)
        return shed_admits(shed, entry->priority);
    shed_note_judged(shed, entry->priority, 1, 0);
    return true;
}

/* False: the task was answered. */
static bool let_in(const submission_t *in, entry_t *entry)
{
    model_t *model = entry->model;
    int64_t now_ns = in->tasks->turn->now_ns, alone_ns = deadline_alone_ns(&entry->made, model);
    if (!deadline_infeasible(model->home, alone_ns, entry->budget_ns)) {
        count(model);
        bool admitted = has_room(&model->home->shed, entry);
        if (!admitted)
            refuse(in, entry, CONTROL__STAGE__STAGE_ADMISSION, RETRY_AFTER_SHED_MS);
        return admitted;
    }
    entry->made.trial = deadline_try(model, alone_ns, entry->budget_ns, now_ns);
    if (entry->made.trial) {
        model->granted_ns = now_ns;
        return true;
    }
    model->infeasible++;
    metrics_add(model->metrics.infeasible, 1);
    answer(in, entry, STATUS_DEADLINE_EXCEEDED, CONTROL__STAGE__STAGE_ADMISSION, 0);
    return false;
}

/* NULL: the task was answered. */
static task_t *place(submission_t *in, entry_t *entry)
{
    if (!let_in(in, entry))
        return NULL;
    task_t *task = take(in, entry->id);
    if (!task)
        refuse(in, entry, CONTROL__STAGE__STAGE_ADMISSION, RETRY_AFTER_FULL_MS);
    return task;
}

static void submit_one(submission_t *in, size_t i, const uint32_t *sizes)
{
    tasks_t *tasks = in->tasks;
    const Control__TaskBatch *b = in->batch;
    entry_t entry = {.id = b->id[i],
                     .model = models_get(tasks->models, b->model[i]),
                     .budget_ns = b->budget_ns[i],
                     .priority = b->n_priority > 0 ? b->priority[i] : 0,
                     .admitted = b->n_admitted > 0 && b->admitted[i]};
    if (!admit(in, &entry) || !hold_shape(in, &entry, sizes, b->n_size_count > 0 ? b->size_count[i] : 0))
        return;
    task_t *task = place(in, &entry);
    if (!task) {
        if (entry.made.shape)
            shapes_release(entry.made.shape);
        return;
    }
    fill_task(task, entry.model, b, i, tasks->turn->now_ns);
    task->shape = entry.made.shape;
    task->trial = entry.made.trial;
    status_t status = task_enqueue(tasks, task);
    if (status != STATUS_OK)
        task_drop(tasks, task, status, CONTROL__STAGE__STAGE_ADMISSION, RETRY_AFTER_FULL_MS);
}

void submit_tasks(tasks_t *tasks, gateway_t *gateway, const Control__TaskBatch *batch)
{
    if (!arrays_fit(batch)) {
        peer_complain(&gateway->peer, NONSENSE_ARRAYS, "task batch ignored");
        return;
    }
    submission_t in = {.tasks = tasks, .gateway = gateway, .batch = batch, .share = share_of_table(tasks)};
    const uint32_t *sizes = batch->size;
    for (size_t i = 0; i < batch->n_id; i++) {
        submit_one(&in, i, sizes);
        if (batch->n_size_count > 0 && batch->size_count[i] > 0) /* else it may be NULL */
            sizes += batch->size_count[i];
    }
    turn_touch(tasks->turn);
}

static void cancel_task(tasks_t *tasks, task_t *task)
{
    model_t *model = models_get(tasks->models, task->model);
    if (model)
        metrics_add(model->metrics.cancelled, 1);
    task_withdraw(tasks, task);
}

/* False: it ended before the message came. */
static bool cancel_id(tasks_t *tasks, const gateway_t *gateway, uint64_t id)
{
    task_t *task = idmap_get(&gateway->by_id, id);
    if (task)
        cancel_task(tasks, task);
    return task;
}

void submit_cancels(tasks_t *tasks, gateway_t *gateway, const Control__CancelBatch *cancels)
{
    for (size_t i = 0; i < cancels->n_id; i++)
        (void)cancel_id(tasks, gateway, cancels->id[i]);
    for (size_t i = 0; i < cancels->n_missed; i++)
        if (!cancel_id(tasks, gateway, cancels->missed[i]))
            handed_missed(tasks, gateway, cancels->missed[i]);
    turn_touch(tasks->turn);
}

void submit_gateway_gone(tasks_t *tasks, gateway_t *gateway)
{
    while (gateway->tasks)
        cancel_task(tasks, gateway->tasks);
    turn_touch(tasks->turn);
}
