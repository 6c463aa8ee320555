/*
 * Reductions, softmax and normalisations: the dimensions of a tensor fall into those that tell the rows apart and those
 * that a row runs along.
 */
#include "engine/cuda/lower/lower.h"

#include <string.h>

/* The dimensions of v that are in mask, as a view of their own. */
static view_t pick(const view_t *v, unsigned mask)
{
    view_t out = *v;
    out.rank = 0;
    for (uint32_t d = 0; d < v->rank; d++) {
        if (!(mask & 1u << d))
            continue;
        out.dims[out.rank] = v->dims[d];
        out.strides[out.rank++] = v->strides[d];
    }
    return out;
}

static double number_of(const node_t *node, const char *name, double otherwise)
{
    const attr_t *a = node_attr(node, name);
    return !a                      ? otherwise
           : a->kind == ATTR_FLOAT ? (double)a->f
           : a->kind == ATTR_INT   ? (double)a->i
                                   : otherwise;
}

static uint32_t axis_of(const node_t *node, int64_t otherwise, uint32_t rank)
{
    int64_t axis = (int64_t)number_of(node, "axis", (double)otherwise);
    return (uint32_t)(axis < 0 ? axis + rank : axis);
}

/* ---- reductions ---- */

static const red_op_t reductions[OP_KINDS] = {
    [OP_ARG_MAX] = RED_ARGMAX,
    [OP_ARG_MIN] = RED_ARGMIN,
    [OP_GLOBAL_AVERAGE_POOL] = RED_MEAN,
    [OP_GLOBAL_MAX_POOL] = RED_MAX,
    [OP_REDUCE_L1] = RED_L1,
    [OP_REDUCE_L2] = RED_L2,
    [OP_REDUCE_LOG_SUM] = RED_LOG_SUM,
    [OP_REDUCE_LOG_SUM_EXP] = RED_LOG_SUM_EXP,
    [OP_REDUCE_MAX] = RED_MAX,
    [OP_REDUCE_MEAN] = RED_MEAN,
    [OP_REDUCE_MIN] = RED_MIN,
    [OP_REDUCE_PROD] = RED_PROD,
    [OP_REDUCE_SUM] = RED_SUM,
    [OP_REDUCE_SUM_SQUARE] = RED_SUM_SQUARE,
};

static dtype_t compute_type(dtype_t dtype)
{
    if (dtype == DTYPE_F32 || dtype == DTYPE_F16 || dtype == DTYPE_BF16)
        return DTYPE_F32;
    if (dtype == DTYPE_F64)
        return DTYPE_F64;
    return dtype == DTYPE_U64 || dtype == DTYPE_STRING ? DTYPE_NONE : DTYPE_I64;
}

/* The dimensions of the result that belong to those in mask, when the others are kept as ones or dropped. */
static view_t matching(const view_t *out, unsigned kept, uint32_t rank)
{
    return out->rank == rank ? pick(out, kept) : *out;
}

static status_t add_reduce(lower_t *l, const node_t *node, unsigned along)
{
    const tensor_t *x = lower_tensor(l, node->in[0]);
    unsigned all = (1u << x->rank) - 1;
    step_t step = {.kind = STEP_KERNEL, .kernel = KERNEL_REDUCE};
    k_reduce_t *k = &step.u.reduce;
    k->op = (int32_t)reductions[node->op->kind];
    k->compute = (int32_t)compute_type(x->dtype);
    k->last = number_of(node, "select_last_index", 0) != 0;
    bool arg = k->op == RED_ARGMAX || k->op == RED_ARGMIN;
    if (!k->compute || !along || (arg && k->compute == DTYPE_F64) ||
        (k->compute == DTYPE_I64 && k->op == RED_LOG_SUM_EXP))
        return STATUS_UNSUPPORTED;
    view_t in = lower_view(l, node->in[0]), out = lower_result(l, node->out[0], LAYOUT_PLAIN);
    view_t rows_in = pick(&in, all & ~along), rows_out = matching(&out, all & ~along, x->rank);
    view_t line = pick(&in, along);
    k_view_t steps;
    view_collapse((const view_t *[]){&rows_out, &rows_in}, 2, &k->rows, (k_view_t *[]){&k->out, &k->in});
    /* Positions along the line are the answer of ArgMax, so its order must stay; it has one dimension only. */
    view_collapse((const view_t *[]){&line}, 1, &k->along, (k_view_t *[]){&steps});
    memcpy(k->along_strides, steps.strides, sizeof k->along_strides);
    lower_add(l, &step);
    lower_bind(l, LOWER_FIELD(reduce.out.base), &out);
    lower_bind(l, LOWER_FIELD(reduce.in.base), &in);
    lower_define(l, node->out[0], &out);
    return l->status;
}

status_t lower_reduce(lower_t *l, const node_t *node)
{
    lower_ctx_t c;
    ints_t axes;
    const tensor_t *x = lower_tensor(l, node->in[0]);
    unsigned along = 0;
    if (!lower_ctx(l, node, &c) || op_read_ints_either(&c.ctx, "axes", 1, &axes) != STATUS_OK)
        return STATUS_UNSUPPORTED;
    if (!axes.count && number_of(node, "noop_with_empty_axes", 0) == 0)
        along = (1u << x->rank) - 1;
    for (uint32_t i = 0; i < axes.count; i++)
        along |= 1u << (axes.v[i] < 0 ? axes.v[i] + x->rank : axes.v[i]);
    return add_reduce(l, node, along);
}

status_t lower_arg(lower_t *l, const node_t *node)
{
    return add_reduce(l, node, 1u << axis_of(node, 0, lower_tensor(l, node->in[0])->rank));
}

status_t lower_global_pool(lower_t *l, const node_t *node)
{
    return add_reduce(l, node, ((1u << lower_tensor(l, node->in[0])->rank) - 1) & ~3u);
}

/* ---- softmax ---- */

status_t lower_softmax(lower_t *l, const node_t *node)
{
    const tensor_t *x = lower_tensor(l, node->in[0]);
    bool old = node->opset < 13;
    uint32_t axis = axis_of(node, old ? 1 : -1, x->rank);
    step_t step = {.kind = STEP_KERNEL, .kernel = KERNEL_SOFTMAX};
    k_softmax_t *k = &step.u.softmax;
    if (x->dtype != DTYPE_F32 || !x->rank || axis >= x->rank)
        return STATUS_UNSUPPORTED;
    view_t in = old ? lower_plain(l, node->in[0]) : lower_view(l, node->in[0]);
    view_t out = lower_result(l, node->out[0], LAYOUT_PLAIN), from = in, to = out;
    if (old) { /* a matrix, cut at the axis */
        int64_t dims[2] = {(int64_t)tensor_count_range(x, 0, axis),
                           (int64_t)tensor_count_range(x, axis, x->rank)};
        if (!view_reshape(&in, 2, dims, &from) || !view_reshape(&out, 2, dims, &to))
            return STATUS_UNSUPPORTED;
        axis = 1;
    }
    unsigned rows = ((1u << from.rank) - 1) & ~(1u << axis);
    view_t rows_in = pick(&from, rows), rows_out = pick(&to, rows);
    view_collapse((const view_t *[]){&rows_out, &rows_in}, 2, &k->rows, (k_view_t *[]){&k->out, &k->in});
    k->n = (int32_t)from.dims[axis];
    k->in_step = (int32_t)from.strides[axis];
    k->out_step = (int32_t)to.strides[axis];
    k->logarithm = op_is(node, OP_LOG_SOFTMAX);
    lower_add(l, &step);
    lower_bind(l, LOWER_FIELD(softmax.out.base), &out);
    lower_bind(l, LOWER_FIELD(softmax.in.base), &in);
    lower_define(l, node->out[0], &out);
    return l->status;
}

/* ---- normalisations ---- */

/* A scale or bias, broadcast over the tensor; its strides fall into the two parts like everybody else's. */
typedef struct {
    view_t own, rows, along;
} weight_t;

static bool read_weight(lower_t *l, int32_t value, const tensor_t *x, bool by_channel, unsigned along,
                        weight_t *w)
{
    view_t wide;
    w->own = lower_plain(l, value);
    if (by_channel) {
        int64_t dims[TENSOR_MAX_RANK] = {w->own.dims[0], 1, 1, 1, 1, 1, 1, 1};
        if (w->own.rank != 1 || !view_reshape(&w->own, x->rank - 1, dims, &wide))
            return false;
        w->own = wide;
    }
    if (!view_broadcast(&w->own, x->rank, x->dims, &wide))
        return false;
    w->rows = pick(&wide, ((1u << x->rank) - 1) & ~along);
    w->along = pick(&wide, along);
    return true;
}

static void set_along(int32_t *to, const k_view_t *from)
{
    memcpy(to, from->strides, sizeof from->strides);
}

static status_t add_norm(lower_t *l, const node_t *node, unsigned along, bool by_channel)
{
    const tensor_t *x = lower_tensor(l, node->in[0]);
    step_t step = {.kind = STEP_KERNEL, .kernel = KERNEL_NORM};
    k_norm_t *k = &step.u.norm;
    bool biased = lower_input(node, 2) >= 0;
    if (x->dtype != DTYPE_F32 || !lower_single_output(node))
        return STATUS_UNSUPPORTED;
    view_t in = lower_view(l, node->in[0]), out = lower_result(l, node->out[0], LAYOUT_PLAIN);
    if (view_is_dense(&in) && in.rank == out.rank)
        memcpy(out.strides, in.strides, sizeof out.strides);
    unsigned rows = ((1u << x->rank) - 1) & ~along;
    weight_t scale, bias;
    if (!read_weight(l, node->in[1], x, by_channel, along, &scale))
        return STATUS_UNSUPPORTED;
    bias = scale;
    if (biased && !read_weight(l, node->in[2], x, by_channel, along, &bias))
        return STATUS_UNSUPPORTED;
    view_t rows_in = pick(&in, rows), rows_out = pick(&out, rows), line_in = pick(&in, along),
           line_out = pick(&out, along);
    k_view_t steps[4];
    view_collapse((const view_t *[]){&rows_out, &rows_in, &scale.rows, &bias.rows}, 4, &k->rows,
                  (k_view_t *[]){&k->out, &k->in, &k->scale, &k->bias});
    view_collapse((const view_t *[]){&line_out, &line_in, &scale.along, &bias.along}, 4, &k->along,
                  (k_view_t *[]){&steps[0], &steps[1], &steps[2], &steps[3]});
    set_along(k->out_along, &steps[0]);
    set_along(k->in_along, &steps[1]);
    set_along(k->scale_along, &steps[2]);
    set_along(k->bias_along, &steps[3]);
    k->epsilon = (float)number_of(node, "epsilon", 1e-5);
    lower_add(l, &step);
    lower_bind(l, LOWER_FIELD(norm.out.base), &out);
    lower_bind(l, LOWER_FIELD(norm.in.base), &in);
    lower_bind(l, LOWER_FIELD(norm.scale.base), &scale.own);
    if (biased)
        lower_bind(l, LOWER_FIELD(norm.bias.base), &bias.own);
    lower_define(l, node->out[0], &out);
    return l->status;
}

status_t lower_layer_norm(lower_t *l, const node_t *node)
{
    uint32_t rank = lower_tensor(l, node->in[0])->rank, axis = axis_of(node, -1, rank);
    return add_norm(l, node, ((1u << rank) - 1) & ~((1u << axis) - 1), false);
}

status_t lower_instance_norm(lower_t *l, const node_t *node)
{
    uint32_t rank = lower_tensor(l, node->in[0])->rank;
    return rank < 3 ? STATUS_UNSUPPORTED : add_norm(l, node, ((1u << rank) - 1) & ~3u, true);
}
