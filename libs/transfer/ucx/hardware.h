/* What of UCX the choice of carriers asks for. */
#ifndef TRANSFER_UCX_HARDWARE_H
#define TRANSFER_UCX_HARDWARE_H

#include <stdbool.h>

/* Whether this host has a device for RDMA; UCX works without one, too, slower than the socket. */
bool ucx_has_hardware(void);

#endif
