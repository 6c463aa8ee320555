/*
 * Reads and writes by message, over transports where UCX would emulate one-sided access: of UCX 1.13 that emulation aborts
 * the owner's process when a reader's goes away in the middle, and writes to wherever a message says. Here the owner looks at every
 * bound, and a reader that is gone costs an answer that cannot be sent.
 *
 *   asker (a link's worker)                       answerer (the door's worker)
 *     ASK {op, what, at, len, token} [bytes] --->
 *                                            <--- ANSWER {op, refused} [bytes]
 */
#ifndef TRANSFER_UCX_ASK_H
#define TRANSFER_UCX_ASK_H

#include "transfer/carrier.h"

#include <ucp/api/ucp.h>

typedef enum { ASK_ARENA, ASK_DIRECTORY, ASK_WINDOW } ask_what_t;

/* A window that may be written to by who knows its token. */
typedef struct asked_window {
    TAILQ_ENTRY(asked_window) entry;
    uint64_t token; /* of getrandom; 0: it is in no list */
    uint8_t *base;
} asked_window_t;

typedef struct {
    const carrier_memory_t *arena, *directory;
    TAILQ_HEAD(asked_windows, asked_window) windows;
    struct answer *free, *all;
} answerer_t;

void answerer_init(answerer_t *answerer, const carrier_memory_t *arena, const carrier_memory_t *directory);
/* False: the worker takes no messages. One that takes the place of another hears who asks from then on. */
bool answerer_listen(answerer_t *answerer, ucp_worker_h worker);
void answerer_dispose(answerer_t *answerer); /* its workers are gone */
/* False: there is no token to be had. */
bool answerer_add(answerer_t *answerer, asked_window_t *window, void *base);
void answerer_remove(answerer_t *answerer, asked_window_t *window);

/* An operation has ended; never told from within ask_by_message. */
typedef void (*ask_ended_fn)(void *user, ucs_status_t status);

typedef struct {
    ucp_ep_h ep;
    uint64_t token;
    struct asking **ops;
    uint32_t count, cap, free_head;
} asker_t;

bool asker_open(asker_t *asker, ucp_worker_h worker, ucp_ep_h ep, uint64_t token);
/* The answers will not come. Tells all but those whose memory is still being sent from. */
void asker_give_up(asker_t *asker);
void asker_close(asker_t *asker); /* the worker is gone */
/* Reads into `bytes`, or writes them (ASK_WINDOW). Not UCS_OK: it does not begin. */
ucs_status_t ask_by_message(asker_t *asker, ask_what_t what, uint64_t at, void *bytes, size_t len,
                            ask_ended_fn ended, void *user);

#endif
