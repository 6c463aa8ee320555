/*
 * Products of matrices. The kernels are plain; float32 sums in float so that large ones stay bearable.
 */
#include "graph/ops/tables.h"
#include "graph/ops/walk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* numpy's matmul: a vector on the left is a row, on the right a column, and its dimension vanishes from the result. */
typedef struct {
    tensor_t a, b, out; /* with at least two dimensions */
    bool drop_row, drop_column;
} product_t;

static status_t match(op_ctx_t *c, const tensor_t *a, const tensor_t *b, product_t *p)
{
    *p = (product_t){.a = *a, .b = *b, .drop_row = a->rank == 1, .drop_column = b->rank == 1};
    if (!a->rank || !b->rank)
        return op_bad(c, "an operand is a scalar");
    if (p->drop_row) {
        p->a.rank = 2;
        p->a.dims[1] = a->dims[0];
        p->a.dims[0] = 1;
    }
    if (p->drop_column) {
        p->b.rank = 2;
        p->b.dims[1] = 1;
    }
    const tensor_t *x = &p->a, *y = &p->b;
    if (x->dims[x->rank - 1] != y->dims[y->rank - 2]) {
        char ta[TENSOR_TEXT_BYTES], tb[TENSOR_TEXT_BYTES];
        return op_bad(c, "%s and %s do not multiply", tensor_text(a, ta), tensor_text(b, tb));
    }
    tensor_t outer_a = *x, outer_b = *y;
    outer_a.rank -= 2;
    outer_b.rank -= 2;
    status_t status = op_broadcast(c, &outer_a, &outer_b, &p->out);
    if (status != STATUS_OK)
        return status;
    p->out.dims[p->out.rank++] = x->dims[x->rank - 2];
    p->out.dims[p->out.rank++] = y->dims[y->rank - 1];
    return STATUS_OK;
}

static status_t set_product(op_ctx_t *c, const product_t *p, dtype_t dtype)
{
    int64_t dims[TENSOR_MAX_RANK + 1];
    uint32_t rank = 0;
    for (uint32_t d = 0; d < p->out.rank; d++) {
        bool drop = (d == p->out.rank - 2 && p->drop_row) || (d == p->out.rank - 1 && p->drop_column);
        if (!drop)
            dims[rank++] = p->out.dims[d];
    }
    return op_set(c, 0, dtype, rank, dims);
}

static status_t infer_matmul(op_ctx_t *c)
{
    product_t p;
    if (c->in[0]->dtype != c->in[1]->dtype)
        return op_bad(c, "the operands are %s and %s", dtype_name(c->in[0]->dtype),
                      dtype_name(c->in[1]->dtype));
    status_t status = match(c, c->in[0], c->in[1], &p);
    return status == STATUS_OK ? set_product(c, &p, c->in[0]->dtype) : status;
}

typedef void (*multiply_fn)(const void *a, const void *b, void *out, size_t m, size_t n, size_t k);

#define MULTIPLY(name, T)                                                                   \
    static void name(const void *a, const void *b, void *out, size_t m, size_t n, size_t k) \
    {                                                                                       \
        const T *pa = a, *pb = b;                                                           \
        T *restrict to = out;                                                               \
        memset(out, 0, m *n * sizeof *to);                                                  \
        for (size_t i = 0; i < m; i++)                                                      \
            for (size_t l = 0; l < k; l++) {                                                \
                const T x = pa[i * k + l];                                                  \
                for (size_t j = 0; j < n; j++)                                              \
                    to[i * n + j] += x * pb[l * n + j];                                     \
            }                                                                               \
    }

MULTIPLY(multiply_f32, float)
MULTIPLY(multiply_f64, double)
MULTIPLY(multiply_32, uint32_t)
MULTIPLY(multiply_64, uint64_t)

/* Calls fn for each pair of matrices; batches broadcast. */
static void each_matrix(const product_t *p, size_t in_size, size_t out_size, void *out, multiply_fn fn)
{
    size_t m = (size_t)p->out.dims[p->out.rank - 2], n = (size_t)p->out.dims[p->out.rank - 1];
    size_t k = (size_t)p->a.dims[p->a.rank - 1];
    tensor_t a = p->a, b = p->b, batches = p->out;
    a.rank -= 2;
    b.rank -= 2;
    batches.rank -= 2;
    walk_t w;
    for (bool more = walk_begin(&w, &batches, (const tensor_t *const[]){&a, &b}, 2); more;
         more = walk_next(&w))
        for (size_t i = 0; i < w.row; i++) {
            size_t at_a = (size_t)(w.offset[0] + (int64_t)i * w.step[0]),
                   at_b = (size_t)(w.offset[1] + (int64_t)i * w.step[1]);
            fn((const char *)p->a.data + at_a * m * k * in_size,
               (const char *)p->b.data + at_b * k * n * in_size, (char *)out + (w.out + i) * m * n * out_size,
               m, n, k);
        }
}

static status_t eval_matmul(op_ctx_t *c)
{
    product_t p;
    status_t status = match(c, c->in[0], c->in[1], &p);
    if (status != STATUS_OK)
        return status;
    dtype_t dtype = c->in[0]->dtype;
    multiply_fn fn = dtype == DTYPE_F32                         ? multiply_f32
                     : dtype == DTYPE_F64                       ? multiply_f64
                     : dtype == DTYPE_I32 || dtype == DTYPE_U32 ? multiply_32
                     : dtype == DTYPE_I64 || dtype == DTYPE_U64 ? multiply_64
                                                                : NULL;
    if (!fn)
        return op_unsupported(c, "element type %s is not supported", dtype_name(dtype));
    each_matrix(&p, dtype_size(dtype), dtype_size(dtype), c->out[0]->data, fn);
    return STATUS_OK;
}

/* Our own: MatMul with a bias per column (see recognise.c). Files cannot name it. */
static status_t eval_linear(op_ctx_t *c)
{
    status_t status = eval_matmul(c);
    const float *bias = c->in[2]->data;
    float *out = c->out[0]->data;
    size_t n = tensor_count(c->in[2]), count = tensor_count(c->out[0]);
    for (size_t i = 0; status == STATUS_OK && i < count; i += n)
        for (size_t j = 0; j < n; j++)
            out[i + j] += bias[j];
    return status;
}

/* Integer products: operands widened to int32 less their zero points, which are per tensor, row of a or column of b. */
static int32_t *widen(const tensor_t *t, const tensor_t *zero, bool columns)
{
    size_t n = tensor_count(t), zeros = zero ? tensor_count(zero) : 0;
    size_t width = t->rank ? (size_t)t->dims[t->rank - 1] : 1;
    int32_t *out = malloc((n + 1) * sizeof *out);
    for (size_t i = 0; out && i < n; i++) {
        size_t z = zeros <= 1 ? 0 : (columns ? i % width : i / width) % zeros;
        out[i] = (int32_t)(tensor_get_i64(t, i) - (zeros ? tensor_get_i64(zero, z) : 0));
    }
    return out;
}

static status_t multiply_integers(op_ctx_t *c, uint32_t b_at, const tensor_t *za, const tensor_t *zb,
                                  int32_t *out)
{
    product_t p;
    status_t status = match(c, c->in[0], c->in[b_at], &p);
    if (status != STATUS_OK)
        return status;
    int32_t *a = widen(c->in[0], za, false), *b = widen(c->in[b_at], zb, true);
    p.a.data = a;
    p.b.data = b;
    if (a && b)
        each_matrix(&p, 4, 4, out, multiply_32);
    else
        status = err_set(c->err, STATUS_NO_MEMORY, "no memory for a product");
    free(a);
    free(b);
    return status;
}

static status_t infer_matmul_integer(op_ctx_t *c)
{
    product_t p;
    status_t status = match(c, c->in[0], c->in[1], &p);
    return status == STATUS_OK ? set_product(c, &p, DTYPE_I32) : status;
}

static status_t eval_matmul_integer(op_ctx_t *c)
{
    return multiply_integers(c, 1, op_in(c, 2), op_in(c, 3), c->out[0]->data);
}

/* a, scale, zero, b, scale, zero, y scale, y zero */
static status_t infer_qlinear_matmul(op_ctx_t *c)
{
    product_t p;
    status_t status = match(c, c->in[0], c->in[3], &p);
    if (status == STATUS_OK && dtype_size(c->in[7]->dtype) != 1)
        status = op_bad(c, "the result would be %s", dtype_name(c->in[7]->dtype));
    return status == STATUS_OK ? set_product(c, &p, c->in[7]->dtype) : status;
}

static double scale_at(const tensor_t *t, size_t i)
{
    size_t n = tensor_count(t);
    return n ? tensor_get_f64(t, n > 1 ? i % n : 0) : 1;
}

static status_t eval_qlinear_matmul(op_ctx_t *c)
{
    tensor_t *out = c->out[0];
    size_t n = tensor_count(out), width = out->rank ? (size_t)out->dims[out->rank - 1] : 1;
    int32_t *sums = malloc((n + 1) * sizeof *sums);
    if (!sums)
        return err_set(c->err, STATUS_NO_MEMORY, "no memory for a product");
    status_t status = multiply_integers(c, 3, c->in[2], c->in[5], sums);
    bool is_signed = out->dtype == DTYPE_I8;
    double low = is_signed ? -128 : 0, high = is_signed ? 127 : 255;
    for (size_t i = 0; status == STATUS_OK && i < n; i++) {
        double scale =
            scale_at(c->in[1], i / width) * scale_at(c->in[4], i % width) / scale_at(c->in[6], i / width);
        double y = rint(sums[i] * scale) + scale_at(c->in[7], i / width);
        ((uint8_t *)out->data)[i] = (uint8_t)(int)fmin(fmax(y, low), high); /* NaN becomes the lowest */
    }
    free(sums);
    return status;
}

static void gemm_shape(const op_ctx_t *c, int64_t *m, int64_t *n, int64_t *k, int64_t *k_of_b)
{
    bool ta = op_int(c, "transA", 0), tb = op_int(c, "transB", 0);
    const tensor_t *a = c->in[0], *b = c->in[1];
    *m = a->dims[ta];
    *k = a->dims[!ta];
    *k_of_b = b->dims[tb];
    *n = b->dims[!tb];
}

static status_t infer_gemm(op_ctx_t *c)
{
    int64_t m, n, k, k_of_b;
    if (c->in[0]->rank != 2 || c->in[1]->rank != 2)
        return op_bad(c, "the operands have %u and %u dimensions, not 2", c->in[0]->rank, c->in[1]->rank);
    gemm_shape(c, &m, &n, &k, &k_of_b);
    if (k != k_of_b || c->in[0]->dtype != c->in[1]->dtype)
        return op_bad(c, "the operands do not multiply (%lld by %lld)", (long long)k, (long long)k_of_b);
    tensor_t out = {.dtype = c->in[0]->dtype, .rank = 2, .dims = {m, n}}, all;
    if (op_in(c, 2) && c->in[2]->dtype != out.dtype)
        return op_bad(c, "the addend is %s", dtype_name(c->in[2]->dtype));
    if (op_in(c, 2)) {
        status_t status = op_broadcast(c, &out, c->in[2], &all);
        if (status != STATUS_OK || !tensor_same_shape(&all, &out))
            return op_bad(c, "the addend does not fit the product");
    }
    return op_set_like(c, 0, &out);
}

/* The addend times beta, broadcast to the result. */
static void fill_addend(op_ctx_t *c)
{
    const tensor_t *addend = op_in(c, 2);
    tensor_t *out = c->out[0];
    double beta = op_float(c, "beta", 1);
    float *to = out->data;
    if (!addend) {
        memset(out->data, 0, tensor_bytes(out));
        return;
    }
    walk_t w;
    for (bool more = walk_begin(&w, out, (const tensor_t *const[]){addend}, 1); more; more = walk_next(&w))
        for (size_t i = 0; i < w.row; i++)
            to[w.out + i] =
                (float)(beta * (double)((const float *)addend->data)[w.offset[0] + (int64_t)i * w.step[0]]);
}

static status_t eval_gemm(op_ctx_t *c)
{
    int64_t m, n, k, k_of_b;
    if (c->in[0]->dtype != DTYPE_F32)
        return op_unsupported(c, "only float32 is supported");
    gemm_shape(c, &m, &n, &k, &k_of_b);
    bool ta = op_int(c, "transA", 0), tb = op_int(c, "transB", 0);
    float alpha = (float)op_float(c, "alpha", 1);
    const float *a = c->in[0]->data, *b = c->in[1]->data;
    float *out = c->out[0]->data;
    fill_addend(c);
    for (int64_t i = 0; i < m; i++)
        for (int64_t l = 0; l < k; l++) {
            float x = alpha * a[ta ? l * m + i : i * k + l];
            for (int64_t j = 0; j < n; j++)
                out[i * n + j] += x * b[tb ? j * k + l : l * n + j];
        }
    return STATUS_OK;
}

const op_t ops_matmul[] = {
    {"Gemm", 2, 3, 1, 1, OP_HEAVY, infer_gemm, eval_gemm, NULL, NULL, 0,
     .rows = {ROWS_KEPT_UNLESS, "transA", 0}, .kind = OP_GEMM},
    {"Linear", 3, 3, 1, 1, OP_HEAVY, infer_matmul, eval_linear, NULL, "fermata", 0, .rows.kind = ROWS_KEPT,
     .kind = OP_LINEAR},
    {"MatMul", 2, 2, 1, 1, OP_HEAVY, infer_matmul, eval_matmul, NULL, NULL, 0, .rows.kind = ROWS_KEPT,
     .kind = OP_MATMUL},
    {"MatMulInteger", 2, 4, 1, 1, OP_HEAVY, infer_matmul_integer, eval_matmul_integer, NULL, NULL, 0,
     .rows.kind = ROWS_KEPT},
    {"QLinearMatMul", 8, 8, 1, 1, OP_HEAVY, infer_qlinear_matmul, eval_qlinear_matmul, NULL, NULL, 0,
     .rows.kind = ROWS_KEPT},
    {.name = NULL},
};
