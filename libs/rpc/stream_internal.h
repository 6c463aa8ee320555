/* How servers and links make streams; libs/rpc only. */
#ifndef RPC_STREAM_INTERNAL_H
#define RPC_STREAM_INTERNAL_H

#include "rpc/internal.h"
#include "rpc/stream.h"
#include "rpc/unfinished.h"

/* Who made the stream. Called on the delivery thread. */
typedef struct {
    void (*opened)(void *owner, rpc_stream_t *stream); /* before on_open; may be NULL */
    void (*ended)(void *owner, rpc_stream_t *stream, rpc_code_t code, const char *text); /* after on_close */
    void *owner;
} rpc_stream_owner_t;

typedef struct {
    rpc_queue_t *queue;
    const rpc_stream_ops_t *ops; /* outlives the stream */
    void *arg;
    size_t send_limit_bytes;
    rpc_unfinished_t *unfinished; /* its messages count there; NULL: nowhere */
    rpc_stream_owner_t owner;
} rpc_stream_init_t;

/* Both take the call. NULL without memory: the call is then cancelled and released. accept swaps the client's metadata for an empty
 * array. */
rpc_stream_t *rpc_stream_accept(const rpc_stream_init_t *init, grpc_call *call,
                                grpc_metadata_array *metadata);
rpc_stream_t *rpc_stream_connect(const rpc_stream_init_t *init, grpc_call *call);

#endif
