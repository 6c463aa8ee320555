/* Hot path: pool slots only. */
#include "scheduler/tasks.h"

#include "scheduler/catalogue.h"
#include "scheduler/gateways.h"
#include "scheduler/service.h"
#include "scheduler/shapes.h"
#include "scheduler/subcluster.h"

uint64_t task_tag(const scheduler_t *s, const task_t *task)
{
    return (uint64_t)task->generation << 32 | pool_index(&s->tasks, task);
}

task_t *task_of_tag(const scheduler_t *s, uint64_t tag)
{
    uint32_t index = (uint32_t)tag;
    if (index >= s->tasks.capacity || !pool_is_lent(&s->tasks, index))
        return NULL;
    task_t *task = pool_at(&s->tasks, index);
    return task->generation == (uint32_t)(tag >> 32) ? task : NULL;
}

task_t *task_take(scheduler_t *s, gateway_t *gateway, uint64_t id)
{
    task_t *task = pool_get(&s->tasks);
    if (task == NULL)
        return NULL;
    if (!idmap_put(&gateway->by_id, id, task)) {
        pool_put(&s->tasks, task);
        return NULL;
    }
    uint32_t generation = task->generation;
    *task = (task_t){.gateway = gateway, .id = id, .generation = generation, .next = gateway->tasks};
    if (gateway->tasks != NULL)
        gateway->tasks->prev = task;
    gateway->tasks = task;
    return task;
}

void task_orphan(task_t *task)
{
    gateway_t *gateway = task->gateway;
    if (gateway == NULL)
        return;
    (void)idmap_remove(&gateway->by_id, task->id);
    if (task->prev != NULL)
        task->prev->next = task->next;
    else
        gateway->tasks = task->next;
    if (task->next != NULL)
        task->next->prev = task->prev;
    task->prev = task->next = NULL;
    task->gateway = NULL;
}

void task_give(scheduler_t *s, task_t *task)
{
    task_orphan(task);
    if (task->shape != NULL)
        shapes_release(task->shape);
    task->generation++;
    pool_put(&s->tasks, task);
}

void task_tell(scheduler_t *s, const task_t *task, status_t status, Control__Stage stage,
               uint32_t retry_after_ms)
{
    model_t *model = catalogue_model(s, task->model);
    if (task->gateway == NULL)
        return;
    if (model != NULL) {
        model->dropped++;
        metrics_add(model->metrics.dropped, 1);
        if (!task->trial)
            subcluster_note_bad(task->queue);
    }
    gateway_drop(task->gateway, task->id, status, stage, retry_after_ms);
}

void task_drop(scheduler_t *s, task_t *task, status_t status, Control__Stage stage, uint32_t retry_after_ms)
{
    task_tell(s, task, status, stage, retry_after_ms);
    task_give(s, task);
}
