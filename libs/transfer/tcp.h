/* What the two roles of the TCP transport share. */
#ifndef TRANSFER_TCP_H
#define TRANSFER_TCP_H

#include "transfer/conn.h"
#include "transfer/transport.h"

enum {
    TCP_SWEEP_MIN_MS = 5, /* how often, at most, connections are looked over for stalls and idleness */
    TCP_HOST_BYTES = 112,
    TCP_PORT_BYTES = 8,
};

/* Splits "host:port" or "[v6]:port". INVALID_ARGUMENT: there is no host or no port. */
status_t tcp_split_address(const char *address, char host[TCP_HOST_BYTES], char port[TCP_PORT_BYTES],
                           err_t *err);

/* How often to sweep so that neither limit is overshot by more than a quarter. */
uint64_t tcp_sweep_ms(const transfer_limits_t *limits);

/* The owner's half of the table. */
status_t tcp_owner_create(const transfer_owner_options_t *options, transfer_owner_t **owner, err_t *err);
void tcp_owner_destroy(transfer_owner_t *owner);
const char *tcp_owner_address(const transfer_owner_t *owner);
void tcp_owner_stats(const transfer_owner_t *owner, transfer_stats_t *stats);
status_t tcp_memory_register(transfer_owner_t *owner, void *base, size_t len_bytes,
                             transfer_memory_t **memory, err_t *err);
void tcp_memory_unregister(transfer_memory_t *memory);
status_t tcp_publish(transfer_memory_t *memory, const void *data, size_t len_bytes,
                     transfer_release_fn release, void *ctx, transfer_handle_t *handle);
bool tcp_unpublish(transfer_owner_t *owner, transfer_handle_t handle);

/* The pool's half. */
status_t tcp_pool_create(const transfer_pool_options_t *options, transfer_pool_t **pool, err_t *err);
void tcp_pool_destroy(transfer_pool_t *pool);
void tcp_pool_stats(const transfer_pool_t *pool, transfer_stats_t *stats);
status_t tcp_peer_open(transfer_pool_t *pool, const char *address, uint64_t instance_id,
                       transfer_peer_t **peer, err_t *err);
void tcp_peer_connect(transfer_peer_t *peer);
void tcp_peer_close(transfer_peer_t *peer);
status_t tcp_fetch(transfer_peer_t *peer, transfer_item_t *items, uint32_t count, uint64_t timeout_ns,
                   transfer_done_fn done, void *ctx, transfer_request_t *request);
status_t tcp_push(transfer_peer_t *peer, const transfer_result_t *results, uint32_t count,
                  uint64_t timeout_ns, transfer_done_fn done, void *ctx, transfer_request_t *request);
bool tcp_cancel(transfer_pool_t *pool, transfer_request_t request);

#endif
