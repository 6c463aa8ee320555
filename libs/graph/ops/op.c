#include "graph/ops/op.h"

#include "graph/ops/tables.h"

#include <stdio.h>
#include <string.h>

static bool same_domain(const char *a, const char *b)
{
    return !strcmp(a ? a : "", b && strcmp(b, "ai.onnx") ? b : "");
}

const op_t *op_find(const char *domain, const char *name)
{
    for (size_t t = 0; t < OP_TABLES; t++)
        for (const op_t *op = op_tables[t]; op->name; op++)
            if (!strcmp(op->name, name) && same_domain(op->domain, domain))
                return op;
    return NULL;
}

void op_each(void (*fn)(void *arg, const op_t *op), void *arg)
{
    for (size_t t = 0; t < OP_TABLES; t++)
        for (const op_t *op = op_tables[t]; op->name; op++)
            fn(arg, op);
}

static const attr_t *find_attr(const attr_t *attrs, uint32_t count, const char *name)
{
    for (uint32_t i = 0; name && i < count; i++)
        if (!strcmp(attrs[i].name, name))
            return &attrs[i];
    return NULL;
}

static double float_or(const attr_t *a, double otherwise)
{
    return a && a->kind == ATTR_FLOAT ? (double)a->f : otherwise;
}

ew_call_t op_function(const op_t *op, const attr_t *attrs, uint32_t n)
{
    const op_function_t *f = &op->function;
    const attr_t *kind = f->op == EW_GELU_ERF ? find_attr(attrs, n, "approximate") : NULL;
    if (op->kind != OP_UNARY)
        return (ew_call_t){.op = EW_NONE};
    if (kind && kind->kind == ATTR_STRING && !strcmp(kind->s, "tanh"))
        return (ew_call_t){.op = EW_GELU_TANH};
    return (ew_call_t){.op = f->op,
                       .a = float_or(find_attr(attrs, n, f->name_a), f->a),
                       .b = float_or(find_attr(attrs, n, f->name_b), f->b)};
}

static int64_t rows_attr(const node_t *node)
{
    const attr_t *a = node_attr(node, node->op->rows.attr);
    return a && a->kind == ATTR_INT ? a->i : node->op->rows.otherwise;
}

bool op_keeps_rows(const node_t *node, uint32_t out, uint32_t rank)
{
    switch (node->op->rows.kind) {
    case ROWS_KEPT:
        return true;
    case ROWS_KEPT_FIRST:
        return out == 0;
    case ROWS_KEPT_UNLESS:
        return rows_attr(node) == 0;
    case ROWS_ALONG_AXIS:
        return rows_attr(node) != 0 && rows_attr(node) != -(int64_t)rank;
    default:
        return false;
    }
}

int64_t op_int(const op_ctx_t *c, const char *name, int64_t otherwise)
{
    const attr_t *a = node_attr(c->node, name);
    return a && a->kind == ATTR_INT ? a->i : otherwise;
}

double op_float(const op_ctx_t *c, const char *name, double otherwise)
{
    const attr_t *a = node_attr(c->node, name);
    return a && a->kind == ATTR_FLOAT ? (double)a->f : otherwise;
}

const char *op_string(const op_ctx_t *c, const char *name, const char *otherwise)
{
    const attr_t *a = node_attr(c->node, name);
    return a && a->kind == ATTR_STRING ? a->s : otherwise;
}

const attr_t *op_ints(const op_ctx_t *c, const char *name)
{
    const attr_t *a = node_attr(c->node, name);
    return a && a->kind == ATTR_INTS ? a : NULL;
}

const tensor_t *op_in(const op_ctx_t *c, uint32_t i)
{
    return i < c->in_count ? c->in[i] : NULL;
}

tensor_t *op_out(const op_ctx_t *c, uint32_t i)
{
    return i < c->out_count ? c->out[i] : NULL;
}

status_t op_set(op_ctx_t *c, uint32_t i, dtype_t dtype, uint32_t rank, const int64_t *dims)
{
    tensor_t *out = op_out(c, i);
    if (!out)
        return STATUS_OK;
    if (rank > TENSOR_MAX_RANK)
        return op_unsupported(c, "the result has %u dimensions; at most %d are supported", rank,
                              TENSOR_MAX_RANK);
    tensor_t t = {.dtype = dtype, .rank = rank};
    for (uint32_t d = 0; d < rank; d++)
        t.dims[d] = dims[d];
    status_t status = tensor_check(&t, c->err);
    if (status == STATUS_OK)
        *out = t;
    return status;
}

status_t op_set_like(op_ctx_t *c, uint32_t i, const tensor_t *t)
{
    return op_set(c, i, t->dtype, t->rank, t->dims);
}

status_t op_infer_same(op_ctx_t *c)
{
    return op_set_like(c, 0, c->in[0]);
}

status_t op_bad(op_ctx_t *c, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    status_t status = err_vset(c->err, STATUS_INVALID_ARGUMENT, fmt, args);
    va_end(args);
    return status;
}

status_t op_unsupported(op_ctx_t *c, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    status_t status = err_vset(c->err, STATUS_UNSUPPORTED, fmt, args);
    va_end(args);
    return status;
}

status_t op_read_ints(op_ctx_t *c, uint32_t i, ints_t *ints)
{
    ints->count = 0;
    const tensor_t *t = op_in(c, i);
    if (!t)
        return STATUS_OK;
    size_t count = tensor_count(t);
    if (count > OP_MAX_INTS)
        return op_bad(c, "input %u has %zu elements; at most %d make sense here", i, count, OP_MAX_INTS);
    if (!t->data && count) {
        c->needs_value = true;
        return err_set(c->err, STATUS_UNAVAILABLE,
                       "the shape of the result depends on the contents of input %u", i);
    }
    for (size_t k = 0; k < count; k++)
        ints->v[k] = tensor_get_i64(t, k);
    ints->count = (uint32_t)count;
    return STATUS_OK;
}

status_t op_read_ints_either(op_ctx_t *c, const char *attr, uint32_t i, ints_t *ints)
{
    const attr_t *a = op_ints(c, attr);
    if (!a)
        return op_read_ints(c, i, ints);
    if (a->count > OP_MAX_INTS)
        return op_bad(c, "'%s' has %u elements", attr, a->count);
    ints->count = a->count;
    for (uint32_t k = 0; k < a->count; k++)
        ints->v[k] = a->ints[k];
    return STATUS_OK;
}

status_t op_axis(op_ctx_t *c, int64_t axis, uint32_t rank, uint32_t *out)
{
    int64_t n = rank;
    if (axis < -n || axis >= n)
        return op_bad(c, "axis %lld is outside a tensor of %u dimensions", (long long)axis, rank);
    *out = (uint32_t)(axis < 0 ? axis + n : axis);
    return STATUS_OK;
}

status_t op_broadcast(op_ctx_t *c, const tensor_t *a, const tensor_t *b, tensor_t *out)
{
    uint32_t rank = a->rank > b->rank ? a->rank : b->rank;
    tensor_t result = {.dtype = a->dtype, .rank = rank};
    for (uint32_t i = 0; i < rank; i++) {
        int64_t da = i < rank - a->rank ? 1 : a->dims[i - (rank - a->rank)];
        int64_t db = i < rank - b->rank ? 1 : b->dims[i - (rank - b->rank)];
        if (da != db && da != 1 && db != 1) {
            char ta[TENSOR_TEXT_BYTES], tb[TENSOR_TEXT_BYTES];
            return op_bad(c, "the shapes %s and %s do not broadcast", tensor_text(a, ta), tensor_text(b, tb));
        }
        result.dims[i] = da == 1 ? db : da;
    }
    *out = result;
    return STATUS_OK;
}

double op_scalar_f64(const op_ctx_t *c, uint32_t i, double otherwise)
{
    const tensor_t *t = op_in(c, i);
    return t && t->data && tensor_count(t) ? tensor_get_f64(t, 0) : otherwise;
}

int64_t op_scalar_i64(const op_ctx_t *c, uint32_t i, int64_t otherwise)
{
    const tensor_t *t = op_in(c, i);
    return t && t->data && tensor_count(t) ? tensor_get_i64(t, 0) : otherwise;
}

int64_t op_saturate(double value, int64_t low, int64_t high)
{
    if (value != value)
        return 0 < low ? low : 0 > high ? high : 0;
    return value <= (double)low ? low : value >= (double)high ? high : (int64_t)value;
}
