/*
 * Changes of the element type, and operators that make numbers from nothing: Range, EyeLike.
 */
#include "graph/ops/tables.h"

#include <math.h>
#include <string.h>

#define LOAD(T, D, get) \
    case D:             \
        return (get)(((const T *)data)[i]);

static double identity(double x)
{
    return x;
}

static double from_half(uint16_t x)
{
    return (double)half_to_float(x);
}

static double from_bf16(uint16_t x)
{
    return (double)bf16_to_float(x);
}

static bool is_float(dtype_t dtype)
{
    return dtype == DTYPE_F32 || dtype == DTYPE_F64 || dtype == DTYPE_F16 || dtype == DTYPE_BF16;
}

static double load_f64(dtype_t dtype, const void *data, size_t i)
{
    switch (dtype) {
        LOAD(float, DTYPE_F32, identity)
        LOAD(double, DTYPE_F64, identity)
        LOAD(uint16_t, DTYPE_F16, from_half)
        LOAD(uint16_t, DTYPE_BF16, from_bf16)
    default:
        return 0;
    }
}

static void store_float(tensor_t *out, size_t i, double x)
{
    switch (out->dtype) {
    case DTYPE_F32:
        ((float *)out->data)[i] = (float)x;
        break;
    case DTYPE_F64:
        ((double *)out->data)[i] = x;
        break;
    case DTYPE_F16:
        ((uint16_t *)out->data)[i] = float_to_half((float)x);
        break;
    default:
        ((uint16_t *)out->data)[i] = float_to_bf16((float)x);
        break;
    }
}

/* What is out of range is undefined in ONNX; here it saturates in 64 bits and then wraps, as x86 numpy mostly does. */
static int64_t to_integer(double x)
{
    if (x != x)
        return 0;
    return x >= 9223372036854775808.0 ? INT64_MAX : x <= -9223372036854775808.0 ? INT64_MIN : (int64_t)x;
}

static void store_int(tensor_t *out, size_t i, int64_t x)
{
    if (out->dtype == DTYPE_BOOL)
        ((uint8_t *)out->data)[i] = x != 0;
    else
        memcpy((char *)out->data + i * dtype_size(out->dtype), &x, dtype_size(out->dtype));
}

static void cast_element(const tensor_t *in, tensor_t *out, size_t i)
{
    if (is_float(in->dtype)) {
        double x = load_f64(in->dtype, in->data, i);
        if (is_float(out->dtype))
            store_float(out, i, x);
        else
            store_int(out, i, out->dtype == DTYPE_BOOL ? x != 0 : to_integer(x));
    } else if (is_float(out->dtype)) {
        store_float(out, i, tensor_get_f64(in, i));
    } else {
        store_int(out, i, tensor_get_i64(in, i));
    }
}

/* The pairs that large tensors have. */
static bool cast_fast(const tensor_t *in, tensor_t *out, size_t n)
{
    if (in->dtype == out->dtype) {
        if (n)
            memcpy(out->data, in->data, tensor_bytes(in));
    } else if (in->dtype == DTYPE_U8 && out->dtype == DTYPE_F32) {
        for (size_t i = 0; i < n; i++)
            ((float *)out->data)[i] = ((const uint8_t *)in->data)[i];
    } else if (in->dtype == DTYPE_I64 && out->dtype == DTYPE_F32) {
        for (size_t i = 0; i < n; i++)
            ((float *)out->data)[i] = (float)((const int64_t *)in->data)[i];
    } else if (in->dtype == DTYPE_F16 && out->dtype == DTYPE_F32) {
        for (size_t i = 0; i < n; i++)
            ((float *)out->data)[i] = half_to_float(((const uint16_t *)in->data)[i]);
    } else if (in->dtype == DTYPE_F32 && out->dtype == DTYPE_F16) {
        for (size_t i = 0; i < n; i++)
            ((uint16_t *)out->data)[i] = float_to_half(((const float *)in->data)[i]);
    } else {
        return false;
    }
    return true;
}

static status_t infer_cast(op_ctx_t *c)
{
    dtype_t to = (dtype_t)op_int(c, "to", 0);
    if (!dtype_size(to))
        return op_unsupported(c, "a cast to element type %d is not supported", (int)to);
    return op_set(c, 0, to, c->in[0]->rank, c->in[0]->dims);
}

static status_t infer_cast_like(op_ctx_t *c)
{
    return op_set(c, 0, c->in[1]->dtype, c->in[0]->rank, c->in[0]->dims);
}

static status_t eval_cast(op_ctx_t *c)
{
    size_t n = tensor_count(c->in[0]);
    if (!cast_fast(c->in[0], c->out[0], n))
        for (size_t i = 0; i < n; i++)
            cast_element(c->in[0], c->out[0], i);
    return STATUS_OK;
}

static status_t infer_range(op_ctx_t *c)
{
    double v[3];
    for (uint32_t i = 0; i < 3; i++) {
        if (!c->in[i]->data) {
            c->needs_value = true;
            return err_set(c->err, STATUS_UNAVAILABLE,
                           "the shape of the result depends on the contents of input %u", i);
        }
        if (tensor_count(c->in[i]) != 1)
            return op_bad(c, "input %u is no scalar", i);
        v[i] = tensor_get_f64(c->in[i], 0);
    }
    double count = ceil((v[1] - v[0]) / v[2]);
    if (!(fabs(count) < 1e12))
        return op_bad(c, "the range is endless");
    return op_set(c, 0, c->in[0]->dtype, 1, (int64_t[]){count > 0 ? (int64_t)count : 0});
}

static status_t eval_range(op_ctx_t *c)
{
    tensor_t *out = c->out[0];
    size_t n = tensor_count(out);
    if (is_float(out->dtype)) {
        double start = tensor_get_f64(c->in[0], 0), step = tensor_get_f64(c->in[2], 0);
        for (size_t i = 0; i < n; i++)
            store_float(out, i, start + (double)i * step);
    } else {
        uint64_t start = (uint64_t)tensor_get_i64(c->in[0], 0), step = (uint64_t)tensor_get_i64(c->in[2], 0);
        for (size_t i = 0; i < n; i++)
            store_int(out, i, (int64_t)(start + i * step));
    }
    return STATUS_OK;
}

static status_t infer_eye_like(op_ctx_t *c)
{
    if (c->in[0]->rank != 2)
        return op_bad(c, "the input is no matrix");
    dtype_t dtype = (dtype_t)op_int(c, "dtype", c->in[0]->dtype);
    return op_set(c, 0, dtype, 2, c->in[0]->dims);
}

static status_t eval_eye_like(op_ctx_t *c)
{
    tensor_t *out = c->out[0];
    int64_t rows = out->dims[0], columns = out->dims[1], k = op_int(c, "k", 0);
    memset(out->data, 0, tensor_bytes(out));
    for (int64_t r = 0; r < rows && k < columns; r++) {
        if (r + k < 0 || r + k >= columns)
            continue;
        size_t i = (size_t)(r * columns + r + k);
        if (is_float(out->dtype))
            store_float(out, i, 1);
        else
            store_int(out, i, 1);
    }
    return STATUS_OK;
}

const op_t ops_cast[] = {
    {"Cast", 1, 1, 1, 1, 0, infer_cast, eval_cast, NULL, NULL, 0, .rows.kind = ROWS_KEPT, .kind = OP_CAST},
    {"CastLike", 2, 2, 1, 1, 0, infer_cast_like, eval_cast, NULL, NULL, 0, .rows.kind = ROWS_KEPT,
     .kind = OP_CAST},
    {"EyeLike", 1, 1, 1, 1, 0, infer_eye_like, eval_eye_like, NULL, NULL, 0, .rows.kind = ROWS_MIXED},
    {"Range", 3, 3, 1, 1, 0, infer_range, eval_range, NULL, NULL, 0, .rows.kind = ROWS_MIXED},
    {.name = NULL},
};
