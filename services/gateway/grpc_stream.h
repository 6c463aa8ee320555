/*
 * ModelStreamInfer: many inferences on one bidirectional gRPC stream. Loop thread only.
 *
 * Every request of a stream has one response, in the order of the requests, as Triton answers models that are not decoupled:
 * who sends without ids can still tell which is which. A request that fails is answered by its error_message, with its id,
 * and leaves the stream as it is. What was asked is finished after the client has half-closed; when the client is gone it
 * is cancelled.
 *
 * Bounds: STREAM_CALLS_MAX requests of a stream under way, the next is answered with an error; a client that takes no
 * answers loses its stream when rpc's send queue is full.
 */
#ifndef GATEWAY_GRPC_STREAM_H
#define GATEWAY_GRPC_STREAM_H

#include "gateway.h"
#include "rpc/stream.h"

enum { STREAM_CALLS_MAX = 1024 /* as many as rpc queues messages for one stream */ };

typedef struct grpc_streams grpc_streams_t;

/* What rpc_server_add_stream takes; its arg is the grpc_streams_t. */
extern const rpc_stream_ops_t grpc_stream_ops;

status_t grpc_streams_create(gateway_t *gateway, grpc_streams_t **streams, err_t *err);

/* Streams end as soon as they have answered what they were asked; no further requests are taken. */
void grpc_streams_stop(grpc_streams_t *streams);

void grpc_streams_destroy(grpc_streams_t *streams); /* after the end of every stream; NULL is fine */

#endif
