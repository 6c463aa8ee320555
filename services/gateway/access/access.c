#include "gateway/access/access.h"

#include "base/clock.h"
#include "base/log.h"
#include "loop/timer.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define LOOK_NS NS_PER_S /* how late a revoked key may still be taken */

struct access {
    keyring_t *ring;
    metrics_t *metrics;
    loop_timer_t timer;
};

/* ---- the file ---- */

void access_look(access_t *access)
{
    bool changed;
    err_t err;

    if (!access)
        return;
    if (keyring_refresh(access->ring, &changed, &err) != STATUS_OK)
        log_error("keys_not_read", LOG_ERR(&err), LOG_STR("effect", "the keys that were read before count"));
    else if (changed)
        log_info("keys_read", LOG_U64("keys", keyring_count(access->ring)));
}

static void on_look(loop_timer_t *timer, void *arg)
{
    access_look(arg);
    loop_timer_start_in(timer, LOOK_NS);
}

status_t access_create(loop_t *loop, metrics_t *metrics, const char *path, auth_usages_t *usages,
                       access_t **access, err_t *err)
{
    access_t *made = calloc(1, sizeof *made);

    if (!made)
        return err_set(err, STATUS_NO_MEMORY, "no memory for keys");
    made->metrics = metrics;
    status_t status = keyring_create(path, usages, &made->ring, err);
    if (status == STATUS_OK)
        status = loop_timer_init(&made->timer, loop, on_look, made, err);
    if (status != STATUS_OK) {
        keyring_destroy(made->ring);
        free(made);
        return status;
    }
    loop_timer_start_in(&made->timer, LOOK_NS);
    *access = made;
    return STATUS_OK;
}

void access_destroy(access_t *access)
{
    if (!access)
        return;
    loop_timer_dispose(&access->timer);
    keyring_destroy(access->ring);
    free(access);
}

/* ---- refusing ---- */

static void count_refusal(access_t *access, const char *reason, const char *peer, const auth_key_t *key,
                          const char *model)
{
    metrics_add(metrics_series(access->metrics, METRIC_GATEWAY_ACCESS_REFUSED, reason), 1);
    log_warn_limited("access_refused", LOG_STR("reason", reason), LOG_STR("peer", peer),
                     LOG_STR("key", key ? key->name : "-"), LOG_STR("model", model ? model : "-"));
}

/* One text for all that can be wrong with a key: a guesser learns nothing. */
static status_t refuse_stranger(access_t *access, const char *reason, const char *peer, const auth_key_t *key,
                                err_t *err)
{
    count_refusal(access, reason, peer, key, NULL);
    return err_set(err, STATUS_UNAUTHENTICATED,
                   "a valid API key is wanted (header \"Authorization: Bearer KEY\" or \"x-api-key: KEY\")");
}

static const char *right_name(auth_right_t right)
{
    return right == AUTH_INFER ? "infer" : right == AUTH_READ ? "read" : "admin";
}

status_t access_check_again(access_t *access, const keyring_holder_t *holder, const char *peer,
                            auth_right_t right, const char *model, err_t *err)
{
    if (!access)
        return STATUS_OK;
    const auth_key_t *key = keyring_key(holder);
    if (!keyring_is_good(holder, time(NULL)))
        return refuse_stranger(access, "expired", peer, key, err);
    if (auth_key_may(key, right, model))
        return STATUS_OK;
    count_refusal(access, "scope", peer, key, model);
    return err_set(err, STATUS_PERMISSION_DENIED, "this key lacks the scope %s%s%.128s", right_name(right),
                   model && right != AUTH_ADMIN ? " for model " : "",
                   model && right != AUTH_ADMIN ? model : "");
}

/* ---- finding ---- */

/* The key of "Bearer KEY"; false: it is something else. */
static bool bearer_key(const access_claim_t *claim, const char **key, size_t *len_bytes)
{
    static const char scheme[] = "bearer ";
    const char *at = claim->authorization;
    size_t left = claim->authorization_bytes, skip = sizeof scheme - 1;

    if (!at || left < skip || strncasecmp(at, scheme, skip) != 0)
        return false;
    for (at += skip, left -= skip; left > 0 && *at == ' '; at++)
        left--;
    *key = at;
    *len_bytes = left;
    return true;
}

status_t access_check(access_t *access, const access_claim_t *claim, auth_right_t right, const char *model,
                      keyring_holder_t **holder, err_t *err)
{
    const char *text = claim->api_key;
    size_t len_bytes = claim->api_key_bytes;

    *holder = NULL;
    if (!access)
        return STATUS_OK;
    if (!bearer_key(claim, &text, &len_bytes) && !text)
        return refuse_stranger(access, "no_key", claim->peer(claim->arg), NULL, err);
    keyring_holder_t *found = keyring_find(access->ring, text, len_bytes);
    if (!found)
        return refuse_stranger(access, "unknown_key", claim->peer(claim->arg), NULL, err);
    if (keyring_is_good(found, time(NULL)) && auth_key_may(keyring_key(found), right, model)) {
        *holder = found;
        return STATUS_OK;
    }
    status_t status = access_check_again(access, found, claim->peer(claim->arg), right, model, err);
    if (status == STATUS_OK)
        *holder = found;
    return status;
}

void access_hold(access_t *access, keyring_holder_t *holder)
{
    if (access)
        keyring_hold(holder);
}

void access_drop(access_t *access, keyring_holder_t *holder)
{
    if (access)
        keyring_drop(access->ring, holder);
}

/* ---- using ---- */

status_t access_enter(access_t *access, keyring_holder_t *holder, uint32_t *retry_after_ms, err_t *err)
{
    *retry_after_ms = 0;
    if (!access)
        return STATUS_OK;
    status_t status = keyring_enter(holder, clock_now_ns(), retry_after_ms, err);
    if (status != STATUS_OK)
        count_refusal(access, "limit", "-", keyring_key(holder), NULL);
    return status;
}

void access_leave(access_t *access, keyring_holder_t *holder)
{
    if (access)
        keyring_leave(access->ring, holder);
}

void access_audit(access_t *access, const keyring_holder_t *holder, const char *peer, const char *action,
                  const char *target)
{
    if (access)
        log_info("audit", LOG_STR("key", keyring_key(holder)->name), LOG_STR("peer", peer),
                 LOG_STR("action", action), LOG_STR("target", target));
}
