#include "base/ring.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

Test(ring, is_a_queue_with_a_bound)
{
    ring_t ring;
    int v;
    cr_assert_eq(ring_init(&ring, sizeof(int), 3, NULL), STATUS_OK);
    for (int i = 1; i <= 4; i++)
        cr_expect(ring_push(&ring, &i));
    cr_expect_not(ring_push(&ring, &v));
    cr_expect_eq(*(int *)ring_at(&ring, 0), 1);
    cr_expect_eq(*(int *)ring_at(&ring, 3), 4);
    cr_expect_null(ring_at(&ring, 4));
    cr_expect(ring_pop(&ring, &v));
    cr_expect_eq(v, 1);
    cr_expect(ring_pop(&ring, &v));
    cr_expect_eq(v, 2);
    cr_expect(ring_pop(&ring, NULL));
    cr_expect(ring_pop(&ring, NULL));
    cr_expect_not(ring_pop(&ring, &v));
    ring_dispose(&ring);
}

Test(ring, indices_wrap_after_four_thousand_million_pushes)
{
    ring_t ring;
    ring_init(&ring, sizeof(uint64_t), 4, NULL);
    ring.head = ring.tail = UINT32_MAX - 1;
    for (uint64_t i = 0; i < 4; i++)
        cr_expect(ring_push(&ring, &i));
    cr_expect_eq(ring_len(&ring), 4);
    cr_expect_not(ring_push(&ring, &(uint64_t){0}));
    for (uint64_t i = 0, v; i < 4; i++) {
        cr_expect(ring_pop(&ring, &v));
        cr_expect_eq(v, i);
    }
    ring_dispose(&ring);
}

enum { MESSAGES = 50000, PRODUCERS = 3 };

typedef struct {
    uint32_t producer;
    uint32_t sequence;
    uint64_t check; /* torn copies do not match */
} message_t;

static message_t message(uint32_t producer, uint32_t sequence)
{
    return (message_t){producer, sequence, ((uint64_t)producer << 32 | sequence) * 0x9e3779b97f4a7c15};
}

static void *spsc_producer(void *arg)
{
    for (uint32_t i = 0; i < MESSAGES;) {
        message_t m = message(0, i);
        if (spsc_push(arg, &m))
            i++;
        else
            sched_yield();
    }
    return NULL;
}

Test(ring, spsc_loses_and_reorders_nothing, .timeout = 120)
{
    static spsc_t ring;
    pthread_t thread;
    cr_assert_eq(spsc_init(&ring, sizeof(message_t), 64, NULL), STATUS_OK);
    pthread_create(&thread, NULL, spsc_producer, &ring);
    for (uint32_t i = 0; i < MESSAGES;) {
        message_t m, expected = message(0, i);
        if (!spsc_pop(&ring, &m)) {
            sched_yield();
            continue;
        }
        cr_assert(m.sequence == expected.sequence && m.check == expected.check);
        i++;
    }
    pthread_join(thread, NULL);
    spsc_dispose(&ring);
}

typedef struct {
    mpsc_t *ring;
    uint32_t id;
} producer_t;

static void *mpsc_producer(void *arg)
{
    producer_t *p = arg;
    for (uint32_t i = 0; i < MESSAGES;) {
        message_t m = message(p->id, i);
        if (mpsc_push(p->ring, &m))
            i++;
        else
            sched_yield();
    }
    return NULL;
}

Test(ring, mpsc_keeps_the_order_of_each_producer, .timeout = 120)
{
    static mpsc_t ring;
    pthread_t threads[PRODUCERS];
    producer_t producers[PRODUCERS];
    uint32_t next[PRODUCERS] = {0};
    cr_assert_eq(mpsc_init(&ring, sizeof(message_t), 64, NULL), STATUS_OK);
    for (uint32_t i = 0; i < PRODUCERS; i++) {
        producers[i] = (producer_t){&ring, i};
        pthread_create(&threads[i], NULL, mpsc_producer, &producers[i]);
    }
    for (uint32_t seen = 0; seen < MESSAGES * PRODUCERS;) {
        message_t m;
        if (!mpsc_pop(&ring, &m)) {
            sched_yield();
            continue;
        }
        cr_assert(m.producer < PRODUCERS && m.sequence == next[m.producer]++);
        cr_assert_eq(m.check, message(m.producer, m.sequence).check);
        seen++;
    }
    for (uint32_t i = 0; i < PRODUCERS; i++)
        pthread_join(threads[i], NULL);
    cr_expect_not(mpsc_pop(&ring, &(message_t){0}));
    mpsc_dispose(&ring);
}

Test(ring, mpsc_says_when_it_is_full)
{
    static mpsc_t ring;
    int v = 1;
    cr_assert_eq(mpsc_init(&ring, sizeof v, 1, NULL), STATUS_OK);
    for (int round = 0; round < 5; round++) {
        cr_expect(mpsc_push(&ring, &v));
        cr_expect(mpsc_push(&ring, &v));
        cr_expect_not(mpsc_push(&ring, &v));
        cr_expect(mpsc_pop(&ring, &v));
        cr_expect(mpsc_pop(&ring, &v));
        cr_expect_not(mpsc_pop(&ring, &v));
    }
    mpsc_dispose(&ring);
}

Test(ring, refuses_sizes_that_make_no_sense)
{
    ring_t ring;
    err_t err = {0};
    cr_expect_eq(ring_init(&ring, 0, 1, &err), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(ring_init(&ring, 8, 0, &err), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(ring_init(&ring, 8, RING_CAPACITY_MAX + 1, &err), STATUS_INVALID_ARGUMENT);
}
