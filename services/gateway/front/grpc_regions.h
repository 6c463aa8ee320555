/* gRPC calls about shared memory of clients (regions/regions.h): each finishes its call. */
#ifndef GATEWAY_GRPC_REGIONS_H
#define GATEWAY_GRPC_REGIONS_H

#include "auth/keyring.h"
#include "gateway/gateway.h"
#include "rpc/server.h"

/* caller: NULL where no keys are wanted. */
void grpc_regions_status(gateway_t *gateway, const keyring_holder_t *caller, rpc_call_t *call);
void grpc_regions_register(gateway_t *gateway, const keyring_holder_t *caller, rpc_call_t *call);
void grpc_regions_unregister(gateway_t *gateway, const keyring_holder_t *caller, rpc_call_t *call);

#endif
