/* Hot path. */
#include "control/tasks/batches.h"

#include "control/models/placement.h"
#include "control/models/shapes.h"
#include "control/tasks/handed.h"
#include "control/tasks/prove.h"
#include "control/tasks/revoked.h"
#include "control/tasks/tries.h"

batch_t *batch_make(tasks_t *tasks, device_t *device, const sched_action_t *action)
{
    batch_t *batch = pool_get(&tasks->batches);
    if (!batch)
        return NULL;
    *batch = (batch_t){.id = ++tasks->batches_made,
                       .core_id = action->grant.batch_id,
                       .device = device,
                       .model = shapes_model(tasks->models, action->model),
                       .granted_ns = tasks->turn->now_ns,
                       .next = device->batches};
    if (!idmap_put(&tasks->batches_by_id, batch->id, batch)) {
        pool_put(&tasks->batches, batch);
        return NULL;
    }
    if (device->batches)
        device->batches->prev = batch;
    device->batches = batch;
    device->inflight++;
    return batch;
}

void batch_give(tasks_t *tasks, batch_t *batch)
{
    device_t *device = batch->device;
    (void)idmap_remove(&tasks->batches_by_id, batch->id);
    if (batch->prev)
        batch->prev->next = batch->next;
    else
        device->batches = batch->next;
    if (batch->next)
        batch->next->prev = batch->prev;
    device->inflight--;
    pool_put(&tasks->batches, batch);
}

batch_t *batch_of(const device_t *device, uint64_t core_id)
{
    batch_t *batch = device->batches;
    while (batch && batch->core_id != core_id)
        batch = batch->next;
    return batch;
}

int64_t batch_latest_answer_ns(const batch_t *batch)
{
    int64_t latest_ns = INT64_MIN;
    for (const task_t *task = batch->first; task; task = task->next_row)
        latest_ns = task->answer_ns > latest_ns ? task->answer_ns : latest_ns;
    return latest_ns;
}

static int64_t earliest_answer_ns(const batch_t *batch)
{
    int64_t earliest_ns = INT64_MAX;
    for (const task_t *task = batch->first; task; task = task->next_row)
        earliest_ns = task->answer_ns < earliest_ns ? task->answer_ns : earliest_ns;
    return earliest_ns;
}

/* late_ns: whose answers are due by then are not tried again. */
static void batch_failed(tasks_t *tasks, batch_t *batch, int64_t free_ns, const failure_t *failed,
                         int64_t late_ns)
{
    subcluster_batch_ended(batch->device->subcluster, batch->core_id, free_ns);
    for (task_t *task = batch->first, *next; task; task = next) {
        next = task->next_row;
        if (task->answer_ns <= late_ns)
            task_drop(tasks, task, failed->status, failed->stage, RETRY_AFTER_SHED_MS);
        else
            task_try_again(tasks, task, failed);
    }
    batch_give(tasks, batch);
    turn_touch(tasks->turn);
}

void batches_device_lost(tasks_t *tasks, device_t *device)
{
    const failure_t lost = {STATUS_UNAVAILABLE, CONTROL__STAGE__STAGE_LOST, NULL, false};
    revoked_forget(device);
    while (device->batches)
        batch_failed(tasks, device->batches, tasks->turn->now_ns, &lost, INT64_MIN);
}

/* Rows that failed although the batch ran. Their positions are few as a rule; a row named twice counts once. */
static void mark_failed_rows(worker_t *worker, batch_t *batch, const Control__BatchDone *done)
{
    if (done->n_failed_row != done->n_failed_status) {
        peer_complain(&worker->peer, NONSENSE_ARRAYS, "failed rows and their statuses differ in number");
        return;
    }
    for (size_t i = 0; i < done->n_failed_row; i++) {
        task_t *task = batch->first;
        for (uint32_t row = 0; task && row < done->failed_row[i]; row++)
            task = task->next_row;
        if (!task) {
            peer_complain(&worker->peer, NONSENSE_BATCH, "a failed row beyond the batch");
            continue;
        }
        uint32_t status = done->failed_status[i];
        if (status == STATUS_OK || status > STATUS_INTERNAL)
            status = STATUS_INTERNAL;
        task->row_failed = (uint8_t)status;
    }
}

/* When it ran, by this clock: its end was reported when the outputs had been handed on, and the report has travelled. What
 * says nothing of a batch of this size is left out: rows that could not be fetched and did not run, no time at all,
 * or more than has passed since the grant. */
static void tell_ran(worker_t *worker, const batch_t *batch, const Control__BatchDone *done, int64_t now_ns)
{
    int64_t exec_ns = peer_duration(&worker->peer, done->exec_ns);
    int64_t push_ns = peer_duration(&worker->peer, done->push_ns);
    if (done->n_failed_row > 0 || exec_ns == 0 || exec_ns + push_ns > now_ns - batch->granted_ns)
        return;
    int64_t ended_ns = now_ns - worker->peer.delay.usual_ns - push_ns;
    subcluster_batch_ran(batch->device->subcluster, batch->core_id, ended_ns - exec_ns, ended_ns);
}

static void tell_ways(worker_t *worker, const batch_t *batch, const Control__BatchDone *done, int64_t now_ns)
{
    subcluster_delays_t *delays = &batch->device->subcluster->delays;
    fetch_delay_add(&delays->fetch, now_ns, batch->count, peer_duration(&worker->peer, done->fetch_ns));
    delay_add(&delays->push, now_ns, peer_duration(&worker->peer, done->push_ns));
}

/* What is known of a batch that was reported done. */
typedef struct {
    const worker_t *worker;
    bool excused;        /* the host stood still meanwhile */
    bool doubted;        /* that its results arrive is still to be shown */
    uint32_t well, late; /* rows */
} ran_t;

static void row_succeeded(tasks_t *tasks, model_t *model, task_t *task, ran_t *ran)
{
    bool late = tasks->turn->now_ns > task->answer_ns;
    if (task->gateway && !late && ran->doubted && proof_ask(tasks, task, model, ran->worker))
        return; /* it counts when its gateway says that it has come */
    ran->well += !late;
    ran->late += late && !task->trial;
    if (task->gateway) {
        model->done++;
        if (late && !task->trial)
            subcluster_note_bad(task->batch->device->subcluster);
        if (late)
            model->trial.bad++;
        else
            model->trial.good++;
        if (!late && !ran->excused)
            handed_note(tasks, task, ran->worker);
    }
    if (!ran->doubted && (task->gateway || task->shown)) /* its report and the gateway's word race */
        task_accuse(tasks, model, task, ran->worker);
    task_give(tasks, task);
}

static void settle_rows(tasks_t *tasks, model_t *model, batch_t *batch, const worker_t *worker, bool excused)
{
    ran_t ran = {worker, excused, placement_wants_proof(model, worker), 0, 0};
    for (task_t *task = batch->first, *next; task; task = next) {
        next = task->next_row;
        if (task->row_failed)
            task_try_again(
                tasks, task,
                &(failure_t){(status_t)task->row_failed, CONTROL__STAGE__STAGE_FETCH, worker, false});
        else
            row_succeeded(tasks, model, task, &ran);
    }
    placement_did_well(tasks->models, model, batch->device, ran.well);
    if (ran.late > 0 && !excused)
        placement_did_ill(tasks->models, model, worker, ILL_LATE, ran.late);
}

static void batch_succeeded(tasks_t *tasks, worker_t *worker, batch_t *batch, const Control__BatchDone *done,
                            int64_t free_ns)
{
    model_t *model = models_get(tasks->models, batch->model);
    int64_t now_ns = tasks->turn->now_ns;
    subcluster_t *sub = batch->device->subcluster;
    bool excused = stall_excuses(&tasks->turn->stall, batch->granted_ns);
    if (!excused)
        tell_ways(worker, batch, done, now_ns);
    int64_t device_ns = peer_duration(&worker->peer, done->device_ns);
    subcluster_note_busy(sub, device_ns);
    model->ran.busy_ns += (uint64_t)device_ns;
    model->ran.rows += batch->count;
    mark_failed_rows(worker, batch, done);
    settle_rows(tasks, model, batch, worker, excused);
    if (!excused)
        tell_ran(worker, batch, done, now_ns);
    subcluster_batch_ended(sub, batch->core_id, free_ns);
    batch_give(tasks, batch);
}

device_t *batch_done(tasks_t *tasks, worker_t *worker, const Control__BatchDone *done)
{
    batch_t *batch = idmap_get(&tasks->batches_by_id, done->batch_id);
    if (!batch && revoked_done(tasks, worker, done))
        return NULL;
    if (!batch || batch->device->worker != worker) {
        /* Of a device that had counted as lost: nothing depends on it. */
        peer_complain(&worker->peer, NONSENSE_BATCH, "a batch is done that is not in flight there");
        return NULL;
    }
    device_t *device = batch->device;
    if (done->device != device->index)
        peer_complain(&worker->peer, NONSENSE_DEVICE, "a batch is done on another device than granted");
    int64_t free_ns = tasks->turn->now_ns + peer_duration(&worker->peer, done->free_in_ns);
    if (done->status == STATUS_OK) {
        batch_succeeded(tasks, worker, batch, done, free_ns);
    } else if (done->status == STATUS_DEADLINE_EXCEEDED) {
        /* As it should be under overload: the worker gave the batch up for its most urgent row, which says nothing
         * about the rows that have longer, nor against the worker. */
        const failure_t late = {STATUS_DEADLINE_EXCEEDED, CONTROL__STAGE__STAGE_WORKER, NULL, false};
        batch_failed(tasks, batch, free_ns, &late, earliest_answer_ns(batch));
    } else if (done->status == STATUS_CANCELLED) {
        /* Its gateways had given up all of its rows, it says: their clients went away, for which nobody is to blame. Of a row that
         * runs well elsewhere that was no truth. */
        const failure_t gone = {STATUS_UNAVAILABLE, CONTROL__STAGE__STAGE_FETCH, worker, false};
        batch_failed(tasks, batch, free_ns, &gone, INT64_MIN);
    } else {
        const failure_t failed = {done->status <= STATUS_INTERNAL ? (status_t)done->status : STATUS_INTERNAL,
                                  CONTROL__STAGE__STAGE_WORKER, NULL, false};
        model_t *model = models_get(tasks->models, batch->model);
        note_warn(tasks->turn, "batch_failed", LOG_STR("worker", worker->peer.name),
                  LOG_U64("batch", batch->id), LOG_STR("status", status_name(failed.status)),
                  LOG_STR("reason", done->reason));
        placement_shun(tasks->models, model, worker, batch_latest_answer_ns(batch));
        placement_did_fail(tasks->models, model, batch->device, batch->count);
        model->trial.bad += batch->count;
        batch_failed(tasks, batch, free_ns, &failed, INT64_MIN);
    }
    turn_touch(tasks->turn);
    return device;
}
