#include "rpc/tcp_received.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

bool tcp_received(int fd, uint64_t *bytes)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0)
        return false;
    *bytes = info.tcpi_bytes_received;
    return true;
}
