/*
 * Messages from any thread to one loop, delivered in batches.
 *
 * The message embeds a mailbox_node_t. mailbox_post hands it over: from then on it belongs to the receiver,
 * which gets it in `deliver`. Lock-free; the loop is woken once per change from empty to not empty, however
 * many are posted meanwhile. Order is kept per posting thread. The number of messages is bounded by whoever
 * owns the nodes (a pool, a slot table).
 */
#ifndef LOOP_MAILBOX_H
#define LOOP_MAILBOX_H

#include "base/container.h"
#include "base/status.h"

#include <stdatomic.h>
#include <uv.h>

struct loop;

typedef struct mailbox_node {
    struct mailbox_node *next;
} mailbox_node_t;

/* first is a NULL-terminated list, oldest first. Read node->next before freeing or posting the node again. */
typedef void (*mailbox_deliver_fn_t)(void *arg, mailbox_node_t *first);

typedef struct mailbox {
    _Atomic(mailbox_node_t *) head; /* newest first; written by all posters */
    mailbox_deliver_fn_t deliver;
    void *arg;
    struct loop *loop;
    struct mailbox *next_box; /* of the same loop */
    uint64_t looked;          /* spin.c's */
    /* the uv_async_t; its own allocation, as it outlives the mailbox until closed */
    struct mailbox_handle *handle;
} mailbox_t;

status_t mailbox_init(mailbox_t *box, struct loop *loop, mailbox_deliver_fn_t deliver, void *arg, err_t *err);

/* On the loop's thread, after all posters have stopped; delivers what is still there first. */
void mailbox_dispose(mailbox_t *box);

void mailbox_post(mailbox_t *box, mailbox_node_t *node); /* any thread */
void mailbox_post_list(mailbox_t *box, mailbox_node_t *first_oldest,
                       mailbox_node_t *last); /* linked oldest first */

#endif
