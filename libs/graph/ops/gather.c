/*
 * Operators that read where indices say.
 */
#include "graph/ops/tables.h"

#include <stdlib.h>
#include <string.h>

static bool is_index(const tensor_t *t)
{
    return t->dtype == DTYPE_I64 || t->dtype == DTYPE_I32;
}

static status_t check_axis(op_ctx_t *c, int64_t otherwise, uint32_t *axis)
{
    if (!is_index(c->in[1]))
        return op_bad(c, "the indices are %s", dtype_name(c->in[1]->dtype));
    return op_axis(c, op_int(c, "axis", otherwise), c->in[0]->rank, axis);
}

/* Negative indices count from the end. False when it is outside. */
static bool resolve(int64_t *index, int64_t dim)
{
    *index += *index < 0 ? dim : 0;
    return *index >= 0 && *index < dim;
}

static status_t outside(op_ctx_t *c, int64_t index, int64_t dim)
{
    return op_bad(c, "index %lld is outside a dimension of %lld", (long long)index, (long long)dim);
}

static status_t infer_gather(op_ctx_t *c)
{
    const tensor_t *x = c->in[0], *indices = c->in[1];
    int64_t dims[3 * TENSOR_MAX_RANK];
    uint32_t axis, rank = 0;
    status_t status = check_axis(c, 0, &axis);
    if (status != STATUS_OK)
        return status;
    for (uint32_t d = 0; d < axis; d++)
        dims[rank++] = x->dims[d];
    for (uint32_t d = 0; d < indices->rank; d++)
        dims[rank++] = indices->dims[d];
    for (uint32_t d = axis + 1; d < x->rank; d++)
        dims[rank++] = x->dims[d];
    return op_set(c, 0, x->dtype, rank, dims);
}

static status_t eval_gather(op_ctx_t *c)
{
    const tensor_t *x = c->in[0], *indices = c->in[1];
    uint32_t axis;
    status_t status = check_axis(c, 0, &axis);
    if (status != STATUS_OK)
        return status;
    size_t outer = tensor_count_range(x, 0, axis), count = tensor_count(indices);
    size_t inner = tensor_count_range(x, axis + 1, x->rank) * dtype_size(x->dtype);
    char *to = c->out[0]->data;
    for (size_t o = 0; o < outer; o++)
        for (size_t i = 0; i < count; i++, to += inner) {
            int64_t index = tensor_get_i64(indices, i);
            if (!resolve(&index, x->dims[axis]))
                return outside(c, index, x->dims[axis]);
            if (inner)
                memcpy(to, (const char *)x->data + (o * (size_t)x->dims[axis] + (size_t)index) * inner,
                       inner);
        }
    return STATUS_OK;
}

static status_t infer_gather_elements(op_ctx_t *c)
{
    const tensor_t *x = c->in[0], *indices = c->in[1];
    uint32_t axis;
    status_t status = check_axis(c, 0, &axis);
    if (status != STATUS_OK)
        return status;
    bool fits = indices->rank == x->rank;
    for (uint32_t d = 0; fits && d < x->rank; d++)
        fits = d == axis || indices->dims[d] <= x->dims[d];
    return fits ? op_set(c, 0, x->dtype, x->rank, indices->dims)
                : op_bad(c, "the indices do not fit the input");
}

static void advance(int64_t *at, const tensor_t *t)
{
    for (uint32_t d = t->rank; d-- > 0;) {
        if (++at[d] < t->dims[d])
            return;
        at[d] = 0;
    }
}

static status_t eval_gather_elements(op_ctx_t *c)
{
    const tensor_t *x = c->in[0], *indices = c->in[1];
    int64_t strides[TENSOR_MAX_RANK], at[TENSOR_MAX_RANK] = {0};
    uint32_t axis;
    status_t status = check_axis(c, 0, &axis);
    if (status != STATUS_OK)
        return status;
    size_t size = dtype_size(x->dtype), count = tensor_count(indices);
    tensor_strides(x, strides);
    for (size_t i = 0; i < count; i++, advance(at, indices)) {
        int64_t index = tensor_get_i64(indices, i), from = 0;
        if (!resolve(&index, x->dims[axis]))
            return outside(c, index, x->dims[axis]);
        for (uint32_t d = 0; d < x->rank; d++)
            from += (d == axis ? index : at[d]) * strides[d];
        memcpy((char *)c->out[0]->data + i * size, (const char *)x->data + (size_t)from * size, size);
    }
    return STATUS_OK;
}

typedef struct {
    uint32_t batch, depth; /* leading dims in common; length of an index tuple */
    size_t tuples, inner;  /* per batch; bytes of what a tuple selects */
} nd_t;

static status_t read_nd(op_ctx_t *c, nd_t *n)
{
    const tensor_t *x = c->in[0], *indices = c->in[1];
    int64_t batch = op_int(c, "batch_dims", 0);
    if (!is_index(indices) || !indices->rank || batch < 0 || batch >= indices->rank || batch > x->rank)
        return op_bad(c, "the indices or batch_dims do not fit the input");
    n->batch = (uint32_t)batch;
    int64_t depth = indices->dims[indices->rank - 1];
    if (depth < 0 || depth + batch > x->rank)
        return op_bad(c, "index tuples of %lld do not fit %u dimensions", (long long)depth, x->rank);
    for (uint32_t d = 0; d < n->batch; d++)
        if (x->dims[d] != indices->dims[d])
            return op_bad(c, "batch dimension %u differs", d);
    n->depth = (uint32_t)depth;
    n->tuples = tensor_count_range(indices, n->batch, indices->rank - 1);
    n->inner = tensor_count_range(x, n->batch + n->depth, x->rank) * dtype_size(x->dtype);
    return STATUS_OK;
}

static status_t infer_gather_nd(op_ctx_t *c)
{
    const tensor_t *x = c->in[0], *indices = c->in[1];
    int64_t dims[2 * TENSOR_MAX_RANK];
    uint32_t rank = 0;
    nd_t n;
    status_t status = read_nd(c, &n);
    if (status != STATUS_OK)
        return status;
    for (uint32_t d = 0; d + 1 < indices->rank; d++)
        dims[rank++] = indices->dims[d];
    for (uint32_t d = n.batch + n.depth; d < x->rank; d++)
        dims[rank++] = x->dims[d];
    return op_set(c, 0, x->dtype, rank, dims);
}

/* Element of x (counted in slices of what a tuple selects) that tuple t of the indices names. */
static status_t slice_at(op_ctx_t *c, const tensor_t *x, const tensor_t *indices, uint32_t first,
                         uint32_t depth, size_t t, size_t *slice)
{
    size_t at = 0;
    for (uint32_t d = 0; d < depth; d++) {
        int64_t index = tensor_get_i64(indices, t * depth + d), dim = x->dims[first + d];
        if (!resolve(&index, dim))
            return outside(c, index, dim);
        at = at * (size_t)dim + (size_t)index;
    }
    *slice = at;
    return STATUS_OK;
}

static status_t eval_gather_nd(op_ctx_t *c)
{
    const tensor_t *x = c->in[0], *indices = c->in[1];
    nd_t n;
    status_t status = read_nd(c, &n);
    size_t batches = status == STATUS_OK ? tensor_count_range(x, 0, n.batch) : 0;
    size_t per_batch = status == STATUS_OK ? tensor_count_range(x, n.batch, n.batch + n.depth) : 0;
    for (size_t t = 0; status == STATUS_OK && t < batches * n.tuples; t++) {
        size_t slice = 0;
        status = slice_at(c, x, indices, n.batch, n.depth, t, &slice);
        if (status == STATUS_OK && n.inner)
            memcpy((char *)c->out[0]->data + t * n.inner,
                   (const char *)x->data + (t / n.tuples * per_batch + slice) * n.inner, n.inner);
    }
    return status;
}

/* How two elements become one. */
typedef enum { COMBINE_NONE, COMBINE_ADD, COMBINE_MUL, COMBINE_MAX, COMBINE_MIN } combine_t;

static status_t read_combine(op_ctx_t *c, combine_t *combine)
{
    static const char *const names[] = {"none", "add", "mul", "max", "min"};
    const char *name = op_string(c, "reduction", "none");
    for (int i = 0; i < 5; i++)
        if (!strcmp(names[i], name)) {
            *combine = (combine_t)i;
            bool known = i == 0 || c->in[0]->dtype == DTYPE_F32 || c->in[0]->dtype == DTYPE_F64 ||
                         c->in[0]->dtype == DTYPE_I64 || c->in[0]->dtype == DTYPE_I32;
            return known ? STATUS_OK : op_unsupported(c, "a reduction of %s", dtype_name(c->in[0]->dtype));
        }
    return op_unsupported(c, "the reduction '%.40s' is not supported", name);
}

#define COMBINE(T)                                      \
    {                                                   \
        T x, y;                                         \
        memcpy(&x, to, sizeof x);                       \
        memcpy(&y, from, sizeof y);                     \
        x = combine == COMBINE_ADD   ? (T)(x + y)       \
            : combine == COMBINE_MUL ? (T)(x * y)       \
            : combine == COMBINE_MAX ? (x > y ? x : y)  \
                                     : (x < y ? x : y); \
        memcpy(to, &x, sizeof x);                       \
        return;                                         \
    }

static void combine_one(char *to, const char *from, dtype_t dtype, combine_t combine)
{
    switch (combine == COMBINE_NONE ? DTYPE_NONE : dtype) {
    case DTYPE_F32:
        COMBINE(float)
    case DTYPE_F64:
        COMBINE(double)
    case DTYPE_I32:
        COMBINE(uint32_t)
    case DTYPE_I64:
        COMBINE(uint64_t)
    default:
        memcpy(to, from, dtype_size(dtype));
    }
}

static status_t infer_scatter_elements(op_ctx_t *c)
{
    const tensor_t *x = c->in[0], *indices = c->in[1], *updates = c->in[2];
    combine_t combine;
    uint32_t axis;
    status_t status = check_axis(c, 0, &axis);
    if (status == STATUS_OK)
        status = read_combine(c, &combine);
    if (status != STATUS_OK)
        return status;
    bool fits = indices->rank == x->rank && tensor_same_shape(indices, updates) && updates->dtype == x->dtype;
    for (uint32_t d = 0; fits && d < x->rank; d++)
        fits = d == axis || indices->dims[d] <= x->dims[d];
    return fits ? op_infer_same(c) : op_bad(c, "the indices or the updates do not fit the input");
}

static status_t eval_scatter_elements(op_ctx_t *c)
{
    const tensor_t *x = c->in[0], *indices = c->in[1], *updates = c->in[2];
    int64_t strides[TENSOR_MAX_RANK], at[TENSOR_MAX_RANK] = {0};
    combine_t combine = COMBINE_NONE;
    uint32_t axis;
    status_t status = check_axis(c, 0, &axis);
    if (status == STATUS_OK)
        status = read_combine(c, &combine);
    if (status != STATUS_OK)
        return status;
    size_t size = dtype_size(x->dtype), count = tensor_count(indices);
    tensor_strides(x, strides);
    if (tensor_bytes(x))
        memcpy(c->out[0]->data, x->data, tensor_bytes(x));
    for (size_t i = 0; i < count; i++, advance(at, indices)) {
        int64_t index = tensor_get_i64(indices, i), to = 0;
        if (!resolve(&index, x->dims[axis]))
            return outside(c, index, x->dims[axis]);
        for (uint32_t d = 0; d < x->rank; d++)
            to += (d == axis ? index : at[d]) * strides[d];
        combine_one((char *)c->out[0]->data + (size_t)to * size, (const char *)updates->data + i * size,
                    x->dtype, combine);
    }
    return STATUS_OK;
}

static status_t read_scatter_nd(op_ctx_t *c, uint32_t *depth, size_t *inner)
{
    const tensor_t *x = c->in[0], *indices = c->in[1], *updates = c->in[2];
    if (!is_index(indices) || !indices->rank || indices->dims[indices->rank - 1] > x->rank ||
        updates->dtype != x->dtype)
        return op_bad(c, "the indices or the updates do not fit the input");
    *depth = (uint32_t)indices->dims[indices->rank - 1];
    *inner = tensor_count_range(x, *depth, x->rank);
    size_t tuples = tensor_count_range(indices, 0, indices->rank - 1);
    if (tensor_count(updates) != tuples * *inner)
        return op_bad(c, "there are %zu updates where %zu are wanted", tensor_count(updates),
                      tuples * *inner);
    return STATUS_OK;
}

static status_t infer_scatter_nd(op_ctx_t *c)
{
    combine_t combine;
    uint32_t depth = 0;
    size_t inner = 0;
    status_t status = read_scatter_nd(c, &depth, &inner);
    if (status == STATUS_OK)
        status = read_combine(c, &combine);
    return status == STATUS_OK ? op_infer_same(c) : status;
}

static status_t eval_scatter_nd(op_ctx_t *c)
{
    const tensor_t *x = c->in[0], *indices = c->in[1];
    combine_t combine = COMBINE_NONE;
    uint32_t depth = 0;
    size_t inner = 0, size = dtype_size(x->dtype);
    status_t status = read_scatter_nd(c, &depth, &inner);
    if (status == STATUS_OK)
        status = read_combine(c, &combine);
    if (status != STATUS_OK)
        return status;
    if (tensor_bytes(x))
        memcpy(c->out[0]->data, x->data, tensor_bytes(x));
    size_t tuples = tensor_count_range(indices, 0, indices->rank - 1);
    const char *from = c->in[2]->data;
    for (size_t t = 0; t < tuples; t++) {
        size_t slice = 0;
        status = slice_at(c, x, indices, 0, depth, t, &slice);
        if (status != STATUS_OK)
            return status;
        for (size_t i = 0; i < inner; i++, from += size)
            combine_one((char *)c->out[0]->data + (slice * inner + i) * size, from, x->dtype, combine);
    }
    return STATUS_OK;
}

const op_t ops_gather[] = {
    {"Gather", 2, 2, 1, 1, 0, infer_gather, eval_gather, NULL, NULL, 0, .rows = {ROWS_ALONG_AXIS, "axis", 0},
     .kind = OP_GATHER},
    {"GatherElements", 2, 2, 1, 1, 0, infer_gather_elements, eval_gather_elements, NULL, NULL, 0,
     .rows = {ROWS_ALONG_AXIS, "axis", 0}, .kind = OP_GATHER_ELEMENTS},
    {"GatherND", 2, 2, 1, 1, 0, infer_gather_nd, eval_gather_nd, NULL, NULL, 0, .rows.kind = ROWS_MIXED},
    {"Scatter", 3, 3, 1, 1, 0, infer_scatter_elements, eval_scatter_elements, NULL, NULL, 0,
     .rows.kind = ROWS_MIXED},
    {"ScatterElements", 3, 3, 1, 1, 0, infer_scatter_elements, eval_scatter_elements, NULL, NULL, 0,
     .rows.kind = ROWS_MIXED},
    {"ScatterND", 3, 3, 1, 1, 0, infer_scatter_nd, eval_scatter_nd, NULL, NULL, 0, .rows.kind = ROWS_MIXED},
    {.name = NULL},
};
