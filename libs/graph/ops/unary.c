/*
 * One tensor in, the same shape out. Floating point is computed in its own width; integer types where ONNX has them.
 */
#include "graph/ops/tables.h"

#include <math.h>
#include <string.h>
#include <tgmath.h>

/* One function in both widths. */
typedef struct {
    void (*f32)(const float *in, float *out, size_t count, const ew_call_t *call);
    void (*f64)(const double *in, double *out, size_t count, const ew_call_t *call);
} unary_t;

/* The expression is written once and compiled for both: x, a and b have type T. */
#define UNARY_LOOP(name, suffix, type, expression)                                              \
    static void name##_##suffix(const type *in, type *out, size_t count, const ew_call_t *call) \
    {                                                                                           \
        typedef type T;                                                                         \
        const T a = (T)call->a, b = (T)call->b;                                                 \
        (void)a;                                                                                \
        (void)b;                                                                                \
        for (size_t i = 0; i < count; i++) {                                                    \
            const T x = in[i];                                                                  \
            out[i] = (T)(expression);                                                           \
        }                                                                                       \
    }

#define UNARY(name, onnx_name, eval, expression, ...) \
    UNARY_LOOP(name, f32, float, expression)          \
    UNARY_LOOP(name, f64, double, expression)

EW_FUNCTIONS_OF_ANY_TYPE(UNARY)
EW_FUNCTIONS_OF_FLOATS(UNARY)
UNARY(GELU_TANH, "", float, x *(1 + tanh((T)0.7978845608028654 * (x + (T)0.044715 * x * x * x))) / 2)

#define UNARY_ENTRY(name, ...) [EW_##name] = {name##_f32, name##_f64},
static const unary_t functions[EW_COUNT] = {EW_FUNCTIONS_OF_ANY_TYPE(UNARY_ENTRY)
                                                EW_FUNCTIONS_OF_FLOATS(UNARY_ENTRY) UNARY_ENTRY(GELU_TANH)};

static status_t eval_float(op_ctx_t *c)
{
    ew_call_t call = op_function(c->node->op, c->node->attrs, c->node->attr_count);
    const unary_t *u = &functions[call.op];
    const tensor_t *in = c->in[0];
    tensor_t *out = c->out[0];
    if (in->dtype == DTYPE_F32)
        u->f32(in->data, out->data, tensor_count(in), &call);
    else if (in->dtype == DTYPE_F64)
        u->f64(in->data, out->data, tensor_count(in), &call);
    else
        return op_unsupported(c, "element type %s is not supported", dtype_name(in->dtype));
    return STATUS_OK;
}

/* Abs, Neg, Sign and Relu on integers; minimum values wrap as two's complement does. */
#define INTEGER_LOOP(T)                                                 \
    {                                                                   \
        const T *from = in->data;                                       \
        T *to = out->data;                                              \
        for (size_t i = 0; i < count; i++) {                            \
            int64_t x = (int64_t)from[i];                               \
            to[i] = (T)(which == EW_NEG    ? (int64_t)(0 - (uint64_t)x) \
                        : which == EW_SIGN ? (x > 0) - (x < 0)          \
                        : which == EW_RELU ? (x > 0 ? x : 0)            \
                        : x < 0            ? (int64_t)(0 - (uint64_t)x) \
                                           : x);                                   \
        }                                                               \
        break;                                                          \
    }

static status_t eval_signed(op_ctx_t *c)
{
    const tensor_t *in = c->in[0];
    tensor_t *out = c->out[0];
    size_t count = tensor_count(in);
    ew_op_t which = c->node->op->function.op;
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
        if (which == EW_NEG)
            return op_unsupported(c, "element type %s is not supported", dtype_name(in->dtype));
        if (which != EW_SIGN)
            memcpy(out->data, in->data, tensor_bytes(in));
        else
            return op_unsupported(c, "element type %s is not supported", dtype_name(in->dtype));
        break;
    default:
        return eval_float(c);
    }
    return STATUS_OK;
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

#define FUNCTION(name_of, onnx_name, kernel, expression, ...) \
    {.name = onnx_name,                                       \
     .min_in = 1,                                             \
     .max_in = 1,                                             \
     .min_out = 1,                                            \
     .max_out = 1,                                            \
     .infer = op_infer_same,                                  \
     .eval = eval_##kernel,                                   \
     .rows.kind = ROWS_KEPT,                                  \
     .kind = OP_UNARY,                                        \
     .function = {EW_##name_of, __VA_ARGS__},                 \
     .tail = EPILOGUE_UNARY},

const op_t ops_unary[] = {
    /* clang-format off */
    EW_FUNCTIONS_OF_ANY_TYPE(FUNCTION)
    EW_FUNCTIONS_OF_FLOATS(FUNCTION)
    /* clang-format on */
    {"BitwiseNot", 1, 1, 1, 1, 0, op_infer_same, eval_bitwise_not, NULL, NULL, 0, .rows.kind = ROWS_KEPT},
    {"Clip", 1, 3, 1, 1, 0, op_infer_same, eval_clip, NULL, NULL, 0, .rows.kind = ROWS_KEPT, .kind = OP_CLIP,
     .tail = EPILOGUE_UNARY},
    {"Dropout", 1, 3, 1, 2, 0, infer_dropout, eval_dropout, NULL, NULL, 0, .rows.kind = ROWS_AS_BYTES,
     .kind = OP_IDENTITY},
    {"Identity", 1, 1, 1, 1, 0, op_infer_same, eval_copy, NULL, NULL, 0, .rows.kind = ROWS_AS_BYTES,
     .kind = OP_IDENTITY},
    {"IsInf", 1, 1, 1, 1, 0, infer_bool, eval_isinf, NULL, NULL, 0, .rows.kind = ROWS_KEPT,
     .kind = OP_IS_INF},
    {"IsNaN", 1, 1, 1, 1, 0, infer_bool, eval_isnan, NULL, NULL, 0, .rows.kind = ROWS_KEPT,
     .kind = OP_IS_NAN},
    {"Not", 1, 1, 1, 1, 0, infer_logical, eval_not, NULL, NULL, 0, .rows.kind = ROWS_KEPT, .kind = OP_NOT},
    {.name = NULL},
};
