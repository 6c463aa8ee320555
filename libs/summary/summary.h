/* What is said of models: while they load, once all are loaded a table for people, an object for programs. */
#ifndef SUMMARY_SUMMARY_H
#define SUMMARY_SUMMARY_H

#include "base/strbuf.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Texts are never NULL. */
typedef struct {
    const char *name, *version; /* version "0": its folder has none, and a table says nothing of it */
    const char *state, *reason; /* "ready", "failed"; why it is not ready, or "" */
    bool ready;
    const char *mode, *mode_reason; /* "" when it is not known */
    const char *engine;             /* that it runs on; "" when it is not known */
    uint32_t stages, exit_points;
    uint32_t max_batch;                /* 0 when it is not known */
    double one_ms, most_ms;            /* what batches of 1 and of max_batch take; 0 when it is not known */
    uint32_t measured, measured_up_to; /* sizes, and the largest; 0: none was */
    double doubt;                      /* profile_doubt of it; 0: none */
} summary_model_t;

/*
 * A line for each below a line of headings; what has no room in so many columns (SUMMARY_ALL: no end to them) is left out
 * from the right. Below a model, if there is such: why it is not ready, in full; the mode that it runs in, but of mode
 * whole that nobody refused no word. Of no models it says that there are none, and what one is.
 *
 *     model    version  state   engine       1 row    full batch     measured
 *     digits   1        ready   onnxruntime  3.4 ms   32 in 91 ms    4 sizes up to 8
 *     broken   1        failed
 *         node 'x': unknown operator Foo
 */
void summary_table(const summary_model_t *models, size_t count, unsigned columns, bool colours,
                   strbuf_t *out);

enum { SUMMARY_ALL = 0 };

/* The lines of a screen while models load: how many are ready after what time, then each with its state, and what was
 * measured of it. No newline at the end. */
void summary_progress(const summary_model_t *models, size_t count, double seconds, bool colours,
                      strbuf_t *out);

/* The caller owns it. */
json_t *summary_model_json(const summary_model_t *model);

#endif
