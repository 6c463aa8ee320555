/*
 * Statistics of one model, as Triton tells them, and the metric series that go with them. Loop thread only. Several gateways of a process have
 * a board in common: each counts for itself, on its loop, and who is asked tells the sums.
 */
#ifndef GATEWAY_STATS_H
#define GATEWAY_STATS_H

#include "metrics/metrics.h"
#include "oip/describe.h"

#include <pthread.h>
#include <stdatomic.h>

/* Rows per batch that have a line of their own; larger batches count in the last. */
enum { STATS_BATCHES_MAX = 128 };

typedef enum { PROTOCOL_REST, PROTOCOL_GRPC, PROTOCOL_COUNT } protocol_t;

/* How one row was run. */
typedef struct {
    uint32_t batch_size;
    uint64_t queue_ns; /* from submission to execution start, fetch not counted */
    uint64_t fetch_ns, exec_ns;
} row_timing_t;

/* Written by one loop, read by all. */
typedef struct {
    _Atomic uint64_t count, ns;
} counted_t;

typedef struct {
    _Atomic uint64_t last_inference_ms, rows;
    /* a row of a batch of b counts 1/b, since the rows of a batch may go to many gateways */
    _Atomic double executions;
    counted_t success, fail, queue, compute_input, compute_infer, compute_output;
    struct {
        _Atomic double executions;
        _Atomic uint64_t input_ns, infer_ns; /* one row of a batch of b counts 1/b of the batch's */
    } batches[STATS_BATCHES_MAX + 1];        /* by batch size; [0] is not used */
} model_counts_t;

typedef struct stats_board {
    pthread_mutex_t lock;
    struct model_stats *first; /* of all models of all gateways */
} stats_board_t;

typedef struct model_stats {
    metrics_t *metrics;
    const char *model, *version; /* of the entry that it lies in */
    model_counts_t counts;
    uint64_t executions_told; /* to nv_exec, which takes whole numbers */
    uint32_t pending;
    metric_t *nv_success, *nv_failure, *nv_count, *nv_exec, *nv_pending;
    metric_t *nv_request_us, *nv_queue_us, *nv_input_us, *nv_infer_us, *nv_output_us;
    metric_t *preprocess_seconds;
    metric_t *seconds[PROTOCOL_COUNT];
    metric_t *answered[PROTOCOL_COUNT][STATUS_INTERNAL + 1]; /* made when first needed */
    metric_t *tasks[STATUS_INTERNAL + 1];
    stats_board_t *board; /* NULL: on none */
    struct model_stats *next, **link;
} model_stats_t;

void stats_board_init(stats_board_t *board);
void stats_board_dispose(stats_board_t *board);

/* model and version must live as long as the statistics. board: NULL where no other gateway counts; else it leaves before it dies. */
void model_stats_init(model_stats_t *stats, metrics_t *metrics, stats_board_t *board, const char *model,
                      const char *version);
/* Others no longer tell of what it counted. Once is enough. */
void model_stats_leave(model_stats_t *stats);
/* Leaves, and takes the model's gauges out of the exposition. */
void model_stats_hide(model_stats_t *stats);

/* Leaves, and nothing counts for it any more. */
void model_stats_dispose(model_stats_t *stats);

void model_stats_submitted(model_stats_t *stats);
/* A request that was submitted to the one is the other's. */
void model_stats_moved(model_stats_t *from, model_stats_t *to);

/* A submitted request was answered. */
typedef struct {
    protocol_t protocol;
    status_t status;
    uint32_t rows;
    uint64_t total_ns;   /* from the request's last byte to the answer */
    uint64_t output_ns;  /* of it: from the last result to the answer */
    row_timing_t timing; /* of the last row, when status is STATUS_OK */
} request_outcome_t;
void model_stats_answered(model_stats_t *stats, const request_outcome_t *outcome);

/* One row came back, in time or not. */
void model_stats_row(model_stats_t *stats, const row_timing_t *timing);

const char *protocol_name(protocol_t protocol); /* "rest", "grpc" */

/* Of all that count for this model and version on its board. batches has room for STATS_BATCHES_MAX and lives as long as out is used. */
void model_stats_describe(const model_stats_t *stats, oip_model_stats_t *out, oip_batch_stats_t *batches);

#endif
