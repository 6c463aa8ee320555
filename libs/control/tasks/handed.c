#include "control/tasks/handed.h"

#include "control/models/placement.h"

#include <stdlib.h>

static handed_t *seat_of(const tasks_t *tasks, uint64_t gateway, uint64_t task)
{
    uint64_t hash = (gateway ^ task) * UINT64_C(0x9e3779b97f4a7c15);
    return &tasks->handed[hash >> 32 & (HANDED_ROWS - 1)];
}

void handed_note(tasks_t *tasks, const task_t *task, const worker_t *worker)
{
    uint64_t gateway = task->gateway->peer.instance_id;
    standing_well(&task->gateway->standing, tasks->turn->now_ns, 1);
    *seat_of(tasks, gateway, task->id) = (handed_t){.gateway = gateway,
                                                    .task = task->id,
                                                    .worker = worker->peer.instance_id,
                                                    .model = task->model,
                                                    .worker_index = worker->peer.index};
}

/* Where others get what the same workers send, it is not the workers. */
static bool others_fare_better(const tasks_t *tasks, const gateway_t *gateway)
{
    double ill = 0;
    uint32_t others = 0;
    for (uint32_t i = 0; i < PEERS_MAX; i++) {
        const gateway_t *other = tasks->roster->gateways[i];
        if (!other || other == gateway || other->standing.well + other->standing.ill < 1)
            continue;
        ill += standing_ill_part(&other->standing);
        others++;
    }
    return standing_is_outdone(&gateway->standing, ill, others);
}

bool handed_believes(const tasks_t *tasks, gateway_t *gateway)
{
    bool doubted = standing_is_suspect(&gateway->standing) && others_fare_better(tasks, gateway);
    if (doubted && !gateway->disbelieved)
        note_warn(tasks->turn, "gateway_disbelieved", LOG_STR("gateway", gateway->peer.name),
                  LOG_STR("reason", GATEWAY_DISBELIEVED));
    gateway->disbelieved = doubted;
    return !doubted;
}

static void missed(tasks_t *tasks, model_t *model, const worker_t *worker)
{
    model->trial.good -= model->trial.good > 0; /* which it was taken for */
    model->trial.bad++;
    placement_did_ill(tasks->models, model, worker, ILL_MISSED, 1);
}

void handed_missed(tasks_t *tasks, gateway_t *gateway, uint64_t task)
{
    handed_t *handed = seat_of(tasks, gateway->peer.instance_id, task);
    if (handed->gateway != gateway->peer.instance_id || handed->task != task)
        return;
    standing_ill(&gateway->standing, tasks->turn->now_ns, ILL_MISSED, 1);
    const worker_t *worker = tasks->roster->workers[handed->worker_index];
    model_t *model = models_get(tasks->models, handed->model);
    if (worker && worker->peer.instance_id == handed->worker && model && handed_believes(tasks, gateway))
        missed(tasks, model, worker);
    handed->gateway = 0;
}

status_t handed_init(tasks_t *tasks, err_t *err)
{
    tasks->handed = calloc(HANDED_ROWS, sizeof(*tasks->handed));
    return tasks->handed ? STATUS_OK
                         : err_set(err, STATUS_NO_MEMORY, "no memory for rows that were handed over");
}

void handed_dispose(tasks_t *tasks)
{
    free(tasks->handed);
}
