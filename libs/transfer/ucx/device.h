/*
 * The network device that UCX is to use for an address. UCX's tcp listens at all devices unless told; where it is the only way between
 * hosts, it is kept to the device of the address that a service listens on or has connected from.
 */
#ifndef TRANSFER_UCX_DEVICE_H
#define TRANSFER_UCX_DEVICE_H

#include <net/if.h>

enum { UCX_DEVICE_BYTES = IF_NAMESIZE };

/* Of "host:port" (NULL: of none). "": UCX may use them all, since the address is that of all devices or of none here, there is hardware
 * for RDMA, or the user has set UCX_NET_DEVICES. */
void ucx_device_of(const char *address, char device[UCX_DEVICE_BYTES]);

#endif
