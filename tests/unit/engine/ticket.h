/*
 * A job, and the way to wait for it: for tests that run one thing after the other, or several at once.
 */
#ifndef TESTS_ENGINE_TICKET_H
#define TESTS_ENGINE_TICKET_H

#include "engine/engine.h"

#include <pthread.h>

typedef struct {
    engine_job_t job;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool done;
    status_t status;
    char text[ERR_TEXT_BYTES]; /* of the error, "" for none */
} ticket_t;

/* Takes a copy of the job; done and arg are the ticket's. */
void ticket_start(ticket_t *ticket, const engine_ops_t *ops, engine_t *engine, engine_job_t job);
status_t ticket_wait(ticket_t *ticket);
status_t ticket_run(ticket_t *ticket, const engine_ops_t *ops, engine_t *engine, engine_job_t job);

#endif
