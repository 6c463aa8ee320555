/*
 * Shepherd's Figure 11(a): two streams on one GPU, the scheduling core before it and the preempt mode in it.
 *
 * Stream A: 1024 requests to ResNet18 at once, every 120 ms from 5 ms on. Stream B: one request to ResNeSt269
 * every millisecond. An operator here is what lies between two exit points of Table 4, which are inside the
 * model: one more operator than exit points.
 */
#include "exec/preempt.h"
#include "mode.h"
#include "mode_trace.h"
#include "sched/sched.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STREAM_COUNT = 2, BURST = 1024, TASKS_MAX = 1 << 16, EXITS_MAX = 128 };

#define STREAM_SECONDS 12.0
#define MS INT64_C(1000000)

typedef struct {
    double alpha_ms, beta_ms;
    uint32_t exits;
} stream_model_t;

/* zoo_v100_shepherd.csv: ResNet18, ResNeSt269. */
static const stream_model_t models[STREAM_COUNT] = {{0.22, 3.74, 40}, {4.37, 74.20, 128}};

typedef struct {
    sched_t *sched;
    exec_t *exec;
    accel_t *device;
    profile_t profiles[STREAM_COUNT];
    mode_tally_t tally;
    int64_t now_ns, next_ns[STREAM_COUNT], slo_ns;
    mode_trace_t trace;
    mode_trace_row_t row; /* of the launch on the device */
    uint32_t sent, sent_max;
    int64_t *requeued_ns;            /* by tag: when the batch of this request was taken back; 0: never */
    uint64_t granted[EXEC_ROWS_MAX]; /* tags of the latest batch: there is one at a time */
    uint32_t granted_count;
    status_t status;
    err_t *err;
} streams_t;

static void launch(streams_t *streams, const exec_action_t *action)
{
    const exec_part_t *part = &action->launch.parts[0];
    accel_op_t ops[EXITS_MAX + 1];
    uint32_t count = models[part->model].exits + 1;
    for (uint32_t i = 0; i < count; i++)
        ops[i] = (accel_op_t){.ns = profile_latency_ns(&streams->profiles[part->model], part->rows) / count,
                              .occupancy = 1,
                              .exit = true};
    streams->row = (mode_trace_row_t){
        .stream = part->model, .batch = action->batch, .rows = part->rows, .start_ns = streams->now_ns};
    for (uint32_t i = 0; i < action->launch.query_count; i++)
        streams->row.again += streams->requeued_ns[action->launch.queries[i].tag] != 0;
    streams->status = accel_launch(streams->device, 0, action->launch.launch, ops, count, streams->err);
}

static void on_action(void *ctx, const exec_action_t *action)
{
    streams_t *streams = ctx;
    uint32_t ran;
    if (action->kind == EXEC_LAUNCH) {
        launch(streams, action);
    } else if (action->kind == EXEC_STOP) {
        if (accel_stop(streams->device, 0, action->stop.launch, &ran))
            streams->row.end = MODE_TRACE_STOPPED;
    } else if (action->kind == EXEC_COMPLETE) {
        for (uint32_t i = 0; i < action->done.count; i++)
            mode_tally_answer(&streams->tally, (double)streams->now_ns / 1e9,
                              (double)(streams->now_ns - action->done.queries[i].arrival_ns) / 1e6,
                              (double)streams->slo_ns / 1e6);
        sched_batch_done(streams->sched, streams->now_ns, action->batch, streams->now_ns);
    }
}

static void on_grant(streams_t *streams, const sched_action_t *action)
{
    exec_query_t queries[EXEC_ROWS_MAX];
    streams->granted_count = action->grant.count;
    for (uint32_t i = 0; i < action->grant.count; i++) {
        streams->granted[i] = action->grant.tasks[i].tag;
        queries[i] = (exec_query_t){.tag = action->grant.tasks[i].tag,
                                    .model = action->model,
                                    .rows = 1,
                                    .arrival_ns = action->grant.tasks[i].arrival_ns,
                                    .deadline_ns = action->grant.tasks[i].deadline_ns};
    }
    streams->status = exec_submit(streams->exec, streams->now_ns, queries, action->grant.count,
                                  action->grant.batch_id, streams->err);
}

/* The tasks are back in the scheduler's queue at once, the device goes on to its next exit point. */
static void on_preempt(streams_t *streams, const sched_action_t *action)
{
    for (uint32_t i = 0; i < streams->granted_count; i++)
        streams->requeued_ns[streams->granted[i]] = streams->now_ns;
    exec_preempt(streams->exec, streams->now_ns, action->preempt.batch_id);
    /* One that waits behind another leaves its buffer now, for what is granted next; nothing ends here. */
    exec_run(streams->exec, streams->now_ns, on_action, streams);
}

static void on_drop(streams_t *streams, const sched_action_t *action)
{
    int64_t requeued_ns = streams->requeued_ns[action->drop.task.tag];
    mode_tally_drop(&streams->tally, (double)streams->now_ns / 1e9);
    if (requeued_ns)
        mode_trace_row(&streams->trace, &(mode_trace_row_t){.stream = action->model,
                                                            .rows = 1,
                                                            .again = 1,
                                                            .start_ns = requeued_ns,
                                                            .end_ns = streams->now_ns,
                                                            .end = MODE_TRACE_DROPPED});
}

static void on_decision(void *ctx, const sched_action_t *action)
{
    streams_t *streams = ctx;
    if (streams->status != STATUS_OK)
        return;
    if (action->kind == SCHED_GRANT)
        on_grant(streams, action);
    else if (action->kind == SCHED_PREEMPT)
        on_preempt(streams, action);
    else
        on_drop(streams, action);
}

static void submit(streams_t *streams, uint32_t model, uint32_t count)
{
    sched_task_t task = {.arrival_ns = streams->now_ns, .deadline_ns = streams->now_ns + streams->slo_ns};
    while (count-- && streams->sent < streams->sent_max && streams->status == STATUS_OK) {
        task.tag = streams->sent++;
        streams->status = sched_submit(streams->sched, streams->now_ns, model, &task, NULL);
    }
}

static void play(streams_t *streams)
{
    int64_t wake_ns = SCHED_NEVER, end_ns = (int64_t)(STREAM_SECONDS * 1e9);
    while (streams->status == STATUS_OK) {
        int64_t next = accel_next_ns(streams->device);
        for (uint32_t i = 0; i < STREAM_COUNT; i++)
            next = streams->next_ns[i] < next ? streams->next_ns[i] : next;
        streams->now_ns = next = wake_ns < next ? wake_ns : next;
        if (next > end_ns)
            break;
        uint64_t ended;
        accel_advance(streams->device, next);
        for (uint32_t i = 0; i < STREAM_COUNT; i++)
            if (streams->next_ns[i] == next) {
                submit(streams, i, i == 0 ? BURST : 1);
                streams->next_ns[i] += i == 0 ? 120 * MS : MS;
            }
        while (accel_take_ended(streams->device, &ended)) {
            streams->row.end_ns = next;
            mode_trace_row(&streams->trace, &streams->row);
            if (streams->row.end == MODE_TRACE_STOPPED)
                exec_stopped(streams->exec, next, ended);
            else
                exec_finished(streams->exec, next, ended);
        }
        exec_run(streams->exec, next, on_action, streams);
        wake_ns = sched_run(streams->sched, next, on_decision, streams);
        exec_run(streams->exec, next, on_action, streams);
    }
}

/* FLEX with and without preemption, and Clockwork; or the one that is asked for. */
static status_t set_policy(sched_t *sched, const mode_options_t *options, err_t *err)
{
    if (options->policy)
        return sched_set_policy(sched, 0, options->policy, options->params, err);
    if (strcmp(options->mode, "clockwork") == 0)
        return sched_set_policy(sched, 0, "clockwork", NULL, err);
    return sched_set_policy(sched, 0, "shepherd", strcmp(options->mode, "whole") ? NULL : "preempt=off", err);
}

static status_t set_up(streams_t *streams, const mode_options_t *options, err_t *err)
{
    bool stops = strcmp(options->mode, "preempt") == 0;
    sched_limits_t limits = {.models_max = STREAM_COUNT,
                             .gpus_max = 1,
                             .tasks_max = TASKS_MAX,
                             .batch_max = EXEC_ROWS_MAX,
                             .gpu_inflight_max = 1};
    streams->requeued_ns = calloc(streams->sent_max, sizeof(*streams->requeued_ns));
    if (!streams->requeued_ns)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %u requests", streams->sent_max);
    streams->sched = sched_create(&limits, err);
    streams->exec = streams->sched ? exec_create_preempt(EXEC_ROWS_MAX, err) : NULL;
    streams->device = streams->exec ? accel_create(1, 2 * (EXITS_MAX + 1), err) : NULL;
    if (!streams->device)
        return STATUS_NO_MEMORY;
    status_t status = set_policy(streams->sched, options, err);
    for (uint32_t i = 0; status == STATUS_OK && i < STREAM_COUNT; i++) {
        sched_model_opts_t opts = {.slo_ns = streams->slo_ns, .exit_points = stops ? models[i].exits : 0};
        status = profile_from_line(&streams->profiles[i], llround(models[i].alpha_ms * 1e6),
                                   llround(models[i].beta_ms * 1e6), EXEC_ROWS_MAX, err);
        if (status == STATUS_OK)
            status = sched_add_model(streams->sched, 0, i, &streams->profiles[i], &opts, err);
    }
    return status == STATUS_OK ? sched_add_gpu(streams->sched, 0, 0, 0) : status;
}

status_t mode_run_streams(const mode_options_t *options, mode_result_t *result, err_t *err)
{
    streams_t streams = {.slo_ns = (int64_t)(options->slo_ms * 1e6), .next_ns = {5 * MS, 0}, .err = err};
    streams.sent_max = (uint32_t)(STREAM_SECONDS * (1000 + BURST / 0.12)) + BURST;
    status_t status = mode_tally_init(&streams.tally, streams.sent_max, err);
    if (status == STATUS_OK)
        status = set_up(&streams, options, err);
    if (status == STATUS_OK)
        status = mode_trace_open(&streams.trace, options->trace_path, err);
    if (status == STATUS_OK) {
        play(&streams);
        status = streams.status;
    }
    status = mode_trace_close(&streams.trace, status, err);
    if (status == STATUS_OK) {
        mode_tally_close(&streams.tally, result);
        result->rate_rps = 1000 + BURST / 0.12;
        result->utilization = accel_busy_ns(streams.device) / (STREAM_SECONDS * 1e9);
    }
    mode_tally_dispose(&streams.tally);
    free(streams.requeued_ns);
    accel_destroy(streams.device);
    if (streams.exec)
        exec_destroy(streams.exec);
    if (streams.sched)
        sched_destroy(streams.sched);
    return status;
}
