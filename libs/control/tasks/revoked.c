/* Rare: a batch costs an allocation here. */
#include "control/tasks/revoked.h"

#include "control/tasks/queue.h"

#include <stdlib.h>

struct revoked {
    revoked_t *next;
    uint64_t id;
    uint32_t model, count;
    uint64_t tags[]; /* of the tasks, by row */
};

void revoked_note(const tasks_t *tasks, const batch_t *batch)
{
    revoked_t *revoked = malloc(sizeof *revoked + batch->count * sizeof revoked->tags[0]);
    if (!revoked)
        return; /* then its report will be one of an unknown batch */
    *revoked = (revoked_t){.next = batch->device->revoked, .id = batch->id, .model = batch->model};
    for (const task_t *task = batch->first; task && revoked->count < batch->count; task = task->next_row)
        revoked->tags[revoked->count++] = task_tag(tasks, task);
    batch->device->revoked = revoked;
}

static bool row_failed(const Control__BatchDone *done, uint32_t row)
{
    for (size_t i = 0; i < done->n_failed_row; i++)
        if (done->failed_row[i] == row)
            return true;
    return false;
}

/* The worker has sent the result: what waits of it need not run, and nobody waits for what runs once more. */
static void ran_after_all(tasks_t *tasks, const revoked_t *revoked, const Control__BatchDone *done)
{
    for (uint32_t row = 0; row < revoked->count; row++) {
        task_t *task = task_of_tag(tasks, revoked->tags[row]);
        if (!task || !task->gateway || row_failed(done, row))
            continue;
        models_get(tasks->models, task->model)->done++;
        task_withdraw(tasks, task);
    }
}

/* Out of its device's list; NULL: there is none. */
static revoked_t *take_revoked(device_t *device, uint64_t batch_id)
{
    revoked_t **link = &device->revoked;
    while (*link && (*link)->id != batch_id)
        link = &(*link)->next;
    revoked_t *revoked = *link;
    if (revoked)
        *link = revoked->next;
    return revoked;
}

bool revoked_done(tasks_t *tasks, worker_t *worker, const Control__BatchDone *done)
{
    revoked_t *revoked = NULL;
    uint32_t index = 0;
    while (index < worker->device_count && !(revoked = take_revoked(&worker->devices[index], done->batch_id)))
        index++;
    if (!revoked)
        return false;
    if (done->device != index)
        peer_complain(&worker->peer, NONSENSE_DEVICE, "a batch is done on another device than granted");
    model_t *model = models_get(tasks->models, revoked->model);
    bool ran = done->status == STATUS_OK;
    metrics_add(ran ? model->metrics.revoked_late : model->metrics.revoked_stopped, 1);
    if (ran)
        ran_after_all(tasks, revoked, done);
    else
        metrics_observe(model->metrics.wasted, peer_duration(&worker->peer, done->exec_ns));
    free(revoked);
    turn_touch(tasks->turn);
    return true;
}

void revoked_forget(device_t *device)
{
    while (device->revoked) {
        revoked_t *revoked = device->revoked;
        device->revoked = revoked->next;
        free(revoked);
    }
}
