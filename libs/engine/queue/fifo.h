/*
 * The queue of one engine: jobs in order, at most one running. Both engines of this process use it; it does
 * the part of the contract of engine.h that is about threads (cancel, flush, exactly one done).
 */
#ifndef ENGINE_QUEUE_FIFO_H
#define ENGINE_QUEUE_FIFO_H

#include "engine/engine.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t work;    /* a job was queued, or stop */
    pthread_cond_t settled; /* a job was answered */
    engine_job_t *head, *tail;
    engine_job_t *running;
    uint64_t running_seq, next_seq;
    uint32_t cancelling; /* taken out, done not yet returned */
    bool driven;         /* somebody was told to call fifo_next, and it has not returned NULL since */
    bool stop;
    atomic_bool interrupted; /* the running job should stop at its next exit */
} fifo_t;

void fifo_init(fifo_t *fifo);
/* Nothing may be queued or running. */
void fifo_dispose(fifo_t *fifo);

/* Queues the job. True when nobody drives the queue: the caller must call fifo_next, until it returns NULL. */
bool fifo_push(fifo_t *fifo, engine_job_t *job);

/*
 * The running job, if any, has been answered; the next one is now running. NULL = none. The caller answers
 * the job it gets (job->done), then calls fifo_next again.
 */
engine_job_t *fifo_next(fifo_t *fifo);

/* As fifo_next, but waits for a job; NULL only after fifo_stop with an empty queue. */
engine_job_t *fifo_wait(fifo_t *fifo);
void fifo_stop(fifo_t *fifo);

/* Takes a job that is not running yet out and answers it; false when it is running or gone. */
bool fifo_cancel(fifo_t *fifo, engine_job_t *job);

/* Sets `interrupted` until the next job begins, if this one is running; else false. */
bool fifo_interrupt(fifo_t *fifo, const engine_job_t *job);

/* Waits until every job pushed so far is answered. */
void fifo_flush(fifo_t *fifo);

/*
 * INVALID_ARGUMENT, naming the field, unless the job fits the model and one of `streams`. cuts: of the model;
 * NULL or ops = 0 when they are not known: only whole jobs fit then (UNSUPPORTED).
 */
status_t fifo_check_job(const engine_model_info_t *info, const engine_cuts_t *cuts, uint32_t streams,
                        const engine_job_t *job, err_t *err);

/* Calls done, with err only on failure. */
void fifo_answer(engine_job_t *job, status_t status, const err_t *err);

#endif
