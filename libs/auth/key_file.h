/*
 * A file of API keys: read whole, written whole. Lines that begin with '#' and empty ones are kept out of what is read and lost
 * when it is written. A writer holds a lock beside it and puts the new file in place in one step, so readers see the one or the other.
 */
#ifndef AUTH_KEY_FILE_H
#define AUTH_KEY_FILE_H

#include "auth/key.h"

enum {
    AUTH_KEYS_MAX = 4096,          /* a search costs their logarithm; people keep track of fewer */
    AUTH_FILE_BYTES_MAX = 4 << 20, /* of lines as long as they get */
};

typedef struct {
    auth_key_t *keys;
    size_t count;
} auth_keys_t;

/* A mistake is told with its line; two keys of one name, or one key twice, are mistakes. NOT_FOUND: no such file. */
status_t auth_keys_read(const char *path, auth_keys_t *keys, err_t *err);
status_t auth_keys_parse(const char *text, size_t len_bytes, auth_keys_t *keys, err_t *err);
void auth_keys_dispose(auth_keys_t *keys);

/*
 * Reads, lets `change` have its way, writes (mode 0600) and forces it to disk; a file that is not there is an empty one. What change
 * refuses is refused, and nothing is written.
 */
typedef status_t (*auth_change_fn)(auth_keys_t *keys, void *arg, err_t *err);
status_t auth_keys_change(const char *path, auth_change_fn change, void *arg, err_t *err);

/* For change: adds a copy; STATUS_INVALID_ARGUMENT: the name is taken, or there are too many. */
status_t auth_keys_add(auth_keys_t *keys, const auth_key_t *key, err_t *err);
status_t auth_keys_remove(auth_keys_t *keys, const char *name, err_t *err); /* NOT_FOUND */

#endif
