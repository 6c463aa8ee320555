/*
 * Tensors as the Open Inference Protocol speaks of them: datatypes, shapes and their sizes.
 * Pure; every product is checked for overflow.
 */
#ifndef OIP_TENSOR_H
#define OIP_TENSOR_H

#include "base/box.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef enum {
    OIP_INVALID = 0, /* the values are those of DataType in Triton's model_config.proto */
    OIP_BOOL = 1,
    OIP_UINT8,
    OIP_UINT16,
    OIP_UINT32,
    OIP_UINT64,
    OIP_INT8,
    OIP_INT16,
    OIP_INT32,
    OIP_INT64,
    OIP_FP16,
    OIP_FP32,
    OIP_FP64,
    OIP_BYTES, /* elements are a 4-byte little-endian length and that many bytes */
    OIP_BF16,
    OIP_DATATYPE_COUNT,
} oip_datatype_t;

/* Ranks of real models end at 5 or 6; 8 is also what the ONNX loader takes. */
enum { OIP_MAX_RANK = 8, OIP_SHAPE_TEXT_BYTES = 192 };

/* dims[i] >= 0; in a model's description -1 means "any". */
typedef struct {
    uint32_t rank;
    int64_t dims[OIP_MAX_RANK];
} oip_shape_t;

/* "FP32"; "INVALID" for anything out of range. */
const char *oip_datatype_name(oip_datatype_t type);
/* OIP_INVALID when the text names no datatype. The text need not end in NUL. */
oip_datatype_t oip_datatype_parse(const char *text, size_t len);
/* Triton's name in a model configuration ("TYPE_FP32", "TYPE_STRING" for BYTES). */
const char *oip_datatype_config_name(oip_datatype_t type);
/* Bytes of one element; 0 for BYTES, whose elements have their own lengths. */
size_t oip_datatype_bytes(oip_datatype_t type);
/* What one element is. Not for BYTES. */
box_element_t oip_datatype_element(oip_datatype_t type);

/* One element as it lies in a tensor, aligned or not; the member of its type holds. Not for BYTES. */
typedef union {
    uint8_t u8;
    int8_t i8;
    uint16_t u16;
    int16_t i16;
    uint32_t u32;
    int32_t i32;
    uint64_t u64;
    int64_t i64;
    float f32;
    double f64;
} oip_element_t;

static inline oip_element_t oip_element(oip_datatype_t type, const void *at)
{
    oip_element_t element;
    memcpy(&element, at, oip_datatype_bytes(type));
    return element;
}

/* False when a dimension is negative or the product does not fit 63 bits. A scalar (rank 0) has one element.
 */
bool oip_shape_elements(const oip_shape_t *shape, uint64_t *count);
/* Elements times element size; false as above, and for BYTES. */
bool oip_shape_bytes(const oip_shape_t *shape, oip_datatype_t type, uint64_t *len_bytes);
/* The same for elements of that size; false for 0. */
bool oip_shape_bytes_of(const oip_shape_t *shape, size_t element_bytes, uint64_t *len_bytes);
/* Same rank, and the same dimensions wherever `wanted` does not say -1. */
bool oip_shape_matches(const oip_shape_t *wanted, const oip_shape_t *got);
/* "[1,3,224,224]"; returns text. */
const char *oip_shape_format(const oip_shape_t *shape, char text[OIP_SHAPE_TEXT_BYTES]);

/* Walks the elements of a BYTES tensor: *offset starts at 0; false at the end or where the framing is broken.
 */
bool oip_bytes_next(const uint8_t *data, size_t len_bytes, size_t *offset, const uint8_t **element,
                    uint32_t *element_bytes);
/* Number of elements if the framing of the whole is right, else -1. */
int64_t oip_bytes_count(const uint8_t *data, size_t len_bytes);

#endif
