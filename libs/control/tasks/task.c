/* Hot path: pool slots only. */
#include "control/tasks/task.h"

#include "control/models/shapes.h"
#include "control/tasks/batches.h"
#include "control/tasks/handed.h"
#include "control/tasks/proofs.h"

uint64_t task_tag(const tasks_t *tasks, const task_t *task)
{
    return (uint64_t)task->generation << 32 | pool_index(&tasks->pool, task);
}

task_t *task_of_tag(const tasks_t *tasks, uint64_t tag)
{
    uint32_t index = (uint32_t)tag;
    if (index >= tasks->pool.capacity || !pool_is_lent(&tasks->pool, index))
        return NULL;
    task_t *task = pool_at(&tasks->pool, index);
    return task->generation == (uint32_t)(tag >> 32) ? task : NULL;
}

task_t *task_take(tasks_t *tasks, gateway_t *gateway, uint64_t id)
{
    task_t *task = pool_get(&tasks->pool);
    if (!task)
        return NULL;
    if (!idmap_put(&gateway->by_id, id, task)) {
        pool_put(&tasks->pool, task);
        return NULL;
    }
    uint32_t generation = task->generation;
    *task = (task_t){.gateway = gateway, .id = id, .generation = generation, .next = gateway->tasks};
    if (gateway->tasks)
        gateway->tasks->prev = task;
    gateway->tasks = task;
    return task;
}

void task_orphan(task_t *task)
{
    gateway_t *gateway = task->gateway;
    if (!gateway)
        return;
    (void)idmap_remove(&gateway->by_id, task->id);
    if (task->prev)
        task->prev->next = task->next;
    else
        gateway->tasks = task->next;
    if (task->next)
        task->next->prev = task->prev;
    task->prev = task->next = NULL;
    task->gateway = NULL;
}

void task_give(tasks_t *tasks, task_t *task)
{
    task_orphan(task);
    if (task->proof)
        proof_forget(tasks, task);
    if (task->shape)
        shapes_release(task->shape);
    models_get(tasks->models, task->model)->tasks--;
    task->generation++;
    pool_put(&tasks->pool, task);
}

/* Counts the task as dropped and tells its gateway, if it still has one; task_drop gives the task back as well. */
static void task_tell(tasks_t *tasks, const task_t *task, status_t status, Control__Stage stage,
                      uint32_t retry_after_ms)
{
    model_t *model = models_get(tasks->models, task->model);
    if (!task->gateway)
        return;
    if (model) {
        model->dropped++;
        metrics_add(model->metrics.dropped, 1);
        if (!task->trial)
            subcluster_note_bad(task->queue);
    }
    gateway_drop(task->gateway, task->id, status, stage, retry_after_ms);
}

void task_drop(tasks_t *tasks, task_t *task, status_t status, Control__Stage stage, uint32_t retry_after_ms)
{
    task_tell(tasks, task, status, stage, retry_after_ms);
    task_give(tasks, task);
}

/* ---- Making ---- */

status_t tasks_init(tasks_t *tasks, turn_t *turn, const roster_t *roster, models_t *models, err_t *err)
{
    *tasks = (tasks_t){.turn = turn, .roster = roster, .subclusters = models->subclusters, .models = models};
    const uint32_t batches_max =
        turn->options.devices_max * subcluster_inflight_most(turn->options.device_inflight_max);
    status_t status = pool_init(&tasks->pool, sizeof(task_t), turn->options.tasks_max, err);
    if (status == STATUS_OK)
        status = pool_init(&tasks->batches, sizeof(batch_t), batches_max, err);
    if (status == STATUS_OK)
        status = idmap_init(&tasks->batches_by_id, batches_max, err);
    if (status == STATUS_OK)
        status = handed_init(tasks, err);
    if (status == STATUS_OK)
        status = proofs_init(tasks, err);
    return status;
}

void tasks_dispose(tasks_t *tasks)
{
    proofs_dispose(tasks);
    handed_dispose(tasks);
    idmap_dispose(&tasks->batches_by_id);
    pool_dispose(&tasks->batches);
    pool_dispose(&tasks->pool);
}
