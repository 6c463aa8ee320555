#include "gateway/models/stats.h"

#include <math.h>
#include <string.h>
#include <time.h>

const char *protocol_name(protocol_t protocol)
{
    return protocol == PROTOCOL_GRPC ? "grpc" : "rest";
}

/* ------------------------------------------------------------------ the board */

void stats_board_init(stats_board_t *board)
{
    *board = (stats_board_t){.lock = PTHREAD_MUTEX_INITIALIZER};
}

void stats_board_dispose(stats_board_t *board)
{
    pthread_mutex_destroy(&board->lock);
}

static void enter(model_stats_t *stats, stats_board_t *board)
{
    pthread_mutex_lock(&board->lock);
    stats->board = board;
    stats->next = board->first;
    stats->link = &board->first;
    if (stats->next)
        stats->next->link = &stats->next;
    board->first = stats;
    pthread_mutex_unlock(&board->lock);
}

void model_stats_leave(model_stats_t *stats)
{
    stats_board_t *board = stats->board;
    if (!board)
        return;
    pthread_mutex_lock(&board->lock);
    *stats->link = stats->next;
    if (stats->next)
        stats->next->link = stats->link;
    stats->board = NULL;
    pthread_mutex_unlock(&board->lock);
}

/* ------------------------------------------------------------------ counting */

void model_stats_init(model_stats_t *stats, metrics_t *metrics, stats_board_t *board, const char *model,
                      const char *version)
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
    if (board)
        enter(stats, board);
}

/* One loop writes, so that no other write can come between. */
static void grow(_Atomic uint64_t *value, uint64_t by)
{
    uint64_t now = atomic_load_explicit(value, memory_order_relaxed) + by;
    atomic_store_explicit(value, now, memory_order_relaxed);
}

static double grow_part(_Atomic double *value, double by)
{
    double now = atomic_load_explicit(value, memory_order_relaxed) + by;
    atomic_store_explicit(value, now, memory_order_relaxed);
    return now;
}

/* The gauge is of all gateways of the process. */
static void count_pending(model_stats_t *stats, int more)
{
    stats->pending += (uint32_t)more;
    metrics_gauge_add(stats->nv_pending, more);
}

void model_stats_hide(model_stats_t *stats)
{
    model_stats_leave(stats);
    count_pending(stats, -(int)stats->pending);
    metrics_hide(stats->nv_pending);
}

static void release(metrics_t *metrics, metric_t **series, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (series[i])
            series[i] = metrics_release(metrics, series[i]);
}

void model_stats_dispose(model_stats_t *stats)
{
    metric_t **one[] = {&stats->nv_success,   &stats->nv_failure,        &stats->nv_count,
                        &stats->nv_exec,      &stats->nv_pending,        &stats->nv_request_us,
                        &stats->nv_queue_us,  &stats->nv_input_us,       &stats->nv_infer_us,
                        &stats->nv_output_us, &stats->preprocess_seconds};
    model_stats_leave(stats);
    for (size_t i = 0; i < sizeof one / sizeof *one; i++)
        release(stats->metrics, one[i], 1);
    release(stats->metrics, stats->seconds, PROTOCOL_COUNT);
    release(stats->metrics, stats->answered[0], sizeof stats->answered / sizeof(metric_t *));
    release(stats->metrics, stats->tasks, sizeof stats->tasks / sizeof(metric_t *));
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

static void add_duration(counted_t *duration, uint64_t ns)
{
    grow(&duration->count, 1);
    grow(&duration->ns, ns);
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
    model_counts_t *counts = &stats->counts;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    uint64_t now_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    atomic_store_explicit(&counts->last_inference_ms, now_ms, memory_order_relaxed);
    add_duration(&counts->success, outcome->total_ns);
    add_duration(&counts->queue, timing->queue_ns);
    add_duration(&counts->compute_input, timing->fetch_ns);
    add_duration(&counts->compute_infer, timing->exec_ns);
    add_duration(&counts->compute_output, outcome->output_ns);
    grow(&counts->rows, outcome->rows);
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
        add_duration(&stats->counts.fail, outcome->total_ns);
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
    model_counts_t *counts = &stats->counts;
    grow_part(&counts->batches[slot].executions, share);
    grow(&counts->batches[slot].input_ns, timing->fetch_ns / size);
    grow(&counts->batches[slot].infer_ns, timing->exec_ns / size);
    uint64_t whole = (uint64_t)(grow_part(&counts->executions, share) + 1e-6);
    if (whole > stats->executions_told) {
        metrics_add(stats->nv_exec, whole - stats->executions_told);
        stats->executions_told = whole;
    }
}

/* ------------------------------------------------------------------ telling */

static uint64_t value_of(const _Atomic uint64_t *value)
{
    return atomic_load_explicit(value, memory_order_relaxed);
}

static void add_counted(counted_t *sum, const counted_t *one)
{
    grow(&sum->count, value_of(&one->count));
    grow(&sum->ns, value_of(&one->ns));
}

static void add_counts(model_counts_t *sum, const model_counts_t *one)
{
    if (value_of(&one->last_inference_ms) > value_of(&sum->last_inference_ms))
        atomic_store_explicit(&sum->last_inference_ms, value_of(&one->last_inference_ms),
                              memory_order_relaxed);
    grow(&sum->rows, value_of(&one->rows));
    grow_part(&sum->executions, atomic_load_explicit(&one->executions, memory_order_relaxed));
    add_counted(&sum->success, &one->success);
    add_counted(&sum->fail, &one->fail);
    add_counted(&sum->queue, &one->queue);
    add_counted(&sum->compute_input, &one->compute_input);
    add_counted(&sum->compute_infer, &one->compute_infer);
    add_counted(&sum->compute_output, &one->compute_output);
    for (uint32_t size = 1; size <= STATS_BATCHES_MAX; size++) {
        grow_part(&sum->batches[size].executions,
                  atomic_load_explicit(&one->batches[size].executions, memory_order_relaxed));
        grow(&sum->batches[size].input_ns, value_of(&one->batches[size].input_ns));
        grow(&sum->batches[size].infer_ns, value_of(&one->batches[size].infer_ns));
    }
}

static void sum_up(const model_stats_t *stats, model_counts_t *sum)
{
    if (!stats->board) {
        add_counts(sum, &stats->counts);
        return;
    }
    pthread_mutex_lock(&stats->board->lock);
    for (const model_stats_t *one = stats->board->first; one; one = one->next) {
        if (strcmp(one->model, stats->model) == 0 && strcmp(one->version, stats->version) == 0)
            add_counts(sum, &one->counts);
    }
    pthread_mutex_unlock(&stats->board->lock);
}

static oip_duration_t duration_of(const counted_t *counted)
{
    return (oip_duration_t){.count = value_of(&counted->count), .ns = value_of(&counted->ns)};
}

static void describe_batches(const model_counts_t *counts, oip_model_stats_t *out, oip_batch_stats_t *batches)
{
    for (uint32_t size = 1; size <= STATS_BATCHES_MAX; size++) {
        if (counts->batches[size].executions <= 0)
            continue;
        uint64_t count = (uint64_t)llround(counts->batches[size].executions);
        count = count > 0 ? count : 1;
        batches[out->batch_count++] =
            (oip_batch_stats_t){.batch_size = size,
                                .compute_input = {count, value_of(&counts->batches[size].input_ns)},
                                .compute_infer = {count, value_of(&counts->batches[size].infer_ns)},
                                .compute_output = {count, 0}};
    }
}

void model_stats_describe(const model_stats_t *stats, oip_model_stats_t *out, oip_batch_stats_t *batches)
{
    model_counts_t sum = {0};
    sum_up(stats, &sum);
    *out = (oip_model_stats_t){.name = stats->model,
                               .version = stats->version,
                               .last_inference_ms = value_of(&sum.last_inference_ms),
                               .inference_count = value_of(&sum.rows),
                               .execution_count = (uint64_t)llround(sum.executions),
                               .success = duration_of(&sum.success),
                               .fail = duration_of(&sum.fail),
                               .queue = duration_of(&sum.queue),
                               .compute_input = duration_of(&sum.compute_input),
                               .compute_infer = duration_of(&sum.compute_infer),
                               .compute_output = duration_of(&sum.compute_output),
                               .batches = batches};
    describe_batches(&sum, out, batches);
}
