/*
 * Convolution and transposed convolution.
 */
#include "engine/onednn/lower/lower.h"

#include "graph/ops/window.h"

#include <string.h>

typedef struct {
    window_t w;
    int64_t groups;
    uint32_t rank;
    dnnl_dims_t weight_dims, strides, dilates, before, after;
    uint32_t weight_rank;
} conv_t;

static bool all_float(const lower_t *l, const node_t *node)
{
    for (uint32_t i = 0; i < node->in_count; i++)
        if (node->in[i] >= 0 && lower_tensor(l, node->in[i])->dtype != DTYPE_F32)
            return false;
    return lower_tensor(l, node->out[0])->dtype == DTYPE_F32;
}

/* oneDNN counts the padding behind from the size of the result. */
static bool read_padding(conv_t *c, bool transposed)
{
    const window_t *w = &c->w;
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
    status_t status = transposed ? window_read_transposed(&ctx.ctx, &c->w, w->dims + 2)
                                 : window_read(&ctx.ctx, &c->w, w->dims + 2);
    if (status != STATUS_OK)
        return false;
    c->groups = op_int(&ctx.ctx, "group", 1);
    c->rank = w->rank;
    return read_padding(c, transposed);
}

/* [O, I, k…] or, with groups, [G, O/G, I/G, k…]; the transposed kind is stored [I, O/G, k…] and seen with
 * I and O swapped. */
static dnnl_memory_desc_t weights_md(conv_t *c, const tensor_t *w, bool transposed)
{
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

static status_t describe(lower_t *l, const node_t *node, const conv_t *c, bool transposed,
                         dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *pd)
{
    const tensor_t *x = lower_tensor(l, node->in[0]), *y = lower_tensor(l, node->out[0]);
    int32_t bias = lower_input(node, 2);
    dnnl_memory_desc_t src = md_any(x->rank, x->dims), dst = md_any(y->rank, y->dims);
    dnnl_memory_desc_t weights = md_any(c->weight_rank, c->weight_dims), bias_md = {0};
    if (bias >= 0)
        md_of(lower_tensor(l, bias), &bias_md);
    dnnl_convolution_desc_t conv;
    dnnl_deconvolution_desc_t deconv;
    dnnl_status_t status =
        transposed ? dnnl_dilated_deconvolution_forward_desc_init(
                         &deconv, dnnl_forward_inference, dnnl_deconvolution_direct, &src, &weights,
                         bias >= 0 ? &bias_md : NULL, &dst, c->strides, c->dilates, c->before, c->after)
                   : dnnl_dilated_convolution_forward_desc_init(
                         &conv, dnnl_forward_inference, dnnl_convolution_direct, &src, &weights,
                         bias >= 0 ? &bias_md : NULL, &dst, c->strides, c->dilates, c->before, c->after);
    if (status == dnnl_success)
        status = dnnl_primitive_desc_create(pd, transposed ? (void *)&deconv : (void *)&conv, attr, l->engine,
                                            NULL);
    return lower_status(l, status);
}

/* With the first `fused` entries of the epilogue. */
static status_t describe_fused(lower_t *l, const node_t *node, const conv_t *c, bool transposed,
                               uint32_t fused, dnnl_primitive_desc_t *pd, int32_t *sum)
{
    node_t head = *node;
    dnnl_primitive_attr_t attr;
    head.epilogue_count = fused;
    status_t status = lower_attr(l, &head, &attr, sum);
    if (status != STATUS_OK)
        return status;
    status = describe(l, node, c, transposed, attr, pd);
    dnnl_primitive_attr_destroy(attr);
    return status;
}

/* The first addition behind a function; their number when there is none. */
static uint32_t late_addition(const node_t *node)
{
    uint32_t i = 1;
    while (i < node->epilogue_count && node->epilogue[i].kind != EPILOGUE_ADD)
        i++;
    return i < node->epilogue_count ? i : node->epilogue_count;
}

/* Without AVX-512 oneDNN's kernels take an addition before a function only: the residual behind Conv and SiLU is a step of
 * its own there, for the reference takes forty times as long. */
static status_t describe_fast(lower_t *l, const node_t *node, const conv_t *c, bool transposed,
                              uint32_t *fused, dnnl_primitive_desc_t *pd, int32_t *sum)
{
    *fused = node->epilogue_count;
    status_t status = describe_fused(l, node, c, transposed, *fused, pd, sum);
    uint32_t late = late_addition(node);
    if (status != STATUS_OK || late == *fused || !lower_is_reference(*pd))
        return status;
    dnnl_primitive_desc_destroy(*pd);
    *fused = late;
    return describe_fused(l, node, c, transposed, late, pd, sum);
}

static status_t add_conv(lower_t *l, const node_t *node, conv_t *c, bool transposed)
{
    const tensor_t *w = lower_tensor(l, node->in[1]);
    dnnl_memory_desc_t seen = weights_md(c, w, transposed);
    dnnl_primitive_desc_t pd;
    uint32_t fused;
    int32_t sum;
    status_t status = describe_fast(l, node, c, transposed, &fused, &pd, &sum);
    if (status != STATUS_OK)
        return status;
    dnnl_memory_desc_t src = *dnnl_primitive_desc_query_md(pd, dnnl_query_src_md, 0);
    dnnl_memory_desc_t dst = *dnnl_primitive_desc_query_md(pd, dnnl_query_dst_md, 0);
    dnnl_memory_desc_t weights = *dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    lower_arg_t args[4] = {{DNNL_ARG_SRC, lower_need(l, node->in[0], &src), src},
                           {DNNL_ARG_WEIGHTS, lower_weights(l, node->in[1], &seen, &weights), weights},
                           {DNNL_ARG_DST, UINT32_MAX, dst}};
    args[2].buffer =
        sum >= 0 ? lower_sum_target(l, node, sum, &dst) : lower_buffer(l, dnnl_memory_desc_get_size(&dst));
    uint32_t count = 3, to = args[2].buffer;
    if (lower_input(node, 2) >= 0) {
        args[count] = (lower_arg_t){.arg = DNNL_ARG_BIAS, .buffer = lower_plain(l, node->in[2])};
        md_of(lower_tensor(l, node->in[2]), &args[count++].md);
    }
    status = lower_step(l, node, pd, args, count);
    if (status == STATUS_OK)
        status = lower_rest(l, node, fused, &dst, to);
    return status == STATUS_OK ? lower_define(l, node->out[0], &dst, to) : status;
}

status_t lower_conv(lower_t *l, const node_t *node)
{
    conv_t c;
    return read_conv(l, node, &c, false) ? add_conv(l, node, &c, false) : STATUS_UNSUPPORTED;
}

status_t lower_conv_transpose(lower_t *l, const node_t *node)
{
    conv_t c;
    return read_conv(l, node, &c, true) ? add_conv(l, node, &c, true) : STATUS_UNSUPPORTED;
}
