#include "transfer/ucx/device.h"

#include "transfer/internal.h"
#include "transfer/ucx/hardware.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    return address->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

static bool same_host(const struct sockaddr *a, const struct sockaddr *b)
{
    if (a->sa_family != b->sa_family)
        return false;
    if (a->sa_family == AF_INET)
        return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
               ((const struct sockaddr_in *)b)->sin_addr.s_addr;
    return a->sa_family == AF_INET6 &&
           memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr, &((const struct sockaddr_in6 *)b)->sin6_addr,
                  sizeof(struct in6_addr)) == 0;
}

/* All of 127.0.0.0/8 is the loopback device's, which has one address of it. */
static bool device_has(const struct ifaddrs *device, const struct sockaddr *address)
{
    if (is_loopback(address))
        return device->ifa_flags & IFF_LOOPBACK;
    return device->ifa_addr && same_host(device->ifa_addr, address);
}

static void device_at(const struct sockaddr *address, char name[UCX_DEVICE_BYTES])
{
    struct ifaddrs *devices;

    if (getifaddrs(&devices) != 0)
        return;
    for (const struct ifaddrs *device = devices; device && !name[0]; device = device->ifa_next) {
        if (device_has(device, address))
            snprintf(name, UCX_DEVICE_BYTES, "%s", device->ifa_name);
    }
    freeifaddrs(devices);
}

void ucx_device_of(const char *address, char device[UCX_DEVICE_BYTES])
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    char host[ADDRESS_HOST_BYTES], port[ADDRESS_PORT_BYTES];
    struct addrinfo *infos;
    err_t err;

    device[0] = '\0';
    if (!address || getenv("UCX_NET_DEVICES") || ucx_has_hardware())
        return;
    if (address_split(address, host, port, &err) != STATUS_OK || getaddrinfo(host, port, &hints, &infos) != 0)
        return;
    device_at(infos->ai_addr, device);
    freeaddrinfo(infos);
}
