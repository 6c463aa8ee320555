/*
 * Who is connected: what gateways and workers have in common as peers. Joining, versions, epochs, pings, time-outs.
 *
 * A peer belongs to its stream and is freed when that has closed; until it has said hello it is one of the
 * strangers. What it says is never trusted: nonsense is answered where it can be, and logged once per peer and kind.
 */
#ifndef SCHEDULER_REGISTRY_H
#define SCHEDULER_REGISTRY_H

#include "control.pb-c.h"
#include "rpc/bytes.h"
#include "rpc/stream.h"
#include "scheduler/delay.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct scheduler scheduler_t;

enum {
    PEERS_MAX = 256, /* of each kind; a cluster of thousands of devices needs no more processes */
    PEER_NAME_BYTES = 64,
    FRAMES_BYTES_MAX = 8 << 20, /* that wait to be sent, beside one that is large by itself */
};

/* No duration on the wire is believed beyond this: it bounds every sum of times. */
#define DURATION_MOST_NS (INT64_C(3600) * 1000000000)

/* Each kind of nonsense is logged once per peer. */
typedef enum {
    NONSENSE_GARBAGE,
    NONSENSE_EPOCH,
    NONSENSE_ARRAYS,
    NONSENSE_TIME,
    NONSENSE_DUPLICATE,
    NONSENSE_BATCH,
    NONSENSE_DEVICE,
    NONSENSE_MODEL,
    NONSENSE_HELLO,
    NONSENSE_FLOOD,
    NONSENSE_KINDS,
} nonsense_t;

typedef struct peer {
    scheduler_t *scheduler;
    struct peer *prev, *next; /* among those that have not said hello */
    rpc_stream_t *stream;
    bool joined;  /* Hello and Welcome were exchanged */
    bool closing; /* its stream is on its way out: nothing more is taken from it */
    uint32_t index;
    uint32_t version;
    uint64_t instance_id;
    char name[PEER_NAME_BYTES];
    int64_t heard_ns;
    delay_window_t rtt;
    int64_t delay_ns;        /* one-way bound */
    uint32_t complained;     /* bits of nonsense_t */
    bool has_ping, has_pong; /* to be sent with the next frame */
    uint64_t pong_sent_ns;
    int64_t pong_heard_ns;
    size_t large_bytes; /* of a large frame that may still wait to be sent; 0: none does */
} peer_t;

/* A new peer for a stream that has just opened: zeroed memory of so many bytes that begins with a peer_t,
 * and the stream's argument. NULL: the stream is being closed, with the reason. */
void *peer_open(scheduler_t *s, rpc_stream_t *stream, size_t size_bytes, const char *kind);
void peer_closed(peer_t *peer); /* the last thing before its memory goes */
void peer_complain(peer_t *peer, nonsense_t kind, const char *detail);
/* Clamps a duration that came over the wire to [0, DURATION_MOST_NS]; complains when it was outside. */
int64_t peer_duration(peer_t *peer, int64_t value_ns);
/* Checks Hello, chooses the version and an index in table; false: the stream is being closed. */
bool peer_join(peer_t *peer, const Control__Hello *hello, void **table, const char *kind);
/* Reads a message into the scratch arena, which the caller resets; NULL: it made no sense, and the stream
 * is being closed. */
void *peer_read(peer_t *peer, const ProtobufCMessageDescriptor *type, rpc_bytes_t *bytes);
/* What every frame begins with. False: the rest of it is not to be looked at. */
typedef struct {
    uint64_t epoch;
    const Control__Hello *hello;
    const Control__Ping *ping;
    const Control__Pong *pong;
} frame_head_t;
bool peer_begin(peer_t *peer, const frame_head_t *head, void (*join)(peer_t *, const Control__Hello *));
Control__Welcome peer_welcome(const peer_t *peer);
void peer_close(peer_t *peer, rpc_code_t code, const char *text);
/* Sends a frame; a peer that does not take its messages any more is given up, which is where more than
 * FRAMES_BYTES_MAX wait. A frame of half of that and more may be sent when peer_takes_large: it does not count. */
void peer_send(peer_t *peer, const ProtobufCMessage *frame);
bool peer_takes_large(peer_t *peer);

/* Every ping interval: pings, time-outs, delay bounds, and what else of the service wants to be looked at
 * from time to time. */
void registry_tick(scheduler_t *s);

#endif
