/* What has come by a TCP connection since it was made, and what has arrived over there, as the kernel counts it. False: it is none. By itself: <netinet/tcp.h> does not go with <linux/tcp.h>. */
#ifndef RPC_TCP_RECEIVED_H
#define RPC_TCP_RECEIVED_H

#include <stdbool.h>
#include <stdint.h>

bool tcp_counts(int fd, uint64_t *received, uint64_t *sent);

#endif
