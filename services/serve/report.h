/* What `serve` says of itself once each model has been loaded or has failed. */
#ifndef SERVE_REPORT_H
#define SERVE_REPORT_H

#include "serve/serve.h"

/* No model is being loaded. */
bool report_is_due(const serve_t *serve);
/* There are models, and all have failed. */
bool report_is_of_failure(const serve_t *serve);

/* To stdout: for people; and as one line of JSON, in the shape of that of `fermata up`. took_ns: since the start. */
void report_text(const serve_t *serve, int64_t took_ns);
void report_json(const serve_t *serve);

#endif
