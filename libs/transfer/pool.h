/*
 * Inside of the pool, from the top, each file calling only those behind it: to_device.c (fetches that no socket can do), pool.c (pool, peers, requests from outside, time-outs), peer.c
 * (one peer's connection), carry.c (what goes past the socket), progress.c (what is sent next, and who is told of an end), ask.c (whose
 * turn it is to be fetched through the socket), request_frame.c (the frames of requests) and request.c (their slots).
 *
 * A request's life, and the list it is on:
 *
 *   FREE --push--> WAITING --connection READY--> SENT --answered--> done, FREE
 *   FREE --fetch-> WAITING --connection READY--> PACED --its turn--> SENT, or in parts, each SENT --all answered--> done, FREE
 *                           |                            |
 *                           |                            +--cancel, time-out--> done, GHOST --answered--> FREE
 *                           +--cancel, time-out, peer gone--> done, FREE
 *
 * With a carrier:
 *
 *   FREE --fetch--> CARRIED --read--> done, FREE        FREE --push--> CARRIED --written--> SENT (its LANDED) ...
 *                      +--the link breaks--> WAITING (into a device's memory: FAILING)
 *                      +--cancel, time-out, peer gone--> done, FREE; or LEAVING --memory free--> done, FREE
 *
 *   WAITING   in peer->waiting: there is no connection yet
 *   PACED     in peer->paced: it waits for its turn, or for its parts
 *   CARRIED   in peer->carried: its job is with the link
 *   LEAVING   in pool->leaving: likewise, but it has failed already; its peer may be gone
 *   SENT      in peer->sent, in the order of the wire
 *   GHOST     the answer is still to come and will be thrown away; keeps its place in peer->sent
 */
#ifndef TRANSFER_POOL_H
#define TRANSFER_POOL_H

#include "transfer/carrier.h"
#include "transfer/conn.h"
#include "transfer/internal.h"
#include "transfer/pace.h"
#include "transfer/window.h"

typedef enum {
    REQUEST_FREE,
    REQUEST_WAITING,
    REQUEST_PACED,
    REQUEST_CARRIED,
    REQUEST_LEAVING,
    REQUEST_SENT,
    REQUEST_GHOST,
    REQUEST_FAILING,
} request_state_t;

typedef struct request {
    TAILQ_ENTRY(request) link; /* in the list of its state */
    transfer_pool_t *pool;
    transfer_peer_t *peer; /* NULL: it is gone (LEAVING) */
    request_state_t state;
    uint32_t generation;
    uint8_t kind;    /* WIRE_FETCH or WIRE_PUSH */
    status_t status; /* what done will say, while FAILING or LEAVING */
    uint32_t seq, count;
    uint64_t deadline_ns; /* 0 = none */
    transfer_item_t *items;
    const transfer_result_t *results;
    frame_t *frame; /* not yet wholly sent; NULL otherwise */
    transfer_done_fn done;
    void *ctx;
    carrier_job_t job;  /* while CARRIED or LEAVING */
    uint32_t span;      /* of a push: its room in the window, WINDOW_SPAN_NONE: none */
    uint32_t window_at; /* and where that is */
    pace_turn_t turn;   /* of a fetch, while PACED */
    uint64_t credit_bytes;
    uint64_t from, until; /* of a fetch: where it begins in its first item, and ends in its last */
    uint32_t at_item;     /* the next to be asked for */
    uint32_t parts;       /* on the wire */
    uint64_t at_byte;     /* in it */
    bool is_part;
    bool to_device;        /* of a fetch: what it fills only a link can write to */
    struct request *whole; /* of a part; NULL: it was given up */
} request_t;

TAILQ_HEAD(request_list, request);
TAILQ_HEAD(peer_list, transfer_peer);

typedef struct {
    const carrier_ops_t *ops; /* NULL: behind the last */
    carrier_client_t *client;
} client_t;

typedef struct {
    const carrier_ops_t *ops; /* NULL: none is being made */
    carrier_link_t *link;     /* NULL: its answer is still to come */
    bool ready;
    uint32_t tried;    /* bits of those that were tried since it was last a good time to */
    uint64_t carriers; /* bits of those that the owner has, too */
    uint64_t again_ns; /* not before this; 0: there is none to try */
    uint64_t moved_ns; /* when a job last ended, or began with none under way; or it was asked for */
    window_t window;
} link_t;

struct transfer_pool {
    uv_timer_t sweep;       /* stalls and idle connections */
    uv_timer_t timeout;     /* the earliest deadline of a request */
    uint64_t timeout_at_ns; /* when that fires; 0 = not set */
    int handles;
    uv_loop_t *loop;
    transfer_limits_t limits;
    transfer_trust_t trust;
    uint64_t instance_id; /* a random one, which our proofs are of */
    conn_shared_t shared;
    struct peer_list peers;
    request_t *requests;    /* max_requests of them */
    uint32_t requests_used; /* ever touched */
    struct request_list free;
    struct request_list leaving;
    bool dropping; /* a link is being dropped */
    pace_t pace;
    uv_timer_t silence; /* looks, while fetches wait for credit, for peers that hold some and send nothing */
    request_t *parts;
    uint32_t parts_used; /* ever touched */
    struct request_list free_parts;
    client_t clients[TRANSFER_WAYS + 1];
    struct request_list failing; /* their connection is gone; done is about to be called */
    transfer_stats_t stats;
};

typedef struct peer_conn {
    conn_t conn;
    transfer_peer_t *peer; /* NULL once the peer has let go of it */
} peer_conn_t;

typedef struct peer_lookup {
    uv_getaddrinfo_t request;
    transfer_peer_t *peer; /* NULL: nobody waits any more */
} peer_lookup_t;

struct transfer_peer {
    transfer_pool_t *pool;
    TAILQ_ENTRY(transfer_peer) link;
    enum {
        PEER_IDLE,
        PEER_RESOLVING,
        PEER_CONNECTING,
        PEER_CHALLENGING,
        PEER_PROVING,
        PEER_GREETING,
        PEER_READY
    } state;
    wire_challenge_t challenge, answered; /* ours and the owner's, until it has proved the secret */
    bool closing;
    peer_conn_t *pc;
    peer_lookup_t *lookup;
    struct addrinfo *addresses, *address; /* while connecting: all, and the one being tried */
    struct request_list waiting, paced, carried, sent;
    uint64_t credit_bytes; /* that its requests hold */
    uint64_t heard_bytes;  /* received when last looked at because of credit */
    bool asked_at_tick;    /* it held credit then */
    bool muted;            /* its credit is written off */
    uint64_t looked_ns;    /* when its losses were last looked at */
    uint32_t out_of_order; /* packets until then */
    link_t link_past;      /* the socket */
    uint32_t next_seq;
    uint32_t max_items; /* agreed in HELLO */
    uint64_t max_item_bytes;
    uint64_t instance_id;
    uint64_t since_ns;                    /* when connecting began */
    uint64_t seen_bytes, silent_since_ns; /* received when last looked at, and since when no more */
    uint64_t used_ns;                     /* when the last request ended */
    uint64_t backoff_ns;                  /* after the next failure */
    uint64_t retry_at_ns;                 /* no connect before this */
    char host[ADDRESS_HOST_BYTES], port[ADDRESS_PORT_BYTES];
};

/* pool.c */

/* A fetch of items that were not looked at yet. Returns as transfer_fetch does. */
status_t pool_fetch(transfer_peer_t *peer, const request_t *wanted, uint64_t timeout_ns,
                    transfer_request_t *id);

/* peer.c */

/* Begins connecting if there is no connection. False: not now (the back-off has not passed, or it failed at
 * once). */
bool peer_start(transfer_peer_t *peer);
/* Ends the connection and fails all requests. backoff: connecting failed, do not try again at once. */
void peer_fail(transfer_peer_t *peer, bool backoff, const char *why);
/* It is connected, and nothing is under way. */
bool peer_is_idle(const transfer_peer_t *peer);
/* Lets go of connection and look-up without calling anybody back. */
void peer_detach(transfer_peer_t *peer);

/* progress.c */

/* Encodes and sends what waits, when READY. */
void peer_send_waiting(transfer_peer_t *peer);
/* Of a fetch: all its items have this status, unless that is OK. */
void request_mark_items(request_t *request, status_t status);
/* Ends a request that is on `list`: calls done with status after the request is free again. */
void request_finish(transfer_pool_t *pool, request_t *request, struct request_list *list, status_t status);
/* Tells the requests that have failed without a connection's end. Last thing that a function does: callbacks may close any peer. */
void pool_end_failing(transfer_pool_t *pool);

/* request_frame.c */

/* NULL: no memory. */
frame_t *peer_frame(transfer_peer_t *peer, const wire_header_t *header, size_t records_bytes, uint32_t iovs);
/* The frame of a request: of a push with a span one without its payloads, which are there all the same behind iov[0].
 * NULL: no memory. */
frame_t *peer_encode(transfer_peer_t *peer, request_t *request);
/* Queues request->frame; the request, which is on no list, is SENT now. */
void peer_send_frame(transfer_peer_t *peer, request_t *request);
/* False: over the limits that were agreed with the owner. */
bool peer_within_limits(const transfer_peer_t *peer, const request_t *request);
/* What of its i-th item a fetch asks for. */
uint64_t request_begin(const request_t *request, uint32_t i);
uint64_t request_end(const request_t *request, uint32_t i);

/* request.c */

/* NULL: max_requests of them are in use. */
request_t *request_take(transfer_pool_t *pool);
/* One that is on no list; what it holds is free, too. */
void request_free(transfer_pool_t *pool, request_t *request);
/* received: its answer has come, which the pace learns from. */
void request_give_credit(request_t *request, bool received);
/* Its turn, and the credit it holds, are for others. */
void request_drop_turn(request_t *request);
/* The request is given up but its answer is still to come. */
void peer_make_ghost(transfer_peer_t *peer, request_t *request);
uint64_t result_bytes(const transfer_result_t *result);
/* Counts the items of a fetch that has come this way. */
void request_count_items(const request_t *request, transfer_way_t way);
/* Counts the results of a push that has been acknowledged. */
void request_count_results(transfer_peer_t *peer, const request_t *request);

#endif
