/* What goes on when something has ended or begun: requests that wait are sent, and those that are over are told of. A hot path. */
#include "transfer/ask.h"

static bool peer_send(transfer_peer_t *peer, request_t *request)
{
    request->frame = peer_encode(peer, request);
    if (!request->frame)
        return false;
    TAILQ_REMOVE(&peer->waiting, request, link);
    peer_send_frame(peer, request);
    return true;
}

void peer_send_waiting(transfer_peer_t *peer)
{
    transfer_pool_t *pool = peer->pool;
    request_t *request, *next;

    if (peer->state != PEER_READY)
        return;
    for (request = TAILQ_FIRST(&peer->waiting); request; request = next) {
        next = TAILQ_NEXT(request, link);
        bool within = peer_within_limits(peer, request);
        if (within && request->kind == WIRE_FETCH) {
            TAILQ_REMOVE(&peer->waiting, request, link);
            ask(peer, request);
            continue;
        }
        status_t status = !within                     ? STATUS_TOO_LARGE
                          : !peer_send(peer, request) ? STATUS_NO_MEMORY
                                                      : STATUS_OK;
        if (status == STATUS_OK)
            continue;
        TAILQ_REMOVE(&peer->waiting, request, link);
        request->state = REQUEST_FAILING;
        request->status = status;
        TAILQ_INSERT_TAIL(&pool->failing, request, link);
    }
    ask_next(pool);
    conn_flush(&peer->pc->conn);
}

void request_mark_items(request_t *request, status_t status)
{
    if (status == STATUS_OK || request->kind != WIRE_FETCH)
        return;
    for (uint32_t i = 0; i < request->count; i++)
        request->items[i].status = status;
}

void request_finish(transfer_pool_t *pool, request_t *request, struct request_list *list, status_t status)
{
    transfer_done_fn done = request->done;
    void *ctx = request->ctx;

    TAILQ_REMOVE(list, request, link);
    request_mark_items(request, status);
    request_free(pool, request);
    ask_next(pool);
    done(ctx, status);
}

void pool_end_failing(transfer_pool_t *pool)
{
    request_t *request;

    while ((request = TAILQ_FIRST(&pool->failing)))
        request_finish(pool, request, &pool->failing, request->status);
}
