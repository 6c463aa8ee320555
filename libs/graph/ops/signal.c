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
    int64_t n, out; /* points that are transformed, points that are kept */
    bool inverse;
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
    d->n = length.count ? length.v[0] : x->dims[d->axis];
    d->inverse = op_int(c, "inverse", 0);
    if (d->n < 1 || d->axis == x->rank - 1)
        return op_bad(c, "the length or the axis makes no sense");
    d->out = op_int(c, "onesided", 0) ? d->n / 2 + 1 : d->n;
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
    out.dims[out.rank - 1] = 2;
    return op_set_like(c, 0, &out);
}

static status_t eval_dft(op_ctx_t *c)
{
    const tensor_t *x = c->in[0];
    dft_t d = {0};
    status_t status = read_dft(c, &d);
    if (status != STATUS_OK)
        return status;
    size_t width = (size_t)x->dims[x->rank - 1], outer = tensor_count_range(x, 0, d.axis);
    size_t inner = tensor_count_range(x, d.axis + 1, x->rank - 1);
    int64_t have = x->dims[d.axis] < d.n ? x->dims[d.axis] : d.n;
    for (size_t o = 0; o < outer; o++)
        for (int64_t k = 0; k < d.out; k++)
            for (size_t i = 0; i < inner; i++) {
                double real = 0, imaginary = 0;
                for (int64_t t = 0; t < have; t++) {
                    size_t at = ((o * (size_t)x->dims[d.axis] + (size_t)t) * inner + i) * width;
                    double angle = (d.inverse ? 2 : -2) * M_PI * (double)(k * t % d.n) / (double)d.n;
                    const float *in = (const float *)x->data + at;
                    double a = (double)in[0], b = width == 2 ? (double)in[1] : 0;
                    real += a * cos(angle) - b * sin(angle);
                    imaginary += a * sin(angle) + b * cos(angle);
                }
                double scale = d.inverse ? 1 / (double)d.n : 1;
                float *to = (float *)c->out[0]->data + ((o * (size_t)d.out + (size_t)k) * inner + i) * 2;
                to[0] = (float)(real * scale);
                to[1] = (float)(imaginary * scale);
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
    {"BlackmanWindow", 1, 1, 1, 1, 0, infer_window, eval_window, blackman, NULL, 0},
    {"DFT", 1, 3, 1, 1, OP_HEAVY, infer_dft, eval_dft, NULL, NULL, 17},
    {"Det", 1, 1, 1, 1, OP_HEAVY, infer_det, eval_det, NULL, NULL, 0},
    {"HammingWindow", 1, 1, 1, 1, 0, infer_window, eval_window, hamming, NULL, 0},
    {"HannWindow", 1, 1, 1, 1, 0, infer_window, eval_window, hann, NULL, 0},
    {.name = NULL},
};
