/*
 * Operators about shapes: the bytes stay as they are, or the result is a shape.
 */
#include "graph/ops/tables.h"

#include <string.h>

static status_t eval_copy(op_ctx_t *c)
{
    size_t bytes = tensor_bytes(c->out[0]);
    if (bytes)
        memcpy(c->out[0]->data, c->in[0]->data, bytes);
    return STATUS_OK;
}

/* 0 copies the input's dimension (unless allowzero), one -1 takes the rest. */
static status_t resolve(op_ctx_t *c, const ints_t *want, tensor_t *out)
{
    const tensor_t *in = c->in[0];
    bool allow_zero = op_int(c, "allowzero", 0);
    size_t known = 1, all = tensor_count(in);
    int open = -1;
    if (want->count > TENSOR_MAX_RANK)
        return op_unsupported(c, "the result has %u dimensions", want->count);
    *out = (tensor_t){.dtype = in->dtype, .rank = want->count};
    for (uint32_t d = 0; d < want->count; d++) {
        int64_t dim = want->v[d];
        if (dim == 0 && !allow_zero) {
            if (d >= in->rank)
                return op_bad(c, "dimension %u is 0, and the input has only %u dimensions", d, in->rank);
            dim = in->dims[d];
        }
        if (dim < -1 || (dim == -1 && open >= 0))
            return op_bad(c, "the wanted shape has a negative dimension, or -1 twice");
        if (dim == -1)
            open = (int)d;
        else if (dim > 0 && known > TENSOR_MAX_BYTES / (size_t)dim)
            return op_bad(c, "the wanted shape is too large");
        else
            known *= (size_t)dim;
        out->dims[d] = dim;
    }
    if (open >= 0)
        out->dims[open] = known ? (int64_t)(all / known) : 0;
    if (tensor_count(out) != all) {
        char a[TENSOR_TEXT_BYTES], b[TENSOR_TEXT_BYTES];
        return op_bad(c, "%s cannot become %s", tensor_text(in, a), tensor_text(out, b));
    }
    return STATUS_OK;
}

static status_t infer_reshape(op_ctx_t *c)
{
    ints_t want;
    tensor_t out;
    status_t status = op_read_ints_either(c, "shape", 1, &want);
    if (status == STATUS_OK)
        status = resolve(c, &want, &out);
    return status == STATUS_OK ? op_set_like(c, 0, &out) : status;
}

static status_t infer_flatten(op_ctx_t *c)
{
    const tensor_t *in = c->in[0];
    int64_t axis = op_int(c, "axis", 1);
    if (axis < -(int64_t)in->rank || axis > in->rank)
        return op_bad(c, "axis %lld is outside a tensor of %u dimensions", (long long)axis, in->rank);
    uint32_t at = (uint32_t)(axis < 0 ? axis + in->rank : axis);
    int64_t dims[2] = {(int64_t)tensor_count_range(in, 0, at), (int64_t)tensor_count_range(in, at, in->rank)};
    return op_set(c, 0, in->dtype, 2, dims);
}

static status_t read_axes(op_ctx_t *c, uint32_t rank, bool *chosen, bool *any)
{
    ints_t axes;
    memset(chosen, 0, (TENSOR_MAX_RANK * 2) * sizeof *chosen);
    status_t status = op_read_ints_either(c, "axes", 1, &axes);
    for (uint32_t i = 0; status == STATUS_OK && i < axes.count; i++) {
        uint32_t axis;
        status = op_axis(c, axes.v[i], rank, &axis);
        if (status == STATUS_OK && chosen[axis])
            status = op_bad(c, "axis %u is given twice", axis);
        if (status == STATUS_OK)
            chosen[axis] = true;
    }
    *any = status == STATUS_OK && axes.count > 0;
    return status;
}

static status_t infer_squeeze(op_ctx_t *c)
{
    const tensor_t *in = c->in[0];
    bool chosen[TENSOR_MAX_RANK * 2], any;
    status_t status = read_axes(c, in->rank, chosen, &any);
    if (status != STATUS_OK)
        return status;
    int64_t dims[TENSOR_MAX_RANK];
    uint32_t rank = 0;
    for (uint32_t d = 0; d < in->rank; d++) {
        if (any ? chosen[d] : in->dims[d] == 1) {
            if (in->dims[d] != 1)
                return op_bad(c, "dimension %u is %lld, not 1", d, (long long)in->dims[d]);
            continue;
        }
        dims[rank++] = in->dims[d];
    }
    return op_set(c, 0, in->dtype, rank, dims);
}

static status_t infer_unsqueeze(op_ctx_t *c)
{
    const tensor_t *in = c->in[0];
    ints_t axes;
    status_t status = op_read_ints_either(c, "axes", 1, &axes);
    if (status != STATUS_OK)
        return status;
    if (in->rank + axes.count > TENSOR_MAX_RANK)
        return op_unsupported(c, "the result has %u dimensions", in->rank + axes.count);
    bool chosen[TENSOR_MAX_RANK * 2], any;
    uint32_t rank = in->rank + axes.count, from = 0;
    status = read_axes(c, rank, chosen, &any);
    if (status != STATUS_OK)
        return status;
    int64_t dims[TENSOR_MAX_RANK];
    for (uint32_t d = 0; d < rank; d++)
        dims[d] = chosen[d] ? 1 : in->dims[from++];
    return op_set(c, 0, in->dtype, rank, dims);
}

static void shape_range(const op_ctx_t *c, uint32_t *from, uint32_t *to)
{
    int64_t rank = c->in[0]->rank, start = op_int(c, "start", 0), end = op_int(c, "end", rank);
    start = start < 0 ? start + rank : start;
    end = end < 0 ? end + rank : end;
    start = start < 0 ? 0 : start > rank ? rank : start;
    end = end < start ? start : end > rank ? rank : end;
    *from = (uint32_t)start;
    *to = (uint32_t)end;
}

static status_t infer_shape(op_ctx_t *c)
{
    uint32_t from, to;
    shape_range(c, &from, &to);
    return op_set(c, 0, DTYPE_I64, 1, (int64_t[]){(int64_t)to - from});
}

static status_t eval_shape(op_ctx_t *c)
{
    uint32_t from, to;
    shape_range(c, &from, &to);
    int64_t *out = c->out[0]->data;
    for (uint32_t d = from; d < to; d++)
        out[d - from] = c->in[0]->dims[d];
    return STATUS_OK;
}

static status_t infer_size(op_ctx_t *c)
{
    return op_set(c, 0, DTYPE_I64, 0, NULL);
}

static status_t eval_size(op_ctx_t *c)
{
    *(int64_t *)c->out[0]->data = (int64_t)tensor_count(c->in[0]);
    return STATUS_OK;
}

/* The tensor in whichever attribute holds it. */
static status_t constant_of(op_ctx_t *c, tensor_t *t)
{
    const attr_t *a = c->node->attr_count == 1 ? &c->node->attrs[0] : node_attr(c->node, "value");
    if (!a)
        return op_bad(c, "there is no value");
    *t = (tensor_t){.rank = 1};
    switch (a->kind) {
    case ATTR_TENSOR:
        *t = a->tensor;
        return STATUS_OK;
    case ATTR_INT:
        *t = (tensor_t){.dtype = DTYPE_I64, .data = (void *)&a->i};
        return STATUS_OK;
    case ATTR_FLOAT:
        *t = (tensor_t){.dtype = DTYPE_F32, .data = (void *)&a->f};
        return STATUS_OK;
    case ATTR_INTS:
        *t = (tensor_t){.dtype = DTYPE_I64, .rank = 1, .dims = {a->count}, .data = (void *)a->ints};
        return STATUS_OK;
    case ATTR_FLOATS:
        *t = (tensor_t){.dtype = DTYPE_F32, .rank = 1, .dims = {a->count}, .data = (void *)a->floats};
        return STATUS_OK;
    default:
        return op_unsupported(c, "a constant of this kind (%s) is not supported", a->name);
    }
}

static status_t infer_constant(op_ctx_t *c)
{
    tensor_t t;
    status_t status = constant_of(c, &t);
    return status == STATUS_OK ? op_set_like(c, 0, &t) : status;
}

static status_t eval_constant(op_ctx_t *c)
{
    tensor_t t;
    status_t status = constant_of(c, &t);
    if (status == STATUS_OK && tensor_bytes(&t))
        memcpy(c->out[0]->data, t.data, tensor_bytes(&t));
    return status;
}

static const tensor_t *fill_of(const op_ctx_t *c)
{
    const attr_t *a = node_attr(c->node, "value");
    return a && a->kind == ATTR_TENSOR && tensor_count(&a->tensor) == 1 ? &a->tensor : NULL;
}

static status_t infer_constant_of_shape(op_ctx_t *c)
{
    ints_t dims;
    const tensor_t *fill = fill_of(c);
    status_t status = op_read_ints(c, 0, &dims);
    return status == STATUS_OK ? op_set(c, 0, fill ? fill->dtype : DTYPE_F32, dims.count, dims.v) : status;
}

static status_t eval_constant_of_shape(op_ctx_t *c)
{
    static const uint64_t zero;
    const tensor_t *fill = fill_of(c);
    size_t size = dtype_size(c->out[0]->dtype), bytes = tensor_bytes(c->out[0]);
    char *out = c->out[0]->data;
    for (size_t i = 0; i < bytes; i += size)
        memcpy(out + i, fill ? fill->data : (const void *)&zero, size);
    return STATUS_OK;
}

const op_t ops_shape[] = {
    {"Constant", 0, 0, 1, 1, 0, infer_constant, eval_constant, NULL, NULL, 0, .rows.kind = ROWS_MIXED},
    {"ConstantOfShape", 1, 1, 1, 1, 0, infer_constant_of_shape, eval_constant_of_shape, NULL, NULL, 0,
     .rows.kind = ROWS_MIXED},
    {"Flatten", 1, 1, 1, 1, 0, infer_flatten, eval_copy, NULL, NULL, 0, .rows.kind = ROWS_AS_BYTES,
     .kind = OP_RESHAPE},
    {"Reshape", 1, 2, 1, 1, 0, infer_reshape, eval_copy, NULL, NULL, 0, .rows.kind = ROWS_AS_BYTES,
     .kind = OP_RESHAPE},
    {"Shape", 1, 1, 1, 1, OP_SHAPE_ONLY, infer_shape, eval_shape, NULL, NULL, 0, .rows.kind = ROWS_MIXED},
    {"Size", 1, 1, 1, 1, OP_SHAPE_ONLY, infer_size, eval_size, NULL, NULL, 0, .rows.kind = ROWS_MIXED},
    {"Squeeze", 1, 2, 1, 1, 0, infer_squeeze, eval_copy, NULL, NULL, 0, .rows.kind = ROWS_AS_BYTES,
     .kind = OP_RESHAPE},
    {"Unsqueeze", 1, 2, 1, 1, 0, infer_unsqueeze, eval_copy, NULL, NULL, 0, .rows.kind = ROWS_AS_BYTES,
     .kind = OP_RESHAPE},
    {.name = NULL},
};
