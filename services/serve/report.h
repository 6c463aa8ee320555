/* What `serve` says of itself once each model has been loaded or has failed. */
#ifndef SERVE_REPORT_H
#define SERVE_REPORT_H

#include "base/strbuf.h"
#include "serve/serve.h"

#include <stdio.h>

/* No model is being loaded. */
bool report_is_due(const serve_t *serve);
/* There are models, and all have failed. */
bool report_is_of_failure(const serve_t *serve);

/* To stdout: for people; and as one line of JSON, in the shape of that of `fermata up`. took_ns: since the start. */
void report_text(const serve_t *serve, int64_t took_ns,
                 const char *log_folder); /* "": the log is not there */
void report_json(const serve_t *serve);

/* For a screen, while models load. */
void report_progress(const serve_t *serve, int64_t took_ns, bool colours, strbuf_t *out);
/* Why none could be loaded, a line for each. */
void report_failure(const serve_t *serve, FILE *out);

#endif
