/*
 * One tensor in, the same shape out. Floating point is computed in its own width; integer types where ONNX has them.
 */
#include "graph/ops/tables.h"

#include <math.h>
#include <string.h>
#include <tgmath.h>

/* Attributes, read once per tensor. */
typedef struct {
    double a, b;
} params_t;

typedef struct {
    void (*f32)(const float *in, float *out, size_t count, const params_t *p);
    void (*f64)(const double *in, double *out, size_t count, const params_t *p);
    const char *name_a;
    double default_a;
    const char *name_b;
    double default_b;
} unary_t;

/* The expression is written once and compiled for both widths: x, a and b have type T. */
#define UNARY_LOOP(name, suffix, T, expression)                                       \
    static void name##_##suffix(const T *in, T *out, size_t count, const params_t *p) \
    {                                                                                 \
        const T a = (T)p->a, b = (T)p->b;                                             \
        (void)a;                                                                      \
        (void)b;                                                                      \
        for (size_t i = 0; i < count; i++) {                                          \
            const T x = in[i];                                                        \
            out[i] = (T)(expression);                                                 \
        }                                                                             \
    }

#define UNARY(name, expression, ...)          \
    UNARY_LOOP(name, f32, float, expression)  \
    UNARY_LOOP(name, f64, double, expression) \
    static const unary_t aux_##name = {name##_f32, name##_f64, __VA_ARGS__};

#define NO_ATTRS NULL, 0, NULL, 0

UNARY(abs, fabs(x), NO_ATTRS)
UNARY(acos, acos(x), NO_ATTRS)
UNARY(acosh, acosh(x), NO_ATTRS)
UNARY(asin, asin(x), NO_ATTRS)
UNARY(asinh, asinh(x), NO_ATTRS)
UNARY(atan, atan(x), NO_ATTRS)
UNARY(atanh, atanh(x), NO_ATTRS)
UNARY(ceil, ceil(x), NO_ATTRS)
UNARY(cos, cos(x), NO_ATTRS)
UNARY(cosh, cosh(x), NO_ATTRS)
UNARY(erf, erf(x), NO_ATTRS)
UNARY(exp, exp(x), NO_ATTRS)
UNARY(floor, floor(x), NO_ATTRS)
UNARY(log, log(x), NO_ATTRS)
UNARY(neg, -x, NO_ATTRS)
UNARY(reciprocal, 1 / x, NO_ATTRS)
UNARY(round, rint(x), NO_ATTRS)
UNARY(sign, (x > 0) - (x < 0), NO_ATTRS)
UNARY(sin, sin(x), NO_ATTRS)
UNARY(sinh, sinh(x), NO_ATTRS)
UNARY(sqrt, sqrt(x), NO_ATTRS)
UNARY(tan, tan(x), NO_ATTRS)
UNARY(tanh, tanh(x), NO_ATTRS)
UNARY(relu, x > 0 ? x : 0 * x, NO_ATTRS)
UNARY(sigmoid, 1 / (1 + exp(-x)), NO_ATTRS)
UNARY(softplus, x > 20 ? x : log1p(exp(x)), NO_ATTRS)
UNARY(softsign, x / (1 + fabs(x)), NO_ATTRS)
UNARY(hardswish, x *fmax((typeof(x))0, fmin((typeof(x))1, x / 6 + (typeof(x))0.5)), NO_ATTRS)
UNARY(mish, x *tanh(x > 20 ? x : log1p(exp(x))), NO_ATTRS)
UNARY(leakyrelu, x < 0 ? a * x : x, "alpha", 0.01, NULL, 0)
UNARY(elu, x < 0 ? a * expm1(x) : x, "alpha", 1, NULL, 0)
UNARY(celu, x < 0 ? a * expm1(x / a) : x, "alpha", 1, NULL, 0)
UNARY(selu, b *(x < 0 ? a * expm1(x) : x), "alpha", 1.67326319217681884765625, "gamma",
      1.05070102214813232421875)
UNARY(thresholdedrelu, x > a ? x : 0, "alpha", 1, NULL, 0)
UNARY(hardsigmoid, fmax((typeof(x))0, fmin((typeof(x))1, a *x + b)), "alpha", 0.2, "beta", 0.5)
UNARY(shrink, x<-a ? x + b : x> a ? x - b : 0, "lambd", 0.5, "bias", 0)
UNARY(gelu_erf, x *(1 + erf(x * (typeof(x))M_SQRT1_2)) / 2, NO_ATTRS)
UNARY(gelu_tanh, x *(1 + tanh((typeof(x))0.7978845608028654 * (x + (typeof(x))0.044715 * x * x * x))) / 2,
      NO_ATTRS)
UNARY(swish, x / (1 + exp(-a * x)), "alpha", 1, NULL, 0)

static status_t run_float(op_ctx_t *c, const unary_t *u)
{
    params_t p = {u->name_a ? op_float(c, u->name_a, u->default_a) : 0,
                  u->name_b ? op_float(c, u->name_b, u->default_b) : 0};
    const tensor_t *in = c->in[0];
    tensor_t *out = c->out[0];
    if (in->dtype == DTYPE_F32)
        u->f32(in->data, out->data, tensor_count(in), &p);
    else if (in->dtype == DTYPE_F64)
        u->f64(in->data, out->data, tensor_count(in), &p);
    else
        return op_unsupported(c, "element type %s is not supported", dtype_name(in->dtype));
    return STATUS_OK;
}

static status_t eval_float(op_ctx_t *c)
{
    return run_float(c, c->node->op->aux);
}

static status_t eval_gelu(op_ctx_t *c)
{
    return run_float(c, strcmp(op_string(c, "approximate", "none"), "tanh") ? &aux_gelu_erf : &aux_gelu_tanh);
}

/* Abs, Neg, Sign and Relu on integers; minimum values wrap as two's complement does. */
#define INTEGER_LOOP(T)                                            \
    {                                                              \
        const T *from = in->data;                                  \
        T *to = out->data;                                         \
        for (size_t i = 0; i < count; i++) {                       \
            int64_t x = (int64_t)from[i];                          \
            to[i] = (T)(kind == 'n'   ? (int64_t)(0 - (uint64_t)x) \
                        : kind == 's' ? (x > 0) - (x < 0)          \
                        : kind == 'r' ? (x > 0 ? x : 0)            \
                        : x < 0       ? (int64_t)(0 - (uint64_t)x) \
                                      : x);                              \
        }                                                          \
        break;                                                     \
    }

static status_t eval_signed(op_ctx_t *c)
{
    const tensor_t *in = c->in[0];
    tensor_t *out = c->out[0];
    size_t count = tensor_count(in);
    const char *name = c->node->op->name;
    char kind = !strcmp(name, "Neg") ? 'n' : !strcmp(name, "Sign") ? 's' : !strcmp(name, "Relu") ? 'r' : 'a';
    switch (in->dtype) {
    case DTYPE_I8:
        INTEGER_LOOP(int8_t)
    case DTYPE_I16:
        INTEGER_LOOP(int16_t)
    case DTYPE_I32:
        INTEGER_LOOP(int32_t)
    case DTYPE_I64:
        INTEGER_LOOP(int64_t)
    case DTYPE_U8:
    case DTYPE_U16:
    case DTYPE_U32:
    case DTYPE_U64:
        if (kind == 'n')
            return op_unsupported(c, "element type %s is not supported", dtype_name(in->dtype));
        if (kind != 's')
            memcpy(out->data, in->data, tensor_bytes(in));
        else
            return op_unsupported(c, "element type %s is not supported", dtype_name(in->dtype));
        break;
    default:
        return eval_float(c);
    }
    return STATUS_OK;
}

/* Rounding functions leave integers alone. */
static status_t eval_rounding(op_ctx_t *c)
{
    return eval_float(c);
}

static status_t eval_not(op_ctx_t *c)
{
    const uint8_t *in = c->in[0]->data;
    uint8_t *out = c->out[0]->data;
    for (size_t i = 0, n = tensor_count(c->in[0]); i < n; i++)
        out[i] = !in[i];
    return STATUS_OK;
}

static status_t eval_bitwise_not(op_ctx_t *c)
{
    const uint8_t *in = c->in[0]->data;
    uint8_t *out = c->out[0]->data;
    for (size_t i = 0, n = tensor_bytes(c->in[0]); i < n; i++)
        out[i] = (uint8_t)~in[i];
    return STATUS_OK;
}

static status_t infer_bool(op_ctx_t *c)
{
    return op_set(c, 0, DTYPE_BOOL, c->in[0]->rank, c->in[0]->dims);
}

static status_t infer_logical(op_ctx_t *c)
{
    if (c->in[0]->dtype != DTYPE_BOOL)
        return op_bad(c, "the input is %s where bool is wanted", dtype_name(c->in[0]->dtype));
    return op_infer_same(c);
}

static status_t eval_isnan(op_ctx_t *c)
{
    bool *out = c->out[0]->data;
    for (size_t i = 0, n = tensor_count(c->in[0]); i < n; i++)
        out[i] = isnan(tensor_get_f64(c->in[0], i));
    return STATUS_OK;
}

static status_t eval_isinf(op_ctx_t *c)
{
    bool *out = c->out[0]->data, positive = op_int(c, "detect_positive", 1),
         negative = op_int(c, "detect_negative", 1);
    for (size_t i = 0, n = tensor_count(c->in[0]); i < n; i++) {
        double x = tensor_get_f64(c->in[0], i);
        out[i] = isinf(x) && (x > 0 ? positive : negative);
    }
    return STATUS_OK;
}

#define CLIP_LOOP(T, MIN, MAX, get)                                       \
    {                                                                     \
        const T *from = in->data;                                         \
        T *to = c->out[0]->data, low = has_low ? (T)get(low_in, 0) : MIN, \
          high = has_high ? (T)get(high_in, 0) : MAX;                     \
        for (size_t i = 0; i < count; i++) {                              \
            T x = from[i] < low ? low : from[i];                          \
            to[i] = x > high ? high : x;                                  \
        }                                                                 \
        return STATUS_OK;                                                 \
    }

/* Before opset 11 the bounds are attributes. */
static status_t eval_clip(op_ctx_t *c)
{
    const tensor_t *in = c->in[0], *low_in = op_in(c, 1), *high_in = op_in(c, 2);
    float bounds[2] = {(float)op_float(c, "min", -INFINITY), (float)op_float(c, "max", INFINITY)};
    tensor_t low_attr = {.dtype = DTYPE_F32, .data = &bounds[0]},
             high_attr = {.dtype = DTYPE_F32, .data = &bounds[1]};
    if (c->node->opset < 11) {
        low_in = &low_attr;
        high_in = &high_attr;
    }
    bool has_low = low_in && tensor_count(low_in), has_high = high_in && tensor_count(high_in);
    size_t count = tensor_count(in);
    switch (in->dtype) {
    case DTYPE_F32:
        CLIP_LOOP(float, -INFINITY, INFINITY, tensor_get_f64)
    case DTYPE_F64:
        CLIP_LOOP(double, -(double)INFINITY, (double)INFINITY, tensor_get_f64)
    case DTYPE_I8:
        CLIP_LOOP(int8_t, INT8_MIN, INT8_MAX, tensor_get_i64)
    case DTYPE_U8:
        CLIP_LOOP(uint8_t, 0, UINT8_MAX, tensor_get_i64)
    case DTYPE_I16:
        CLIP_LOOP(int16_t, INT16_MIN, INT16_MAX, tensor_get_i64)
    case DTYPE_I32:
        CLIP_LOOP(int32_t, INT32_MIN, INT32_MAX, tensor_get_i64)
    case DTYPE_I64:
        CLIP_LOOP(int64_t, INT64_MIN, INT64_MAX, tensor_get_i64)
    case DTYPE_U64:
        CLIP_LOOP(uint64_t, 0, UINT64_MAX, tensor_get_i64)
    default:
        return op_unsupported(c, "element type %s is not supported", dtype_name(in->dtype));
    }
}

static status_t eval_copy(op_ctx_t *c)
{
    size_t bytes = tensor_bytes(c->in[0]);
    if (bytes)
        memcpy(c->out[0]->data, c->in[0]->data, bytes);
    return STATUS_OK;
}

/* Inference: the mask, when it is asked for, is all true. In training mode only a ratio of 0 means the same. */
static status_t infer_dropout(op_ctx_t *c)
{
    bool training = op_int(c, "is_test", 1) == 0;
    if (c->node->opset >= 12 && op_in(c, 2)) {
        if (!op_in(c, 2)->data)
            return op_unsupported(c, "training_mode is not a constant");
        training = op_scalar_i64(c, 2, 0) != 0;
    }
    if (training && c->node->opset >= 12 && op_scalar_f64(c, 1, 0.5) != 0)
        return op_unsupported(c, "training mode is not supported");
    status_t status = op_infer_same(c);
    dtype_t mask = c->node->opset >= 10 ? DTYPE_BOOL : c->in[0]->dtype;
    return status == STATUS_OK ? op_set(c, 1, mask, c->in[0]->rank, c->in[0]->dims) : status;
}

static status_t eval_dropout(op_ctx_t *c)
{
    tensor_t *mask = op_out(c, 1);
    if (mask && mask->dtype == DTYPE_F32) /* before opset 10 */
        for (size_t i = 0, n = tensor_count(mask); i < n; i++)
            ((float *)mask->data)[i] = 1;
    else if (mask && mask->dtype == DTYPE_BOOL)
        memset(mask->data, 1, tensor_count(mask));
    else if (mask)
        return op_unsupported(c, "a mask of %s is not supported", dtype_name(mask->dtype));
    return c->out[0] ? eval_copy(c) : STATUS_OK;
}

#define FLOAT(onnx_name, fn)                                                                            \
    {                                                                                                   \
        onnx_name, 1, 1, 1, 1, 0, op_infer_same, eval_float, &aux_##fn, NULL, 0, .rows.kind = ROWS_KEPT \
    }
#define SIGNED(onnx_name, fn)                                                                            \
    {                                                                                                    \
        onnx_name, 1, 1, 1, 1, 0, op_infer_same, eval_signed, &aux_##fn, NULL, 0, .rows.kind = ROWS_KEPT \
    }

const op_t ops_unary[] = {
    SIGNED("Abs", abs),
    FLOAT("Acos", acos),
    FLOAT("Acosh", acosh),
    FLOAT("Asin", asin),
    FLOAT("Asinh", asinh),
    FLOAT("Atan", atan),
    FLOAT("Atanh", atanh),
    {"BitwiseNot", 1, 1, 1, 1, 0, op_infer_same, eval_bitwise_not, NULL, NULL, 0, .rows.kind = ROWS_KEPT},
    {"Ceil", 1, 1, 1, 1, 0, op_infer_same, eval_rounding, &aux_ceil, NULL, 0, .rows.kind = ROWS_KEPT},
    FLOAT("Celu", celu),
    {"Clip", 1, 3, 1, 1, 0, op_infer_same, eval_clip, NULL, NULL, 0, .rows.kind = ROWS_KEPT},
    FLOAT("Cos", cos),
    FLOAT("Cosh", cosh),
    {"Dropout", 1, 3, 1, 2, 0, infer_dropout, eval_dropout, NULL, NULL, 0, .rows.kind = ROWS_AS_BYTES},
    FLOAT("Elu", elu),
    FLOAT("Erf", erf),
    FLOAT("Exp", exp),
    {"Floor", 1, 1, 1, 1, 0, op_infer_same, eval_rounding, &aux_floor, NULL, 0, .rows.kind = ROWS_KEPT},
    {"Gelu", 1, 1, 1, 1, 0, op_infer_same, eval_gelu, NULL, NULL, 0, .rows.kind = ROWS_KEPT},
    FLOAT("HardSigmoid", hardsigmoid),
    FLOAT("HardSwish", hardswish),
    {"Identity", 1, 1, 1, 1, 0, op_infer_same, eval_copy, NULL, NULL, 0, .rows.kind = ROWS_AS_BYTES},
    {"IsInf", 1, 1, 1, 1, 0, infer_bool, eval_isinf, NULL, NULL, 0, .rows.kind = ROWS_KEPT},
    {"IsNaN", 1, 1, 1, 1, 0, infer_bool, eval_isnan, NULL, NULL, 0, .rows.kind = ROWS_KEPT},
    FLOAT("LeakyRelu", leakyrelu),
    FLOAT("Log", log),
    FLOAT("Mish", mish),
    SIGNED("Neg", neg),
    {"Not", 1, 1, 1, 1, 0, infer_logical, eval_not, NULL, NULL, 0, .rows.kind = ROWS_KEPT},
    FLOAT("Reciprocal", reciprocal),
    SIGNED("Relu", relu),
    {"Round", 1, 1, 1, 1, 0, op_infer_same, eval_rounding, &aux_round, NULL, 0, .rows.kind = ROWS_KEPT},
    FLOAT("Selu", selu),
    FLOAT("Shrink", shrink),
    FLOAT("Sigmoid", sigmoid),
    SIGNED("Sign", sign),
    FLOAT("Sin", sin),
    FLOAT("Sinh", sinh),
    FLOAT("Softplus", softplus),
    FLOAT("Softsign", softsign),
    FLOAT("Sqrt", sqrt),
    FLOAT("Swish", swish),
    FLOAT("Tan", tan),
    FLOAT("Tanh", tanh),
    FLOAT("ThresholdedRelu", thresholdedrelu),
    {.name = NULL},
};
