/*
 * A stream of protobuf-c messages between two services, over gRPC or within a process: whoever speaks does not know which.
 *
 *   one end dials, and dials again whenever its link has ended       link_dial
 *   the other accepts links of a method                              link_accept
 *
 * Life of a link, at both ends: opened, then any number of said and writable, then exactly one closed, after which it is no
 * more. One that never opened calls nothing. All on the thread of that end's loop, one at a time.
 *
 * Within a process there are two bodies. Both ends on the loop of one hub: a message is handed over as the struct that it is, from within
 * link_send, unless the other end could be on the stack already: while some message of the hub is being heard, what is sent is
 * packed, and heard in the next turn of the loop, in order. There is no bound on what waits so: it is what follows from one message.
 * Whoever has been told something gets another turn of the loop before that sleeps (uv_check, uv_prepare).
 *
 * The dialling end on a loop of its own (link_via_t.loop): messages are packed and go through the other loop's mailbox, in order; what was
 * sent and not yet heard is bounded as over gRPC, by send_queue_bytes of the dialling end and LINK_BETWEEN_BYTES_MAX of the accepting
 * one. An end is told closed when both have heard of it, so neither loop waits for the other.
 */
#ifndef LINK_LINK_H
#define LINK_LINK_H

#include "loop/loop.h"
#include "pb_arena.h"
#include "rpc/bytes.h"
#include "rpc/server.h"

#include <protobuf-c/protobuf-c.h>

typedef struct link link_t;
typedef struct link_dial link_dial_t;
typedef struct link_hub link_hub_t;

typedef struct {
    void (*opened)(link_t *link, void *ctx);
    /* The message lives during the call. NULL: what came is none. */
    void (*said)(link_t *link, void *ctx, const ProtobufCMessage *message);
    /* There is room again after a refused send, or after it was more than half full. May be NULL. */
    void (*writable)(link_t *link, void *ctx);
    /* The end: what the accepting end said; RPC_OK there after a clean end, else RPC_CANCELLED. */
    void (*closed)(link_t *link, void *ctx, rpc_code_t code, const char *text);
    /* Of the dialling end, for people: no link came to be, or the last has ended; it is tried again. May be NULL. */
    void (*down)(void *ctx, rpc_code_t code, const char *text);
} link_ops_t;

/* Links of one method, as one of the ends sees them. Outlives them. */
typedef struct {
    const char *method; /* "/package.Service/Method"; static */
    const ProtobufCMessageDescriptor *hears;
    pb_arena_t *
        arena; /* what was heard lies in it, and it is emptied after said; ends on one thread may share one */
    link_ops_t ops;
    void *ctx; /* until link_set_ctx */
} link_kind_t;

/* ---- either end ---- */

/* A message on its way out. */
typedef struct {
    rpc_bytes_t *bytes;              /* packed */
    const ProtobufCMessage *message; /* not packed; it must live until it is put */
    size_t len_bytes;                /* that will wait to be sent */
} link_frame_t;

link_frame_t link_pack(const link_t *link, const ProtobufCMessage *message);
/* Takes the frame in every case. UNAVAILABLE: the link is closed or closing; NO_MEMORY: its queue is full, and the message
 * is lost. */
status_t link_put(link_t *link, link_frame_t frame);
void link_drop(link_frame_t frame);
static inline status_t link_send(link_t *link, const ProtobufCMessage *message)
{
    return link_put(link, link_pack(link, message));
}

/* Sent and not yet handed on. */
size_t link_pending_bytes(const link_t *link);
/* Ends it after what was sent. code and text, which may be NULL, are what the dialling end hears; of that end they are ignored. */
void link_close(link_t *link, rpc_code_t code, const char *text);
/* Ends it now; what was sent may be lost. */
void link_cancel(link_t *link);
/* The argument of the calls from now on. */
void link_set_ctx(link_t *link, void *ctx);
/* Who is at the other end, for people; as long as the link. */
const char *link_peer(const link_t *link);

/* ---- who dials ---- */

enum { LINK_BETWEEN_BYTES_MAX = 256 << 20 }; /* who accepts looks at link_pending_bytes long before */

typedef struct {
    link_hub_t *hub;     /* within this process; NULL: by gRPC */
    loop_t *loop;        /* of who dials; NULL: the hub's */
    rpc_runtime_t *rpc;  /* delivering to a loop */
    const char *address; /* "host:port" */
    tls_context_t *tls;  /* a client's; outlives the dial; NULL: plain */
    rpc_limits_t limits;
} link_via_t;

/* Dials from now on, again after every end, with growing pauses of 20 ms to a second. */
status_t link_dial(const link_via_t *via, const link_kind_t *kind, link_dial_t **dial, err_t *err);
/* The link that is up, or NULL. */
link_t *link_dial_up(const link_dial_t *dial);
/* Ends it: the link is cancelled (its closed comes), then on_closed, then link_dial_destroy may be called, not from within. */
void link_dial_close(link_dial_t *dial, void (*on_closed)(void *arg), void *arg);
/* NULL is fine. */
void link_dial_destroy(link_dial_t *dial);

/* ---- who accepts ---- */

/* Before the server starts. */
status_t link_accept(rpc_server_t *server, const link_kind_t *kind);
status_t link_accept_within(link_hub_t *hub, const link_kind_t *kind);

/* ---- within a process ---- */

status_t link_hub_create(loop_t *loop, link_hub_t **hub, err_t *err);
/* All dials are closed, those of other loops too. The loop must run once more. NULL is fine. */
void link_hub_destroy(link_hub_t *hub);

#endif
