/*
 * One non-blocking TCP connection that speaks frames (wire.h), over TLS or as they are: scatters payloads with readv, gathers with
 * sendmsg, or as tls/stream.h does. Used by both roles; what a frame means is told by conn_ops_t. A hot path: no allocation but the
 * growth of buffers that are then kept.
 *
 *   receive:  HEADER --accept()--> RECORDS --frame()--> PAYLOAD --complete()--> HEADER
 *
 * Header and records collect in `buf`; payload bytes go straight to the segments that frame() listed, and the
 * tail of the same readv catches the next header.
 */
#ifndef TRANSFER_CONN_H
#define TRANSFER_CONN_H

#include "tls/stream.h"
#include "transfer/frame.h"
#include "transfer/wire.h"

#include <uv.h>

enum { CONN_SCRATCH_BYTES = 1 << 16 };

/* What the connections of one owner or pool share. */
typedef struct {
    frame_pool_t frames;
    uint8_t scratch[CONN_SCRATCH_BYTES]; /* discarded payload goes here */
} conn_shared_t;

typedef struct conn conn_t;

typedef struct {
    /* The connection stands, with TLS if it was to have it (only for one that was connecting, or is secured). */
    void (*connected)(conn_t *conn);
    /* Instead, where the other side dials: it speaks frames as they are, and TLS was wanted. What is sent now goes as it is, too; the
     * connection is closed after this. */
    void (*in_clear)(conn_t *conn);
    /* A header has come: is such a frame welcome now? If so *records_bytes is what follows it before any
     * payload. */
    bool (*accept)(conn_t *conn, const wire_header_t *header, size_t *records_bytes);
    /* Header and records are complete. Adds a segment for each payload part with conn_expect. False: broken
     * peer. */
    bool (*frame)(conn_t *conn, const wire_header_t *header, const uint8_t *records);
    /* Segment `index` of the payload is complete; NULL when nobody wants to know. */
    void (*segment)(conn_t *conn, uint32_t index);
    /* The whole frame is complete. */
    void (*complete)(conn_t *conn);
    /* A frame has left or is thrown away; the connection recycles it after this. */
    void (*sent)(conn_t *conn, frame_t *frame);
    /* Exactly once. No callback but `freed` comes after it. protocol: what the peer sent is the reason. */
    void (*closed)(conn_t *conn, bool protocol, const char *why);
    /* The last word: the object that embeds the connection may be freed. */
    void (*freed)(conn_t *conn);
} conn_ops_t;

/* A direction that is busy must move on: CONN_STALL_BYTES or a frame in every stall time. */
typedef struct {
    uint64_t since_ns; /* 0 = not busy */
    uint64_t bytes, frames;
} conn_window_t;

struct conn {
    uv_poll_t poll;
    int fd;
    int events;
    const conn_ops_t *ops;
    conn_shared_t *shared;
    tls_stream_t *tls; /* NULL: none */
    bool connecting;
    bool securing; /* TLS is shaking hands, or will when it is connected */
    bool paused;   /* does not read: too much is queued for sending */
    bool broken;   /* sending failed; is closed at the next event, not in the middle of a caller */
    bool closed;
    uint32_t pause_weight; /* queued weight from which on it does not read; 0 = never */
    struct {
        enum { CONN_HEADER, CONN_RECORDS, CONN_PAYLOAD } stage;
        uint8_t *buf;
        size_t cap, start, end;
        wire_header_t header;
        size_t records_bytes;
        struct iovec *segments; /* base NULL = discard */
        uint32_t count, segment_cap, pos;
        size_t off; /* in segments[pos] */
        uint64_t bytes, frames;
        int lowat; /* SO_RCVLOWAT as it is set */
    } rx;
    struct {
        struct frame_list queue;
        uint32_t weight;
        uint64_t bytes, frames;
    } tx;
    conn_window_t rx_window, tx_window;
};

/* Takes over fd (non-blocking), also on failure. connecting: connect(2) is under way. */
status_t conn_init(conn_t *conn, uv_loop_t *loop, int fd, bool connecting, const conn_ops_t *ops,
                   conn_shared_t *shared);

/* Right after conn_init: frames go through TLS, which this side has accepted or will begin when it is connected. False: no memory. */
bool conn_secure(conn_t *conn, tls_context_t *tls);

static inline bool conn_stands(const conn_t *conn)
{
    return !conn->connecting && !conn->securing;
}

/* Adds a payload segment; only from within frame(). False: no memory. */
bool conn_expect(conn_t *conn, void *base, size_t len_bytes);

/* What is left of the present frame's payload is read and thrown away. */
void conn_discard(conn_t *conn);

/* Queues a frame; conn_flush writes what the socket takes. Neither calls back `closed`. */
void conn_send(conn_t *conn, frame_t *frame);
void conn_flush(conn_t *conn);

/* Takes back a frame of which no byte was sent. `sent` is not called; it is recycled. */
void conn_withdraw(conn_t *conn, frame_t *frame);

/* Idempotent. Calls closed(protocol, why). */
void conn_close(conn_t *conn, bool protocol, const char *why);

/* True: a direction has been busy for stall_ns and hardly moved. To be called now and then. */
bool conn_stalled(conn_t *conn, uint64_t now_ns, uint64_t stall_ns);

#endif
