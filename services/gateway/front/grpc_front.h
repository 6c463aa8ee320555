/*
 * The gRPC front end (grpc.c): inference.GRPCInferenceService on sessions.
 */
#ifndef GATEWAY_GRPC_FRONT_H
#define GATEWAY_GRPC_FRONT_H

#include "gateway/gateway.h"
#include "rpc/server.h"
#include "tls/context.h"

typedef struct grpc_front grpc_front_t;

typedef struct {
    rpc_runtime_t *rpc; /* of the gateway's loop; stays the caller's, who destroys it after this */
    const char *listen; /* "host:port"; port 0 picks one */
    bool reuse_port;    /* beside others */
    tls_context_t *tls; /* NULL: plain */
    int64_t step_ns;    /* what a client has for each 64 KiB of a message */
    int64_t idle_ns;    /* … between calls */
} grpc_front_options_t;

/* Listens when it returns; callbacks run on the gateway's loop. */
status_t grpc_front_create(gateway_t *gateway, const grpc_front_options_t *options, grpc_front_t **front,
                           err_t *err);

/* "127.0.0.1:8001", with the real port. */
const char *grpc_front_address(const grpc_front_t *front);

/* Of messages that are not whole. */
void grpc_front_unfinished(const grpc_front_t *front, rpc_unfinished_stats_t *stats);

/* No new calls; those under way may end within grace_ns; then done, from the loop. */
void grpc_front_stop(grpc_front_t *front, int64_t grace_ns, void (*done)(void *arg), void *arg);
void grpc_front_destroy(grpc_front_t *front); /* after done; NULL is fine */

#endif
