/* Fetches into the memory of a GPU: what only RDMA can write to never goes through a socket. */
#include "transfer/carry.h"
#include "transfer/pool.h"

transfer_reach_t transfer_pool_reach(const transfer_pool_t *pool)
{
    transfer_reach_t reach = {0};

    for (const client_t *client = pool->clients; client->ops; client++) {
        if (client->ops->reach)
            reach = client->ops->reach(client->client);
    }
    return reach;
}

bool transfer_lands(const transfer_peer_t *peer, const void *bytes, size_t len_bytes)
{
    const link_t *link = &peer->link_past;

    return peer->state == PEER_READY && link->ready && link->ops->link_reaches &&
           link->ops->link_reaches(link->link, bytes, len_bytes);
}

static bool item_lands(const transfer_peer_t *peer, const transfer_item_t *item)
{
    for (uint32_t k = 0; k < item->iov_count; k++) {
        if (!transfer_lands(peer, item->iov[k].iov_base, item->iov[k].iov_len))
            return false;
    }
    return true;
}

status_t transfer_fetch_to_device(transfer_peer_t *peer, transfer_item_t *items, uint32_t count,
                                  uint64_t timeout_ns, transfer_done_fn done, void *ctx,
                                  transfer_request_t *id)
{
    const request_t wanted = {
        .kind = WIRE_FETCH, .count = count, .items = items, .to_device = true, .done = done, .ctx = ctx};

    for (uint32_t i = 0; i < count; i++) {
        if (!item_lands(peer, &items[i]))
            return STATUS_UNAVAILABLE;
    }
    return pool_fetch(peer, &wanted, timeout_ns, id);
}
