/*
 * What ModelInfer and ModelStreamInfer have in common: from a message to a session, and from its reply to a message.
 */
#ifndef GATEWAY_GRPC_INFER_H
#define GATEWAY_GRPC_INFER_H

#include "gateway/sessions/session.h"
#include "rpc/bytes.h"

/* Fills the session's request and finds its model. message may be NULL: an empty one. */
status_t grpc_infer_parse(session_t *session, rpc_bytes_t *message, err_t *err);

/* A copy of the reply behind the head. NULL: no memory. */
rpc_bytes_t *grpc_infer_copy(const void *head, size_t head_bytes, const oip_reply_t *reply);

#endif
