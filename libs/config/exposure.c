#include "config/exposure.h"

#include "base/log.h"
#include "config/config.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <string.h>

enum { LOOPBACK_NET = 127 };

bool exposure_is_of_this_host(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == LOOPBACK_NET;
    if (inet_pton(AF_INET6, host, &v6) == 1)
        return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == LOOPBACK_NET);
    return !host[0] || strcmp(host, "localhost") == 0;
}

bool exposure_is_address_of_this_host(const char *address)
{
    config_address_t parsed;
    err_t err;
    return value_parse_address(address, &parsed, &err) == STATUS_OK && exposure_is_of_this_host(parsed.host);
}

/* Of TLS and of who comes in, what is not there. */
enum { LACKS_NOTHING, LACKS_TLS, LACKS_WHO, LACKS_BOTH, LACKS_WAYS };

static const char *const flags[EXPOSURE_PORTS][LACKS_WAYS] = {
    [EXPOSURE_CLIENTS] = {NULL, "--tls-cert and --tls-key", "--keys (or --tls-client-ca)",
                          "--tls-cert, --tls-key and --keys"},
    [EXPOSURE_SERVICES] = {[LACKS_BOTH] = "--cluster-ca, --cluster-cert and --cluster-key"},
    [EXPOSURE_DATA] = {[LACKS_BOTH] = "--cluster-ca, --cluster-cert and --cluster-key, or --cluster-secret"},
    [EXPOSURE_UP] = {NULL, "--tls", "--keys", "--tls and --keys"},
};

static int clients_lack(const exposure_guards_t *guards)
{
    return (guards->tls ? LACKS_NOTHING : LACKS_TLS) |
           (guards->keys || guards->client_ca ? LACKS_NOTHING : LACKS_WHO);
}

/* A secret hides nothing from who listens on the way, but lets nobody speak who does not have it. */
static int data_lacks(const exposure_guards_t *guards)
{
    return guards->cluster || guards->secret ? LACKS_NOTHING : LACKS_BOTH;
}

static int lacks(exposure_port_t port, const exposure_guards_t *guards)
{
    switch (port) {
    case EXPOSURE_DATA:
        return data_lacks(guards);
    case EXPOSURE_SERVICES:
        return guards->cluster ? LACKS_NOTHING : LACKS_BOTH;
    default:
        return clients_lack(guards);
    }
}

const char *exposure_lacks(exposure_port_t port, const exposure_guards_t *guards)
{
    return flags[port][lacks(port, guards)];
}

static status_t check_one(const exposure_listener_t *listener, const exposure_guards_t *guards, err_t *err)
{
    const char *missing = exposure_lacks(listener->port, guards);
    char address[CONFIG_ADDRESS_TEXT_BYTES];
    if (!missing || exposure_is_of_this_host(listener->address->host))
        return STATUS_OK;
    value_format_address(listener->address, address, sizeof address);
    if (!guards->insecure)
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "%s %s: other hosts would reach it unprotected; give %s too, or --insecure if that "
                       "is what you want",
                       listener->flag, address, missing);
    log_warn("exposed", LOG_STR("listener", listener->flag), LOG_STR("address", address),
             LOG_STR("without", missing));
    return STATUS_OK;
}

status_t exposure_check(const exposure_listener_t *listeners, size_t count, const exposure_guards_t *guards,
                        err_t *err)
{
    status_t status = STATUS_OK;
    for (size_t i = 0; i < count && status == STATUS_OK; i++)
        status = check_one(&listeners[i], guards, err);
    return status;
}
