/* A hot path: parts are slots made at the start. */
#include "transfer/ask.h"

#include "base/clock.h"
#include "base/container.h"
#include "transfer/losses.h"

#include <stdlib.h>

enum {
    /* The largest window has 64 parts under way; the others are for those whose credit was written off. */
    PARTS = 1024,
    SILENT_MS = 20, /* more than a queue of 1 MB at 1 Gbit/s; a tenth of TCP's shortest time-out */
};

static const uint64_t LOOK_NS = UINT64_C(1000000); /* how often a connection is asked for its losses */

static void on_silence(uv_timer_t *timer);

bool asks_init(transfer_pool_t *pool)
{
    pace_init(&pool->pace, pool->limits.credit_bytes);
    TAILQ_INIT(&pool->free_parts);
    pool->parts = calloc(PARTS, sizeof(*pool->parts));
    if (!pool->parts)
        return false;
    uv_timer_init(pool->loop, &pool->silence);
    pool->silence.data = pool;
    return true;
}

void asks_dispose(transfer_pool_t *pool)
{
    free(pool->parts);
    pool->parts = NULL;
}

void asks_close(transfer_pool_t *pool, uv_close_cb closed)
{
    uv_close((uv_handle_t *)&pool->silence, closed);
}

/* ---- credit ---- */

/* All that has come out of order so far: what overtook a packet that was lost. */
static void peer_look_for_losses(transfer_peer_t *peer)
{
    uint32_t packets;

    if (!peer->pool->pace.adapts || peer->used_ns - peer->looked_ns < LOOK_NS)
        return;
    peer->looked_ns = peer->used_ns;
    if (!losses_out_of_order(peer->pc->conn.fd, &packets))
        return;
    if (packets > peer->out_of_order)
        pace_lost(&peer->pool->pace);
    peer->out_of_order = packets; /* less: a new connection */
}

static bool request_all_asked(const request_t *request)
{
    return request->at_item == request->count;
}

static void peer_unmute(transfer_peer_t *peer)
{
    request_t *request;

    peer->muted = false;
    TAILQ_FOREACH(request, &peer->paced, link)
    {
        if (!request_all_asked(request))
            pace_enter(&peer->pool->pace, &request->turn, request->turn.left_bytes);
    }
}

void ask_received(request_t *request)
{
    transfer_peer_t *peer = request->peer;

    if (request->kind != WIRE_FETCH)
        return;
    peer_look_for_losses(peer);
    request_give_credit(request, true);
    if (peer->muted)
        peer_unmute(peer);
}

/* ---- a gateway that holds credit and sends nothing ---- */

static void peer_mute(transfer_peer_t *peer)
{
    request_t *request;

    peer->muted = true;
    TAILQ_FOREACH(request, &peer->sent, link)
    {
        if (request->credit_bytes)
            request_give_credit(request, false);
    }
    TAILQ_FOREACH(request, &peer->paced, link)
    pace_leave(&peer->pool->pace, &request->turn);
}

static void on_silence(uv_timer_t *timer)
{
    transfer_pool_t *pool = timer->data;
    transfer_peer_t *peer;

    TAILQ_FOREACH(peer, &pool->peers, link)
    {
        uint64_t received = peer->pc ? peer->pc->conn.rx.bytes : 0;
        if (peer->credit_bytes && peer->heard_bytes == received && peer->asked_at_tick)
            peer_mute(peer);
        peer->heard_bytes = received;
        peer->asked_at_tick = peer->credit_bytes > 0;
    }
    ask_next(pool);
    if (!pace_waiting(&pool->pace))
        uv_timer_stop(timer);
}

static void silence_watch(transfer_pool_t *pool)
{
    transfer_peer_t *peer;

    if (uv_is_active((uv_handle_t *)&pool->silence))
        return;
    TAILQ_FOREACH(peer, &pool->peers, link)
    peer->asked_at_tick = false;
    uv_timer_start(&pool->silence, on_silence, SILENT_MS, SILENT_MS);
}

/* ---- parts ---- */

static request_t *part_take(transfer_pool_t *pool)
{
    request_t *part = TAILQ_FIRST(&pool->free_parts);

    if (part)
        TAILQ_REMOVE(&pool->free_parts, part, link);
    else if (pool->parts_used < PARTS)
        part = &pool->parts[pool->parts_used++];
    return part;
}

/* The next of the whole, up to so many bytes; returns how many. Only an item that is larger than that is cut; items without bytes go
 * with what comes before them. */
static uint64_t part_cut(request_t *part, request_t *whole, uint64_t most_bytes)
{
    uint32_t first = whole->at_item;
    uint64_t bytes = most_bytes;

    *part = (request_t){.pool = whole->pool,
                        .peer = whole->peer,
                        .kind = WIRE_FETCH,
                        .is_part = true,
                        .whole = whole,
                        .span = WINDOW_SPAN_NONE,
                        .items = &whole->items[first],
                        .from = whole->at_byte};
    while (whole->at_item < whole->count) {
        uint64_t left = whole->items[whole->at_item].len_bytes - whole->at_byte;
        if (left > bytes)
            break;
        bytes -= left;
        part->until = whole->items[whole->at_item].len_bytes;
        whole->at_item++;
        whole->at_byte = 0;
    }
    if (bytes > 0 && whole->at_item > first && whole->items[whole->at_item].len_bytes <= most_bytes) {
        part->count = whole->at_item - first;
        return most_bytes - bytes;
    }
    if (bytes > 0)
        part->until = whole->at_byte += bytes;
    part->count = whole->at_item - first + (bytes > 0);
    return most_bytes;
}

static void part_uncut(request_t *whole, const request_t *part)
{
    whole->at_item = (uint32_t)(part->items - whole->items);
    whole->at_byte = part->from;
}

static bool request_send(request_t *request, uint64_t bytes)
{
    transfer_peer_t *peer = request->peer;

    request->frame = peer_encode(peer, request);
    if (!request->frame)
        return false;
    request->credit_bytes = bytes;
    peer->credit_bytes += bytes;
    return true;
}

static bool ask_part(request_t *whole, uint64_t bytes)
{
    request_t *part = part_take(whole->pool);

    if (!part)
        return false;
    bytes = part_cut(part, whole, bytes);
    if (!request_send(part, bytes)) {
        part_uncut(whole, part);
        request_free(whole->pool, part);
        return false;
    }
    whole->parts++;
    pace_take(&whole->pool->pace, &whole->turn, bytes);
    peer_send_frame(whole->peer, part);
    return true;
}

static bool ask_whole(request_t *request, uint64_t bytes)
{
    if (!request_send(request, bytes))
        return false;
    request->at_item = request->count;
    pace_take(&request->pool->pace, &request->turn, bytes);
    TAILQ_REMOVE(&request->peer->paced, request, link);
    peer_send_frame(request->peer, request);
    return true;
}

void ask(transfer_peer_t *peer, request_t *request)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < request->count; i++) {
        request->items[i].status = STATUS_OK; /* until a part says otherwise */
        bytes += request->items[i].len_bytes;
    }
    request->state = REQUEST_PACED;
    request->from = 0;
    request->until = request->items[request->count - 1].len_bytes;
    request->at_item = 0;
    request->at_byte = 0;
    request->parts = 0;
    TAILQ_INSERT_TAIL(&peer->paced, request, link);
    pace_enter(&peer->pool->pace, &request->turn, bytes);
    if (peer->muted)
        pace_leave(&peer->pool->pace, &request->turn);
}

void ask_next(transfer_pool_t *pool)
{
    transfer_peer_t *peer = NULL;
    pace_turn_t *turn;
    uint64_t bytes;

    while ((turn = pace_next(&pool->pace, &bytes))) {
        request_t *request = CONTAINER_OF(turn, request_t, turn);
        bool in_parts = request->at_item > 0 || request->at_byte > 0 || bytes < turn->left_bytes;
        if (peer && peer != request->peer)
            conn_flush(&peer->pc->conn);
        peer = request->peer;
        if (!(in_parts ? ask_part : ask_whole)(request, bytes))
            break; /* no memory: again when something ends, or at the timer */
    }
    if (peer)
        conn_flush(&peer->pc->conn);
    if (pace_waiting(&pool->pace))
        silence_watch(pool);
}

bool ask_part_done(request_t *part, request_t **out)
{
    request_t *whole = part->whole;

    TAILQ_REMOVE(&part->peer->sent, part, link);
    request_free(part->pool, part);
    whole->parts--;
    if (whole->parts > 0 || !request_all_asked(whole))
        return false;
    *out = whole;
    return true;
}

void ask_cut(request_t *whole)
{
    transfer_peer_t *peer = whole->peer;
    request_t *part, *next;

    for (part = TAILQ_FIRST(&peer->sent); part; part = next) {
        next = TAILQ_NEXT(part, link);
        if (part->whole != whole)
            continue;
        part->whole = NULL;
        if (part->frame && !frame_started(part->frame)) {
            conn_withdraw(&peer->pc->conn, part->frame);
            part->frame = NULL;
            TAILQ_REMOVE(&peer->sent, part, link);
            request_free(whole->pool, part);
        } else {
            peer_make_ghost(peer, part);
        }
    }
}
