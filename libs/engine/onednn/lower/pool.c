/*
 * Pools.
 */
#include "engine/onednn/lower/lower.h"

#include "graph/ops/window.h"

#include <string.h>

static status_t add_pool(lower_t *l, const node_t *node, const window_t *w, dnnl_alg_kind_t alg)
{
    const tensor_t *y = lower_tensor(l, node->out[0]);
    layout_t main = *lower_main(l, node->in[0]);
    dnnl_memory_desc_t dst = md_any(y->rank, y->dims);
    dnnl_dims_t strides = {0}, kernel = {0}, dilation = {0}, before = {0}, after = {0};
    for (uint32_t i = 0; i < w->dims; i++) {
        int64_t extent = (w->kernel[i] - 1) * w->dilation[i] + 1;
        int64_t needed = (w->out[i] - 1) * w->stride[i] + extent - w->in[i] - w->before[i];
        strides[i] = w->stride[i];
        kernel[i] = w->kernel[i];
        dilation[i] = w->dilation[i] - 1;
        before[i] = w->before[i];
        after[i] = needed > w->after[i] ? needed : w->after[i];
        /* A window that reaches past the written padding counts differently in an average; oneDNN cannot
         * crop either. */
        bool ragged = needed > w->after[i] && alg == dnnl_pooling_avg_include_padding;
        if (ragged || w->before[i] < 0 || w->after[i] < 0 || before[i] >= extent || after[i] >= extent)
            return STATUS_UNSUPPORTED;
    }
    dnnl_pooling_v2_desc_t desc;
    dnnl_primitive_desc_t pd;
    dnnl_status_t status = dnnl_pooling_v2_forward_desc_init(&desc, dnnl_forward_inference, alg, &main.md,
                                                             &dst, strides, kernel, dilation, before, after);
    if (status == dnnl_success)
        status = dnnl_primitive_desc_create(&pd, &desc, l->attr, l->engine, NULL);
    if (status != dnnl_success)
        return lower_status(l, status);
    return lower_from_main(l, node, pd);
}

static bool fits(const lower_t *l, const node_t *node)
{
    const tensor_t *x = lower_tensor(l, node->in[0]);
    bool indices = node->out_count > 1 && node->out[1] >= 0;
    return x->dtype == DTYPE_F32 && x->rank >= 3 && x->rank <= 5 && !indices && node->out[0] >= 0;
}

status_t lower_pool(lower_t *l, const node_t *node)
{
    lower_ctx_t c;
    window_t w;
    const attr_t *kernel = node_attr(node, "kernel_shape");
    bool ready = fits(l, node) && lower_ctx(l, node, &c) && kernel && kernel->kind == ATTR_INTS &&
                 kernel->count == lower_tensor(l, node->in[0])->rank - 2 &&
                 window_read(&c.ctx, &w, kernel->ints) == STATUS_OK;
    if (!ready)
        return STATUS_UNSUPPORTED;
    dnnl_alg_kind_t alg = op_is(node, OP_MAX_POOL)                 ? dnnl_pooling_max
                          : op_int(&c.ctx, "count_include_pad", 0) ? dnnl_pooling_avg_include_padding
                                                                   : dnnl_pooling_avg_exclude_padding;
    return add_pool(l, node, &w, alg);
}

status_t lower_global_pool(lower_t *l, const node_t *node)
{
    if (!fits(l, node))
        return STATUS_UNSUPPORTED;
    const tensor_t *x = lower_tensor(l, node->in[0]);
    window_t w = {.dims = x->rank - 2};
    for (uint32_t i = 0; i < w.dims; i++) {
        w.in[i] = w.kernel[i] = x->dims[i + 2];
        w.out[i] = w.stride[i] = w.dilation[i] = 1;
    }
    return add_pool(l, node, &w,
                    op_is(node, OP_GLOBAL_MAX_POOL) ? dnnl_pooling_max : dnnl_pooling_avg_exclude_padding);
}
