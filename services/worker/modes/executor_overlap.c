/*
 * `overlap`: batches of several models side by side, in groups of segments that exec/overlap.h plans so that
 * the tightest deadline is kept. A granted batch is a query; what it has computed when its group ends waits
 * in a border until the next one. Once it is through it is answered, whatever its group still does. All
 * models of a device in this mode share one executor, and one duration model.
 *
 * A batch runs in its own buffers, and where shapes vary each of its parts says its shape. How much room the
 * outputs need the last part finds out before it computes anything; it runs once more then.
 */
#include "model/modes/segments.h"
#include "worker/batch/run.h"
#include "worker/modes/carrier.h"

#include "base/clock.h"

#include <stdlib.h>

enum {
    SLOTS = RUN_QUEUE_MAX,
    WAYS = 4, /* Abacus 6: groups that are looked at at once */
};

/* From the end of the last group until the answer is at its gateway. */
static const int64_t PUSH_NS = NS_PER_MS;
/* Abacus's duration model is off by some 5 %. */
static const double MARGIN = 0.05;
/* Half of what the most pressed model is given is left for a batch that comes when a group has just begun. */
static const double GROUP_PART = 0.5;

typedef struct {
    launch_t launch;
    struct overlap *overlap;
    uint32_t slot;
    bool runs, last; /* last: its query is through then */
} part_t;

typedef struct overlap {
    carrier_t carrier; /* first */
    batch_t *slots[SLOTS];
    bool gone[SLOTS];     /* dropped while a part of it runs, which ends as usual */
    bool answered[SLOTS]; /* its batch is over, and its group is not: libs/exec still knows the slot */
    part_t parts[EXEC_PARTS_MAX];
    uint64_t group; /* of libs/exec, running */
    uint32_t parts_left;
    metric_t *groups, *parts_run, *beside;
} overlap_t;

static const model_segments_t *segments_of(const batch_t *batch)
{
    return batch->model->choice.segments;
}

/* ---- groups ---- */

static void let_go(overlap_t *overlap, uint32_t slot)
{
    batch_t *batch = overlap->slots[slot];

    overlap->slots[slot] = NULL;
    overlap->gone[slot] = false;
    carrier_over(&overlap->carrier, batch, batch->over);
}

static void answer(overlap_t *overlap, uint32_t slot)
{
    batch_t *batch = overlap->slots[slot];

    overlap->carrier.executor.env->rows(batch, 0, batch->count, batch->count);
    overlap->answered[slot] = true;
    let_go(overlap, slot);
}

/* As it was, now that the outputs have room. False: it is over, and its batch too when it has failed. */
static bool runs_again(part_t *part)
{
    overlap_t *overlap = part->overlap;
    launch_t *launch = &part->launch;
    batch_t *batch = overlap->slots[part->slot];
    bool again;

    if (overlap->gone[part->slot])
        return false;
    batch->err = launch->err;
    batch->over =
        batch_take_output_shapes(batch, overlap->carrier.executor.env->devices, launch->status, &again);
    if (again) {
        batch->over = STATUS_OK;
        carrier_launch(&overlap->carrier, launch);
    } else if (batch->over != STATUS_OK) {
        /* What is left of it would compute on garbage. False: nothing is. */
        (void)exec_preempt(overlap->carrier.driver.exec, clock_now_ns(), carrier_id(batch));
    }
    return again;
}

static void part_ended(launch_t *launch)
{
    part_t *part = CONTAINER_OF(launch, part_t, launch);
    overlap_t *overlap = part->overlap;
    batch_t *batch = overlap->slots[part->slot];

    batch->device_ns += launch->time.charged_ns;
    if (runs_again(part)) {
        carrier_decide(&overlap->carrier);
        return;
    }
    if (!batch->started_ns)
        batch->started_ns = launch->job.started_ns;
    if (launch->job.finished_ns)
        batch->finished_ns = launch->job.finished_ns;
    part->runs = false;
    if (overlap->gone[part->slot])
        let_go(overlap, part->slot);
    else if (part->last && batch->over == STATUS_OK)
        answer(overlap, part->slot);
    if (--overlap->parts_left == 0)
        carrier_end(&overlap->carrier, overlap->group, DRIVER_FINISHED);
    carrier_decide(&overlap->carrier);
}

static void launch_part(overlap_t *overlap, uint32_t index, const exec_part_t *what)
{
    part_t *part = &overlap->parts[index];
    uint32_t device = overlap->carrier.executor.device;
    batch_t *batch = overlap->slots[what->tag];
    const model_segments_t *segments = segments_of(batch);
    bool first = what->from == 0, last = what->to == segments->plan->predictor.ops[segments->service];

    part->slot = (uint32_t)what->tag;
    part->runs = true;
    part->last = last;
    batch->begun = true;
    part->launch.ended = part_ended;
    part->launch.job = (engine_job_t){
        .model = batch->model->on_device[device],
        .batch = batch->count,
        .range = {.stream = index % segments->devices->streams,
                  .from = segments->from[what->from],
                  .to = segments->from[what->to]},
        .inputs = (const void *const *)batch->buffers->inputs,
        .outputs = batch->buffers->outputs,
        .source = first ? NULL : model_segments_border(segments, device, batch->half, batch->side),
        .target = last ? NULL : model_segments_border(segments, device, batch->half, !batch->side)};
    if (segments->shapes)
        batch_put_shapes(batch, &part->launch.job);
    batch->side = !batch->side;
    carrier_launch(&overlap->carrier, &part->launch);
}

static status_t launch_group(void *device, const exec_action_t *action, err_t *err)
{
    overlap_t *overlap = device;

    (void)err;
    overlap->group = action->launch.launch;
    overlap->parts_left = action->launch.count;
    for (uint32_t i = 0; i < action->launch.count; i++)
        launch_part(overlap, i, &action->launch.parts[i]);
    metrics_add(overlap->groups, 1);
    metrics_add(overlap->parts_run, action->launch.count);
    metrics_add(overlap->beside, action->launch.count > 1);
    return STATUS_OK;
}

static bool slot_runs(const overlap_t *overlap, uint32_t slot)
{
    for (uint32_t i = 0; i < EXEC_PARTS_MAX; i++)
        if (overlap->parts[i].runs && overlap->parts[i].slot == slot)
            return true;
    return false;
}

static void end_query(overlap_t *overlap, uint32_t slot, exec_action_kind_t how)
{
    batch_t *batch = overlap->slots[slot];

    if (overlap->answered[slot]) {
        overlap->answered[slot] = false;
        return;
    }
    if (how == EXEC_REQUEUE && batch->over == STATUS_OK) {
        batch->over = err_set(&batch->err, STATUS_CANCELLED, "revoked");
    } else if (how == EXEC_DROP) {
        batch->over = STATUS_DEADLINE_EXCEEDED;
        err_set(&batch->err, STATUS_DEADLINE_EXCEEDED, "overlap: it cannot end in time any more");
        metrics_add(batch->model->serving->overlap_dropped, 1);
    }
    overlap->gone[slot] = slot_runs(overlap, slot);
    if (!overlap->gone[slot])
        let_go(overlap, slot);
}

static void overlap_act(void *ctx, const exec_action_t *action)
{
    for (uint32_t i = 0; action->kind != EXEC_LAUNCH && i < action->done.count; i++)
        end_query(ctx, (uint32_t)action->done.queries[i].tag, action->kind);
}

/* ---- the executor ---- */

static uint32_t free_slot(const overlap_t *overlap)
{
    uint32_t slot = 0;

    while (slot < SLOTS && (overlap->slots[slot] || overlap->answered[slot]))
        slot++;
    return slot;
}

/* Borders of its model that no other query has; SEGMENTS_QUERIES: none. */
static uint32_t free_half(const overlap_t *overlap, const batch_t *batch)
{
    bool taken[SEGMENTS_QUERIES] = {false};
    uint32_t half = 0;

    for (uint32_t i = 0; i < SLOTS; i++)
        if (overlap->slots[i] && overlap->slots[i]->model == batch->model)
            taken[overlap->slots[i]->half] = true;
    while (half < SEGMENTS_QUERIES && taken[half])
        half++;
    return half;
}

static bool overlap_takes(const executor_t *executor, const batch_t *batch)
{
    const overlap_t *overlap = (const overlap_t *)executor;

    return free_slot(overlap) < SLOTS && free_half(overlap, batch) < SEGMENTS_QUERIES;
}

static void overlap_submit(executor_t *executor, batch_t *batch)
{
    overlap_t *overlap = (overlap_t *)executor;
    uint32_t slot = free_slot(overlap);
    exec_query_t query = {.tag = slot,
                          .model = segments_of(batch)->service,
                          .rows = batch->count,
                          .length = model_segments_length(segments_of(batch), batch_sizes(batch)),
                          .arrival_ns = batch->granted_ns,
                          .deadline_ns = batch->answer_by_ns - PUSH_NS};

    batch->half = free_half(overlap, batch);
    batch->side = 0;
    batch->over = STATUS_OK;
    batch->shared = true; /* how long it took tells little about how long it takes alone */
    overlap->slots[slot] = batch;
    carrier_submit(&overlap->carrier, batch, &query, 1);
}

/* Only before any of it has run: what waits for its next group is dropped when it cannot make it. */
static bool overlap_revoke(executor_t *executor, batch_t *batch)
{
    return !batch->begun && carrier_revoke(executor, batch);
}

/* A batch here lets others in beside it. */
static int64_t overlap_left_ns(const executor_t *executor, const batch_t *batch)
{
    (void)executor, (void)batch;
    return 0;
}

static const driver_device_ops_t overlap_device = {.launch = launch_group, .carry_out = carrier_carry_out};
static const driver_user_ops_t overlap_user = {.act = overlap_act};

static const executor_ops_t overlap_ops = {.mode = MODE_OVERLAP,
                                           .takes = overlap_takes,
                                           .submit = overlap_submit,
                                           .revoke = overlap_revoke,
                                           .left_ns = overlap_left_ns,
                                           .destroy = carrier_destroy};

static exec_t *make_exec(const overlap_plan_t *plan, err_t *err)
{
    overlap_config_t config = overlap_plan_config(plan);

    config.order = OVERLAP_ABACUS;
    config.ways = WAYS;
    config.queries_max = SLOTS;
    config.margin = MARGIN;
    config.group_part = GROUP_PART;
    config.triage = config.by_rows = true;
    return exec_create_overlap(&config, err);
}

executor_t *executor_create_overlap(const executor_env_t *env, uint32_t device, const overlap_plan_t *plan,
                                    err_t *err)
{
    overlap_t *overlap = calloc(1, sizeof(*overlap));
    const char *name = env->devices->list[device].name;

    if (!overlap) {
        err_set(err, STATUS_NO_MEMORY, "out of memory");
        return NULL;
    }
    for (uint32_t i = 0; i < EXEC_PARTS_MAX; i++)
        overlap->parts[i].overlap = overlap;
    overlap->groups = metrics_series(env->metrics, METRIC_WORKER_OVERLAP_GROUPS, name);
    overlap->parts_run = metrics_series(env->metrics, METRIC_WORKER_OVERLAP_PARTS, name);
    overlap->beside = metrics_series(env->metrics, METRIC_WORKER_OVERLAP_BESIDE, name);
    if (carrier_init(&overlap->carrier, &overlap_ops, env, device, make_exec(plan, err), &overlap_device,
                     &overlap_user, err) != STATUS_OK) {
        free(overlap);
        return NULL;
    }
    return &overlap->carrier.executor;
}
