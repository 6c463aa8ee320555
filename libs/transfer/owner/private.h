/*
 * The inside of an owner, shared by the files of this folder, of which each calls those below it:
 *
 *   owner.c        its life, and what it owns
 *   listen.c       those who come, and the sweep
 *   connection.c   one of them: its frames, fetches, and its end
 *   meet.c         who it is; until that is known it is a stranger
 *   results.c      what it pushes
 *   place.c        who may stay when there is no room for all
 *
 *   within.c       those who need no connection: they are in this process
 */
#ifndef TRANSFER_OWNER_PRIVATE_H
#define TRANSFER_OWNER_PRIVATE_H

#include "base/acceptor.h"
#include "transfer/conn.h"
#include "transfer/doors.h"
#include "transfer/places.h"
#include "transfer/refusals.h"
#include "transfer/region.h"
#include "transfer/wire.h"

TAILQ_HEAD(owner_conns, owner_conn);

struct transfer_owner {
    uv_poll_t listener; /* first of the two handles that keep the owner alive after destroy */
    uv_timer_t sweep;
    int handles;
    int fd;
    acceptor_t acceptor;
    bool listening;
    uv_loop_t *loop;
    uint64_t instance_id;
    transfer_limits_t limits;
    transfer_receiver_t receiver;
    void *ctx;
    region_table_t regions;
    transfer_choice_t choice;
    bool spin;
    doors_t doors;
    conn_shared_t shared;
    transfer_trust_t trust;
    places_t places;              /* of those whose peers have proved themselves and said HELLO */
    struct owner_conns strangers; /* the others, oldest first */
    uint32_t stranger_count;
    transfer_stats_t stats;
    char address[TRANSFER_ADDRESS_BYTES];
    struct loop *shared_loop;     /* NULL: nobody comes from another loop */
    mailbox_t handed;             /* from other loops */
    _Atomic uint64_t item_errors; /* of items that were taken within the process */
};

/* One result of the push that is being received. */
typedef struct {
    void *token;
    uint64_t task_id;
    uint64_t len_bytes;
} incoming_t;

/* What is to come next; in this order, those left out that are not wanted. */
typedef enum {
    OWNER_SHAKING,   /* hands, for TLS */
    OWNER_CHALLENGE, /* the peer's; or, with TLS, what a peer of another role says first */
    OWNER_PROOF,     /* of the secret */
    OWNER_HELLO,
    OWNER_OPEN /* requests */
} owner_stage_t;

typedef struct owner_conn {
    conn_t conn;
    transfer_owner_t *owner;
    TAILQ_ENTRY(owner_conn) link; /* in strangers, before OWNER_OPEN */
    place_t place;                /* then */
    owner_stage_t stage;
    struct sockaddr_storage from;
    transfer_refusal_t refusal;           /* of a stranger: why, if it is closed for what it said */
    wire_challenge_t challenge, answered; /* the peer's and ours, until the proof has come */
    uint64_t since_ns;
    uint32_t max_items; /* agreed in HELLO */
    uint64_t max_item_bytes;
    incoming_t *incoming; /* of the present PUSH; those before `completed` are done */
    uint32_t incoming_count, incoming_cap, completed;
    seat_t seat; /* past the socket, once the peer has attached */
} owner_conn_t;

static inline bool owner_is_stranger(const owner_conn_t *oc)
{
    return oc->stage < OWNER_OPEN;
}

/* ---- listen.c ---- */

/* Takes those who come to this address. */
status_t owner_listen(transfer_owner_t *owner, const char *address, err_t *err);
/* No more; frees the owner when the loop has let go of it. */
void owner_stop_listening(transfer_owner_t *owner);

/* ---- connection.c ---- */

/* One has come; takes the socket. */
void owner_take(transfer_owner_t *owner, int fd, const struct sockaddr_storage *from);

/* ---- meet.c: what a connection's operations (conn.h) are until the peer is known ---- */

void owner_take_stranger(owner_conn_t *oc);
void owner_secured(conn_t *conn);
void owner_in_clear(conn_t *conn);
/* What is of another way to begin is taken, so that it can be told why not. */
bool owner_accept_first(const owner_conn_t *oc, const wire_header_t *header, size_t *records_bytes);
bool owner_on_challenge(owner_conn_t *oc, const uint8_t *record);
bool owner_on_proof(owner_conn_t *oc, const uint8_t *record);
bool owner_on_hello(owner_conn_t *oc, const uint8_t *record);
/* Whoever hangs up before he has proved himself, as a port scan does, is not told of. */
void owner_stranger_closed(owner_conn_t *oc, bool protocol, const char *why);
/* Those who have proved nothing in time. */
void owner_turn_away_late(transfer_owner_t *owner, uint64_t now);

/* ---- results.c ---- */

bool owner_on_push(owner_conn_t *oc, const wire_header_t *header, const uint8_t *records);
/* The payload of one of them is there. */
void owner_on_result(owner_conn_t *oc, uint32_t index);
/* All are there. */
void owner_end_push(owner_conn_t *oc);
/* The connection is gone: what of its push has begun does not end. */
void owner_break_push(owner_conn_t *oc);

/* ---- place.c ---- */

/* NULL: out of memory. */
frame_t *owner_frame(owner_conn_t *oc, uint8_t type, const wire_header_t *to, size_t records_bytes,
                     uint32_t iovs);
/* Tells the peer why, as far as its socket takes it; false, so that its connection ends. */
bool owner_send_bye(owner_conn_t *oc, status_t code, const char *text);
/* Now that it is known; another may have to leave for it. */
void owner_give_place(owner_conn_t *oc);
/* It has done something that gives it a right to its place. */
void owner_worked(owner_conn_t *oc);
/* Those that have stalled, and those that have done nothing for long. */
void owner_clear_out(transfer_owner_t *owner, uint64_t now);
/* All connections, strangers too. */
void owner_close_all(transfer_owner_t *owner);

/* ---- within.c ---- */

/* From now on it is reached from other loops; no more. */
status_t owner_share(transfer_owner_t *owner, struct loop *loop, err_t *err);
void owner_unshare(transfer_owner_t *owner);

#endif
