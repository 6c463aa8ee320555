#include "transfer/carry.h"

#include "base/clock.h"
#include "base/container.h"
#include "base/log.h"
#include "transfer/carriers.h"

/* A push that is told of through the socket anyway is as quick there, as long as it is small. */
enum { PUT_LEAST_BYTES = 16 << 10 };

static void carry_on_done(carrier_job_t *job, status_t status);

/* ---- the pool's clients ---- */

void clients_open(transfer_pool_t *pool, transfer_choice_t choice, bool spin)
{
    const carrier_ops_t *carriers[TRANSFER_WAYS];
    uint32_t count = 0;

    carriers_of(choice, carriers);
    for (uint32_t i = 0; i < TRANSFER_WAYS && carriers[i]; i++) {
        err_t err;
        if (carriers[i]->client_open(pool->loop, spin, &pool->clients[count].client, &err) == STATUS_OK)
            pool->clients[count++].ops = carriers[i];
        else
            log_info_limited("data_carrier_closed", LOG_STR("carrier", carriers[i]->name),
                             LOG_STR("reason", err.text));
    }
}

void clients_close(transfer_pool_t *pool)
{
    for (client_t *client = pool->clients; client->ops; client++)
        client->ops->client_close(client->client);
    pool->clients[0].ops = NULL;
}

uint64_t clients_bits(const transfer_pool_t *pool)
{
    uint64_t bits = 0;

    for (const client_t *client = pool->clients; client->ops; client++)
        bits |= client->ops->bit;
    return bits;
}

carrier_buffers_t clients_buffers(const transfer_pool_t *pool)
{
    carrier_buffers_t sum = {0};

    for (const client_t *client = pool->clients; client->ops; client++) {
        carrier_buffers_t one = {0};
        if (client->ops->buffer_count)
            client->ops->buffer_count(client->client, &one);
        sum.registered_bytes += one.registered_bytes;
        sum.refused_bytes += one.refused_bytes;
    }
    return sum;
}

void transfer_buffer_add(transfer_pool_t *pool, transfer_place_t place, void *base, size_t len_bytes)
{
    for (const client_t *client = pool->clients; client->ops; client++) {
        if (client->ops->buffer_add)
            client->ops->buffer_add(client->client, place, base, len_bytes);
    }
}

void transfer_buffer_drop(transfer_pool_t *pool, void *base)
{
    for (const client_t *client = pool->clients; client->ops; client++) {
        if (client->ops->buffer_drop)
            client->ops->buffer_drop(client->client, base);
    }
}

/* ---- a link ---- */

static void link_tell(const transfer_peer_t *peer, const char *carrier, const char *why)
{
    log_info_limited("data_peer_by_socket", LOG_STR("host", peer->host), LOG_STR("port", peer->port),
                     LOG_STR("not_by", carrier), LOG_STR("reason", why));
}

static const client_t *client_untried(const transfer_peer_t *peer)
{
    for (const client_t *client = peer->pool->clients; client->ops; client++) {
        if (client->ops->bit & peer->link_past.carriers & ~peer->link_past.tried)
            return client;
    }
    return NULL;
}

/* Asks for the next carrier that was not tried. */
static void link_attach(transfer_peer_t *peer)
{
    link_t *link = &peer->link_past;
    const client_t *client = client_untried(peer);
    carrier_blob_t hello = {0};

    link->again_ns = 0;
    if (!client)
        return;
    link->ops = client->ops;
    link->moved_ns = (uint64_t)clock_now_ns();
    link->tried |= client->ops->bit;
    client->ops->client_hello(client->client, &hello);
    frame_t *frame = frame_get(&peer->pool->shared.frames, WIRE_HEADER_BYTES + hello.len, 0, 0);
    if (!frame) {
        link->ops = NULL;
        return;
    }
    wire_put_header(
        frame->meta,
        &(wire_header_t){.type = WIRE_ATTACH, .count = client->ops->bit, .extra_bytes = hello.len});
    memcpy(frame->meta + WIRE_HEADER_BYTES, hello.bytes, hello.len);
    conn_send(&peer->pc->conn, frame);
    conn_flush(&peer->pc->conn);
}

void link_greeted(transfer_peer_t *peer, uint64_t carriers)
{
    peer->link_past = (link_t){.carriers = carriers & clients_bits(peer->pool)};
    link_attach(peer);
}

/* Its jobs end: their requests are back in `waiting`, those that had failed already in `failing`. */
static void link_drop(transfer_peer_t *peer)
{
    link_t *link = &peer->link_past;
    const carrier_ops_t *ops = link->ops;
    request_t *request;

    if (link->ready)
        connection_moves(&peer->pool->stats, ops->way, TRANSFER_BY_TCP);
    link->ready = false;
    peer->pool->dropping = true;
    if (ops && link->link)
        ops->link_close(link->link);
    peer->pool->dropping = false;
    link->ops = NULL;
    link->link = NULL;
    TAILQ_FOREACH(request, &peer->sent, link)
    request->span = WINDOW_SPAN_NONE; /* of a window that is gone */
}

/* It cannot be used, or no longer: the next carrier, and when there is none this one again after a while. */
static void link_failed(transfer_peer_t *peer, const char *why)
{
    link_t *link = &peer->link_past;
    bool was_ready = link->ready;

    link_tell(peer, link->ops->name, why);
    peer->pool->stats.fallbacks++;
    link_drop(peer);
    link_attach(peer);
    if (!link->ops && was_ready) {
        link->tried = 0;
        link->again_ns = (uint64_t)clock_now_ns() + peer->pool->limits.link_again_ns;
    }
    peer_send_waiting(peer);
    pool_end_failing(peer->pool);
}

static void link_on_changed(void *ctx, status_t status, const char *why)
{
    transfer_peer_t *peer = ctx;
    link_t *link = &peer->link_past;

    if (status != STATUS_OK) {
        link_failed(peer, why);
        return;
    }
    link->ready = true;
    peer->used_ns = (uint64_t)clock_now_ns(); /* its idle time begins now */
    link->window = (window_t){0};
    connection_moves(&peer->pool->stats, TRANSFER_BY_TCP, link->ops->way);
    log_info_limited("data_peer_past_socket", LOG_STR("host", peer->host), LOG_STR("port", peer->port),
                     LOG_STR("by", link->ops->name));
}

bool link_attached(transfer_peer_t *peer, const wire_header_t *header, const uint8_t *extra)
{
    link_t *link = &peer->link_past;
    carrier_blob_t answer = {.len = header->extra_bytes};
    char local[TRANSFER_ADDRESS_BYTES];
    const carrier_watch_t watch = {.changed = link_on_changed, .ctx = peer, .local = local};
    err_t err;

    if (!link->ops || link->link || header->count != link->ops->bit || !wire_status_valid(header->seq))
        return false;
    memcpy(answer.bytes, extra, answer.len);
    if (header->seq != STATUS_OK) {
        for (uint32_t i = 0; i < answer.len; i++)
            answer.bytes[i] = answer.bytes[i] < 0x20 || answer.bytes[i] > 0x7e ? '?' : answer.bytes[i];
        err_set(&err, (status_t)header->seq, "it says: %.*s", (int)answer.len, (const char *)answer.bytes);
        link_failed(peer, err.text);
        return true;
    }
    address_of_socket(peer->pc->conn.fd, local);
    carrier_client_t *client = NULL;
    for (const client_t *c = peer->pool->clients; c->ops; c++)
        client = c->ops == link->ops ? c->client : client;
    if (link->ops->link_open(client, &answer, &watch, &link->link, &err) != STATUS_OK) {
        link->link = NULL;
        link_failed(peer, err.text);
    }
    return true;
}

void link_end(transfer_peer_t *peer)
{
    link_drop(peer);
    peer->link_past.again_ns = 0;
}

bool link_stuck(const transfer_peer_t *peer, uint64_t now_ns)
{
    const link_t *link = &peer->link_past;
    bool waits = link->ops && (!link->ready || !TAILQ_EMPTY(&peer->carried));

    return waits && now_ns - link->moved_ns >= peer->pool->limits.stall_ns;
}

void link_give_up(transfer_peer_t *peer)
{
    link_failed(peer, "stalled");
}

/* ---- requests ---- */

static uint64_t results_bytes(const request_t *request)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < request->count; i++) {
        for (uint32_t k = 0; k < request->results[i].iov_count; k++)
            sum += request->results[i].iov[k].iov_len;
    }
    return sum;
}

static void carry_begin(transfer_peer_t *peer, request_t *request)
{
    if (TAILQ_EMPTY(&peer->carried))
        peer->link_past.moved_ns = (uint64_t)clock_now_ns();
    request->state = REQUEST_CARRIED;
    TAILQ_INSERT_TAIL(&peer->carried, request, link);
}

static void carry_fetch(transfer_peer_t *peer, request_t *request)
{
    request->job = (carrier_job_t){.done = carry_on_done,
                                   .items = request->items,
                                   .count = request->count,
                                   .max_item_bytes = peer->max_item_bytes};
    carry_begin(peer, request);
    peer->link_past.ops->get(peer->link_past.link, &request->job);
}

static bool carry_push(transfer_peer_t *peer, request_t *request)
{
    uint64_t bytes = results_bytes(request), at;

    if (bytes < PUT_LEAST_BYTES)
        return false;
    request->span = window_take(&peer->link_past.window, bytes, &at);
    if (request->span == WINDOW_SPAN_NONE)
        return false;
    request->window_at = (uint32_t)at;
    request->frame = peer_encode(peer, request);
    if (!request->frame) {
        carry_landed(request);
        return false;
    }
    request->job = (carrier_job_t){.done = carry_on_done,
                                   .iov = request->frame->iov + 1,
                                   .count = request->frame->iov_count - 1,
                                   .window_offset = at};
    carry_begin(peer, request);
    peer->link_past.ops->put(peer->link_past.link, &request->job);
    return true;
}

bool carry(transfer_peer_t *peer, request_t *request)
{
    link_t *link = &peer->link_past;

    if (peer->state == PEER_READY && !link->ready && link->again_ns &&
        (uint64_t)clock_now_ns() >= link->again_ns)
        link_attach(peer);
    if (!link->ready || !peer_within_limits(peer, request))
        return false;
    if (request->kind == WIRE_PUSH)
        return carry_push(peer, request);
    carry_fetch(peer, request);
    return true;
}

/* Of a push that did not leave. */
static void drop_frame(request_t *request)
{
    if (!request->frame)
        return;
    request->frame->request = NULL;
    frame_put(&request->pool->shared.frames, request->frame);
    request->frame = NULL;
}

void carry_landed(request_t *request)
{
    if (request->span != WINDOW_SPAN_NONE && request->peer)
        window_give(&request->peer->link_past.window, request->span);
    request->span = WINDOW_SPAN_NONE;
}

bool carry_cancel(request_t *request)
{
    transfer_peer_t *peer = request->peer;

    if (!peer->link_past.ops->cancel(peer->link_past.link, &request->job))
        return false;
    TAILQ_REMOVE(&peer->carried, request, link);
    drop_frame(request);
    carry_landed(request);
    return true;
}

void carry_leave(request_t *request, status_t status)
{
    TAILQ_REMOVE(&request->peer->carried, request, link);
    request->state = REQUEST_LEAVING;
    request->status = status;
    request->peer = NULL;
    request->span = WINDOW_SPAN_NONE; /* its room is lost until the link is made anew */
    TAILQ_INSERT_TAIL(&request->pool->leaving, request, link);
}

/* Some of it is not in the memory that the owner has laid open. */
static bool fetch_is_elsewhere(const request_t *request)
{
    for (uint32_t i = 0; i < request->count; i++) {
        if (request->items[i].status == STATUS_UNSUPPORTED)
            return true;
    }
    return false;
}

static void fetch_carried(transfer_peer_t *peer, request_t *request)
{
    request_count_items(request, peer->link_past.ops->way);
    request_finish(peer->pool, request, &peer->carried, STATUS_OK);
}

static void push_carried(transfer_peer_t *peer, request_t *request)
{
    TAILQ_REMOVE(&peer->carried, request, link);
    request->frame->iov_count = 1; /* the payloads are there */
    peer_send_frame(peer, request);
    conn_flush(&peer->pc->conn);
}

/* Back to where it would have gone without a link; what a socket cannot write to fails. */
static void carry_back(transfer_peer_t *peer, request_t *request)
{
    TAILQ_REMOVE(&peer->carried, request, link);
    drop_frame(request);
    request->span = WINDOW_SPAN_NONE;
    if (request->to_device) {
        request->state = REQUEST_FAILING;
        request->status = STATUS_UNAVAILABLE;
        TAILQ_INSERT_TAIL(&peer->pool->failing, request, link);
        return;
    }
    request->state = REQUEST_WAITING;
    TAILQ_INSERT_TAIL(&peer->waiting, request, link);
}

static void carry_by_socket(transfer_peer_t *peer, request_t *request)
{
    transfer_pool_t *pool = peer->pool;

    carry_back(peer, request);
    peer_send_waiting(peer);
    pool_end_failing(pool);
}

/* While a link is dropped nobody is called back, who might close its peer: whoever drops it does that in the end. */
static void carry_left(request_t *request)
{
    transfer_pool_t *pool = request->pool;

    drop_frame(request);
    TAILQ_REMOVE(&pool->leaving, request, link);
    request->state = REQUEST_FAILING;
    TAILQ_INSERT_TAIL(&pool->failing, request, link);
    if (!pool->dropping)
        pool_end_failing(pool);
}

static void carry_on_done(carrier_job_t *job, status_t status)
{
    request_t *request = CONTAINER_OF(job, request_t, job);
    transfer_peer_t *peer = request->peer;
    uint64_t now = (uint64_t)clock_now_ns();

    if (request->state == REQUEST_LEAVING) {
        carry_left(request);
        return;
    }
    peer->link_past.moved_ns = peer->used_ns = now;
    if (status != STATUS_OK)
        carry_back(peer, request); /* the link is breaking; its end sends it, or fails it */
    else if (request->kind == WIRE_FETCH && fetch_is_elsewhere(request))
        carry_by_socket(peer, request);
    else if (request->kind == WIRE_FETCH)
        fetch_carried(peer, request);
    else
        push_carried(peer, request);
}
