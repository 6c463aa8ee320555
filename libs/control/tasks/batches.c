/* Hot path. */
#include "control/tasks/batches.h"

#include "control/models/placement.h"
#include "control/models/shapes.h"
#include "control/tasks/handed.h"
#include "control/tasks/queue.h"
#include "control/tasks/revoked.h"

/* What failed is tried once more; what fails at two workers is the fault of neither. */
enum { RETRIES_MAX = 1 };

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

/* How a try ended, and at whom: NULL where it was nobody's fault. */
typedef struct {
    status_t status;
    Control__Stage stage;
    const worker_t *at;
} failure_t;

/* If somebody still waits for it. A row alone is tried again only where another worker has the model; and once more than others if
 * that other was not met: then it is. */
static bool has_tries_left(tasks_t *tasks, const task_t *task, const failure_t *failed)
{
    model_t *model = models_get(tasks->models, task->model);
    bool others = failed->at && placement_has_another(model, failed->at);
    if (!task->gateway || (task->row_failed && !others))
        return false;
    if (task->retries < RETRIES_MAX || !others || task->failed_by != failed->at->peer.instance_id)
        return task->retries < RETRIES_MAX;
    placement_shun(tasks->models, model, failed->at, task->answer_ns);
    return task->retries == RETRIES_MAX;
}

/* A task that came to nothing is tried again, if it has a try left and can still make it. */
static void try_again(tasks_t *tasks, task_t *task, const failure_t *failed)
{
    bool again = has_tries_left(tasks, task, failed);
    task->batch = NULL;
    task->next_row = NULL;
    task->row_failed = 0;
    task->failed_status = (uint8_t)failed->status;
    task->failed_stage = (uint8_t)failed->stage;
    task->failed_by = failed->at ? failed->at->peer.instance_id : 0;
    if (!again || task_enqueue(tasks, task) != STATUS_OK) {
        task_drop(tasks, task, failed->status, failed->stage, RETRY_AFTER_SHED_MS);
        return;
    }
    task->retries++;
    metrics_add(models_get(tasks->models, task->model)->metrics.retried, 1);
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
            try_again(tasks, task, failed);
    }
    batch_give(tasks, batch);
    turn_touch(tasks->turn);
}

void batches_device_lost(tasks_t *tasks, device_t *device)
{
    const failure_t lost = {STATUS_UNAVAILABLE, CONTROL__STAGE__STAGE_LOST, NULL};
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
    int64_t ended_ns = now_ns - worker->peer.delay_ns - push_ns;
    subcluster_batch_ran(batch->device->subcluster, batch->core_id, ended_ns - exec_ns, ended_ns);
}

static void tell_ways(worker_t *worker, const batch_t *batch, const Control__BatchDone *done, int64_t now_ns)
{
    subcluster_delays_t *delays = &batch->device->subcluster->delays;
    fetch_delay_add(&delays->fetch, now_ns, batch->count, peer_duration(&worker->peer, done->fetch_ns));
    delay_add(&delays->push, now_ns, peer_duration(&worker->peer, done->push_ns));
}

/* It ran here, and not where it was tried before. */
static void accuse(tasks_t *tasks, model_t *model, const task_t *task, const worker_t *ran_at)
{
    if (task->failed_by == 0 || task->failed_by == ran_at->peer.instance_id)
        return;
    for (uint32_t i = 0; i < PEERS_MAX; i++) {
        const worker_t *worker = tasks->roster->workers[i];
        if (worker && worker->peer.instance_id == task->failed_by)
            placement_did_ill(tasks->models, model, worker, ILL_ROWS, 1);
    }
}

static void row_succeeded(tasks_t *tasks, model_t *model, task_t *task, const worker_t *worker, bool excused)
{
    bool late = tasks->turn->now_ns > task->answer_ns;
    if (task->gateway) {
        model->done++;
        if (late && !task->trial)
            subcluster_note_bad(task->batch->device->subcluster);
        if (late)
            model->trial.bad++;
        else
            model->trial.good++;
        if (!late && !excused)
            handed_note(tasks, task, worker);
        accuse(tasks, model, task, worker);
    }
    task_give(tasks, task);
}

/* How many of the rows ran. */
static uint32_t settle_rows(tasks_t *tasks, model_t *model, batch_t *batch, const worker_t *worker,
                            bool excused)
{
    uint32_t ran = 0;
    for (task_t *task = batch->first, *next; task; task = next) {
        next = task->next_row;
        if (task->row_failed) {
            try_again(tasks, task,
                      &(failure_t){(status_t)task->row_failed, CONTROL__STAGE__STAGE_FETCH, worker});
            continue;
        }
        ran++;
        row_succeeded(tasks, model, task, worker, excused);
    }
    return ran;
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
    placement_did_well(tasks->models, model, worker, settle_rows(tasks, model, batch, worker, excused));
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
        const failure_t late = {STATUS_DEADLINE_EXCEEDED, CONTROL__STAGE__STAGE_WORKER, NULL};
        batch_failed(tasks, batch, free_ns, &late, earliest_answer_ns(batch));
    } else if (done->status == STATUS_CANCELLED) {
        /* Its gateways had given up all of its rows, it says: their clients went away, for which nobody is to blame. Of a row that
         * runs well elsewhere that was no truth. */
        const failure_t gone = {STATUS_UNAVAILABLE, CONTROL__STAGE__STAGE_FETCH, worker};
        batch_failed(tasks, batch, free_ns, &gone, INT64_MIN);
    } else {
        const failure_t failed = {done->status <= STATUS_INTERNAL ? (status_t)done->status : STATUS_INTERNAL,
                                  CONTROL__STAGE__STAGE_WORKER, NULL};
        model_t *model = models_get(tasks->models, batch->model);
        note_warn(tasks->turn, "batch_failed", LOG_STR("worker", worker->peer.name),
                  LOG_U64("batch", batch->id), LOG_STR("status", status_name(failed.status)),
                  LOG_STR("reason", done->reason));
        placement_shun(tasks->models, model, worker, batch_latest_answer_ns(batch));
        placement_did_ill(tasks->models, model, worker, ILL_FAILED, batch->count);
        model->trial.bad += batch->count;
        batch_failed(tasks, batch, free_ns, &failed, INT64_MIN);
    }
    turn_touch(tasks->turn);
    return device;
}
