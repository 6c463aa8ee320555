/*
 * "host:port" texts to socket addresses and back.
 */
#ifndef HTTP_ADDRESS_H
#define HTTP_ADDRESS_H

#include "base/status.h"

#include <stdbool.h>
#include <sys/socket.h>

/*
 * "127.0.0.1:8000", "[::1]:0", "localhost:80", ":8000" (all interfaces); "http://" or "https://" before and a '/' behind
 * are skipped. A name is looked up, blocking, IPv4 first.
 */
status_t address_parse(const char *text, struct sockaddr_storage *address, err_t *err);

/* Whether it begins with "https://". */
bool address_is_secure(const char *text);
/* "localhost" of "https://localhost:80/"; STATUS_INVALID_ARGUMENT as above. */
status_t address_host(const char *text, char *host, size_t cap, err_t *err);

/* "127.0.0.1:8000", "[::1]:8000". */
void address_print(const struct sockaddr_storage *address, char *text, size_t cap);

#endif
