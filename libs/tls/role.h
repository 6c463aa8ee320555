/*
 * What a certificate says its holder is: a role, as URI `fermata:ROLE` among its alternative names. What a client calls a server of a
 * role by, beside its hosts, is the DNS name `ROLE.fermata`, so that any TLS library can check it.
 */
#ifndef TLS_ROLE_H
#define TLS_ROLE_H

#include "base/status.h"

#include <stdbool.h>

enum { TLS_ROLE_BYTES = 16 };

#define TLS_ROLE_URI "fermata:"
#define TLS_ROLE_DOMAIN ".fermata"

/* gateway, scheduler, worker, client, admin. */
bool tls_role_is_known(const char *role);
/* "scheduler" of "fermata:scheduler"; NULL: no role that is known. Not the caller's to free. */
const char *tls_role_of_uri(const char *uri, size_t len_bytes);

#endif
