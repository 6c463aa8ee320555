/*
 * Request bodies, built once before the run and sent again and again: pictures from files or tensors from a
 * seed, in the form of REST (binary extension) or gRPC.
 */
#ifndef LOAD_PAYLOAD_H
#define LOAD_PAYLOAD_H

#include "base/prng.h"
#include "base/status.h"
#include "load/model.h"
#include "load/shapes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { PROTOCOL_REST, PROTOCOL_GRPC } protocol_t;

/* All bodies of a run together; they are kept in memory so that sending one costs nothing. */
#define PAYLOADS_MAX_BYTES (INT64_C(2) << 30)
enum { PAYLOADS_MAX = 4096, PAYLOAD_LABEL_BYTES = 256, PAYLOAD_HEADERS_BYTES = 64 };

typedef struct {
    protocol_t protocol;
    uint32_t rows;             /* in each request; pictures: that many copies */
    int64_t timeout_us;        /* parameter `timeout`; 0 = none */
    uint32_t classes;          /* > 0: asks for the top classes of every output instead of the tensors */
    bool text_output;          /* REST: outputs as JSON, to be read by people */
    shapes_t *shapes;          /* of tensors; drawn anew for each body */
    const char *picture_input; /* the input that pictures go to; NULL = the model's only one */
    /* A region of shared memory that the server knows, where the inputs lie one behind the other: they are not sent. NULL: none. */
    const char *region;
} payload_options_t;

typedef struct {
    char label[PAYLOAD_LABEL_BYTES]; /* the picture's file name; "" for tensors */
    uint8_t *bytes;
    size_t len_bytes;
    char headers[PAYLOAD_HEADERS_BYTES]; /* REST: the Inference-Header-Content-Length line */
} payload_t;

typedef struct {
    payload_t *items;
    uint32_t count, capacity;
    int64_t bytes;
} payloads_t;

void payloads_dispose(payloads_t *payloads);

/* Adds `variants` bodies with values from the generator: floats in [0, 1), small integers, words for BYTES.
 */
status_t payloads_add_tensors(payloads_t *payloads, const model_t *model, const payload_options_t *options,
                              uint32_t variants, prng_t *prng, err_t *err);

/* Adds one body for each *.png, *.jpg and *.jpeg of the folder, by name. */
status_t payloads_add_pictures(payloads_t *payloads, const model_t *model, const payload_options_t *options,
                               const char *folder, err_t *err);

/* One body from the inputs' bytes, in the order of model->inputs; for tests and the two above. */
typedef struct {
    const model_tensor_t *tensor;
    oip_datatype_t datatype;
    oip_shape_t shape;
    const uint8_t *data;
    size_t len_bytes;
} payload_input_t;
status_t payloads_add(payloads_t *payloads, const model_t *model, const payload_options_t *options,
                      const char *label, const payload_input_t *inputs, uint32_t input_count, err_t *err);

#endif
