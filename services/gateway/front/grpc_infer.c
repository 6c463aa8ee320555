#include "gateway/front/grpc_infer.h"

#include "oip/grpc_codec.h"

#include <string.h>

status_t grpc_infer_parse(session_t *session, rpc_bytes_t *message, err_t *err)
{
    const uint8_t *flat = message ? rpc_bytes_flat(message) : NULL;
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
