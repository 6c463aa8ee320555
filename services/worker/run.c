#include "run.h"

#include "base/clock.h"
#include "base/log.h"
#include "turns.h"

#include <stdatomic.h>
#include <stdlib.h>

/* A fetch is waited for at least this long, whatever the budget says: a late answer is better than one
 * lost to a hiccup. */
static const int64_t FETCH_MIN_NS = 20 * NS_PER_MS;
/* No time on the wire is believed beyond this, ahead or past. */
static const int64_t BUDGET_MOST_NS = 3600 * NS_PER_S;
/* Nor longer than this: a gateway that is silent so long is gone. */
static const int64_t FETCH_MOST_NS = NS_PER_S;
/* Long beyond any deadline: only keeps a stuck gateway from holding batch buffers. */
static const uint64_t PUSH_TIMEOUT_NS = 10 * (uint64_t)NS_PER_S;

typedef struct {
    struct batch_list queue; /* granted and not yet executed, in the order of their grants */
    uint32_t queued;
    turns_t turns;
    executor_t *executors; /* made when first needed */
} device_t;

struct run {
    run_options_t options;
    launcher_t launcher;
    executor_env_t env;
    device_t *devices;
    struct batch_list free;
    struct batch_list pushing;
    uint32_t under_way;
    bool stopping;
    metric_t *late_start, *revoked_waiting, *revoked_stopped, *revoked_late;
};

static void batch_fetched(batch_t *batch);

/* ---- the end of a batch ---- */

static void run_recycle(run_t *run, batch_t *batch)
{
    if (batch->buffers)
        model_buffers_put(batch->model, batch->buffers);
    batch->buffers = NULL;
    run->under_way--;
    TAILQ_INSERT_HEAD(&run->free, batch, link);
    batch_release_peers(batch, run->options.peers);
    if (--batch->model->under_way == 0 && run->options.model_idle)
        run->options.model_idle(run->options.ctx, batch->model);
}

/* How long the device is kept from taking another batch. */
static int64_t device_free_in_ns(const run_t *run, uint32_t device)
{
    const batch_t *batch;
    int64_t sum = 0;

    TAILQ_FOREACH(batch, &run->devices[device].queue, link)
    {
        const executor_t *executor = batch->executor;
        if (batch->state != BATCH_SUBMITTED)
            continue;
        if (executor->ops->left_ns && !batch->waits)
            sum += executor->ops->left_ns(executor, batch);
        else
            sum += batch_latency_ns(batch, batch->count);
    }
    return sum;
}

static void run_count(const batch_t *batch, status_t status)
{
    model_t *model = batch->model;

    if (status == STATUS_CANCELLED && batch->revoked) {
        metrics_add(model->batches_revoked, 1); /* its tasks are the scheduler's again */
        return;
    }
    metrics_add(status == STATUS_OK ? model->batches_ok : model->batches_failed, 1);
    if (status == STATUS_OK)
        metrics_add(model->tasks_ok, batch->count - batch->lost);
    metrics_add(model->tasks_failed, status == STATUS_OK ? batch->failed_count : batch->granted);
}

static void count_revocation(run_t *run, const batch_t *batch, status_t status)
{
    int64_t ran_ns = batch->finished_ns - batch->started_ns;

    if (status != STATUS_CANCELLED) {
        metrics_add(run->revoked_late, 1);
    } else if (!batch->started_ns) {
        metrics_add(run->revoked_waiting, 1);
    } else {
        metrics_add(run->revoked_stopped, 1);
        metrics_observe(batch->model->stopped, ran_ns);
        metrics_add(run->options.devices->list[batch->device].busy, (uint64_t)ran_ns);
    }
}

/* The batch leaves its device; the scheduler hears of it. */
static void batch_report(batch_t *batch, status_t status, const char *reason, int64_t push_ns)
{
    run_t *run = batch->run;
    bool ran = batch->started_ns != 0;

    TAILQ_REMOVE(&run->devices[batch->device].queue, batch, link);
    run->devices[batch->device].queued--;
    atomic_fetch_sub(&run->options.devices->list[batch->device].batches, 1);
    run_count(batch, status);
    if (batch->revoked)
        count_revocation(run, batch, status);
    run_report_t report = {.batch_id = batch->id,
                           .generation = batch->generation,
                           .device = batch->device,
                           .status = status,
                           .reason = reason,
                           .exec_ns = ran ? batch->finished_ns - batch->started_ns : 0,
                           .fetch_ns = batch->fetched_ns ? batch->fetched_ns - batch->granted_ns : 0,
                           .push_ns = push_ns,
                           .wait_ns = ran ? batch->started_ns - batch->fetched_ns : 0,
                           .free_in_ns = device_free_in_ns(run, batch->device),
                           .failed_row = batch->failed_row,
                           .failed_status = batch->failed_status,
                           .failed_count = batch->failed_count};
    run->options.report(run->options.ctx, &report);
}

/* It did not run, or not to its end: nothing is pushed. */
static void batch_abort(batch_t *batch, status_t status, const char *reason)
{
    loop_timer_stop(&batch->timer);
    batch_report(batch, status, reason, 0);
    run_recycle(batch->run, batch);
}

static void report_refusal(run_t *run, uint32_t generation, const Control__Grant *grant, status_t status,
                           const char *reason)
{
    run_report_t report = {.batch_id = grant->batch_id,
                           .generation = generation,
                           .device = grant->device,
                           .status = status,
                           .reason = reason};

    log_warn("grant_refused", LOG_U64("batch", grant->batch_id), LOG_STR("status", status_name(status)),
             LOG_STR("reason", reason));
    run->options.report(run->options.ctx, &report);
}

/* ---- pushing ---- */

static void push_on_done(void *ctx, status_t status);

static status_t push_send(batch_push_t *push)
{
    batch_t *batch = push->group->batch;
    transfer_peer_t *peer = push->group->peer->transfer;
    transfer_request_t request; /* a push is never given up: its bytes may be half sent */
    status_t status = STATUS_UNAVAILABLE;

    if (peer)
        status = transfer_push(peer, batch->results + push->first, push->count, PUSH_TIMEOUT_NS, push_on_done,
                               push, &request);
    if (status == STATUS_OK)
        batch->pending++;
    return status;
}

static void push_failed(const batch_push_t *push, status_t status)
{
    metrics_add(push->group->batch->model->push_failed, push->count);
    log_warn("push_failed", LOG_STR("gateway", push->group->peer->address),
             LOG_STR("model", push->group->batch->model->name), LOG_U64("tasks", push->count),
             LOG_STR("status", status_name(status)));
}

static void batch_pushed(batch_t *batch)
{
    run_t *run = batch->run;

    if (batch->push_count)
        metrics_observe(batch->model->push, clock_now_ns() - batch->finished_ns);
    TAILQ_REMOVE(&run->pushing, batch, link);
    run_recycle(run, batch);
}

static void push_on_done(void *ctx, status_t status)
{
    batch_push_t *push = ctx;
    batch_t *batch = push->group->batch;

    batch->pending--;
    if (status == STATUS_UNAVAILABLE && !push->again && !batch->run->stopping) {
        /* The connection broke; if the gateway still lives the results reach it on a new one. */
        push->again = true;
        status = push_send(push);
    }
    if (status != STATUS_OK)
        push_failed(push, status);
    if (batch->pending == 0 && batch->state == BATCH_PUSHING)
        batch_pushed(batch);
}

/* Nobody will hear of these rows but by the report, which is still to come. */
static void push_lose(const batch_push_t *push, status_t status)
{
    batch_t *batch = push->group->batch;

    push_failed(push, status);
    err_set(&batch->err, status, "the results could not be sent to gateway %s", push->group->peer->address);
    for (uint32_t i = 0; i < push->count; i++)
        batch_lose_row(batch, push->first + i, status);
}

/* Rows that left the device together go to each of their gateways as one push. */
static void batch_push(batch_t *batch, uint32_t first, uint32_t count)
{
    for (uint32_t g = 0; g < batch->group_count; g++) {
        batch_group_t *group = &batch->groups[g];
        uint32_t from = group->first > first ? group->first : first;
        uint32_t to =
            group->first + group->count < first + count ? group->first + group->count : first + count;
        if (from >= to)
            continue;
        batch_push_t *push = &batch->pushes[batch->push_count++];
        *push = (batch_push_t){.group = group, .first = from, .count = to - from};
        status_t status = push_send(push);
        if (status != STATUS_OK)
            push_lose(push, status);
    }
}

/* ---- executing ---- */

static uint64_t between_ns(int64_t from_ns, int64_t to_ns)
{
    return to_ns > from_ns ? (uint64_t)(to_ns - from_ns) : 0;
}

static void batch_rows(batch_t *batch, uint32_t first, uint32_t count, uint32_t together)
{
    transfer_timing_t timing = {.batch_size = together,
                                .queue_ns = between_ns(batch->fetched_ns, batch->started_ns),
                                .fetch_ns = between_ns(batch->granted_ns, batch->fetched_ns),
                                .exec_ns = between_ns(batch->started_ns, batch->finished_ns)};

    batch_fill_results(batch, first, count, &timing);
    batch_push(batch, first, count);
}

static void batch_observe(batch_t *batch)
{
    run_t *run = batch->run;
    int64_t exec_ns = batch->finished_ns - batch->started_ns;

    metrics_observe(batch->model->exec, exec_ns);
    if (!batch->shared &&
        model_took(batch->model, clock_now_ns(), batch_sizes(batch), batch->count, exec_ns) &&
        run->options.profile_changed)
        run->options.profile_changed(run->options.ctx, batch->model);
    metrics_observe(batch->model->fetch, batch->fetched_ns - batch->granted_ns);
    metrics_observe(run->late_start,
                    batch->started_ns > batch->start_at_ns ? batch->started_ns - batch->start_at_ns : 0);
    metrics_add(run->options.devices->list[batch->device].busy, (uint64_t)exec_ns);
}

static void log_failed(const batch_t *batch)
{
    const worker_devices_t *devices = batch->run->options.devices;

    log_error("batch_failed", LOG_STR("model", batch->model->name), LOG_U64("batch", batch->id),
              LOG_STR("device", devices->list[batch->device].name), LOG_ERR(&batch->err));
}

static executor_t *make_executor(run_t *run, uint32_t device, model_t *model, model_mode_t mode, err_t *err)
{
    switch (mode) {
    case MODE_STAGED:
        return executor_create_staged(&run->env, device, model, err);
    case MODE_OVERLAP:
        return executor_create_overlap(&run->env, device, model->choice.segments->plan, err);
    case MODE_PREEMPT:
        return executor_create_preempt(&run->env, device, err);
    default:
        return executor_create_whole(&run->env, device, err);
    }
}

/* NULL: err says why. */
static executor_t *device_executor(run_t *run, uint32_t device, model_t *model, model_mode_t mode, err_t *err)
{
    executor_t **at = &run->devices[device].executors;

    for (; *at; at = &(*at)->next) {
        bool fits = (*at)->ops->mode == mode;
        if (fits && (!(*at)->model || (*at)->model == model))
            return *at;
    }
    *at = make_executor(run, device, model, mode, err);
    return *at;
}

static executor_t *batch_executor(batch_t *batch)
{
    model_mode_t mode = batch->unfit ? MODE_WHOLE : batch->model->choice.mode;

    metrics_add(batch->model->unfit, batch->unfit);
    return device_executor(batch->run, batch->device, batch->model, mode, &batch->err);
}

/* Its shape is what the mode of its model cannot run, and no row has left. */
static bool batch_suits_whole_only(const batch_t *batch, status_t status)
{
    return status == STATUS_UNSUPPORTED && batch->model->shapes && !batch->unfit && !batch->push_count &&
           batch->model->choice.mode != MODE_WHOLE;
}

/* False: no memory. */
static bool batch_runs_whole(batch_t *batch)
{
    turns_t *turns = &batch->run->devices[batch->device].turns;

    batch->unfit = true;
    executor_t *executor = batch_executor(batch);
    if (!executor)
        return false;
    batch_regain_rows(batch);
    batch->executor = executor;
    batch->begun = batch->shared = false;
    batch->started_ns = batch->finished_ns = 0;
    turns_ended(turns);
    turns_submit(turns, batch);
    return true;
}

/* Also one that failed may still be pushing rows that had left it before. With the last batch of a model
 * its executor may go: so that comes last. */
static void batch_ended(batch_t *batch, status_t status)
{
    run_t *run = batch->run;
    turns_t *turns = &run->devices[batch->device].turns;

    if (batch_suits_whole_only(batch, status)) {
        if (batch->revoked)
            status = err_set(&batch->err, STATUS_CANCELLED, "revoked");
        else if (batch_runs_whole(batch))
            return;
        else
            status = batch->err.code;
    }
    if (status == STATUS_OK)
        batch_observe(batch);
    else if (status != STATUS_CANCELLED && status != STATUS_DEADLINE_EXCEEDED)
        log_failed(batch);
    batch->state = BATCH_PUSHING;
    batch_report(batch, status, status == STATUS_OK ? "" : batch->err.text,
                 batch->push_count ? clock_now_ns() - batch->finished_ns : 0);
    TAILQ_INSERT_TAIL(&run->pushing, batch, link);
    turns_ended(turns);
    if (batch->pending == 0)
        batch_pushed(batch);
}

static void batch_submit(batch_t *batch)
{
    batch->unfit = !mode_suits(batch->model, batch_sizes(batch));
    metrics_add(batch->model->stretch_alone, batch->unfit && batch->stretches);
    batch->executor = batch_executor(batch);
    if (!batch->executor) {
        log_failed(batch);
        batch_abort(batch, batch->err.code, batch->err.text);
        return;
    }
    batch->state = BATCH_SUBMITTED;
    turns_submit(&batch->run->devices[batch->device].turns, batch);
}

static void batch_on_start(loop_timer_t *timer, void *arg)
{
    (void)timer;
    batch_submit(arg);
}

/* ---- fetching ---- */

static void group_on_fetched(void *ctx, status_t status)
{
    batch_group_t *group = ctx;

    (void)status; /* each item has its own */
    group->request = 0;
    if (--group->batch->pending == 0)
        batch_fetched(group->batch);
}

static void log_missing_rows(const batch_t *batch)
{
    log_warn("inputs_missing", LOG_STR("model", batch->model->name), LOG_U64("batch", batch->id),
             LOG_U64("rows", batch->failed_count), LOG_U64("of", batch->granted),
             LOG_STR("status", status_name((status_t)batch->failed_status[batch->failed_count - 1])),
             LOG_MS("after_ms", batch->fetched_ns - batch->granted_ns));
}

static void batch_fetched(batch_t *batch)
{
    batch->fetched_ns = clock_now_ns();
    batch_compact(batch);
    if (batch->failed_count && !batch->revoked)
        log_missing_rows(batch);
    if (batch->revoked) {
        batch_abort(batch, STATUS_CANCELLED, "revoked");
    } else if (batch->count == 0) {
        batch_abort(batch, STATUS_UNAVAILABLE, "no input of the batch could be fetched");
    } else {
        batch->state = BATCH_READY;
        if (batch->fetched_ns >= batch->start_at_ns)
            batch_submit(batch);
        else
            loop_timer_start(&batch->timer, batch->start_at_ns);
    }
}

static int64_t believed_ns(int64_t ns)
{
    if (ns > BUDGET_MOST_NS)
        return BUDGET_MOST_NS;
    return ns < -BUDGET_MOST_NS ? -BUDGET_MOST_NS : ns;
}

static int64_t shortest_budget_ns(const Control__Grant *grant)
{
    int64_t shortest_ns = BUDGET_MOST_NS;

    for (size_t i = 0; i < grant->n_budget_ns; i++)
        if (grant->budget_ns[i] < shortest_ns)
            shortest_ns = grant->budget_ns[i];
    return believed_ns(shortest_ns);
}

/* As long as the most urgent row can still be answered: a fetch that stalls for a moment costs less than the batch. */
static uint64_t fetch_timeout_ns(const batch_t *batch, const Control__Grant *grant)
{
    int64_t budget_ns = shortest_budget_ns(grant);

    budget_ns = budget_ns < FETCH_MOST_NS ? budget_ns : FETCH_MOST_NS;
    int64_t left_ns = budget_ns - batch_latency_ns(batch, batch->granted);
    return (uint64_t)(left_ns > FETCH_MIN_NS ? left_ns : FETCH_MIN_NS);
}

static void batch_fetch(batch_t *batch, uint64_t timeout_ns)
{
    /* Requests never end within transfer_fetch, so pending cannot fall to 0 in this loop. */
    for (uint32_t g = 0; g < batch->group_count; g++) {
        batch_group_t *group = &batch->groups[g];
        status_t status = STATUS_UNAVAILABLE;
        if (group->count == 0)
            continue;
        if (group->peer->transfer)
            status = transfer_fetch(group->peer->transfer, batch->items + group->first, group->count,
                                    timeout_ns, group_on_fetched, group, &group->request);
        if (status == STATUS_OK) {
            batch->pending++;
            continue;
        }
        for (uint32_t i = 0; i < group->count; i++)
            batch->items[group->first + i].status = status;
    }
    if (batch->pending == 0)
        batch_fetched(batch);
}

/* ---- granting ---- */

static batch_t *run_take(run_t *run)
{
    batch_t *batch = TAILQ_FIRST(&run->free);

    if (batch) {
        TAILQ_REMOVE(&run->free, batch, link);
        return batch;
    }
    batch = calloc(1, sizeof(*batch));
    if (batch &&
        loop_timer_init(&batch->timer, run->options.loop, batch_on_start, batch, NULL) != STATUS_OK) {
        free(batch);
        return NULL;
    }
    if (batch)
        batch->run = run;
    return batch;
}

static bool arrays_agree(const Control__Grant *grant)
{
    size_t n = grant->n_task_id;

    return n > 0 && grant->n_gateway == n && grant->n_handle_hi == n && grant->n_handle_lo == n &&
           grant->n_offset_bytes == n && grant->n_len_bytes == n;
}

static status_t grant_check(const run_t *run, const model_t *model, const Control__Grant *grant,
                            const char **reason)
{
    if (!arrays_agree(grant)) {
        *reason = "the grant's arrays differ in length or are empty";
        return STATUS_INVALID_ARGUMENT;
    }
    if (!model || !model_takes_grants(model)) {
        *reason = model ? "the model is not ready on this worker" : "unknown model id";
        return STATUS_NOT_FOUND;
    }
    if (grant->device >= run->options.devices->count) {
        *reason = "no such device";
        return STATUS_INVALID_ARGUMENT;
    }
    if (grant->n_task_id > model->info->max_batch) {
        *reason = "the batch is larger than the model's max_batch";
        return STATUS_TOO_LARGE;
    }
    *reason = model->shapes ? axes_objection(&model->shapes->axes, grant->size, grant->n_size) : NULL;
    if (*reason)
        return STATUS_INVALID_ARGUMENT;
    if (run->stopping || run->devices[grant->device].queued >= RUN_QUEUE_MAX) {
        *reason = run->stopping ? "the worker is stopping" : "the device's queue is full";
        return STATUS_UNAVAILABLE;
    }
    return STATUS_OK;
}

/* Takes a batch with buffers and room; NULL: no memory. */
static batch_t *run_prepare(run_t *run, model_t *model, const Control__Grant *grant)
{
    batch_t *batch = run_take(run);

    if (!batch)
        return NULL;
    batch->model = model;
    batch->group_count = 0;
    model->under_way++;
    batch->granted = (uint32_t)grant->n_task_id;
    run->under_way++;
    if (batch_reserve(batch, model, batch->granted))
        batch->buffers = model_buffers_get(model, run->options.devices, grant->device);
    if (!batch->buffers || !batch_size(batch, run->options.devices, grant)) {
        run_recycle(run, batch);
        return NULL;
    }
    return batch;
}

void run_grant(run_t *run, uint32_t generation, model_t *model, const Control__Grant *grant)
{
    const char *reason = "";
    status_t status = grant_check(run, model, grant, &reason);
    batch_t *batch = NULL;

    if (status == STATUS_OK && !(batch = run_prepare(run, model, grant))) {
        status = STATUS_NO_MEMORY;
        reason = "no memory for the batch";
    }
    if (status != STATUS_OK) {
        report_refusal(run, generation, grant, status, reason);
        return;
    }
    batch->id = grant->batch_id;
    batch->generation = generation;
    batch->device = grant->device;
    batch->granted_ns = clock_now_ns();
    batch->start_at_ns = batch->granted_ns + (grant->start_in_ns > 0 ? believed_ns(grant->start_in_ns) : 0);
    batch->fetched_ns = batch->started_ns = batch->finished_ns = 0;
    batch->pending = batch->push_count = batch->lost = 0;
    batch->revoked = batch->begun = batch->shared = false;
    batch->stretches = grant->stretches;
    batch->answer_by_ns = batch->granted_ns + shortest_budget_ns(grant);
    batch->state = BATCH_FETCHING;
    TAILQ_INSERT_TAIL(&run->devices[batch->device].queue, batch, link);
    run->devices[batch->device].queued++;
    atomic_fetch_add(&run->options.devices->list[batch->device].batches, 1);
    batch_place(batch, run->options.peers, grant);
    batch_fetch(batch, fetch_timeout_ns(batch, grant));
}

/* ---- revoking ---- */

static void batch_revoke(batch_t *batch)
{
    run_t *run = batch->run;

    batch->revoked = true;
    switch (batch->state) {
    case BATCH_FETCHING:
        /* The last cancelled request ends the batch, so `pending` is looked at before each. */
        for (uint32_t g = 0; batch->pending > 0 && g < batch->group_count; g++)
            transfer_cancel(run->options.pool, batch->groups[g].request);
        break;
    case BATCH_READY:
        batch_abort(batch, STATUS_CANCELLED, "revoked");
        break;
    case BATCH_SUBMITTED:
        if (turns_withdraw(&run->devices[batch->device].turns, batch))
            batch_abort(batch, STATUS_CANCELLED, "revoked");
        else
            batch->executor->ops->revoke(batch->executor, batch);
        break;
    case BATCH_PUSHING:
        break;
    }
}

void run_revoke(run_t *run, uint32_t generation, uint64_t batch_id)
{
    for (uint32_t d = 0; d < run->options.devices->count; d++) {
        batch_t *batch;
        TAILQ_FOREACH(batch, &run->devices[d].queue, link)
        {
            if (batch->id == batch_id && batch->generation == generation) {
                batch_revoke(batch);
                turns_advance(&run->devices[d].turns);
                return;
            }
        }
    }
    metrics_add(run->revoked_late, 1);
}

/* One that an executor has and may not have begun, and that was not asked to end. */
static batch_t *device_unrevoked(device_t *device)
{
    batch_t *batch;

    TAILQ_FOREACH(batch, &device->queue, link)
    {
        if (!batch->revoked && !batch->begun)
            return batch;
    }
    return NULL;
}

/* First those that no executor has: so that none of them gets its turn when another ends. */
static void device_revoke_all(device_t *device)
{
    batch_t *batch = TAILQ_FIRST(&device->queue), *next;

    for (; batch; batch = next) {
        next = TAILQ_NEXT(batch, link);
        if (batch->state != BATCH_SUBMITTED || batch->waits)
            batch_revoke(batch);
    }
    while ((batch = device_unrevoked(device)))
        batch_revoke(batch);
}

void run_revoke_all(run_t *run)
{
    for (uint32_t d = 0; d < run->options.devices->count; d++)
        device_revoke_all(&run->devices[d]);
}

/* ---- life ---- */

uint32_t run_under_way(const run_t *run)
{
    return run->under_way;
}

static void device_drop_executor(executor_t **at)
{
    executor_t *executor = *at;

    *at = executor->next;
    executor->ops->destroy(executor);
}

void run_forget(run_t *run, const model_t *model)
{
    for (uint32_t d = 0; d < run->options.devices->count; d++) {
        executor_t **at = &run->devices[d].executors;
        while (*at) {
            if ((*at)->model == model)
                device_drop_executor(at);
            else
                at = &(*at)->next;
        }
    }
}

static void devices_dispose(run_t *run)
{
    for (uint32_t d = 0; d < run->options.devices->count; d++) {
        while (run->devices[d].executors)
            device_drop_executor(&run->devices[d].executors);
    }
    free(run->devices);
}

static status_t devices_init(run_t *run, err_t *err)
{
    uint32_t count = run->options.devices->count;

    run->devices = calloc(count, sizeof(*run->devices));
    if (!run->devices)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    for (uint32_t d = 0; d < count; d++) {
        TAILQ_INIT(&run->devices[d].queue);
        turns_init(&run->devices[d].turns);
    }
    return STATUS_OK;
}

status_t run_create(const run_options_t *options, run_t **out, err_t *err)
{
    run_t *run = calloc(1, sizeof(*run));

    if (!run)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    run->options = *options;
    run->env = (executor_env_t){.launcher = &run->launcher,
                                .devices = options->devices,
                                .metrics = options->metrics,
                                .rows = batch_rows,
                                .ended = batch_ended};
    TAILQ_INIT(&run->free);
    TAILQ_INIT(&run->pushing);
    run->late_start = metrics_series(options->metrics, METRIC_WORKER_LATE_START_SECONDS);
    run->revoked_waiting = metrics_series(options->metrics, METRIC_WORKER_REVOCATIONS, "waiting");
    run->revoked_stopped = metrics_series(options->metrics, METRIC_WORKER_REVOCATIONS, "stopped");
    run->revoked_late = metrics_series(options->metrics, METRIC_WORKER_REVOCATIONS, "late");
    status_t status = devices_init(run, err);
    if (status != STATUS_OK)
        goto free_run;
    status = launcher_init(&run->launcher, options->loop, options->devices->ops, err);
    if (status != STATUS_OK)
        goto dispose_devices;
    *out = run;
    return STATUS_OK;

dispose_devices:
    devices_dispose(run);
free_run:
    free(run);
    return status;
}

void run_destroy(run_t *run)
{
    const worker_devices_t *devices;
    batch_t *batch;

    if (!run)
        return;
    run->stopping = true;
    devices = run->options.devices;
    run_revoke_all(run);
    launcher_close(&run->launcher);
    for (uint32_t d = 0; d < devices->count; d++)
        devices->ops->flush(devices->list[d].engine);
    launcher_dispose(&run->launcher);
    peers_disconnect(run->options.peers);
    while ((batch = TAILQ_FIRST(&run->free))) {
        TAILQ_REMOVE(&run->free, batch, link);
        loop_timer_dispose(&batch->timer);
        batch_free_memory(batch);
    }
    devices_dispose(run);
    free(run);
}
