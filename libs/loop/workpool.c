#include "loop/workpool.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS_MAX = 256 };

struct workpool {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    mailbox_node_t *first; /* queued, oldest first */
    mailbox_node_t *last;
    uint32_t queued;
    uint32_t capacity;
    bool stopping;
    uint32_t threads;
    mailbox_t done;
    pthread_t thread[];
};

/* Under the lock. */
static work_t *take(workpool_t *pool)
{
    if (!pool->first)
        return NULL;
    work_t *work = CONTAINER_OF(pool->first, work_t, node);
    pool->first = work->node.next;
    pool->queued--;
    return work;
}

static void *thread_main(void *arg)
{
    workpool_t *pool = arg;
    pthread_mutex_lock(&pool->lock);
    while (!pool->stopping) {
        work_t *work = take(pool);
        if (!work) {
            pthread_cond_wait(&pool->wake, &pool->lock);
            continue;
        }
        pthread_mutex_unlock(&pool->lock);
        work->run(work);
        mailbox_post(&pool->done, &work->node);
        pthread_mutex_lock(&pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static void deliver_done(void *arg, mailbox_node_t *first)
{
    (void)arg;
    while (first) {
        work_t *work = CONTAINER_OF(first, work_t, node);
        first = first->next; /* before done, which may free it */
        work->done(work, work->cancelled);
    }
}

/* Signals are for the loop's thread. */
static int start_thread(pthread_t *thread, workpool_t *pool)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(thread, NULL, thread_main, pool);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

status_t workpool_create(workpool_t **out, loop_t *loop, uint32_t threads, uint32_t queue_capacity,
                         err_t *err)
{
    if (threads == 0 || threads > THREADS_MAX || queue_capacity == 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "a work pool of %u threads and a queue of %u", threads,
                       queue_capacity);
    workpool_t *pool = calloc(1, sizeof *pool + threads * sizeof pool->thread[0]);
    if (!pool)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a work pool");
    status_t st = mailbox_init(&pool->done, loop, deliver_done, NULL, err);
    if (st != STATUS_OK) {
        free(pool);
        return st;
    }
    pool->capacity = queue_capacity;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    for (; pool->threads < threads; pool->threads++) {
        int rc = start_thread(&pool->thread[pool->threads], pool);
        if (rc != 0) {
            err_set(err, STATUS_IO, "cannot start thread %u of a work pool: %s", pool->threads, strerror(rc));
            workpool_destroy(pool);
            return STATUS_IO;
        }
    }
    *out = pool;
    return STATUS_OK;
}

/* What waits is told first: it has waited long enough, and nothing can take it any more. */
static void cancel_queued(workpool_t *pool)
{
    pthread_mutex_lock(&pool->lock);
    mailbox_node_t *first = pool->first;
    pool->stopping = true;
    pool->first = NULL;
    pool->queued = 0;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (mailbox_node_t *n = first; n; n = n->next)
        CONTAINER_OF(n, work_t, node)->cancelled = true;
    deliver_done(NULL, first);
}

void workpool_destroy(workpool_t *pool)
{
    if (!pool)
        return;
    cancel_queued(pool);
    for (uint32_t i = 0; i < pool->threads; i++)
        pthread_join(pool->thread[i], NULL);
    mailbox_dispose(&pool->done); /* delivers what has run */
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

status_t workpool_submit(workpool_t *pool, work_t *work)
{
    work->cancelled = false;
    work->node.next = NULL;
    pthread_mutex_lock(&pool->lock);
    if (pool->stopping || pool->queued == pool->capacity) {
        pthread_mutex_unlock(&pool->lock);
        return STATUS_UNAVAILABLE;
    }
    if (!pool->first)
        pool->first = &work->node;
    else
        pool->last->next = &work->node;
    pool->last = &work->node;
    pool->queued++;
    pthread_cond_signal(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    return STATUS_OK;
}

uint32_t workpool_queued(workpool_t *pool)
{
    pthread_mutex_lock(&pool->lock);
    uint32_t queued = pool->queued;
    pthread_mutex_unlock(&pool->lock);
    return queued;
}
