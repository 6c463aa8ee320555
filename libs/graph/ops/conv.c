/*
 * Convolutions, plainly: the engines have fast ones; these define what is right and serve what they refuse.
 */
#include "graph/ops/tables.h"
#include "graph/ops/window.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static status_t check_weights(op_ctx_t *c, uint32_t w_at)
{
    const tensor_t *x = c->in[0], *w = op_in(c, w_at);
    const attr_t *kernel = op_ints(c, "kernel_shape");
    if (!w || w->rank != x->rank || x->rank < 3 || x->rank > 5)
        return op_bad(c, "the weights have %u dimensions, the input %u", w ? w->rank : 0, x->rank);
    if (kernel && kernel->count != x->rank - 2)
        return op_bad(c, "'kernel_shape' has %u elements for %u spatial dimensions", kernel->count,
                      x->rank - 2);
    for (uint32_t i = 0; kernel && i < kernel->count; i++)
        if (kernel->ints[i] != w->dims[i + 2])
            return op_bad(c, "'kernel_shape' does not agree with the weights");
    return STATUS_OK;
}

/* Conv and its integer kin; b = index of the bias, 0 = none. */
static status_t conv_geometry(op_ctx_t *c, uint32_t w_at, uint32_t b_at, window_t *window, int64_t *groups)
{
    status_t status = check_weights(c, w_at);
    if (status != STATUS_OK)
        return status;
    const tensor_t *x = c->in[0], *w = c->in[w_at], *b = b_at ? op_in(c, b_at) : NULL;
    *groups = op_int(c, "group", 1);
    if (*groups < 1 || x->dims[1] % *groups || w->dims[0] % *groups || x->dims[1] / *groups != w->dims[1])
        return op_bad(c, "%lld channels, weights of %lld by %lld and %lld groups do not fit",
                      (long long)x->dims[1], (long long)w->dims[0], (long long)w->dims[1],
                      (long long)*groups);
    if (b && (b->rank != 1 || b->dims[0] != w->dims[0]))
        return op_bad(c, "the bias does not fit %lld channels", (long long)w->dims[0]);
    return window_read(c, window, w->dims + 2);
}

static status_t set_result(op_ctx_t *c, dtype_t dtype, int64_t channels, const window_t *w)
{
    int64_t dims[2 + WINDOW_MAX_DIMS] = {c->in[0]->dims[0], channels};
    memcpy(dims + 2, w->out, w->dims * sizeof dims[0]);
    return op_set(c, 0, dtype, w->dims + 2, dims);
}

static status_t infer_conv(op_ctx_t *c)
{
    window_t w;
    int64_t groups;
    if (c->in[0]->dtype != DTYPE_F32 || c->in[1]->dtype != DTYPE_F32 ||
        (op_in(c, 2) && c->in[2]->dtype != DTYPE_F32))
        return op_unsupported(c, "only float32 is supported");
    status_t status = conv_geometry(c, 1, 2, &w, &groups);
    return status == STATUS_OK ? set_result(c, DTYPE_F32, c->in[1]->dims[0], &w) : status;
}

/* Always three spatial dimensions: missing ones are 1. */
typedef struct {
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], before[3];
} box_t;

static box_t box_of(const window_t *w)
{
    box_t b;
    uint32_t skip = 3 - w->dims;
    for (uint32_t i = 0; i < 3; i++) {
        bool there = i >= skip;
        b.in[i] = there ? w->in[i - skip] : 1;
        b.out[i] = there ? w->out[i - skip] : 1;
        b.kernel[i] = there ? w->kernel[i - skip] : 1;
        b.stride[i] = there ? w->stride[i - skip] : 1;
        b.dilation[i] = there ? w->dilation[i - skip] : 1;
        b.before[i] = there ? w->before[i - skip] : 0;
    }
    return b;
}

static int64_t volume(const int64_t *v)
{
    return v[0] * v[1] * v[2];
}

/* Kernel positions k whose input position o·stride - before + k·dilation is inside. */
static void inside(const box_t *b, uint32_t d, int64_t o, int64_t *from, int64_t *to)
{
    int64_t first = o * b->stride[d] - b->before[d], dilation = b->dilation[d];
    *from = first < 0 ? (-first + dilation - 1) / dilation : 0;
    int64_t last = b->in[d] - first;
    *to = last <= 0 ? 0 : (last + dilation - 1) / dilation;
    *to = *to < b->kernel[d] ? *to : b->kernel[d];
}

static double dot(const box_t *b, const float *x, const float *w, const int64_t *o)
{
    int64_t from[3], to[3];
    double sum = 0;
    for (uint32_t d = 0; d < 3; d++)
        inside(b, d, o[d], &from[d], &to[d]);
    for (int64_t i = from[0]; i < to[0]; i++) {
        int64_t z = o[0] * b->stride[0] - b->before[0] + i * b->dilation[0];
        for (int64_t j = from[1]; j < to[1]; j++) {
            int64_t y = o[1] * b->stride[1] - b->before[1] + j * b->dilation[1];
            const float *row = x + (z * b->in[1] + y) * b->in[2] + o[2] * b->stride[2] - b->before[2];
            const float *weights = w + (i * b->kernel[1] + j) * b->kernel[2];
            for (int64_t k = from[2]; k < to[2]; k++)
                sum += (double)row[k * b->dilation[2]] * (double)weights[k];
        }
    }
    return sum;
}

static status_t eval_conv(op_ctx_t *c)
{
    const tensor_t *x = c->in[0], *w = c->in[1], *bias = op_in(c, 2);
    window_t window;
    int64_t groups, o[3];
    status_t status = conv_geometry(c, 1, 2, &window, &groups);
    if (status != STATUS_OK)
        return status;
    box_t b = box_of(&window);
    int64_t channels = w->dims[1], filters = w->dims[0] / groups, in_size = volume(b.in),
            k_size = volume(b.kernel);
    float *out = c->out[0]->data;
    for (int64_t n = 0; n < x->dims[0]; n++)
        for (int64_t f = 0; f < w->dims[0]; f++)
            for (o[0] = 0; o[0] < b.out[0]; o[0]++)
                for (o[1] = 0; o[1] < b.out[1]; o[1]++)
                    for (o[2] = 0; o[2] < b.out[2]; o[2]++) {
                        const float *image =
                            (const float *)x->data + (n * x->dims[1] + f / filters * channels) * in_size;
                        const float *weights = (const float *)w->data + f * channels * k_size;
                        double sum = bias ? (double)((const float *)bias->data)[f] : 0;
                        for (int64_t ch = 0; ch < channels; ch++)
                            sum += dot(&b, image + ch * in_size, weights + ch * k_size, o);
                        *out++ = (float)sum;
                    }
    return STATUS_OK;
}

static status_t transposed_geometry(op_ctx_t *c, window_t *window, int64_t *groups)
{
    status_t status = check_weights(c, 1);
    if (status != STATUS_OK)
        return status;
    const tensor_t *x = c->in[0], *w = c->in[1], *b = op_in(c, 2);
    *groups = op_int(c, "group", 1);
    if (*groups < 1 || *groups > INT32_MAX || x->dims[1] % *groups || x->dims[1] != w->dims[0])
        return op_bad(c, "%lld channels, weights for %lld and %lld groups do not fit", (long long)x->dims[1],
                      (long long)w->dims[0], (long long)*groups);
    if (b && (b->rank != 1 || b->dims[0] != w->dims[1] * *groups))
        return op_bad(c, "the bias does not fit the weights");
    return window_read_transposed(c, window, w->dims + 2);
}

static status_t infer_conv_transpose(op_ctx_t *c)
{
    window_t w;
    int64_t groups;
    if (c->in[0]->dtype != DTYPE_F32 || c->in[1]->dtype != DTYPE_F32 ||
        (op_in(c, 2) && c->in[2]->dtype != DTYPE_F32))
        return op_unsupported(c, "only float32 is supported");
    status_t status = transposed_geometry(c, &w, &groups);
    return status == STATUS_OK ? set_result(c, DTYPE_F32, c->in[1]->dims[1] * groups, &w) : status;
}

/* One input element spreads over the kernel. */
static void scatter(const box_t *b, float value, const float *w, float *out, const int64_t *at)
{
    for (int64_t i = 0; i < b->kernel[0]; i++)
        for (int64_t j = 0; j < b->kernel[1]; j++)
            for (int64_t k = 0; k < b->kernel[2]; k++) {
                int64_t z = at[0] * b->stride[0] - b->before[0] + i * b->dilation[0];
                int64_t y = at[1] * b->stride[1] - b->before[1] + j * b->dilation[1];
                int64_t x = at[2] * b->stride[2] - b->before[2] + k * b->dilation[2];
                bool in = z >= 0 && z < b->out[0] && y >= 0 && y < b->out[1] && x >= 0 && x < b->out[2];
                if (in)
                    out[(z * b->out[1] + y) * b->out[2] + x] +=
                        value * w[(i * b->kernel[1] + j) * b->kernel[2] + k];
            }
}

static void fill_bias(tensor_t *out, const tensor_t *bias, int64_t size)
{
    float *to = out->data;
    for (int64_t n = 0; n < out->dims[0]; n++)
        for (int64_t f = 0; f < out->dims[1]; f++)
            for (int64_t i = 0; i < size; i++)
                *to++ = bias ? ((const float *)bias->data)[f] : 0;
}

static status_t eval_conv_transpose(op_ctx_t *c)
{
    const tensor_t *x = c->in[0], *w = c->in[1];
    window_t window;
    int64_t groups, at[3];
    status_t status = transposed_geometry(c, &window, &groups);
    if (status != STATUS_OK)
        return status;
    box_t b = box_of(&window);
    int64_t filters = w->dims[1], per_group = x->dims[1] / groups, out_size = volume(b.out),
            k_size = volume(b.kernel);
    fill_bias(c->out[0], op_in(c, 2), out_size);
    const float *in = x->data;
    for (int64_t n = 0; n < x->dims[0]; n++)
        for (int64_t ch = 0; ch < x->dims[1]; ch++)
            for (at[0] = 0; at[0] < b.in[0]; at[0]++)
                for (at[1] = 0; at[1] < b.in[1]; at[1]++)
                    for (at[2] = 0; at[2] < b.in[2]; at[2]++, in++)
                        for (int64_t f = 0; f < filters; f++) {
                            int64_t to = n * c->out[0]->dims[1] + ch / per_group * filters + f;
                            scatter(&b, *in, (const float *)w->data + (ch * filters + f) * k_size,
                                    (float *)c->out[0]->data + to * out_size, at);
                        }
    return STATUS_OK;
}

/* ConvInteger (x, w, zero points) and QLinearConv (x, scale, zero, w, scale, zero, y scale, y zero, bias). */
static status_t infer_conv_integer(op_ctx_t *c)
{
    window_t w;
    int64_t groups;
    status_t status = conv_geometry(c, 1, 0, &w, &groups);
    return status == STATUS_OK ? set_result(c, DTYPE_I32, c->in[1]->dims[0], &w) : status;
}

static status_t infer_qlinear_conv(op_ctx_t *c)
{
    window_t w;
    int64_t groups;
    status_t status = conv_geometry(c, 3, 8, &w, &groups);
    for (uint32_t i = 1; status == STATUS_OK && i < 8; i++) {
        size_t count = tensor_count(c->in[i]), filters = (size_t)c->in[3]->dims[0];
        bool per_filter = i == 4 || i == 5;
        if (i != 3 && count != 1 && !(per_filter && count == filters))
            status = op_bad(c, "input %u has %zu elements", i, count);
    }
    if (status == STATUS_OK && dtype_size(c->in[7]->dtype) != 1)
        status = op_bad(c, "the result would be %s", dtype_name(c->in[7]->dtype));
    return status == STATUS_OK ? set_result(c, c->in[7]->dtype, c->in[3]->dims[0], &w) : status;
}

static float *to_float(const tensor_t *t, const tensor_t *zero, size_t per_zero)
{
    size_t n = tensor_count(t), zeros = zero ? tensor_count(zero) : 0;
    float *out = malloc((n + 1) * sizeof *out);
    for (size_t i = 0; out && i < n; i++) {
        size_t z = zeros > 1 ? i / per_zero % zeros : 0;
        out[i] = (float)(tensor_get_i64(t, i) - (zeros ? tensor_get_i64(zero, z) : 0));
    }
    return out;
}

/* Exact in double: products of bytes, fewer than 2^37 of them. */
static status_t convolve_integers(op_ctx_t *c, uint32_t w_at, const tensor_t *x_zero, const tensor_t *w_zero,
                                  void (*store)(op_ctx_t *c, size_t i, int64_t filter, double sum))
{
    const tensor_t *x = c->in[0], *w = c->in[w_at];
    window_t window;
    int64_t groups, o[3];
    status_t status = conv_geometry(c, w_at, w_at == 3 ? 8 : 0, &window, &groups);
    if (status != STATUS_OK)
        return status;
    box_t b = box_of(&window);
    int64_t channels = w->dims[1], filters = w->dims[0] / groups, in_size = volume(b.in),
            k_size = volume(b.kernel);
    float *fx = to_float(x, x_zero, 1), *fw = to_float(w, w_zero, (size_t)(channels * k_size));
    size_t at = 0;
    if (!fx || !fw)
        status = err_set(c->err, STATUS_NO_MEMORY, "no memory for a convolution");
    for (int64_t n = 0; status == STATUS_OK && n < x->dims[0]; n++)
        for (int64_t f = 0; f < w->dims[0]; f++)
            for (o[0] = 0; o[0] < b.out[0]; o[0]++)
                for (o[1] = 0; o[1] < b.out[1]; o[1]++)
                    for (o[2] = 0; o[2] < b.out[2]; o[2]++) {
                        double sum = 0;
                        for (int64_t ch = 0; ch < channels; ch++)
                            sum += dot(&b, fx + (n * x->dims[1] + f / filters * channels + ch) * in_size,
                                       fw + (f * channels + ch) * k_size, o);
                        store(c, at++, f, sum);
                    }
    free(fx);
    free(fw);
    return status;
}

static void store_i32(op_ctx_t *c, size_t i, int64_t filter, double sum)
{
    (void)filter;
    ((int32_t *)c->out[0]->data)[i] = (int32_t)sum;
}

static status_t eval_conv_integer(op_ctx_t *c)
{
    return convolve_integers(c, 1, op_in(c, 2), op_in(c, 3), store_i32);
}

static void store_quantized(op_ctx_t *c, size_t i, int64_t filter, double sum)
{
    const tensor_t *w_scale = c->in[4], *bias = op_in(c, 8);
    double scale = tensor_get_f64(c->in[1], 0) *
                   tensor_get_f64(w_scale, tensor_count(w_scale) > 1 ? (size_t)filter : 0) /
                   tensor_get_f64(c->in[6], 0);
    double y = (sum + (bias ? tensor_get_f64(bias, (size_t)filter) : 0)) * scale;
    double zero = tensor_get_f64(c->in[7], 0);
    bool is_signed = c->out[0]->dtype == DTYPE_I8;
    double low = is_signed ? -128 : 0, high = is_signed ? 127 : 255;
    y = fmin(fmax(rint(y) + zero, low), high); /* NaN becomes the lowest */
    ((uint8_t *)c->out[0]->data)[i] = (uint8_t)(int)y;
}

static status_t eval_qlinear_conv(op_ctx_t *c)
{
    return convolve_integers(c, 3, c->in[2], c->in[5], store_quantized);
}

const op_t ops_conv[] = {
    {"Conv", 2, 3, 1, 1, OP_HEAVY, infer_conv, eval_conv, NULL, NULL, 0, .rows.kind = ROWS_KEPT,
     .kind = OP_CONV},
    {"ConvInteger", 2, 4, 1, 1, OP_HEAVY, infer_conv_integer, eval_conv_integer, NULL, NULL, 0,
     .rows.kind = ROWS_KEPT},
    {"ConvTranspose", 2, 3, 1, 1, OP_HEAVY, infer_conv_transpose, eval_conv_transpose, NULL, NULL, 0,
     .rows.kind = ROWS_KEPT, .kind = OP_CONV_TRANSPOSE},
    {"QLinearConv", 8, 9, 1, 1, OP_HEAVY, infer_qlinear_conv, eval_qlinear_conv, NULL, NULL, 0,
     .rows.kind = ROWS_KEPT},
    {.name = NULL},
};
