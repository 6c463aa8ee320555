/* Shared by the files of libs/onnx. */
#ifndef ONNX_INTERNAL_H
#define ONNX_INTERNAL_H

#include "onnx.pb-c.h"

#include "base/mapped.h"
#include "onnx/model.h"
#include "onnx/outline.h"

#include <stdbool.h>

struct onnx_model {
    Onnx__ModelProto *proto;
    mapped_t file;                /* it lies in; bytes NULL: all of it was unpacked */
    outline_t outline;            /* of the file */
    ProtobufCAllocator allocator; /* of proto */
    char *path;                   /* the file's, resolved; NULL = it has none */
    char *folder;                 /* resolved; NULL = no external data */
};

/* tensor.c */
const char *tensor_name(const Onnx__TensorProto *t); /* for errors */
bool tensor_is_external(const Onnx__TensorProto *t);

/* external.c */
bool external_is_used(const onnx_model_t *model);
/* Of a tensor that is, info->len_bytes of it. */
status_t external_read(const onnx_model_t *model, const Onnx__TensorProto *t, const onnx_tensor_info_t *info,
                       void *to, err_t *err);

#endif
