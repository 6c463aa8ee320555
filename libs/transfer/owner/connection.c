/* A connection to the owner: serves fetches from the arena, receives pushed results. A hot path: allocates per connection only. */
#include "base/clock.h"
#include "base/log.h"
#include "transfer/internal.h"
#include "transfer/owner/private.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what comes in ---- */

static bool owner_accept(conn_t *conn, const wire_header_t *header, size_t *records_bytes)
{
    owner_conn_t *oc = (owner_conn_t *)conn;

    if (owner_is_stranger(oc))
        return owner_accept_first(oc, header, records_bytes);
    if (header->type == WIRE_ATTACH) {
        *records_bytes = header->extra_bytes;
        return header->extra_bytes <= CARRIER_BLOB_BYTES;
    }
    if (header->count == 0 || header->count > oc->max_items)
        return false;
    switch (header->type) {
    case WIRE_FETCH:
        *records_bytes = (size_t)header->count * WIRE_ITEM_BYTES;
        return header->extra_bytes == 0;
    case WIRE_LANDED:
        if (!oc->seat.ops)
            return false;
        __attribute__((fallthrough));
    case WIRE_PUSH:
        *records_bytes = (size_t)header->count * WIRE_RESULT_BYTES + header->extra_bytes;
        return header->extra_bytes <= WIRE_EXTRA_MAX;
    default:
        return false;
    }
}

/* One item of a fetch: its state goes into the records, its bytes behind them. */
static uint8_t *owner_serve_item(owner_conn_t *oc, frame_t *frame, const uint8_t *record, uint8_t *to)
{
    transfer_owner_t *owner = oc->owner;
    const uint8_t *data;
    wire_item_t item;
    uint32_t index;
    status_t status = STATUS_TOO_LARGE;

    wire_get_item(record, &item);
    if (item.len_bytes <= oc->max_item_bytes)
        status = region_pin(&owner->regions, item.handle, item.offset, item.len_bytes, &index, &data);
    if (status != STATUS_OK) {
        owner->stats.item_errors++;
        return wire_put_state(to, &(wire_state_t){.status = status});
    }
    frame->pins[frame->pin_count++] = index;
    frame_add(frame, data, item.len_bytes);
    owner->stats.by[TRANSFER_BY_TCP].items++;
    owner->stats.by[TRANSFER_BY_TCP].item_bytes += item.len_bytes;
    return wire_put_state(to, &(wire_state_t){.status = STATUS_OK, .len_bytes = item.len_bytes});
}

static bool owner_on_fetch(owner_conn_t *oc, const wire_header_t *header, const uint8_t *records)
{
    frame_t *frame =
        owner_frame(oc, WIRE_DATA, header, (size_t)header->count * WIRE_STATE_BYTES, header->count);

    if (!frame)
        return false;
    uint8_t *to = frame->meta + WIRE_HEADER_BYTES;
    for (uint32_t i = 0; i < header->count; i++)
        to = owner_serve_item(oc, frame, records + (size_t)i * WIRE_ITEM_BYTES, to);
    frame->weight = header->count;
    if (frame->pin_count > 0)
        owner_worked(oc);
    conn_send(&oc->conn, frame);
    return true;
}

static bool owner_on_attach(owner_conn_t *oc, const wire_header_t *header, const uint8_t *blob)
{
    transfer_owner_t *owner = oc->owner;
    carrier_blob_t hello = {.len = header->extra_bytes}, answer = {0};
    err_t err;

    memcpy(hello.bytes, blob, hello.len);
    if (oc->seat.ops) { /* again, after an error over there */
        connection_moves(&owner->stats, oc->seat.ops->way, TRANSFER_BY_TCP);
        seat_give_up(&oc->seat);
    }
    status_t status = seat_take(&owner->doors, header->count, &hello, &answer, &oc->seat, &err);
    if (status == STATUS_OK) {
        connection_moves(&owner->stats, TRANSFER_BY_TCP, oc->seat.ops->way);
    } else {
        answer.len = (uint32_t)strnlen(err.text, sizeof(err.text));
        memcpy(answer.bytes, err.text, answer.len);
    }
    frame_t *frame = frame_get(&owner->shared.frames, WIRE_HEADER_BYTES + answer.len, 0, 0);
    if (!frame)
        return false;
    wire_put_header(frame->meta, &(wire_header_t){.type = WIRE_ATTACHED,
                                                  .seq = status,
                                                  .count = header->count,
                                                  .extra_bytes = answer.len});
    memcpy(frame->meta + WIRE_HEADER_BYTES, answer.bytes, answer.len);
    conn_send(&oc->conn, frame);
    return true;
}

static bool owner_frame_in(conn_t *conn, const wire_header_t *header, const uint8_t *records)
{
    owner_conn_t *oc = (owner_conn_t *)conn;

    switch (header->type) {
    case WIRE_HELLO:
        return owner_on_hello(oc, records);
    case WIRE_CHALLENGE:
        return owner_on_challenge(oc, records);
    case WIRE_PROOF:
        return owner_on_proof(oc, records);
    case WIRE_FETCH:
        return owner_on_fetch(oc, header, records);
    case WIRE_ATTACH:
        return owner_on_attach(oc, header, records);
    default:
        return owner_on_push(oc, header, records);
    }
}

static void owner_segment(conn_t *conn, uint32_t index)
{
    owner_on_result((owner_conn_t *)conn, index);
}

static void owner_complete(conn_t *conn)
{
    owner_conn_t *oc = (owner_conn_t *)conn;

    if (conn->rx.header.type != WIRE_PUSH && conn->rx.header.type != WIRE_LANDED)
        return;
    owner_end_push(oc);
    frame_t *frame = owner_frame(oc, WIRE_ACK, &conn->rx.header, 0, 0);
    if (frame)
        conn_send(conn, frame);
    else
        conn_close(conn, false, "out of memory");
}

/* ---- what has gone out ---- */

static void owner_sent(conn_t *conn, frame_t *frame)
{
    owner_conn_t *oc = (owner_conn_t *)conn;

    for (uint32_t i = 0; i < frame->pin_count; i++)
        region_unpin(&oc->owner->regions, frame->pins[i]);
    frame->pin_count = 0;
}

/* ---- its life ---- */

static void owner_log_dropped(transfer_owner_t *owner, const char *why)
{
    owner->stats.protocol_errors++;
    log_warn_limited("data_peer_dropped", LOG_STR("reason", why));
}

static void owner_closed(conn_t *conn, bool protocol, const char *why)
{
    owner_conn_t *oc = (owner_conn_t *)conn;
    transfer_owner_t *owner = oc->owner;

    if (owner_is_stranger(oc)) {
        owner_stranger_closed(oc, protocol, why);
        return;
    }
    places_give_up(&owner->places, &oc->place);
    owner->stats.connections--;
    owner->stats.by[oc->seat.ops ? oc->seat.ops->way : TRANSFER_BY_TCP].connections--;
    seat_give_up(&oc->seat);
    if (protocol)
        owner_log_dropped(owner, why);
    owner_break_push(oc);
}

static void owner_freed(conn_t *conn)
{
    owner_conn_t *oc = (owner_conn_t *)conn;

    free(oc->incoming);
    free(oc);
}

static const conn_ops_t owner_conn_ops = {
    .connected = owner_secured,
    .in_clear = owner_in_clear,
    .accept = owner_accept,
    .frame = owner_frame_in,
    .segment = owner_segment,
    .complete = owner_complete,
    .sent = owner_sent,
    .closed = owner_closed,
    .freed = owner_freed,
};

void owner_take(transfer_owner_t *owner, int fd, const struct sockaddr_storage *from)
{
    owner_conn_t *oc = calloc(1, sizeof(*oc));

    if (!oc) {
        close(fd);
        return;
    }
    oc->owner = owner;
    oc->from = *from;
    oc->since_ns = (uint64_t)clock_now_ns();
    if (conn_init(&oc->conn, owner->loop, fd, false, &owner_conn_ops, &owner->shared) != STATUS_OK)
        free(oc);
    else
        owner_take_stranger(oc);
}
