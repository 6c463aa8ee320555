/*
 * Convolutions, with channels innermost as cuDNN is fastest, and pools. Both see five dimensions: missing
 * spatial ones are put in front with size 1.
 */
#include "engine/cuda/lower/lower.h"

#include "graph/ops/window.h"

#include <math.h>
#include <string.h>

enum { DIMS = 5 };

/* [N, C, spatial…] as five dimensions. */
static view_t five(const view_t *v)
{
    view_t out = *v;
    uint32_t skip = DIMS - v->rank;
    out.rank = DIMS;
    for (uint32_t d = 2; d < DIMS; d++) {
        out.dims[d] = d - 2 < skip ? 1 : v->dims[d - skip];
        out.strides[d] = d - 2 < skip ? 0 : v->strides[d - skip];
    }
    return out;
}

static void spread(const window_t *w, const int64_t *from, int32_t otherwise, int32_t *to)
{
    for (uint32_t d = 0; d < 3; d++) {
        uint32_t skip = 3 - w->dims;
        to[d] = d < skip ? otherwise : (int32_t)from[d - skip];
    }
}

/* ---- convolutions ---- */

/*
 * cuDNN pads both sides alike; what is padded otherwise, as TensorFlow does, is copied into the middle of zeros first.
 */
static bool pads_evenly(const window_t *w)
{
    for (uint32_t d = 0; d < w->dims; d++)
        if (w->before[d] != w->after[d] || w->before[d] < 0)
            return false;
    return true;
}

static view_t padded(lower_t *l, view_t x, window_t *w)
{
    int64_t dims[TENSOR_MAX_RANK];
    memcpy(dims, x.dims, sizeof dims);
    for (uint32_t d = 0; d < w->dims; d++) {
        if (w->before[d] < 0 || w->after[d] < 0) /* crops: rare, and left to the kernel of last resort */
            return x;
        dims[d + 2] += w->before[d] + w->after[d];
    }
    view_t whole = lower_new(l, x.dtype, x.rank, dims, LAYOUT_CHANNELS_LAST), middle = whole;
    for (uint32_t d = 0; d < w->dims; d++) {
        view_slice(&middle, d + 2, w->before[d], x.dims[d + 2], 1);
        w->in[d] = dims[d + 2];
        w->before[d] = w->after[d] = 0;
    }
    lower_zero(l, &whole);
    lower_copy(l, &middle, &x);
    return whole;
}

/* A vector over the channels, broadcast to them. */
static view_t over_channels(const view_t *bias, uint32_t rank)
{
    view_t v = *bias;
    v.rank = rank - 1;
    for (uint32_t d = 1; d < v.rank; d++) {
        v.dims[d] = 1;
        v.strides[d] = 0;
    }
    return v;
}

/* Bias, residual and one activation, in this order, can be cuDNN's; `tail` has them all for when it refuses. */
static bool read_tail(lower_t *l, const node_t *node, const view_t *y, const view_t *bias, conv_step_t *c,
                      ew_t *tail, view_t *residual)
{
    uint32_t n = 0;
    *tail = (ew_t){.views = {*y}, .view_count = 1, .compute = DTYPE_F32};
    view_t wide = over_channels(bias, y->rank);
    if (c->has_bias && !ew_add_view(tail, EW_ADD, &wide))
        return false;
    c->act = (k_ew_op_t){.op = EW_IDENTITY};
    if (n < node->epilogue_count && node->epilogue[n].kind == EPILOGUE_ADD) {
        *residual = lower_dense(l, node->epilogue[n++].value, y->dtype, LAYOUT_CHANNELS_LAST);
        c->has_residual = true;
        if (!ew_add_view(tail, EW_ADD, residual))
            return false;
    }
    if (!ew_add_epilogue(l, tail, node, n))
        return false;
    bool one = n + 1 == node->epilogue_count && node->epilogue[n].kind == EPILOGUE_UNARY;
    if (one)
        c->act = tail->ops[tail->op_count - 1];
    c->fusable = one || n == node->epilogue_count;
    return true;
}

static void describe(conv_step_t *c, const window_t *w, const view_t *x, const view_t *y,
                     const view_t *weights)
{
    k_conv_t *k = &c->direct;
    view_t x5 = five(x), y5 = five(y), w5 = five(weights);
    view_space(&y5, &k->space);
    view_strides(&x5, &k->in);
    view_strides(&y5, &k->out);
    view_strides(&w5, &k->weights);
    k->in_channels = (int32_t)x->dims[1];
    k->out_channels = (int32_t)y->dims[1];
    spread(w, w->in, 1, k->size);
    spread(w, w->kernel, 1, k->kernel);
    spread(w, w->stride, 1, k->stride);
    spread(w, w->dilation, 1, k->dilation);
    spread(w, w->before, 0, k->before);
    c->spatial = w->dims < 2 ? 2 : w->dims;
    c->dtype = y->dtype;
    for (uint32_t d = 0; d < w->dims; d++)
        c->after[3 - w->dims + d] = w->after[d];
    for (uint32_t d = 0; d < DIMS; d++) {
        c->x[d] = x5.dims[d];
        c->y[d] = y5.dims[d];
        c->w[d] = w5.dims[d];
    }
}

static status_t add_conv(lower_t *l, const node_t *node, window_t *w, bool transposed)
{
    step_t step = {.kind = STEP_CONV};
    conv_step_t *c = &step.u.conv;
    const attr_t *group = node_attr(node, "group");
    ew_t tail;
    view_t residual = {0}, bias = {0};
    view_t x = lower_dense(l, node->in[0], l->storage, LAYOUT_CHANNELS_LAST);
    view_t weights = lower_dense(l, node->in[1], l->storage, LAYOUT_CHANNELS_LAST);
    if (!transposed && !pads_evenly(w))
        x = padded(l, x, w);
    view_t y = lower_result(l, node->out[0], LAYOUT_CHANNELS_LAST);
    c->has_bias = lower_input(node, 2) >= 0;
    if (c->has_bias)
        bias = lower_dense(l, node->in[2], l->storage, LAYOUT_PLAIN);
    describe(c, w, &x, &y, &weights);
    c->direct.transposed = transposed;
    c->direct.groups = group && group->kind == ATTR_INT ? (int32_t)group->i : 1;
    if (!read_tail(l, node, &y, &bias, c, &tail, &residual) || !ew_kernel(&tail, &y, &c->tail.ew))
        return lower_fail(l, STATUS_INTERNAL, "the epilogue of a convolution does not fit it");
    c->fusable &= !transposed && pads_evenly(w);
    lower_add(l, &step);
    lower_bind(l, LOWER_FIELD(conv.direct.in.base), &x);
    lower_bind(l, LOWER_FIELD(conv.direct.weights.base), &weights);
    lower_bind(l, LOWER_FIELD(conv.direct.out.base), &y);
    if (c->has_bias)
        lower_bind(l, LOWER_FIELD(conv.bias.base), &bias);
    if (c->has_residual)
        lower_bind(l, LOWER_FIELD(conv.residual.base), &residual);
    ew_bind(l, &tail, &y, LOWER_FIELD(conv.tail.ew));
    lower_define(l, node->out[0], &y);
    return l->status;
}

static bool all_f32(const lower_t *l, const node_t *node)
{
    for (uint32_t i = 0; i < node->in_count; i++)
        if (node->in[i] >= 0 && lower_tensor(l, node->in[i])->dtype != DTYPE_F32)
            return false;
    return true;
}

status_t lower_conv(lower_t *l, const node_t *node)
{
    lower_ctx_t c;
    window_t w;
    const tensor_t *weights = lower_tensor(l, node->in[1]);
    if (!all_f32(l, node) || !lower_ctx(l, node, &c) ||
        window_read(&c.ctx, &w, weights->dims + 2) != STATUS_OK)
        return STATUS_UNSUPPORTED;
    return add_conv(l, node, &w, false);
}

status_t lower_conv_transpose(lower_t *l, const node_t *node)
{
    lower_ctx_t c;
    window_t w;
    const tensor_t *weights = lower_tensor(l, node->in[1]);
    bool ready = all_f32(l, node) && lower_ctx(l, node, &c) &&
                 window_read_transposed(&c.ctx, &w, weights->dims + 2) == STATUS_OK;
    return ready ? add_conv(l, node, &w, true) : STATUS_UNSUPPORTED;
}

/* ---- pools ---- */

status_t lower_pool(lower_t *l, const node_t *node)
{
    lower_ctx_t c;
    window_t w;
    step_t step = {.kind = STEP_KERNEL, .kernel = KERNEL_POOL};
    k_pool_t *k = &step.u.pool;
    const tensor_t *x = lower_tensor(l, node->in[0]);
    const attr_t *kernel = node_attr(node, "kernel_shape");
    bool ready = x->dtype == DTYPE_F32 && x->rank >= 3 && x->rank <= DIMS && lower_single_output(node) &&
                 kernel && kernel->count == x->rank - 2 && lower_ctx(l, node, &c) &&
                 window_read(&c.ctx, &w, kernel->ints) == STATUS_OK;
    if (!ready)
        return STATUS_UNSUPPORTED;
    view_t in = lower_view(l, node->in[0]);
    view_t out = lower_result(l, node->out[0],
                              view_is(&in, LAYOUT_CHANNELS_LAST) ? LAYOUT_CHANNELS_LAST : LAYOUT_PLAIN);
    view_t in5 = five(&in), out5 = five(&out);
    view_space(&out5, &k->space);
    view_strides(&out5, &k->out);
    view_strides(&in5, &k->in);
    k->op = op_is(node, OP_MAX_POOL) ? POOLING_MAX : op_is(node, OP_LP_POOL) ? POOLING_LP : POOLING_AVERAGE;
    k->include_pad = op_int(&c.ctx, "count_include_pad", 0) != 0;
    k->power = (int32_t)op_int(&c.ctx, "p", 2);
    spread(&w, w.in, 1, k->size);
    spread(&w, w.kernel, 1, k->kernel);
    spread(&w, w.stride, 1, k->stride);
    spread(&w, w.dilation, 1, k->dilation);
    spread(&w, w.before, 0, k->before);
    spread(&w, w.after, 0, k->after);
    lower_add(l, &step);
    lower_bind(l, LOWER_FIELD(pool.out.base), &out);
    lower_bind(l, LOWER_FIELD(pool.in.base), &in);
    lower_define(l, node->out[0], &out);
    return l->status;
}
