/*
 * The gRPC form: inference.ModelInferRequest and ModelInferResponse as wire bytes.
 *
 * Hot path: the wire format is read in place, so raw_input_contents stay in the message (borrowed) and raw
 * outputs go out as iovecs; a generated parser would copy both. Everything else of the service uses
 * protobuf-c (oip/describe.h).
 */
#ifndef OIP_GRPC_CODEC_H
#define OIP_GRPC_CODEC_H

#include "oip/request.h"

/*
 * Typed contents are converted into memory of the allocator. Mixing typed and raw contents, or a raw count
 * that is not the input count, is INVALID_ARGUMENT, as is anything that is no protobuf. The spec may be found
 * only after the parse (request->model); oip_validate_request must follow.
 */
status_t oip_grpc_parse(oip_request_t *request, const void *message, size_t message_bytes,
                        const oip_allocator_t *allocator, err_t *err);

/* Only model name and version, for choosing the model before the rest is parsed; pointers into the message.
 */
status_t oip_grpc_peek_model(const void *message, size_t message_bytes, const char **model, size_t *model_len,
                             const char **version, size_t *version_len);

/* Outputs always go out raw. */
status_t oip_grpc_write(oip_reply_t *reply, const oip_response_t *response, err_t *err);

#endif
