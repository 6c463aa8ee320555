/*
 * Pictures to tensors on a pool of threads. The session calls preprocess_start once for each picture input.
 */
#ifndef GATEWAY_PREPROCESS_H
#define GATEWAY_PREPROCESS_H

#include "image/pipeline.h"
#include "loop/workpool.h"
#include "metrics/metrics.h"

typedef struct preprocess preprocess_t;
typedef struct preprocess_job preprocess_job_t;

/*
 * Embedded in the caller's object. The picture elements (BYTES framing: 4-byte length each) are read from
 * [elements, elements + elements_bytes), which must live until done; picture i is written to dst + i *
 * stride_bytes, exactly row_bytes of it.
 */
struct preprocess_job {
    work_t work; /* of preprocess.c, as are the next two */
    preprocess_t *owner;
    int64_t took_ns;
    const image_pipeline_t *pipeline;
    const uint8_t *elements;
    size_t elements_bytes;
    uint32_t rows;
    uint8_t *dst;
    size_t row_bytes, stride_bytes;
    metric_t *seconds; /* fermata_gateway_preprocess_seconds of the model; NULL = not recorded */
    /* On the loop, exactly once for each accepted job. error: STATUS_OK, or which picture is wrong and why. */
    void (*done)(preprocess_job_t *job, const err_t *error);
    err_t error;
};

status_t preprocess_create(loop_t *loop, uint32_t threads, preprocess_t **preprocess, err_t *err);
/* Ends the threads; jobs that wait end with STATUS_CANCELLED, from within. NULL is fine. */
void preprocess_destroy(preprocess_t *preprocess);

/* UNAVAILABLE when too many pictures wait (done does not come then). */
status_t preprocess_start(preprocess_t *preprocess, preprocess_job_t *job, err_t *err);
uint32_t preprocess_queued(preprocess_t *preprocess);

#endif
