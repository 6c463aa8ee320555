/*
 * Who asks this gateway, and how much of it each has: so that one client can slow down itself only. A client is the holder of a key or,
 * where no keys are wanted, an address (of IPv6 the first 64 bits). Loop thread.
 *
 *   over its own limit (its key's, its address's)            LIMITED, 429
 *   over its share of the requests or of the memory that are taken up for three quarters, or
 *   over its share of a model that has too much to do, or
 *   the model is over the limit that it was given            UNAVAILABLE, 503
 *
 * clients NULL: everybody may have everything, and a client is NULL; so it is where more than CLIENTS_MAX ask at once.
 */
#ifndef GATEWAY_CLIENTS_H
#define GATEWAY_CLIENTS_H

#include "auth/keyring.h"
#include "gateway/models/model_entry.h"
#include "metrics/metrics.h"

typedef struct clients clients_t;
typedef struct client client_t;

enum { CLIENTS_MAX = 4096 };

typedef struct {
    metrics_t *metrics;
    auth_usages_t *usages;      /* outlive it; those with the same share the limits of addresses and models */
    const char *address_limits; /* as auth_limits_parse; NULL: none */
    const char *const *model_limits; /* "MODEL:LIMITS" */
    size_t model_limits_len;
    uint32_t requests_max;
    size_t memory_bytes; /* for tensors */
} clients_options_t;

status_t clients_create(const clients_options_t *options, clients_t **clients, err_t *err);
void clients_destroy(clients_t *clients); /* nobody has anything; NULL is fine */

/* What one request has of it; all zero: nothing. */
typedef struct {
    client_t *client;
    auth_usage_t *address, *model; /* where they are limited */
    client_t *address_client;
    uint64_t bytes;
    bool entered;
} client_hold_t;

/* A request begins: whose, from where ("1.2.3.4:5", as front ends have it). LIMITED, UNAVAILABLE. Ends with clients_leave, also where it failed. */
status_t clients_enter(clients_t *clients, const keyring_holder_t *holder, const char *peer,
                       client_hold_t *hold, uint32_t *retry_after_ms, err_t *err);
/* … for that model, once. UNAVAILABLE. */
status_t clients_enter_model(clients_t *clients, model_entry_t *model, client_hold_t *hold,
                             uint32_t *retry_after_ms, err_t *err);
/* Whose the request is, the same number for all of one client; 0: of one who is not told apart. */
uint64_t clients_id(const client_hold_t *hold);
/* Whether it may have so much more memory, which is then counted. */
bool clients_take_memory(clients_t *clients, client_hold_t *hold, size_t len_bytes);
/* It was answered: what it has of limits goes back; its memory and its place go with clients_leave. */
void clients_answered(client_hold_t *hold);
void clients_leave(clients_t *clients, client_hold_t *hold);

/* What became of its request: served, or given up because the model had too much to do. */
void clients_ended(clients_t *clients, const client_hold_t *hold, model_entry_t *model, bool served);

#endif
