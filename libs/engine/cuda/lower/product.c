/*
 * Matrix products. Batches that one stride walks through go to cuBLASLt; a batch of products with one and the
 * same second matrix is a single, taller product.
 */
#include "engine/cuda/lower/lower.h"

#include <string.h>

/* out[…, m, n] = a[…, m, k] · b[…, k, n]; batch dims of a and b are broadcast to those of out. */
typedef struct {
    view_t a, b, out;
    float alpha;
} product_t;

static bool library_type(dtype_t dtype)
{
    return dtype == DTYPE_F32 || dtype == DTYPE_F16 || dtype == DTYPE_BF16;
}

/* rows × columns with one stride of 1: ld of the other. */
static bool leading(int64_t rows, int64_t columns, int64_t row_step, int64_t column_step, bool *transposed,
                    int64_t *ld)
{
    if ((column_step == 1 || columns == 1) && (row_step >= columns || rows == 1)) {
        *transposed = false;
        *ld = rows == 1 ? columns : row_step;
        return *ld >= columns;
    }
    *transposed = true;
    *ld = columns == 1 ? rows : column_step;
    return (row_step == 1 || rows == 1) && *ld >= rows;
}

/* Reads m, n, k, the batch and leading dimensions. False: not for the library. */
static bool describe(const product_t *p, gemm_step_t *g)
{
    uint32_t r = p->out.rank;
    view_t views[3] = {p->out, p->a, p->b};
    k_view_t k[3];
    k_space_t space;
    g->m = p->out.dims[r - 2];
    g->n = p->out.dims[r - 1];
    g->k = p->a.dims[r - 1];
    g->batch = 1;
    g->ldc = g->n;
    g->dtype = p->out.dtype;
    for (uint32_t i = 0; i < 3; i++)
        views[i].rank = r - 2;
    view_collapse((const view_t *[]){&views[0], &views[1], &views[2]}, 3, &space,
                  (k_view_t *[]){&k[0], &k[1], &k[2]});
    if (!library_type(g->dtype) || p->a.dtype != g->dtype || p->b.dtype != g->dtype || space.rank > 1)
        return false;
    if (!leading(g->m, g->k, p->a.strides[r - 2], p->a.strides[r - 1], &g->a_transposed, &g->lda) ||
        !leading(g->k, g->n, p->b.strides[r - 2], p->b.strides[r - 1], &g->b_transposed, &g->ldb))
        return false;
    if (!space.rank)
        return true;
    int64_t count = space.dims[0];
    if (!k[2].strides[0] && !g->a_transposed && (g->m == 1 || k[1].strides[0] == g->m * g->lda)) {
        g->lda = g->m == 1 ? k[1].strides[0] : g->lda;
        g->m *= count;
        return g->lda >= g->k;
    }
    g->batch = count;
    g->c_batch = k[0].strides[0];
    g->a_batch = k[1].strides[0];
    g->b_batch = k[2].strides[0];
    return true;
}

static void describe_direct(const product_t *p, dtype_t compute, k_gemm_t *k)
{
    uint32_t r = p->out.rank;
    view_t a = p->a, b = p->b;
    k->k = (int32_t)p->a.dims[r - 1];
    k->a_step = (int32_t)p->a.strides[r - 1];
    k->b_step = (int32_t)p->b.strides[r - 2];
    k->alpha = p->alpha;
    k->compute = (int32_t)compute;
    a.strides[r - 1] = 0;
    b.strides[r - 2] = 0;
    a.dims[r - 1] = p->out.dims[r - 1];
    b.dims[r - 2] = p->out.dims[r - 2];
    view_collapse((const view_t *[]){&p->out, &a, &b}, 3, &k->space, (k_view_t *[]){&k->out, &k->a, &k->b});
}

/* What cuBLASLt does by itself: a bias per column, one residual, and the activations it has. */
typedef struct {
    view_t bias, residual;
    ew_t whole, rest;
} epilogues_t;

static bool library_activation(const gemm_step_t *g, const ew_t *e)
{
    int32_t op = e->ops[e->op_count - 1].op;
    /* Its GELU is the tanh form, which half precision cannot tell from the other. */
    bool half = g->dtype != DTYPE_F32;
    return op == EW_RELU || op == EW_GELU_TANH || (op == EW_GELU_ERF && half);
}

static bool read_epilogues(lower_t *l, const node_t *node, const view_t *out, gemm_step_t *g, epilogues_t *e)
{
    uint32_t n = 0;
    ew_t start = {.views = {*out}, .view_count = 1, .compute = DTYPE_F32};
    e->whole = e->rest = start;
    g->activation = EW_IDENTITY;
    if (g->has_bias && !ew_add_view(&e->whole, EW_ADD, &e->bias))
        return false;
    bool residual = node->epilogue_count && node->epilogue[0].kind == EPILOGUE_ADD && !g->has_residual;
    if (residual) {
        e->residual = lower_dense(l, node->epilogue[n++].value, out->dtype, LAYOUT_PLAIN);
        g->has_residual = true;
        if (!ew_add_view(&e->whole, EW_ADD, &e->residual))
            return false;
    }
    if (n < node->epilogue_count && node->epilogue[n].kind == EPILOGUE_UNARY) {
        node_t first = *node;
        first.epilogue_count = n + 1;
        if (!ew_add_epilogue(l, &e->whole, &first, n))
            return false;
        if (library_activation(g, &e->whole)) {
            int32_t op = e->whole.ops[e->whole.op_count - 1].op;
            g->activation = op == EW_RELU ? EW_RELU : EW_GELU_TANH;
        } else if (!ew_add_epilogue(l, &e->rest, &first, n)) {
            return false;
        }
        n++;
    }
    return ew_add_epilogue(l, &e->whole, node, n) && ew_add_epilogue(l, &e->rest, node, n);
}

/* A vector of n that is added to every row. */
static bool row_of(lower_t *l, int32_t value, int64_t n, dtype_t dtype, view_t *row)
{
    const tensor_t *t = lower_tensor(l, value);
    if (!t->rank || t->dims[t->rank - 1] != n || tensor_count(t) != (size_t)n)
        return false;
    view_t dense = lower_dense(l, value, dtype, LAYOUT_PLAIN);
    return view_reshape(&dense, 1, &n, row);
}

/* Makes dense what is not, when that is all that keeps the library away. */
static bool dense_enough(lower_t *l, product_t *p, gemm_step_t *g)
{
    product_t dense = *p;
    bool takes = library_type(p->out.dtype) && p->a.dtype == p->out.dtype && p->b.dtype == p->out.dtype;
    bool copy_a = !view_is(&p->a, LAYOUT_PLAIN), copy_b = !view_is(&p->b, LAYOUT_PLAIN);
    if (copy_a)
        view_set_layout(&dense.a, LAYOUT_PLAIN);
    if (copy_b)
        view_set_layout(&dense.b, LAYOUT_PLAIN);
    if (!takes || !describe(&dense, g))
        return false;
    if (copy_a) {
        dense.a = lower_new(l, p->a.dtype, p->a.rank, p->a.dims, LAYOUT_PLAIN);
        lower_copy(l, &dense.a, &p->a);
    }
    if (copy_b) {
        dense.b = lower_new(l, p->b.dtype, p->b.rank, p->b.dims, LAYOUT_PLAIN);
        lower_copy(l, &dense.b, &p->b);
    }
    *p = dense;
    return true;
}

static status_t add_product(lower_t *l, const node_t *node, product_t *p, int32_t bias, view_t *result)
{
    step_t step = {.kind = STEP_GEMM};
    gemm_step_t *g = &step.u.gemm;
    epilogues_t e;
    dtype_t type = lower_tensor(l, node->out[0])->dtype;
    dtype_t compute = type == DTYPE_F32 ? DTYPE_F32 : type == DTYPE_F64 ? DTYPE_F64 : DTYPE_I64;
    g->library = describe(p, g);
    if (!g->library && dense_enough(l, p, g))
        g->library = true;
    g->has_bias = bias >= 0;
    if (g->has_bias && !row_of(l, bias, p->out.dims[p->out.rank - 1], p->out.dtype, &e.bias))
        return lower_fail(l, STATUS_INTERNAL, "the bias of a product does not fit it");
    describe_direct(p, compute, &g->direct);
    if (!read_epilogues(l, node, &p->out, g, &e) || !ew_kernel(&e.whole, &p->out, &g->whole.ew) ||
        !ew_kernel(&e.rest, &p->out, &g->rest.ew))
        return lower_fail(l, STATUS_INTERNAL, "the epilogue of a product does not fit it");
    lower_add(l, &step);
    lower_bind(l, LOWER_FIELD(gemm.direct.out.base), &p->out);
    lower_bind(l, LOWER_FIELD(gemm.direct.a.base), &p->a);
    lower_bind(l, LOWER_FIELD(gemm.direct.b.base), &p->b);
    if (g->has_bias)
        lower_bind(l, LOWER_FIELD(gemm.bias.base), &e.bias);
    if (g->has_residual)
        lower_bind(l, LOWER_FIELD(gemm.residual.base), &e.residual);
    ew_bind(l, &e.whole, &p->out, LOWER_FIELD(gemm.whole.ew));
    ew_bind(l, &e.rest, &p->out, LOWER_FIELD(gemm.rest.ew));
    *result = p->out;
    return l->status;
}

/* In the stored type, without a copy when only the strides are unusual. */
static view_t operand(lower_t *l, int32_t value)
{
    dtype_t want = lower_stored_type(l, lower_tensor(l, value)->dtype);
    if (!lower_is_constant(l, value)) {
        view_t v = lower_view(l, value);
        if (v.dtype == want)
            return v;
    }
    return lower_dense(l, value, want, LAYOUT_PLAIN);
}

static bool takes(dtype_t dtype)
{
    return dtype == DTYPE_F32 || dtype == DTYPE_F64 || dtype == DTYPE_I32 || dtype == DTYPE_I64 ||
           dtype == DTYPE_U32;
}

/* A vector is a matrix of one row, or of one column. */
static void as_matrix(view_t *v, bool column)
{
    if (v->rank != 1)
        return;
    uint32_t at = column ? 1 : 0;
    v->rank = 2;
    if (!column) {
        v->dims[1] = v->dims[0];
        v->strides[1] = v->strides[0];
    }
    v->dims[at] = 1;
    v->strides[at] = column ? 1 : v->dims[1];
}

static bool broadcast_batch(view_t *v, const view_t *out)
{
    int64_t dims[TENSOR_MAX_RANK];
    memcpy(dims, out->dims, sizeof dims);
    dims[out->rank - 2] = v->dims[v->rank - 2];
    dims[out->rank - 1] = v->dims[v->rank - 1];
    int64_t row_step = v->strides[v->rank - 2], column_step = v->strides[v->rank - 1];
    if (!view_broadcast(v, out->rank, dims, v))
        return false;
    v->strides[out->rank - 2] = row_step; /* broadcasting forgets those of ones */
    v->strides[out->rank - 1] = column_step;
    return true;
}

status_t lower_matmul(lower_t *l, const node_t *node)
{
    const tensor_t *x = lower_tensor(l, node->in[0]), *w = lower_tensor(l, node->in[1]),
                   *y = lower_tensor(l, node->out[0]);
    if (!takes(x->dtype) || x->dtype != w->dtype || !x->rank || !w->rank)
        return STATUS_UNSUPPORTED;
    product_t p = {.a = operand(l, node->in[0]), .b = operand(l, node->in[1]), .alpha = 1};
    as_matrix(&p.a, false);
    as_matrix(&p.b, true);
    int64_t dims[TENSOR_MAX_RANK];
    uint32_t rank = 0, batch = y->rank - (x->rank > 1) - (w->rank > 1);
    for (; rank < batch; rank++)
        dims[rank] = y->dims[rank];
    if (rank + 2 > TENSOR_MAX_RANK)
        return STATUS_UNSUPPORTED;
    dims[rank++] = p.a.dims[p.a.rank - 2];
    dims[rank++] = p.b.dims[p.b.rank - 1];
    p.out = lower_new(l, lower_stored_type(l, y->dtype), rank, dims, LAYOUT_PLAIN);
    if (!broadcast_batch(&p.a, &p.out) || !broadcast_batch(&p.b, &p.out))
        return STATUS_UNSUPPORTED;
    view_t result, out;
    bool vectors = x->rank == 1 || w->rank == 1;
    if (vectors && node->epilogue_count) {
        lower_fail(l, STATUS_INTERNAL, "an epilogue was given to a product with a vector");
        return l->status;
    }
    status_t status = add_product(l, node, &p, lower_input(node, 2), &result);
    if (status != STATUS_OK || !view_reshape(&result, y->rank, y->dims, &out))
        return status;
    lower_define(l, node->out[0], &out);
    if (node->in_count == 2 && !node->epilogue_count && y->dtype == DTYPE_F32)
        l->states[node->out[0]].product = l->program->step_count;
    return l->status;
}

static double number_of(const node_t *node, const char *name, double otherwise)
{
    const attr_t *a = node_attr(node, name);
    return !a                      ? otherwise
           : a->kind == ATTR_FLOAT ? (double)a->f
           : a->kind == ATTR_INT   ? (double)a->i
                                   : otherwise;
}

/* beta · C as a step of its own, broadcast to the result and then a residual of it. */
static void add_scaled(lower_t *l, int32_t value, double beta, const view_t *out)
{
    ew_t e = {.views = {*out, lower_view(l, value)}, .view_count = 2, .compute = DTYPE_F32, .op_count = 1};
    step_t step = {.kind = STEP_KERNEL, .kernel = KERNEL_ELEMENTWISE, .what = "add_scaled"};
    /* out + beta · C = (out / beta + C) · beta would lose digits: C comes first and is scaled, then out is added. */
    view_t swap = e.views[0];
    e.views[0] = e.views[1];
    e.views[1] = swap;
    e.ops[0] = (k_ew_op_t){.op = EW_LINEAR, .a = beta};
    if (!ew_add_op(&e, EW_ADD, 0, 0) || !ew_kernel(&e, out, &step.u.elementwise)) {
        lower_fail(l, STATUS_INTERNAL, "input C of a Gemm does not fit it");
        return;
    }
    step.u.elementwise.ops[1].input = 1;
    lower_add(l, &step);
    ew_bind(l, &e, out, LOWER_FIELD(elementwise));
}

static void turn(view_t *v)
{
    view_permute(v, (uint32_t[]){1, 0}, v);
}

status_t lower_gemm(lower_t *l, const node_t *node)
{
    const tensor_t *y = lower_tensor(l, node->out[0]);
    int32_t c = lower_input(node, 2);
    double beta = number_of(node, "beta", 1);
    const tensor_t *t = c < 0 ? NULL : lower_tensor(l, c);
    bool row = t && t->rank && t->dims[t->rank - 1] == y->dims[1] && tensor_count(t) == (size_t)y->dims[1];
    bool fused = row && beta == 1;
    c = beta == 0 ? -1 : c;
    if (y->dtype != DTYPE_F32 || (c >= 0 && !fused && node->epilogue_count && beta == 0))
        return STATUS_UNSUPPORTED;
    product_t p = {.a = operand(l, node->in[0]),
                   .b = operand(l, node->in[1]),
                   .alpha = (float)number_of(node, "alpha", 1)};
    if (number_of(node, "transA", 0) != 0)
        turn(&p.a);
    if (number_of(node, "transB", 0) != 0)
        turn(&p.b);
    p.out = lower_result(l, node->out[0], LAYOUT_PLAIN);
    view_t out;
    node_t bare = *node;
    bool apart = c >= 0 && !fused;
    bare.epilogue_count = apart ? 0 : node->epilogue_count;
    status_t status = add_product(l, &bare, &p, fused ? c : -1, &out);
    if (status != STATUS_OK)
        return status;
    if (apart)
        add_scaled(l, c, beta, &out);
    if (apart && node->epilogue_count) {
        ew_t e = {.views = {out}, .view_count = 1, .compute = DTYPE_F32};
        step_t step = {.kind = STEP_KERNEL, .kernel = KERNEL_ELEMENTWISE};
        if (!ew_add_epilogue(l, &e, node, 0) || !ew_kernel(&e, &out, &step.u.elementwise))
            return lower_fail(l, STATUS_INTERNAL, "the epilogue of a Gemm does not fit it");
        lower_add(l, &step);
        ew_bind(l, &e, &out, LOWER_FIELD(elementwise));
    }
    lower_define(l, node->out[0], &out);
    return l->status;
}
