/*
 * Element types of tensors, with ONNX's numbers so that no table is needed at that border.
 * Everything is little-endian and dense; BOOL is one byte (0 or 1); strings have no fixed width and never
 * reach an engine.
 */
#ifndef ONNX_DTYPE_H
#define ONNX_DTYPE_H

#include <stddef.h>

typedef enum {
    DTYPE_NONE = 0,
    DTYPE_F32 = 1,
    DTYPE_U8 = 2,
    DTYPE_I8 = 3,
    DTYPE_U16 = 4,
    DTYPE_I16 = 5,
    DTYPE_I32 = 6,
    DTYPE_I64 = 7,
    DTYPE_STRING = 8,
    DTYPE_BOOL = 9,
    DTYPE_F16 = 10,
    DTYPE_F64 = 11,
    DTYPE_U32 = 12,
    DTYPE_U64 = 13,
    DTYPE_BF16 = 16,
} dtype_t;

/* Bytes of one element; 0 for NONE, STRING and numbers that are no type. */
size_t dtype_size(dtype_t dtype);

/* Short name for messages: "f32", "i64"; "?" for what is no type. */
const char *dtype_name(dtype_t dtype);

/* Name in the Open Inference Protocol: "FP32", "INT64", "BYTES"; "" for what it does not know. */
const char *dtype_oip_name(dtype_t dtype);

#endif
