#include "engine/wait.h"

#include <pthread.h>

typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool done;
    status_t status;
    err_t *err;
} waiter_t;

static void on_done(engine_job_t *job, status_t status, const err_t *err)
{
    waiter_t *waiter = job->arg;
    pthread_mutex_lock(&waiter->mutex);
    waiter->done = true;
    waiter->status = status;
    if (err && waiter->err)
        *waiter->err = *err;
    pthread_cond_signal(&waiter->changed);
    pthread_mutex_unlock(&waiter->mutex);
}

status_t engine_run_wait(const engine_ops_t *ops, engine_t *engine, engine_job_t *job, err_t *err)
{
    waiter_t waiter = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .err = err};
    job->done = on_done;
    job->arg = &waiter;
    ops->submit(engine, job);
    pthread_mutex_lock(&waiter.mutex);
    while (!waiter.done)
        pthread_cond_wait(&waiter.changed, &waiter.mutex);
    pthread_mutex_unlock(&waiter.mutex);
    pthread_cond_destroy(&waiter.changed);
    pthread_mutex_destroy(&waiter.mutex);
    return waiter.status;
}
