/* The authority of `fermata up --tls` and what it issues: made where it is not there yet, and kept for the next time. */
#ifndef FERMATA_UP_CERTS_H
#define FERMATA_UP_CERTS_H

#include "fermata/up/options.h"
#include "tls/context.h"

/* Without --tls nothing is done. */
status_t up_certs_make(const up_options_t *options, err_t *err);
/* How this program asks the services; *context NULL: plain. */
status_t up_certs_open(const up_options_t *options, tls_context_t **context, err_t *err);

#endif
