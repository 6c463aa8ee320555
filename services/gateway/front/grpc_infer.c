#include "gateway/front/grpc_infer.h"

#include "oip/grpc_codec.h"

#include <string.h>

/* A message of many pieces is put together in memory of the session, with its end aligned: where a raw tensor ends as a rule, so that it is where
 * workers find it. NULL: no memory. */
static const uint8_t *in_session(session_t *session, const rpc_bytes_t *message)
{
    size_t len = rpc_bytes_len(message), before = session_lead(len);
    uint8_t *memory = session_alloc(session, before + len);
    if (!memory)
        return NULL;
    rpc_bytes_read(message, memory + before);
    return memory + before;
}

status_t grpc_infer_parse(session_t *session, rpc_bytes_t *message, err_t *err)
{
    const uint8_t *flat = NULL;
    if (message)
        flat = rpc_bytes_is_flat(message) ? rpc_bytes_flat(message) : in_session(session, message);
    if (message && !flat)
        return err_set(err, STATUS_UNAVAILABLE, "the gateway has no memory left for tensors");
    status_t status =
        oip_grpc_parse(&session->request, flat, flat ? rpc_bytes_len(message) : 0, &session->allocator, err);
    if (status)
        return status;
    return session_set_model(session, session->request.model, session->request.version, err);
}

rpc_bytes_t *grpc_infer_copy(const void *head, size_t head_bytes, const oip_reply_t *reply)
{
    uint8_t *data;
    rpc_bytes_t *bytes = rpc_bytes_reserve(head_bytes + reply->len_bytes, &data);
    if (!bytes)
        return NULL;
    if (head_bytes > 0)
        memcpy(data, head, head_bytes);
    data += head_bytes;
    for (uint32_t i = 0; i < reply->iov_count; i++) {
        memcpy(data, reply->iov[i].iov_base, reply->iov[i].iov_len);
        data += reply->iov[i].iov_len;
    }
    return bytes;
}
