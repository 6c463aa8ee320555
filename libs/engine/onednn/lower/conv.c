/*
 * Convolution and transposed convolution.
 */
#include "engine/onednn/lower/conv_way.h"

#include <string.h>

static bool all_float(const lower_t *l, const node_t *node)
{
    for (uint32_t i = 0; i < node->in_count; i++)
        if (node->in[i] >= 0 && lower_tensor(l, node->in[i])->dtype != DTYPE_F32)
            return false;
    return lower_tensor(l, node->out[0])->dtype == DTYPE_F32;
}

/* oneDNN counts the padding behind from the size of the result. */
static bool read_padding(conv_t *c)
{
    const window_t *w = &c->w;
    bool transposed = c->transposed;
    for (uint32_t i = 0; i < w->dims; i++) {
        int64_t extent = (w->kernel[i] - 1) * w->dilation[i] + 1;
        c->strides[i] = w->stride[i];
        c->dilates[i] = w->dilation[i] - 1;
        c->before[i] = w->before[i];
        int64_t whole = transposed ? (w->in[i] - 1) * w->stride[i] + extent - w->before[i] - w->out[i]
                                   : (w->out[i] - 1) * w->stride[i] + extent - w->in[i] - w->before[i];
        c->after[i] = whole;
        if (w->before[i] < 0 || (transposed && whole < 0))
            return false;
    }
    return true;
}

static bool read_conv(lower_t *l, const node_t *node, conv_t *c, bool transposed)
{
    lower_ctx_t ctx;
    const tensor_t *w = lower_tensor(l, node->in[1]);
    if (!all_float(l, node) || !lower_ctx(l, node, &ctx))
        return false;
    memset(c, 0, sizeof *c);
    c->transposed = transposed;
    status_t status = transposed ? window_read_transposed(&ctx.ctx, &c->w, w->dims + 2)
                                 : window_read(&ctx.ctx, &c->w, w->dims + 2);
    if (status != STATUS_OK)
        return false;
    c->groups = op_int(&ctx.ctx, "group", 1);
    c->rank = w->rank;
    return read_padding(c);
}

/* [O, I, k…] or, with groups, [G, O/G, I/G, k…]; the transposed kind is stored [I, O/G, k…] and seen with
 * I and O swapped. */
static dnnl_memory_desc_t weights_md(conv_t *c, const tensor_t *w)
{
    bool transposed = c->transposed;
    int64_t strides[DNNL_MAX_NDIMS], own[TENSOR_MAX_RANK], g = c->groups;
    uint32_t skip = g > 1, r = 0;
    tensor_strides(w, own);
    if (skip) {
        c->weight_dims[r] = g;
        strides[r++] = w->dims[0] / g * own[0];
    }
    c->weight_dims[r] = transposed ? w->dims[1] : w->dims[0] / g;
    strides[r++] = transposed ? own[1] : own[0];
    c->weight_dims[r] = transposed ? w->dims[0] / g : w->dims[1];
    strides[r++] = transposed ? own[0] : own[1];
    for (uint32_t d = 2; d < w->rank; d++) {
        c->weight_dims[r] = w->dims[d];
        strides[r++] = own[d];
    }
    c->weight_rank = r;
    return md_strided(r, c->weight_dims, strides);
}

static status_t add_conv(lower_t *l, const node_t *node, conv_t *c)
{
    const tensor_t *w = lower_tensor(l, node->in[1]);
    dnnl_memory_desc_t seen = weights_md(c, w);
    conv_made_t made;
    status_t status = conv_make(l, node, c, &made);
    if (status != STATUS_OK)
        return status;
    dnnl_primitive_desc_t pd = made.pd;
    dnnl_memory_desc_t src = *dnnl_primitive_desc_query_md(pd, dnnl_query_src_md, 0);
    dnnl_memory_desc_t dst = *dnnl_primitive_desc_query_md(pd, dnnl_query_dst_md, 0);
    dnnl_memory_desc_t weights = *dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    lower_arg_t args[4] = {{DNNL_ARG_SRC, lower_need(l, node->in[0], &src), src},
                           {DNNL_ARG_WEIGHTS, lower_weights(l, node->in[1], &seen, &weights), weights},
                           {DNNL_ARG_DST, UINT32_MAX, dst}};
    args[2].buffer = made.sum >= 0 ? lower_sum_target(l, node, made.sum, &dst)
                                   : lower_buffer(l, dnnl_memory_desc_get_size(&dst));
    uint32_t count = 3, to = args[2].buffer;
    if (lower_input(node, 2) >= 0) {
        args[count] = (lower_arg_t){.arg = DNNL_ARG_BIAS, .buffer = lower_plain(l, node->in[2])};
        md_of(lower_tensor(l, node->in[2]), &args[count++].md);
    }
    status = lower_step(l, node, pd, args, count);
    if (status == STATUS_OK)
        status = lower_rest(l, node, made.fused, &dst, to);
    return status == STATUS_OK ? lower_define(l, node->out[0], &dst, to) : status;
}

status_t lower_conv(lower_t *l, const node_t *node)
{
    conv_t c;
    return read_conv(l, node, &c, false) ? add_conv(l, node, &c) : STATUS_UNSUPPORTED;
}

status_t lower_conv_transpose(lower_t *l, const node_t *node)
{
    conv_t c;
    return read_conv(l, node, &c, true) ? add_conv(l, node, &c) : STATUS_UNSUPPORTED;
}
