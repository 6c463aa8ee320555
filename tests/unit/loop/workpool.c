#include "loop/workpool.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <semaphore.h>

typedef struct {
    work_t work;
    loop_t *loop;
    sem_t *started;        /* posted when run begins */
    sem_t *go;             /* waited for before run ends; NULL: no waiting */
    sem_t *free_the_other; /* posted in done */
    bool ran, done, cancelled;
    int *left;
} item_t;

static void run(work_t *work)
{
    item_t *item = CONTAINER_OF(work, item_t, work);
    item->ran = true;
    if (item->started != NULL)
        sem_post(item->started);
    if (item->go != NULL)
        sem_wait(item->go);
}

static void done(work_t *work, bool cancelled)
{
    item_t *item = CONTAINER_OF(work, item_t, work);
    cr_expect(loop_on_thread(item->loop));
    cr_expect_not(item->done, "called twice");
    item->done = true;
    item->cancelled = cancelled;
    if (item->free_the_other != NULL)
        sem_post(item->free_the_other);
    if (item->left != NULL && --*item->left == 0)
        loop_stop(item->loop);
}

static item_t new_item(loop_t *loop)
{
    return (item_t){.work = {.run = run, .done = done}, .loop = loop};
}

Test(workpool, runs_everything_and_comes_back_to_the_loop, .timeout = 60)
{
    enum { N = 2000 };
    static item_t items[N];
    loop_t *loop;
    workpool_t *pool;
    int left = N;
    loop_create(&loop, NULL);
    cr_assert_eq(workpool_create(&pool, loop, 3, N, NULL), STATUS_OK);
    for (int i = 0; i < N; i++) {
        items[i] = new_item(loop);
        items[i].left = &left;
        cr_assert_eq(workpool_submit(pool, &items[i].work), STATUS_OK);
    }
    loop_run(loop);
    for (int i = 0; i < N; i++)
        cr_assert(items[i].ran && items[i].done && !items[i].cancelled);
    workpool_destroy(pool);
    loop_destroy(loop);
}

Test(workpool, a_full_queue_refuses_and_a_stop_cancels_what_waits, .timeout = 60)
{
    loop_t *loop;
    workpool_t *pool;
    sem_t started, go;
    sem_init(&started, 0, 0);
    sem_init(&go, 0, 0);
    loop_create(&loop, NULL);
    cr_assert_eq(workpool_create(&pool, loop, 1, 1, NULL), STATUS_OK);
    item_t running = new_item(loop), waiting = new_item(loop), refused = new_item(loop);
    running.started = &started;
    running.go = &go;
    cr_assert_eq(workpool_submit(pool, &running.work), STATUS_OK);
    sem_wait(&started);
    cr_assert_eq(workpool_submit(pool, &waiting.work), STATUS_OK);
    cr_expect_eq(workpool_queued(pool), 1);
    cr_expect_eq(workpool_submit(pool, &refused.work), STATUS_UNAVAILABLE);
    waiting.free_the_other = &go; /* so the running one ends only after this one was cancelled */
    workpool_destroy(pool);
    cr_expect(running.ran && running.done && !running.cancelled);
    cr_expect(waiting.done && waiting.cancelled && !waiting.ran);
    cr_expect_not(refused.done);
    loop_destroy(loop);
}

Test(workpool, refuses_sizes_that_make_no_sense)
{
    loop_t *loop;
    workpool_t *pool;
    err_t err = {0};
    loop_create(&loop, NULL);
    cr_expect_eq(workpool_create(&pool, loop, 0, 1, &err), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(workpool_create(&pool, loop, 100000, 1, &err), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(workpool_create(&pool, loop, 1, 0, &err), STATUS_INVALID_ARGUMENT);
    workpool_destroy(NULL);
    loop_destroy(loop);
}
