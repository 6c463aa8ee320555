#include "http/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

bool address_is_secure(const char *text)
{
    return strncmp(text, "https://", 8) == 0;
}

static status_t split(const char *text, char *host, size_t host_cap, char *port, size_t port_cap)
{
    if (strncmp(text, "http://", 7) == 0)
        text += 7;
    else if (address_is_secure(text))
        text += 8;
    size_t len = strcspn(text, "/");
    const char *colon = memrchr(text, ':', len);
    if (!colon)
        return STATUS_INVALID_ARGUMENT;
    const char *from = text;
    size_t host_len = (size_t)(colon - text), port_len = len - host_len - 1;
    if (host_len >= 2 && from[0] == '[' && from[host_len - 1] == ']') {
        from++;
        host_len -= 2;
    } else if (memchr(from, ':', host_len)) {
        return STATUS_INVALID_ARGUMENT;
    }
    if (host_len >= host_cap || port_len == 0 || port_len >= port_cap)
        return STATUS_INVALID_ARGUMENT;
    memcpy(host, from, host_len);
    host[host_len] = '\0';
    memcpy(port, colon + 1, port_len);
    port[port_len] = '\0';
    return strspn(port, "0123456789") == port_len ? STATUS_OK : STATUS_INVALID_ARGUMENT;
}

status_t address_host(const char *text, char *host, size_t cap, err_t *err)
{
    char port[8];
    if (split(text, host, cap, port, sizeof port) != STATUS_OK)
        return err_set(err, STATUS_INVALID_ARGUMENT, "'%s' is not HOST:PORT", text);
    return STATUS_OK;
}

status_t address_parse(const char *text, struct sockaddr_storage *address, err_t *err)
{
    char host[256], port[8];
    if (split(text, host, sizeof host, port, sizeof port) != STATUS_OK)
        return err_set(err, STATUS_INVALID_ARGUMENT, "'%s' is not HOST:PORT", text);
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *list = NULL;
    int rc = getaddrinfo(host[0] ? host : NULL, port, &hints, &list);
    if (rc != 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "cannot look up '%s': %s", text, gai_strerror(rc));
    const struct addrinfo *pick = list;
    for (const struct addrinfo *at = list; at; at = at->ai_next)
        if (at->ai_family == AF_INET) {
            pick = at;
            break;
        }
    memset(address, 0, sizeof *address);
    memcpy(address, pick->ai_addr, pick->ai_addrlen);
    freeaddrinfo(list);
    return STATUS_OK;
}

void address_print(const struct sockaddr_storage *address, char *text, size_t cap)
{
    char host[INET6_ADDRSTRLEN] = "?";
    if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
        inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof host);
        snprintf(text, cap, "[%s]:%u", host, ntohs(in6->sin6_port));
    } else {
        const struct sockaddr_in *in = (const struct sockaddr_in *)address;
        inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        snprintf(text, cap, "%s:%u", host, ntohs(in->sin_port));
    }
}
