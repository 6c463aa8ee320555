/* The owner: serves fetches from the arena, receives pushed results. A hot path: allocates per
 * connection only. */
#include "base/clock.h"
#include "base/container.h"
#include "base/log.h"
#include "transfer/block.h"
#include "transfer/conn.h"
#include "transfer/doors.h"
#include "transfer/internal.h"
#include "transfer/owner_private.h"
#include "transfer/proof.h"

#include <errno.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    ACCEPTS_PER_EVENT = 64, /* more wait for the next turn of the loop */
    LISTEN_BACKLOG = 512,
    REGIONS_DEFAULT = 65536,
};

struct transfer_memory {
    transfer_owner_t *owner;
    const uint8_t *base;
    size_t len_bytes;
};

/* One result of the push that is being received. */
typedef struct {
    void *token;
    uint64_t task_id;
    uint64_t len_bytes;
} incoming_t;

/* What is to come next; in this order, those left out that are not wanted. */
typedef enum {
    OWNER_SHAKING,   /* hands, for TLS */
    OWNER_CHALLENGE, /* the peer's; or, with TLS, what a peer of another role says first */
    OWNER_PROOF,     /* of the secret */
    OWNER_HELLO,
    OWNER_OPEN /* requests */
} owner_stage_t;

typedef struct owner_conn {
    conn_t conn;
    transfer_owner_t *owner;
    TAILQ_ENTRY(owner_conn) link; /* in strangers, before OWNER_OPEN */
    place_t place;                /* then */
    owner_stage_t stage;
    struct sockaddr_storage from;
    transfer_refusal_t refusal;           /* of a stranger: why, if it is closed for what it said */
    wire_challenge_t challenge, answered; /* the peer's and ours, until the proof has come */
    uint64_t since_ns;
    uint32_t max_items; /* agreed in HELLO */
    uint64_t max_item_bytes;
    incoming_t *incoming; /* of the present PUSH; those before `completed` are done */
    uint32_t incoming_count, incoming_cap, completed;
    seat_t seat; /* past the socket, once the peer has attached */
} owner_conn_t;

/* ---- what goes out ---- */

static frame_t *owner_frame(owner_conn_t *oc, uint8_t type, const wire_header_t *to, size_t records_bytes,
                            uint32_t iovs)
{
    frame_t *frame = frame_get(&oc->owner->shared.frames, WIRE_HEADER_BYTES + records_bytes, iovs, iovs);

    if (frame)
        wire_put_header(frame->meta, &(wire_header_t){.type = type, .seq = to->seq, .count = to->count});
    return frame;
}

static bool owner_send_hello(owner_conn_t *oc)
{
    frame_t *frame = owner_frame(oc, WIRE_HELLO, &(wire_header_t){.count = 1}, WIRE_HELLO_BYTES, 0);

    if (!frame)
        return false;
    wire_put_hello(frame->meta + WIRE_HEADER_BYTES,
                   &(wire_hello_t){.min_version = WIRE_VERSION,
                                   .max_version = WIRE_VERSION,
                                   .max_items = oc->max_items,
                                   .max_item_bytes = oc->max_item_bytes,
                                   .instance_id = oc->owner->instance_id,
                                   .carriers = doors_bits(&oc->owner->doors)});
    conn_send(&oc->conn, frame);
    return true;
}

/* Tells the peer why, as far as its socket takes it, and ends the connection. */
static bool owner_send_bye(owner_conn_t *oc, status_t code, const char *text)
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

/* ---- who has a place ---- */

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

static void owner_worked(owner_conn_t *oc)
{
    owner_crowd_out(oc->owner, places_worked(&oc->owner->places, &oc->place, (uint64_t)clock_now_ns()));
}

static bool owner_is_stranger(const owner_conn_t *oc)
{
    return oc->stage < OWNER_OPEN;
}

/* It has said whom it looks for, and proved what is wanted. */
static void owner_admit(owner_conn_t *oc)
{
    transfer_owner_t *owner = oc->owner;

    TAILQ_REMOVE(&owner->strangers, oc, link);
    owner->stranger_count--;
    owner->stats.connections++;
    owner->stats.by[TRANSFER_BY_TCP].connections++;
    owner->stats.connects++;
    oc->stage = OWNER_OPEN;
    oc->place.host = &oc->from;
    owner_crowd_out(owner, places_take(&owner->places, &oc->place, (uint64_t)clock_now_ns()));
}

/* ---- who is there ---- */

/* Told to the peer, and by owner_closed to the log. */
static bool owner_refuse(owner_conn_t *oc, transfer_refusal_t refusal, status_t code, const char *text)
{
    oc->refusal = refusal;
    owner_send_bye(oc, code, text);
    conn_close(&oc->conn, true, text);
    return false;
}

/* Nothing more is to be proved. */
static void owner_expect_hello(owner_conn_t *oc)
{
    oc->stage = OWNER_HELLO;
    oc->refusal = TRANSFER_REFUSED_NONE;
}

/* Another role is told so when it speaks, as it does at once: what it was told before would be lost with what it had said. */
static void owner_secured(conn_t *conn)
{
    owner_conn_t *oc = (owner_conn_t *)conn;

    oc->stage = OWNER_CHALLENGE;
    oc->refusal = TRANSFER_REFUSED_ROLE;
    if (strcmp(tls_stream_peer_role(conn->tls), "worker") == 0)
        owner_expect_hello(oc);
}

static bool owner_refuse_first(owner_conn_t *oc)
{
    char text[WIRE_BYE_BYTES];

    if (oc->refusal != TRANSFER_REFUSED_ROLE)
        return owner_refuse(oc, TRANSFER_REFUSED_NONE, STATUS_UNAUTHENTICATED,
                            "this gateway wants a proof: --cluster-secret");
    const char *role = tls_stream_peer_role(oc->conn.tls);
    snprintf(text, sizeof(text), "the role worker is wanted, the certificate's is %s",
             role[0] ? role : "none");
    return owner_refuse(oc, TRANSFER_REFUSED_ROLE, STATUS_PERMISSION_DENIED, text);
}

static void owner_in_clear(conn_t *conn)
{
    owner_refuse((owner_conn_t *)conn, TRANSFER_REFUSED_TLS, STATUS_UNAUTHENTICATED,
                 "this gateway wants TLS (--cluster-ca)");
}

static bool owner_on_challenge(owner_conn_t *oc, const uint8_t *record)
{
    transfer_owner_t *owner = oc->owner;

    if (!owner->trust.secret || oc->stage != OWNER_CHALLENGE)
        return owner_send_bye(oc, STATUS_UNSUPPORTED,
                              "this gateway wants no proof: no --cluster-secret here");
    wire_get_challenge(record, &oc->challenge);
    if (oc->challenge.min_version > WIRE_VERSION || oc->challenge.max_version < WIRE_VERSION ||
        !(oc->challenge.proofs & WIRE_PROOF_HMAC_SHA256))
        return owner_refuse(oc, TRANSFER_REFUSED_NONE, STATUS_UNSUPPORTED,
                            "this gateway speaks version 1 with HMAC-SHA-256 only");
    frame_t *frame = owner_frame(oc, WIRE_CHALLENGE, &(wire_header_t){.count = 1}, WIRE_CHALLENGE_BYTES, 0);
    if (!frame)
        return false;
    if (!proof_challenge(owner->instance_id, &oc->answered)) {
        frame_put(&owner->shared.frames, frame);
        return false;
    }
    wire_put_challenge(frame->meta + WIRE_HEADER_BYTES, &oc->answered);
    conn_send(&oc->conn, frame);
    oc->stage = OWNER_PROOF;
    return true;
}

static bool owner_on_proof(owner_conn_t *oc, const uint8_t *record)
{
    const transfer_secret_t *secret = oc->owner->trust.secret;

    if (!proof_holds(secret, PROOF_WORKER, &oc->challenge, &oc->answered, record))
        return owner_refuse(oc, TRANSFER_REFUSED_PROOF, STATUS_UNAUTHENTICATED,
                            "another --cluster-secret than this gateway's");
    frame_t *frame = owner_frame(oc, WIRE_PROOF, &(wire_header_t){.count = 1}, WIRE_PROOF_BYTES, 0);
    if (!frame)
        return false;
    if (!proof_make(secret, PROOF_GATEWAY, &oc->challenge, &oc->answered, frame->meta + WIRE_HEADER_BYTES)) {
        frame_put(&oc->owner->shared.frames, frame);
        return false;
    }
    conn_send(&oc->conn, frame);
    owner_expect_hello(oc);
    return true;
}

/* ---- what comes in ---- */

/* Before OWNER_OPEN. What is of another way to begin is taken, so that it can be told why not. */
static bool owner_accept_first(const owner_conn_t *oc, const wire_header_t *header, size_t *records_bytes)
{
    *records_bytes = header->type == WIRE_HELLO       ? WIRE_HELLO_BYTES
                     : header->type == WIRE_CHALLENGE ? WIRE_CHALLENGE_BYTES
                                                      : WIRE_PROOF_BYTES;
    bool known = oc->stage == OWNER_PROOF ? header->type == WIRE_PROOF
                                          : header->type == WIRE_HELLO || header->type == WIRE_CHALLENGE;
    return known && header->count == 1 && header->extra_bytes == 0;
}

static bool owner_accept(conn_t *conn, const wire_header_t *header, size_t *records_bytes)
{
    owner_conn_t *oc = (owner_conn_t *)conn;

    if (oc->stage < OWNER_OPEN)
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

static bool owner_has_trust(const transfer_owner_t *owner)
{
    return owner->trust.tls || owner->trust.secret;
}

/* Only the scheduler's peers are told what a gateway's instance id is: without another proof it is one. */
static bool owner_is_meant(const transfer_owner_t *owner, const wire_hello_t *hello)
{
    return hello->instance_id == owner->instance_id || (hello->instance_id == 0 && owner_has_trust(owner));
}

static bool owner_on_hello(owner_conn_t *oc, const uint8_t *record)
{
    const transfer_owner_t *owner = oc->owner;
    wire_hello_t hello;

    if (oc->stage != OWNER_HELLO)
        return owner_refuse_first(oc);
    wire_get_hello(record, &hello);
    if (hello.min_version > WIRE_VERSION || hello.max_version < WIRE_VERSION)
        return owner_send_bye(oc, STATUS_UNSUPPORTED, "this gateway's data plane speaks version 1 only");
    if (!owner_is_meant(owner, &hello))
        return owner_refuse(oc, TRANSFER_REFUSED_INSTANCE, STATUS_NOT_FOUND,
                            hello.instance_id ? "another instance listens here now"
                                              : "the instance that is looked for is to be named");
    if (hello.max_items == 0 || hello.max_item_bytes == 0)
        return false;
    oc->max_items = hello.max_items < owner->limits.max_items ? hello.max_items : owner->limits.max_items;
    oc->max_item_bytes = hello.max_item_bytes < owner->limits.max_item_bytes ? hello.max_item_bytes
                                                                             : owner->limits.max_item_bytes;
    owner_admit(oc);
    /* Stop reading when a full request's worth of answers is unread on the other side: bounds what a peer can
     * pin. */
    oc->conn.pause_weight = oc->max_items;
    return owner_send_hello(oc);
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

static bool owner_on_push(owner_conn_t *oc, const wire_header_t *header, const uint8_t *records)
{
    const uint8_t *text = records + (size_t)header->count * WIRE_RESULT_BYTES;

    if (!owner_check_push(oc, header, records) ||
        !frame_grow(&oc->incoming, &oc->incoming_cap, header->count, sizeof(incoming_t)))
        return false;
    oc->incoming_count = 0;
    oc->completed = 0;
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
    owner_conn_t *oc = (owner_conn_t *)conn;
    transfer_owner_t *owner = oc->owner;
    incoming_t *in = &oc->incoming[index];

    oc->completed = index + 1;
    owner_count_result(owner, TRANSFER_BY_TCP, in->len_bytes);
    if (in->token)
        owner_worked(oc);
    owner->receiver.done(owner->ctx, in->token, in->task_id, STATUS_OK);
}

static void owner_complete(conn_t *conn)
{
    owner_conn_t *oc = (owner_conn_t *)conn;

    if (conn->rx.header.type != WIRE_PUSH && conn->rx.header.type != WIRE_LANDED)
        return;
    oc->incoming_count = 0;
    oc->completed = 0;
    frame_t *frame = owner_frame(oc, WIRE_ACK, &conn->rx.header, 0, 0);
    if (frame)
        conn_send(conn, frame);
    else
        conn_close(conn, false, "out of memory");
}

static void owner_sent(conn_t *conn, frame_t *frame)
{
    owner_conn_t *oc = (owner_conn_t *)conn;

    for (uint32_t i = 0; i < frame->pin_count; i++)
        region_unpin(&oc->owner->regions, frame->pins[i]);
    frame->pin_count = 0;
}

static void owner_log_dropped(transfer_owner_t *owner, const char *why)
{
    owner->stats.protocol_errors++;
    log_warn_limited("data_peer_dropped", LOG_STR("reason", why));
}

/* Whoever hangs up before he has proved himself, as a port scan does, is not told of. */
static void stranger_closed(owner_conn_t *oc, bool protocol, const char *why)
{
    transfer_owner_t *owner = oc->owner;

    TAILQ_REMOVE(&owner->strangers, oc, link);
    owner->stranger_count--;
    if (protocol)
        refusals_note(&owner->stats, oc->refusal, (struct sockaddr *)&oc->from, why);
}

static void owner_closed(conn_t *conn, bool protocol, const char *why)
{
    owner_conn_t *oc = (owner_conn_t *)conn;
    transfer_owner_t *owner = oc->owner;

    if (owner_is_stranger(oc)) {
        stranger_closed(oc, protocol, why);
        return;
    }
    places_give_up(&owner->places, &oc->place);
    owner->stats.connections--;
    owner->stats.by[oc->seat.ops ? oc->seat.ops->way : TRANSFER_BY_TCP].connections--;
    seat_give_up(&oc->seat);
    if (protocol)
        owner_log_dropped(owner, why);
    while (oc->completed < oc->incoming_count) {
        incoming_t *in = &oc->incoming[oc->completed++];
        owner->receiver.done(owner->ctx, in->token, in->task_id, STATUS_UNAVAILABLE);
    }
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

/* ---- listening ---- */

static void owner_turn_away(owner_conn_t *oc, transfer_refusal_t refusal, const char *why)
{
    oc->refusal = refusal;
    conn_close(&oc->conn, true, why);
}

/* Who has not proved himself has a place among his like only, and the newest may try. */
static void owner_take_stranger(transfer_owner_t *owner, owner_conn_t *oc)
{
    if (owner->stranger_count >= owner->limits.max_strangers)
        owner_turn_away(TAILQ_FIRST(&owner->strangers), TRANSFER_REFUSED_CROWD,
                        "too many that have not proved themselves");
    oc->stage = owner->trust.tls ? OWNER_SHAKING : owner->trust.secret ? OWNER_CHALLENGE : OWNER_HELLO;
    oc->refusal = owner->trust.tls ? TRANSFER_REFUSED_TLS : TRANSFER_REFUSED_NONE;
    TAILQ_INSERT_TAIL(&owner->strangers, oc, link);
    owner->stranger_count++;
    if (owner->trust.tls && !conn_secure(&oc->conn, owner->trust.tls))
        conn_close(&oc->conn, false, "out of memory");
}

static void owner_take(transfer_owner_t *owner, int fd, const struct sockaddr_storage *from)
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
        owner_take_stranger(owner, oc);
}

static void owner_on_listener(uv_poll_t *poll, int status, int events)
{
    transfer_owner_t *owner = poll->data;

    (void)status;
    (void)events;
    for (int i = 0; i < ACCEPTS_PER_EVENT; i++) {
        struct sockaddr_storage from;
        int fd = acceptor_take(&owner->acceptor, owner->fd, &from);
        if (fd >= 0) {
            owner_take(owner, fd, &from);
        } else if (fd == ACCEPTOR_STUCK) {
            /* The listener would report readable without end; the sweep tries again. */
            uv_poll_stop(&owner->listener);
            owner->listening = false;
            return;
        } else if (fd == ACCEPTOR_EMPTY) {
            return;
        }
    }
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
static void owner_clear_out(transfer_owner_t *owner, uint64_t now)
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

static void owner_on_sweep(uv_timer_t *timer)
{
    transfer_owner_t *owner = timer->data;
    uint64_t now = (uint64_t)clock_now_ns();
    owner_conn_t *oc;

    while ((oc = TAILQ_FIRST(&owner->strangers)) && now - oc->since_ns >= owner->limits.prove_ns)
        owner_turn_away(oc, TRANSFER_REFUSED_TIME, "nothing was proved in time");
    owner_clear_out(owner, now);
    if (!owner->listening) {
        owner->listening = true;
        uv_poll_start(&owner->listener, UV_READABLE, owner_on_listener);
    }
}

static int listen_on(const struct addrinfo *info)
{
    int on = 1;
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, LISTEN_BACKLOG) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static status_t owner_listen(transfer_owner_t *owner, const char *address, err_t *err)
{
    char host[ADDRESS_HOST_BYTES], port[ADDRESS_PORT_BYTES];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *infos = NULL;

    status_t status = address_split(address, host, port, err);
    if (status != STATUS_OK)
        return status;
    int failed = getaddrinfo(host, port, &hints, &infos);
    if (failed)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%s: %s", address, gai_strerror(failed));
    owner->fd = -1;
    for (struct addrinfo *info = infos; info && owner->fd < 0; info = info->ai_next)
        owner->fd = listen_on(info);
    freeaddrinfo(infos);
    if (owner->fd < 0)
        return err_set(err, STATUS_IO, "cannot listen on %s: %s", address, strerror(errno));
    address_of_socket(owner->fd, owner->address);
    return STATUS_OK;
}

static void owner_on_handle_closed(uv_handle_t *handle)
{
    transfer_owner_t *owner = handle->data;

    if (--owner->handles == 0)
        free(owner);
}

static void owner_start(transfer_owner_t *owner)
{
    uint64_t sweep_ms = limits_sweep_ms(&owner->limits);

    acceptor_init(&owner->acceptor, owner->address);
    owner->listener.data = owner;
    owner->sweep.data = owner;
    owner->handles = 2;
    owner->listening = true;
    uv_timer_init(owner->loop, &owner->sweep);
    uv_timer_start(&owner->sweep, owner_on_sweep, sweep_ms, sweep_ms);
    uv_poll_start(&owner->listener, UV_READABLE, owner_on_listener);
}

status_t transfer_owner_create(const transfer_owner_options_t *options, transfer_owner_t **out, err_t *err)
{
    transfer_owner_t *owner = calloc(1, sizeof(*owner));
    status_t status;

    if (!owner)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    owner->loop = options->loop;
    owner->instance_id = options->instance_id;
    owner->limits = limits_with_defaults(&options->limits);
    owner->choice = options->choice;
    owner->spin = options->spin;
    owner->trust = options->trust;
    owner->receiver = options->receiver;
    owner->ctx = options->ctx;
    places_init(&owner->places, owner->limits.max_connections);
    TAILQ_INIT(&owner->strangers);
    frame_pool_init(&owner->shared.frames);
    uint32_t regions = options->max_regions ? options->max_regions : REGIONS_DEFAULT;
    if (region_table_init(&owner->regions, regions) != STATUS_OK) {
        status = err_set(err, STATUS_NO_MEMORY, "out of memory for %u regions", regions);
        goto free_owner;
    }
    if (options->shared && owner_share(owner, options->shared, err) != STATUS_OK) {
        status = err->code;
        goto dispose_regions;
    }
    if (!options->address) {
        snprintf(owner->address, sizeof(owner->address), "this process");
        *out = owner;
        return STATUS_OK;
    }
    status = owner_listen(owner, options->address, err);
    if (status != STATUS_OK)
        goto dispose_regions;
    if (uv_poll_init(owner->loop, &owner->listener, owner->fd) != 0) {
        status = err_set(err, STATUS_IO, "cannot poll the data plane's listener");
        goto close_fd;
    }
    owner_start(owner);
    *out = owner;
    return STATUS_OK;

close_fd:
    close(owner->fd);
dispose_regions:
    owner_unshare(owner);
    region_table_dispose(&owner->regions);
free_owner:
    free(owner);
    return status;
}

void transfer_owner_destroy(transfer_owner_t *owner)
{
    owner_conn_t *oc;
    place_t *place;

    if (!owner)
        return;
    while ((place = TAILQ_FIRST(&owner->places.staying)) || (place = TAILQ_FIRST(&owner->places.leaving)))
        conn_close(&conn_of(place)->conn, false, "shutting down");
    while ((oc = TAILQ_FIRST(&owner->strangers)))
        conn_close(&oc->conn, false, "shutting down");
    owner_unshare(owner);
    region_table_dispose(&owner->regions);
    doors_close(&owner->doors);
    frame_pool_dispose(&owner->shared.frames);
    if (owner->handles == 0) { /* it never listened */
        free(owner);
        return;
    }
    uv_close((uv_handle_t *)&owner->listener, owner_on_handle_closed);
    uv_close((uv_handle_t *)&owner->sweep, owner_on_handle_closed);
    close(owner->fd);
    acceptor_dispose(&owner->acceptor);
}

const char *transfer_owner_address(const transfer_owner_t *owner)
{
    return owner->address;
}

uint64_t transfer_owner_instance(const transfer_owner_t *owner)
{
    return owner->instance_id;
}

void transfer_owner_stats(const transfer_owner_t *owner, transfer_stats_t *stats)
{
    *stats = owner->stats;
    stats->item_errors += atomic_load(&owner->item_errors);
}

/* ---- regions ---- */

status_t transfer_memory_register(transfer_owner_t *owner, void *base, size_t len_bytes,
                                  const transfer_block_t *block, transfer_memory_t **out, err_t *err)
{
    transfer_memory_t *memory = calloc(1, sizeof(*memory));

    if (!memory)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    *memory = (transfer_memory_t){.owner = owner, .base = base, .len_bytes = len_bytes};
    if (!owner->doors.directory) {
        const carrier_memory_t own = {.base = base, .len_bytes = len_bytes, .fd = -1};
        const carrier_memory_t arena = block ? block->memory : own;
        doors_open(&owner->doors, owner->loop, owner->choice, owner->spin,
                   owner->listening ? owner->address : NULL, &arena, owner->regions.capacity);
        region_table_lay_open(&owner->regions, owner->doors.directory, base, len_bytes);
    }
    *out = memory;
    return STATUS_OK;
}

void transfer_memory_unregister(transfer_memory_t *memory)
{
    free(memory);
}

status_t transfer_publish(transfer_memory_t *memory, const void *data, size_t len_bytes,
                          transfer_release_fn release, void *ctx, transfer_handle_t *handle)
{
    const uint8_t *from = data;

    if (from < memory->base || len_bytes > memory->len_bytes ||
        (size_t)(from - memory->base) > memory->len_bytes - len_bytes)
        return STATUS_INVALID_ARGUMENT;
    return region_publish(&memory->owner->regions, data, len_bytes, release, ctx, handle);
}

bool transfer_unpublish(transfer_owner_t *owner, transfer_handle_t handle)
{
    return region_unpublish(&owner->regions, handle);
}
