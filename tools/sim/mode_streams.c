/*
 * Shepherd's Figure 11(a): two streams on one GPU, the scheduling core before it and the preempt mode in it.
 *
 * Stream A: 1024 requests to ResNet18 at once, every 120 ms from 5 ms on. Stream B: one request to ResNeSt269
 * every millisecond. An operator here is what lies between two exit points of Table 4, which are inside the
 * model: one more operator than exit points.
 */
#include "accel/device.h"
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
    driver_t driver;
    accel_device_t *device;
    profile_t profiles[STREAM_COUNT];
    mode_tally_t tally;
    int64_t next_ns[STREAM_COUNT], slo_ns;
    mode_trace_t trace;
    mode_trace_row_t row; /* of the launch on the device */
    uint32_t sent, sent_max;
    int64_t *requeued_ns;            /* by tag: when the batch of this request was taken back; 0: never */
    uint64_t granted[EXEC_ROWS_MAX]; /* tags of the latest batch: there is one at a time */
    uint32_t granted_count;
} streams_t;

static uint32_t operators(void *ctx, const exec_part_t *part, accel_op_t *ops)
{
    const streams_t *streams = ctx;
    uint32_t count = models[part->model].exits + 1;
    for (uint32_t i = 0; i < count; i++)
        ops[i] = (accel_op_t){.ns = profile_latency_ns(&streams->profiles[part->model], part->rows) / count,
                              .occupancy = 1,
                              .exit = true};
    return count;
}

static void trace_launch(streams_t *streams, const exec_action_t *action)
{
    const exec_part_t *part = &action->launch.parts[0];
    streams->row = (mode_trace_row_t){.stream = part->model,
                                      .batch = action->batch,
                                      .rows = part->rows,
                                      .start_ns = streams->driver.now_ns};
    for (uint32_t i = 0; i < action->launch.query_count; i++)
        streams->row.again += streams->requeued_ns[action->launch.queries[i].tag] != 0;
}

static void trace_end(void *ctx, uint64_t launch, uint32_t part, bool stopped)
{
    streams_t *streams = ctx;
    (void)launch;
    (void)part;
    streams->row.end_ns = streams->driver.now_ns;
    streams->row.end = stopped ? MODE_TRACE_STOPPED : MODE_TRACE_ENDED;
    mode_trace_row(&streams->trace, &streams->row);
}

static void act(void *ctx, const exec_action_t *action)
{
    streams_t *streams = ctx;
    int64_t now_ns = streams->driver.now_ns;
    if (action->kind == EXEC_LAUNCH)
        trace_launch(streams, action);
    if (action->kind != EXEC_COMPLETE)
        return;
    for (uint32_t i = 0; i < action->done.count; i++)
        mode_tally_answer(&streams->tally, (double)now_ns / 1e9,
                          (double)(now_ns - action->done.queries[i].arrival_ns) / 1e6,
                          (double)streams->slo_ns / 1e6);
    sched_batch_done(streams->sched, now_ns, action->batch, now_ns);
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
    driver_t *driver = &streams->driver;
    driver->status = exec_submit(driver->exec, driver->now_ns, queries, action->grant.count,
                                 action->grant.batch_id, driver->err);
}

/* The tasks are back in the scheduler's queue at once, the device goes on to its next exit point. */
static void on_preempt(streams_t *streams, const sched_action_t *action)
{
    for (uint32_t i = 0; i < streams->granted_count; i++)
        streams->requeued_ns[streams->granted[i]] = streams->driver.now_ns;
    exec_preempt(streams->driver.exec, streams->driver.now_ns, action->preempt.batch_id);
    /* One that waits behind another leaves its buffer now, for what is granted next; nothing ends here. */
    (void)driver_run(&streams->driver);
}

static void on_drop(streams_t *streams, const sched_action_t *action)
{
    int64_t requeued_ns = streams->requeued_ns[action->drop.task.tag];
    mode_tally_drop(&streams->tally, (double)streams->driver.now_ns / 1e9);
    if (requeued_ns)
        mode_trace_row(&streams->trace, &(mode_trace_row_t){.stream = action->model,
                                                            .rows = 1,
                                                            .again = 1,
                                                            .start_ns = requeued_ns,
                                                            .end_ns = streams->driver.now_ns,
                                                            .end = MODE_TRACE_DROPPED});
}

static void on_decision(void *ctx, const sched_action_t *action)
{
    streams_t *streams = ctx;
    if (streams->driver.status != STATUS_OK)
        return;
    if (action->kind == SCHED_GRANT)
        on_grant(streams, action);
    else if (action->kind == SCHED_PREEMPT)
        on_preempt(streams, action);
    else
        on_drop(streams, action);
}

static status_t submit(streams_t *streams, uint32_t model, uint32_t count)
{
    int64_t now_ns = streams->driver.now_ns;
    status_t status = STATUS_OK;
    sched_task_t task = {.arrival_ns = now_ns, .deadline_ns = now_ns + streams->slo_ns};
    while (count-- && streams->sent < streams->sent_max && status == STATUS_OK) {
        task.tag = streams->sent++;
        status = sched_submit(streams->sched, now_ns, model, &task, NULL);
    }
    return status;
}

static int64_t next_ns(const void *ctx)
{
    const streams_t *streams = ctx;
    int64_t next = streams->next_ns[0];
    for (uint32_t i = 1; i < STREAM_COUNT; i++)
        next = streams->next_ns[i] < next ? streams->next_ns[i] : next;
    return next;
}

static status_t come(void *ctx, int64_t now_ns, err_t *err)
{
    streams_t *streams = ctx;
    status_t status = STATUS_OK;
    (void)err;
    for (uint32_t i = 0; i < STREAM_COUNT && status == STATUS_OK; i++)
        if (streams->next_ns[i] == now_ns) {
            status = submit(streams, i, i == 0 ? BURST : 1);
            streams->next_ns[i] += i == 0 ? 120 * MS : MS;
        }
    return status;
}

static const driver_user_ops_t streams_ops = {next_ns, come, act};

static status_t play(streams_t *streams)
{
    driver_t *driver = &streams->driver;
    int64_t wake_ns = SCHED_NEVER, end_ns = (int64_t)(STREAM_SECONDS * 1e9);
    while (driver->status == STATUS_OK) {
        int64_t ends_ns = accel_device_next_ns(streams->device), due_ns = driver_due_ns(driver);
        if (ends_ns > end_ns && due_ns > end_ns && wake_ns > end_ns)
            break;
        if (driver_step(driver, wake_ns) != STATUS_OK)
            break;
        wake_ns = sched_run(streams->sched, driver->now_ns, on_decision, streams);
        (void)driver_run(driver);
    }
    return driver->status;
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
    exec_t *exec = streams->sched ? exec_create_preempt(EXEC_ROWS_MAX, err) : NULL;
    const accel_device_config_t device = {.streams = 1,
                                          .ops_max = 2 * (EXITS_MAX + 1),
                                          .operators = operators,
                                          .part_ended = trace_end,
                                          .ctx = streams};
    streams->device = exec ? accel_device_create(&device, err) : NULL;
    streams->driver = (driver_t){.exec = exec,
                                 .on = &accel_device_ops,
                                 .device = streams->device,
                                 .user = &streams_ops,
                                 .ctx = streams,
                                 .wake_ns = EXEC_NEVER,
                                 .err = err};
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
    streams_t streams = {.slo_ns = (int64_t)(options->slo_ms * 1e6), .next_ns = {5 * MS, 0}};
    streams.sent_max = (uint32_t)(STREAM_SECONDS * (1000 + BURST / 0.12)) + BURST;
    status_t status = mode_tally_init(&streams.tally, streams.sent_max, err);
    if (status == STATUS_OK)
        status = set_up(&streams, options, err);
    if (status == STATUS_OK)
        status = mode_trace_open(&streams.trace, options->trace_path, err);
    if (status == STATUS_OK)
        status = play(&streams);
    status = mode_trace_close(&streams.trace, status, err);
    if (status == STATUS_OK) {
        mode_tally_close(&streams.tally, result);
        result->rate_rps = 1000 + BURST / 0.12;
        result->utilization = accel_device_busy_ns(streams.device) / (STREAM_SECONDS * 1e9);
    }
    mode_tally_dispose(&streams.tally);
    free(streams.requeued_ns);
    accel_device_destroy(streams.device);
    if (streams.driver.exec)
        exec_destroy(streams.driver.exec);
    if (streams.sched)
        sched_destroy(streams.sched);
    return status;
}
