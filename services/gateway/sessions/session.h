/*
 * One inference request from parse to answer, the same for every front end. Loop thread only.
 *
 *   session_t *s = session_open(gateway, PROTOCOL_GRPC, &err);        a slot, or UNAVAILABLE
 *   session_admit(s, holder, peer, &err);                             LIMITED, UNAVAILABLE
 *   oip_grpc_parse(&s->request, …, &s->allocator, &err);              the codec fills s->request
 *   session_set_model(s, s->request.model, s->request.version, &err); NOT_FOUND
 *   session_submit(s, budget_ns, done, arg);                          validates, runs, calls done exactly once
 *   session_cancel(s)    when the client is gone: done still comes, with STATUS_CANCELLED
 *   done(s, arg)         session_write, exactly once; on STATUS_OK send the iovecs of s->reply, else tell the error
 *   session_close(s)     when the bytes are sent (or instead of submit, when the parse failed)
 *
 * What it promises: after session_submit, done comes exactly once, from the loop or from within
 * session_submit, no later than the deadline plus SESSION_BACKSTOP_NS, whatever scheduler and workers do. A
 * row that fails fails its request.
 *
 * Memory of a session (slot, tensors, reply) stays put until session_close; inputs that the codec borrowed
 * from the transport's body need to live only until session_submit returns.
 *
 *   OPEN ─submit─▶ PREPROCESSING ─▶ WAITING ─▶ DONE ─close─▶ (slot free when workers' transfers have ended)
 *     └──────────────────┴─────────────┴── any failure ──▶ DONE
 */
#ifndef GATEWAY_SESSION_H
#define GATEWAY_SESSION_H

#include "gateway/gateway.h"
#include "gateway/models/catalogue.h"
#include "oip/request.h"
#include "transfer/transfer.h"

typedef struct session session_t;
typedef void (*session_done_fn)(session_t *session, void *arg);

enum {
    /* How long after the deadline an answer may leave: a pushed result or a drop on its way gets this much. */
    SESSION_BACKSTOP_NS = 20 * 1000 * 1000,
    /* Rows of one request; the task id has 12 bits for them. */
    SESSION_ROWS_MAX = 4096,
    SESSION_REGIONS_MAX = OIP_MAX_TENSORS + 16,
};

/* No deadline of the transport's own: the request's `timeout`, else the model's SLO counts. */
#define SESSION_NO_BUDGET INT64_MAX

/* No request stays longer; a client that asks for more gets this much. */
#define SESSION_BUDGET_MAX_NS (INT64_C(600) * 1000 * 1000 * 1000)

/* What front ends see of a session. Only `request` and `front` are theirs to write. */
struct session {
    gateway_t *gateway;
    oip_request_t request;
    oip_allocator_t allocator; /* arena memory of this session, for the codec and for bodies */
    model_entry_t *model;      /* NULL until session_set_model */

    err_t error;             /* in done: why there is no response; code STATUS_OK: there is one */
    uint32_t retry_after_ms; /* on failure: the advice for UNAVAILABLE and LIMITED; 0 = none */
    oip_response_t response; /* in done, on success; its pieces lie in the arena until session_close */
    oip_reply_t reply;       /* what session_write has written */
    void *front;             /* free for the front end */

    struct session_private *internal;
};

/* UNAVAILABLE when too many requests are under way. */
session_t *session_open(gateway_t *gateway, protocol_t protocol, err_t *err);
void session_close(session_t *session); /* not between submit and done */

/* Counts it among those of the key's holder (access/access.h; NULL: no keys are wanted) and of its client (access/clients.h), which
 * is that holder or the address of peer. LIMITED: over its own limits; UNAVAILABLE: over its share. The session's retry_after_ms is set. */
struct keyring_holder;
status_t session_admit(session_t *session, struct keyring_holder *holder, const char *peer, err_t *err);

/* Arena memory, aligned to ARENA_ALIGN_BYTES, that lives until session_close; NULL when the arena is full. */
void *session_alloc(session_t *session, size_t len_bytes);

/* How far behind such memory a message is to begin so that what stands at offset_bytes of it, a tensor, is aligned: engines read it where it is
 * then. */
static inline size_t session_lead(size_t offset_bytes)
{
    return -offset_bytes % ARENA_ALIGN_BYTES;
}

/* catalogue_find, and keeps the entry; UNAVAILABLE also where client or model have had their share. Before the parse for REST (raw bodies need the spec), after it for
 * gRPC. */
status_t session_set_model(session_t *session, const char *name, const char *version, err_t *err);

/* budget_ns: what the transport's deadline leaves from now, or SESSION_NO_BUDGET. */
void session_submit(session_t *session, int64_t budget_ns, session_done_fn done, void *arg);
/* Only between submit and done; done comes from within. */
void session_cancel(session_t *session);

/* In done: writes the response into reply with the front end's codec, or gives back why there is none, and
 * counts what became of the request. */
typedef status_t (*session_write_fn)(oip_reply_t *reply, const oip_response_t *response, err_t *err);
status_t session_write(session_t *session, session_write_fn write, err_t *err);

/* Counts a request that was refused before it was submitted. */
void session_count_refusal(gateway_t *gateway, protocol_t protocol, status_t status);

/* ---- for main.c and tests: all sessions of a gateway ---- */

/* requests_max sessions may be open at once; their memory (about 60 KiB each) is touched when it is first used. */
status_t sessions_create(gateway_t *gateway, uint32_t requests_max, sessions_t **sessions, err_t *err);
/* Every session was closed and the data plane is gone. NULL is fine. */
void sessions_destroy(sessions_t *sessions);

/* When the last one was opened; 0: none was. */
int64_t sessions_asked_ns(const sessions_t *sessions);
/* Submitted and not yet answered: requests, and their tasks. */
uint32_t sessions_waiting(const sessions_t *sessions);
uint32_t sessions_tasks_waiting(const sessions_t *sessions);

/* Their ends of the control stream and of the data plane; ctx of both is the sessions_t. */
struct gateway_control_ops;
const struct gateway_control_ops *sessions_control_ops(void);
transfer_receiver_t sessions_receiver(void);

#endif
