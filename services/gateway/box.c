#include "box.h"

#include <math.h>
#include <string.h>

typedef struct {
    const oip_shape_t *to, *from, *box;
    size_t element_bytes;
} copy_t;

static uint64_t elements_behind(const oip_shape_t *shape, uint32_t dim)
{
    uint64_t count = 1;
    for (uint32_t i = dim + 1; i < shape->rank; i++)
        count *= (uint64_t)shape->dims[i];
    return count;
}

/* Whether from this dimension on all three are alike, so that one copy does for all. */
static bool alike_from(const copy_t *copy, uint32_t dim)
{
    for (uint32_t i = dim; i < copy->box->rank; i++)
        if (copy->to->dims[i] != copy->box->dims[i] || copy->from->dims[i] != copy->box->dims[i])
            return false;
    return true;
}

static void copy_dim(const copy_t *copy, uint32_t dim, uint8_t *to, const uint8_t *from)
{
    if (dim == copy->box->rank || alike_from(copy, dim + 1)) {
        uint64_t count =
            dim == copy->box->rank ? 1 : (uint64_t)copy->box->dims[dim] * elements_behind(copy->box, dim);
        memmove(to, from, count * copy->element_bytes);
        return;
    }
    size_t to_step = elements_behind(copy->to, dim) * copy->element_bytes;
    size_t from_step = elements_behind(copy->from, dim) * copy->element_bytes;
    for (int64_t i = 0; i < copy->box->dims[dim]; i++)
        copy_dim(copy, dim + 1, to + (size_t)i * to_step, from + (size_t)i * from_step);
}

void box_copy(uint8_t *to, const oip_shape_t *to_shape, const uint8_t *from, const oip_shape_t *from_shape,
              const oip_shape_t *box, size_t element_bytes)
{
    const copy_t copy = {to_shape, from_shape, box, element_bytes};
    copy_dim(&copy, 0, to, from);
}

/* ---- values ---- */

/* Towards zero beyond 24 bits; what is too large becomes infinite. */
static uint16_t half_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000, exponent = bits >> 23 & 0xff, fraction = bits & 0x7fffff;
    if (exponent == 0xff)
        return (uint16_t)(sign | 0x7c00 | (fraction ? 0x200 : 0));
    if (exponent > 142)
        return (uint16_t)(sign | 0x7c00);
    if (exponent > 112)
        return (uint16_t)(sign | (exponent - 112) << 10 | fraction >> 13);
    return (uint16_t)(exponent < 102 ? sign : sign | (fraction | 0x800000) >> (126 - exponent));
}

static uint64_t integer_of(double value, double least, double most)
{
    value = fmin(fmax(trunc(value), least), most);
    return value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value;
}

/* The element in the low bytes. */
static uint64_t encode(oip_datatype_t type, double value)
{
    float single = (float)value;
    uint32_t bits;
    uint64_t wide;
    memcpy(&bits, &single, sizeof bits);
    memcpy(&wide, &value, sizeof wide);
    switch (type) {
    case OIP_FP64:
        return wide;
    case OIP_FP32:
        return bits;
    case OIP_FP16:
        return half_of(single);
    case OIP_BF16:
        return bits >> 16;
    case OIP_BOOL:
        return value != 0;
    case OIP_UINT8:
    case OIP_UINT16:
    case OIP_UINT32:
    case OIP_UINT64:
        return integer_of(value, 0,
                          ldexp(1, 8 * (int)oip_datatype_bytes(type)) - (type == OIP_UINT64 ? 2048 : 1));
    default: {
        double limit = ldexp(1, 8 * (int)oip_datatype_bytes(type) - 1);
        return integer_of(value, -limit, limit - (type == OIP_INT64 ? 1024 : 1));
    }
    }
}

void box_fill(uint8_t *to, uint64_t count, oip_datatype_t type, double value)
{
    size_t element_bytes = oip_datatype_bytes(type);
    uint64_t element = encode(type, value);
    if (element == 0) {
        memset(to, 0, count * element_bytes);
        return;
    }
    for (uint64_t i = 0; i < count; i++)
        memcpy(to + i * element_bytes, &element, element_bytes);
}
