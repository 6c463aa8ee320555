/* Shared by server.c, call.c and server_alive.c only: each calls those behind it. */
#ifndef RPC_SERVER_INTERNAL_H
#define RPC_SERVER_INTERNAL_H

#include "base/map.h"
#include "rpc/internal.h"
#include "rpc/security.h"
#include "rpc/server.h"
#include "rpc/stream_internal.h"
#include "rpc/unfinished.h"

enum { RPC_METHODS_MAX = 128 };

typedef struct {
    char *path;
    rpc_unary_fn unary; /* NULL = a stream */
    rpc_stream_ops_t stream;
    const char *role; /* that its callers must have; NULL: any */
    void *arg;
} rpc_method_t;

struct rpc_server {
    rpc_actor_t actor;
    rpc_runtime_t *runtime;
    grpc_server *grpc;
    char *host;    /* as asked for */
    char *address; /* with the real port */
    int port;
    rpc_limits_t limits;
    bool reuse_port;
    rpc_shown_t shown;
    unsigned accept_slots;
    unsigned calls_max;
    rpc_unfinished_t unfinished;
    rpc_method_t methods[RPC_METHODS_MAX];
    unsigned method_count;
    strmap_t by_path;

    pthread_mutex_t lock;
    unsigned calls;   /* unary calls that their handler has not finished */
    unsigned objects; /* accept slots, calls and streams alive */
    bool stopping, stopped, told;
    rpc_call_t *free_calls;
    rpc_tag_t stop_tag;
    rpc_timer_t drain_timer;
    void (*on_stopped)(void *arg);
    void *on_stopped_arg;
};

/* An accept slot that becomes the call. */
struct rpc_call {
    rpc_actor_t actor;
    rpc_server_t *server;
    rpc_queue_t *queue;
    rpc_call_t *next_free;
    pthread_mutex_t lock;

    grpc_call *call;
    grpc_call_details details;
    grpc_metadata_array metadata;
    rpc_tag_t accept_tag, recv_tag, close_tag, send_tag;
    rpc_waiting_t waiting; /* for its message */
    unsigned refs;         /* operations in flight, plus one for the handler from delivery to finish */
    grpc_byte_buffer *received;
    rpc_bytes_t *request;
    grpc_byte_buffer *response;
    int cancelled; /* written by gRPC */
    bool closed, deliver_request, delivered, deliver_cancel, finished, counted;
    const rpc_method_t *method;
    int64_t deadline_ns; /* clock_now_ns time, or RPC_NO_DEADLINE */
    void (*on_cancel)(rpc_call_t *call, void *arg);
    void *on_cancel_arg;
    char peer[RPC_PEER_BYTES];
};

/* server_alive.c */
/* A call, stream or slot has gone. Any thread. */
void rpc_server_release(rpc_server_t *server);
/* The server's actor: tells its owner that it has stopped. */
void rpc_server_deliver(rpc_actor_t *actor);

/* call.c */
rpc_call_t *rpc_call_new(rpc_server_t *server, rpc_queue_t *queue);
void rpc_call_destroy(rpc_call_t *call);
void rpc_call_begin(rpc_call_t *call, const rpc_method_t *method);
void rpc_call_reject(rpc_call_t *call, rpc_code_t code, const char *text);
/* The slot goes back to the server's free list; its grpc_call has been given away or released. */
void rpc_call_recycle(rpc_call_t *call);

#endif
