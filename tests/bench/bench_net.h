/* What the benches of the data plane share: blocking sockets for the naive peers, and figures. */
#ifndef BENCH_NET_H
#define BENCH_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ends the program with the name of what failed. */
void must(bool ok, const char *what);

bool recv_all(int fd, void *to, size_t len_bytes);
bool send_all(int fd, const void *from, size_t len_bytes);

/* A blocking socket that listens at, or is connected to, this address; with TCP_NODELAY. */
int listen_at(const char *host, uint16_t port, uint16_t *real_port);
int connect_to(const char *host, uint16_t port);
/* Accepts one. */
int accept_one(int listener);

/* Sorts. */
double percentile_us(int64_t *samples, int count, double p);

/* splitmix64; exp: of mean 1. */
uint64_t random_next(uint64_t *state);
double random_exp(uint64_t *state);

#endif
