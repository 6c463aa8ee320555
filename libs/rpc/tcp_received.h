/* What has come by a TCP connection since it was made, as the kernel counts it. False: it is none. By itself: <netinet/tcp.h> does not go with <linux/tcp.h>. */
#ifndef RPC_TCP_RECEIVED_H
#define RPC_TCP_RECEIVED_H

#include <stdbool.h>
#include <stdint.h>

bool tcp_received(int fd, uint64_t *bytes);

#endif
