/*
 * Who may be reached from other hosts: the one place that decides it, for each program that listens. A listener of this host is always
 * fine; one of another address wants what its port is protected by, or the word of the user (--insecure), and then it is told.
 *
 *   port                  protected by
 *   EXPOSURE_CLIENTS      TLS, and of each client a key or a certificate
 *   EXPOSURE_SERVICES     certificates of the cluster
 *   EXPOSURE_DATA         the same, or the cluster's secret
 */
#ifndef CONFIG_EXPOSURE_H
#define CONFIG_EXPOSURE_H

#include "base/status.h"
#include "config/value.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum {
    EXPOSURE_CLIENTS,  /* REST, gRPC */
    EXPOSURE_SERVICES, /* control and admin calls, metrics, state */
    EXPOSURE_DATA,     /* tensors, between gateways and workers */
    EXPOSURE_UP, /* REST and gRPC as `fermata up` is asked for them: other flags, else EXPOSURE_CLIENTS */
    EXPOSURE_PORTS
} exposure_port_t;

typedef struct {
    const char *flag; /* that names the address: "--http-address" */
    const config_address_t *address;
    exposure_port_t port;
} exposure_listener_t;

/* What a program was given. */
typedef struct {
    bool tls, keys, client_ca; /* for clients; a client_ca wants a certificate of each */
    bool cluster;              /* certificates between services */
    bool secret;               /* between gateways and workers */
    bool insecure;             /* the user wants it so */
} exposure_guards_t;

/* Whether none but this host reaches it: 127.0.0.0/8, ::1, localhost, and "", where a port alone was given. Another name is not
 * looked up, and counts as one that others reach. */
bool exposure_is_of_this_host(const char *host);
/* The same of "host:port"; false of what is none. */
bool exposure_is_address_of_this_host(const char *address);

/* The flags that such a port lacks on an address that others reach; NULL: none. */
const char *exposure_lacks(exposure_port_t port, const exposure_guards_t *guards);

/*
 * STATUS_INVALID_ARGUMENT for the first listener that others reach without protection, with the flags that would give it; with
 * guards->insecure it writes a line of the log for each such listener instead (`exposed`), and STATUS_OK.
 */
status_t exposure_check(const exposure_listener_t *listeners, size_t count, const exposure_guards_t *guards,
                        err_t *err);

/* The option of a program that listens; cfg_type has `bool insecure`. */
#define CONFIG_INSECURE_OPTION(cfg_type)                                                                   \
    {                                                                                                      \
        .name = "insecure", .type = CONFIG_BOOL, .group = "Access", .def = "false",                        \
        .help = "Listen also where others than this host come in without TLS or without showing who they " \
                "are; else that is refused.",                                                              \
        .offset = offsetof(cfg_type, insecure)                                                             \
    }

#endif
