#include "base/box.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

typedef struct {
    const int64_t *to, *from, *box;
    uint32_t rank;
    size_t element_bytes;
} copy_t;

static uint64_t elements_behind(const copy_t *copy, const int64_t *dims, uint32_t dim)
{
    uint64_t count = 1;
    for (uint32_t i = dim + 1; i < copy->rank; i++)
        count *= (uint64_t)dims[i];
    return count;
}

/* Whether from this dimension on all three are alike, so that one copy does for all. */
static bool alike_from(const copy_t *copy, uint32_t dim)
{
    for (uint32_t i = dim; i < copy->rank; i++)
        if (copy->to[i] != copy->box[i] || copy->from[i] != copy->box[i])
            return false;
    return true;
}

static void copy_dim(const copy_t *copy, uint32_t dim, uint8_t *to, const uint8_t *from)
{
    if (dim == copy->rank || alike_from(copy, dim + 1)) {
        uint64_t count =
            dim == copy->rank ? 1 : (uint64_t)copy->box[dim] * elements_behind(copy, copy->box, dim);
        memmove(to, from, count * copy->element_bytes);
        return;
    }
    size_t to_step = elements_behind(copy, copy->to, dim) * copy->element_bytes;
    size_t from_step = elements_behind(copy, copy->from, dim) * copy->element_bytes;
    for (int64_t i = 0; i < copy->box[dim]; i++)
        copy_dim(copy, dim + 1, to + (size_t)i * to_step, from + (size_t)i * from_step);
}

void box_copy(void *to, const int64_t *to_dims, const void *from, const int64_t *from_dims,
              const int64_t *box, uint32_t rank, size_t element_bytes)
{
    const copy_t copy = {to_dims, from_dims, box, rank, element_bytes};
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

static uint64_t float_of(double value, size_t bytes)
{
    float single = (float)value;
    uint32_t bits;
    uint64_t wide;
    memcpy(&bits, &single, sizeof bits);
    memcpy(&wide, &value, sizeof wide);
    return bytes == sizeof value ? wide : bytes == sizeof single ? bits : half_of(single);
}

/* The element in the low bytes. */
static uint64_t encode(box_element_t type, double value)
{
    bool wide = type.bytes == sizeof(uint64_t); /* whose limits no double has: the next one inside */
    switch (type.kind) {
    case BOX_BOOL:
        return value != 0;
    case BOX_FLOAT:
        return float_of(value, type.bytes);
    case BOX_BFLOAT:
        return float_of(value, sizeof(float)) >> 16;
    case BOX_UNSIGNED:
        return integer_of(value, 0, ldexp(1, 8 * (int)type.bytes) - (wide ? 2048 : 1));
    default: {
        double limit = ldexp(1, 8 * (int)type.bytes - 1);
        return integer_of(value, -limit, limit - (wide ? 1024 : 1));
    }
    }
}

void box_fill(void *to, uint64_t count, box_element_t type, double value)
{
    uint64_t element = encode(type, value);
    if (element == 0) {
        memset(to, 0, count * type.bytes);
        return;
    }
    for (uint64_t i = 0; i < count; i++)
        memcpy((uint8_t *)to + i * type.bytes, &element, type.bytes);
}
