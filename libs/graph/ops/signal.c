/*
 * Windows, Fourier transforms and determinants.
 */
#include "graph/ops/tables.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static status_t infer_window(op_ctx_t *c)
{
    ints_t size;
    dtype_t dtype = (dtype_t)op_int(c, "output_datatype", DTYPE_F32);
    status_t status = op_read_ints(c, 0, &size);
    if (status != STATUS_OK)
        return status;
    if (size.count != 1 || size.v[0] < 0 || (dtype != DTYPE_F32 && dtype != DTYPE_F64))
        return op_bad(c, "the size or the type of the window makes no sense");
    return op_set(c, 0, dtype, 1, size.v);
}

/* Sums of cosines; the coefficients are in aux. */
static const double hann[3] = {0.5, 0.5, 0}, hamming[3] = {25.0 / 46, 21.0 / 46, 0},
                    blackman[3] = {0.42, 0.5, 0.08};

static status_t eval_window(op_ctx_t *c)
{
    const double *a = c->node->op->aux;
    int64_t n = c->out[0]->dims[0];
    double span = (double)(op_int(c, "periodic", 1) ? n : n - 1);
    for (int64_t i = 0; i < n; i++) {
        double x = span > 0 ? 2 * M_PI * (double)i / span : 0, y = a[0] - a[1] * cos(x) + a[2] * cos(2 * x);
        if (c->out[0]->dtype == DTYPE_F32)
            ((float *)c->out[0]->data)[i] = (float)y;
        else
            ((double *)c->out[0]->data)[i] = y;
    }
    return STATUS_OK;
}

typedef struct {
    uint32_t axis;
    int64_t n, out;        /* points that are transformed, points that are kept */
    bool inverse, to_real; /* to_real: the inverse of a onesided one, whose other half is the mirror image */
} dft_t;

/* [batch, dims…, 1 or 2]; opset 20 takes the axis as an input. */
static status_t read_dft(op_ctx_t *c, dft_t *d)
{
    const tensor_t *x = c->in[0];
    ints_t length, axis;
    status_t status = op_read_ints(c, 1, &length);
    if (status == STATUS_OK)
        status = op_read_ints(c, 2, &axis);
    if (status != STATUS_OK)
        return status;
    if (x->rank < 3 || x->dtype != DTYPE_F32 || x->dims[x->rank - 1] < 1 || x->dims[x->rank - 1] > 2)
        return op_unsupported(c, "only float32 tensors with a last dimension of 1 or 2 are supported");
    status = op_axis(c, axis.count ? axis.v[0] : op_int(c, "axis", c->node->opset >= 20 ? -2 : 1), x->rank,
                     &d->axis);
    if (status != STATUS_OK)
        return status;
    d->inverse = op_int(c, "inverse", 0);
    bool onesided = op_int(c, "onesided", 0);
    d->to_real = d->inverse && onesided;
    d->n = length.count ? length.v[0] : d->to_real ? 2 * (x->dims[d->axis] - 1) : x->dims[d->axis];
    if (d->n < 1 || d->axis == x->rank - 1 || (d->to_real && x->dims[x->rank - 1] != 2))
        return op_bad(c, "the length, the axis or the last dimension makes no sense");
    d->out = onesided && !d->inverse ? d->n / 2 + 1 : d->n;
    return STATUS_OK;
}

static status_t infer_dft(op_ctx_t *c)
{
    tensor_t out = *c->in[0];
    dft_t d = {0};
    status_t status = read_dft(c, &d);
    if (status != STATUS_OK)
        return status;
    out.dims[d.axis] = d.out;
    out.dims[out.rank - 1] = d.to_real ? 1 : 2;
    return op_set_like(c, 0, &out);
}

/* Point k of the result; the input begins at element `first` and goes on by `step`. */
static void dft_point(const dft_t *d, const tensor_t *x, size_t first, size_t step, int64_t k, float *to)
{
    size_t width = (size_t)x->dims[x->rank - 1];
    int64_t used = d->to_real ? d->n / 2 + 1 : d->n, have = x->dims[d->axis] < used ? x->dims[d->axis] : used;
    double real = 0, imaginary = 0, scale = d->inverse ? 1 / (double)d->n : 1;
    for (int64_t t = 0; t < have; t++) {
        const float *in = (const float *)x->data + (first + (size_t)t * step) * width;
        double angle = (d->inverse ? 2 : -2) * M_PI * (double)(k * t % d->n) / (double)d->n;
        double a = (double)in[0], b = width == 2 ? (double)in[1] : 0;
        double times = d->to_real && t > 0 && 2 * t != d->n ? 2 : 1;
        real += times * (a * cos(angle) - b * sin(angle));
        imaginary += a * sin(angle) + b * cos(angle);
    }
    to[0] = (float)(real * scale);
    if (!d->to_real)
        to[1] = (float)(imaginary * scale);
}

static status_t eval_dft(op_ctx_t *c)
{
    const tensor_t *x = c->in[0];
    dft_t d = {0};
    status_t status = read_dft(c, &d);
    if (status != STATUS_OK)
        return status;
    size_t outer = tensor_count_range(x, 0, d.axis), inner = tensor_count_range(x, d.axis + 1, x->rank - 1);
    for (size_t o = 0; o < outer; o++)
        for (int64_t k = 0; k < d.out; k++)
            for (size_t i = 0; i < inner; i++)
                dft_point(&d, x, (o * (size_t)x->dims[d.axis]) * inner + i, inner, k,
                          (float *)c->out[0]->data +
                              ((o * (size_t)d.out + (size_t)k) * inner + i) * (d.to_real ? 1 : 2));
    return STATUS_OK;
}

typedef struct {
    int64_t step, length, frames, bins;
    size_t width; /* 1: real, 2: complex */
    const float *window;
} stft_t;

/* [batch, length, 1 or 2], step, [window], [length of a frame]. */
static status_t read_stft(op_ctx_t *c, stft_t *s)
{
    const tensor_t *x = c->in[0], *window = op_in(c, 2);
    ints_t step, length;
    status_t status = op_read_ints(c, 1, &step);
    if (status == STATUS_OK)
        status = op_read_ints(c, 3, &length);
    if (status != STATUS_OK)
        return status;
    bool usual = x->dtype == DTYPE_F32 &&
                 (x->rank == 2 || (x->rank == 3 && x->dims[2] >= 1 && x->dims[2] <= 2)) &&
                 (!window || (window->dtype == DTYPE_F32 && window->rank == 1));
    if (!usual)
        return op_unsupported(c, "only float32 signals [batch, length, 1 or 2] are supported");
    if (step.count != 1 || (!length.count && !window))
        return op_bad(c, "the step or the length of a frame is missing");
    *s = (stft_t){.step = step.v[0], .window = window ? window->data : NULL};
    s->length = length.count ? length.v[0] : window->dims[0];
    s->width = x->rank == 3 ? (size_t)x->dims[2] : 1;
    if (s->step < 1 || s->length < 1 || s->length > x->dims[1] || (window && window->dims[0] != s->length))
        return op_bad(c, "the step, the frame or the window does not fit the signal");
    s->frames = (x->dims[1] - s->length) / s->step + 1;
    s->bins = op_int(c, "onesided", 1) ? s->length / 2 + 1 : s->length;
    return STATUS_OK;
}

static status_t infer_stft(op_ctx_t *c)
{
    stft_t s;
    status_t status = read_stft(c, &s);
    return status == STATUS_OK
               ? op_set(c, 0, DTYPE_F32, 4, (int64_t[]){c->in[0]->dims[0], s.frames, s.bins, 2})
               : status;
}

static void stft_point(const stft_t *s, const float *frame, int64_t k, float *to)
{
    double real = 0, imaginary = 0;
    for (int64_t t = 0; t < s->length; t++) {
        double angle = -2 * M_PI * (double)(k * t % s->length) / (double)s->length;
        double w = s->window ? (double)s->window[t] : 1, a = w * (double)frame[(size_t)t * s->width];
        double b = s->width == 2 ? w * (double)frame[(size_t)t * 2 + 1] : 0;
        real += a * cos(angle) - b * sin(angle);
        imaginary += a * sin(angle) + b * cos(angle);
    }
    to[0] = (float)real;
    to[1] = (float)imaginary;
}

static status_t eval_stft(op_ctx_t *c)
{
    const tensor_t *x = c->in[0];
    stft_t s;
    status_t status = read_stft(c, &s);
    float *to = c->out[0]->data;
    for (int64_t b = 0; status == STATUS_OK && b < x->dims[0]; b++)
        for (int64_t f = 0; f < s.frames; f++)
            for (int64_t k = 0; k < s.bins; k++, to += 2)
                stft_point(&s, (const float *)x->data + (size_t)(b * x->dims[1] + f * s.step) * s.width, k,
                           to);
    return status;
}

static status_t infer_mel(op_ctx_t *c)
{
    ints_t bins, length;
    status_t status = op_read_ints(c, 0, &bins);
    if (status == STATUS_OK)
        status = op_read_ints(c, 1, &length);
    if (status != STATUS_OK)
        return status;
    if (op_int(c, "output_datatype", DTYPE_F32) != DTYPE_F32)
        return op_unsupported(c, "only float32 is supported");
    if (bins.count != 1 || length.count != 1 || bins.v[0] < 0 || length.v[0] < 0)
        return op_bad(c, "the number of bands or the length makes no sense");
    return op_set(c, 0, DTYPE_F32, 2, (int64_t[]){length.v[0] / 2 + 1, bins.v[0]});
}

static double mel_of(double hertz)
{
    return 2595 * log10(1 + hertz / 700);
}

/* Triangles, evenly spaced in mel; each edge is the place in the spectrum that its frequency falls to. */
static status_t eval_mel(op_ctx_t *c)
{
    int64_t rows = c->out[0]->dims[0], bands = c->out[0]->dims[1];
    double length = op_scalar_f64(c, 1, 0), rate = op_scalar_f64(c, 2, 0);
    double low = mel_of(op_scalar_f64(c, 3, 0)), high = mel_of(op_scalar_f64(c, 4, 0));
    float *out = c->out[0]->data;
    memset(out, 0, tensor_bytes(c->out[0]));
    if (!(rate > 0 && low >= 0 && high >= low && isfinite(high)))
        return op_bad(c, "the rate or the frequencies make no sense");
    for (int64_t band = 0; band < bands; band++) {
        double edge[3];
        for (int e = 0; e < 3; e++) {
            double mel = low + (double)(band + e) * (high - low) / (double)(bands + 2);
            edge[e] = floor((length + 1) * (700 * (pow(10, mel / 2595) - 1)) / rate);
        }
        for (int64_t row = 0; row < rows; row++) {
            double x = (double)row,
                   rising = edge[1] > edge[0] ? (x - edge[0]) / (edge[1] - edge[0]) : x == edge[1];
            double falling = edge[2] > edge[1] ? (edge[2] - x) / (edge[2] - edge[1]) : 0;
            if (x >= edge[0] && x <= edge[1] && (edge[1] > edge[0] || x == edge[1]))
                out[row * bands + band] = (float)rising;
            else if (x > edge[1] && x < edge[2])
                out[row * bands + band] = (float)falling;
        }
    }
    return STATUS_OK;
}

static status_t infer_det(op_ctx_t *c)
{
    const tensor_t *x = c->in[0];
    if (x->rank < 2 || x->dims[x->rank - 1] != x->dims[x->rank - 2] || x->dtype != DTYPE_F32)
        return op_bad(c, "the input is no square matrix of float32");
    return op_set(c, 0, DTYPE_F32, x->rank - 2, x->dims);
}

static double determinant(double *m, int64_t n)
{
    double det = 1;
    for (int64_t k = 0; k < n; k++) {
        int64_t pivot = k;
        for (int64_t i = k + 1; i < n; i++)
            pivot = fabs(m[i * n + k]) > fabs(m[pivot * n + k]) ? i : pivot;
        if (m[pivot * n + k] == 0)
            return 0;
        for (int64_t j = 0; pivot != k && j < n; j++) {
            double swap = m[k * n + j];
            m[k * n + j] = m[pivot * n + j];
            m[pivot * n + j] = swap;
        }
        det *= pivot == k ? m[k * n + k] : -m[k * n + k];
        for (int64_t i = k + 1; i < n; i++) {
            double factor = m[i * n + k] / m[k * n + k];
            for (int64_t j = k; j < n; j++)
                m[i * n + j] -= factor * m[k * n + j];
        }
    }
    return det;
}

static status_t eval_det(op_ctx_t *c)
{
    const tensor_t *x = c->in[0];
    int64_t n = x->dims[x->rank - 1];
    double *m = malloc(((size_t)(n * n) + 1) * sizeof *m);
    if (!m)
        return err_set(c->err, STATUS_NO_MEMORY, "no memory for a matrix");
    for (size_t b = 0, count = tensor_count(c->out[0]); b < count; b++) {
        for (int64_t i = 0; i < n * n; i++)
            m[i] = (double)((const float *)x->data)[b * (size_t)(n * n) + (size_t)i];
        ((float *)c->out[0]->data)[b] = (float)determinant(m, n);
    }
    free(m);
    return STATUS_OK;
}

const op_t ops_signal[] = {
    {"BlackmanWindow", 1, 1, 1, 1, 0, infer_window, eval_window, blackman, NULL, 0, .rows.kind = ROWS_MIXED},
    {"DFT", 1, 3, 1, 1, OP_HEAVY, infer_dft, eval_dft, NULL, NULL, 17, .rows.kind = ROWS_MIXED},
    {"Det", 1, 1, 1, 1, OP_HEAVY, infer_det, eval_det, NULL, NULL, 0, .rows.kind = ROWS_KEPT},
    {"HammingWindow", 1, 1, 1, 1, 0, infer_window, eval_window, hamming, NULL, 0, .rows.kind = ROWS_MIXED},
    {"HannWindow", 1, 1, 1, 1, 0, infer_window, eval_window, hann, NULL, 0, .rows.kind = ROWS_MIXED},
    {"MelWeightMatrix", 5, 5, 1, 1, 0, infer_mel, eval_mel, NULL, NULL, 17, .rows.kind = ROWS_MIXED},
    {"STFT", 2, 4, 1, 1, OP_HEAVY, infer_stft, eval_stft, NULL, NULL, 17, .rows.kind = ROWS_KEPT},
    {.name = NULL},
};
