/*
 * What clients have sent of messages that are not whole yet, of the calls and streams of a server. gRPC keeps all of it, found too large only
 * when it is whole, and tells nobody how much that is; so while one has waited for its message for some time, the kernel is asked
 * what came by each connection.
 *
 *   unfinished of a connection = bytes received since nobody waited there − messages that have been whole since
 *
 * A stream waits for as long as it is open, and what came beside its messages adds up: so where one is, something is taken off at each look
 * for what HTTP/2 itself says, and it never falls below nothing.
 *
 * Over the bound the connection with the most loses what waits there, and the next; so do unary calls of one that does not get on. Any
 * thread.
 */
#ifndef RPC_UNFINISHED_H
#define RPC_UNFINISHED_H

#include "base/map.h"
#include "rpc/internal.h"
#include "rpc/server.h"

/* A call or stream whose message is being waited for. All zero before the first. */
typedef struct rpc_waiting {
    struct rpc_waiting *prev, *next;
    grpc_call *call; /* NULL: it does not wait */
    uint64_t peer;   /* whose it is; 0: not looked at yet. Kept from one message of a stream to the next */
    int64_t since_ns;
    bool is_stream;
    bool cut; /* it has been told to end */
} rpc_waiting_t;

typedef struct rpc_connection rpc_connection_t;

typedef struct {
    pthread_mutex_t lock;
    rpc_queue_t *queue; /* whose thread looks */
    rpc_timer_t timer;
    int port;
    rpc_unfinished_limits_t limits;
    rpc_waiting_t waiting; /* list head, oldest first */
    uint32_t unary;        /* of them */
    bool looking;          /* the timer runs, or its call */
    idmap_t by_peer;       /* rpc_connection_t, those that are there now */
    rpc_connection_t *connections;
    uint32_t round; /* of samples; 0: there is none */
    rpc_unfinished_stats_t stats;
    /* It begins and ends to look; it must not go in between. */
    void (*on_look)(void *arg, bool begins);
    void *arg;
} rpc_unfinished_t;

status_t rpc_unfinished_init(rpc_unfinished_t *all, const rpc_unfinished_limits_t *limits,
                             void (*on_look)(void *arg, bool begins), void *arg, err_t *err);
/* Of a server that listens at the port. */
void rpc_unfinished_start(rpc_unfinished_t *all, rpc_queue_t *queue, int port);
void rpc_unfinished_dispose(rpc_unfinished_t *all); /* it does not look */

/* The message of a call, or the next of a stream (waiting->is_stream), is being waited for; and is there, or will never be (0 bytes). The
 * call lives in between. */
void rpc_unfinished_wait(rpc_unfinished_t *all, rpc_waiting_t *waiting, grpc_call *call);
void rpc_unfinished_take(rpc_unfinished_t *all, rpc_waiting_t *waiting, size_t bytes);

void rpc_unfinished_read(rpc_unfinished_t *all, rpc_unfinished_stats_t *stats);

#endif
