/* The pool: its peers, and the beginning, cancelling and time-outs of its requests. A hot path. */
#include "transfer/pool.h"
#include "base/clock.h"
#include "transfer/ask.h"
#include "transfer/carry.h"

#include <stdlib.h>
#include <sys/random.h>

/* ---- requests ---- */

static transfer_request_t request_id(const transfer_pool_t *pool, const request_t *request)
{
    return (uint64_t)(request->generation + 1) << 32 | (uint32_t)(request - pool->requests);
}

static request_t *request_find(transfer_pool_t *pool, transfer_request_t id)
{
    uint32_t index = (uint32_t)id;

    if (index >= pool->requests_used)
        return NULL;
    request_t *request = &pool->requests[index];
    return request->state != REQUEST_FREE && request_id(pool, request) == id ? request : NULL;
}

/* Takes a request off its connection, as far as that can be done, and tells its owner. */
static bool request_give_up(request_t *request, status_t status)
{
    transfer_peer_t *peer = request->peer;
    transfer_pool_t *pool = request->pool;
    transfer_done_fn done = request->done;
    void *ctx = request->ctx;

    switch (request->state) {
    case REQUEST_CARRIED:
        if (!carry_cancel(request))
            return false;
        request_mark_items(request, status);
        request_free(pool, request);
        done(ctx, status);
        return true;
    case REQUEST_FAILING:
        request_finish(pool, request, &pool->failing, status);
        return true;
    case REQUEST_WAITING:
        request_finish(pool, request, &peer->waiting, status);
        return true;
    case REQUEST_PACED:
        ask_cut(request);
        request_finish(pool, request, &peer->paced, status);
        return true;
    case REQUEST_SENT:
        break;
    default:
        return false;
    }
    if (request->frame && !frame_started(request->frame)) {
        conn_withdraw(&peer->pc->conn, request->frame);
        request->frame = NULL;
        carry_landed(request);
        request_finish(pool, request, &peer->sent, status);
        return true;
    }
    if (request->frame && request->kind == WIRE_PUSH)
        return false;
    request_mark_items(request, status);
    peer_make_ghost(peer, request);
    done(ctx, status);
    return true;
}

bool transfer_cancel(transfer_pool_t *pool, transfer_request_t id)
{
    request_t *request = request_find(pool, id);

    return request && request_give_up(request, STATUS_CANCELLED);
}

/* ---- time-outs ---- */

static void pool_on_timeout(uv_timer_t *timer);

static void pool_arm(transfer_pool_t *pool, uint64_t at_ns, uint64_t now_ns)
{
    if (at_ns == 0 || (pool->timeout_at_ns != 0 && pool->timeout_at_ns <= at_ns))
        return;
    pool->timeout_at_ns = at_ns;
    uint64_t ms = at_ns > now_ns ? (at_ns - now_ns + 999999) / 1000000 : 0;
    uv_update_time(pool->loop);
    uv_timer_start(&pool->timeout, pool_on_timeout, ms, 0);
}

static bool request_is_open(const request_t *request)
{
    return request->state == REQUEST_WAITING || request->state == REQUEST_PACED ||
           request->state == REQUEST_SENT || request->state == REQUEST_CARRIED;
}

/* One that is due; also finds when the next of the others is. */
static request_t *pool_next_due(transfer_pool_t *pool, uint64_t now_ns, uint64_t *next_ns)
{
    *next_ns = 0;
    for (uint32_t i = 0; i < pool->requests_used; i++) {
        request_t *request = &pool->requests[i];
        if (!request_is_open(request) || request->deadline_ns == 0)
            continue;
        if (request->deadline_ns <= now_ns)
            return request;
        if (*next_ns == 0 || request->deadline_ns < *next_ns)
            *next_ns = request->deadline_ns;
    }
    return NULL;
}

/*
 * Walks the request slots: few, and only when the earliest of the deadlines has really come, which in a
 * healthy system is once per time-out period and not once per request.
 */
static void pool_on_timeout(uv_timer_t *timer)
{
    transfer_pool_t *pool = timer->data;
    uint64_t now = (uint64_t)clock_now_ns(), next;
    request_t *request;

    pool->timeout_at_ns = 0;
    while ((request = pool_next_due(pool, now, &next))) {
        /* A push that is stuck half-way can only end with its connection, and memory that is in use is waited for. */
        if (request_give_up(request, STATUS_DEADLINE_EXCEEDED))
            continue;
        if (request->state == REQUEST_CARRIED)
            carry_leave(request, STATUS_DEADLINE_EXCEEDED);
        else
            peer_fail(request->peer, false, "a push timed out half-way");
    }
    pool_arm(pool, next, now);
}

static bool peer_idle_too_long(const transfer_peer_t *peer, uint64_t now)
{
    return peer_is_idle(peer) && now - peer->used_ns >= peer->pool->limits.idle_ns;
}

/* Requests are out and not a byte comes back: a gateway that hangs would collect ghosts without end. */
static bool peer_silent(transfer_peer_t *peer, uint64_t now, uint64_t stall_ns)
{
    uint64_t received = peer->pc->conn.rx.bytes;

    if (TAILQ_EMPTY(&peer->sent) || received != peer->seen_bytes) {
        peer->seen_bytes = received;
        peer->silent_since_ns = now;
    }
    return now - peer->silent_since_ns >= stall_ns;
}

static bool peer_stuck(transfer_peer_t *peer, uint64_t now)
{
    uint64_t stall_ns = peer->pool->limits.stall_ns;

    if (peer->state == PEER_READY)
        return conn_stalled(&peer->pc->conn, now, stall_ns) || peer_silent(peer, now, stall_ns);
    return peer->state != PEER_IDLE && now - peer->since_ns >= stall_ns;
}

static void pool_on_sweep(uv_timer_t *timer)
{
    transfer_pool_t *pool = timer->data;
    uint64_t now = (uint64_t)clock_now_ns();
    transfer_peer_t *peer;

    TAILQ_FOREACH(peer, &pool->peers, link)
    {
        if (peer_idle_too_long(peer, now))
            peer_detach(peer);
    }
    pool_end_failing(pool);
    TAILQ_FOREACH(peer, &pool->peers, link)
    {
        if (link_stuck(peer, now))
            break;
    }
    if (peer)
        link_give_up(peer); /* calls back: the others are for the next sweep */
    /* Failing calls back, which may close any peer: begin again after each. */
    for (peer = TAILQ_FIRST(&pool->peers); peer;) {
        if (peer_stuck(peer, now)) {
            peer_fail(peer, true, "stalled");
            peer = TAILQ_FIRST(&pool->peers);
        } else {
            peer = TAILQ_NEXT(peer, link);
        }
    }
}

/* ---- pool and peers ---- */

static void pool_on_handle_closed(uv_handle_t *handle)
{
    transfer_pool_t *pool = handle->data;

    if (--pool->handles == 0)
        free(pool);
}

status_t transfer_pool_create(const transfer_pool_options_t *options, transfer_pool_t **out, err_t *err)
{
    transfer_pool_t *pool = calloc(1, sizeof(*pool));
    const transfer_limits_t limits = limits_with_defaults(&options->limits);
    request_t *requests = calloc(limits.max_requests, sizeof(*requests));
    uint64_t sweep_ms = limits_sweep_ms(&limits);

    if (!pool || !requests) {
        free(pool);
        free(requests);
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    }
    pool->loop = options->loop;
    pool->limits = limits;
    pool->trust = options->trust;
    pool->requests = requests;
    if (!asks_init(pool)) {
        free(pool);
        free(requests);
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    }
    (void)getrandom(&pool->instance_id, sizeof(pool->instance_id),
                    0); /* names it to people; nonces are what counts */
    TAILQ_INIT(&pool->peers);
    TAILQ_INIT(&pool->free);
    TAILQ_INIT(&pool->failing);
    TAILQ_INIT(&pool->leaving);
    frame_pool_init(&pool->shared.frames);
    pool->handles = 3;
    uv_timer_init(pool->loop, &pool->sweep);
    uv_timer_init(pool->loop, &pool->timeout);
    pool->sweep.data = pool;
    pool->timeout.data = pool;
    uv_timer_start(&pool->sweep, pool_on_sweep, sweep_ms, sweep_ms);
    clients_open(pool, options->choice, options->spin);
    *out = pool;
    return STATUS_OK;
}

void transfer_pool_destroy(transfer_pool_t *pool)
{
    transfer_peer_t *peer;

    if (!pool)
        return;
    while ((peer = TAILQ_FIRST(&pool->peers)))
        transfer_peer_close(peer);
    clients_close(pool);
    frame_pool_dispose(&pool->shared.frames);
    free(pool->requests);
    pool->requests = NULL;
    asks_dispose(pool);
    asks_close(pool, pool_on_handle_closed);
    uv_close((uv_handle_t *)&pool->sweep, pool_on_handle_closed);
    uv_close((uv_handle_t *)&pool->timeout, pool_on_handle_closed);
}

void transfer_pool_stats(const transfer_pool_t *pool, transfer_stats_t *stats)
{
    const carrier_buffers_t buffers = clients_buffers(pool);

    *stats = pool->stats;
    stats->registered_bytes = buffers.registered_bytes;
    stats->refused_bytes = buffers.refused_bytes;
}

status_t transfer_peer_open(transfer_pool_t *pool, const char *address, uint64_t instance_id,
                            transfer_peer_t **out, err_t *err)
{
    transfer_peer_t *peer = calloc(1, sizeof(*peer));

    if (!peer)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    status_t status = address_split(address, peer->host, peer->port, err);
    if (status != STATUS_OK) {
        free(peer);
        return status;
    }
    peer->pool = pool;
    peer->instance_id = instance_id;
    peer->backoff_ns = UINT64_C(10000000);
    TAILQ_INIT(&peer->waiting);
    TAILQ_INIT(&peer->paced);
    TAILQ_INIT(&peer->carried);
    TAILQ_INIT(&peer->sent);
    TAILQ_INSERT_TAIL(&pool->peers, peer, link);
    *out = peer;
    return STATUS_OK;
}

void transfer_peer_connect(transfer_peer_t *peer)
{
    peer_start(peer);
}

void transfer_peer_close(transfer_peer_t *peer)
{
    if (!peer)
        return;
    TAILQ_REMOVE(&peer->pool->peers, peer, link);
    peer->closing = true; /* callbacks may still ask for more */
    peer_fail(peer, false, "closed here");
    free(peer);
}

static status_t items_check(const transfer_pool_t *pool, const transfer_item_t *items, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint64_t sum = 0;
        if (items[i].len_bytes > pool->limits.max_item_bytes)
            return STATUS_TOO_LARGE;
        for (uint32_t k = 0; k < items[i].iov_count; k++)
            sum += items[i].iov[k].iov_len;
        if (sum != items[i].len_bytes)
            return STATUS_INVALID_ARGUMENT;
    }
    return STATUS_OK;
}

static status_t results_check(const transfer_pool_t *pool, const transfer_result_t *results, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint64_t sum = 0;
        for (uint32_t k = 0; k < results[i].iov_count; k++)
            sum += results[i].iov[k].iov_len;
        if (sum > pool->limits.max_item_bytes)
            return STATUS_TOO_LARGE;
        if (results[i].status != STATUS_OK && sum != 0)
            return STATUS_INVALID_ARGUMENT;
    }
    return STATUS_OK;
}

static void request_set_deadline(transfer_pool_t *pool, request_t *request, uint64_t timeout_ns)
{
    uint64_t now = (uint64_t)clock_now_ns();

    request->deadline_ns = now + timeout_ns;
    pool_arm(pool, request->deadline_ns, now);
}

/* On a connection that stands the request leaves now. If it cannot, the caller hears it here and not by a
 * callback. */
static status_t request_start(transfer_peer_t *peer, const request_t *wanted, uint64_t timeout_ns,
                              transfer_request_t *id)
{
    transfer_pool_t *pool = peer->pool;

    if (!peer_start(peer))
        return STATUS_UNAVAILABLE;
    request_t *request = request_take(pool);
    if (!request)
        return STATUS_NO_MEMORY;
    uint32_t generation = request->generation;
    *request = *wanted;
    request->generation = generation;
    request->pool = pool;
    request->peer = peer;
    request->span = WINDOW_SPAN_NONE;
    bool carried = carry(peer, request);
    if (!carried && request->to_device) {
        request_free(pool, request);
        return STATUS_UNAVAILABLE;
    }
    if (!carried) {
        request->state = REQUEST_WAITING;
        TAILQ_INSERT_TAIL(&peer->waiting, request, link);
        peer_send_waiting(peer);
    }
    if (request->state == REQUEST_FAILING) {
        status_t status = request->status;
        TAILQ_REMOVE(&pool->failing, request, link);
        request_free(pool, request);
        return status;
    }
    if (timeout_ns)
        request_set_deadline(pool, request, timeout_ns);
    if (id)
        *id = request_id(pool, request);
    return STATUS_OK;
}

status_t pool_fetch(transfer_peer_t *peer, const request_t *wanted, uint64_t timeout_ns,
                    transfer_request_t *id)
{
    if (wanted->count == 0)
        return STATUS_INVALID_ARGUMENT;
    if (wanted->count > peer->pool->limits.max_items)
        return STATUS_TOO_LARGE;
    status_t status = items_check(peer->pool, wanted->items, wanted->count);
    return status == STATUS_OK ? request_start(peer, wanted, timeout_ns, id) : status;
}

status_t transfer_fetch(transfer_peer_t *peer, transfer_item_t *items, uint32_t count, uint64_t timeout_ns,
                        transfer_done_fn done, void *ctx, transfer_request_t *id)
{
    const request_t wanted = {.kind = WIRE_FETCH, .count = count, .items = items, .done = done, .ctx = ctx};

    return pool_fetch(peer, &wanted, timeout_ns, id);
}

status_t transfer_push(transfer_peer_t *peer, const transfer_result_t *results, uint32_t count,
                       uint64_t timeout_ns, transfer_done_fn done, void *ctx, transfer_request_t *id)
{
    request_t wanted = {.kind = WIRE_PUSH, .count = count, .results = results, .done = done, .ctx = ctx};
    status_t status;

    if (count == 0)
        return STATUS_INVALID_ARGUMENT;
    if (count > peer->pool->limits.max_items)
        return STATUS_TOO_LARGE;
    status = results_check(peer->pool, results, count);
    return status == STATUS_OK ? request_start(peer, &wanted, timeout_ns, id) : status;
}
