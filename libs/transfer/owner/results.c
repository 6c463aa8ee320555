/* Results that a peer pushes: to where the receiver wants them, as they arrive or from the window. A hot path. */
#include "transfer/owner/private.h"

#include <string.h>

static bool result_in_window(const wire_result_t *result)
{
    return result->window_offset <= CARRIER_WINDOW_BYTES &&
           result->len_bytes <= CARRIER_WINDOW_BYTES - result->window_offset;
}

static bool result_valid(const owner_conn_t *oc, const wire_header_t *header, const wire_result_t *result,
                         uint64_t text_left)
{
    return wire_status_valid(result->status) && result->len_bytes <= oc->max_item_bytes &&
           result->text_bytes < TRANSFER_TEXT_BYTES && result->text_bytes <= text_left &&
           (result->status == STATUS_OK || result->len_bytes == 0) &&
           (header->type != WIRE_LANDED || result_in_window(result));
}

/* Everything is checked before the first result is handed on. */
static bool owner_check_push(const owner_conn_t *oc, const wire_header_t *header, const uint8_t *records)
{
    uint64_t text_left = header->extra_bytes;

    for (uint32_t i = 0; i < header->count; i++) {
        wire_result_t result;
        wire_get_result(records + (size_t)i * WIRE_RESULT_BYTES, &result);
        if (!result_valid(oc, header, &result, text_left))
            return false;
        text_left -= result.text_bytes;
    }
    return text_left == 0;
}

/* One printable line, whatever the peer sent. */
static void copy_text(char to[TRANSFER_TEXT_BYTES], const uint8_t *from, uint32_t len)
{
    for (uint32_t i = 0; i < len; i++)
        to[i] = from[i] < 0x20 || from[i] == 0x7f ? '?' : (char)from[i];
    to[len] = '\0';
}

static transfer_dest_t owner_begin(owner_conn_t *oc, const wire_result_t *result, const uint8_t *text)
{
    transfer_owner_t *owner = oc->owner;
    char line[TRANSFER_TEXT_BYTES];

    copy_text(line, text, result->text_bytes);
    return owner->receiver.begin(owner->ctx, &(transfer_incoming_t){.task_id = result->task_id,
                                                                    .handle = result->handle,
                                                                    .status = result->status,
                                                                    .text = line,
                                                                    .len_bytes = result->len_bytes,
                                                                    .timing = result->timing});
}

static bool owner_begin_result(owner_conn_t *oc, const wire_result_t *result, const uint8_t *text)
{
    transfer_dest_t dest = owner_begin(oc, result, text);

    oc->incoming[oc->incoming_count++] =
        (incoming_t){.token = dest.token, .task_id = result->task_id, .len_bytes = result->len_bytes};
    return conn_expect(&oc->conn, dest.buffer, result->len_bytes);
}

static void owner_count_result(transfer_owner_t *owner, transfer_way_t way, uint64_t len_bytes)
{
    owner->stats.by[way].results++;
    owner->stats.by[way].result_bytes += len_bytes;
}

/* Its payload lies in the window; what is copied from there is what was there then. */
static void owner_land_result(owner_conn_t *oc, const wire_result_t *result, const uint8_t *text)
{
    transfer_owner_t *owner = oc->owner;

    transfer_dest_t dest = owner_begin(oc, result, text);
    if (dest.buffer && result->len_bytes)
        memcpy(dest.buffer, oc->seat.ops->seat_window(oc->seat.seat) + result->window_offset,
               result->len_bytes);
    owner_count_result(owner, oc->seat.ops->way, result->len_bytes);
    if (dest.token)
        owner_worked(oc);
    owner->receiver.done(owner->ctx, dest.token, result->task_id, STATUS_OK);
}

void owner_end_push(owner_conn_t *oc)
{
    oc->incoming_count = 0;
    oc->completed = 0;
}

bool owner_on_push(owner_conn_t *oc, const wire_header_t *header, const uint8_t *records)
{
    const uint8_t *text = records + (size_t)header->count * WIRE_RESULT_BYTES;

    if (!owner_check_push(oc, header, records) ||
        !frame_grow(&oc->incoming, &oc->incoming_cap, header->count, sizeof(incoming_t)))
        return false;
    owner_end_push(oc);
    for (uint32_t i = 0; i < header->count; i++) {
        wire_result_t result;
        wire_get_result(records + (size_t)i * WIRE_RESULT_BYTES, &result);
        if (header->type == WIRE_LANDED)
            owner_land_result(oc, &result, text);
        else if (!owner_begin_result(oc, &result, text))
            return false;
        text += result.text_bytes;
    }
    return true;
}

void owner_on_result(owner_conn_t *oc, uint32_t index)
{
    transfer_owner_t *owner = oc->owner;
    incoming_t *in = &oc->incoming[index];

    oc->completed = index + 1;
    owner_count_result(owner, TRANSFER_BY_TCP, in->len_bytes);
    if (in->token)
        owner_worked(oc);
    owner->receiver.done(owner->ctx, in->token, in->task_id, STATUS_OK);
}

void owner_break_push(owner_conn_t *oc)
{
    transfer_owner_t *owner = oc->owner;

    while (oc->completed < oc->incoming_count) {
        incoming_t *in = &oc->incoming[oc->completed++];
        owner->receiver.done(owner->ctx, in->token, in->task_id, STATUS_UNAVAILABLE);
    }
}
