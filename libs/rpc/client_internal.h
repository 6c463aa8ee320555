/* Shared by client.c and link.c only. */
#ifndef RPC_CLIENT_INTERNAL_H
#define RPC_CLIENT_INTERNAL_H

#include "rpc/client.h"
#include "rpc/internal.h"

struct rpc_client {
    rpc_runtime_t *runtime;
    grpc_channel *channel;
    char *address;
    char *authorization; /* NULL: none */
    grpc_metadata metadata;
    rpc_limits_t limits;
    pthread_mutex_t lock;
    rpc_unary_t *free_calls;
    unsigned alive; /* calls and links, for the assertion in destroy */
};

#endif
