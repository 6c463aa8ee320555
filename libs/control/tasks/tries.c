/* Hot path. */
#include "control/tasks/tries.h"

#include "control/models/placement.h"
#include "control/tasks/queue.h"

/* What failed is tried once more; what fails at two workers is the fault of neither. */
enum { RETRIES_MAX = 1, DOUBTED_RETRIES_MAX = 4 };

/* If somebody still waits for it. A row alone is tried again only where another worker has the model; and once more than others if
 * that other was not met: then it is. */
static bool has_tries_left(tasks_t *tasks, const task_t *task, const failure_t *failed)
{
    model_t *model = models_get(tasks->models, task->model);
    bool others = failed->at && placement_has_another(model, failed->at);
    if (!task->gateway || (task->row_failed && !others))
        return false;
    if (failed->doubted)
        return task->retries < DOUBTED_RETRIES_MAX;
    if (task->retries < RETRIES_MAX || !others || task->failed_by != failed->at->peer.instance_id)
        return task->retries < RETRIES_MAX;
    placement_shun(tasks->models, model, failed->at, task->answer_ns);
    return task->retries == RETRIES_MAX;
}

void task_try_again(tasks_t *tasks, task_t *task, const failure_t *failed)
{
    bool again = has_tries_left(tasks, task, failed);
    task->batch = NULL;
    task->next_row = NULL;
    task->row_failed = 0;
    task->failed_status = (uint8_t)failed->status;
    task->failed_stage = (uint8_t)failed->stage;
    task->failed_as = failed->doubted ? ILL_UNSHOWN : ILL_ROWS;
    task->failed_by = failed->at ? failed->at->peer.instance_id : 0;
    if (!again || task_enqueue(tasks, task) != STATUS_OK) {
        task_drop(tasks, task, failed->status, failed->stage, RETRY_AFTER_SHED_MS);
        return;
    }
    task->retries++;
    metrics_add(models_get(tasks->models, task->model)->metrics.retried, 1);
}

void task_accuse(tasks_t *tasks, model_t *model, const task_t *task, const worker_t *ran_at)
{
    if (task->failed_by == 0 || task->failed_by == ran_at->peer.instance_id)
        return;
    const worker_t *worker = roster_worker(tasks->roster, task->failed_by);
    if (worker)
        placement_did_ill(tasks->models, model, worker, (ill_t)task->failed_as, 1);
}
