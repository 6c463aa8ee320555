/*
 * The runtime: completion-queue threads, and where the callbacks of servers, clients and streams run.
 *
 * Delivery is chosen per runtime:
 *   loop != NULL   callbacks run on the thread of that loop (libs/loop). Events that arrive while the loop is
 *                  busy are delivered together: one wake-up for many.
 *   loop == NULL   "direct": callbacks run on a completion-queue thread, without a hop (saves about 30 us and
 *                  half of the CPU per event).
 *
 * All callbacks of one call, stream or link come from the same thread. They must not block. A program may have
 * both kinds at once.
 *
 * Order of stopping: stop and destroy servers, links and clients (each tells when it is done), then the
 * runtime.
 */
#ifndef RPC_RUNTIME_H
#define RPC_RUNTIME_H

#include "base/status.h"

#include <stdint.h>

struct loop; /* loop_t of libs/loop */

typedef struct rpc_runtime rpc_runtime_t;

enum { RPC_THREADS_MAX = 16 };

typedef struct {
    struct loop *loop; /* NULL = direct */
    unsigned threads;  /* completion-queue threads; 0 = 1 */
    const char *name;  /* of the threads, at most 10 characters; NULL = "rpc" */
} rpc_runtime_options_t;

/* With a loop: call on the loop's thread, as for destroy. */
status_t rpc_runtime_create(const rpc_runtime_options_t *options, rpc_runtime_t **runtime, err_t *err);

/* Blocks until the threads have ended; no callback runs afterwards. Every server, link and client must be
 * gone. With a loop, its handle is closed asynchronously: the loop must run once more before uv_loop_close.
 */
void rpc_runtime_destroy(rpc_runtime_t *runtime);

/* gRPC's status codes, by their public numbers. */
typedef enum {
    RPC_OK = 0,
    RPC_CANCELLED = 1,
    RPC_UNKNOWN = 2,
    RPC_INVALID_ARGUMENT = 3,
    RPC_DEADLINE_EXCEEDED = 4,
    RPC_NOT_FOUND = 5,
    RPC_ALREADY_EXISTS = 6,
    RPC_PERMISSION_DENIED = 7,
    RPC_RESOURCE_EXHAUSTED = 8,
    RPC_FAILED_PRECONDITION = 9,
    RPC_ABORTED = 10,
    RPC_OUT_OF_RANGE = 11,
    RPC_UNIMPLEMENTED = 12,
    RPC_INTERNAL = 13,
    RPC_UNAVAILABLE = 14,
    RPC_DATA_LOSS = 15,
    RPC_UNAUTHENTICATED = 16,
} rpc_code_t;

const char *rpc_code_name(rpc_code_t code); /* "DEADLINE_EXCEEDED" */
rpc_code_t rpc_code_of(status_t status);
status_t rpc_code_to_status(rpc_code_t code);

/* Settings of connections, servers and clients alike. Zero = the default named here. */
typedef struct {
    int64_t max_receive_bytes; /* per message; default 4 MiB, up to INT32_MAX; over it: RESOURCE_EXHAUSTED */
    int64_t max_send_bytes;    /* default INT32_MAX */
    int64_t keepalive_ns;      /* HTTP/2 ping after this much silence; default 10 s; negative = none */
    int64_t keepalive_timeout_ns; /* no answer for so long = connection dead; default 5 s */
    int64_t idle_ns;              /* of servers: a connection without calls is closed after this; 0: never */
    int64_t send_queue_bytes;     /* bound of each stream's queue of messages to send; default 8 MiB */
} rpc_limits_t;

/* "No deadline" wherever a remaining time is given or asked for. */
#define RPC_NO_DEADLINE INT64_MAX

#endif
