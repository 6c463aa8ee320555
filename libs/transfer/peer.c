/* One peer: connecting, greeting, receiving the answers of requests. A hot path. */
#include "base/clock.h"
#include "base/log.h"
#include "transfer/ask.h"
#include "transfer/carry.h"
#include "transfer/pool.h"
#include "transfer/proof.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static const uint64_t BACKOFF_MIN_NS = UINT64_C(10000000);
static const uint64_t BACKOFF_MAX_NS = UINT64_C(1000000000);

static transfer_peer_t *peer_of(conn_t *conn)
{
    return ((peer_conn_t *)conn)->peer;
}

/* ---- the end of a connection ---- */

static void peer_drop_addresses(transfer_peer_t *peer)
{
    if (peer->addresses)
        uv_freeaddrinfo(peer->addresses);
    peer->addresses = NULL;
    peer->address = NULL;
}

static void peer_count(transfer_peer_t *peer, int by)
{
    peer->pool->stats.connections += (uint32_t)by;
    peer->pool->stats.by[TRANSFER_BY_TCP].connections += (uint32_t)by;
}

void peer_detach(transfer_peer_t *peer)
{
    peer_conn_t *pc = peer->pc;

    peer->pc = NULL;
    peer->state = PEER_IDLE;
    link_end(peer);
    peer_drop_addresses(peer);
    if (peer->lookup) {
        peer->lookup->peer = NULL;
        uv_cancel((uv_req_t *)&peer->lookup->request);
        peer->lookup = NULL;
    }
    if (pc) {
        if (conn_stands(&pc->conn))
            peer_count(peer, -1);
        conn_close(&pc->conn, false, "");
        pc->peer = NULL;
    }
}

static void list_fail(transfer_pool_t *pool, struct request_list *list)
{
    request_t *request;

    while ((request = TAILQ_FIRST(list))) {
        TAILQ_REMOVE(list, request, link);
        if (request->state == REQUEST_GHOST || request->is_part) {
            request_free(pool, request);
            continue;
        }
        request_drop_turn(request);
        request->state = REQUEST_FAILING;
        request->status = STATUS_UNAVAILABLE;
        TAILQ_INSERT_TAIL(&pool->failing, request, link);
    }
}

static void peer_back_off(transfer_peer_t *peer)
{
    peer->retry_at_ns = (uint64_t)clock_now_ns() + peer->backoff_ns;
    peer->backoff_ns = peer->backoff_ns * 2 < BACKOFF_MAX_NS ? peer->backoff_ns * 2 : BACKOFF_MAX_NS;
}

void peer_fail(transfer_peer_t *peer, bool backoff, const char *why)
{
    transfer_pool_t *pool = peer->pool;

    if (backoff)
        peer_back_off(peer);
    if (!TAILQ_EMPTY(&peer->waiting) || !TAILQ_EMPTY(&peer->paced) || !TAILQ_EMPTY(&peer->sent))
        log_warn_limited("data_peer_lost", LOG_STR("host", peer->host), LOG_STR("port", peer->port),
                         LOG_STR("reason", why));
    peer_detach(peer);
    list_fail(pool, &peer->sent);
    list_fail(pool, &peer->paced);
    list_fail(pool, &peer->waiting);
    /* All are collected; from here on callbacks may do what they like, closing this peer included. */
    pool_end_failing(pool);
}

/* ---- what goes out ---- */

static bool peer_send_hello(transfer_peer_t *peer)
{
    const transfer_limits_t *limits = &peer->pool->limits;
    frame_t *frame = peer_frame(peer, &(wire_header_t){.type = WIRE_HELLO, .count = 1}, WIRE_HELLO_BYTES, 0);

    if (!frame)
        return false;
    wire_put_hello(frame->meta + WIRE_HEADER_BYTES, &(wire_hello_t){.min_version = WIRE_VERSION,
                                                                    .max_version = WIRE_VERSION,
                                                                    .max_items = limits->max_items,
                                                                    .max_item_bytes = limits->max_item_bytes,
                                                                    .instance_id = peer->instance_id,
                                                                    .carriers = clients_bits(peer->pool)});
    conn_send(&peer->pc->conn, frame);
    return true;
}

static bool peer_send_challenge(transfer_peer_t *peer)
{
    if (!proof_challenge(peer->pool->instance_id, &peer->challenge))
        return false;
    frame_t *frame =
        peer_frame(peer, &(wire_header_t){.type = WIRE_CHALLENGE, .count = 1}, WIRE_CHALLENGE_BYTES, 0);
    if (!frame)
        return false;
    wire_put_challenge(frame->meta + WIRE_HEADER_BYTES, &peer->challenge);
    conn_send(&peer->pc->conn, frame);
    return true;
}

/* ---- who is there ---- */

static bool peer_refuse(transfer_peer_t *peer, transfer_refusal_t refusal, const char *why)
{
    peer->pool->stats.refused[refusal]++;
    log_error_limited("data_gateway_not_proved", LOG_STR("host", peer->host), LOG_STR("port", peer->port),
                      LOG_STR("reason", transfer_refusal_name(refusal)), LOG_STR("why", why));
    return false;
}

static bool peer_on_challenge(transfer_peer_t *peer, const uint8_t *record)
{
    frame_t *frame = peer_frame(peer, &(wire_header_t){.type = WIRE_PROOF, .count = 1}, WIRE_PROOF_BYTES, 0);

    if (!frame)
        return false;
    wire_get_challenge(record, &peer->answered);
    if (!proof_make(peer->pool->trust.secret, PROOF_WORKER, &peer->challenge, &peer->answered,
                    frame->meta + WIRE_HEADER_BYTES)) {
        frame_put(&peer->pool->shared.frames, frame);
        return false;
    }
    conn_send(&peer->pc->conn, frame);
    peer->state = PEER_PROVING;
    return true;
}

static bool peer_on_proof(transfer_peer_t *peer, const uint8_t *record)
{
    if (!proof_holds(peer->pool->trust.secret, PROOF_GATEWAY, &peer->challenge, &peer->answered, record))
        return peer_refuse(peer, TRANSFER_REFUSED_PROOF,
                           "it has another --cluster-secret than this worker's");
    peer->state = PEER_GREETING;
    return peer_send_hello(peer);
}

/* ---- what comes in ---- */

static bool peer_accept(conn_t *conn, const wire_header_t *header, size_t *records_bytes)
{
    transfer_peer_t *peer = peer_of(conn);
    const request_t *request = TAILQ_FIRST(&peer->sent);

    if (header->type == WIRE_ATTACHED) {
        *records_bytes = header->extra_bytes;
        return peer->state == PEER_READY && header->extra_bytes <= CARRIER_BLOB_BYTES;
    }
    if (header->extra_bytes != 0)
        return false;
    switch (header->type) {
    case WIRE_BYE:
        *records_bytes = WIRE_BYE_BYTES;
        return true;
    case WIRE_CHALLENGE:
        *records_bytes = WIRE_CHALLENGE_BYTES;
        return peer->state == PEER_CHALLENGING && header->count == 1;
    case WIRE_PROOF:
        *records_bytes = WIRE_PROOF_BYTES;
        return peer->state == PEER_PROVING && header->count == 1;
    case WIRE_HELLO:
        *records_bytes = WIRE_HELLO_BYTES;
        return peer->state == PEER_GREETING && header->count == 1;
    case WIRE_DATA:
        *records_bytes = (size_t)header->count * WIRE_STATE_BYTES;
        break;
    case WIRE_ACK:
        *records_bytes = 0;
        break;
    default:
        return false;
    }
    /* Answers come in the order of the requests, and never before the request has wholly left. */
    return peer->state == PEER_READY && request && !request->frame && request->seq == header->seq &&
           request->count == header->count && (request->kind == WIRE_FETCH) == (header->type == WIRE_DATA);
}

static bool peer_on_hello(transfer_peer_t *peer, const uint8_t *record)
{
    wire_hello_t hello;

    wire_get_hello(record, &hello);
    if (hello.min_version > WIRE_VERSION || hello.max_version < WIRE_VERSION || hello.max_items == 0 ||
        hello.max_items > peer->pool->limits.max_items ||
        hello.max_item_bytes > peer->pool->limits.max_item_bytes)
        return false;
    peer->max_items = hello.max_items;
    peer->max_item_bytes = hello.max_item_bytes;
    peer->state = PEER_READY;
    peer->used_ns = peer->silent_since_ns = (uint64_t)clock_now_ns();
    peer->seen_bytes = peer->heard_bytes = 0;
    peer->muted = peer->asked_at_tick = false; /* what the connection before has not answered has failed */
    peer->backoff_ns = BACKOFF_MIN_NS;
    peer->retry_at_ns = 0;
    peer_drop_addresses(peer);
    link_greeted(peer, hello.carriers);
    return true;
}

bool peer_is_idle(const transfer_peer_t *peer)
{
    bool link_is_made = peer->link_past.ops && !peer->link_past.ready;

    return peer->state == PEER_READY && !link_is_made && TAILQ_EMPTY(&peer->sent) &&
           TAILQ_EMPTY(&peer->waiting) && TAILQ_EMPTY(&peer->paced) && TAILQ_EMPTY(&peer->carried);
}

/* Asked to leave: what is on its way is answered all the same, and shows the owner that it is needed. The next request connects anew. */
static bool peer_on_asked_to_leave(transfer_peer_t *peer)
{
    if (peer_is_idle(peer))
        peer_detach(peer);
    return true;
}

static bool peer_on_bye(transfer_peer_t *peer, const wire_header_t *header, const uint8_t *record)
{
    char text[WIRE_BYE_BYTES];

    if (header->count == STATUS_OK && peer->state == PEER_READY)
        return peer_on_asked_to_leave(peer);
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = record[i] && (record[i] < 0x20 || record[i] > 0x7e) ? '?' : (char)record[i];
    text[sizeof(text) - 1] = '\0';
    log_error_limited("data_peer_refused", LOG_STR("host", peer->host), LOG_STR("port", peer->port),
                      LOG_U64("code", header->count), LOG_STR("reason", text));
    return false;
}

/* The state of one item; its segments are the caller's iovs. */
static bool peer_expect_item(conn_t *conn, const request_t *request, uint32_t i, const wire_state_t *state)
{
    bool ghost = request->state == REQUEST_GHOST;
    uint64_t begin, end;

    if (!wire_status_valid(state->status) || state->len_bytes > request->peer->max_item_bytes)
        return false;
    if (ghost)
        return conn_expect(conn, NULL, state->len_bytes);

    transfer_item_t *item = &request->items[i];
    begin = request_begin(request, i);
    end = request_end(request, i);
    if (state->len_bytes != (state->status == STATUS_OK ? end - begin : 0))
        return false;
    if (state->status != STATUS_OK) {
        item->status = state->status;
        return true;
    }
    for (uint32_t k = 0; k < item->iov_count && end > 0; k++) {
        uint64_t len = item->iov[k].iov_len, skip = begin < len ? begin : len, stop = end < len ? end : len;
        if (stop > skip && !conn_expect(conn, (uint8_t *)item->iov[k].iov_base + skip, stop - skip))
            return false;
        begin -= skip;
        end -= stop;
    }
    return true;
}

static bool peer_on_data(conn_t *conn, transfer_peer_t *peer, const wire_header_t *header,
                         const uint8_t *records)
{
    const request_t *request = TAILQ_FIRST(&peer->sent);

    for (uint32_t i = 0; i < header->count; i++) {
        wire_state_t state;
        wire_get_state(records + (size_t)i * WIRE_STATE_BYTES, &state);
        if (!peer_expect_item(conn, request, i, &state))
            return false;
    }
    return true;
}

static bool peer_frame_in(conn_t *conn, const wire_header_t *header, const uint8_t *records)
{
    transfer_peer_t *peer = peer_of(conn);

    switch (header->type) {
    case WIRE_CHALLENGE:
        return peer_on_challenge(peer, records);
    case WIRE_PROOF:
        return peer_on_proof(peer, records);
    case WIRE_HELLO:
        return peer_on_hello(peer, records);
    case WIRE_BYE:
        return peer_on_bye(peer, header, records);
    case WIRE_DATA:
        return peer_on_data(conn, peer, header, records);
    case WIRE_ATTACHED:
        return link_attached(peer, header, records);
    default:
        return true;
    }
}

static void peer_complete_fetch(transfer_peer_t *peer, request_t *request)
{
    transfer_pool_t *pool = peer->pool;
    bool is_part = request->is_part;

    if (is_part && !ask_part_done(request, &request)) {
        ask_next(pool);
        return;
    }
    request_count_items(request, TRANSFER_BY_TCP);
    request_finish(pool, request, is_part ? &peer->paced : &peer->sent, STATUS_OK);
}

static void peer_complete(conn_t *conn)
{
    transfer_peer_t *peer = peer_of(conn);
    transfer_pool_t *pool = peer->pool;
    request_t *request = TAILQ_FIRST(&peer->sent);

    if (conn->rx.header.type == WIRE_HELLO) {
        peer_send_waiting(peer);
        pool_end_failing(pool);
        return;
    }
    if (conn->rx.header.type != WIRE_DATA && conn->rx.header.type != WIRE_ACK)
        return;
    peer->used_ns = (uint64_t)clock_now_ns();
    ask_received(request);
    if (request->state == REQUEST_GHOST) {
        carry_landed(request);
        TAILQ_REMOVE(&peer->sent, request, link);
        request_free(pool, request);
        ask_next(pool);
        return;
    }
    if (request->kind == WIRE_FETCH) {
        peer_complete_fetch(peer, request);
        return;
    }
    request_count_results(peer, request);
    carry_landed(request);
    request_finish(pool, request, &peer->sent, STATUS_OK);
}

static void peer_sent(conn_t *conn, frame_t *frame)
{
    (void)conn;
    if (frame->request)
        ((request_t *)frame->request)->frame = NULL;
}

/* ---- connecting ---- */

static bool peer_try_addresses(transfer_peer_t *peer);

static void peer_connected(conn_t *conn)
{
    transfer_peer_t *peer = peer_of(conn);

    const transfer_secret_t *secret = peer->pool->trust.secret;

    peer->state = secret ? PEER_CHALLENGING : PEER_GREETING;
    peer->pool->stats.connects++;
    peer_count(peer, 1);
    if (!(secret ? peer_send_challenge(peer) : peer_send_hello(peer)))
        conn_close(conn, false, "out of memory");
}

/* The owner shows no certificate that will do; or ours will not do, of which TLS 1.3 tells a client after its own handshake. */
static bool peer_ended_by_tls(const transfer_peer_t *peer, bool protocol)
{
    const conn_t *conn = &peer->pc->conn;
    bool early = peer->state == PEER_GREETING && conn->rx.bytes == 0;

    return peer->pool->trust.tls && !conn->connecting && (conn->securing || (protocol && early));
}

/* What the log of an end should say that came before it was known who is there. */
static const char *peer_explain(transfer_peer_t *peer, bool protocol, const char *why)
{
    if (peer_ended_by_tls(peer, protocol))
        peer_refuse(peer, TRANSFER_REFUSED_TLS, why);
    if (peer->state != PEER_CHALLENGING || protocol)
        return why;
    peer_refuse(peer, TRANSFER_REFUSED_NONE, "it hung up when asked for a proof: an older version?");
    return "closed before it had proved the cluster secret";
}

static void peer_closed(conn_t *conn, bool protocol, const char *why)
{
    transfer_peer_t *peer = peer_of(conn);

    if (!peer || !peer->pc)
        return; /* we let go of it ourselves */
    if (protocol)
        peer->pool->stats.protocol_errors++;
    why = peer_explain(peer, protocol, why);
    if (peer->state == PEER_CONNECTING) {
        peer->pc->peer = NULL;
        peer->pc = NULL;
        peer->address = peer->address->ai_next;
        if (!peer_try_addresses(peer))
            peer_fail(peer, true, why);
        return;
    }
    peer_conn_t *pc = peer->pc;
    peer_count(peer, -1);
    peer->pc = NULL;
    pc->peer = NULL;
    peer_fail(peer, peer->state != PEER_READY || protocol, why);
}

static void peer_freed(conn_t *conn)
{
    free(conn);
}

static const conn_ops_t peer_conn_ops = {
    .connected = peer_connected,
    .accept = peer_accept,
    .frame = peer_frame_in,
    .complete = peer_complete,
    .sent = peer_sent,
    .closed = peer_closed,
    .freed = peer_freed,
};

/* Starts a connection to peer->address; false: this address will not do. */
static bool peer_open_socket(transfer_peer_t *peer)
{
    const struct addrinfo *to = peer->address;
    int fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return false;
    if (connect(fd, to->ai_addr, to->ai_addrlen) != 0 && errno != EINPROGRESS) {
        close(fd);
        return false;
    }
    peer_conn_t *pc = calloc(1, sizeof(*pc));
    if (!pc) {
        close(fd);
        return false;
    }
    pc->peer = peer;
    /* A connection that stands at once is reported writable at once, so both ways are one. */
    if (conn_init(&pc->conn, peer->pool->loop, fd, true, &peer_conn_ops, &peer->pool->shared) != STATUS_OK) {
        free(pc);
        return false;
    }
    if (peer->pool->trust.tls && !conn_secure(&pc->conn, peer->pool->trust.tls)) {
        pc->peer = NULL;
        conn_close(&pc->conn, false, "out of memory");
        return false;
    }
    peer->pc = pc;
    peer->state = PEER_CONNECTING;
    return true;
}

static bool peer_try_addresses(transfer_peer_t *peer)
{
    for (; peer->address; peer->address = peer->address->ai_next) {
        if (peer_open_socket(peer))
            return true;
    }
    return false;
}

static void peer_on_lookup(uv_getaddrinfo_t *req, int status, struct addrinfo *addresses)
{
    peer_lookup_t *lookup = (peer_lookup_t *)req;
    transfer_peer_t *peer = lookup->peer;

    free(lookup);
    if (!peer) {
        if (status == 0)
            uv_freeaddrinfo(addresses);
        return;
    }
    peer->lookup = NULL;
    peer->addresses = peer->address = status == 0 ? addresses : NULL;
    if (!peer_try_addresses(peer))
        peer_fail(peer, true, status == 0 ? "no address can be connected to" : uv_strerror(status));
}

/* A numeric address needs no look-up and no other thread. */
static bool peer_start_numeric(transfer_peer_t *peer)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};

    if (getaddrinfo(peer->host, peer->port, &hints, &peer->addresses) != 0) {
        peer->addresses = NULL;
        return false;
    }
    peer->address = peer->addresses;
    return true;
}

static bool peer_start_lookup(transfer_peer_t *peer)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    peer_lookup_t *lookup = calloc(1, sizeof(*lookup));

    if (!lookup)
        return false;
    lookup->peer = peer;
    if (uv_getaddrinfo(peer->pool->loop, &lookup->request, peer_on_lookup, peer->host, peer->port, &hints) !=
        0) {
        free(lookup);
        return false;
    }
    peer->lookup = lookup;
    peer->state = PEER_RESOLVING;
    return true;
}

bool peer_start(transfer_peer_t *peer)
{
    uint64_t now = (uint64_t)clock_now_ns();

    if (peer->state != PEER_IDLE)
        return true;
    if (peer->closing || now < peer->retry_at_ns)
        return false;
    peer->since_ns = now;
    if (peer_start_numeric(peer) ? peer_try_addresses(peer) : peer_start_lookup(peer))
        return true;
    /* Nothing is under way on an idle peer, so nobody needs to be told. */
    peer_back_off(peer);
    peer_detach(peer);
    return false;
}
