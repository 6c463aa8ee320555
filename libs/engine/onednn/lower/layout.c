/*
 * Operators that move data: views cost nothing, transpositions are reorders, Concat is a primitive.
 */
#include "engine/onednn/lower/lower.h"

#include <string.h>

/* The same bytes under another shape; only a row-major value can be seen so. */
status_t lower_reshape(lower_t *l, const node_t *node)
{
    if (node->out[0] < 0 || (node->out_count > 1 && node->out[1] >= 0))
        return STATUS_UNSUPPORTED;
    uint32_t buffer = lower_plain(l, node->in[0]);
    if (buffer == UINT32_MAX)
        return l->err->code;
    lower_share(l, node->in[0], buffer);
    return lower_define(l, node->out[0], NULL, buffer);
}

/* Even the layout stays. */
status_t lower_identity(lower_t *l, const node_t *node)
{
    if (node->out[0] < 0 || (node->out_count > 1 && node->out[1] >= 0))
        return STATUS_UNSUPPORTED;
    const layout_t main = *lower_main(l, node->in[0]);
    return lower_define(l, node->out[0], main.plain ? NULL : &main.md, main.buffer);
}

/* Padding by nothing, which some exporters put before every average pool, keeps the layout too. */
status_t lower_pad(lower_t *l, const node_t *node)
{
    bool nothing = tensor_same_shape(lower_tensor(l, node->in[0]), lower_tensor(l, node->out[0]));
    const attr_t *attr = node_attr(node, "pads");
    int32_t input = lower_input(node, 1);
    const tensor_t *pads = input >= 0 ? lower_tensor(l, input) : NULL;
    for (uint32_t i = 0; attr && i < attr->count; i++)
        nothing &= attr->ints[i] == 0;
    for (size_t i = 0; pads && i < tensor_count(pads); i++)
        nothing &= pads->data && tensor_get_i64(pads, i) == 0;
    return nothing && (attr || pads) ? lower_identity(l, node) : STATUS_UNSUPPORTED;
}

/*
 * The same bytes with the strides permuted: no copy until a reader wants another layout, and products read it as it is.
 */
status_t lower_transpose(lower_t *l, const node_t *node)
{
    const tensor_t *x = lower_tensor(l, node->in[0]), *y = lower_tensor(l, node->out[0]);
    const attr_t *perm = node_attr(node, "perm");
    const layout_t main = *lower_main(l, node->in[0]);
    int64_t strides[TENSOR_MAX_RANK];
    if (x->dtype != DTYPE_F32 || !x->rank || x->rank > 6)
        return STATUS_UNSUPPORTED;
    bool strided = !main.md.format_desc.blocking.inner_nblks && main.md.format_kind == dnnl_blocked;
    uint32_t buffer = strided ? main.buffer : lower_plain(l, node->in[0]);
    if (buffer == UINT32_MAX)
        return l->err->code;
    int64_t own[TENSOR_MAX_RANK];
    tensor_strides(x, own);
    for (uint32_t d = 0; strided && d < x->rank; d++)
        own[d] = main.md.format_desc.blocking.strides[d];
    for (uint32_t d = 0; d < x->rank; d++)
        strides[d] = own[perm ? perm->ints[d] : x->rank - 1 - d];
    lower_share(l, node->in[0], buffer);
    dnnl_memory_desc_t md = md_strided(y->rank, y->dims, strides);
    return lower_define(l, node->out[0], &md, buffer);
}

static status_t add_concat(lower_t *l, const node_t *node, int axis, const dnnl_memory_desc_t *mds)
{
    lower_arg_t args[LOWER_MAX_ARGS];
    dnnl_primitive_desc_t pd;
    uint32_t n = node->in_count;
    dnnl_status_t made = dnnl_concat_primitive_desc_create(&pd, NULL, (int)n, axis, mds, l->attr, l->engine);
    if (made != dnnl_success)
        return lower_status(l, made);
    dnnl_memory_desc_t dst = *dnnl_primitive_desc_query_md(pd, dnnl_query_dst_md, 0);
    for (uint32_t i = 0; i < n; i++)
        args[i] = (lower_arg_t){DNNL_ARG_MULTIPLE_SRC + (int)i, lower_need(l, node->in[i], &mds[i]), mds[i]};
    args[n] = (lower_arg_t){DNNL_ARG_DST, lower_buffer(l, dnnl_memory_desc_get_size(&dst)), dst};
    uint32_t to = args[n].buffer;
    status_t status = lower_step(l, node, pd, args, n + 1);
    return status == STATUS_OK ? lower_define(l, node->out[0], &dst, to) : status;
}

static bool is_unpadded(const dnnl_memory_desc_t *md)
{
    for (int d = 0; d < md->ndims; d++)
        if (md->padded_dims[d] != md->dims[d])
            return false;
    return true;
}

/* Blocks alike, and the dimensions in the same order from far to near. */
static bool is_alike(const dnnl_memory_desc_t *a, const dnnl_memory_desc_t *b)
{
    const dnnl_blocking_desc_t *x = &a->format_desc.blocking, *y = &b->format_desc.blocking;
    bool alike = x->inner_nblks == y->inner_nblks;
    for (int i = 0; alike && i < x->inner_nblks; i++)
        alike = x->inner_blks[i] == y->inner_blks[i] && x->inner_idxs[i] == y->inner_idxs[i];
    for (int d = 0; alike && d < a->ndims; d++)
        for (int e = 0; e < d; e++)
            alike &= (x->strides[d] < x->strides[e]) == (y->strides[d] < y->strides[e]);
    return alike;
}

/* Channels last, for inputs that were made in different layouts. */
static bool channels_last(const tensor_t *t, dnnl_memory_desc_t *md)
{
    static const dnnl_format_tag_t tags[] = {[3] = dnnl_acb, [4] = dnnl_acdb, [5] = dnnl_acdeb};
    dnnl_dims_t dims = {0};
    if (t->rank < 3 || t->rank > 5)
        return false;
    memcpy(dims, t->dims, t->rank * sizeof *dims);
    return dnnl_memory_desc_init_by_tag(md, (int)t->rank, dims, dnnl_f32, tags[t->rank]) == dnnl_success;
}

/*
 * Each input as it is when all are alike and none is padded; else channels last when some input already is not
 * row-major; else row-major.
 */
status_t lower_concat(lower_t *l, const node_t *node)
{
    const tensor_t *y = lower_tensor(l, node->out[0]);
    const attr_t *axis = node_attr(node, "axis");
    int64_t at = axis && axis->kind == ATTR_INT ? axis->i : 1;
    dnnl_memory_desc_t mds[LOWER_MAX_ARGS];
    bool alike = true, plain = true;
    if (y->dtype != DTYPE_F32 || node->in_count + 1 > LOWER_MAX_ARGS)
        return STATUS_UNSUPPORTED;
    at = at < 0 ? at + y->rank : at;
    for (uint32_t i = 0; i < node->in_count; i++) {
        const layout_t *main = lower_main(l, node->in[i]);
        mds[i] = main->md;
        alike &= is_unpadded(&mds[i]) && is_alike(&mds[i], &mds[0]);
        plain &= main->plain;
    }
    for (uint32_t i = 0; !alike && i < node->in_count; i++)
        if (plain || !channels_last(lower_tensor(l, node->in[i]), &mds[i]))
            md_of(lower_tensor(l, node->in[i]), &mds[i]);
    return add_concat(l, node, (int)at, mds);
}
