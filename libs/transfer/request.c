/* A request's slot, what it holds, and what is counted of it. A hot path: slots are made at the start. */
#include "transfer/pool.h"

request_t *request_take(transfer_pool_t *pool)
{
    request_t *request = TAILQ_FIRST(&pool->free);

    if (request)
        TAILQ_REMOVE(&pool->free, request, link);
    else if (pool->requests_used < pool->limits.max_requests)
        request = &pool->requests[pool->requests_used++];
    return request;
}

/* ---- credit ---- */

void request_give_credit(request_t *request, bool received)
{
    if (request->peer)
        request->peer->credit_bytes -= request->credit_bytes;
    pace_give(&request->pool->pace, request->credit_bytes, received);
    request->credit_bytes = 0;
}

void request_drop_turn(request_t *request)
{
    pace_leave(&request->pool->pace, &request->turn);
    if (request->credit_bytes)
        request_give_credit(request, false);
}

/* ---- its end ---- */

void request_free(transfer_pool_t *pool, request_t *request)
{
    if (request->frame)
        request->frame->request = NULL;
    request->frame = NULL;
    request_drop_turn(request);
    request->state = REQUEST_FREE;
    if (request->is_part) {
        TAILQ_INSERT_HEAD(&pool->free_parts, request, link);
        return;
    }
    request->generation = (request->generation + 1) & INT32_MAX;
    TAILQ_INSERT_HEAD(&pool->free, request, link);
}

void peer_make_ghost(transfer_peer_t *peer, request_t *request)
{
    conn_t *conn = &peer->pc->conn;

    request->state = REQUEST_GHOST;
    if (conn->rx.stage == CONN_PAYLOAD && request == TAILQ_FIRST(&peer->sent))
        conn_discard(conn);
}

/* ---- counting ---- */

uint64_t result_bytes(const transfer_result_t *result)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < result->iov_count; i++)
        sum += result->iov[i].iov_len;
    return sum;
}

void request_count_results(transfer_peer_t *peer, const request_t *request)
{
    bool landed = request->span != WINDOW_SPAN_NONE;
    transfer_traffic_t *by = &peer->pool->stats.by[landed ? peer->link_past.ops->way : TRANSFER_BY_TCP];

    by->results += request->count;
    for (uint32_t i = 0; i < request->count; i++)
        by->result_bytes += result_bytes(&request->results[i]);
}

void request_count_items(const request_t *request, transfer_way_t way)
{
    transfer_stats_t *stats = &request->pool->stats;

    for (uint32_t i = 0; i < request->count; i++) {
        if (request->items[i].status != STATUS_OK) {
            stats->item_errors++;
            continue;
        }
        stats->by[way].items++;
        stats->by[way].item_bytes += request->items[i].len_bytes;
    }
}
