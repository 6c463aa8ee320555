/*
 * A gRPC server: unary and bidirectional methods, looked up by full path
 * ("/inference.GRPCInferenceService/ModelInfer"). A path that is not registered is answered UNIMPLEMENTED.
 *
 *   rpc_server_create -> rpc_server_add_* -> rpc_server_start -> …
 *   … -> rpc_server_stop -> (on_stopped) -> rpc_server_destroy
 *
 * Connections are HTTP/2: plain (h2c), or over TLS.
 */
#ifndef RPC_SERVER_H
#define RPC_SERVER_H

#include "rpc/bytes.h"
#include "rpc/runtime.h"
#include "rpc/stream.h"
#include "tls/context.h"

#include <stdbool.h>

typedef struct rpc_server rpc_server_t;

/*
 * One unary call. It exists until rpc_call_finish, which must be called exactly once, from any thread,
 * whether or not the client is still there.
 */
typedef struct rpc_call rpc_call_t;

/* On the delivery thread. The request (rpc_call_request) lives until rpc_call_finish. */
typedef void (*rpc_unary_fn)(rpc_call_t *call, void *arg);

/* A call that a server is to answer beside its own. */
typedef struct {
    const char *path; /* static */
    rpc_unary_fn handler;
} rpc_unary_method_t;

/* Of messages that clients have sent a part of, of all calls and streams. */
typedef struct {
    /* They may hold together: whoever sent most loses his calls and streams (RESOURCE_EXHAUSTED); 0: no bound. */
    int64_t bytes_max;
    int64_t step_ns; /* for each 64 KiB of a connection whose unary call waits; over it: DEADLINE_EXCEEDED */
} rpc_unfinished_limits_t;

typedef struct {
    uint64_t bytes;              /* held, as it was last looked at */
    uint64_t cut_full, cut_slow; /* calls that were ended, for either limit */
} rpc_unfinished_stats_t;

typedef struct {
    const char *address; /* "host:port"; port 0 picks a free one */
    rpc_limits_t limits;
    unsigned accept_slots; /* calls accepted at once per thread before the next request is matched; 0 = 128 */
    bool reuse_port;       /* SO_REUSEPORT: several servers on one port */
    tls_context_t *tls; /* a server's; outlives it; its files count anew for each connection. NULL: plain */
    rpc_unfinished_limits_t unfinished;
    unsigned calls_max; /* unary calls unfinished at once; over it: UNAVAILABLE; 0 = 16384 */
} rpc_server_options_t;

status_t rpc_server_create(rpc_runtime_t *runtime, const rpc_server_options_t *options, rpc_server_t **server,
                           err_t *err);

/* Before start. path is copied. */
status_t rpc_server_add_unary(rpc_server_t *server, const char *path, rpc_unary_fn handler, void *arg);
status_t rpc_server_add_stream(rpc_server_t *server, const char *path, const rpc_stream_ops_t *ops,
                               void *arg);

/* Before start, of a method that is there: with TLS, whoever calls it without a certificate of that role (tls/role.h; static) is answered
 * PERMISSION_DENIED, and no handler hears of it. NOT_FOUND: there is no such method. */
status_t rpc_server_require_role(rpc_server_t *server, const char *path, const char *role);

/* STATUS_IO when the address cannot be bound (also when another process holds the port). */
status_t rpc_server_start(rpc_server_t *server, err_t *err);

/* "127.0.0.1:9000" with the real port; valid after start. */
const char *rpc_server_address(const rpc_server_t *server);
int rpc_server_port(const rpc_server_t *server);

/* Any thread, until destroy. */
void rpc_server_unfinished(rpc_server_t *server, rpc_unfinished_stats_t *stats);

/* No new calls; those running have drain_ns to end, then they are cancelled (the handler still calls finish).
 * on_stopped comes on the delivery thread when every call and stream has ended; destroy is allowed from there
 * on, also inside of it. */
void rpc_server_stop(rpc_server_t *server, int64_t drain_ns, void (*on_stopped)(void *arg), void *arg);

/* After on_stopped, or when start has never succeeded. */
void rpc_server_destroy(rpc_server_t *server);

/* ---- A unary call ---- */

/* The request message, NULL when the client sent none. The call keeps it; rpc_call_take_request gives it to
 * the caller, who frees it (it may outlive the call). */
rpc_bytes_t *rpc_call_request(rpc_call_t *call);
rpc_bytes_t *rpc_call_take_request(rpc_call_t *call);

const char *rpc_call_peer(rpc_call_t *call); /* "127.0.0.1:43210" */

/* A piece of the metadata that the client sent with the call, by its name in small letters: its first value, not terminated, which
 * lives until rpc_call_finish. False: there is none. */
bool rpc_call_header(const rpc_call_t *call, const char *name, const char **value, size_t *len_bytes);

/* What is left of the client's deadline; RPC_NO_DEADLINE when it has none; may be negative. */
int64_t rpc_call_remaining_ns(const rpc_call_t *call);

/* The client has gone or its deadline passed before finish. Set it inside the handler; it comes on the delivery
 * thread, at most once, and never after a finish on that thread (a finish on another thread may meet it half-way).
 * A client that has gone before the handler would run is not shown to the handler at all. */
void rpc_call_on_cancel(rpc_call_t *call, void (*on_cancel)(rpc_call_t *call, void *arg), void *arg);
bool rpc_call_cancelled(rpc_call_t *call);

/* Takes response (may be NULL unless code is RPC_OK). text may be NULL; it is copied. */
void rpc_call_finish(rpc_call_t *call, rpc_code_t code, const char *text, rpc_bytes_t *response);

#endif
