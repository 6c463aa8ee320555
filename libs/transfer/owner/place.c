/* Who may stay when there is no room for all, and how one is told to leave. */
#include "base/clock.h"
#include "base/container.h"
#include "transfer/owner/private.h"

#include <string.h>

frame_t *owner_frame(owner_conn_t *oc, uint8_t type, const wire_header_t *to, size_t records_bytes,
                     uint32_t iovs)
{
    frame_t *frame = frame_get(&oc->owner->shared.frames, WIRE_HEADER_BYTES + records_bytes, iovs, iovs);

    if (frame)
        wire_put_header(frame->meta, &(wire_header_t){.type = type, .seq = to->seq, .count = to->count});
    return frame;
}

bool owner_send_bye(owner_conn_t *oc, status_t code, const char *text)
{
    frame_t *frame = owner_frame(oc, WIRE_BYE, &(wire_header_t){.count = code}, WIRE_BYE_BYTES, 0);

    if (frame) {
        memset(frame->meta + WIRE_HEADER_BYTES, 0, WIRE_BYE_BYTES);
        memcpy(frame->meta + WIRE_HEADER_BYTES, text, strnlen(text, WIRE_BYE_BYTES - 1));
        conn_send(&oc->conn, frame);
        conn_flush(&oc->conn);
    }
    return false;
}

static owner_conn_t *conn_of(place_t *place)
{
    return CONTAINER_OF(place, owner_conn_t, place);
}

/* A request of it has come, or is answered, in part. */
static bool owner_is_busy(const owner_conn_t *oc)
{
    return oc->conn.rx.stage != CONN_HEADER || !TAILQ_EMPTY(&oc->conn.tx.queue);
}

/* Those that were told to leave and have not: at once, where they are too many, else when they have had their time and do nothing. */
static void owner_close_overdue(transfer_owner_t *owner)
{
    uint64_t now = (uint64_t)clock_now_ns();
    place_t *place;

    while ((place = places_overdue(&owner->places, now, owner->limits.stall_ns))) {
        if (owner->places.leaving_count <= PLACES_LEAVING_MOST && owner_is_busy(conn_of(place)))
            places_put_off(&owner->places, place, now);
        else
            conn_close(&conn_of(place)->conn, false, "it was told to leave");
    }
}

/* Where there is no room for one that comes, or that works again. place: NULL = there is. */
static void owner_crowd_out(transfer_owner_t *owner, place_t *place)
{
    if (!place)
        return;
    owner->stats.asked_crowded++;
    refusals_crowded((const struct sockaddr *)place->host, owner->stats.connections);
    owner_send_bye(conn_of(place), STATUS_OK, "others need the place");
    owner_close_overdue(owner);
}

void owner_worked(owner_conn_t *oc)
{
    owner_crowd_out(oc->owner, places_worked(&oc->owner->places, &oc->place, (uint64_t)clock_now_ns()));
}

void owner_give_place(owner_conn_t *oc)
{
    transfer_owner_t *owner = oc->owner;

    oc->place.host = &oc->from;
    owner_crowd_out(owner, places_take(&owner->places, &oc->place, (uint64_t)clock_now_ns()));
}

static void owner_close_stalled(transfer_owner_t *owner, struct place_list *list, uint64_t now)
{
    place_t *next;

    for (place_t *place = TAILQ_FIRST(list); place; place = next) {
        conn_t *conn = &conn_of(place)->conn;
        next = TAILQ_NEXT(place, link);
        if (conn_stalled(conn, now, owner->limits.stall_ns))
            conn_close(conn, true, "stalled in the middle of a frame");
    }
}

/* A pool closes its idle connections by itself: what does not for twice as long is told to. */
void owner_clear_out(transfer_owner_t *owner, uint64_t now)
{
    place_t *place;

    owner_close_stalled(owner, &owner->places.staying, now);
    owner_close_stalled(owner, &owner->places.leaving, now);
    while ((place = places_idle(&owner->places, now, 2 * owner->limits.idle_ns))) {
        owner->stats.asked_idle++;
        owner_send_bye(conn_of(place), STATUS_OK, "idle");
        owner_close_overdue(owner);
    }
    owner_close_overdue(owner);
}

void owner_close_all(transfer_owner_t *owner)
{
    owner_conn_t *oc;
    place_t *place;

    while ((place = TAILQ_FIRST(&owner->places.staying)) || (place = TAILQ_FIRST(&owner->places.leaving)))
        conn_close(&conn_of(place)->conn, false, "shutting down");
    while ((oc = TAILQ_FIRST(&owner->strangers)))
        conn_close(&oc->conn, false, "shutting down");
}
