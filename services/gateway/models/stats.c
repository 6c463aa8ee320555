#include "gateway/models/stats.h"

#include <math.h>
#include <string.h>
#include <time.h>

const char *protocol_name(protocol_t protocol)
{
    return protocol == PROTOCOL_GRPC ? "grpc" : "rest";
}

void model_stats_init(model_stats_t *stats, metrics_t *metrics, const char *model, const char *version)
{
    memset(stats, 0, sizeof *stats);
    stats->metrics = metrics;
    stats->model = model;
    stats->version = version;
    stats->nv_success = metrics_series(metrics, METRIC_NV_SUCCESS, model, version);
    stats->nv_failure = metrics_series(metrics, METRIC_NV_FAILURE, model, version);
    stats->nv_count = metrics_series(metrics, METRIC_NV_COUNT, model, version);
    stats->nv_exec = metrics_series(metrics, METRIC_NV_EXEC_COUNT, model, version);
    stats->nv_pending = metrics_series(metrics, METRIC_NV_PENDING, model, version);
    stats->nv_request_us = metrics_series(metrics, METRIC_NV_REQUEST_US, model, version);
    stats->nv_queue_us = metrics_series(metrics, METRIC_NV_QUEUE_US, model, version);
    stats->nv_input_us = metrics_series(metrics, METRIC_NV_INPUT_US, model, version);
    stats->nv_infer_us = metrics_series(metrics, METRIC_NV_INFER_US, model, version);
    stats->nv_output_us = metrics_series(metrics, METRIC_NV_OUTPUT_US, model, version);
    stats->preprocess_seconds = metrics_series(metrics, METRIC_GATEWAY_PREPROCESS_SECONDS, model);
    for (int p = 0; p < PROTOCOL_COUNT; p++)
        stats->seconds[p] =
            metrics_series(metrics, METRIC_GATEWAY_REQUEST_SECONDS, protocol_name((protocol_t)p), model);
}

/* The gauge is of all gateways of the process. */
static void count_pending(model_stats_t *stats, int more)
{
    stats->pending += (uint32_t)more;
    metrics_gauge_add(stats->nv_pending, more);
}

void model_stats_hide(model_stats_t *stats)
{
    count_pending(stats, -(int)stats->pending);
    metrics_hide(stats->nv_pending);
}

void model_stats_submitted(model_stats_t *stats)
{
    count_pending(stats, 1);
}

void model_stats_moved(model_stats_t *from, model_stats_t *to)
{
    count_pending(from, -1);
    model_stats_submitted(to);
}

static void add_duration(oip_duration_t *duration, uint64_t ns)
{
    duration->count++;
    duration->ns += ns;
}

static metric_t *answered_series(model_stats_t *stats, protocol_t protocol, status_t status)
{
    metric_t **series = &stats->answered[protocol][status];
    if (!*series)
        *series = metrics_series(stats->metrics, METRIC_GATEWAY_REQUESTS, protocol_name(protocol),
                                 stats->model, status_name(status));
    return *series;
}

static metric_t *tasks_series(model_stats_t *stats, status_t status)
{
    metric_t **series = &stats->tasks[status];
    if (!*series)
        *series = metrics_series(stats->metrics, METRIC_GATEWAY_TASKS, stats->model, status_name(status));
    return *series;
}

static void count_success(model_stats_t *stats, const request_outcome_t *outcome)
{
    const row_timing_t *timing = &outcome->timing;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    stats->last_inference_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    add_duration(&stats->success, outcome->total_ns);
    add_duration(&stats->queue, timing->queue_ns);
    add_duration(&stats->compute_input, timing->fetch_ns);
    add_duration(&stats->compute_infer, timing->exec_ns);
    add_duration(&stats->compute_output, outcome->output_ns);
    stats->rows += outcome->rows;
    metrics_add(stats->nv_success, 1);
    metrics_add(stats->nv_count, outcome->rows);
    metrics_add(stats->nv_request_us, outcome->total_ns);
    metrics_add(stats->nv_queue_us, timing->queue_ns);
    metrics_add(stats->nv_input_us, timing->fetch_ns);
    metrics_add(stats->nv_infer_us, timing->exec_ns);
    metrics_add(stats->nv_output_us, outcome->output_ns);
}

void model_stats_answered(model_stats_t *stats, const request_outcome_t *outcome)
{
    if (stats->pending > 0)
        count_pending(stats, -1);
    if (outcome->status == STATUS_OK) {
        count_success(stats, outcome);
    } else {
        add_duration(&stats->fail, outcome->total_ns);
        metrics_add(stats->nv_failure, 1);
    }
    metrics_add(answered_series(stats, outcome->protocol, outcome->status), 1);
    metrics_add(tasks_series(stats, outcome->status), outcome->rows);
    metrics_observe(stats->seconds[outcome->protocol], (int64_t)outcome->total_ns);
}

void model_stats_row(model_stats_t *stats, const row_timing_t *timing)
{
    uint32_t size = timing->batch_size > 0 ? timing->batch_size : 1;
    double share = 1.0 / size;
    uint32_t slot = size <= STATS_BATCHES_MAX ? size : STATS_BATCHES_MAX;
    stats->executions += share;
    stats->batches[slot].executions += share;
    stats->batches[slot].input_ns += timing->fetch_ns / size;
    stats->batches[slot].infer_ns += timing->exec_ns / size;
    uint64_t whole = (uint64_t)(stats->executions + 1e-6);
    if (whole > stats->executions_told) {
        metrics_add(stats->nv_exec, whole - stats->executions_told);
        stats->executions_told = whole;
    }
}

void model_stats_describe(const model_stats_t *stats, oip_model_stats_t *out, oip_batch_stats_t *batches)
{
    *out = (oip_model_stats_t){.name = stats->model,
                               .version = stats->version,
                               .last_inference_ms = stats->last_inference_ms,
                               .inference_count = stats->rows,
                               .execution_count = (uint64_t)llround(stats->executions),
                               .success = stats->success,
                               .fail = stats->fail,
                               .queue = stats->queue,
                               .compute_input = stats->compute_input,
                               .compute_infer = stats->compute_infer,
                               .compute_output = stats->compute_output,
                               .batches = batches};
    for (uint32_t size = 1; size <= STATS_BATCHES_MAX; size++) {
        if (stats->batches[size].executions <= 0)
            continue;
        uint64_t count = (uint64_t)llround(stats->batches[size].executions);
        count = count > 0 ? count : 1;
        batches[out->batch_count++] =
            (oip_batch_stats_t){.batch_size = size,
                                .compute_input = {count, stats->batches[size].input_ns},
                                .compute_infer = {count, stats->batches[size].infer_ns},
                                .compute_output = {count, 0}};
    }
}
