/*
 * What keys have used of their limits, for all the loops of a process, each with a keyring of its own: holders of one key share one
 * usage. Any thread; a lock, which is taken when a file of keys is read and when a key goes, never for a request.
 */
#ifndef AUTH_USAGES_H
#define AUTH_USAGES_H

#include "auth/key.h"

typedef struct auth_usages auth_usages_t;

status_t auth_usages_create(auth_usages_t **usages, err_t *err);
void auth_usages_destroy(auth_usages_t *usages); /* all were put back; NULL is fine */

/* That of the key with this hash, made where there is none; NULL: no memory. Put back once for each get. */
auth_usage_t *auth_usages_get(auth_usages_t *usages, const uint8_t hash[AUTH_HASH_BYTES]);
void auth_usages_put(auth_usages_t *usages, auth_usage_t *usage);

#endif
