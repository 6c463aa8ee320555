/*
 * The options (config/config.h) of programs that serve, or call, with TLS; cfg_type has `tls_server_options_t tls` or `tls_client_options_t tls`.
 */
#ifndef TLS_OPTIONS_H
#define TLS_OPTIONS_H

#include "tls/context.h"

typedef struct {
    const char *cert, *key, *client_ca;
} tls_server_options_t;

typedef struct {
    const char *ca, *cert, *key;
} tls_client_options_t;

#define TLS_SERVER_OPTIONS(cfg_type)                                                                      \
    {.name = "tls_cert",                                                                                  \
     .type = CONFIG_PATH,                                                                                 \
     .group = "Access",                                                                                   \
     .help =                                                                                              \
         "REST and gRPC with TLS: the certificate chain (PEM). Read again when it changes, as the other " \
         "two.",                                                                                          \
     .metavar = "FILE",                                                                                   \
     .offset = offsetof(cfg_type, tls.cert)},                                                             \
        {.name = "tls_key",                                                                               \
         .type = CONFIG_PATH,                                                                             \
         .group = "Access",                                                                               \
         .help = "Its private key (PEM).",                                                                \
         .metavar = "FILE",                                                                               \
         .offset = offsetof(cfg_type, tls.key)},                                                          \
    {                                                                                                     \
        .name = "tls_client_ca", .type = CONFIG_PATH, .group = "Access",                                  \
        .help = "Let in only clients with a certificate of these authorities (PEM).", .metavar = "FILE",  \
        .offset = offsetof(cfg_type, tls.client_ca)                                                       \
    }

#define TLS_CLIENT_OPTIONS(cfg_type, in_group)                                                               \
    {.name = "tls_ca",                                                                                       \
     .type = CONFIG_PATH,                                                                                    \
     .group = in_group,                                                                                      \
     .help = "Call with TLS, and believe these authorities (PEM); an address https://… believes those of " \
             "the system.",                                                                                  \
     .metavar = "FILE",                                                                                      \
     .offset = offsetof(cfg_type, tls.ca)},                                                                  \
        {.name = "tls_cert",                                                                                 \
         .type = CONFIG_PATH,                                                                                \
         .group = in_group,                                                                                  \
         .help = "Certificate to show to a server that wants one (PEM).",                                    \
         .metavar = "FILE",                                                                                  \
         .offset = offsetof(cfg_type, tls.cert)},                                                            \
    {                                                                                                        \
        .name = "tls_key", .type = CONFIG_PATH, .group = in_group, .help = "Its private key (PEM).",         \
        .metavar = "FILE", .offset = offsetof(cfg_type, tls.key)                                             \
    }

/* Between services: all three or none. Whom the authority knows may talk, by the role of his certificate. */
typedef struct tls_cluster_options {
    const char *ca, *cert, *key;
} tls_cluster_options_t;

#define TLS_CLUSTER_OPTIONS(cfg_type)                                                                        \
    {.name = "cluster_ca",                                                                                   \
     .type = CONFIG_PATH,                                                                                    \
     .group = "Cluster",                                                                                     \
     .help = "Services prove to each other who they are: the authority of their certificates (PEM). All of " \
             "a cluster or none.",                                                                           \
     .metavar = "FILE",                                                                                      \
     .offset = offsetof(cfg_type, cluster.ca)},                                                              \
        {.name = "cluster_cert",                                                                             \
         .type = CONFIG_PATH,                                                                                \
         .group = "Cluster",                                                                                 \
         .help = "The certificate of this service, with its role (`fermata cert issue --role`).",            \
         .metavar = "FILE",                                                                                  \
         .offset = offsetof(cfg_type, cluster.cert)},                                                        \
    {                                                                                                        \
        .name = "cluster_key", .type = CONFIG_PATH, .group = "Cluster", .help = "Its private key (PEM).",    \
        .metavar = "FILE", .offset = offsetof(cfg_type, cluster.key)                                         \
    }

/* *context NULL: none of the options is there. */
status_t tls_server_open(const tls_server_options_t *options, tls_context_t **context, err_t *err);

/* Of a port where services, admins and whoever reads metrics come in: with a certificate of the cluster. protocol as in tls_config_t. NULL
 * likewise. */
status_t tls_cluster_serve(const tls_cluster_options_t *options, const char *protocol,
                           tls_context_t **context, err_t *err);
/* Of who dials the service of that role, wherever it is. NULL likewise. */
status_t tls_cluster_dial(const tls_cluster_options_t *options, const char *server_role, const char *protocol,
                          tls_context_t **context, err_t *err);

/* The same; wanted: also without any (an address said so). server_role as in tls_config_t. */
status_t tls_client_open(const tls_client_options_t *options, const char *server_role, bool wanted,
                         tls_context_t **context, err_t *err);

#endif
