/* Alone in its file: linux/tcp.h, which has the field, cannot stand beside netinet/tcp.h. */
#include "transfer/losses.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

bool losses_out_of_order(int fd, uint32_t *packets)
{
    struct tcp_info info;
    socklen_t len = sizeof(info);

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0 ||
        len < offsetof(struct tcp_info, tcpi_rcv_ooopack) + sizeof(info.tcpi_rcv_ooopack))
        return false;
    *packets = info.tcpi_rcv_ooopack;
    return true;
}
