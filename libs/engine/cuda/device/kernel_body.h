/*
 * The kernels themselves: what one thread (or one warp) does. Written in the common part of C and CUDA C++, so that the
 * very code that runs on the GPU also runs in the tests on a machine without one.
 */
#ifndef ENGINE_CUDA_DEVICE_KERNEL_BODY_H
#define ENGINE_CUDA_DEVICE_KERNEL_BODY_H

#include "engine/cuda/device/kernel_args.h"
#include "onnx/dtype.h"

#include <math.h>

#ifdef __CUDACC__
#include <cuda_fp16.h>
#define FN static __device__ __forceinline__
#define LANES_XOR(x, by) __shfl_xor_sync(0xffffffffu, x, by)
FN float k_half_load(const void *p, int64_t i)
{
    return __half2float(((const __half *)p)[i]);
}
FN void k_half_store(void *p, int64_t i, float v)
{
    ((__half *)p)[i] = __float2half_rn(v);
}
#else
#include "graph/ir/tensor.h"
#define FN static inline
#define LANES_XOR(x, by) (x)
FN float k_half_load(const void *p, int64_t i)
{
    return half_to_float(((const uint16_t *)p)[i]);
}
FN void k_half_store(void *p, int64_t i, float v)
{
    ((uint16_t *)p)[i] = float_to_half(v);
}
#endif

typedef union {
    float f;
    uint32_t u;
} k_bits_t;

FN float k_bf16_load(const void *p, int64_t i)
{
    k_bits_t b;
    b.u = (uint32_t)((const uint16_t *)p)[i] << 16;
    return b.f;
}

FN void k_bf16_store(void *p, int64_t i, float v)
{
    k_bits_t b;
    b.f = v;
    uint32_t rounded = b.u + 0x7fffu + ((b.u >> 16) & 1u);
    ((uint16_t *)p)[i] = (uint16_t)(v != v ? 0x7fc0u : rounded >> 16);
}

/* Finite numbers beyond the range of half stay finite: the large negative numbers of attention masks must
 * not become inf. */
FN float k_half_range(float v)
{
    return fabsf(v) > 65504.0f && !isinf(v) ? (v > 0 ? 65504.0f : -65504.0f) : v;
}

FN int64_t k_load_i64(const void *p, int t, int64_t i)
{
    switch (t) {
    case DTYPE_I64:
    case DTYPE_U64:
        return ((const int64_t *)p)[i];
    case DTYPE_I32:
        return ((const int32_t *)p)[i];
    case DTYPE_U32:
        return ((const uint32_t *)p)[i];
    case DTYPE_I16:
        return ((const int16_t *)p)[i];
    case DTYPE_U16:
        return ((const uint16_t *)p)[i];
    case DTYPE_I8:
        return ((const int8_t *)p)[i];
    default:
        return ((const uint8_t *)p)[i];
    }
}

FN double k_load_f64(const void *p, int t, int64_t i)
{
    switch (t) {
    case DTYPE_F64:
        return ((const double *)p)[i];
    case DTYPE_F32:
        return (double)((const float *)p)[i];
    case DTYPE_F16:
        return (double)k_half_load(p, i);
    case DTYPE_BF16:
        return (double)k_bf16_load(p, i);
    case DTYPE_U64:
        return (double)((const uint64_t *)p)[i];
    default:
        return (double)k_load_i64(p, t, i);
    }
}

FN float k_load_f32(const void *p, int t, int64_t i)
{
    switch (t) {
    case DTYPE_F32:
        return ((const float *)p)[i];
    case DTYPE_F16:
        return k_half_load(p, i);
    case DTYPE_BF16:
        return k_bf16_load(p, i);
    case DTYPE_F64:
        return (float)((const double *)p)[i];
    case DTYPE_U64:
        return (float)((const uint64_t *)p)[i];
    default:
        return (float)k_load_i64(p, t, i);
    }
}

FN void k_store_i64(void *p, int t, int64_t i, int64_t v);

/* As libs/graph/ops/cast.c: saturated to 64 bits, then wrapped. */
FN int64_t k_to_i64(double x)
{
    if (x != x)
        return 0;
    return x >= 9223372036854775808.0 ? INT64_MAX : x <= -9223372036854775808.0 ? INT64_MIN : (int64_t)x;
}

FN void k_store_f64(void *p, int t, int64_t i, double v)
{
    switch (t) {
    case DTYPE_F64:
        ((double *)p)[i] = v;
        break;
    case DTYPE_F32:
        ((float *)p)[i] = (float)v;
        break;
    case DTYPE_F16:
        k_half_store(p, i, k_half_range((float)v));
        break;
    case DTYPE_BF16:
        k_bf16_store(p, i, (float)v);
        break;
    case DTYPE_BOOL:
        ((uint8_t *)p)[i] = v != 0;
        break;
    default:
        k_store_i64(p, t, i, k_to_i64(v));
        break;
    }
}

FN void k_store_f32(void *p, int t, int64_t i, float v)
{
    switch (t) {
    case DTYPE_F32:
        ((float *)p)[i] = v;
        break;
    case DTYPE_F16:
        k_half_store(p, i, k_half_range(v));
        break;
    case DTYPE_BF16:
        k_bf16_store(p, i, v);
        break;
    default:
        k_store_f64(p, t, i, (double)v);
        break;
    }
}

FN void k_store_i64(void *p, int t, int64_t i, int64_t v)
{
    switch (t) {
    case DTYPE_I64:
    case DTYPE_U64:
        ((int64_t *)p)[i] = v;
        break;
    case DTYPE_I32:
    case DTYPE_U32:
        ((uint32_t *)p)[i] = (uint32_t)v;
        break;
    case DTYPE_I16:
    case DTYPE_U16:
        ((uint16_t *)p)[i] = (uint16_t)v;
        break;
    case DTYPE_I8:
    case DTYPE_U8:
        ((uint8_t *)p)[i] = (uint8_t)v;
        break;
    case DTYPE_BOOL:
        ((uint8_t *)p)[i] = v != 0;
        break;
    default:
        k_store_f64(p, t, i, (double)v);
        break;
    }
}

/* Position of element i (row-major in space) under some strides. */
FN int64_t k_at(const k_space_t *s, const int32_t *strides, int32_t i)
{
    int64_t at = 0;
    for (int32_t d = s->rank - 1; d > 0; d--) {
        int32_t next = i / s->dims[d];
        at += (int64_t)(i - next * s->dims[d]) * strides[d];
        i = next;
    }
    return s->rank ? at + (int64_t)i * strides[0] : 0;
}

FN void k_index(const k_space_t *s, int32_t i, int32_t *index)
{
    for (int32_t d = s->rank - 1; d >= 0; d--) {
        int32_t next = i / s->dims[d];
        index[d] = i - next * s->dims[d];
        i = next;
    }
}

/* ---- elementwise ---- */

FN int64_t k_divide_i64(int64_t x, int64_t y)
{
    return y == 0 ? 0 : y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y;
}

#define K_DIVIDE_FLOAT(x, y) ((x) / (y))

/* Operations that every type has; false = not one of them. NaN wins in MAX and MIN, as in numpy. */
#define K_COMMON(suffix, T, ADD, SUB, MUL, DIVIDE)                  \
    FN int k_common_##suffix(const k_ew_op_t *op, T *acc, T y, T z) \
    {                                                               \
        T x = *acc;                                                 \
        switch (op->op) {                                           \
        case EW_ADD:                                                \
            *acc = ADD(x, y);                                       \
            return 1;                                               \
        case EW_SUB:                                                \
            *acc = SUB(x, y);                                       \
            return 1;                                               \
        case EW_RSUB:                                               \
            *acc = SUB(y, x);                                       \
            return 1;                                               \
        case EW_MUL:                                                \
            *acc = MUL(x, y);                                       \
            return 1;                                               \
        case EW_DIV:                                                \
            *acc = DIVIDE(x, y);                                    \
            return 1;                                               \
        case EW_RDIV:                                               \
            *acc = DIVIDE(y, x);                                    \
            return 1;                                               \
        case EW_MAX:                                                \
            *acc = x != x ? x : y != y ? y : x > y ? x : y;         \
            return 1;                                               \
        case EW_MIN:                                                \
            *acc = x != x ? x : y != y ? y : x < y ? x : y;         \
            return 1;                                               \
        case EW_EQUAL:                                              \
            *acc = (T)(x == y);                                     \
            return 1;                                               \
        case EW_LESS:                                               \
            *acc = (T)(x < y);                                      \
            return 1;                                               \
        case EW_LESS_EQUAL:                                         \
            *acc = (T)(x <= y);                                     \
            return 1;                                               \
        case EW_GREATER:                                            \
            *acc = (T)(x > y);                                      \
            return 1;                                               \
        case EW_GREATER_EQUAL:                                      \
            *acc = (T)(x >= y);                                     \
            return 1;                                               \
        case EW_AND:                                                \
            *acc = (T)(x != 0 && y != 0);                           \
            return 1;                                               \
        case EW_OR:                                                 \
            *acc = (T)(x != 0 || y != 0);                           \
            return 1;                                               \
        case EW_XOR:                                                \
            *acc = (T)((x != 0) != (y != 0));                       \
            return 1;                                               \
        case EW_SELECT:                                             \
            *acc = x != 0 ? y : z;                                  \
            return 1;                                               \
        case EW_PRELU:                                              \
            *acc = x < 0 ? MUL(x, y) : x;                           \
            return 1;                                               \
        case EW_ABS:                                                \
            *acc = x < 0 ? SUB(0, x) : x == 0 ? (T)0 : x;           \
            return 1;                                               \
        case EW_NEG:                                                \
            *acc = x == 0 ? MUL(x, (T)-1) : SUB(0, x);              \
            return 1;                                               \
        case EW_SIGN:                                               \
            *acc = (T)((x > 0) - (x < 0));                          \
            return 1;                                               \
        case EW_RELU:                                               \
            *acc = x < 0 ? (T)0 : x;                                \
            return 1;                                               \
        case EW_NOT:                                                \
            *acc = (T)(x == 0);                                     \
            return 1;                                               \
        case EW_IDENTITY:                                           \
            return 1;                                               \
        default:                                                    \
            return 0;                                               \
        }                                                           \
    }

#define K_PLAIN_ADD(x, y) ((x) + (y))
#define K_PLAIN_SUB(x, y) ((x) - (y))
#define K_PLAIN_MUL(x, y) ((x) * (y))
#define K_WRAP_ADD(x, y) ((int64_t)((uint64_t)(x) + (uint64_t)(y)))
#define K_WRAP_SUB(x, y) ((int64_t)((uint64_t)(x) - (uint64_t)(y)))
#define K_WRAP_MUL(x, y) ((int64_t)((uint64_t)(x) * (uint64_t)(y)))

K_COMMON(f32, float, K_PLAIN_ADD, K_PLAIN_SUB, K_PLAIN_MUL, K_DIVIDE_FLOAT)
K_COMMON(f64, double, K_PLAIN_ADD, K_PLAIN_SUB, K_PLAIN_MUL, K_DIVIDE_FLOAT)
K_COMMON(i64, int64_t, K_WRAP_ADD, K_WRAP_SUB, K_WRAP_MUL, k_divide_i64)

FN float k_softplus(float x)
{
    return x > 20.0f ? x : log1pf(expf(x));
}

FN float k_limit(float x, float low, float high)
{
    x = x < low ? low : x;
    return x > high ? high : x;
}

FN float k_trigonometry(int op, float x)
{
    switch (op) {
    case EW_SIN:
        return sinf(x);
    case EW_COS:
        return cosf(x);
    case EW_TAN:
        return tanf(x);
    case EW_ASIN:
        return asinf(x);
    case EW_ACOS:
        return acosf(x);
    case EW_ATAN:
        return atanf(x);
    case EW_SINH:
        return sinhf(x);
    case EW_COSH:
        return coshf(x);
    case EW_ASINH:
        return asinhf(x);
    case EW_ACOSH:
        return acoshf(x);
    default:
        return atanhf(x);
    }
}

FN float k_activation(const k_ew_op_t *op, float x)
{
    float a = (float)op->a, b = (float)op->b;
    switch (op->op) {
    case EW_SIGMOID:
        return 1.0f / (1.0f + expf(-x));
    case EW_TANH:
        return tanhf(x);
    case EW_SOFTPLUS:
        return k_softplus(x);
    case EW_SOFTSIGN:
        return x / (1.0f + fabsf(x));
    case EW_HARDSWISH:
        return x * k_limit(x / 6.0f + 0.5f, 0.0f, 1.0f);
    case EW_HARDSIGMOID:
        return k_limit(a * x + b, 0.0f, 1.0f);
    case EW_MISH:
        return x * tanhf(k_softplus(x));
    case EW_LEAKY_RELU:
        return x < 0.0f ? a * x : x;
    case EW_ELU:
        return x < 0.0f ? a * expm1f(x) : x;
    case EW_CELU:
        return x < 0.0f ? a * expm1f(x / a) : x;
    case EW_SELU:
        return b * (x < 0.0f ? a * expm1f(x) : x);
    case EW_THRESHOLDED_RELU:
        return x > a ? x : 0.0f;
    case EW_SHRINK:
        return x < -a ? x + b : x > a ? x - b : 0.0f;
    case EW_GELU_ERF:
        return x * (1.0f + erff(x * 0.70710678118654752f)) * 0.5f;
    case EW_GELU_TANH:
        return x * (1.0f + tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x))) * 0.5f;
    case EW_SWISH:
        return x / (1.0f + expf(-a * x));
    default:
        return k_trigonometry(op->op, x);
    }
}

FN float k_float_op(const k_ew_op_t *op, float x, float y)
{
    switch (op->op) {
    case EW_POW:
        return y == 2.0f ? x * x : y == 0.5f ? sqrtf(x) : powf(x, y);
    case EW_CLIP:
        return k_limit(x, (float)op->a, (float)op->b);
    case EW_SQRT:
        return sqrtf(x);
    case EW_EXP:
        return expf(x);
    case EW_LOG:
        return logf(x);
    case EW_ERF:
        return erff(x);
    case EW_RECIPROCAL:
        return 1.0f / x;
    case EW_CEIL:
        return ceilf(x);
    case EW_FLOOR:
        return floorf(x);
    case EW_ROUND:
        return rintf(x);
    case EW_LINEAR:
        return (float)op->a * x + (float)op->b;
    case EW_IS_NAN:
        return x != x ? 1.0f : 0.0f;
    case EW_IS_INF:
        return isinf(x) && (x > 0.0f ? op->a != 0 : op->b != 0) ? 1.0f : 0.0f;
    default:
        return k_activation(op, x);
    }
}

FN float k_special_f32(const k_ew_op_t *op, float x, float y)
{
    return k_float_op(op, x, y);
}

/* The few double-precision functions that models use; the lowering sends the others to the CPU. */
FN double k_special_f64(const k_ew_op_t *op, double x, double y)
{
    switch (op->op) {
    case EW_POW:
        return pow(x, y);
    case EW_SQRT:
        return sqrt(x);
    case EW_CLIP:
        return x < op->a ? op->a : x > op->b ? op->b : x;
    case EW_FLOOR:
        return floor(x);
    case EW_CEIL:
        return ceil(x);
    default:
        return x;
    }
}

FN int64_t k_special_i64(const k_ew_op_t *op, int64_t x, int64_t y)
{
    (void)y;
    if (op->op != EW_CLIP)
        return x;
    int64_t low = k_to_i64(op->a), high = k_to_i64(op->b);
    x = x < low ? low : x;
    return x > high ? high : x;
}

#define K_RUN(suffix, T, immediate)                                                                   \
    FN void k_run_##suffix(const k_elementwise_t *a, int32_t i)                                       \
    {                                                                                                 \
        T acc = k_load_##suffix(a->in[0].base, a->in[0].dtype, k_at(&a->space, a->in[0].strides, i)); \
        for (int32_t n = 0; n < a->op_count; n++) {                                                   \
            const k_ew_op_t *op = &a->ops[n];                                                         \
            T y = 0, z = 0;                                                                           \
            if (op->op <= EW_POW && op->input == K_IMMEDIATE) {                                       \
                y = (T)immediate(op->a);                                                              \
            } else if (op->op <= EW_POW) {                                                            \
                const k_view_t *v = &a->in[op->input];                                                \
                y = k_load_##suffix(v->base, v->dtype, k_at(&a->space, v->strides, i));               \
                if (op->op == EW_SELECT)                                                              \
                    z = k_load_##suffix(v[1].base, v[1].dtype, k_at(&a->space, v[1].strides, i));     \
            }                                                                                         \
            if (!k_common_##suffix(op, &acc, y, z))                                                   \
                acc = k_special_##suffix(op, acc, y);                                                 \
        }                                                                                             \
        k_store_##suffix(a->out.base, a->out.dtype, k_at(&a->space, a->out.strides, i), acc);         \
    }

K_RUN(f32, float, )
K_RUN(f64, double, )
K_RUN(i64, int64_t, k_to_i64)

/* ---- moving bits ---- */

FN void k_move(void *to, int64_t at, const void *from, int64_t from_at, int32_t size_bytes)
{
    switch (size_bytes) {
    case 1:
        ((uint8_t *)to)[at] = ((const uint8_t *)from)[from_at];
        break;
    case 2:
        ((uint16_t *)to)[at] = ((const uint16_t *)from)[from_at];
        break;
    case 4:
        ((uint32_t *)to)[at] = ((const uint32_t *)from)[from_at];
        break;
    default:
        ((uint64_t *)to)[at] = ((const uint64_t *)from)[from_at];
        break;
    }
}

FN void k_run_copy(const k_copy_t *a, int32_t i)
{
    k_move(a->out.base, k_at(&a->space, a->out.strides, i), a->in.base, k_at(&a->space, a->in.strides, i),
           a->size_bytes);
}

FN void k_run_fill(const k_fill_t *a, int32_t i)
{
    k_move(a->base, i, &a->bits, 0, a->size_bytes);
}

FN void k_run_concat(const k_concat_t *a, int32_t i)
{
    int32_t width = a->starts[a->parts], row = i / width, at = i - row * width, low = 0, high = a->parts - 1;
    while (low < high) {
        int32_t middle = (low + high + 1) / 2;
        if (a->starts[middle] <= at)
            low = middle;
        else
            high = middle - 1;
    }
    int32_t own = a->starts[low + 1] - a->starts[low];
    k_move(a->out, (int64_t)row * a->pitch + a->first + at, a->in[low],
           (int64_t)row * own + at - a->starts[low], a->size_bytes);
}

FN int64_t k_wrap_index(int64_t index, int32_t dim)
{
    index = index < 0 ? index + dim : index;
    return index < 0 ? 0 : index >= dim ? dim - 1 : index; /* out of range: nothing may be read outside */
}

FN void k_run_gather(const k_gather_t *a, int32_t i)
{
    int32_t r = i % a->inner, rest = i / a->inner;
    int32_t n = rest % a->indices, o = rest / a->indices;
    int64_t from = k_wrap_index(k_load_i64(a->index, a->index_dtype, n), a->dim);
    k_move(a->out, i, a->in, ((int64_t)o * a->dim + from) * a->inner + r, a->size_bytes);
}

FN void k_run_gather_elements(const k_gather_elements_t *a, int32_t i)
{
    int32_t at[K_MAX_RANK];
    k_index(&a->space, i, at);
    int64_t index = k_load_i64(a->index.base, a->index.dtype, k_at(&a->space, a->index.strides, i)), from = 0;
    for (int32_t d = 0; d < a->space.rank; d++)
        from += (d == a->axis ? k_wrap_index(index, a->dim) : at[d]) * a->in.strides[d];
    k_move(a->out.base, k_at(&a->space, a->out.strides, i), a->in.base, from, a->size_bytes);
}

FN int32_t k_pad_source(int32_t i, int32_t dim, int32_t mode)
{
    if (mode == PADDING_EDGE)
        return i < 0 ? 0 : i >= dim ? dim - 1 : i;
    if (mode == PADDING_WRAP)
        return (i % dim + dim) % dim;
    if (dim == 1)
        return 0;
    int32_t period = 2 * (dim - 1);
    i = (i % period + period) % period;
    return i < dim ? i : period - i;
}

FN void k_run_pad(const k_pad_t *a, int32_t i)
{
    int32_t at[K_MAX_RANK];
    int64_t from = 0;
    k_index(&a->space, i, at);
    for (int32_t d = 0; d < a->space.rank; d++)
        from += (int64_t)k_pad_source(at[d] - a->before[d], a->in_dims[d], a->mode) * a->in.strides[d];
    k_move(a->out.base, k_at(&a->space, a->out.strides, i), a->in.base, from, a->size_bytes);
}

/* ---- rows: `lanes` threads (1 or a warp of 32) share one ---- */

#define K_REDUCE_INIT(op) ((op) == RED_PROD ? 1 : 0)

#define K_REDUCE(suffix, T, ABS, EXP)                                                                    \
    FN T k_reduce_map_##suffix(int op, T x, T shift)                                                     \
    {                                                                                                    \
        switch (op) {                                                                                    \
        case RED_L1:                                                                                     \
            return ABS(x);                                                                               \
        case RED_L2:                                                                                     \
        case RED_SUM_SQUARE:                                                                             \
            return x * x;                                                                                \
        case RED_LOG_SUM_EXP:                                                                            \
            return EXP(x - shift);                                                                       \
        default:                                                                                         \
            return x;                                                                                    \
        }                                                                                                \
    }                                                                                                    \
    FN T k_reduce_join_##suffix(int op, T x, T y)                                                        \
    {                                                                                                    \
        switch (op) {                                                                                    \
        case RED_MAX:                                                                                    \
            return x != x ? x : y != y ? y : x > y ? x : y;                                              \
        case RED_MIN:                                                                                    \
            return x != x ? x : y != y ? y : x < y ? x : y;                                              \
        case RED_PROD:                                                                                   \
            return x * y;                                                                                \
        default:                                                                                         \
            return x + y;                                                                                \
        }                                                                                                \
    }                                                                                                    \
    FN T k_reduce_over_##suffix(const k_reduce_t *a, int op, T shift, int64_t base, int32_t lane,        \
                                int32_t lanes)                                                           \
    {                                                                                                    \
        int has_first = op == RED_MAX || op == RED_MIN;                                                  \
        T acc = has_first ? k_load_##suffix(a->in.base, a->in.dtype, base) : (T)K_REDUCE_INIT(op);       \
        for (int32_t j = lane; j < a->along.count; j += lanes) {                                         \
            T x = k_load_##suffix(a->in.base, a->in.dtype, base + k_at(&a->along, a->along_strides, j)); \
            acc = k_reduce_join_##suffix(op, acc, k_reduce_map_##suffix(op, x, shift));                  \
        }                                                                                                \
        for (int32_t by = lanes / 2; by; by /= 2)                                                        \
            acc = k_reduce_join_##suffix(op, acc, LANES_XOR(acc, by));                                   \
        return acc;                                                                                      \
    }

#define K_ABS(x) ((x) < 0 ? -(x) : (x))
#define K_NO_EXP(x) (x)

K_REDUCE(f32, float, fabsf, expf)
K_REDUCE(f64, double, fabs, exp)
K_REDUCE(i64, int64_t, K_ABS, K_NO_EXP)

FN double k_reduce_finish(int op, double x, int32_t n)
{
    switch (op) {
    case RED_MEAN:
        return x / n;
    case RED_L2:
        return sqrt(x);
    case RED_LOG_SUM:
        return log(x);
    default:
        return x;
    }
}

/* Lowest (or last) index of the extreme; ties between lanes are settled by the index. */
FN void k_arg_row(const k_reduce_t *a, int32_t row, int32_t lane, int32_t lanes)
{
    int64_t base = k_at(&a->rows, a->in.strides, row);
    float sign = a->op == RED_ARGMAX ? 1.0f : -1.0f;
    float best = sign * k_load_f32(a->in.base, a->in.dtype, base);
    int32_t at = 0;
    for (int32_t j = lane; j < a->along.count; j += lanes) {
        float x = sign * k_load_f32(a->in.base, a->in.dtype, base + k_at(&a->along, a->along_strides, j));
        if (x > best || (x == best && a->last)) {
            best = x;
            at = j;
        }
    }
    for (int32_t by = lanes / 2; by; by /= 2) {
        float other = LANES_XOR(best, by);
        int32_t other_at = LANES_XOR(at, by);
        if (other > best || (other == best && (a->last ? other_at > at : other_at < at))) {
            best = other;
            at = other_at;
        }
    }
    if (lane == 0)
        k_store_i64(a->out.base, a->out.dtype, k_at(&a->rows, a->out.strides, row), at);
}

FN void k_run_reduce(const k_reduce_t *a, int32_t row, int32_t lane, int32_t lanes)
{
    if (a->op == RED_ARGMAX || a->op == RED_ARGMIN) {
        k_arg_row(a, row, lane, lanes);
        return;
    }
    int64_t base = k_at(&a->rows, a->in.strides, row), to = k_at(&a->rows, a->out.strides, row);
    if (a->compute == DTYPE_I64) {
        int64_t x = k_reduce_over_i64(a, a->op, 0, base, lane, lanes);
        int whole = a->op == RED_SUM || a->op == RED_MAX || a->op == RED_MIN || a->op == RED_PROD ||
                    a->op == RED_L1 || a->op == RED_SUM_SQUARE;
        x = whole               ? x
            : a->op == RED_MEAN ? x / a->along.count
                                : k_to_i64(k_reduce_finish(a->op, (double)x, 1));
        if (lane == 0)
            k_store_i64(a->out.base, a->out.dtype, to, x);
    } else if (a->compute == DTYPE_F64) {
        double shift = a->op == RED_LOG_SUM_EXP ? k_reduce_over_f64(a, RED_MAX, 0, base, lane, lanes) : 0;
        double x = k_reduce_over_f64(a, a->op, shift, base, lane, lanes);
        x = a->op == RED_LOG_SUM_EXP ? log(x) + shift : k_reduce_finish(a->op, x, a->along.count);
        if (lane == 0)
            k_store_f64(a->out.base, a->out.dtype, to, x);
    } else {
        float shift = a->op == RED_LOG_SUM_EXP ? k_reduce_over_f32(a, RED_MAX, 0, base, lane, lanes) : 0;
        float x = k_reduce_over_f32(a, a->op, shift, base, lane, lanes);
        x = a->op == RED_LOG_SUM_EXP ? logf(x) + shift
                                     : (float)k_reduce_finish(a->op, (double)x, a->along.count);
        if (lane == 0)
            k_store_f32(a->out.base, a->out.dtype, to, x);
    }
}

FN void k_run_softmax(const k_softmax_t *a, int32_t row, int32_t lane, int32_t lanes)
{
    int64_t from = k_at(&a->rows, a->in.strides, row), to = k_at(&a->rows, a->out.strides, row);
    float max = -INFINITY, sum = 0;
    for (int32_t j = lane; j < a->n; j += lanes) {
        float x = k_load_f32(a->in.base, a->in.dtype, from + (int64_t)j * a->in_step);
        max = x > max || x != x ? x : max;
    }
    for (int32_t by = lanes / 2; by; by /= 2) {
        float other = LANES_XOR(max, by);
        max = other > max || other != other ? other : max;
    }
    for (int32_t j = lane; j < a->n; j += lanes)
        sum += expf(k_load_f32(a->in.base, a->in.dtype, from + (int64_t)j * a->in_step) - max);
    for (int32_t by = lanes / 2; by; by /= 2)
        sum += LANES_XOR(sum, by);
    float log_sum = logf(sum), inverse = 1.0f / sum;
    for (int32_t j = lane; j < a->n; j += lanes) {
        float x = k_load_f32(a->in.base, a->in.dtype, from + (int64_t)j * a->in_step) - max;
        k_store_f32(a->out.base, a->out.dtype, to + (int64_t)j * a->out_step,
                    a->logarithm ? x - log_sum : expf(x) * inverse);
    }
}

/* Two passes: the variance of large means would be lost in one. */
FN void k_run_norm(const k_norm_t *a, int32_t row, int32_t lane, int32_t lanes)
{
    int64_t from = k_at(&a->rows, a->in.strides, row), to = k_at(&a->rows, a->out.strides, row);
    int64_t scale_at = k_at(&a->rows, a->scale.strides, row), bias_at = k_at(&a->rows, a->bias.strides, row);
    float sum = 0, squares = 0, n = (float)a->along.count;
    for (int32_t j = lane; j < a->along.count; j += lanes)
        sum += k_load_f32(a->in.base, a->in.dtype, from + k_at(&a->along, a->in_along, j));
    for (int32_t by = lanes / 2; by; by /= 2)
        sum += LANES_XOR(sum, by);
    float mean = sum / n;
    for (int32_t j = lane; j < a->along.count; j += lanes) {
        float d = k_load_f32(a->in.base, a->in.dtype, from + k_at(&a->along, a->in_along, j)) - mean;
        squares += d * d;
    }
    for (int32_t by = lanes / 2; by; by /= 2)
        squares += LANES_XOR(squares, by);
    float inverse = 1.0f / sqrtf(squares / n + a->epsilon);
    for (int32_t j = lane; j < a->along.count; j += lanes) {
        float x = k_load_f32(a->in.base, a->in.dtype, from + k_at(&a->along, a->in_along, j));
        float y = (x - mean) * inverse;
        if (a->scale.base)
            y *= k_load_f32(a->scale.base, a->scale.dtype, scale_at + k_at(&a->along, a->scale_along, j));
        if (a->bias.base)
            y += k_load_f32(a->bias.base, a->bias.dtype, bias_at + k_at(&a->along, a->bias_along, j));
        k_store_f32(a->out.base, a->out.dtype, to + k_at(&a->along, a->out_along, j), y);
    }
}

/* ---- windows ---- */

FN void k_run_pool(const k_pool_t *a, int32_t i)
{
    int32_t at[K_MAX_RANK], from[3], to[3], padded = 1, count = 0;
    k_index(&a->space, i, at);
    for (int32_t d = 0; d < 3; d++) {
        int32_t first = at[d + 2] * a->stride[d] - a->before[d], step = a->dilation[d];
        int32_t end = first + (a->kernel[d] - 1) * step + 1, limit = a->size[d] + a->after[d];
        padded *= ((end < limit ? end : limit) - first + step - 1) / step;
        from[d] = first < 0 ? first + (-first + step - 1) / step * step : first;
        to[d] = end < a->size[d] ? end : a->size[d];
    }
    int64_t base = (int64_t)at[0] * a->in.strides[0] + (int64_t)at[1] * a->in.strides[1];
    float max = -INFINITY, sum = 0;
    for (int32_t z = from[0]; z < to[0]; z += a->dilation[0])
        for (int32_t y = from[1]; y < to[1]; y += a->dilation[1])
            for (int32_t x = from[2]; x < to[2]; x += a->dilation[2]) {
                float v = k_load_f32(a->in.base, a->in.dtype,
                                     base + (int64_t)z * a->in.strides[2] + (int64_t)y * a->in.strides[3] +
                                         (int64_t)x * a->in.strides[4]);
                max = v > max || v != v ? v : max;
                sum += a->op == POOLING_LP ? powf(fabsf(v), (float)a->power) : v;
                count++;
            }
    float n = (float)(a->include_pad ? padded : count);
    float result = a->op == POOLING_MAX  ? max
                   : a->op == POOLING_LP ? powf(sum, 1.0f / (float)a->power)
                   : n > 0               ? sum / n
                                         : 0;
    k_store_f32(a->out.base, a->out.dtype, k_at(&a->space, a->out.strides, i), result);
}

/* Input position that output position o meets at kernel position k, -1 = none. */
FN int32_t k_conv_source(const k_conv_t *a, int32_t d, int32_t o, int32_t k)
{
    if (!a->transposed) {
        int32_t p = o * a->stride[d] - a->before[d] + k * a->dilation[d];
        return p >= 0 && p < a->size[d] ? p : -1;
    }
    int32_t p = o + a->before[d] - k * a->dilation[d];
    if (p < 0 || p % a->stride[d])
        return -1;
    p /= a->stride[d];
    return p < a->size[d] ? p : -1;
}

/* Right for every shape and slow: what cuDNN has no engine for, and the tests. */
FN void k_run_conv(const k_conv_t *a, int32_t i)
{
    int32_t at[K_MAX_RANK], per_in = a->in_channels / a->groups, per_out = a->out_channels / a->groups;
    k_index(&a->space, i, at);
    int32_t group = at[1] / per_out;
    int64_t base = (int64_t)at[0] * a->in.strides[0];
    float sum = 0;
    for (int32_t z = 0; z < a->kernel[0]; z++)
        for (int32_t y = 0; y < a->kernel[1]; y++)
            for (int32_t x = 0; x < a->kernel[2]; x++) {
                int32_t pz = k_conv_source(a, 0, at[2], z), py = k_conv_source(a, 1, at[3], y);
                int32_t px = k_conv_source(a, 2, at[4], x);
                if (pz < 0 || py < 0 || px < 0)
                    continue;
                int64_t place = base + (int64_t)pz * a->in.strides[2] + (int64_t)py * a->in.strides[3] +
                                (int64_t)px * a->in.strides[4];
                int64_t w = (int64_t)z * a->weights.strides[2] + (int64_t)y * a->weights.strides[3] +
                            (int64_t)x * a->weights.strides[4];
                for (int32_t c = 0; c < per_in; c++) {
                    int32_t first = a->transposed ? group * per_in + c : at[1];
                    int32_t second = a->transposed ? at[1] % per_out : c;
                    sum += k_load_f32(a->in.base, a->in.dtype,
                                      place + (int64_t)(group * per_in + c) * a->in.strides[1]) *
                           k_load_f32(a->weights.base, a->weights.dtype,
                                      w + (int64_t)first * a->weights.strides[0] +
                                          (int64_t)second * a->weights.strides[1]);
                }
            }
    k_store_f32(a->out.base, a->out.dtype, k_at(&a->space, a->out.strides, i), sum);
}

#define K_GEMM(suffix, T)                                                                         \
    FN T k_dot_##suffix(const k_gemm_t *a, int32_t i)                                             \
    {                                                                                             \
        int64_t at_a = k_at(&a->space, a->a.strides, i), at_b = k_at(&a->space, a->b.strides, i); \
        T sum = 0;                                                                                \
        for (int32_t k = 0; k < a->k; k++)                                                        \
            sum += k_load_##suffix(a->a.base, a->a.dtype, at_a + (int64_t)k * a->a_step) *        \
                   k_load_##suffix(a->b.base, a->b.dtype, at_b + (int64_t)k * a->b_step);         \
        return sum;                                                                               \
    }

K_GEMM(f32, float)
K_GEMM(f64, double)
K_GEMM(i64, int64_t)

FN void k_run_gemm(const k_gemm_t *a, int32_t i)
{
    int64_t to = k_at(&a->space, a->out.strides, i);
    if (a->compute == DTYPE_I64)
        k_store_i64(a->out.base, a->out.dtype, to, k_dot_i64(a, i));
    else if (a->compute == DTYPE_F64)
        k_store_f64(a->out.base, a->out.dtype, to, (double)a->alpha * k_dot_f64(a, i));
    else
        k_store_f32(a->out.base, a->out.dtype, to, a->alpha * k_dot_f32(a, i));
}

#endif
