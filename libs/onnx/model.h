/*
 * An ONNX file, parsed and bounded: what comes out of here is well-formed protobuf of sane size, and nothing
 * more. The meaning of the graph is checked by libs/graph.
 *
 * Hostile files: nesting, message count and tensor sizes are checked before memory is spent on them; external
 * data is read from the folder of the model and from nowhere else.
 */
#ifndef ONNX_MODEL_H
#define ONNX_MODEL_H

#include "base/status.h"
#include "onnx/dtype.h"

#include <stddef.h>
#include <stdint.h>

typedef struct onnx_model onnx_model_t;
struct Onnx__ModelProto;
struct Onnx__TensorProto;

enum {
    ONNX_MAX_RANK = 8,
    ONNX_MAX_DEPTH = 24,         /* messages in messages; a graph without control flow needs 8 */
    ONNX_MAX_MESSAGES = 4000000, /* nodes, attributes, dims, …; the largest models have some 100,000 */
};
#define ONNX_MAX_TENSOR_BYTES ((size_t)1 << 34) /* of one initialiser */

/* Reads a file. Blocking. */
status_t onnx_model_load(const char *path, onnx_model_t **model, err_t *err);

/* Parses bytes, which are not needed afterwards. Without a folder, external data is an error. */
status_t onnx_model_parse(const void *bytes, size_t len_bytes, const char *folder, onnx_model_t **model,
                          err_t *err);

void onnx_model_destroy(onnx_model_t *model);

/* The parsed message ("onnx.pb-c.h"); it has a graph. Valid as long as the model. */
const struct Onnx__ModelProto *onnx_model_proto(const onnx_model_t *model);

/* The imported version of an operator set ("" is the standard one), 0 when it is not imported. */
int64_t onnx_model_opset(const onnx_model_t *model, const char *domain);

/* INVALID_ARGUMENT names the node whose constant scale is 0, negative or no number: libraries compute with it without a word. */
status_t onnx_model_check_scales(const onnx_model_t *model, err_t *err);

/* Whether every external file is there, in the folder and a regular file: for a library that opens them by itself. */
status_t onnx_model_check_external(const onnx_model_t *model, err_t *err);

typedef struct {
    dtype_t dtype;
    uint32_t rank;
    int64_t dims[ONNX_MAX_RANK];
    size_t count, len_bytes;
} onnx_tensor_info_t;

/* Type, dims and size, checked against overflow and ONNX_MAX_TENSOR_BYTES, and that as much data is there. */
status_t onnx_tensor_info(const onnx_model_t *model, const struct Onnx__TensorProto *tensor,
                          onnx_tensor_info_t *info, err_t *err);

/* Writes info->len_bytes of dense little-endian elements. */
status_t onnx_tensor_read(const onnx_model_t *model, const struct Onnx__TensorProto *tensor,
                          const onnx_tensor_info_t *info, void *to, err_t *err);

#endif
