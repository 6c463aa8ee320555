/*
 * Ends what onnxruntime runs for a job, at the border of the node that it is at. One for each lane: what is told to a job never
 * reaches the one behind it.
 */
#ifndef ENGINE_ONNXRUNTIME_STOPPER_H
#define ENGINE_ONNXRUNTIME_STOPPER_H

#include "engine/onnxruntime/library.h"
#include "engine/queue/fifo.h"

#include <pthread.h>

typedef struct {
    pthread_mutex_t mutex; /* between the job that is told and what the runs look at */
    OrtRunOptions *options;
} stopper_t;

status_t stopper_init(stopper_t *stopper, err_t *err);
void stopper_dispose(stopper_t *stopper); /* one of all zeros is fine */

/* On the lane's thread, in front of the runs of its job, which take stopper->options. */
void stopper_begin(stopper_t *stopper, const fifo_t *fifo);

/* The running job was told to stop. */
bool stopper_stopped(const fifo_t *fifo);

/* Any thread. False: this job does not run, or is not to be stopped. */
bool stopper_stop(stopper_t *stopper, fifo_t *fifo, const engine_job_t *job);

#endif
