#include "loop/mailbox.h"

#include "loop/loop.h"

#include <criterion/criterion.h>
#include <pthread.h>

enum { PRODUCERS = 3, MESSAGES = 20000 };

typedef struct {
    mailbox_node_t node;
    int producer;
    int sequence;
} message_t;

typedef struct {
    loop_t *loop;
    mailbox_t box;
    int next[PRODUCERS];
    int batches;
    int total;
    int stop_at;
} inbox_t;

static void deliver(void *arg, mailbox_node_t *first)
{
    inbox_t *in = arg;
    in->batches++;
    for (; first != NULL; first = first->next, in->total++) {
        message_t *m = CONTAINER_OF(first, message_t, node);
        cr_assert_eq(m->sequence, in->next[m->producer]++);
    }
    if (in->total == in->stop_at)
        loop_stop(in->loop);
}

static void open_inbox(inbox_t *in, int stop_at)
{
    *in = (inbox_t){.stop_at = stop_at};
    cr_assert_eq(loop_create(&in->loop, NULL), STATUS_OK);
    cr_assert_eq(mailbox_init(&in->box, in->loop, deliver, in, NULL), STATUS_OK);
}

static void close_inbox(inbox_t *in)
{
    mailbox_dispose(&in->box);
    loop_destroy(in->loop);
}

typedef struct {
    inbox_t *in;
    int id;
    message_t messages[MESSAGES];
} producer_t;

static void *produce(void *arg)
{
    producer_t *p = arg;
    for (int i = 0; i < MESSAGES; i++) {
        p->messages[i] = (message_t){.producer = p->id, .sequence = i};
        mailbox_post(&p->in->box, &p->messages[i].node);
    }
    return NULL;
}

Test(mailbox, loses_nothing_and_keeps_each_producers_order, .timeout = 120)
{
    static producer_t producers[PRODUCERS];
    static inbox_t in;
    pthread_t threads[PRODUCERS];
    open_inbox(&in, PRODUCERS * MESSAGES);
    for (int i = 0; i < PRODUCERS; i++) {
        producers[i].in = &in;
        producers[i].id = i;
        pthread_create(&threads[i], NULL, produce, &producers[i]);
    }
    loop_run(in.loop);
    for (int i = 0; i < PRODUCERS; i++)
        pthread_join(threads[i], NULL);
    cr_expect_eq(in.total, PRODUCERS * MESSAGES);
    close_inbox(&in);
}

static void *post_one(void *arg)
{
    static message_t m;
    inbox_t *in = arg;
    mailbox_post(&in->box, &m.node);
    return NULL;
}

Test(mailbox, one_message_is_enough_to_wake_the_loop, .timeout = 120)
{
    inbox_t in;
    pthread_t thread;
    open_inbox(&in, 1);
    pthread_create(&thread, NULL, post_one, &in);
    loop_run(in.loop);
    pthread_join(thread, NULL);
    cr_expect_eq(in.total, 1);
    close_inbox(&in);
}

Test(mailbox, messages_posted_in_one_turn_come_as_one_batch, .timeout = 120)
{
    static message_t messages[100];
    inbox_t in;
    open_inbox(&in, 100);
    for (int i = 0; i < 100; i++) {
        messages[i].sequence = i;
        mailbox_post(&in.box, &messages[i].node);
    }
    loop_run(in.loop);
    cr_expect_eq(in.batches, 1);
    close_inbox(&in);
}

Test(mailbox, a_list_is_posted_as_it_is_linked, .timeout = 120)
{
    message_t m[4] = {{.sequence = 0}, {.sequence = 1}, {.sequence = 2}, {.sequence = 3}};
    inbox_t in;
    open_inbox(&in, 4);
    m[1].node.next = &m[2].node;
    m[2].node.next = &m[3].node;
    mailbox_post(&in.box, &m[0].node);
    mailbox_post_list(&in.box, &m[1].node, &m[3].node);
    loop_run(in.loop);
    cr_expect_eq(in.total, 4);
    close_inbox(&in);
}

Test(mailbox, disposing_delivers_what_is_left, .timeout = 120)
{
    message_t m = {0};
    inbox_t in;
    open_inbox(&in, -1);
    mailbox_post(&in.box, &m.node);
    mailbox_dispose(&in.box);
    cr_expect_eq(in.total, 1);
    mailbox_dispose(&in.box);
    loop_destroy(in.loop);
}
