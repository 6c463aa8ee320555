/*
 * Linear quantisation. Scales are one for all, or one per slice along an axis.
 */
#include "graph/ops/tables.h"

#include <math.h>
#include <string.h>

typedef struct {
    const tensor_t *scale, *zero;
    size_t count, inner; /* slices along the axis, and elements of one step in it */
} lanes_t;

static status_t lanes_of(op_ctx_t *c, lanes_t *l)
{
    const tensor_t *x = c->in[0];
    *l = (lanes_t){.scale = c->in[1], .zero = op_in(c, 2), .count = 1, .inner = 1};
    if (op_int(c, "block_size", 0))
        return op_unsupported(c, "blocked quantisation is not supported");
    if (l->zero && tensor_count(l->zero) != tensor_count(l->scale))
        return op_bad(c, "the zero points do not match the scales");
    if (tensor_count(l->scale) == 1)
        return STATUS_OK;
    uint32_t axis;
    status_t status = op_axis(c, op_int(c, "axis", 1), x->rank, &axis);
    if (status != STATUS_OK)
        return status;
    if (tensor_count(l->scale) != (size_t)x->dims[axis])
        return op_bad(c, "there are %zu scales for a dimension of %lld", tensor_count(l->scale),
                      (long long)x->dims[axis]);
    l->count = (size_t)x->dims[axis];
    l->inner = tensor_count_range(x, axis + 1, x->rank);
    return STATUS_OK;
}

static size_t lane(const lanes_t *l, size_t i)
{
    return l->count == 1 ? 0 : i / l->inner % l->count;
}

static double zero_at(const lanes_t *l, size_t i)
{
    return l->zero ? tensor_get_f64(l->zero, lane(l, i)) : 0;
}

static status_t store_clamped(op_ctx_t *c, tensor_t *out, size_t i, double y)
{
    switch (out->dtype) {
    case DTYPE_U8:
        ((uint8_t *)out->data)[i] = (uint8_t)fmin(fmax(y, 0), 255);
        return STATUS_OK;
    case DTYPE_I8:
        ((int8_t *)out->data)[i] = (int8_t)fmin(fmax(y, -128), 127);
        return STATUS_OK;
    case DTYPE_U16:
        ((uint16_t *)out->data)[i] = (uint16_t)fmin(fmax(y, 0), 65535);
        return STATUS_OK;
    case DTYPE_I16:
        ((int16_t *)out->data)[i] = (int16_t)fmin(fmax(y, -32768), 32767);
        return STATUS_OK;
    default:
        return op_unsupported(c, "quantisation to %s is not supported", dtype_name(out->dtype));
    }
}

/* Runs of elements that share a scale: the common pairs of types, in loops that vectorise. */
static size_t run_length(const lanes_t *l, size_t n)
{
    return l->count == 1 ? n : l->inner;
}

#define QUANTIZE_RUN(T, low, high)                                                                      \
    for (size_t i = 0; i < n; i++) {                                                                    \
        float y = rintf(from[i] / scale) + zero;                                                        \
        ((T *)to)[i] = (T)(y > (low) ? (y < (high) ? y : (high)) : (low)); /* NaN becomes the lowest */ \
    }

static void quantize_run(const float *from, void *to, dtype_t dtype, size_t n, float scale, float zero)
{
    if (dtype == DTYPE_U8)
        QUANTIZE_RUN(uint8_t, 0.0f, 255.0f)
    else
        QUANTIZE_RUN(int8_t, -128.0f, 127.0f)
}

#define DEQUANTIZE_RUN(T)          \
    for (size_t i = 0; i < n; i++) \
        to[i] = ((float)((const T *)from)[i] - zero) * scale;

static void dequantize_run(const void *from, dtype_t dtype, float *to, size_t n, float scale, float zero)
{
    if (dtype == DTYPE_U8)
        DEQUANTIZE_RUN(uint8_t)
    else
        DEQUANTIZE_RUN(int8_t)
}

static bool is_byte(dtype_t dtype)
{
    return dtype == DTYPE_U8 || dtype == DTYPE_I8;
}

static status_t infer_quantize(op_ctx_t *c)
{
    lanes_t l;
    status_t status = lanes_of(c, &l);
    dtype_t dtype = l.zero ? l.zero->dtype : (dtype_t)op_int(c, "output_dtype", DTYPE_U8);
    return status == STATUS_OK ? op_set(c, 0, dtype, c->in[0]->rank, c->in[0]->dims) : status;
}

static status_t eval_quantize(op_ctx_t *c)
{
    lanes_t l = {0};
    status_t status = lanes_of(c, &l);
    size_t n = tensor_count(c->in[0]), run = run_length(&l, n);
    bool fast = status == STATUS_OK && c->in[0]->dtype == DTYPE_F32 && is_byte(c->out[0]->dtype);
    for (size_t i = 0; fast && run && i < n; i += run)
        quantize_run((const float *)c->in[0]->data + i, (char *)c->out[0]->data + i, c->out[0]->dtype, run,
                     (float)tensor_get_f64(l.scale, lane(&l, i)), (float)zero_at(&l, i));
    for (size_t i = 0; !fast && status == STATUS_OK && i < n; i++) {
        float scaled = (float)(tensor_get_f64(c->in[0], i) / tensor_get_f64(l.scale, lane(&l, i)));
        status = store_clamped(c, c->out[0], i, (double)rintf(scaled) + zero_at(&l, i));
    }
    return status;
}

static status_t infer_dequantize(op_ctx_t *c)
{
    lanes_t l;
    status_t status = lanes_of(c, &l);
    if (status == STATUS_OK && l.scale->dtype != DTYPE_F32)
        status = op_unsupported(c, "a scale of %s is not supported", dtype_name(l.scale->dtype));
    return status == STATUS_OK ? op_set(c, 0, DTYPE_F32, c->in[0]->rank, c->in[0]->dims) : status;
}

static status_t eval_dequantize(op_ctx_t *c)
{
    lanes_t l = {0};
    status_t status = lanes_of(c, &l);
    float *out = c->out[0]->data;
    size_t n = tensor_count(c->in[0]), run = run_length(&l, n);
    bool fast = status == STATUS_OK && is_byte(c->in[0]->dtype);
    for (size_t i = 0; fast && run && i < n; i += run)
        dequantize_run((const char *)c->in[0]->data + i, c->in[0]->dtype, out + i, run,
                       (float)tensor_get_f64(l.scale, lane(&l, i)), (float)zero_at(&l, i));
    for (size_t i = 0; !fast && status == STATUS_OK && i < n; i++)
        out[i] =
            (float)((tensor_get_f64(c->in[0], i) - zero_at(&l, i)) * tensor_get_f64(l.scale, lane(&l, i)));
    return status;
}

static status_t infer_dynamic(op_ctx_t *c)
{
    status_t status = op_set(c, 0, DTYPE_U8, c->in[0]->rank, c->in[0]->dims);
    if (status == STATUS_OK)
        status = op_set(c, 1, DTYPE_F32, 0, NULL);
    return status == STATUS_OK ? op_set(c, 2, DTYPE_U8, 0, NULL) : status;
}

static status_t eval_dynamic(op_ctx_t *c)
{
    const tensor_t *x = c->in[0];
    double low = 0, high = 0;
    size_t n = tensor_count(x);
    for (size_t i = 0; i < n; i++) {
        low = fmin(low, tensor_get_f64(x, i));
        high = fmax(high, tensor_get_f64(x, i));
    }
    float scale = (float)((high - low) / 255);
    double zero = scale > 0 ? rint(fmin(fmax(-low / (double)scale, 0), 255)) : 0;
    for (size_t i = 0; c->out[0] && i < n; i++) {
        double y = scale > 0 ? (double)rintf((float)tensor_get_f64(x, i) / scale) + zero : zero;
        ((uint8_t *)c->out[0]->data)[i] = (uint8_t)fmin(fmax(y, 0), 255);
    }
    if (op_out(c, 1))
        *(float *)c->out[1]->data = scale;
    if (op_out(c, 2))
        *(uint8_t *)c->out[2]->data = (uint8_t)zero;
    return STATUS_OK;
}

const op_t ops_quant[] = {
    {"DequantizeLinear", 2, 3, 1, 1, 0, infer_dequantize, eval_dequantize, NULL, NULL, 0,
     .rows.kind = ROWS_KEPT},
    {"DynamicQuantizeLinear", 1, 1, 3, 3, 0, infer_dynamic, eval_dynamic, NULL, NULL, 0,
     .rows.kind = ROWS_MIXED},
    {"QuantizeLinear", 2, 3, 1, 1, 0, infer_quantize, eval_quantize, NULL, NULL, 0, .rows.kind = ROWS_KEPT},
    {.name = NULL},
};
