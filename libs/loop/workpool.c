#include "loop/workpool.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS_MAX = 256 };

struct workpool {
    workpool_options_t options;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    turns_t *turns;        /* what waits */
    uint32_t long_running; /* threads that do a long step */
    bool stopping;
    uint32_t threads;
    mailbox_t done;
    pthread_t thread[];
};

/* Under the lock. */
static work_t *take(workpool_t *pool)
{
    bool any = pool->long_running < pool->options.long_max;
    turns_item_t *turn = turns_pop(pool->turns, any ? TURNS_LANES : TURNS_SHORT);
    return turn ? CONTAINER_OF(turn, work_t, turn) : NULL;
}

/* Under the lock, which is let go meanwhile. */
static void run_step(workpool_t *pool, work_t *work)
{
    bool is_long = work->lane == TURNS_LONG;
    pool->long_running += is_long;
    pthread_mutex_unlock(&pool->lock);
    work->again = false;
    work->run(work);
    pthread_mutex_lock(&pool->lock);
    pool->long_running -= is_long;
    turns_charge(pool->turns, work->client, work->cost);
}

/* Under the lock. The room for what runs is kept (see workpool_create). */
static void wait_again(workpool_t *pool, work_t *work)
{
    turns_push(pool->turns, work->client, work->lane, &work->turn, true);
    pthread_cond_signal(&pool->wake); /* this thread may take another first */
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
        run_step(pool, work);
        work->cancelled = work->again && (pool->stopping || atomic_load(&work->unwanted));
        if (work->again && !work->cancelled)
            wait_again(pool, work);
        else
            mailbox_post(&pool->done, &work->node);
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

static status_t start_threads(workpool_t *pool, err_t *err)
{
    for (; pool->threads < pool->options.threads; pool->threads++) {
        int rc = start_thread(&pool->thread[pool->threads], pool);
        if (rc != 0)
            return err_set(err, STATUS_IO, "cannot start thread %u of a work pool: %s", pool->threads,
                           strerror(rc));
    }
    return STATUS_OK;
}

status_t workpool_create(const workpool_options_t *options, loop_t *loop, workpool_t **out, err_t *err)
{
    uint32_t threads = options->threads;
    if (threads == 0 || threads > THREADS_MAX || options->capacity == 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "a work pool of %u threads and a queue of %u", threads,
                       options->capacity);
    workpool_t *pool = calloc(1, sizeof *pool + threads * sizeof pool->thread[0]);
    if (!pool)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a work pool");
    pool->options = *options;
    if (options->long_max == 0)
        pool->options.long_max = threads;
    if (options->capacity_of_one == 0)
        pool->options.capacity_of_one = options->capacity;
    status_t status = turns_create(options->capacity + threads, &pool->turns, err);
    if (status == STATUS_OK)
        status = mailbox_init(&pool->done, loop, deliver_done, NULL, err);
    if (status != STATUS_OK) {
        turns_destroy(pool->turns);
        free(pool);
        return status;
    }
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    status = start_threads(pool, err);
    if (status == STATUS_OK)
        *out = pool;
    else
        workpool_destroy(pool);
    return status;
}

/* What waits is told first: it has waited long enough, and nothing can take it any more. */
static void cancel_queued(workpool_t *pool)
{
    mailbox_node_t *first = NULL, **end = &first;
    turns_item_t *turn;
    pthread_mutex_lock(&pool->lock);
    pool->stopping = true;
    while ((turn = turns_pop(pool->turns, TURNS_LANES))) {
        work_t *work = CONTAINER_OF(turn, work_t, turn);
        work->cancelled = true;
        *end = &work->node;
        end = &work->node.next;
    }
    *end = NULL;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
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
    turns_destroy(pool->turns);
    free(pool);
}

/* Under the lock. */
static status_t check_room(workpool_t *pool, uint64_t client)
{
    if (pool->stopping || turns_waiting(pool->turns) >= pool->options.capacity)
        return STATUS_UNAVAILABLE;
    if (turns_waiting_of(pool->turns, client) >= pool->options.capacity_of_one)
        return STATUS_LIMITED;
    return STATUS_OK;
}

status_t workpool_submit(workpool_t *pool, work_t *work)
{
    work->cost = 0;
    work->lane = TURNS_SHORT;
    work->cancelled = false;
    work->turn = (turns_item_t){0};
    atomic_init(&work->unwanted, false);
    pthread_mutex_lock(&pool->lock);
    status_t status = check_room(pool, work->client);
    if (status == STATUS_OK) {
        turns_push(pool->turns, work->client, TURNS_SHORT, &work->turn, false);
        pthread_cond_signal(&pool->wake);
    }
    pthread_mutex_unlock(&pool->lock);
    return status;
}

void workpool_cancel(workpool_t *pool, work_t *work)
{
    pthread_mutex_lock(&pool->lock);
    bool waits = turns_waits(&work->turn);
    turns_remove(pool->turns, &work->turn);
    atomic_store(&work->unwanted, true);
    pthread_mutex_unlock(&pool->lock);
    if (!waits)
        return;
    work->cancelled = true;
    work->done(work, true);
}

uint32_t workpool_queued(workpool_t *pool)
{
    pthread_mutex_lock(&pool->lock);
    uint32_t queued = turns_waiting(pool->turns);
    pthread_mutex_unlock(&pool->lock);
    return queued;
}
