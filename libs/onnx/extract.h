/*
 * A part of a model as a model of its own: what lies between some of its tensors and others, with the initialisers and functions
 * that it needs.
 */
#ifndef ONNX_EXTRACT_H
#define ONNX_EXTRACT_H

#include "onnx/model.h"

/* A tensor by name, as the part declares it. */
typedef struct {
    const char *name;
    dtype_t dtype;
    uint32_t rank;
    int64_t dims[ONNX_MAX_RANK]; /* -1: open */
} onnx_edge_t;

typedef struct {
    const onnx_edge_t *inputs, *outputs;
    uint32_t input_count, output_count;
} onnx_part_t;

/* What reads what, found once for a model, which must outlive it. One thread at a time. */
typedef struct onnx_extract onnx_extract_t;

/* INVALID_ARGUMENT: a tensor is made twice. */
status_t onnx_extract_create(const onnx_model_t *model, onnx_extract_t **extract, err_t *err);
void onnx_extract_destroy(onnx_extract_t *extract); /* NULL is fine */

/* Whether the outputs follow from the inputs and constants alone. UNSUPPORTED names what else they need: an input of the model
 * that is none of the part's, or a tensor that is not there. */
status_t onnx_extract_check(onnx_extract_t *extract, const onnx_part_t *part, err_t *err);

/* The part as a file, to be freed. External data stays where it is. */
status_t onnx_extract_pack(onnx_extract_t *extract, const onnx_part_t *part, void **bytes, size_t *len_bytes,
                           err_t *err);

#endif
