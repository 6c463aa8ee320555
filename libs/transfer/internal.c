#include "transfer/internal.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

status_t address_split(const char *address, char host[ADDRESS_HOST_BYTES], char port[ADDRESS_PORT_BYTES],
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
    if ((size_t)(to - from) >= ADDRESS_HOST_BYTES || strlen(colon + 1) >= ADDRESS_PORT_BYTES)
        return err_set(err, STATUS_INVALID_ARGUMENT, "address '%.100s' is too long", address);
    memcpy(host, from, (size_t)(to - from));
    host[to - from] = '\0';
    memcpy(port, colon + 1, strlen(colon + 1) + 1);
    return STATUS_OK;
}

void address_text(const struct sockaddr *of, char address[TRANSFER_ADDRESS_BYTES])
{
    char host[ADDRESS_HOST_BYTES] = "?", port[ADDRESS_PORT_BYTES] = "?";

    getnameinfo(of, sizeof(struct sockaddr_storage), host, sizeof(host), port, sizeof(port),
                NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(address, TRANSFER_ADDRESS_BYTES, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

void address_of_socket(int fd, char address[TRANSFER_ADDRESS_BYTES])
{
    struct sockaddr_storage bound = {0}; /* of no family: "?:?" */
    socklen_t len = sizeof(bound);

    getsockname(fd, (struct sockaddr *)&bound, &len);
    address_text((struct sockaddr *)&bound, address);
}

transfer_limits_t limits_with_defaults(const transfer_limits_t *limits)
{
    static const transfer_limits_t usual = {.max_item_bytes = 64u << 20,
                                            .max_items = 4096,
                                            .max_connections = 1024,
                                            .max_requests = 4096,
                                            .max_strangers = 64,
                                            .prove_ns = UINT64_C(5000000000),
                                            .stall_ns = UINT64_C(10000000000),
                                            .idle_ns = UINT64_C(60000000000),
                                            .link_again_ns = UINT64_C(5000000000)};
    transfer_limits_t filled = *limits;

    filled.max_item_bytes = filled.max_item_bytes ? filled.max_item_bytes : usual.max_item_bytes;
    filled.max_items = filled.max_items ? filled.max_items : usual.max_items;
    filled.max_connections = filled.max_connections ? filled.max_connections : usual.max_connections;
    filled.max_requests = filled.max_requests ? filled.max_requests : usual.max_requests;
    filled.max_strangers = filled.max_strangers ? filled.max_strangers : usual.max_strangers;
    filled.prove_ns = filled.prove_ns ? filled.prove_ns : usual.prove_ns;
    filled.stall_ns = filled.stall_ns ? filled.stall_ns : usual.stall_ns;
    filled.idle_ns = filled.idle_ns ? filled.idle_ns : usual.idle_ns;
    filled.link_again_ns = filled.link_again_ns ? filled.link_again_ns : usual.link_again_ns;
    return filled;
}

uint64_t limits_sweep_ms(const transfer_limits_t *limits)
{
    uint64_t shortest_ns = limits->stall_ns < limits->idle_ns ? limits->stall_ns : limits->idle_ns;
    uint64_t ms = (shortest_ns < limits->prove_ns ? shortest_ns : limits->prove_ns) / 4 / 1000000;

    return ms < SWEEP_MIN_MS ? SWEEP_MIN_MS : ms;
}

const char *const transfer_choices[] = {"auto", "tcp", "rdma", NULL};

status_t transfer_choice_check(transfer_choice_t choice, err_t *err)
{
#ifdef FERMATA_RDMA
    (void)choice;
    (void)err;
#else
    if (choice == TRANSFER_CHOOSE_RDMA)
        return err_set(err, STATUS_UNSUPPORTED,
                       "transfer: this build has no RDMA (cmake --preset rdma makes one)");
#endif
    return STATUS_OK;
}

const char *transfer_way_name(transfer_way_t way)
{
    static const char *const names[TRANSFER_WAYS] = {"tcp", "shm", "rdma"};

    return names[way];
}

void connection_moves(transfer_stats_t *stats, transfer_way_t from, transfer_way_t to)
{
    stats->by[from].connections--;
    stats->by[to].connections++;
}

transfer_traffic_t transfer_stats_sum(const transfer_stats_t *stats)
{
    transfer_traffic_t sum = {0};

    for (uint32_t way = 0; way < TRANSFER_WAYS; way++) {
        sum.items += stats->by[way].items;
        sum.item_bytes += stats->by[way].item_bytes;
        sum.results += stats->by[way].results;
        sum.result_bytes += stats->by[way].result_bytes;
        sum.connections += stats->by[way].connections;
    }
    return sum;
}
