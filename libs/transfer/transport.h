/*
 * What a transport fills. One file per transport ends in one such table; transfer.c lists them.
 *
 * Each function has the contract of the transfer_* function of the same name in transfer.h. None is optional.
 * An owner and a pool begin with the head below, so that transfer.c finds its way from the object alone;
 * limits come with their defaults already filled in.
 */
#ifndef TRANSFER_TRANSPORT_H
#define TRANSFER_TRANSPORT_H

#include "transfer/transfer.h"

typedef struct {
    const char *name;

    status_t (*owner_create)(const transfer_owner_options_t *options, transfer_owner_t **owner, err_t *err);
    void (*owner_destroy)(transfer_owner_t *owner);
    const char *(*owner_address)(const transfer_owner_t *owner);
    void (*owner_stats)(const transfer_owner_t *owner, transfer_stats_t *stats);
    status_t (*memory_register)(transfer_owner_t *owner, void *base, size_t len_bytes,
                                transfer_memory_t **memory, err_t *err);
    void (*memory_unregister)(transfer_memory_t *memory);
    status_t (*publish)(transfer_memory_t *memory, const void *data, size_t len_bytes,
                        transfer_release_fn release, void *ctx, transfer_handle_t *handle);
    bool (*unpublish)(transfer_owner_t *owner, transfer_handle_t handle);

    status_t (*pool_create)(const transfer_pool_options_t *options, transfer_pool_t **pool, err_t *err);
    void (*pool_destroy)(transfer_pool_t *pool);
    void (*pool_stats)(const transfer_pool_t *pool, transfer_stats_t *stats);
    status_t (*peer_open)(transfer_pool_t *pool, const char *address, uint64_t instance_id,
                          transfer_peer_t **peer, err_t *err);
    void (*peer_connect)(transfer_peer_t *peer);
    void (*peer_close)(transfer_peer_t *peer);
    status_t (*fetch)(transfer_peer_t *peer, transfer_item_t *items, uint32_t count, uint64_t timeout_ns,
                      transfer_done_fn done, void *ctx, transfer_request_t *request);
    status_t (*push)(transfer_peer_t *peer, const transfer_result_t *results, uint32_t count,
                     uint64_t timeout_ns, transfer_done_fn done, void *ctx, transfer_request_t *request);
    bool (*cancel)(transfer_pool_t *pool, transfer_request_t request);
} transfer_ops_t;

typedef struct {
    const transfer_ops_t *ops;
} transfer_head_t; /* first member of transfer_owner, transfer_memory, transfer_pool and transfer_peer */

extern const transfer_ops_t transfer_tcp_ops;

#endif
