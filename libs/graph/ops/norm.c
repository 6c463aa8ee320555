/*
 * Normalisations. All compute in float32 with sums in double.
 */
#include "graph/ops/tables.h"

#include <math.h>
#include <string.h>

static const float *floats(const tensor_t *t)
{
    return t ? t->data : NULL;
}

static status_t need_float(op_ctx_t *c)
{
    if (c->in[0]->dtype != DTYPE_F32)
        return op_unsupported(c, "element type %s is not supported", dtype_name(c->in[0]->dtype));
    return STATUS_OK;
}

static status_t need_channels(op_ctx_t *c, uint32_t from, uint32_t to)
{
    const tensor_t *x = c->in[0];
    int64_t channels = x->rank > 1 ? x->dims[1] : 1;
    for (uint32_t i = from; i < to; i++)
        if (!op_in(c, i) || c->in[i]->dtype != DTYPE_F32 || tensor_count(c->in[i]) != (size_t)channels)
            return op_bad(c, "input %u is missing or does not fit %lld channels", i, (long long)channels);
    return STATUS_OK;
}

/* Outputs 1 and 2 are the running mean and variance of training mode (opset 14); older ones are never computed. */
static status_t infer_batch_norm(op_ctx_t *c)
{
    status_t status = need_float(c);
    if (status == STATUS_OK && c->in[0]->rank < 2)
        status = op_bad(c, "the input has %u dimensions", c->in[0]->rank);
    if (status == STATUS_OK)
        status = need_channels(c, 1, 5);
    bool training = op_int(c, "training_mode", 0) || (c->node->opset < 7 && !op_int(c, "is_test", 1));
    if (status == STATUS_OK && !training && (op_out(c, 1) || op_out(c, 2) || op_out(c, 3)))
        status = op_unsupported(c, "outputs of training are asked for outside training mode");
    if (status == STATUS_OK)
        status = op_infer_same(c);
    if (status == STATUS_OK)
        status = op_set_like(c, 1, c->in[3]);
    return status == STATUS_OK ? op_set_like(c, 2, c->in[4]) : status;
}

typedef struct {
    size_t batch, channels, size;
} planes_t;

static planes_t planes_of(const tensor_t *x)
{
    return (planes_t){.batch = (size_t)x->dims[0],
                      .channels = x->rank > 1 ? (size_t)x->dims[1] : 1,
                      .size = tensor_count_range(x, x->rank > 1 ? 2 : 1, x->rank)};
}

static void moments(const float *x, const planes_t *p, size_t channel, double *mean, double *variance)
{
    double sum = 0, squares = 0, n = (double)(p->batch * p->size);
    for (size_t b = 0; b < p->batch; b++)
        for (size_t i = 0; i < p->size; i++)
            sum += (double)x[(b * p->channels + channel) * p->size + i];
    *mean = sum / n;
    for (size_t b = 0; b < p->batch; b++)
        for (size_t i = 0; i < p->size; i++) {
            double d = (double)x[(b * p->channels + channel) * p->size + i] - *mean;
            squares += d * d;
        }
    *variance = squares / n;
}

static void running(tensor_t *out, const tensor_t *old, size_t channel, double now, double momentum)
{
    if (out)
        ((float *)out->data)[channel] =
            (float)((double)floats(old)[channel] * momentum + now * (1 - momentum));
}

static status_t eval_batch_norm(op_ctx_t *c)
{
    const float *x = c->in[0]->data, *scale = floats(c->in[1]), *bias = floats(c->in[2]);
    float *y = c->out[0]->data;
    planes_t p = planes_of(c->in[0]);
    double epsilon = op_float(c, "epsilon", 1e-5), momentum = op_float(c, "momentum", 0.9);
    bool training = op_int(c, "training_mode", 0);
    for (size_t ch = 0; ch < p.channels; ch++) {
        double mean = (double)floats(c->in[3])[ch], variance = (double)floats(c->in[4])[ch];
        if (training) {
            moments(x, &p, ch, &mean, &variance);
            running(op_out(c, 1), c->in[3], ch, mean, momentum);
            running(op_out(c, 2), c->in[4], ch, variance, momentum);
        }
        float factor = (float)((double)scale[ch] / sqrt(variance + epsilon));
        float shift = (float)((double)bias[ch] - mean * (double)factor);
        for (size_t b = 0; b < p.batch; b++)
            for (size_t i = 0, at = (b * p.channels + ch) * p.size; i < p.size; i++)
                y[at + i] = x[at + i] * factor + shift;
    }
    return STATUS_OK;
}

/* Mean and 1/deviation of n values a stride apart. */
static void statistics(const float *x, size_t n, double epsilon, double *mean, double *inverse)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i];
    *mean = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += ((double)x[i] - *mean) * ((double)x[i] - *mean);
    *inverse = 1 / sqrt(squares / (double)n + epsilon);
}

static status_t infer_instance_norm(op_ctx_t *c)
{
    status_t status = need_float(c);
    if (status == STATUS_OK)
        status = need_channels(c, 1, 3);
    return status == STATUS_OK ? op_infer_same(c) : status;
}

static status_t eval_instance_norm(op_ctx_t *c)
{
    planes_t p = planes_of(c->in[0]);
    double epsilon = op_float(c, "epsilon", 1e-5), mean, inverse;
    for (size_t n = 0; n < p.batch * p.channels; n++) {
        const float *x = floats(c->in[0]) + n * p.size;
        float *y = (float *)c->out[0]->data + n * p.size;
        statistics(x, p.size, epsilon, &mean, &inverse);
        double factor = inverse * (double)floats(c->in[1])[n % p.channels];
        double shift = (double)floats(c->in[2])[n % p.channels] - mean * factor;
        for (size_t i = 0; i < p.size; i++)
            y[i] = (float)((double)x[i] * factor + shift);
    }
    return STATUS_OK;
}

/* Opset 18 has a scale per group, 21 per channel. */
static status_t infer_group_norm(op_ctx_t *c)
{
    const tensor_t *x = c->in[0];
    int64_t groups = op_int(c, "num_groups", 0), scales = (int64_t)tensor_count(c->in[1]);
    status_t status = need_float(c);
    if (status != STATUS_OK)
        return status;
    bool fits = x->rank >= 2 && groups > 0 && x->dims[1] % groups == 0 &&
                (scales == x->dims[1] || scales == groups) && tensor_count(c->in[2]) == (size_t)scales &&
                c->in[1]->dtype == DTYPE_F32 && c->in[2]->dtype == DTYPE_F32;
    return fits ? op_infer_same(c) : op_bad(c, "the groups or the scale do not fit the input");
}

static status_t eval_group_norm(op_ctx_t *c)
{
    planes_t p = planes_of(c->in[0]);
    size_t groups = (size_t)op_int(c, "num_groups", 1), per_group = p.channels / groups,
           scales = tensor_count(c->in[1]);
    double epsilon = op_float(c, "epsilon", 1e-5), mean, inverse;
    for (size_t n = 0; n < p.batch * groups; n++) {
        const float *x = floats(c->in[0]) + n * per_group * p.size;
        float *y = (float *)c->out[0]->data + n * per_group * p.size;
        statistics(x, per_group * p.size, epsilon, &mean, &inverse);
        for (size_t i = 0; i < per_group * p.size; i++) {
            size_t at = scales == groups ? n % groups : n % groups * per_group + i / p.size;
            y[i] = (float)(((double)x[i] - mean) * inverse * (double)floats(c->in[1])[at] +
                           (double)floats(c->in[2])[at]);
        }
    }
    return STATUS_OK;
}

static status_t layer_axis(op_ctx_t *c, uint32_t *axis)
{
    status_t status = need_float(c);
    return status == STATUS_OK ? op_axis(c, op_int(c, "axis", -1), c->in[0]->rank, axis) : status;
}

static status_t infer_layer_norm(op_ctx_t *c)
{
    const tensor_t *x = c->in[0];
    uint32_t axis;
    status_t status = layer_axis(c, &axis);
    if (status != STATUS_OK)
        return status;
    size_t n = tensor_count_range(x, axis, x->rank);
    if (c->in[1]->dtype != DTYPE_F32 || (op_in(c, 2) && c->in[2]->dtype != DTYPE_F32))
        return op_unsupported(c, "only float32 is supported");
    if (tensor_count(c->in[1]) != n || (op_in(c, 2) && tensor_count(c->in[2]) != n))
        return op_unsupported(
            c, "a scale or bias that does not cover the normalised dimensions is not supported");
    tensor_t per_row = *x;
    for (uint32_t d = axis; d < x->rank; d++)
        per_row.dims[d] = 1;
    status = op_infer_same(c);
    if (status == STATUS_OK)
        status = op_set_like(c, 1, &per_row);
    return status == STATUS_OK ? op_set_like(c, 2, &per_row) : status;
}

static status_t eval_layer_norm(op_ctx_t *c)
{
    const tensor_t *x = c->in[0];
    uint32_t axis;
    status_t status = layer_axis(c, &axis);
    if (status != STATUS_OK)
        return status;
    size_t rows = tensor_count_range(x, 0, axis), n = tensor_count_range(x, axis, x->rank);
    double epsilon = op_float(c, "epsilon", 1e-5), mean, inverse;
    const float *scale = floats(c->in[1]), *bias = floats(op_in(c, 2));
    tensor_t *y = op_out(c, 0), *means = op_out(c, 1), *inverses = op_out(c, 2);
    for (size_t r = 0; r < rows; r++) {
        const float *from = floats(x) + r * n;
        statistics(from, n, epsilon, &mean, &inverse);
        for (size_t i = 0; y && i < n; i++)
            ((float *)y->data)[r * n + i] =
                (float)(((double)from[i] - mean) * inverse) * scale[i] + (bias ? bias[i] : 0);
        if (means)
            ((float *)means->data)[r] = (float)mean;
        if (inverses)
            ((float *)inverses->data)[r] = (float)inverse;
    }
    return STATUS_OK;
}

static status_t infer_rms_norm(op_ctx_t *c)
{
    uint32_t axis;
    status_t status = layer_axis(c, &axis);
    if (status != STATUS_OK)
        return status;
    if (c->in[1]->dtype != DTYPE_F32 ||
        tensor_count(c->in[1]) != tensor_count_range(c->in[0], axis, c->in[0]->rank))
        return op_unsupported(c, "only a float32 scale of the normalised dimensions is supported");
    return op_infer_same(c);
}

static status_t eval_rms_norm(op_ctx_t *c)
{
    const tensor_t *x = c->in[0];
    uint32_t axis;
    status_t status = layer_axis(c, &axis);
    if (status != STATUS_OK)
        return status;
    size_t rows = tensor_count_range(x, 0, axis), n = tensor_count_range(x, axis, x->rank);
    double epsilon = op_float(c, "epsilon", 1e-5);
    for (size_t r = 0; r < rows; r++) {
        const float *from = floats(x) + r * n;
        float *to = (float *)c->out[0]->data + r * n;
        double squares = 0;
        for (size_t i = 0; i < n; i++)
            squares += (double)from[i] * (double)from[i];
        double inverse = 1 / sqrt(squares / (double)n + epsilon);
        for (size_t i = 0; i < n; i++)
            to[i] = (float)((double)from[i] * inverse * (double)floats(c->in[1])[i]);
    }
    return STATUS_OK;
}

static status_t infer_float(op_ctx_t *c)
{
    status_t status = need_float(c);
    return status == STATUS_OK ? op_infer_same(c) : status;
}

static status_t eval_lrn(op_ctx_t *c)
{
    planes_t p = planes_of(c->in[0]);
    int64_t size = op_int(c, "size", 1), channels = (int64_t)p.channels;
    double alpha = op_float(c, "alpha", 0.0001), beta = op_float(c, "beta", 0.75),
           bias = op_float(c, "bias", 1);
    if (size < 1)
        return op_bad(c, "'size' is %lld", (long long)size);
    for (size_t b = 0; b < p.batch; b++)
        for (int64_t ch = 0; ch < channels; ch++) {
            int64_t from = ch - (size - 1) / 2, to = ch + size / 2;
            from = from < 0 ? 0 : from;
            to = to >= channels ? channels - 1 : to;
            for (size_t i = 0; i < p.size; i++) {
                const float *x = floats(c->in[0]) + b * p.channels * p.size + i;
                double sum = 0;
                for (int64_t k = from; k <= to; k++)
                    sum += (double)x[(size_t)k * p.size] * (double)x[(size_t)k * p.size];
                size_t at = (size_t)ch * p.size;
                ((float *)c->out[0]->data)[b * p.channels * p.size + i + at] =
                    (float)((double)x[at] / pow(bias + alpha / (double)size * sum, beta));
            }
        }
    return STATUS_OK;
}

/* Over the axes 0, 2, 3: per channel. */
static status_t infer_mvn(op_ctx_t *c)
{
    const attr_t *axes = op_ints(c, "axes");
    bool usual = !axes || (axes->count == c->in[0]->rank - 1 && axes->ints[0] == 0 && axes->count > 1 &&
                           axes->ints[1] == 2);
    if (!usual || c->in[0]->rank < 2)
        return op_unsupported(c, "only statistics per channel are supported");
    return infer_float(c);
}

static status_t eval_mvn(op_ctx_t *c)
{
    planes_t p = planes_of(c->in[0]);
    for (size_t ch = 0; ch < p.channels; ch++) {
        double mean, variance;
        moments(floats(c->in[0]), &p, ch, &mean, &variance);
        double deviation = sqrt(variance) + 1e-9;
        for (size_t b = 0; b < p.batch; b++)
            for (size_t i = 0, at = (b * p.channels + ch) * p.size; i < p.size; i++)
                ((float *)c->out[0]->data)[at + i] =
                    (float)(((double)floats(c->in[0])[at + i] - mean) / deviation);
    }
    return STATUS_OK;
}

static status_t eval_lp_norm(op_ctx_t *c)
{
    const tensor_t *x = c->in[0];
    uint32_t axis;
    status_t status = op_axis(c, op_int(c, "axis", -1), x->rank, &axis);
    if (status != STATUS_OK)
        return status;
    size_t n = (size_t)x->dims[axis], inner = tensor_count_range(x, axis + 1, x->rank);
    size_t outer = tensor_count_range(x, 0, axis);
    int64_t p = op_int(c, "p", 2);
    for (size_t o = 0; o < outer; o++)
        for (size_t i = 0; i < inner; i++) {
            const float *from = floats(x) + o * n * inner + i;
            float *to = (float *)c->out[0]->data + o * n * inner + i;
            double sum = 0;
            for (size_t k = 0; k < n; k++)
                sum += p == 1 ? fabs((double)from[k * inner])
                              : (double)from[k * inner] * (double)from[k * inner];
            sum = p == 1 ? sum : sqrt(sum);
            for (size_t k = 0; k < n; k++)
                to[k * inner] = sum > 0 ? (float)((double)from[k * inner] / sum) : 0;
        }
    return STATUS_OK;
}

const op_t ops_norm[] = {
    {"BatchNormalization", 5, 5, 1, 5, OP_HEAVY, infer_batch_norm, eval_batch_norm, NULL, NULL, 0,
     .rows = {ROWS_KEPT_UNLESS, "training_mode", 0}, .kind = OP_BATCH_NORM},
    {"GroupNormalization", 3, 3, 1, 1, OP_HEAVY, infer_group_norm, eval_group_norm, NULL, NULL, 18,
     .rows.kind = ROWS_KEPT},
    {"InstanceNormalization", 3, 3, 1, 1, OP_HEAVY, infer_instance_norm, eval_instance_norm, NULL, NULL, 0,
     .rows.kind = ROWS_KEPT, .kind = OP_INSTANCE_NORM},
    {"LRN", 1, 1, 1, 1, OP_HEAVY, infer_float, eval_lrn, NULL, NULL, 0, .rows.kind = ROWS_KEPT},
    {"LayerNormalization", 2, 3, 1, 3, OP_HEAVY, infer_layer_norm, eval_layer_norm, NULL, NULL, 0,
     .rows = {ROWS_ALONG_AXIS, "axis", -1}, .kind = OP_LAYER_NORM},
    {"LpNormalization", 1, 1, 1, 1, OP_HEAVY, infer_float, eval_lp_norm, NULL, NULL, 0,
     .rows = {ROWS_ALONG_AXIS, "axis", -1}},
    {"MeanVarianceNormalization", 1, 1, 1, 1, OP_HEAVY, infer_mvn, eval_mvn, NULL, NULL, 0,
     .rows.kind = ROWS_MIXED},
    {"RMSNormalization", 2, 2, 1, 1, OP_HEAVY, infer_rms_norm, eval_rms_norm, NULL, NULL, 23,
     .rows = {ROWS_ALONG_AXIS, "axis", -1}},
    {.name = NULL},
};
