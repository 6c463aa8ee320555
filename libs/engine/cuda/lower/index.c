/*
 * Gathering by index, and padding.
 */
#include "engine/cuda/lower/lower.h"

#include <string.h>

static uint32_t axis_of(const node_t *node, uint32_t rank)
{
    const attr_t *a = node_attr(node, "axis");
    int64_t axis = a && a->kind == ATTR_INT ? a->i : 0;
    return (uint32_t)(axis < 0 ? axis + rank : axis);
}

/* One constant index is a slice: the first token of a sentence, the query of query, key and value. */
static bool gather_one(lower_t *l, const node_t *node, uint32_t axis)
{
    const tensor_t *index = lower_tensor(l, node->in[1]), *y = lower_tensor(l, node->out[0]);
    view_t v = lower_view(l, node->in[0]), out;
    if (!index->data || tensor_count(index) != 1)
        return false;
    int64_t at = tensor_get_i64(index, 0);
    at = at < 0 ? at + v.dims[axis] : at;
    if (at < 0 || at >= v.dims[axis])
        return false;
    view_slice(&v, axis, at, 1, 1);
    if (!view_reshape(&v, y->rank, y->dims, &out))
        return false;
    lower_define(l, node->out[0], &out);
    return true;
}

status_t lower_gather(lower_t *l, const node_t *node)
{
    const tensor_t *x = lower_tensor(l, node->in[0]), *index = lower_tensor(l, node->in[1]);
    uint32_t axis = axis_of(node, x->rank);
    step_t step = {.kind = STEP_KERNEL, .kernel = KERNEL_GATHER};
    k_gather_t *k = &step.u.gather;
    if (gather_one(l, node, axis))
        return l->status;
    view_t from = lower_dense(l, node->in[0], lower_stored_type(l, x->dtype), LAYOUT_PLAIN);
    view_t by = lower_plain(l, node->in[1]), out = lower_result(l, node->out[0], LAYOUT_PLAIN);
    k->size_bytes = (int32_t)dtype_size(out.dtype);
    k->index_dtype = (int32_t)by.dtype;
    k->outer = (int32_t)tensor_count_range(x, 0, axis);
    k->inner = (int32_t)tensor_count_range(x, axis + 1, x->rank);
    k->dim = (int32_t)x->dims[axis];
    k->indices = (int32_t)tensor_count(index);
    lower_add(l, &step);
    lower_bind(l, LOWER_FIELD(gather.in), &from);
    lower_bind(l, LOWER_FIELD(gather.index), &by);
    lower_bind(l, LOWER_FIELD(gather.out), &out);
    lower_define(l, node->out[0], &out);
    return l->status;
}

status_t lower_gather_elements(lower_t *l, const node_t *node)
{
    step_t step = {.kind = STEP_KERNEL, .kernel = KERNEL_GATHER_ELEMENTS};
    k_gather_elements_t *k = &step.u.gather_elements;
    view_t from = lower_view(l, node->in[0]), by = lower_view(l, node->in[1]);
    view_t out = lower_new(l, from.dtype, by.rank, by.dims, LAYOUT_PLAIN);
    k->axis = (int32_t)axis_of(node, from.rank);
    k->dim = (int32_t)from.dims[k->axis];
    k->size_bytes = (int32_t)dtype_size(out.dtype);
    view_space(&out, &k->space);
    view_strides(&out, &k->out);
    view_strides(&from, &k->in);
    view_strides(&by, &k->index);
    lower_add(l, &step);
    lower_bind(l, LOWER_FIELD(gather_elements.in.base), &from);
    lower_bind(l, LOWER_FIELD(gather_elements.index.base), &by);
    lower_bind(l, LOWER_FIELD(gather_elements.out.base), &out);
    lower_define(l, node->out[0], &out);
    return l->status;
}

/* ---- padding ---- */

/* Padding in front of each dimension; false when it is given in a way that only the reference kernel reads. */
static bool read_before(const lower_t *l, const node_t *node, int64_t *before)
{
    lower_ctx_t c;
    ints_t pads;
    uint32_t rank = lower_tensor(l, node->in[0])->rank;
    if (!lower_ctx(l, node, &c) || lower_input(node, 3) >= 0 ||
        op_read_ints_either(&c.ctx, node->opset < 2 ? "paddings" : "pads", 1, &pads) != STATUS_OK ||
        pads.count != 2 * rank)
        return false;
    for (uint32_t i = 0; i < 2 * rank; i++)
        if (pads.v[i] < 0 || pads.v[i] > INT32_MAX)
            return false;
    memcpy(before, pads.v, rank * sizeof *before);
    return true;
}

static void fill_with(lower_t *l, const view_t *out, double value)
{
    step_t step = {.kind = STEP_KERNEL, .kernel = KERNEL_FILL, .what = "fill"};
    tensor_t one = {.dtype = DTYPE_F32};
    float number = (float)value;
    uint64_t bits = 0;
    one.data = &number;
    constant_t c = {.from = one, .dtype = out->dtype, .len_bytes = dtype_size(out->dtype)};
    if (value != 0)
        constant_write(&c, &bits);
    step.u.fill = (k_fill_t){
        .size_bytes = (int32_t)dtype_size(out->dtype), .count = (int32_t)view_count(out), .bits = bits};
    lower_add(l, &step);
    lower_bind(l, LOWER_FIELD(fill.base), out);
}

static bool pad_value(const lower_t *l, const node_t *node, double *value)
{
    const attr_t *a = node_attr(node, "value");
    int32_t in = lower_input(node, 2);
    const tensor_t *t = in < 0 ? NULL : lower_tensor(l, in);
    *value = a && a->kind == ATTR_FLOAT ? (double)a->f : 0;
    if (!t || !tensor_count(t))
        return true;
    if (!t->data)
        return false;
    *value = tensor_get_f64(t, 0);
    return true;
}

static status_t pad_constant(lower_t *l, const node_t *node, const int64_t *before)
{
    double value;
    view_t from = lower_view(l, node->in[0]);
    dtype_t dtype = lower_tensor(l, node->in[0])->dtype;
    if (!pad_value(l, node, &value) || (dtype != DTYPE_F32 && value != 0))
        return STATUS_UNSUPPORTED;
    view_t out = lower_result(l, node->out[0],
                              view_is(&from, LAYOUT_CHANNELS_LAST) ? LAYOUT_CHANNELS_LAST : LAYOUT_PLAIN);
    view_t middle = out;
    for (uint32_t d = 0; d < out.rank; d++)
        view_slice(&middle, d, before[d], from.dims[d], 1);
    fill_with(l, &out, value);
    lower_copy(l, &middle, &from);
    lower_define(l, node->out[0], &out);
    return l->status;
}

static status_t pad_mirrored(lower_t *l, const node_t *node, const int64_t *before, const char *mode)
{
    step_t step = {.kind = STEP_KERNEL, .kernel = KERNEL_PAD};
    k_pad_t *k = &step.u.pad;
    view_t from = lower_view(l, node->in[0]);
    view_t out = lower_new(l, from.dtype, from.rank, lower_tensor(l, node->out[0])->dims, LAYOUT_PLAIN);
    k->mode = *mode == 'e' ? PADDING_EDGE : *mode == 'w' ? PADDING_WRAP : PADDING_REFLECT;
    k->size_bytes = (int32_t)dtype_size(from.dtype);
    view_space(&out, &k->space);
    view_strides(&out, &k->out);
    view_strides(&from, &k->in);
    for (uint32_t d = 0; d < from.rank; d++) {
        k->before[d] = (int32_t)before[d];
        k->in_dims[d] = (int32_t)from.dims[d];
    }
    lower_add(l, &step);
    lower_bind(l, LOWER_FIELD(pad.in.base), &from);
    lower_bind(l, LOWER_FIELD(pad.out.base), &out);
    lower_define(l, node->out[0], &out);
    return l->status;
}

status_t lower_pad(lower_t *l, const node_t *node)
{
    int64_t before[TENSOR_MAX_RANK];
    const attr_t *a = node_attr(node, "mode");
    const char *mode = a && a->kind == ATTR_STRING ? a->s : "constant";
    if (!read_before(l, node, before))
        return STATUS_UNSUPPORTED;
    return strcmp(mode, "constant") ? pad_mirrored(l, node, before, mode) : pad_constant(l, node, before);
}
