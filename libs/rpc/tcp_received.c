#include "rpc/tcp_received.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

bool tcp_counts(int fd, uint64_t *received, uint64_t *sent)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0)
        return false;
    *received = info.tcpi_bytes_received;
    *sent = info.tcpi_bytes_acked;
    return true;
}
