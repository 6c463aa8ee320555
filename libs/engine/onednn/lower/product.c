/*
 * Products of matrices: against constant weights as an inner product (weights laid out by oneDNN), else as a matmul on
 * strided views.
 */
#include "engine/onednn/lower/lower.h"

#include <string.h>

static bool all_float(const lower_t *l, const node_t *node)
{
    for (uint32_t i = 0; i < node->in_count; i++)
        if (node->in[i] >= 0 && lower_tensor(l, node->in[i])->dtype != DTYPE_F32)
            return false;
    return true;
}

/* [m, k] times the constant seen as [n, k]; the result has the shape of the node's. */
typedef struct {
    int64_t m, n, k;
    int64_t weight_strides[2]; /* of n and of k */
    int32_t weights, bias;     /* bias: n elements, or -1 */
} inner_t;

/* Sums land in the result's buffer, which is seen as [m, n]: the other operand must be row-major. */
static uint32_t target(lower_t *l, const node_t *node, int32_t sum, size_t len)
{
    if (sum < 0)
        return lower_buffer(l, len);
    dnnl_memory_desc_t plain;
    md_of(lower_tensor(l, node->out[0]), &plain);
    return lower_sum_target(l, node, sum, &plain);
}

static status_t add_inner(lower_t *l, const node_t *node, const inner_t *p)
{
    dnnl_memory_desc_t src = md_strided(2, (int64_t[]){p->m, p->k}, NULL);
    dnnl_memory_desc_t dst = md_strided(2, (int64_t[]){p->m, p->n}, NULL);
    dnnl_memory_desc_t weights = md_any(2, (int64_t[]){p->n, p->k}), bias;
    dnnl_memory_desc_t seen = md_strided(2, (int64_t[]){p->n, p->k}, p->weight_strides);
    dnnl_inner_product_desc_t desc;
    dnnl_primitive_desc_t pd;
    dnnl_primitive_attr_t attr;
    int32_t sum;
    bias = md_strided(1, (int64_t[]){p->n}, NULL);
    status_t status = lower_attr(l, node, &attr, &sum);
    if (status != STATUS_OK)
        return status;
    dnnl_status_t made = dnnl_inner_product_forward_desc_init(&desc, dnnl_forward_inference, &src, &weights,
                                                              p->bias >= 0 ? &bias : NULL, &dst);
    if (made == dnnl_success)
        made = dnnl_primitive_desc_create(&pd, &desc, attr, l->engine, NULL);
    dnnl_primitive_attr_destroy(attr);
    if (made != dnnl_success)
        return lower_status(l, made);
    weights = *dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    lower_arg_t args[4] = {{DNNL_ARG_SRC, lower_plain(l, node->in[0]), src},
                           {DNNL_ARG_WEIGHTS, lower_weights(l, p->weights, &seen, &weights), weights},
                           {DNNL_ARG_DST, target(l, node, sum, dnnl_memory_desc_get_size(&dst)), dst}};
    uint32_t count = 3, to = args[2].buffer;
    if (p->bias >= 0)
        args[count++] = (lower_arg_t){DNNL_ARG_BIAS, lower_plain(l, p->bias), bias};
    status = lower_step(l, node, pd, args, count);
    return status == STATUS_OK ? lower_define(l, node->out[0], NULL, to) : status;
}

/* Operands as views with equal rank. */
typedef struct {
    uint32_t rank;
    int64_t a[DNNL_MAX_NDIMS], a_strides[DNNL_MAX_NDIMS], w[DNNL_MAX_NDIMS], w_strides[DNNL_MAX_NDIMS],
        out[DNNL_MAX_NDIMS];
    int32_t bias; /* n elements, or -1 */
    float scale;
    bool as_it_lies; /* operands are not transposed by p */
} matmul_t;

static status_t matmul_attr(lower_t *l, const node_t *node, float scale, dnnl_primitive_attr_t *attr,
                            int32_t *sum)
{
    status_t status = lower_attr(l, node, attr, sum);
    if (status != STATUS_OK || scale == 1)
        return status;
    dnnl_status_t set = dnnl_primitive_attr_set_output_scales(*attr, 1, 0, &scale);
    if (set != dnnl_success)
        dnnl_primitive_attr_destroy(*attr);
    return lower_status(l, set);
}

/* As it lies when its rank fits and one of the last two dimensions is dense; else row-major, as p says. */
static lower_arg_t operand(lower_t *l, int arg, int32_t value, uint32_t rank, const int64_t *dims,
                           const int64_t *strides, bool as_it_lies)
{
    const layout_t *main = lower_main(l, value);
    const dnnl_memory_desc_t *md = &main->md;
    const dnnl_dim_t *s = md->format_desc.blocking.strides;
    bool usable = as_it_lies && (uint32_t)md->ndims == rank && lower_tensor(l, value)->rank == rank &&
                  !md->format_desc.blocking.inner_nblks && (s[rank - 1] == 1 || s[rank - 2] == 1);
    if (usable)
        return (lower_arg_t){arg, main->buffer, *md};
    return (lower_arg_t){arg, lower_plain(l, value), md_strided(rank, dims, strides)};
}

static status_t add_matmul(lower_t *l, const node_t *node, const matmul_t *p)
{
    lower_arg_t src = operand(l, DNNL_ARG_SRC, node->in[0], p->rank, p->a, p->a_strides, p->as_it_lies);
    lower_arg_t weights =
        operand(l, DNNL_ARG_WEIGHTS, node->in[1], p->rank, p->w, p->w_strides, p->as_it_lies);
    dnnl_memory_desc_t dst = md_strided(p->rank, p->out, NULL), bias;
    int64_t bias_dims[DNNL_MAX_NDIMS];
    dnnl_matmul_desc_t desc;
    dnnl_primitive_desc_t pd;
    dnnl_primitive_attr_t attr;
    int32_t sum;
    for (uint32_t d = 0; d < p->rank; d++)
        bias_dims[d] = d == p->rank - 1 ? p->out[d] : 1;
    bias = md_strided(p->rank, bias_dims, NULL);
    status_t status = matmul_attr(l, node, p->scale, &attr, &sum);
    if (status != STATUS_OK)
        return status;
    dnnl_status_t made =
        dnnl_matmul_desc_init(&desc, &src.md, &weights.md, p->bias >= 0 ? &bias : NULL, &dst);
    if (made == dnnl_success)
        made = dnnl_primitive_desc_create(&pd, &desc, attr, l->engine, NULL);
    dnnl_primitive_attr_destroy(attr);
    if (made != dnnl_success)
        return lower_status(l, made);
    lower_arg_t args[4] = {
        src, weights, {DNNL_ARG_DST, target(l, node, sum, dnnl_memory_desc_get_size(&dst)), dst}};
    uint32_t count = 3, to = args[2].buffer;
    if (p->bias >= 0)
        args[count++] = (lower_arg_t){DNNL_ARG_BIAS, lower_plain(l, p->bias), bias};
    status = lower_step(l, node, pd, args, count);
    return status == STATUS_OK ? lower_define(l, node->out[0], NULL, to) : status;
}

/* The addend of a Gemm is a bias when it has one element per column. */
static bool is_bias(const lower_t *l, int32_t value, int64_t n)
{
    const tensor_t *t = lower_tensor(l, value);
    return tensor_count(t) == (size_t)n && t->rank >= 1 && t->dims[t->rank - 1] == n;
}

static float attr_float(const node_t *node, const char *name)
{
    const attr_t *a = node_attr(node, name);
    return a && a->kind == ATTR_FLOAT ? a->f : 1;
}

static bool attr_flag(const node_t *node, const char *name)
{
    const attr_t *a = node_attr(node, name);
    return a && a->kind == ATTR_INT && a->i;
}

status_t lower_gemm(lower_t *l, const node_t *node)
{
    const tensor_t *x = lower_tensor(l, node->in[0]), *w = lower_tensor(l, node->in[1]);
    const tensor_t *y = lower_tensor(l, node->out[0]);
    bool ta = attr_flag(node, "transA"), tb = attr_flag(node, "transB");
    float alpha = attr_float(node, "alpha"), beta = attr_float(node, "beta");
    int32_t addend = lower_input(node, 2);
    int64_t m = y->dims[0], n = y->dims[1], k = x->dims[!ta];
    if (!all_float(l, node) || (addend >= 0 && (beta != 1 || !is_bias(l, addend, n))))
        return STATUS_UNSUPPORTED;
    if (!ta && alpha == 1 && lower_is_constant(l, node->in[1])) {
        inner_t p = {m, n, k, {tb ? k : 1, tb ? 1 : n}, node->in[1], addend};
        return add_inner(l, node, &p);
    }
    if (alpha != 1 && addend >= 0)
        return STATUS_UNSUPPORTED; /* oneDNN scales the bias as well */
    matmul_t p = {.rank = 2,
                  .a = {m, k},
                  .a_strides = {ta ? 1 : k, ta ? x->dims[1] : 1},
                  .w = {k, n},
                  .w_strides = {tb ? 1 : w->dims[1], tb ? k : 1},
                  .out = {m, n},
                  .bias = addend,
                  .scale = alpha};
    return add_matmul(l, node, &p);
}

/* Dims and strides with ones in front (stride irrelevant), a vector on the right as a column. */
static void view(const tensor_t *t, uint32_t rank, bool right, int64_t *dims, int64_t *strides)
{
    tensor_t as = *t;
    if (t->rank == 1 && right) {
        as.rank = 2;
        as.dims[1] = 1;
    }
    int64_t own[TENSOR_MAX_RANK];
    tensor_strides(&as, own);
    for (uint32_t d = 0; d < rank; d++) {
        bool there = d >= rank - as.rank;
        dims[d] = there ? as.dims[d - (rank - as.rank)] : 1;
        strides[d] = there ? own[d - (rank - as.rank)] : (int64_t)tensor_count(&as);
    }
}

status_t lower_matmul(lower_t *l, const node_t *node)
{
    const tensor_t *x = lower_tensor(l, node->in[0]), *w = lower_tensor(l, node->in[1]);
    if (!all_float(l, node))
        return STATUS_UNSUPPORTED;
    if (lower_is_constant(l, node->in[1]) && w->rank == 2 && x->rank >= 1) {
        int64_t k = w->dims[0], n = w->dims[1];
        inner_t p = {(int64_t)tensor_count(x) / k, n, k, {1, n}, node->in[1], lower_input(node, 2)};
        return add_inner(l, node, &p);
    }
    if (node->in_count > 2)
        return STATUS_UNSUPPORTED;
    matmul_t p = {.bias = -1, .scale = 1, .as_it_lies = true};
    uint32_t rank = x->rank > w->rank ? x->rank : w->rank;
    p.rank = rank < 2 ? 2 : rank;
    if (p.rank > 6)
        return STATUS_UNSUPPORTED;
    view(x, p.rank, false, p.a, p.a_strides);
    view(w, p.rank, true, p.w, p.w_strides);
    for (uint32_t d = 0; d < p.rank; d++)
        p.out[d] = p.a[d] > p.w[d] ? p.a[d] : p.w[d];
    p.out[p.rank - 2] = p.a[p.rank - 2];
    p.out[p.rank - 1] = p.w[p.rank - 1];
    return add_matmul(l, node, &p);
}
