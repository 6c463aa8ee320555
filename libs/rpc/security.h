/* TLS of servers and clients, out of a context of libs/tls. libs/rpc only. */
#ifndef RPC_SECURITY_H
#define RPC_SECURITY_H

#include "rpc/internal.h"
#include "tls/context.h"

#include <grpc/grpc_security.h>

/* What a server shows. It stays where it is as long as the server lives. */
typedef struct {
    tls_context_t *tls;              /* NULL: plain */
    atomic_uint_fast64_t generation; /* of its files that gRPC has */
} rpc_shown_t;

/* gRPC asks for what the files hold with each new connection. NULL: no memory. */
grpc_server_credentials *rpc_server_credentials(rpc_shown_t *shown);

/* Of what the files hold now; tls NULL: plain. NULL: no memory. */
grpc_channel_credentials *rpc_channel_credentials(tls_context_t *tls);
/* What the server's certificate must be of where not of its host; NULL: of its host. The caller frees it. */
char *rpc_server_name(const tls_context_t *tls);

/* The role (tls/role.h) that the certificate of the other end names; "": none. Static. */
const char *rpc_peer_role(grpc_call *call);

#endif
