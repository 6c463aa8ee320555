#include "transfer/transfer.h"

#include "transfer/transport.h"

#include <string.h>

static const transfer_ops_t *const transports[] = {&transfer_tcp_ops};

static const transfer_ops_t *transport_find(const char *name)
{
    for (size_t i = 0; i < sizeof(transports) / sizeof(transports[0]); i++) {
        if (!name || strcmp(transports[i]->name, name) == 0)
            return transports[i];
    }
    return NULL;
}

static const transfer_ops_t *ops_of(const void *object)
{
    return ((const transfer_head_t *)object)->ops;
}

static void limits_default(transfer_limits_t *limits)
{
    if (!limits->max_item_bytes)
        limits->max_item_bytes = 64u << 20;
    if (!limits->max_items)
        limits->max_items = 4096;
    if (!limits->max_connections)
        limits->max_connections = 1024;
    if (!limits->max_requests)
        limits->max_requests = 4096;
    if (!limits->stall_ns)
        limits->stall_ns = UINT64_C(10000000000);
    if (!limits->idle_ns)
        limits->idle_ns = UINT64_C(60000000000);
}

status_t transfer_owner_create(const transfer_owner_options_t *options, transfer_owner_t **owner, err_t *err)
{
    transfer_owner_options_t filled = *options;
    const transfer_ops_t *ops = transport_find(options->transport);

    if (!ops)
        return err_set(err, STATUS_UNSUPPORTED, "data plane transport '%s' is not built in",
                       options->transport);
    limits_default(&filled.limits);
    if (!filled.max_regions)
        filled.max_regions = 65536;
    return ops->owner_create(&filled, owner, err);
}

void transfer_owner_destroy(transfer_owner_t *owner)
{
    if (owner)
        ops_of(owner)->owner_destroy(owner);
}

const char *transfer_owner_address(const transfer_owner_t *owner)
{
    return ops_of(owner)->owner_address(owner);
}

void transfer_owner_stats(const transfer_owner_t *owner, transfer_stats_t *stats)
{
    ops_of(owner)->owner_stats(owner, stats);
}

status_t transfer_memory_register(transfer_owner_t *owner, void *base, size_t len_bytes,
                                  transfer_memory_t **memory, err_t *err)
{
    return ops_of(owner)->memory_register(owner, base, len_bytes, memory, err);
}

void transfer_memory_unregister(transfer_memory_t *memory)
{
    if (memory)
        ops_of(memory)->memory_unregister(memory);
}

status_t transfer_publish(transfer_memory_t *memory, const void *data, size_t len_bytes,
                          transfer_release_fn release, void *ctx, transfer_handle_t *handle)
{
    return ops_of(memory)->publish(memory, data, len_bytes, release, ctx, handle);
}

bool transfer_unpublish(transfer_owner_t *owner, transfer_handle_t handle)
{
    return ops_of(owner)->unpublish(owner, handle);
}

status_t transfer_pool_create(const transfer_pool_options_t *options, transfer_pool_t **pool, err_t *err)
{
    transfer_pool_options_t filled = *options;
    const transfer_ops_t *ops = transport_find(options->transport);

    if (!ops)
        return err_set(err, STATUS_UNSUPPORTED, "data plane transport '%s' is not built in",
                       options->transport);
    limits_default(&filled.limits);
    return ops->pool_create(&filled, pool, err);
}

void transfer_pool_destroy(transfer_pool_t *pool)
{
    if (pool)
        ops_of(pool)->pool_destroy(pool);
}

void transfer_pool_stats(const transfer_pool_t *pool, transfer_stats_t *stats)
{
    ops_of(pool)->pool_stats(pool, stats);
}

status_t transfer_peer_open(transfer_pool_t *pool, const char *address, uint64_t instance_id,
                            transfer_peer_t **peer, err_t *err)
{
    return ops_of(pool)->peer_open(pool, address, instance_id, peer, err);
}

void transfer_peer_connect(transfer_peer_t *peer)
{
    ops_of(peer)->peer_connect(peer);
}

void transfer_peer_close(transfer_peer_t *peer)
{
    if (peer)
        ops_of(peer)->peer_close(peer);
}

status_t transfer_fetch(transfer_peer_t *peer, transfer_item_t *items, uint32_t count, uint64_t timeout_ns,
                        transfer_done_fn done, void *ctx, transfer_request_t *request)
{
    return ops_of(peer)->fetch(peer, items, count, timeout_ns, done, ctx, request);
}

status_t transfer_push(transfer_peer_t *peer, const transfer_result_t *results, uint32_t count,
                       uint64_t timeout_ns, transfer_done_fn done, void *ctx, transfer_request_t *request)
{
    return ops_of(peer)->push(peer, results, count, timeout_ns, done, ctx, request);
}

bool transfer_cancel(transfer_pool_t *pool, transfer_request_t request)
{
    return ops_of(pool)->cancel(pool, request);
}
