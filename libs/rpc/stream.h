/*
 * One bidirectional stream, the same at both ends. Servers get streams through rpc_server_add_stream, clients
 * through an rpc_link_t, which opens a new one whenever the last has ended.
 *
 * Life: on_open, then any number of on_message / on_writable, then exactly one on_close, after which the stream does
 * not exist any more. A stream that never opened (a link closed before a server answered) calls nothing. All
 * callbacks come on the runtime's delivery thread, one at a time.
 * The functions may be called from any thread until on_close returns; a program that sends from threads other than
 * the delivery thread has to stop them before.
 *
 * Bounds: RPC_STREAM_QUEUE messages and rpc_limits_t.send_queue_bytes wait to be sent, then sending is
 * refused; RPC_STREAM_INBOX received messages wait for delivery, then the peer is slowed down by HTTP/2's
 * flow control.
 */
#ifndef RPC_STREAM_H
#define RPC_STREAM_H

#include "rpc/bytes.h"
#include "rpc/runtime.h"

#include <stdbool.h>

typedef struct rpc_stream rpc_stream_t;

enum {
    RPC_STREAM_QUEUE =
        1024, /* far more than a loop iteration's worth; callers coalesce into few big messages */
    RPC_STREAM_INBOX = 64, /* enough to amortise the hop to the loop */
};

typedef struct {
    /* The peer is there. Optional. A server that rejects the call also answers: then on_close follows at once. */
    void (*on_open)(rpc_stream_t *stream, void *arg);

    /* A message; bytes is freed after the call unless the callee takes it by setting *keep = true. */
    void (*on_message)(rpc_stream_t *stream, void *arg, rpc_bytes_t *bytes, bool *keep);

    /* The queue has room again after a refused send or after it was more than half full. Optional. */
    void (*on_writable)(rpc_stream_t *stream, void *arg);

    /* The peer will send no more messages. Optional: without it a server closes the stream with RPC_OK, a
     * client waits for the status. */
    void (*on_half_close)(rpc_stream_t *stream, void *arg);

    /* The end. code and text: what the server said or, for a server, RPC_OK after a clean end, else
     * RPC_CANCELLED. */
    void (*on_close)(rpc_stream_t *stream, void *arg, rpc_code_t code, const char *text);
} rpc_stream_ops_t;

/* Takes bytes in every case. STATUS_UNAVAILABLE: closed or closing; STATUS_NO_MEMORY: queue full (the message
 * is lost, on_writable will tell when to go on). */
status_t rpc_stream_send(rpc_stream_t *stream, rpc_bytes_t *bytes);

/* Whether a message of this length would be taken now; where not, on_writable tells when to look again.
 * True of a stream that takes none any more: send says so. */
bool rpc_stream_has_room(rpc_stream_t *stream, size_t len_bytes);

/* Bytes accepted by send and not yet handed to the connection. */
size_t rpc_stream_pending_bytes(const rpc_stream_t *stream);

/* Ends the stream after what is queued. Server: with this status (text may be NULL). Client: half-closes,
 * then the server's status comes; code and text are ignored. Once is enough, more is harmless. */
void rpc_stream_close(rpc_stream_t *stream, rpc_code_t code, const char *text);

/* Ends it now; what is queued is lost. on_close follows with RPC_CANCELLED. */
void rpc_stream_cancel(rpc_stream_t *stream);

/* While it is paused no message is delivered: what arrives fills the inbox, then slows the peer down. All
 * other callbacks come, but on_half_close waits for the messages before it. On the delivery thread, also
 * inside of on_message. */
void rpc_stream_pause(rpc_stream_t *stream, bool paused);

/* The argument of the callbacks from now on; call it on the delivery thread. */
void rpc_stream_set_arg(rpc_stream_t *stream, void *arg);

/* Server: metadata that the client opened the stream with, as rpc_call_header; valid as long as the stream. */
bool rpc_stream_header(const rpc_stream_t *stream, const char *name, const char **value, size_t *len_bytes);

/* "127.0.0.1:43210"; valid as long as the stream. */
const char *rpc_stream_peer(const rpc_stream_t *stream);

#endif
