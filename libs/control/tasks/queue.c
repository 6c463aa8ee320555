/* Hot path. */
#include "control/tasks/queue.h"

#include "control/models/shapes.h"
#include "control/tasks/deadline.h"

status_t task_enqueue(tasks_t *tasks, task_t *task)
{
    const model_t *model = models_get(tasks->models, task->model);
    subcluster_t *home = model->home;
    if (!home)
        return STATUS_NOT_FOUND;
    task->queue = home;
    if (task->shape && !shapes_enter(task->shape)) /* first: what it takes is known then */
        return STATUS_UNAVAILABLE;
    task->queued_ns = tasks->turn->now_ns;
    sched_task_t entry = {
        .tag = task_tag(tasks, task),
        .arrival_ns = task->arrival_ns,
        .deadline_ns = deadline_hold_ns(task, model, home, task->queued_ns),
    };
    return subcluster_submit(home, task->shape ? task->shape->core_id : task->model, &entry, &task->ref);
}

void task_withdraw(tasks_t *tasks, task_t *task)
{
    if (task->proof || (!task->batch && subcluster_cancel(task->queue, task->ref)))
        task_give(tasks, task);
    else
        task_orphan(task);
}
