/*
 * What the load generator knows of a model: the metadata that the server gave.
 */
#ifndef LOAD_MODEL_H
#define LOAD_MODEL_H

#include "base/status.h"
#include "oip/tensor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MODEL_TENSORS_MAX = 64, MODEL_NAME_BYTES = 256 };

typedef struct {
    char name[MODEL_NAME_BYTES];
    oip_datatype_t datatype;
    oip_shape_t shape; /* as the metadata has it; -1 = any */
} model_tensor_t;

typedef struct {
    char name[MODEL_NAME_BYTES];
    uint32_t input_count, output_count;
    model_tensor_t inputs[MODEL_TENSORS_MAX], outputs[MODEL_TENSORS_MAX];
} model_t;

/* The answer of GET /v2/models/NAME, or an inference.ModelMetadataResponse. */
status_t model_parse_json(model_t *model, const void *json, size_t len_bytes, err_t *err);
status_t model_parse_pb(model_t *model, const void *message, size_t len_bytes, err_t *err);

/* The shape to send: rows for a leading -1 (the batch dimension), 1 for any other. */
oip_shape_t model_shape(const model_tensor_t *tensor, uint32_t rows);

#endif
