/*
 * Pictures to tensors on a pool of threads. The session calls preprocess_start once for each picture input.
 *
 * Clients take turns, by the pixels that their pictures have cost (loop/workpool.h). A picture of more than about a megapixel is a long one: one thread
 * more than asked for is there, and it never waits for those. What nobody waits for any more is not decoded, or not to its end.
 */
#ifndef GATEWAY_PREPROCESS_H
#define GATEWAY_PREPROCESS_H

#include "image/pipeline.h"
#include "loop/workpool.h"
#include "metrics/metrics.h"

typedef struct preprocess preprocess_t;
typedef struct preprocess_job preprocess_job_t;

enum { PREPROCESS_THREADS_MAX = 255 };

/*
 * Embedded in the caller's object. The picture elements (BYTES framing: 4-byte length each) are read from
 * [elements, elements + elements_bytes), which must live until done; picture i is written to dst + i *
 * stride_bytes, exactly row_bytes of it.
 */
struct preprocess_job {
    work_t work; /* of preprocess.c, as are those up to the pipeline */
    preprocess_t *owner;
    int64_t took_ns;
    uint32_t row; /* the one that is next */
    size_t offset;
    image_task_t task; /* of that row, when its header was read */
    image_limits_t limits;
    bool begun; /* some of it was decoded */
    const image_pipeline_t *pipeline;
    uint64_t client;     /* whose; 0: of all who are not told apart */
    int64_t deadline_ns; /* it is of no use later */
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

/* threads: as many may decode long pictures at once. */
status_t preprocess_create(loop_t *loop, metrics_t *metrics, uint32_t threads, preprocess_t **preprocess,
                           err_t *err);
/* Ends the threads; jobs that wait end with STATUS_CANCELLED, from within. NULL is fine. */
void preprocess_destroy(preprocess_t *preprocess);

/* UNAVAILABLE when too many pictures wait, LIMITED when too many of this client do (done does not come then). */
status_t preprocess_start(preprocess_t *preprocess, preprocess_job_t *job, err_t *err);
/* Nobody waits for it: done comes from within when it has not begun, else soon. No effect on a job that was refused or is done. */
void preprocess_cancel(preprocess_t *preprocess, preprocess_job_t *job);
uint32_t preprocess_queued(preprocess_t *preprocess);

#endif
