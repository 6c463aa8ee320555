/* The frames of requests. A hot path. */
#include "transfer/pool.h"

frame_t *peer_frame(transfer_peer_t *peer, const wire_header_t *header, size_t records_bytes, uint32_t iovs)
{
    frame_t *frame = frame_get(&peer->pool->shared.frames,
                               WIRE_HEADER_BYTES + records_bytes + header->extra_bytes, iovs, 0);

    if (frame)
        wire_put_header(frame->meta, header);
    return frame;
}

uint64_t request_begin(const request_t *request, uint32_t i)
{
    return i == 0 ? request->from : 0;
}

uint64_t request_end(const request_t *request, uint32_t i)
{
    return i == request->count - 1 ? request->until : request->items[i].len_bytes;
}

static frame_t *peer_encode_fetch(transfer_peer_t *peer, const request_t *request)
{
    wire_header_t header = {.type = WIRE_FETCH, .seq = request->seq, .count = request->count};
    frame_t *frame = peer_frame(peer, &header, (size_t)request->count * WIRE_ITEM_BYTES, 0);

    if (!frame)
        return NULL;
    uint8_t *to = frame->meta + WIRE_HEADER_BYTES;
    for (uint32_t i = 0; i < request->count; i++) {
        const transfer_item_t *item = &request->items[i];
        uint64_t begin = request_begin(request, i);
        to = wire_put_item(to, &(wire_item_t){.handle = item->handle,
                                              .offset = item->offset + begin,
                                              .len_bytes = request_end(request, i) - begin});
    }
    return frame;
}

static uint32_t text_bytes(const char *text, uint32_t room)
{
    size_t len = text ? strnlen(text, TRANSFER_TEXT_BYTES - 1) : 0;

    return len < room ? (uint32_t)len : room;
}

static frame_t *peer_encode_push(transfer_peer_t *peer, const request_t *request)
{
    bool landed = request->span != WINDOW_SPAN_NONE;
    wire_header_t header = {
        .type = landed ? WIRE_LANDED : WIRE_PUSH, .seq = request->seq, .count = request->count};
    uint32_t iovs = 0, window_at = request->window_at;

    for (uint32_t i = 0; i < request->count; i++) {
        iovs += request->results[i].iov_count;
        header.extra_bytes += text_bytes(request->results[i].text, WIRE_EXTRA_MAX - header.extra_bytes);
    }
    frame_t *frame = peer_frame(peer, &header, (size_t)request->count * WIRE_RESULT_BYTES, iovs);
    if (!frame)
        return NULL;

    uint8_t *to = frame->meta + WIRE_HEADER_BYTES;
    uint8_t *text = to + (size_t)request->count * WIRE_RESULT_BYTES;
    uint32_t room = WIRE_EXTRA_MAX;
    for (uint32_t i = 0; i < request->count; i++) {
        const transfer_result_t *result = &request->results[i];
        uint32_t len = text_bytes(result->text, room);
        uint64_t bytes = result_bytes(result);
        to = wire_put_result(to, &(wire_result_t){.task_id = result->task_id,
                                                  .handle = result->handle,
                                                  .len_bytes = bytes,
                                                  .status = result->status,
                                                  .text_bytes = len,
                                                  .timing = result->timing,
                                                  .window_offset = landed ? window_at : 0});
        window_at += (uint32_t)bytes;
        if (len)
            memcpy(text, result->text, len);
        text += len;
        room -= len;
        for (uint32_t k = 0; k < result->iov_count; k++)
            frame_add(frame, result->iov[k].iov_base, result->iov[k].iov_len);
    }
    return frame;
}

/* Only the negotiated limits can be exceeded here; our own were checked when the request was made. */
bool peer_within_limits(const transfer_peer_t *peer, const request_t *request)
{
    if (request->count > peer->max_items)
        return false;
    for (uint32_t i = 0; i < request->count; i++) {
        uint64_t bytes =
            request->kind == WIRE_FETCH ? request->items[i].len_bytes : result_bytes(&request->results[i]);
        if (bytes > peer->max_item_bytes)
            return false;
    }
    return true;
}

frame_t *peer_encode(transfer_peer_t *peer, request_t *request)
{
    request->seq = peer->next_seq++;
    return request->kind == WIRE_FETCH ? peer_encode_fetch(peer, request) : peer_encode_push(peer, request);
}

void peer_send_frame(transfer_peer_t *peer, request_t *request)
{
    request->frame->request = request;
    request->state = REQUEST_SENT;
    TAILQ_INSERT_TAIL(&peer->sent, request, link);
    conn_send(&peer->pc->conn, request->frame);
}
