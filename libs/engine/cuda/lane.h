/*
 * One stream of the engine: a queue of jobs, the thread that takes them in order, and what it works with.
 * While a batch is computed, the inputs of the next one are copied in and its graph is queued behind, so that
 * the GPU goes from one batch to the next without the host.
 *
 * A job with exits is queued piece by piece, from exit to exit, at most LANE_AHEAD pieces in front of the GPU: `stop`
 * takes effect behind what is queued.
 */
#ifndef ENGINE_CUDA_LANE_H
#define ENGINE_CUDA_LANE_H

#include "engine/cuda/model.h"
#include "engine/cuda/run/runner.h"
#include "engine/queue/fifo.h"

#include <stdatomic.h>

enum { LANE_AHEAD = 2 }; /* one that runs, and one that keeps the GPU from waiting for the host */

typedef struct {
    fifo_t fifo;
    pthread_t thread;
    space_t space;
    /* The thread holds it while a batch is in flight; prepare takes it to let the space grow and to record. */
    pthread_mutex_t busy;
    atomic_uint waiting; /* for busy: the thread pauses between two batches */
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* a batch was answered, or nobody waits for busy any more */
    uint64_t taken, answered;
    int64_t last_finished_ns;
} lane_t;

/* Starts the thread. IO: it cannot be started. */
status_t lane_init(lane_t *lane, gpu_t *gpu, uint32_t index, err_t *err);
/* Answers what is queued, then ends the thread. */
void lane_dispose(lane_t *lane);

/* Waits until every job pushed so far is answered. */
void lane_flush(lane_t *lane);

/* Builds what a run of this segment needs and records its graphs, between two batches. */
status_t lane_prepare(lane_t *lane, plan_t *plan, const segment_t *segment, err_t *err);

#endif
