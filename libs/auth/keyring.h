/*
 * The keys of a file while a service runs: who holds which, read again when the file changes, with what each has left of its limits.
 * One thread. Nothing here allocates but reading.
 *
 * A key is found by its SHA-256 hash, by bisection on the hash's first eight bytes and a comparison in constant time: how long it
 * takes tells of the hash of what was tried, and of no key. Texts that were found are remembered until the file is read again, so that
 * most requests cost no hash; they too are compared in constant time, and the place of one tells of nothing but its own last bytes.
 */
#ifndef AUTH_KEYRING_H
#define AUTH_KEYRING_H

#include "auth/key.h"
#include "auth/usages.h"

typedef struct keyring keyring_t;

/* Somebody who holds a key. It lives as long as the key stands in the file, and then until the last hold is given back. */
typedef struct keyring_holder keyring_holder_t;

/* Reads the file, which must be there and right. path is copied. usages outlive it: those who have the same share the limits of keys. */
status_t keyring_create(const char *path, auth_usages_t *usages, keyring_t **ring, err_t *err);
/* Nobody holds anything of it any more. NULL is fine. */
void keyring_destroy(keyring_t *ring);

/*
 * Reads the file again if it is another than at the last look: one stat(2) where it is not. OK with *changed false: nothing to do.
 * Where it cannot be read, or is wrong, all stays as it was, and each such change of the file is told once.
 */
status_t keyring_refresh(keyring_t *ring, bool *changed, err_t *err);
size_t keyring_count(const keyring_t *ring);

/* Who holds the key with this text; NULL: nobody. Not to be kept beyond the next refresh without a hold. */
keyring_holder_t *keyring_find(keyring_t *ring, const char *text, size_t len_bytes);
const auth_key_t *keyring_key(const keyring_holder_t *holder);

/* Whether the key still counts: it stands in the file and is not over. */
bool keyring_is_good(const keyring_holder_t *holder, int64_t now_s);

/* A hold for a connection, which may outlive the key. */
void keyring_hold(keyring_holder_t *holder);
void keyring_drop(keyring_t *ring, keyring_holder_t *holder);

/*
 * Begins an inference, which ends with keyring_leave. STATUS_LIMITED: over the key's own rate (*retry_after_ms until the next may
 * begin) or concurrency (*retry_after_ms is 0: nobody knows).
 */
status_t keyring_enter(keyring_holder_t *holder, int64_t now_ns, uint32_t *retry_after_ms, err_t *err);
void keyring_leave(keyring_t *ring, keyring_holder_t *holder);

#endif
