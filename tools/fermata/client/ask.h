/* Small questions to a server over HTTP, and what a gateway says about its models. */
#ifndef FERMATA_CLIENT_ASK_H
#define FERMATA_CLIENT_ASK_H

#include "base/status.h"
#include "http/client.h"

#include <jansson.h>
#include <stdbool.h>

/* The body as JSON, or NULL (no answer, or not JSON). The caller owns it. */
json_t *ask_json(const http_client_response_t *response);

/* The reason in an error body ({"error": "…"}), or a text for the status. Returns text. */
const char *ask_reason(const http_client_response_t *response, const err_t *err, char *text,
                       size_t text_bytes);

enum { ASK_NAME_BYTES = 128, ASK_REASON_BYTES = 1024, ASK_MODELS_MAX = 1024 };

typedef enum { MODEL_IS_READY, MODEL_IS_LOADING, MODEL_HAS_FAILED, MODEL_IS_UNLOADED } model_readiness_t;

typedef struct {
    char name[ASK_NAME_BYTES];
    char version[ASK_NAME_BYTES];
    char reason[ASK_REASON_BYTES];
    model_readiness_t readiness;
    /* What the scheduler says of it; "" when it was not asked. */
    char engine[32], mode[32], mode_reason[ASK_REASON_BYTES];
    uint32_t stages, exit_points;
    uint32_t max_batch;                /* 0 when it was not asked, or does not say */
    double one_ms, most_ms;            /* what batches of 1 and of max_batch take */
    uint32_t measured, measured_up_to; /* sizes, and the largest; 0: none was */
    double doubt;                      /* profile_doubt of it; 0: none */
} model_state_t;

/* From a repository index. Returns how many; at most cap. */
size_t ask_models(const json_t *index, model_state_t *models, size_t cap);

/* The same from the scheduler's /state, which says only of each whether it is ready, and why not. */
size_t ask_listed(const json_t *state, model_state_t *models, size_t cap);

/* Adds the modes that they run in, and what is known of their latency, from the scheduler's /state. */
void ask_modes(const json_t *state, model_state_t *models, size_t models_len);

const char *model_readiness_name(model_readiness_t readiness);

#endif
