/* The TCP transport: non-blocking sockets on uv_poll, readv and sendmsg straight from and to the tensors. */
#include "transfer/tcp.h"

#include <string.h>

status_t tcp_split_address(const char *address, char host[TCP_HOST_BYTES], char port[TCP_PORT_BYTES],
                           err_t *err)
{
    const char *colon = strrchr(address, ':');
    const char *from = address, *to = colon;

    if (colon && address[0] == '[' && colon > address && colon[-1] == ']') {
        from++;
        to--;
    }
    if (!colon || to == from || !colon[1])
        return err_set(err, STATUS_INVALID_ARGUMENT, "'%s' is not host:port", address);
    if ((size_t)(to - from) >= TCP_HOST_BYTES || strlen(colon + 1) >= TCP_PORT_BYTES)
        return err_set(err, STATUS_INVALID_ARGUMENT, "address '%.100s' is too long", address);
    memcpy(host, from, (size_t)(to - from));
    host[to - from] = '\0';
    memcpy(port, colon + 1, strlen(colon + 1) + 1);
    return STATUS_OK;
}

uint64_t tcp_sweep_ms(const transfer_limits_t *limits)
{
    uint64_t shortest_ns = limits->stall_ns < limits->idle_ns ? limits->stall_ns : limits->idle_ns;
    uint64_t ms = shortest_ns / 4 / 1000000;

    return ms < TCP_SWEEP_MIN_MS ? TCP_SWEEP_MIN_MS : ms;
}

const transfer_ops_t transfer_tcp_ops = {
    .name = "tcp",
    .owner_create = tcp_owner_create,
    .owner_destroy = tcp_owner_destroy,
    .owner_address = tcp_owner_address,
    .owner_stats = tcp_owner_stats,
    .memory_register = tcp_memory_register,
    .memory_unregister = tcp_memory_unregister,
    .publish = tcp_publish,
    .unpublish = tcp_unpublish,
    .pool_create = tcp_pool_create,
    .pool_destroy = tcp_pool_destroy,
    .pool_stats = tcp_pool_stats,
    .peer_open = tcp_peer_open,
    .peer_connect = tcp_peer_connect,
    .peer_close = tcp_peer_close,
    .fetch = tcp_fetch,
    .push = tcp_push,
    .cancel = tcp_cancel,
};
