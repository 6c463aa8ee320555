#include "loop/workpool.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>

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

Test(workpool, runs_everything_and_comes_back_to_the_loop, .timeout = 120)
{
    enum { N = 2000 };
    static item_t items[N];
    loop_t *loop;
    workpool_t *pool;
    int left = N;
    loop_create(&loop, NULL);
    cr_assert_eq(workpool_create(&(workpool_options_t){.threads = 3, .capacity = N}, loop, &pool, NULL),
                 STATUS_OK);
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

Test(workpool, a_full_queue_refuses_and_a_stop_cancels_what_waits, .timeout = 120)
{
    loop_t *loop;
    workpool_t *pool;
    sem_t started, go;
    sem_init(&started, 0, 0);
    sem_init(&go, 0, 0);
    loop_create(&loop, NULL);
    cr_assert_eq(workpool_create(&(workpool_options_t){.threads = 1, .capacity = 1}, loop, &pool, NULL),
                 STATUS_OK);
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
    cr_expect_eq(workpool_create(&(workpool_options_t){.threads = 0, .capacity = 1}, loop, &pool, &err),
                 STATUS_INVALID_ARGUMENT);
    cr_expect_eq(workpool_create(&(workpool_options_t){.threads = 100000, .capacity = 1}, loop, &pool, &err),
                 STATUS_INVALID_ARGUMENT);
    cr_expect_eq(workpool_create(&(workpool_options_t){.threads = 1, .capacity = 0}, loop, &pool, &err),
                 STATUS_INVALID_ARGUMENT);
    workpool_destroy(NULL);
    loop_destroy(loop);
}

/* ---- steps, lanes and clients */

typedef struct {
    work_t work;
    int steps_left;
    turns_lane_t next;   /* lane of the steps after the first */
    sem_t *started, *go; /* of each long step */
    char name, *order;   /* what ran, oldest first; one thread at a time writes */
    bool done, cancelled;
} stepped_t;

static void run_stepped(work_t *work)
{
    stepped_t *item = CONTAINER_OF(work, stepped_t, work);
    if (item->order)
        strncat(item->order, &item->name, 1);
    if (work->lane == TURNS_LONG) {
        sem_post(item->started);
        sem_wait(item->go);
    }
    work->cost = 1;
    work->lane = item->next;
    work->again = --item->steps_left > 0;
}

static void done_stepped(work_t *work, bool cancelled)
{
    stepped_t *item = CONTAINER_OF(work, stepped_t, work);
    cr_expect_not(item->done, "called twice");
    item->done = true;
    item->cancelled = cancelled;
}

static stepped_t stepped(uint64_t client, int steps)
{
    return (stepped_t){.work = {.client = client, .run = run_stepped, .done = done_stepped},
                       .steps_left = steps};
}

static void run_until(loop_t *loop, const bool *done)
{
    while (!*done)
        loop_run_once(loop, 10 * NS_PER_MS);
}

Test(workpool, what_is_done_in_steps_lets_others_have_their_turns, .timeout = 120)
{
    loop_t *loop;
    workpool_t *pool;
    sem_t started, go;
    char order[16] = "";
    stepped_t gate = stepped(1, 2), many = stepped(2, 3), other = stepped(3, 1), another = stepped(3, 1);
    sem_init(&started, 0, 0);
    sem_init(&go, 0, 0);
    loop_create(&loop, NULL);
    cr_assert_eq(workpool_create(&(workpool_options_t){.threads = 1, .capacity = 8}, loop, &pool, NULL),
                 STATUS_OK);
    gate.next = TURNS_LONG; /* holds the thread until all are there */
    gate.started = &started;
    gate.go = &go;
    many.order = other.order = another.order = order;
    many.name = 'm';
    other.name = another.name = 'o';
    workpool_submit(pool, &gate.work);
    sem_wait(&started);
    workpool_submit(pool, &many.work);
    workpool_submit(pool, &other.work);
    workpool_submit(pool, &another.work);
    sem_post(&go);
    run_until(loop, &many.done);
    run_until(loop, &another.done);
    cr_expect_str_eq(order, "momom");
    workpool_destroy(pool);
    loop_destroy(loop);
}

Test(workpool, long_work_leaves_a_thread_to_short_work, .timeout = 120)
{
    loop_t *loop;
    workpool_t *pool;
    sem_t started, go;
    stepped_t first = stepped(1, 2), second = stepped(2, 2), quick = stepped(3, 1);
    sem_init(&started, 0, 0);
    sem_init(&go, 0, 0);
    loop_create(&loop, NULL);
    cr_assert_eq(
        workpool_create(&(workpool_options_t){.threads = 2, .long_max = 1, .capacity = 8}, loop, &pool, NULL),
        STATUS_OK);
    first.next = second.next = TURNS_LONG;
    first.started = second.started = &started;
    first.go = second.go = &go;
    workpool_submit(pool, &first.work);
    workpool_submit(pool, &second.work);
    sem_wait(&started);
    workpool_submit(pool, &quick.work);
    run_until(loop, &quick.done);
    cr_expect(sem_trywait(&started) != 0, "one long step at a time");
    sem_post(&go); /* whichever of the two came first */
    sem_post(&go);
    run_until(loop, &first.done);
    run_until(loop, &second.done);
    workpool_destroy(pool);
    loop_destroy(loop);
}

Test(workpool, what_nobody_waits_for_is_not_run, .timeout = 120)
{
    loop_t *loop;
    workpool_t *pool;
    sem_t started, go;
    stepped_t running = stepped(1, 5), waiting = stepped(2, 1);
    sem_init(&started, 0, 0);
    sem_init(&go, 0, 0);
    loop_create(&loop, NULL);
    cr_assert_eq(workpool_create(&(workpool_options_t){.threads = 1, .capacity = 8}, loop, &pool, NULL),
                 STATUS_OK);
    running.next = TURNS_LONG;
    running.started = &started;
    running.go = &go;
    workpool_submit(pool, &running.work);
    sem_wait(&started); /* in its second step */
    workpool_submit(pool, &waiting.work);
    workpool_cancel(pool, &waiting.work);
    cr_expect(waiting.done && waiting.cancelled && waiting.steps_left == 1, "told from within");
    workpool_cancel(pool, &running.work);
    cr_expect_not(running.done);
    cr_expect(atomic_load(&running.work.unwanted));
    sem_post(&go);
    run_until(loop, &running.done);
    cr_expect(running.cancelled);
    cr_expect_eq(running.steps_left, 3, "it did not go on");
    workpool_destroy(pool);
    loop_destroy(loop);
}

Test(workpool, one_client_has_a_part_of_the_queue, .timeout = 120)
{
    loop_t *loop;
    workpool_t *pool;
    sem_t started, go;
    stepped_t gate = stepped(9, 2), items[4] = {stepped(1, 1), stepped(1, 1), stepped(1, 1), stepped(2, 1)};
    sem_init(&started, 0, 0);
    sem_init(&go, 0, 0);
    loop_create(&loop, NULL);
    cr_assert_eq(workpool_create(&(workpool_options_t){.threads = 1, .capacity = 3, .capacity_of_one = 2},
                                 loop, &pool, NULL),
                 STATUS_OK);
    gate.next = TURNS_LONG;
    gate.started = &started;
    gate.go = &go;
    workpool_submit(pool, &gate.work);
    sem_wait(&started);
    cr_expect_eq(workpool_submit(pool, &items[0].work), STATUS_OK);
    cr_expect_eq(workpool_submit(pool, &items[1].work), STATUS_OK);
    cr_expect_eq(workpool_submit(pool, &items[2].work), STATUS_LIMITED);
    cr_expect_eq(workpool_submit(pool, &items[3].work), STATUS_OK);
    cr_expect_eq(workpool_submit(pool, &items[2].work), STATUS_UNAVAILABLE);
    sem_post(&go);
    workpool_destroy(pool);
    cr_expect(items[0].done && items[1].done && !items[2].done && items[3].done);
    loop_destroy(loop);
}
