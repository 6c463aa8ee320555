/*
 * What our own kernels are told: plain structures, passed by value at launch. Shared by the C code that fills
 * them and the kernels; nothing here needs CUDA.
 *
 * Strides and counts are 32-bit, because 64-bit divisions are slow on a GPU; the lowering refuses larger tensors.
 */
#ifndef ENGINE_CUDA_DEVICE_KERNEL_ARGS_H
#define ENGINE_CUDA_DEVICE_KERNEL_ARGS_H

#include "graph/ops/elementwise.h"

#include <stdint.h>

enum {
    K_MAX_RANK = 8,
    K_MAX_INPUTS = 8, /* of one elementwise kernel */
    K_MAX_OPS = 10,
    K_IMMEDIATE = 255, /* instead of the number of an input: the operand is `a` */
};

/* Elements of one tensor: base points at element (0, …, 0). */
typedef struct {
    void *base;
    int32_t dtype; /* dtype_t */
    int32_t strides[K_MAX_RANK];
} k_view_t;

/* The dimensions that all views of a kernel are walked through. */
typedef struct {
    int32_t rank, count;
    int32_t dims[K_MAX_RANK];
} k_space_t;

/*
 * A function (graph/ops/elementwise.h) of an accumulator, which begins as input 0. Those of two operands take the other one
 * from an input. Doubles are enough for every constant; floats are narrowed when used.
 */
typedef struct {
    int32_t op, input;
    double a, b;
} k_ew_op_t;

typedef struct {
    k_space_t space;
    k_view_t out, in[K_MAX_INPUTS];
    int32_t compute; /* DTYPE_F32, F64 or I64 */
    int32_t op_count;
    k_ew_op_t ops[K_MAX_OPS];
} k_elementwise_t;

/* The same bits somewhere else. */
typedef struct {
    k_space_t space;
    k_view_t out, in;
    int32_t size_bytes; /* of an element: 1, 2, 4 or 8 */
} k_copy_t;

typedef struct {
    void *base;
    int32_t size_bytes, count;
    uint64_t bits;
} k_fill_t;

typedef enum {
    RED_SUM,
    RED_MEAN,
    RED_MAX,
    RED_MIN,
    RED_PROD,
    RED_L1,
    RED_L2,
    RED_SUM_SQUARE,
    RED_LOG_SUM,
    RED_LOG_SUM_EXP,
    RED_ARGMAX,
    RED_ARGMIN,
} red_op_t;

/* One result per element of `rows`; each runs through `along`. */
typedef struct {
    k_space_t rows, along;
    k_view_t out, in;
    int32_t along_strides[K_MAX_RANK]; /* of in */
    int32_t op, compute, last;         /* last: the last of equals for ARGMAX and ARGMIN */
} k_reduce_t;

typedef struct {
    k_space_t rows;
    k_view_t out, in;
    int32_t n, in_step, out_step, logarithm;
} k_softmax_t;

/* (x - mean) / sqrt(variance + epsilon) · scale + bias; scale and bias may be absent (NULL) and have
 * strides of their own. */
typedef struct {
    k_space_t rows, along;
    k_view_t out, in, scale, bias;
    int32_t out_along[K_MAX_RANK], in_along[K_MAX_RANK], scale_along[K_MAX_RANK], bias_along[K_MAX_RANK];
    float epsilon;
} k_norm_t;

typedef enum { POOLING_MAX, POOLING_AVERAGE, POOLING_LP } pooling_op_t;

/* Views are [N, C, three spatial dimensions]. */
typedef struct {
    k_space_t space;
    k_view_t out, in;
    int32_t op, include_pad, power;
    int32_t size[3], kernel[3], stride[3], dilation[3], before[3], after[3];
} k_pool_t;

/* Views are [N, C, three spatial dimensions]; weights [O, I/groups, …], transposed [I, O/groups, …]. */
typedef struct {
    k_space_t space;
    k_view_t out, in, weights;
    int32_t transposed, groups, in_channels, out_channels;
    int32_t size[3], kernel[3], stride[3], dilation[3], before[3];
} k_conv_t;

/* out[…, m, n] = alpha · Σ a[…, m, k] · b[…, k, n] */
typedef struct {
    k_space_t space; /* the dimensions of out */
    k_view_t out, a, b;
    int32_t k, a_step, b_step; /* strides of a and b along k */
    int32_t compute;
    float alpha;
} k_gemm_t;

/* out[o, i, r] = in[o, index[i], r] */
typedef struct {
    void *out, *in;
    const void *index;
    int32_t size_bytes, index_dtype;
    int32_t outer, indices, inner, dim;
} k_gather_t;

/* out[p] = in[p with dimension `axis` replaced by index[p]] */
typedef struct {
    k_space_t space;
    k_view_t out, in, index;
    int32_t axis, dim, size_bytes;
} k_gather_elements_t;

/* Rows of the result are rows of the parts, one after the other; a row of part p is [starts[p], starts[p + 1]). */
enum { K_MAX_PARTS = 48 };
typedef struct {
    void *out;
    const void *in[K_MAX_PARTS];
    int32_t starts[K_MAX_PARTS + 1];
    int32_t parts, count;
    int32_t pitch, first; /* length of a whole row of the result, and where in it these parts begin */
    int32_t size_bytes;
} k_concat_t;

typedef enum { PADDING_EDGE, PADDING_REFLECT, PADDING_WRAP } padding_op_t;

typedef struct {
    k_space_t space;
    k_view_t out, in;
    int32_t before[K_MAX_RANK], in_dims[K_MAX_RANK];
    int32_t mode, size_bytes;
} k_pad_t;

#endif
