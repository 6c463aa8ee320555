/*
 * Resize and Upsample, in the layout in which they find their input.
 */
#include "engine/onednn/lower/lower.h"

#include "graph/ops/resize.h"

static dnnl_status_t describe(lower_t *l, const node_t *node, dnnl_alg_kind_t alg, const layout_t *from,
                              dnnl_primitive_desc_t *pd)
{
    const tensor_t *y = lower_tensor(l, node->out[0]);
    dnnl_memory_desc_t dst = md_any(y->rank, y->dims);
    dnnl_resampling_desc_t desc;
    dnnl_status_t status =
        dnnl_resampling_forward_desc_init(&desc, dnnl_forward_inference, alg, NULL, &from->md, &dst);
    return status == dnnl_success ? dnnl_primitive_desc_create(pd, &desc, l->attr, l->engine, NULL) : status;
}

static status_t add_resampling(lower_t *l, const node_t *node, dnnl_alg_kind_t alg)
{
    dnnl_primitive_desc_t pd;
    dnnl_status_t status = describe(l, node, alg, lower_main(l, node->in[0]), &pd);
    if (status != dnnl_success)
        return lower_status(l, status);
    if (lower_is_reference(pd)) {
        dnnl_primitive_desc_destroy(pd);
        return STATUS_UNSUPPORTED;
    }
    return lower_from_main(l, node, pd);
}

/* Pictures: the first two dimensions stay. */
static bool fits(const lower_t *l, const node_t *node)
{
    const tensor_t *x = lower_tensor(l, node->in[0]), *y = lower_tensor(l, node->out[0]);
    return x->dtype == DTYPE_F32 && x->rank >= 3 && x->rank <= 5 && x->dims[0] == y->dims[0] &&
           x->dims[1] == y->dims[1];
}

status_t lower_resize(lower_t *l, const node_t *node)
{
    lower_ctx_t c;
    resize_kind_t kind =
        fits(l, node) && lower_ctx(l, node, &c) ? resize_by_centres(&c.ctx) : RESIZE_OTHERWISE;
    if (kind == RESIZE_OTHERWISE)
        return STATUS_UNSUPPORTED;
    return add_resampling(l, node, kind == RESIZE_NEAREST ? dnnl_resampling_nearest : dnnl_resampling_linear);
}
