/* What the two roles share. */
#ifndef TRANSFER_INTERNAL_H
#define TRANSFER_INTERNAL_H

#include "transfer/transfer.h"

enum {
    SWEEP_MIN_MS = 5, /* how often, at most, connections are looked over for stalls and idleness */
    ADDRESS_HOST_BYTES = 112,
    ADDRESS_PORT_BYTES = 8,
};

/* Splits "host:port" or "[v6]:port". INVALID_ARGUMENT: there is no host or no port. */
status_t address_split(const char *address, char host[ADDRESS_HOST_BYTES], char port[ADDRESS_PORT_BYTES],
                       err_t *err);

/* "host:port" of this end of a socket; "?:?" where there is none. */
void address_of_socket(int fd, char address[TRANSFER_ADDRESS_BYTES]);
struct sockaddr; /* of a sockaddr_storage */
void address_text(const struct sockaddr *of, char address[TRANSFER_ADDRESS_BYTES]);

/* Fills in what was left at 0. */
transfer_limits_t limits_with_defaults(const transfer_limits_t *limits);
/* How often to sweep so that neither limit is overshot by more than a quarter. */
uint64_t limits_sweep_ms(const transfer_limits_t *limits);

/* A connection's payloads go another way from now on. */
void connection_moves(transfer_stats_t *stats, transfer_way_t from, transfer_way_t to);

#endif
