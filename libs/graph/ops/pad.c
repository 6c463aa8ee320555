/*
 * Pad: constant, reflect, edge and wrap; and CenterCropPad, which says sizes instead.
 */
#include "graph/ops/strided.h"
#include "graph/ops/tables.h"

#include <string.h>

typedef struct {
    int64_t before[TENSOR_MAX_RANK], after[TENSOR_MAX_RANK];
} pads_t;

/* Half of what is too much or too little goes before, the rest behind. */
static status_t read_center(op_ctx_t *c, pads_t *p)
{
    const tensor_t *in = c->in[0];
    const attr_t *axes = op_ints(c, "axes");
    ints_t sizes;
    status_t status = op_read_ints(c, 1, &sizes);
    if (status != STATUS_OK)
        return status;
    if (sizes.count != (axes ? axes->count : in->rank))
        return op_bad(c, "there are %u sizes for %u dimensions", sizes.count, axes ? axes->count : in->rank);
    memset(p, 0, sizeof *p);
    for (uint32_t i = 0; i < sizes.count; i++) {
        uint32_t axis;
        status = op_axis(c, axes ? axes->ints[i] : i, in->rank, &axis);
        if (status == STATUS_OK && (sizes.v[i] < 0 || sizes.v[i] > INT64_C(1) << 40))
            status = op_bad(c, "size %lld makes no sense", (long long)sizes.v[i]);
        if (status != STATUS_OK)
            return status;
        int64_t more = sizes.v[i] - in->dims[axis];
        p->before[axis] = more / 2;
        p->after[axis] = more - more / 2;
    }
    return STATUS_OK;
}

/* Opset 1 called the attribute "paddings"; until 10 it is an attribute, then an input; since 18 axes may be given. */
static status_t read_pads(op_ctx_t *c, pads_t *p)
{
    const tensor_t *in = c->in[0];
    ints_t pads, axes;
    if (!strcmp(c->node->op->name, "CenterCropPad"))
        return read_center(c, p);
    status_t status = op_read_ints_either(c, op_ints(c, "paddings") ? "paddings" : "pads", 1, &pads);
    if (status == STATUS_OK)
        status = op_read_ints(c, 3, &axes);
    if (status != STATUS_OK)
        return status;
    uint32_t count = axes.count ? axes.count : in->rank;
    if (pads.count != 2 * count || count > in->rank)
        return op_bad(c, "there are %u pads for %u dimensions", pads.count, count);
    memset(p, 0, sizeof *p);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t axis;
        status = op_axis(c, axes.count ? axes.v[i] : i, in->rank, &axis);
        if (status != STATUS_OK)
            return status;
        p->before[axis] = pads.v[i];
        p->after[axis] = pads.v[i + count];
    }
    return STATUS_OK;
}

static status_t infer_pad(op_ctx_t *c)
{
    tensor_t out = *c->in[0];
    pads_t p;
    status_t status = read_pads(c, &p);
    if (status != STATUS_OK)
        return status;
    bool constant = !strcmp(op_string(c, "mode", "constant"), "constant");
    if (op_in(c, 2) && c->in[2]->dtype != out.dtype)
        return op_bad(c, "the value is %s, the input %s", dtype_name(c->in[2]->dtype), dtype_name(out.dtype));
    for (uint32_t d = 0; d < out.rank; d++) {
        int64_t limit = INT64_C(1) << 40;
        if (p.before[d] < -limit || p.before[d] > limit || p.after[d] < -limit || p.after[d] > limit)
            return op_bad(c, "the padding of dimension %u is too large", d);
        if (!constant && !out.dims[d] && (p.before[d] || p.after[d]))
            return op_bad(c, "dimension %u is empty and cannot be repeated", d);
        out.dims[d] += p.before[d] + p.after[d];
    }
    return op_set_like(c, 0, &out);
}

/* Where output position i of a dimension comes from. */
static int64_t source(int64_t i, int64_t before, int64_t dim, char mode)
{
    i -= before;
    if (mode == 'e')
        return i < 0 ? 0 : i >= dim ? dim - 1 : i;
    if (mode == 'w')
        return (i % dim + dim) % dim;
    if (dim == 1)
        return 0;
    int64_t period = 2 * (dim - 1);
    i = (i % period + period) % period;
    return i < dim ? i : period - i;
}

static void repeat(const tensor_t *in, tensor_t *out, const pads_t *p, char mode)
{
    size_t size = dtype_size(in->dtype), n = tensor_count(out);
    int64_t strides[TENSOR_MAX_RANK], at[TENSOR_MAX_RANK] = {0};
    tensor_strides(in, strides);
    for (size_t i = 0; i < n; i++) {
        int64_t from = 0;
        for (uint32_t d = 0; d < in->rank; d++)
            from += source(at[d], p->before[d], in->dims[d], mode) * strides[d];
        memcpy((char *)out->data + i * size, (const char *)in->data + (size_t)from * size, size);
        for (uint32_t d = out->rank; d-- > 0;) {
            if (++at[d] < out->dims[d])
                break;
            at[d] = 0;
        }
    }
}

static void fill(op_ctx_t *c, tensor_t *out)
{
    size_t size = dtype_size(out->dtype), bytes = tensor_bytes(out);
    const tensor_t *value = op_in(c, 2);
    float attribute = (float)op_float(c, "value", 0);
    uint64_t zero = 0;
    const void *from = value && tensor_count(value) ? value->data
                       : out->dtype == DTYPE_F32    ? &attribute
                                                    : (void *)&zero;
    for (size_t i = 0; i < bytes; i += size)
        memcpy((char *)out->data + i, from, size);
}

/* Negative pads crop. */
static void place(const tensor_t *in, tensor_t *out, const pads_t *p)
{
    int64_t from[TENSOR_MAX_RANK], to[TENSOR_MAX_RANK], dims[TENSOR_MAX_RANK], from_at = 0, to_at = 0;
    tensor_strides(in, from);
    tensor_strides(out, to);
    for (uint32_t d = 0; d < in->rank; d++) {
        int64_t skip = p->before[d] < 0 ? -p->before[d] : 0, cut = p->after[d] < 0 ? -p->after[d] : 0;
        dims[d] = in->dims[d] - skip - cut;
        if (dims[d] <= 0)
            return;
        from_at += skip * from[d];
        to_at += (p->before[d] > 0 ? p->before[d] : 0) * to[d];
    }
    size_t size = dtype_size(in->dtype);
    strided_copy((char *)out->data + (size_t)to_at * size, to,
                 (const char *)in->data + (size_t)from_at * size, from, in->rank, dims, size);
}

static status_t eval_pad(op_ctx_t *c)
{
    pads_t p;
    status_t status = read_pads(c, &p);
    const char *mode = op_string(c, "mode", "constant");
    if (status != STATUS_OK)
        return status;
    if (strcmp(mode, "constant") != 0) {
        repeat(c->in[0], c->out[0], &p, *mode);
        return STATUS_OK;
    }
    fill(c, c->out[0]);
    place(c->in[0], c->out[0], &p);
    return STATUS_OK;
}

const op_t ops_pad[] = {
    {"CenterCropPad", 2, 2, 1, 1, 0, infer_pad, eval_pad, NULL, NULL, 18, .rows.kind = ROWS_MIXED},
    {"Pad", 1, 4, 1, 1, 0, infer_pad, eval_pad, NULL, NULL, 0, .rows.kind = ROWS_MIXED, .kind = OP_PAD},
    {.name = NULL},
};
