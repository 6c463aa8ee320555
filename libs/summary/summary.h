/* What is said of a model once all are loaded: a line for people, an object for programs. */
#ifndef SUMMARY_SUMMARY_H
#define SUMMARY_SUMMARY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Texts are never NULL. */
typedef struct {
    const char *name, *version;
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

/* To stdout: "  digits, version 1: ready on onednn, staged in 4 stages; 1 row takes 3.4 ms, 32 take 91 (4 sizes measured, up to 8)". Of
 * mode whole that nobody refused no word. */
void summary_print_model(const summary_model_t *model);

/* The caller owns it. */
json_t *summary_model_json(const summary_model_t *model);

#endif
