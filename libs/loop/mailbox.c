/*
 * A stack that everybody pushes to and only the loop takes, all at once; taken, it is turned round to oldest
 * first.
 *
 * The poster that finds the stack empty wakes the loop, unless that is watching (spin.h). If the loop takes
 * the stack between that push and the wake-up, one wake-up finds nothing: harmless. The other order (pushed,
 * not woken) cannot be: every take leaves NULL, so the next push wakes.
 */
#include "loop/mailbox.h"

#include "loop/internal.h"

#include <stdlib.h>

struct mailbox_handle {
    uv_async_t async;
};

/* The node's contents and next are published by the release; the taker acquires. */
static mailbox_node_t *take_all(mailbox_t *box)
{
    mailbox_node_t *newest = atomic_exchange_explicit(&box->head, NULL, memory_order_acquire);
    mailbox_node_t *oldest = NULL;
    while (newest) {
        mailbox_node_t *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}

void mailbox_deliver(mailbox_t *box)
{
    mailbox_node_t *first = take_all(box);
    if (!first)
        return;
    spin_note_news(&box->loop->spin);
    box->deliver(box->arg, first);
}

static void on_wake(uv_async_t *async)
{
    mailbox_t *box = async->data;
    if (box)
        mailbox_deliver(box);
}

status_t mailbox_init(mailbox_t *box, loop_t *loop, mailbox_deliver_fn_t deliver, void *arg, err_t *err)
{
    struct mailbox_handle *handle = malloc(sizeof *handle);
    if (!handle)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a mailbox");
    int rc = uv_async_init(&loop->uv, &handle->async, on_wake);
    if (rc != 0) {
        free(handle);
        return err_set(err, STATUS_IO, "cannot create a wake-up handle: %s", uv_strerror(rc));
    }
    handle->async.data = box;
    atomic_init(&box->head, NULL);
    box->deliver = deliver;
    box->arg = arg;
    box->handle = handle;
    box->loop = loop;
    box->looked = 0;
    box->next_box = loop->spin.boxes;
    loop->spin.boxes = box;
    return STATUS_OK;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle); /* the async is its first member */
}

static void leave_loop(mailbox_t *box)
{
    mailbox_t **link = &box->loop->spin.boxes;
    while (*link != box)
        link = &(*link)->next_box;
    *link = box->next_box;
}

void mailbox_dispose(mailbox_t *box)
{
    if (!box->handle)
        return;
    mailbox_deliver(box);
    leave_loop(box);
    box->handle->async.data = NULL;
    uv_close((uv_handle_t *)&box->handle->async, on_closed);
    box->handle = NULL;
}

void mailbox_post_list(mailbox_t *box, mailbox_node_t *first, mailbox_node_t *last)
{
    /* The stack is newest first: turn the list round, then its old first hangs on what was there. */
    mailbox_node_t *newest = NULL;
    last->next = NULL;
    for (mailbox_node_t *n = first; n;) {
        mailbox_node_t *next = n->next;
        n->next = newest;
        newest = n;
        n = next;
    }
    mailbox_node_t *old = atomic_load_explicit(&box->head, memory_order_relaxed);
    do {
        first->next = old;
    } while (!atomic_compare_exchange_weak_explicit(&box->head, &old, newest, memory_order_seq_cst,
                                                    memory_order_relaxed));
    if (!old && !atomic_load_explicit(&box->loop->spin.watching, memory_order_seq_cst))
        uv_async_send(&box->handle->async);
}

void mailbox_post(mailbox_t *box, mailbox_node_t *node)
{
    mailbox_post_list(box, node, node);
}
