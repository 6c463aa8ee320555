/*
 * The REST form: JSON with tensors inside it or, with the binary extension, raw behind it.
 * Hot path: `data` arrays go from the text straight into typed memory, without a tree in between.
 * Thread-compatible: no state outside the arguments.
 */
#ifndef OIP_REST_CODEC_H
#define OIP_REST_CODEC_H

#include "oip/request.h"

/* Deepest nesting accepted: 8 dimensions inside inputs[] inside the object, and some for unknown members. */
enum { OIP_JSON_MAX_DEPTH = 32 };

/* Inference-Header-Content-Length was not sent. */
#define OIP_REST_ALL_JSON INT64_C(-1)

/*
 * Parses the body of an infer request. header_bytes: the value of Inference-Header-Content-Length, or
 * OIP_REST_ALL_JSON; 0 hands over to oip_rest_parse_raw. The spec is only read to refuse inputs early and to
 * shape raw bodies; oip_validate_request must follow. On failure the request's contents are undefined.
 */
status_t oip_rest_parse(oip_request_t *request, const oip_model_spec_t *spec, const char *body,
                        size_t body_bytes, int64_t header_bytes, const oip_allocator_t *allocator,
                        err_t *err);

/*
 * The whole body is the raw data of the model's single input: as many rows as there are row sizes in it, or,
 * for BYTES and for the picture input, one element that is the body itself. Outputs are then binary, but JSON for a
 * picture: it comes from a person with curl, not from a client library.
 */
status_t oip_rest_parse_raw(oip_request_t *request, const oip_model_spec_t *spec, const void *body,
                            size_t body_bytes, const oip_allocator_t *allocator, err_t *err);

/* The body of a repository index request: empty, or {"ready": true} among members that are passed over. */
status_t oip_rest_parse_index(const char *body, size_t body_bytes, bool *only_ready, err_t *err);

/*
 * The body of a load or unload: empty, or {"parameters": {…}}. Of the parameters only `unload_dependents` (a
 * bool) is taken, which changes nothing: no model depends on another. UNSUPPORTED, naming it, for any other:
 * `config` and `file:…` would replace what is in the repository.
 */
status_t oip_rest_parse_model_control(const char *body, size_t body_bytes, err_t *err);
/* The same for a parameter of the gRPC request. */
status_t oip_check_model_control(const char *parameter, err_t *err);

/* True for a body that begins like a JPEG or PNG picture (for image/jpeg and image/png posts). */
bool oip_rest_is_picture(const void *body, size_t body_bytes);

/* Whether the outputs that a validated request asks for have the form in which it asks for them:
 * INVALID_ARGUMENT for FP16 and BF16 as JSON. */
status_t oip_rest_check(const oip_request_t *request, const oip_model_spec_t *spec, err_t *err);

/*
 * Writes the answer. Floats are the shortest text that reads back equal; NaN and infinities are written as
 * NaN, Infinity and -Infinity, which Triton writes and the stock clients read. FP16 and BF16 have no JSON
 * form: INVALID_ARGUMENT unless the output is binary.
 */
status_t oip_rest_write(oip_reply_t *reply, const oip_response_t *response, err_t *err);

#endif
