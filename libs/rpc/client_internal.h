/* Shared by client.c and link.c only. */
#ifndef RPC_CLIENT_INTERNAL_H
#define RPC_CLIENT_INTERNAL_H

#include "rpc/client.h"
#include "rpc/internal.h"
#include "rpc/security.h"

struct rpc_client {
    rpc_runtime_t *runtime;
    grpc_channel *channel;
    char *address;
    char *authorization; /* NULL: none */
    grpc_metadata metadata;
    tls_context_t *tls;
    uint64_t generation; /* of its files that the channel is of */
    rpc_limits_t limits;
    pthread_mutex_t lock;
    rpc_unary_t *free_calls;
    unsigned alive; /* calls and links, for the assertion in destroy */
};

/* client.c: a channel of what the files of TLS hold now, where they have changed since it was made; calls under way go on. */
void rpc_client_renew(rpc_client_t *client);
bool rpc_client_is_stale(rpc_client_t *client); /* they have changed */

#endif
