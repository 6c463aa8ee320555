#include "oip/tensor.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    const char *name, *config_name;
    size_t bytes;
    box_kind_t kind;
} datatype_row_t;

static const datatype_row_t datatypes[OIP_DATATYPE_COUNT] = {
    [OIP_INVALID] = {.name = "INVALID", .config_name = "TYPE_INVALID"},
    [OIP_BOOL] = {"BOOL", "TYPE_BOOL", 1, BOX_BOOL},
    [OIP_UINT8] = {"UINT8", "TYPE_UINT8", 1, BOX_UNSIGNED},
    [OIP_UINT16] = {"UINT16", "TYPE_UINT16", 2, BOX_UNSIGNED},
    [OIP_UINT32] = {"UINT32", "TYPE_UINT32", 4, BOX_UNSIGNED},
    [OIP_UINT64] = {"UINT64", "TYPE_UINT64", 8, BOX_UNSIGNED},
    [OIP_INT8] = {"INT8", "TYPE_INT8", 1, BOX_SIGNED},
    [OIP_INT16] = {"INT16", "TYPE_INT16", 2, BOX_SIGNED},
    [OIP_INT32] = {"INT32", "TYPE_INT32", 4, BOX_SIGNED},
    [OIP_INT64] = {"INT64", "TYPE_INT64", 8, BOX_SIGNED},
    [OIP_FP16] = {"FP16", "TYPE_FP16", 2, BOX_FLOAT},
    [OIP_FP32] = {"FP32", "TYPE_FP32", 4, BOX_FLOAT},
    [OIP_FP64] = {"FP64", "TYPE_FP64", 8, BOX_FLOAT},
    [OIP_BYTES] = {.name = "BYTES", .config_name = "TYPE_STRING"},
    [OIP_BF16] = {"BF16", "TYPE_BF16", 2, BOX_BFLOAT},
};

static const datatype_row_t *row_of(oip_datatype_t type)
{
    return &datatypes[(unsigned)type < OIP_DATATYPE_COUNT ? type : OIP_INVALID];
}

const char *oip_datatype_name(oip_datatype_t type)
{
    return row_of(type)->name;
}

const char *oip_datatype_config_name(oip_datatype_t type)
{
    return row_of(type)->config_name;
}

size_t oip_datatype_bytes(oip_datatype_t type)
{
    return row_of(type)->bytes;
}

box_element_t oip_datatype_element(oip_datatype_t type)
{
    return (box_element_t){row_of(type)->kind, row_of(type)->bytes};
}

oip_datatype_t oip_datatype_parse(const char *text, size_t len)
{
    for (int i = OIP_INVALID + 1; i < OIP_DATATYPE_COUNT; i++)
        if (strlen(datatypes[i].name) == len && memcmp(datatypes[i].name, text, len) == 0)
            return (oip_datatype_t)i;
    return OIP_INVALID;
}

bool oip_shape_elements(const oip_shape_t *shape, uint64_t *count)
{
    uint64_t product = 1;
    bool zero = false;
    for (uint32_t i = 0; i < shape->rank; i++) {
        if (shape->dims[i] < 0)
            return false;
        /* A zero must not hide the overflow of the others: whoever reads the dims may multiply in any order. */
        if (shape->dims[i] == 0)
            zero = true;
        else if (__builtin_mul_overflow(product, (uint64_t)shape->dims[i], &product) || product > INT64_MAX)
            return false;
    }
    *count = zero ? 0 : product;
    return true;
}

bool oip_shape_bytes(const oip_shape_t *shape, oip_datatype_t type, uint64_t *len_bytes)
{
    return oip_shape_bytes_of(shape, oip_datatype_bytes(type), len_bytes);
}

bool oip_shape_bytes_of(const oip_shape_t *shape, size_t element_bytes, uint64_t *len_bytes)
{
    uint64_t count, bytes;
    if (element_bytes == 0 || !oip_shape_elements(shape, &count))
        return false;
    if (__builtin_mul_overflow(count, (uint64_t)element_bytes, &bytes) || bytes > INT64_MAX)
        return false;
    *len_bytes = bytes;
    return true;
}

bool oip_shape_matches(const oip_shape_t *wanted, const oip_shape_t *got)
{
    if (wanted->rank != got->rank)
        return false;
    for (uint32_t i = 0; i < wanted->rank; i++)
        if (got->dims[i] < 0 || (wanted->dims[i] != -1 && wanted->dims[i] != got->dims[i]))
            return false;
    return true;
}

const char *oip_shape_format(const oip_shape_t *shape, char text[OIP_SHAPE_TEXT_BYTES])
{
    /* 8 numbers of at most 20 digits with commas and brackets are 170 bytes, so nothing is ever cut. */
    size_t len = 1;
    text[0] = '[';
    for (uint32_t i = 0; i < shape->rank && i < OIP_MAX_RANK; i++)
        len += (size_t)snprintf(text + len, OIP_SHAPE_TEXT_BYTES - len, "%s%lld", i ? "," : "",
                                (long long)shape->dims[i]);
    memcpy(text + len, "]", 2);
    return text;
}

bool oip_bytes_next(const uint8_t *data, size_t len_bytes, size_t *offset, const uint8_t **element,
                    uint32_t *element_bytes)
{
    uint32_t size;
    if (len_bytes - *offset < sizeof size)
        return false;
    memcpy(&size, data + *offset, sizeof size);
    if (len_bytes - *offset - sizeof size < size)
        return false;
    *element = data + *offset + sizeof size;
    *element_bytes = size;
    *offset += sizeof size + size;
    return true;
}

int64_t oip_bytes_count(const uint8_t *data, size_t len_bytes)
{
    size_t offset = 0;
    const uint8_t *element;
    uint32_t size;
    int64_t count = 0;
    while (oip_bytes_next(data, len_bytes, &offset, &element, &size))
        count++;
    return offset == len_bytes ? count : -1;
}
