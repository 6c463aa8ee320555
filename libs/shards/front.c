#include "shards/front.h"

#include "base/clock.h"
#include "base/container.h"
#include "base/ring.h"
#include "shards/internal.h"

#include <assert.h>
#include <stdlib.h>

/* How long a report that found an inbox full waits for another try. */
#define RETRY_NS (100 * NS_PER_US)

typedef enum { OUT_GRANT, OUT_TASK, OUT_DROP, OUT_VOID } out_kind_t;

/* One cell of an outbox; a grant is followed by its tasks. */
typedef struct {
    out_kind_t kind;
    uint32_t model;
    union {
        struct {
            uint32_t gpu, count;
            uint64_t batch_id;
            int64_t start_ns, finish_ns, due_ns;
            float mean, guard;
        } grant;
        struct {
            sched_drop_t reason;
            sched_task_t task;
        } drop; /* TASK: only the task */
    };
} out_t;

typedef struct {
    spsc_t ring;
    uint32_t high;        /* above this the shard takes no more in */
    _Atomic bool refuses; /* it has done so since the loop last looked */
} outbox_t;

/* Of the end of a batch. */
typedef struct {
    uint64_t batch_id;
    int64_t free_at_ns;
} report_t;

/* A batch that the sink has seen. */
typedef struct {
    uint64_t batch_id; /* 0: none */
    uint32_t model, count;
} flying_t;

typedef struct {
    bool present;
    sched_model_stats_t stats;
    sched_scatter_t scatter;
} heard_t;

typedef struct {
    core_t core;
    front_options_t options;
    shards_t *shards;
    outbox_t *outboxes; /* SHARDS_MAX of them */
    ring_t late;        /* reports that found an inbox full */
    heard_t *models;
    flying_t *flying; /* by shard and index of the batch id */
    uint32_t batches_max;
    sched_task_t *tasks; /* of the grant that the sink sees */
    int64_t lateness_ns; /* the most of any grant that came out; negative: none did */
    bool held;
    bool told;          /* since the last run: the shards are asleep for it */
    uint32_t *model_of; /* by the low half of a tag */
    _Alignas(RING_CACHE_LINE) _Atomic bool news;
} front_t;

static front_t *front_of(const core_t *core)
{
    return CONTAINER_OF(core, front_t, core);
}

/* ---- On the shards' threads ---- */

static void put(outbox_t *outbox, const out_t *cell)
{
    bool sent = spsc_push(&outbox->ring, cell);
    assert(sent); /* see init_outbox */
    (void)sent;
}

static void put_grant(outbox_t *outbox, const sched_action_t *action, const worker_t *worker)
{
    const shard_t *shard = &worker->models[action->model];
    put(outbox, &(out_t){.kind = OUT_GRANT,
                         .model = action->model,
                         .grant = {.gpu = action->grant.gpu,
                                   .count = action->grant.count,
                                   .batch_id = action->grant.batch_id,
                                   .start_ns = action->grant.start_ns,
                                   .finish_ns = action->grant.finish_ns,
                                   .due_ns = worker->due_ns,
                                   .mean = (float)shard_mean_factor(shard),
                                   .guard = (float)shard_guard_factor(shard)}});
    for (uint32_t i = 0; i < action->grant.count; i++)
        put(outbox, &(out_t){.kind = OUT_TASK, .model = action->model, .drop.task = action->grant.tasks[i]});
}

static void on_action(void *ctx, uint32_t shard, const sched_action_t *action)
{
    front_t *front = ctx;
    outbox_t *outbox = &front->outboxes[shard];
    if (action->kind == SCHED_GRANT)
        put_grant(outbox, action, &front->shards->workers[shard]);
    else
        put(outbox, &(out_t){.kind = OUT_DROP,
                             .model = action->model,
                             .drop = {.reason = action->drop.reason, .task = action->drop.task}});
    if (!atomic_exchange_explicit(&front->news, true, memory_order_acq_rel))
        front->options.wake(front->options.ctx);
}

static bool is_high(const outbox_t *outbox)
{
    return spsc_len(&outbox->ring) >= outbox->high;
}

/* Also while all stand still, on the loop's thread: then the inboxes must become empty. */
static bool may_take(void *ctx, uint32_t shard)
{
    front_t *front = ctx;
    outbox_t *outbox = &front->outboxes[shard];
    if (front->held || !is_high(outbox))
        return true;
    atomic_store_explicit(&outbox->refuses, true, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst); /* with run's: one of both sees what the other did */
    return !is_high(outbox);
}

/* ---- Making ---- */

static uint32_t inbox_len(const front_options_t *options)
{
    enum { MESSAGES_PER_TASK = 2 }; /* submitted and cancelled */
    return MESSAGES_PER_TASK * options->limits.tasks_max;
}

/* Every task of a shard comes out at most once while the loop takes nothing: granted or dropped. A shard
 * takes tasks in while its outbox is less than half full, so that the other half has room for all that it
 * holds; and what is taken in while all stand still is at most an inbox. */
static status_t init_outbox(const front_t *front, outbox_t *outbox, err_t *err)
{
    outbox->high = front->options.limits.tasks_max + front->batches_max;
    return spsc_init(&outbox->ring, sizeof(out_t), 2 * outbox->high + inbox_len(&front->options), err);
}

static status_t allocate(front_t *front, err_t *err)
{
    const sched_limits_t *limits = &front->options.limits;
    front->outboxes = aligned_alloc(RING_CACHE_LINE, SHARDS_MAX * sizeof *front->outboxes);
    front->models = calloc(limits->models_max, sizeof *front->models);
    front->flying = calloc((size_t)front->options.shard_count * front->batches_max, sizeof *front->flying);
    front->tasks = calloc(limits->batch_max, sizeof *front->tasks);
    front->model_of = calloc(limits->tasks_max, sizeof *front->model_of);
    for (uint32_t k = 0; k < SHARDS_MAX && front->outboxes; k++)
        front->outboxes[k] = (outbox_t){0};
    if (!front->outboxes || !front->models || !front->flying || !front->tasks || !front->model_of)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the scheduling core's actions");
    status_t status = ring_init(&front->late, sizeof(report_t), front->batches_max, err);
    for (uint32_t k = 0; k < front->options.shard_count && k < SHARDS_MAX && status == STATUS_OK; k++)
        status = init_outbox(front, &front->outboxes[k], err);
    return status;
}

static status_t start(front_t *front, const front_options_t *from, err_t *err)
{
    shards_options_t options = {.limits = from->limits,
                                .shard_count = from->shard_count,
                                .inbox_len = inbox_len(from),
                                .policy = from->policy,
                                .params = from->params,
                                .delays = from->delays,
                                .pin = from->pin,
                                .balance_ns = from->balance_ns,
                                .tags_max = from->limits.tasks_max,
                                .quiet = true,
                                .sink = on_action,
                                .may_take = may_take,
                                .ctx = front};
    status_t status = shards_create(&options, &front->shards, err);
    return status == STATUS_OK ? shards_start(front->shards, err) : status;
}

static void release(front_t *front)
{
    if (!front->held)
        return;
    front->held = false;
    shards_release(front->shards);
}

static void destroy(core_t *core)
{
    front_t *front = front_of(core);
    release(front);
    shards_destroy(front->shards);
    for (uint32_t k = 0; front->outboxes && k < SHARDS_MAX; k++)
        spsc_dispose(&front->outboxes[k].ring);
    ring_dispose(&front->late);
    free(front->model_of);
    free(front->tasks);
    free(front->flying);
    free(front->models);
    free(front->outboxes);
    free(front);
}

/* ---- What happens ---- */

static bool knows(const front_t *front, uint32_t model)
{
    return model < front->options.limits.models_max && front->models[model].present;
}

static status_t submit(core_t *core, int64_t now_ns, uint32_t model, const sched_task_t *task,
                       sched_ref_t *ref)
{
    (void)now_ns;
    front_t *front = front_of(core);
    status_t status = shards_submit(front->shards, model, task);
    if (status != STATUS_OK)
        return status;
    front->model_of[(uint32_t)task->tag] = model;
    *ref = task->tag;
    front->told = true;
    front->models[model].stats.submitted++;
    front->models[model].stats.queued++;
    return STATUS_OK;
}

static bool cancel(core_t *core, int64_t now_ns, sched_ref_t ref)
{
    (void)now_ns;
    front_t *front = front_of(core);
    /* No room for the word: it goes on, and comes out later. */
    (void)shards_cancel(front->shards, front->model_of[(uint32_t)ref], ref);
    front->told = true;
    return false;
}

static bool tell(front_t *front, const report_t *report)
{
    return shards_batch_done(front->shards, report->batch_id, report->free_at_ns);
}

/* Reports keep their order: one that came later waits behind those that wait. */
static void report(front_t *front, const report_t *what)
{
    front->told = true;
    if (ring_len(&front->late) == 0 && tell(front, what))
        return;
    bool kept = ring_push(&front->late, what);
    assert(kept); /* one for each batch in flight: there is room */
    (void)kept;
}

static bool tell_late(front_t *front)
{
    for (const report_t *first; (first = ring_at(&front->late, 0)) && tell(front, first);)
        (void)ring_pop(&front->late, NULL);
    return ring_len(&front->late) == 0;
}

/* NULL: no batch that is in flight. */
static flying_t *find_flying(front_t *front, uint64_t batch_id)
{
    uint32_t shard = batch_shard(batch_id), index = batch_index(batch_id);
    if (batch_id == 0 || shard >= front->options.shard_count || index >= front->batches_max)
        return NULL;
    flying_t *batch = &front->flying[shard * front->batches_max + index];
    return batch->batch_id == batch_id ? batch : NULL;
}

static void batch_ran(core_t *core, int64_t now_ns, uint64_t batch_id, int64_t started_ns, int64_t ended_ns)
{
    (void)now_ns;
    front_t *front = front_of(core);
    if (find_flying(front, batch_id))
        (void)shards_batch_ran(front->shards, batch_id, started_ns, ended_ns);
}

static void batch_ended(core_t *core, int64_t now_ns, uint64_t batch_id, int64_t free_at_ns)
{
    (void)now_ns;
    front_t *front = front_of(core);
    flying_t *batch = find_flying(front, batch_id);
    if (!batch)
        return;
    if (batch->model != BATCH_NO_MODEL)
        front->models[batch->model].stats.in_flight -= batch->count;
    batch->batch_id = 0;
    report(front, &(report_t){.batch_id = batch_id, .free_at_ns = free_at_ns});
}

static void gpu_free(core_t *core, int64_t now_ns, uint32_t gpu, int64_t free_at_ns)
{
    (void)now_ns;
    /* A hint: when too many wait, one more does no good. */
    (void)shards_gpu_free(front_of(core)->shards, gpu, free_at_ns);
}

static void set_delays(core_t *core, int64_t now_ns, const sched_delays_t *delays)
{
    (void)now_ns;
    shards_set_delays(front_of(core)->shards, delays);
}

/* ---- What was decided ---- */

typedef struct {
    front_t *front;
    sched_sink_fn sink;
    void *ctx;
    int64_t now_ns;
} taker_t;

/* The shard puts the cells of a grant one by one; those that are not all there are left for later. */
static bool take_grant(const taker_t *taker, outbox_t *outbox, uint32_t shard)
{
    front_t *front = taker->front;
    const out_t *first = spsc_at(&outbox->ring, 0);
    uint32_t count = first->grant.count;
    if (spsc_len(&outbox->ring) <= count)
        return false;
    out_t head, cell;
    (void)spsc_pop(&outbox->ring, &head);
    for (uint32_t i = 0; i < count; i++) {
        (void)spsc_pop(&outbox->ring, &cell);
        front->tasks[i] = cell.drop.task;
    }
    sched_model_stats_t *stats = &front->models[head.model].stats;
    stats->granted += count;
    stats->batches++;
    stats->busy_ns += (uint64_t)(head.grant.finish_ns - head.grant.start_ns);
    stats->in_flight += count;
    stats->queued -= count;
    front->models[head.model].scatter = (sched_scatter_t){.mean = head.grant.mean, .guard = head.grant.guard};
    int64_t late_ns = taker->now_ns - head.grant.due_ns;
    front->lateness_ns = late_ns > front->lateness_ns ? late_ns : front->lateness_ns;
    front->flying[shard * front->batches_max + batch_index(head.grant.batch_id)] =
        (flying_t){.batch_id = head.grant.batch_id, .model = head.model, .count = count};
    sched_action_t action = {.kind = SCHED_GRANT,
                             .model = head.model,
                             .grant = {.gpu = head.grant.gpu,
                                       .batch_id = head.grant.batch_id,
                                       .start_ns = head.grant.start_ns,
                                       .finish_ns = head.grant.finish_ns,
                                       .tasks = front->tasks,
                                       .count = count}};
    taker->sink(taker->ctx, &action);
    return true;
}

static void take_drop(const taker_t *taker, outbox_t *outbox)
{
    out_t cell;
    (void)spsc_pop(&outbox->ring, &cell);
    sched_model_stats_t *stats = &taker->front->models[cell.model].stats;
    stats->queued--;
    if (cell.drop.reason == SCHED_DROP_CANCELLED)
        stats->cancelled++;
    else
        stats->dropped[cell.drop.reason]++;
    sched_action_t action = {.kind = SCHED_DROP,
                             .model = cell.model,
                             .drop = {.task = cell.drop.task, .reason = cell.drop.reason}};
    taker->sink(taker->ctx, &action);
}

static void drain(const taker_t *taker, outbox_t *outbox, uint32_t shard)
{
    for (const out_t *first; (first = spsc_at(&outbox->ring, 0));) {
        out_t cell;
        if (first->kind == OUT_DROP)
            take_drop(taker, outbox);
        else if (first->kind == OUT_VOID)
            (void)spsc_pop(&outbox->ring, &cell);
        else if (!take_grant(taker, outbox, shard))
            return;
    }
}

static int64_t run(core_t *core, int64_t now_ns, sched_sink_fn sink, void *ctx)
{
    front_t *front = front_of(core);
    const taker_t taker = {front, sink, ctx, now_ns};
    release(front);
    (void)atomic_exchange_explicit(&front->news, false, memory_order_acq_rel);
    for (uint32_t k = 0; k < front->options.shard_count; k++) {
        outbox_t *outbox = &front->outboxes[k];
        drain(&taker, outbox, k);
        atomic_thread_fence(memory_order_seq_cst);
        if (atomic_exchange_explicit(&outbox->refuses, false, memory_order_relaxed))
            waiter_wake(&front->shards->workers[k].waiter);
    }
    bool all_told = tell_late(front);
    if (front->told)
        shards_wake(front->shards);
    front->told = false;
    return all_told ? SCHED_NEVER : now_ns + RETRY_NS;
}

/* ---- Changes: now_ns is not used, for threads go on by the clock until they stand still ---- */

static void hold(front_t *front)
{
    if (!front->held) {
        shards_hold(front->shards);
        front->held = true;
    }
    while (!tell_late(front))
        shards_settle(front->shards, clock_now_ns());
    shards_settle(front->shards, clock_now_ns());
}

/* Makes a grant that has not come out as if it had never been: its tasks go back to their queue, or with
 * their model. */
static void undo(front_t *front, outbox_t *outbox, uint32_t at, bool requeue)
{
    out_t *grant = spsc_at(&outbox->ring, at);
    uint64_t batch_id = grant->grant.batch_id;
    int64_t start_ns = grant->grant.start_ns;
    for (uint32_t i = 1; i <= grant->grant.count; i++) {
        out_t *cell = spsc_at(&outbox->ring, at + i);
        cell->kind = requeue ? OUT_VOID : OUT_DROP;
        cell->drop.reason = SCHED_DROP_MODEL_REMOVED;
    }
    grant->kind = OUT_VOID;
    while (!(requeue ? shards_batch_undone(front->shards, batch_id, start_ns)
                     : shards_batch_done(front->shards, batch_id, start_ns)))
        shards_settle(front->shards, clock_now_ns());
}

/* What was decided and has not come out, for this GPU or this model; UINT32_MAX: any. */
static void take_back(front_t *front, uint32_t gpu, uint32_t model)
{
    for (uint32_t k = 0; k < front->options.shard_count; k++) {
        outbox_t *outbox = &front->outboxes[k];
        const out_t *cell;
        for (uint32_t at = 0; (cell = spsc_at(&outbox->ring, at)); at++)
            if (cell->kind == OUT_GRANT && (cell->grant.gpu == gpu || cell->model == model))
                undo(front, outbox, at, model == UINT32_MAX);
    }
    shards_settle(front->shards, clock_now_ns());
}

static status_t add_model(core_t *core, int64_t now_ns, uint32_t model, const profile_t *profile,
                          const sched_model_opts_t *opts, err_t *err)
{
    (void)now_ns;
    front_t *front = front_of(core);
    hold(front);
    status_t status = shards_add_model(front->shards, 0, model, profile, opts, err);
    if (status != STATUS_OK)
        return status;
    heard_t *made = &front->models[model];
    made->present = true;
    made->scatter = (sched_scatter_t){.mean = 1, .guard = 1};
    made->stats =
        (sched_model_stats_t){.queued = made->stats.queued}; /* of another before it may still come out */
    return STATUS_OK;
}

/* Its batches go on without it. */
static void orphan_batches(front_t *front, uint32_t model)
{
    for (uint32_t b = 0; b < front->options.shard_count * front->batches_max; b++)
        if (front->flying[b].batch_id && front->flying[b].model == model)
            front->flying[b].model = BATCH_NO_MODEL;
    front->models[model].stats.in_flight = 0;
}

static void remove_model(core_t *core, int64_t now_ns, uint32_t model)
{
    (void)now_ns;
    front_t *front = front_of(core);
    if (!knows(front, model))
        return;
    hold(front);
    take_back(front, UINT32_MAX, model);
    orphan_batches(front, model);
    front->models[model].present = false;
    (void)shards_remove_model(front->shards, 0, model);
}

static void update_profile(core_t *core, int64_t now_ns, uint32_t model, const profile_t *profile)
{
    (void)now_ns;
    front_t *front = front_of(core);
    hold(front);
    (void)shards_update_profile(front->shards, 0, model, profile);
}

/* Only policies that stop batches look at them. */
static void set_exit_points(core_t *core, uint32_t model, uint32_t exit_points)
{
    (void)core;
    (void)model;
    (void)exit_points;
}

/* Only modes that are refused here look at it. */
static status_t set_inside(core_t *core, int64_t now_ns, uint32_t model, const sched_inside_t *inside,
                           err_t *err)
{
    (void)core;
    (void)now_ns;
    (void)model;
    (void)inside;
    (void)err;
    return STATUS_OK;
}

static void allow(core_t *core, int64_t now_ns, uint32_t model, uint32_t gpu, bool allowed)
{
    (void)now_ns;
    front_t *front = front_of(core);
    /* As it is: nobody need stand still for it. Nobody but this thread writes what is read here. */
    if (knows(front, model) && gpu < front->options.limits.gpus_max &&
        matcher_may_use(&front->shards->binder.matcher, model, gpu) == allowed)
        return;
    hold(front);
    (void)shards_allow(front->shards, 0, model, gpu, allowed);
}

static status_t add_gpu(core_t *core, int64_t now_ns, uint32_t gpu, const sched_gpu_mode_t *mode,
                        int64_t free_at_ns, err_t *err)
{
    (void)now_ns;
    front_t *front = front_of(core);
    if (mode->stretches || mode->slots > 1)
        return err_set(
            err, STATUS_UNSUPPORTED,
            "grants that join or run beside others need one thread that sees queues and GPUs at once");
    hold(front);
    status_t status = shards_add_gpu(front->shards, gpu, free_at_ns);
    return status == STATUS_OK ? status : err_set(err, status, "GPU %u is there, or out of range", gpu);
}

static void drain_gpu(core_t *core, int64_t now_ns, uint32_t gpu)
{
    (void)now_ns;
    front_t *front = front_of(core);
    hold(front);
    (void)shards_drain_gpu(front->shards, gpu);
    take_back(front, gpu, UINT32_MAX);
}

static void remove_gpu(core_t *core, int64_t now_ns, uint32_t gpu)
{
    (void)now_ns;
    front_t *front = front_of(core);
    hold(front);
    take_back(front, gpu, UINT32_MAX);
    (void)shards_remove_gpu(front->shards, gpu);
}

static status_t set_policy(core_t *core, int64_t now_ns, const char *name, const char *params, err_t *err)
{
    (void)now_ns;
    front_t *front = front_of(core);
    hold(front);
    return shards_set_policy(front->shards, 0, name, params, err);
}

/* ---- Looking in ---- */

static const char *policy(const core_t *core)
{
    return front_of(core)->shards->planner.policy.ops->name;
}

static bool stops(const core_t *core, err_t *why)
{
    const policy_t *policy = &front_of(core)->shards->planner.policy;
    if (policy->ops->preempts && !policy->stops)
        return true; /* nothing, as its parameters want it */
    (void)err_set(why, STATUS_UNSUPPORTED, "threads that decide never stop a running batch");
    return false;
}

static bool model_stats(const core_t *core, uint32_t model, sched_model_stats_t *stats)
{
    const front_t *front = front_of(core);
    if (!knows(front, model))
        return false;
    *stats = front->models[model].stats;
    return true;
}

static bool model_scatter(const core_t *core, uint32_t model, sched_scatter_t *scatter)
{
    const front_t *front = front_of(core);
    if (!knows(front, model))
        return false;
    *scatter = front->models[model].scatter;
    return true;
}

/* What waits is in the threads' queues. */
static bool backlog(const core_t *core, int64_t now_ns, uint32_t model, sched_backlog_t *backlog)
{
    (void)core;
    (void)now_ns;
    (void)model;
    (void)backlog;
    return false;
}

/* Nobody was told to. */
static void note_refused(core_t *core, uint32_t model, uint32_t count)
{
    (void)core;
    (void)model;
    (void)count;
}

static double needed(const core_t *core)
{
    return shards_needed(front_of(core)->shards);
}

static bool take_lateness(core_t *core, int64_t *lateness_ns)
{
    front_t *front = front_of(core);
    *lateness_ns = front->lateness_ns;
    front->lateness_ns = -1;
    return *lateness_ns >= 0;
}

static const core_ops_t front_ops = {
    .threads = true,
    .destroy = destroy,
    .set_policy = set_policy,
    .policy = policy,
    .stops = stops,
    .set_delays = set_delays,
    .add_model = add_model,
    .remove_model = remove_model,
    .update_profile = update_profile,
    .set_exit_points = set_exit_points,
    .set_inside = set_inside,
    .allow = allow,
    .model_stats = model_stats,
    .model_scatter = model_scatter,
    .backlog = backlog,
    .note_refused = note_refused,
    .needed = needed,
    .add_gpu = add_gpu,
    .drain_gpu = drain_gpu,
    .remove_gpu = remove_gpu,
    .gpu_free = gpu_free,
    .submit = submit,
    .cancel = cancel,
    .batch_ran = batch_ran,
    .batch_ended = batch_ended,
    .run = run,
    .take_lateness = take_lateness,
};

status_t front_create(const front_options_t *options, core_t **out, err_t *err)
{
    uint32_t inflight = options->limits.gpu_inflight_max ? options->limits.gpu_inflight_max : 2;
    if (options->shard_count > SHARDS_MAX)
        return err_set(err, STATUS_INVALID_ARGUMENT, "shards: %u, not in 1..%d", options->shard_count,
                       SHARDS_MAX);
    front_t *front = aligned_alloc(RING_CACHE_LINE, sizeof *front);
    if (!front)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the scheduling core");
    *front = (front_t){.core.ops = &front_ops,
                       .options = *options,
                       .lateness_ns = -1,
                       .batches_max = options->limits.gpus_max * inflight};
    front->options.policy = front->options.params = NULL; /* the caller's */
    status_t status = allocate(front, err);
    if (status == STATUS_OK)
        status = start(front, options, err);
    if (status == STATUS_OK)
        *out = &front->core;
    else
        destroy(&front->core);
    return status;
}
