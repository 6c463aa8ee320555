/*
 * A server under load, by either protocol. One target is one address.
 *
 * All on the loop's thread. done is called exactly once for each accepted call, never from within it.
 */
#ifndef LOAD_TARGET_H
#define LOAD_TARGET_H

#include "base/status.h"
#include "load/model.h"
#include "load/payload.h"
#include "load/tally.h"
#include "loop/loop.h"
#include "tls/context.h"

typedef struct target target_t;

typedef struct {
    outcome_t outcome;
    const char *text;    /* why it is not OK; the server's own words where there are any */
    const uint8_t *body; /* of an OK; all of it valid during done only */
    size_t len_bytes;
} answer_t;

typedef void (*target_done_fn)(void *arg, const answer_t *answer);

typedef struct {
    const char *address;  /* "host:port", behind "http://" or "https://" too */
    tls_context_t *tls;   /* NULL: plain */
    const char *api_key;  /* NULL: none */
    unsigned connections; /* REST: kept open at most */
    int64_t timeout_ns;   /* the client's own limit for an answer */
} target_options_t;

typedef struct {
    status_t (*create)(target_t **target, loop_t *loop, const target_options_t *options, err_t *err);
    void (*destroy)(target_t *target); /* every call must have ended */
    /* UNAVAILABLE: too many calls wait here; nothing was sent. The payload must live until done. */
    status_t (*infer)(target_t *target, const model_t *model, const payload_t *payload, target_done_fn done,
                      void *arg);
    /* The metadata of a model, for model_parse_json or model_parse_pb. */
    status_t (*describe)(target_t *target, const char *model, target_done_fn done, void *arg);
    status_t (*parse)(model_t *model, const void *body, size_t len_bytes, err_t *err);
} target_ops_t;

extern const target_ops_t target_rest_ops, target_grpc_ops;

static inline const target_ops_t *target_ops(protocol_t protocol)
{
    return protocol == PROTOCOL_REST ? &target_rest_ops : &target_grpc_ops;
}

#endif
