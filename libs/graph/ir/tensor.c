#include "graph/ir/tensor.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

size_t tensor_count_range(const tensor_t *t, uint32_t from, uint32_t to)
{
    size_t count = 1;
    for (uint32_t i = from; i < to; i++)
        count *= (size_t)t->dims[i];
    return count;
}

size_t tensor_count(const tensor_t *t)
{
    return tensor_count_range(t, 0, t->rank);
}

size_t tensor_bytes(const tensor_t *t)
{
    return tensor_count(t) * dtype_size(t->dtype);
}

status_t tensor_check(const tensor_t *t, err_t *err)
{
    size_t bytes = dtype_size(t->dtype);
    if (!bytes)
        return err_set(err, STATUS_UNSUPPORTED, "element type %s is not supported", dtype_name(t->dtype));
    for (uint32_t i = 0; i < t->rank; i++) {
        if (t->dims[i] < 0)
            return err_set(err, STATUS_INVALID_ARGUMENT, "dimension %u is negative", i);
        if (t->dims[i] > 0 && bytes > TENSOR_MAX_BYTES / (size_t)t->dims[i])
            return err_set(err, STATUS_TOO_LARGE, "a tensor is larger than %zu GiB", TENSOR_MAX_BYTES >> 30);
        /* A zero somewhere must not hide an overflow elsewhere: later code multiplies sub-ranges. */
        bytes *= t->dims[i] ? (size_t)t->dims[i] : 1;
    }
    return STATUS_OK;
}

bool tensor_same_shape(const tensor_t *a, const tensor_t *b)
{
    return a->rank == b->rank && !memcmp(a->dims, b->dims, a->rank * sizeof a->dims[0]);
}

void tensor_strides(const tensor_t *t, int64_t *strides)
{
    int64_t stride = 1;
    for (uint32_t i = t->rank; i-- > 0;) {
        strides[i] = stride;
        stride *= t->dims[i];
    }
}

const char *tensor_text(const tensor_t *t, char text[TENSOR_TEXT_BYTES])
{
    int len = snprintf(text, TENSOR_TEXT_BYTES, "%s[", dtype_name(t->dtype));
    for (uint32_t i = 0; i < t->rank && len < TENSOR_TEXT_BYTES - 24; i++)
        len += snprintf(text + len, TENSOR_TEXT_BYTES - (size_t)len, "%s%lld", i ? "," : "",
                        (long long)t->dims[i]);
    snprintf(text + len, TENSOR_TEXT_BYTES - (size_t)len, "]");
    return text;
}

double tensor_get_f64(const tensor_t *t, size_t i)
{
    switch (t->dtype) {
    case DTYPE_F32:
        return ((const float *)t->data)[i];
    case DTYPE_F64:
        return ((const double *)t->data)[i];
    case DTYPE_F16:
        return half_to_float(((const uint16_t *)t->data)[i]);
    case DTYPE_BF16:
        return bf16_to_float(((const uint16_t *)t->data)[i]);
    case DTYPE_U64:
        return (double)((const uint64_t *)t->data)[i];
    default:
        return (double)tensor_get_i64(t, i);
    }
}

static int64_t from_double(double value)
{
    if (!(value > -9223372036854775808.0))
        return value != value ? 0 : INT64_MIN;
    return value >= 9223372036854775808.0 ? INT64_MAX : (int64_t)value;
}

int64_t tensor_get_i64(const tensor_t *t, size_t i)
{
    switch (t->dtype) {
    case DTYPE_I64:
    case DTYPE_U64:
        return ((const int64_t *)t->data)[i];
    case DTYPE_I32:
        return ((const int32_t *)t->data)[i];
    case DTYPE_U32:
        return ((const uint32_t *)t->data)[i];
    case DTYPE_I16:
        return ((const int16_t *)t->data)[i];
    case DTYPE_U16:
        return ((const uint16_t *)t->data)[i];
    case DTYPE_I8:
        return ((const int8_t *)t->data)[i];
    case DTYPE_U8:
    case DTYPE_BOOL:
        return ((const uint8_t *)t->data)[i];
    default:
        return from_double(tensor_get_f64(t, i));
    }
}

static float bits_to_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t float_to_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

float half_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = (half >> 10) & 0x1f, mantissa = half & 0x3ff;
    if (exponent == 0x1f)
        return bits_to_float(sign | 0x7f800000 | mantissa << 13);
    if (exponent == 0) {
        float value = ldexpf((float)mantissa, -24);
        return sign ? -value : value;
    }
    return bits_to_float(sign | (exponent + 112) << 23 | mantissa << 13);
}

static uint32_t round_even(uint32_t value, unsigned shift)
{
    uint32_t half = UINT32_C(1) << (shift - 1), kept = value >> shift, rest = value & (2 * half - 1);
    return kept + (rest > half || (rest == half && (kept & 1)));
}

uint16_t float_to_half(float value)
{
    uint32_t bits = float_to_bits(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (magnitude >= 0x477ff000) /* 65520 rounds up to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) { /* below 2^-14: a subnormal half */
        uint32_t exponent = magnitude >> 23;
        if (exponent < 102)
            return (uint16_t)sign;
        uint32_t mantissa = (magnitude & 0x7fffff) | 0x800000;
        return (uint16_t)(sign | round_even(mantissa, 126 - exponent));
    }
    return (uint16_t)(sign | round_even(magnitude - 0x38000000, 13));
}

float bf16_to_float(uint16_t bits)
{
    return bits_to_float((uint32_t)bits << 16);
}

uint16_t float_to_bf16(float value)
{
    uint32_t bits = float_to_bits(value);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits >> 31 << 15) | round_even(bits & 0x7fffffff, 16));
}

struct blob {
    _Atomic uint32_t refs;
    bool dropped;
    size_t len_bytes;
    _Alignas(64) unsigned char data[];
};

static _Atomic uint32_t drops; /* blobs that are dropped */

blob_t *blob_create(size_t len_bytes)
{
    size_t whole = (sizeof(blob_t) + len_bytes + 63) / 64 * 64;
    blob_t *blob = whole < len_bytes ? NULL : aligned_alloc(64, whole);
    if (!blob)
        return NULL;
    atomic_init(&blob->refs, 1);
    blob->dropped = false;
    blob->len_bytes = len_bytes;
    return blob;
}

void *blob_data(blob_t *blob)
{
    return blob->data;
}

blob_t *blob_ref(blob_t *blob)
{
    atomic_fetch_add_explicit(&blob->refs, 1, memory_order_relaxed);
    return blob;
}

/* What is not its own of the first page and of the last one stays. */
static size_t own_pages(blob_t *blob, void **first)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), before = (page - (uintptr_t)blob->data % page) % page;
    *first = blob->data + before;
    return blob->len_bytes > before ? (blob->len_bytes - before) / page * page : 0;
}

size_t blob_drop(blob_t *blob)
{
    void *first;
    size_t len = own_pages(blob, &first);
    if (blob->dropped || blob->len_bytes < BLOB_DROP_LEAST_BYTES)
        return 0;
    if (atomic_fetch_add(&drops, 1) < BLOB_DROPS_MOST && mprotect(first, len, PROT_NONE) == 0) {
        blob->dropped = true;
        return madvise(first, len, MADV_DONTNEED) == 0 || !blob_restore(blob) ? len
                                                                              : 0; /* pages may be locked */
    }
    atomic_fetch_sub(&drops, 1);
    return 0;
}

size_t blob_restore(blob_t *blob)
{
    void *first;
    size_t len = own_pages(blob, &first);
    if (!blob->dropped || mprotect(first, len, PROT_READ | PROT_WRITE) != 0)
        return 0;
    blob->dropped = false;
    atomic_fetch_sub(&drops, 1);
    return len;
}

void blob_unref(blob_t *blob)
{
    if (!blob || atomic_fetch_sub_explicit(&blob->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (!blob->dropped || blob_restore(blob))
        free(blob); /* else nobody else may get these addresses */
}
