/*
 * Statistics of one model, as Triton tells them, and the metric series that go with them. Loop thread only.
 */
#ifndef GATEWAY_STATS_H
#define GATEWAY_STATS_H

#include "metrics/metrics.h"
#include "oip/describe.h"

/* Rows per batch that have a line of their own; larger batches count in the last. */
enum { STATS_BATCHES_MAX = 128 };

typedef enum { PROTOCOL_REST, PROTOCOL_GRPC, PROTOCOL_COUNT } protocol_t;

typedef struct {
    uint64_t last_inference_ms;
    uint64_t rows;
    double
        executions; /* each row of a batch of b counts 1/b: the rows of one batch may go to many gateways */
    oip_duration_t success, fail, queue, compute_input, compute_infer, compute_output;
    struct {
        double executions;
        uint64_t input_ns, infer_ns, output_ns;
    } batches[STATS_BATCHES_MAX + 1]; /* by batch size; [0] is not used */
    metric_t *nv_success, *nv_failure, *nv_count, *nv_exec, *nv_pending;
    metric_t *nv_request_us, *nv_queue_us, *nv_input_us, *nv_infer_us, *nv_output_us;
    metric_t *seconds[PROTOCOL_COUNT];
    metric_t *answered[PROTOCOL_COUNT][STATUS_INTERNAL + 1]; /* made when first needed */
    double exec_carry;
} model_stats_t;

void model_stats_init(model_stats_t *stats, metrics_t *metrics, const char *model, const char *version);
void model_stats_hide(model_stats_t *stats);

/* One row came back. */
typedef struct {
    uint32_t batch_size;
    uint64_t queue_ns; /* from submission to execution start, fetch not counted */
    uint64_t fetch_ns, exec_ns;
} row_timing_t;
void model_stats_row(model_stats_t *stats, const row_timing_t *timing);

/* One request was answered, total_ns after its last byte came; output_ns of it were spent on the answer. */
void model_stats_request(model_stats_t *stats, metrics_t *metrics, const char *model, protocol_t protocol,
                         status_t status, uint64_t total_ns, uint64_t output_ns);

/* batches has room for STATS_BATCHES_MAX. */
void model_stats_describe(const model_stats_t *stats, const char *name, const char *version,
                          oip_model_stats_t *out, oip_batch_stats_t *batches);

#endif
