#include "ticket.h"

#include <stdio.h>

static void on_done(engine_job_t *job, status_t status, const err_t *err)
{
    ticket_t *ticket = job->arg;
    pthread_mutex_lock(&ticket->mutex);
    ticket->done = true;
    ticket->status = status;
    snprintf(ticket->text, sizeof ticket->text, "%s", err ? err->text : "");
    pthread_cond_signal(&ticket->changed);
    pthread_mutex_unlock(&ticket->mutex);
}

void ticket_start(ticket_t *ticket, const engine_ops_t *ops, engine_t *engine, engine_job_t job)
{
    *ticket = (ticket_t){.job = job};
    pthread_mutex_init(&ticket->mutex, NULL);
    pthread_cond_init(&ticket->changed, NULL);
    ticket->job.done = on_done;
    ticket->job.arg = ticket;
    ops->submit(engine, &ticket->job);
}

status_t ticket_wait(ticket_t *ticket)
{
    pthread_mutex_lock(&ticket->mutex);
    while (!ticket->done)
        pthread_cond_wait(&ticket->changed, &ticket->mutex);
    pthread_mutex_unlock(&ticket->mutex);
    return ticket->status;
}

status_t ticket_run(ticket_t *ticket, const engine_ops_t *ops, engine_t *engine, engine_job_t job)
{
    ticket_start(ticket, ops, engine, job);
    return ticket_wait(ticket);
}
