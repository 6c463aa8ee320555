/* Hot path. */
#include "control/tasks/prove.h"

#include "base/clock.h"
#include "control/models/placement.h"
#include "control/tasks/deadline.h"
#include "control/tasks/handed.h"
#include "control/tasks/queue.h"
#include "control/tasks/tries.h"

/* Beyond what the way of results and of the two messages is known to take: both ends may be busy. */
static const int64_t PATIENCE_NS = 10 * NS_PER_MS;
/* No row is through in less than half of what it is known to take. */
enum { SOONER_THAN_KNOWN = 2 };
static const uint64_t NOBODY = 0; /* in place of a worker process */

/* When the result should be there; 0: too late to try elsewhere then. */
static int64_t due_ns(const tasks_t *tasks, const task_t *task, const model_t *model)
{
    const subcluster_t *home = model->home;
    int64_t due_ns = tasks->turn->now_ns + PATIENCE_NS + 2 * task->gateway->peer.delay.most_ns +
                     (home ? home->delays.push_bound_ns : 0);
    bool in_time =
        home && !deadline_infeasible(home, deadline_alone_ns(task, model), task->answer_ns - due_ns);
    return in_time ? due_ns : 0;
}

bool proof_ask(tasks_t *tasks, task_t *task, const model_t *model, const worker_t *worker)
{
    int64_t until_ns = task->gateway->disbelieved ? 0 : due_ns(tasks, task, model);
    if (until_ns == 0 || !proof_note(tasks, task, worker->peer.instance_id, until_ns))
        return false;
    task->batch = NULL;
    gateway_doubt(task->gateway, task->id);
    return true;
}

/* ---- It is there ---- */

static void came(tasks_t *tasks, task_t *task, uint64_t from)
{
    model_t *model = models_get(tasks->models, task->model);
    const worker_t *worker = roster_worker(tasks->roster, from);
    standing_well(&task->gateway->standing, tasks->turn->now_ns, 1);
    model->done++;
    model->trial.good++;
    metrics_add(model->metrics.proven, 1);
    if (!worker)
        return;
    placement_did_prove(tasks->models, model, worker);
    task_accuse(tasks, model, task, worker);
}

/* Nobody but the one worker that it failed at: who has it now, or had it since, cannot be through. */
static bool only_one_can_have_sent(const tasks_t *tasks, const task_t *task)
{
    const model_t *model = models_get(tasks->models, task->model);
    int64_t soonest_ns = task->again_ns + deadline_alone_ns(task, model) / SOONER_THAN_KNOWN;
    return task->retries == 1 && (task->again_ns == 0 || tasks->turn->now_ns < soonest_ns);
}

/* What is tried again, as it was not there in time, need not run; and nobody waits for it where it runs already. If another may have
 * sent it nothing is shown of the one that failed; what the other reports, if it is believed, still counts against that. */
static void came_after_all(tasks_t *tasks, task_t *task)
{
    uint64_t from = only_one_can_have_sent(tasks, task) ? task->failed_by : NOBODY;
    if (from != NOBODY)
        task->failed_by = NOBODY;
    came(tasks, task, from);
    task->shown = true;
    task_withdraw(tasks, task);
}

/* Not where one was asked before that may have sent it now. */
static uint64_t shown_by(const tasks_t *tasks, const task_t *task)
{
    bool asked_before = task->failed_as == ILL_UNSHOWN || task->retries > 1;
    return asked_before ? NOBODY : proof_of(tasks, task)->worker;
}

static void one_came(tasks_t *tasks, task_t *task)
{
    if (!task->proof) {
        came_after_all(tasks, task);
        return;
    }
    came(tasks, task, shown_by(tasks, task));
    task_give(tasks, task);
}

void proofs_came(tasks_t *tasks, gateway_t *gateway, const uint64_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        task_t *task = idmap_get(&gateway->by_id, ids[i]);
        if (task)
            one_came(tasks, task);
    }
    turn_touch(tasks->turn);
}

/* ---- It is not ---- */

/* Not where it has just been, if it can be helped. A gateway to which nothing comes of what comes to others is no witness: that
 * shows long before the first of its answers is due. */
static void did_not_come(tasks_t *tasks, proof_t *proof)
{
    task_t *task = proof->task;
    model_t *model = models_get(tasks->models, task->model);
    const worker_t *worker = roster_worker(tasks->roster, proof->worker);
    const failure_t lost = {STATUS_UNAVAILABLE, CONTROL__STAGE__STAGE_LOST, worker, true};
    proof_forget(tasks, task);
    metrics_add(model->metrics.unproven, 1);
    model->trial.bad++;
    standing_ill(&task->gateway->standing, tasks->turn->now_ns, ILL_UNSHOWN, 1);
    if (worker && handed_believes(tasks, task->gateway)) {
        placement_shun(tasks->models, model, worker, task->answer_ns);
        task->row_failed = STATUS_UNAVAILABLE; /* alone: no use where no other worker has the model */
    }
    task_try_again(tasks, task, &lost);
}

int64_t proofs_expire(tasks_t *tasks)
{
    for (proof_t *due; (due = proofs_due(tasks, tasks->turn->now_ns));)
        did_not_come(tasks, due);
    int64_t next_ns = heap_min_key(&tasks->proofs_by_time);
    return next_ns == INT64_MAX ? SCHED_NEVER : next_ns;
}
