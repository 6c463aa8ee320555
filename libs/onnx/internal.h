/* Shared by the files of libs/onnx. */
#ifndef ONNX_INTERNAL_H
#define ONNX_INTERNAL_H

#include "onnx.pb-c.h"

#include "onnx/model.h"
#include "onnx/outline.h"

#include <stdbool.h>

struct onnx_model {
    Onnx__ModelProto *proto;
    outline_t outline;            /* from NULL: all of it was unpacked */
    ProtobufCAllocator allocator; /* of proto */
    char *folder;                 /* resolved; NULL = no external data */
};

/* tensor.c */
const char *tensor_name(const Onnx__TensorProto *t); /* for errors */
bool tensor_is_external(const Onnx__TensorProto *t);

/* external.c: of a tensor that is, info->len_bytes of it. */
status_t external_read(const onnx_model_t *model, const Onnx__TensorProto *t, const onnx_tensor_info_t *info,
                       void *to, err_t *err);

#endif
