/*
 * ModelStreamInfer: many inferences on one bidirectional gRPC stream. Loop thread only.
 *
 * Every request of a stream has one response, in the order of the requests, as Triton answers models that are
 * not decoupled: who sends without ids can still tell which is which. A request that fails is answered by its
 * error_message, with its id, and leaves the stream as it is. What was asked is finished after the client has
 * half-closed; when the client is gone it is cancelled.
 *
 * Bounds, of each stream by itself: STREAM_CALLS_MAX requests under way, and STREAM_BYTES_MAX of answers that
 * are under way or wait for the client to take those before them. Beyond them no requests are read, so that
 * the client is slowed down by HTTP/2's flow control. The bytes of outputs whose dimensions vary are known
 * only when they are there; a stream with twice the bound is cut.
 */
#ifndef GATEWAY_GRPC_STREAM_H
#define GATEWAY_GRPC_STREAM_H

#include "gateway/gateway.h"
#include "rpc/stream.h"

enum {
    STREAM_CALLS_MAX = 1024,      /* many times the largest batch */
    STREAM_BYTES_MAX = 256 << 20, /* 50 answers of 5 MB: a batch under way and one that is taken */
};

typedef struct grpc_streams grpc_streams_t;

/* What rpc_server_add_stream takes; its arg is the grpc_streams_t. */
extern const rpc_stream_ops_t grpc_stream_ops;

status_t grpc_streams_create(gateway_t *gateway, grpc_streams_t **streams, err_t *err);

/* Streams end as soon as they have answered what they were asked; no further requests are taken. */
void grpc_streams_stop(grpc_streams_t *streams);

void grpc_streams_destroy(grpc_streams_t *streams); /* after the end of every stream; NULL is fine */

#endif
