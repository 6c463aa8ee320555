/*
 * Operators that move data. Most only make a view; the rest are copies into parts of the result.
 */
#include "engine/cuda/lower/lower.h"

#include <string.h>

static status_t define_reshaped(lower_t *l, int32_t value, const view_t *from)
{
    const tensor_t *t = lower_tensor(l, value);
    view_t out;
    if (!view_reshape(from, t->rank, t->dims, &out))
        return STATUS_UNSUPPORTED;
    lower_define(l, value, &out);
    return l->status;
}

/* The same elements in row-major order under another shape. */
status_t lower_reshape(lower_t *l, const node_t *node)
{
    if (!lower_single_output(node))
        return STATUS_UNSUPPORTED;
    view_t from = lower_view(l, node->in[0]);
    status_t status = define_reshaped(l, node->out[0], &from);
    if (status != STATUS_UNSUPPORTED)
        return status;
    from = lower_plain(l, node->in[0]);
    return define_reshaped(l, node->out[0], &from);
}

status_t lower_transpose(lower_t *l, const node_t *node)
{
    view_t from = lower_view(l, node->in[0]), out;
    const attr_t *perm = node_attr(node, "perm");
    uint32_t order[TENSOR_MAX_RANK];
    for (uint32_t d = 0; d < from.rank; d++)
        order[d] = perm ? (uint32_t)perm->ints[d] : from.rank - 1 - d;
    view_permute(&from, order, &out);
    lower_define(l, node->out[0], &out);
    return l->status;
}

status_t lower_expand(lower_t *l, const node_t *node)
{
    view_t from = lower_view(l, node->in[0]), out;
    const tensor_t *t = lower_tensor(l, node->out[0]);
    if (!view_broadcast(&from, t->rank, t->dims, &out))
        return STATUS_UNSUPPORTED;
    lower_define(l, node->out[0], &out);
    return l->status;
}

static int64_t first_of(int64_t start, int64_t dim, int64_t step)
{
    start = start < 0 ? start + dim : start;
    int64_t highest = step > 0 ? dim : dim - 1;
    return start < 0 ? 0 : start > highest ? highest : start;
}

status_t lower_slice(lower_t *l, const node_t *node)
{
    lower_ctx_t c;
    ints_t starts, axes, steps;
    view_t v = lower_view(l, node->in[0]);
    const tensor_t *out = lower_tensor(l, node->out[0]);
    bool ready = lower_ctx(l, node, &c) && op_read_ints_either(&c.ctx, "starts", 1, &starts) == STATUS_OK &&
                 op_read_ints_either(&c.ctx, "axes", 3, &axes) == STATUS_OK &&
                 op_read_ints(&c.ctx, 4, &steps) == STATUS_OK;
    if (!ready || l->status != STATUS_OK)
        return ready ? l->status : STATUS_UNSUPPORTED;
    for (uint32_t i = 0; i < starts.count; i++) {
        int64_t axis = axes.count ? axes.v[i] : i, step = steps.count ? steps.v[i] : 1;
        uint32_t d = (uint32_t)(axis < 0 ? axis + v.rank : axis);
        int64_t count = out->dims[d];
        view_slice(&v, d, first_of(starts.v[i], v.dims[d], step), count, count > 1 ? step : 1);
    }
    lower_define(l, node->out[0], &v);
    return l->status;
}

static uint32_t axis_of(const node_t *node, int64_t otherwise, uint32_t rank)
{
    const attr_t *a = node_attr(node, "axis");
    int64_t axis = a && a->kind == ATTR_INT ? a->i : otherwise;
    return (uint32_t)(axis < 0 ? axis + rank : axis);
}

status_t lower_split(lower_t *l, const node_t *node)
{
    view_t whole = lower_view(l, node->in[0]);
    uint32_t axis = axis_of(node, 0, whole.rank);
    int64_t at = 0;
    for (uint32_t i = 0; i < node->out_count; i++) {
        if (node->out[i] < 0) /* its size is not known without a shape */
            return STATUS_UNSUPPORTED;
        view_t part = whole;
        int64_t count = lower_tensor(l, node->out[i])->dims[axis];
        view_slice(&part, axis, at, count, 1);
        at += count;
        lower_define(l, node->out[i], &part);
    }
    return l->status;
}

/* Channels stay innermost when they are so in every input of a concatenation. */
static layout_kind_t common_layout(lower_t *l, const node_t *node)
{
    for (uint32_t i = 0; i < node->in_count; i++) {
        view_t v = lower_view(l, node->in[i]);
        if (!view_is(&v, LAYOUT_CHANNELS_LAST))
            return LAYOUT_PLAIN;
    }
    return LAYOUT_CHANNELS_LAST;
}

/* Whether rows of all inputs lie as rows of the result do; `outer` of them then. */
static bool in_rows(lower_t *l, const node_t *node, const view_t *out, layout_kind_t layout, uint32_t axis,
                    int64_t *outer)
{
    if (layout == LAYOUT_CHANNELS_LAST && !view_is(out, LAYOUT_PLAIN) && axis != 1)
        return false;
    for (uint32_t i = 0; i < node->in_count; i++) {
        view_t v = lower_view(l, node->in[i]);
        if (v.dtype != out->dtype || !view_is(&v, layout))
            return false;
    }
    bool last = axis == 1 && layout == LAYOUT_CHANNELS_LAST;
    *outer = 1;
    for (uint32_t d = 0; d < out->rank; d++)
        *outer *= d < axis || (last && d != 1) ? out->dims[d] : 1;
    return true;
}

/* Many inputs by one kernel: dense networks concatenate some dozens, over and over. */
static void concat_rows(lower_t *l, const node_t *node, const view_t *out, int64_t outer)
{
    int32_t pitch = (int32_t)(view_count(out) / outer), first = 0;
    for (uint32_t i = 0; i < node->in_count;) {
        view_t views[K_MAX_PARTS];
        step_t step = {.kind = STEP_KERNEL, .kernel = KERNEL_CONCAT};
        k_concat_t *k = &step.u.concat;
        *k = (k_concat_t){.pitch = pitch, .first = first, .size_bytes = (int32_t)dtype_size(out->dtype)};
        for (; i < node->in_count && k->parts < K_MAX_PARTS; i++) {
            views[k->parts] = lower_view(l, node->in[i]);
            int32_t width = (int32_t)(view_count(&views[k->parts]) / outer);
            k->starts[k->parts + 1] = k->starts[k->parts] + width;
            k->parts++;
        }
        k->count = (int32_t)outer * k->starts[k->parts];
        first += k->starts[k->parts];
        lower_add(l, &step);
        lower_bind(l, LOWER_FIELD(concat.out), out);
        for (int32_t p = 0; p < k->parts; p++)
            lower_bind(l, LOWER_FIELD(concat.in) + (size_t)p * sizeof(void *), &views[p]);
    }
}

status_t lower_concat(lower_t *l, const node_t *node)
{
    layout_kind_t layout = common_layout(l, node);
    view_t out = lower_result(l, node->out[0], layout);
    uint32_t axis = axis_of(node, 1, out.rank);
    int64_t at = 0, outer;
    if (in_rows(l, node, &out, layout, axis, &outer)) {
        concat_rows(l, node, &out, outer);
        lower_define(l, node->out[0], &out);
        return l->status;
    }
    for (uint32_t i = 0; i < node->in_count; i++) {
        view_t part = out, from = lower_view(l, node->in[i]);
        view_slice(&part, axis, at, from.dims[axis], 1);
        at += from.dims[axis];
        lower_copy(l, &part, &from);
    }
    lower_define(l, node->out[0], &out);
    return l->status;
}

/* The input under `before`, permuted, copied into the result. */
static status_t shuffle(lower_t *l, const node_t *node, const int64_t before[6], const uint32_t perm[6])
{
    view_t from = lower_plain(l, node->in[0]), wide, turned;
    if (!view_reshape(&from, 6, before, &wide))
        return STATUS_UNSUPPORTED;
    view_permute(&wide, perm, &turned);
    view_t made = lower_new(l, turned.dtype, 6, turned.dims, LAYOUT_PLAIN);
    lower_copy(l, &made, &turned);
    return define_reshaped(l, node->out[0], &made);
}

status_t lower_depth_to_space(lower_t *l, const node_t *node)
{
    const tensor_t *x = lower_tensor(l, node->in[0]);
    const attr_t *size = node_attr(node, "blocksize"), *mode = node_attr(node, "mode");
    int64_t b = size ? size->i : 1, c = x->dims[1] / (b * b);
    if (mode && !strcmp(mode->s, "CRD"))
        return shuffle(l, node, (int64_t[]){x->dims[0], c, b, b, x->dims[2], x->dims[3]},
                       (uint32_t[]){0, 1, 4, 2, 5, 3});
    return shuffle(l, node, (int64_t[]){x->dims[0], b, b, c, x->dims[2], x->dims[3]},
                   (uint32_t[]){0, 3, 4, 1, 5, 2});
}

status_t lower_space_to_depth(lower_t *l, const node_t *node)
{
    const tensor_t *x = lower_tensor(l, node->in[0]);
    const attr_t *size = node_attr(node, "blocksize");
    int64_t b = size ? size->i : 1;
    return shuffle(l, node, (int64_t[]){x->dims[0], x->dims[1], x->dims[2] / b, b, x->dims[3] / b, b},
                   (uint32_t[]){0, 3, 5, 1, 2, 4});
}

/* [d0, d1] repeated is [r0, d0, r1, d1], of which r0 and r1 have stride 0. */
status_t lower_tile(lower_t *l, const node_t *node)
{
    const tensor_t *x = lower_tensor(l, node->in[0]), *y = lower_tensor(l, node->out[0]);
    view_t from = lower_view(l, node->in[0]), wide = from;
    if (2 * x->rank > TENSOR_MAX_RANK)
        return STATUS_UNSUPPORTED;
    wide.rank = 2 * x->rank;
    for (uint32_t d = 0; d < x->rank; d++) {
        wide.dims[2 * d] = y->dims[d] / x->dims[d];
        wide.strides[2 * d] = 0;
        wide.dims[2 * d + 1] = x->dims[d];
        wide.strides[2 * d + 1] = from.strides[d];
    }
    view_t made = lower_new(l, from.dtype, wide.rank, wide.dims, LAYOUT_PLAIN);
    lower_copy(l, &made, &wide);
    return define_reshaped(l, node->out[0], &made);
}
