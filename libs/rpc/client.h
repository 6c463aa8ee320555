/*
 * A gRPC client: one connection (made when first needed, remade by itself) with unary calls and reconnecting
 * streams.
 */
#ifndef RPC_CLIENT_H
#define RPC_CLIENT_H

#include "rpc/bytes.h"
#include "rpc/runtime.h"
#include "rpc/stream.h"
#include "tls/context.h"

typedef struct rpc_client rpc_client_t;

typedef struct {
    const char *address; /* "host:port" */
    /* A client's; outlives it. Files that have changed count from the next stream of a link on; for unary calls as they were. NULL: plain. */
    tls_context_t *tls;
    const char *bearer;  /* an API key that goes with each unary call; copied; NULL: none */
    rpc_limits_t limits; /* max_receive_bytes defaults to INT32_MAX here: a client chose its server */
} rpc_client_options_t;

status_t rpc_client_create(rpc_runtime_t *runtime, const rpc_client_options_t *options, rpc_client_t **client,
                           err_t *err);

/* Every unary call must have been answered and every link closed. Delivery thread (direct runtimes: any). */
void rpc_client_destroy(rpc_client_t *client);

/* ---- Unary calls, any number outstanding, from any thread ---- */

typedef struct rpc_unary rpc_unary_t;

/* Exactly once per call, on the delivery thread. response is NULL unless code is RPC_OK; it is freed
 * afterwards unless *keep is set. text lives for the duration of the call. */
typedef void (*rpc_unary_done_fn)(void *arg, rpc_code_t code, const char *text, rpc_bytes_t *response,
                                  bool *keep);

typedef struct {
    const char *method;  /* "/package.Service/Method"; must have static storage duration */
    int64_t timeout_ns;  /* RPC_NO_DEADLINE = none; 0 is at once */
    bool wait_for_ready; /* false: a call fails with UNAVAILABLE at once while there is no connection */
} rpc_unary_options_t;

/* Takes request. The handle is valid until done has returned; NULL (and done is never called) only when out
 * of memory. done may have been called before this returns, on a direct runtime. */
rpc_unary_t *rpc_client_unary(rpc_client_t *client, const rpc_unary_options_t *options, rpc_bytes_t *request,
                              rpc_unary_done_fn done, void *arg);

/* done follows with RPC_CANCELLED unless an answer was faster. */
void rpc_unary_cancel(rpc_unary_t *unary);

/* ---- A link: a bidi stream that comes back ---- */

/*
 * Opens a stream, and another one whenever that has ended: the first retry after RPC_LINK_BACKOFF_MIN_NS,
 * then with doubling delays and +-25 % jitter up to RPC_LINK_BACKOFF_MAX_NS; a stream that stayed up for a
 * second starts the sequence anew. The stream callbacks tell when it is up (on_open) and down (on_close);
 * on_state is for logs and metrics and may be NULL.
 */
#define RPC_LINK_BACKOFF_MIN_NS INT64_C(20000000)
#define RPC_LINK_BACKOFF_MAX_NS INT64_C(1000000000)

typedef struct rpc_link rpc_link_t;

typedef enum {
    RPC_LINK_CONNECTING, /* waiting for connection and server */
    RPC_LINK_UP,
    RPC_LINK_DOWN, /* waiting before the next attempt; code and text say why */
    RPC_LINK_CLOSED,
} rpc_link_state_t;

typedef struct {
    const char *method; /* static storage duration */
    rpc_stream_ops_t ops;
    void (*on_state)(rpc_link_t *link, void *arg, rpc_link_state_t state, rpc_code_t code, const char *text);
    void *arg;
} rpc_link_options_t;

status_t rpc_link_create(rpc_client_t *client, const rpc_link_options_t *options, rpc_link_t **link,
                         err_t *err);

/* The stream that is up now, or NULL. Delivery thread only. */
rpc_stream_t *rpc_link_stream(rpc_link_t *link);

/* Ends the link: the stream is cancelled (its on_close still comes), then on_closed on the delivery thread;
 * the link frees itself after that. */
void rpc_link_close(rpc_link_t *link, void (*on_closed)(void *arg), void *arg);

#endif
