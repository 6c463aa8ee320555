/*
 * Waits until every gateway is ready and knows what has become of each model: ready, failed or not to be
 * loaded yet. Asks the gateways one after the other, again and again, over HTTP; then, once, the scheduler in which
 * modes they run. Loop thread only.
 */
#ifndef FERMATA_UP_READINESS_H
#define FERMATA_UP_READINESS_H

#include "fermata/client/ask.h"
#include "loop/loop.h"
#include "tls/context.h"

typedef struct readiness readiness_t;

/* Called once. models is valid until readiness_destroy; any_ready is false when every model has failed. */
typedef void (*readiness_fn_t)(void *arg, const model_state_t *models, size_t models_len, bool any_ready);

/* addresses: of the gateways' REST servers; scheduler: of its HTTP server. Copied. tls: of who asks them, outlives it; NULL: plain.
 * keyed: the gateways want keys for all but their health; then the scheduler is asked what has become of each model. */
status_t readiness_create(readiness_t **out, loop_t *loop, const char *const *addresses, size_t addresses_len,
                          const char *scheduler, tls_context_t *tls, bool keyed, readiness_fn_t fn, void *arg,
                          err_t *err);
void readiness_destroy(readiness_t *readiness); /* NULL is allowed; not from within fn */

/* What is known of the models so far; valid until the loop turns again. */
const model_state_t *readiness_models(const readiness_t *readiness, size_t *len);

/* What is being waited for, in words. */
const char *readiness_waiting_for(const readiness_t *readiness);

#endif
