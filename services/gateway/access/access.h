/*
 * Who may ask this gateway for what: API keys (auth/keyring.h), presented as `Authorization: Bearer KEY` or `x-api-key: KEY`, in gRPC
 * as metadata of the same names. Every refusal is counted and logged here, a line a second. Loop thread.
 *
 * access NULL: no keys are wanted; everybody may do everything, and holders are NULL.
 */
#ifndef GATEWAY_ACCESS_H
#define GATEWAY_ACCESS_H

#include "auth/keyring.h"
#include "loop/loop.h"
#include "metrics/metrics.h"

typedef struct access access_t;

/* What a client says of itself. Texts are not terminated; NULL where there is none. */
typedef struct {
    const char *authorization, *api_key;
    size_t authorization_bytes, api_key_bytes;
    const char *(*peer)(void *arg); /* for people, where it is refused */
    void *arg;
} access_claim_t;

/* Reads the file of keys, and each second looks whether it has changed. usages: as of keyring_create. */
status_t access_create(loop_t *loop, metrics_t *metrics, const char *path, auth_usages_t *usages,
                       access_t **access, err_t *err);
/* Looks at once. NULL is fine. */
void access_look(access_t *access);
void access_destroy(access_t *access); /* no holder is in use; NULL is fine */

/*
 * Who presents the key and may do that, with that model where one is named: *holder, valid until the loop turns. UNAUTHENTICATED: no
 * key that counts, whatever is wrong with it; PERMISSION_DENIED: a good key that may not.
 */
status_t access_check(access_t *access, const access_claim_t *claim, auth_right_t right, const char *model,
                      keyring_holder_t **holder, err_t *err);
/* The same of somebody who was found before, and is held. */
status_t access_check_again(access_t *access, const keyring_holder_t *holder, const char *peer,
                            auth_right_t right, const char *model, err_t *err);

/* A connection that stays: the holder lives until the drop. */
void access_hold(access_t *access, keyring_holder_t *holder);
void access_drop(access_t *access, keyring_holder_t *holder);

/* An inference by its holder begins, and ends. LIMITED: over the limits of the key, *retry_after_ms as keyring_enter. */
status_t access_enter(access_t *access, keyring_holder_t *holder, uint32_t *retry_after_ms, err_t *err);
void access_leave(access_t *access, keyring_holder_t *holder);

/* The line of an admin action. */
void access_audit(access_t *access, const keyring_holder_t *holder, const char *peer, const char *action,
                  const char *target);

#endif
