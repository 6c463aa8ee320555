/*
 * Operators whose result depends on conditions or on order: Where, TopK, OneHot, NonZero, Compress, Unique.
 */
#include "graph/ops/tables.h"
#include "graph/ops/walk.h"

#include <stdlib.h>
#include <string.h>

static status_t infer_where(op_ctx_t *c)
{
    const tensor_t *x = c->in[1], *y = c->in[2];
    tensor_t out;
    if (c->in[0]->dtype != DTYPE_BOOL || x->dtype != y->dtype)
        return op_bad(c, "the condition is %s, the values are %s and %s", dtype_name(c->in[0]->dtype),
                      dtype_name(x->dtype), dtype_name(y->dtype));
    status_t status = op_broadcast(c, x, y, &out);
    if (status == STATUS_OK)
        status = op_broadcast(c, &out, c->in[0], &out);
    return status == STATUS_OK ? op_set_like(c, 0, &out) : status;
}

static status_t eval_where(op_ctx_t *c)
{
    tensor_t *out = c->out[0];
    size_t size = dtype_size(out->dtype);
    walk_t w;
    for (bool more = walk_begin(&w, out, c->in, 3); more; more = walk_next(&w))
        for (size_t i = 0; i < w.row; i++) {
            int64_t k = (int64_t)i;
            bool first = ((const uint8_t *)c->in[0]->data)[w.offset[0] + k * w.step[0]];
            uint32_t from = first ? 1 : 2;
            memcpy((char *)out->data + (w.out + i) * size,
                   (const char *)c->in[from]->data + (size_t)(w.offset[from] + k * w.step[from]) * size,
                   size);
        }
    return STATUS_OK;
}

static status_t unknown(op_ctx_t *c, uint32_t i)
{
    c->needs_value = true;
    return err_set(c->err, STATUS_UNAVAILABLE, "the shape of the result depends on the contents of input %u",
                   i);
}

/* k is an attribute until opset 9. */
static status_t top_k_shape(op_ctx_t *c, uint32_t *axis, int64_t *k)
{
    const tensor_t *x = c->in[0];
    ints_t count;
    status_t status = op_axis(c, op_int(c, "axis", -1), x->rank, axis);
    if (status == STATUS_OK)
        status = op_read_ints(c, 1, &count);
    if (status != STATUS_OK)
        return status;
    *k = count.count ? count.v[0] : op_int(c, "k", -1);
    if (*k < 0 || *k > x->dims[*axis])
        return op_bad(c, "k = %lld is outside a dimension of %lld", (long long)*k, (long long)x->dims[*axis]);
    return STATUS_OK;
}

static status_t infer_top_k(op_ctx_t *c)
{
    tensor_t out = *c->in[0];
    uint32_t axis;
    int64_t k;
    status_t status = top_k_shape(c, &axis, &k);
    if (status != STATUS_OK)
        return status;
    out.dims[axis] = k;
    status = op_set_like(c, 0, &out);
    return status == STATUS_OK ? op_set(c, 1, DTYPE_I64, out.rank, out.dims) : status;
}

typedef struct {
    double value;
    int64_t at;
} ranked_t;

static int largest_first(const void *a, const void *b)
{
    const ranked_t *x = a, *y = b;
    return x->value > y->value ? -1 : x->value < y->value ? 1 : (x->at > y->at) - (x->at < y->at);
}

static int smallest_first(const void *a, const void *b)
{
    const ranked_t *x = a, *y = b;
    return x->value < y->value ? -1 : x->value > y->value ? 1 : (x->at > y->at) - (x->at < y->at);
}

static status_t eval_top_k(op_ctx_t *c)
{
    const tensor_t *x = c->in[0];
    tensor_t *values = op_out(c, 0), *indices = op_out(c, 1);
    uint32_t axis;
    int64_t k;
    status_t status = top_k_shape(c, &axis, &k);
    if (status != STATUS_OK)
        return status;
    size_t outer = tensor_count_range(x, 0, axis), inner = tensor_count_range(x, axis + 1, x->rank);
    size_t n = (size_t)x->dims[axis], size = dtype_size(x->dtype), top = (size_t)k;
    ranked_t *lane = malloc((n + 1) * sizeof *lane);
    if (!lane)
        return err_set(c->err, STATUS_NO_MEMORY, "no memory to sort");
    for (size_t l = 0; l < outer * inner; l++) {
        size_t o = l / inner, i = l % inner;
        for (size_t j = 0; j < n; j++)
            lane[j] = (ranked_t){tensor_get_f64(x, (o * n + j) * inner + i), (int64_t)j};
        qsort(lane, n, sizeof *lane, op_int(c, "largest", 1) ? largest_first : smallest_first);
        for (size_t j = 0; j < top; j++) {
            size_t to = (o * top + j) * inner + i, from = (o * n + (size_t)lane[j].at) * inner + i;
            if (values)
                memcpy((char *)values->data + to * size, (const char *)x->data + from * size, size);
            if (indices)
                ((int64_t *)indices->data)[to] = lane[j].at;
        }
    }
    free(lane);
    return STATUS_OK;
}

static status_t one_hot_shape(op_ctx_t *c, tensor_t *out, uint32_t *axis)
{
    const tensor_t *indices = c->in[0];
    ints_t depth;
    status_t status = op_read_ints(c, 1, &depth);
    if (status == STATUS_OK)
        status = op_axis(c, op_int(c, "axis", -1), indices->rank + 1, axis);
    if (status != STATUS_OK)
        return status;
    if (depth.count != 1 || depth.v[0] < 0 || indices->rank + 1 > TENSOR_MAX_RANK ||
        tensor_count(c->in[2]) != 2)
        return op_bad(c, "the depth or the values make no sense");
    *out = (tensor_t){.dtype = c->in[2]->dtype, .rank = indices->rank + 1};
    for (uint32_t d = 0, from = 0; d < out->rank; d++)
        out->dims[d] = d == *axis ? depth.v[0] : indices->dims[from++];
    return STATUS_OK;
}

static status_t infer_one_hot(op_ctx_t *c)
{
    tensor_t out;
    uint32_t axis;
    status_t status = one_hot_shape(c, &out, &axis);
    return status == STATUS_OK ? op_set_like(c, 0, &out) : status;
}

static status_t eval_one_hot(op_ctx_t *c)
{
    tensor_t out;
    uint32_t axis;
    status_t status = one_hot_shape(c, &out, &axis);
    if (status != STATUS_OK)
        return status;
    size_t outer = tensor_count_range(&out, 0, axis), inner = tensor_count_range(&out, axis + 1, out.rank);
    size_t size = dtype_size(out.dtype);
    int64_t depth = out.dims[axis];
    const char *values = c->in[2]->data;
    char *to = c->out[0]->data;
    for (size_t o = 0; o < outer; o++)
        for (int64_t k = 0; k < depth; k++)
            for (size_t i = 0; i < inner; i++, to += size) {
                int64_t index = tensor_get_i64(c->in[0], o * inner + i);
                index += index < 0 ? depth : 0;
                memcpy(to, values + (index == k ? size : 0), size);
            }
    return STATUS_OK;
}

static bool is_zero(const tensor_t *t, size_t i)
{
    static const char zeros[8];
    size_t size = dtype_size(t->dtype);
    return t->dtype == DTYPE_F32 || t->dtype == DTYPE_F64
               ? tensor_get_f64(t, i) == 0
               : !memcmp((const char *)t->data + i * size, zeros, size);
}

static status_t infer_non_zero(op_ctx_t *c)
{
    const tensor_t *x = c->in[0];
    int64_t found = 0;
    if (!x->data)
        return unknown(c, 0);
    for (size_t i = 0, n = tensor_count(x); i < n; i++)
        found += !is_zero(x, i);
    return op_set(c, 0, DTYPE_I64, 2, (int64_t[]){x->rank ? x->rank : 1, found});
}

static status_t eval_non_zero(op_ctx_t *c)
{
    const tensor_t *x = c->in[0];
    int64_t *out = c->out[0]->data, found = c->out[0]->dims[1], at = 0;
    for (size_t i = 0, n = tensor_count(x); i < n; i++) {
        if (is_zero(x, i))
            continue;
        size_t rest = i;
        for (uint32_t d = x->rank; d-- > 0; rest /= (size_t)x->dims[d])
            out[d * found + at] = (int64_t)(rest % (size_t)x->dims[d]);
        if (!x->rank)
            out[at] = 0;
        at++;
    }
    return STATUS_OK;
}

/* Without an axis the input is flat. */
static status_t compress_shape(op_ctx_t *c, tensor_t *x, uint32_t *axis)
{
    *x = *c->in[0];
    *axis = 0;
    if (op_int(c, "axis", INT64_MAX) != INT64_MAX)
        return op_axis(c, op_int(c, "axis", 0), x->rank, axis);
    x->dims[0] = (int64_t)tensor_count(x);
    x->rank = 1;
    return STATUS_OK;
}

static bool chosen(const op_ctx_t *c, size_t k)
{
    return k < tensor_count(c->in[1]) && ((const uint8_t *)c->in[1]->data)[k];
}

static status_t infer_compress(op_ctx_t *c)
{
    tensor_t x;
    uint32_t axis;
    status_t status = compress_shape(c, &x, &axis);
    if (status != STATUS_OK)
        return status;
    if (!c->in[1]->data)
        return unknown(c, 1);
    if (c->in[1]->dtype != DTYPE_BOOL)
        return op_bad(c, "the condition is %s", dtype_name(c->in[1]->dtype));
    int64_t kept = 0;
    for (int64_t k = 0; k < x.dims[axis]; k++)
        kept += chosen(c, (size_t)k);
    x.dims[axis] = kept;
    return op_set_like(c, 0, &x);
}

static status_t eval_compress(op_ctx_t *c)
{
    tensor_t x;
    uint32_t axis;
    status_t status = compress_shape(c, &x, &axis);
    if (status != STATUS_OK)
        return status;
    size_t outer = tensor_count_range(&x, 0, axis), n = (size_t)x.dims[axis];
    size_t inner = tensor_count_range(&x, axis + 1, x.rank) * dtype_size(x.dtype);
    char *to = c->out[0]->data;
    for (size_t o = 0; o < outer; o++)
        for (size_t k = 0; k < n; k++) {
            if (!chosen(c, k) || !inner)
                continue;
            memcpy(to, (const char *)x.data + (o * n + k) * inner, inner);
            to += inner;
        }
    return STATUS_OK;
}

/* Unique: slices along the axis (or single elements), found by sorting their places. */
typedef struct {
    const tensor_t *x;
    size_t outer, n, inner;
    uint32_t axis;
    bool flat;
} slices_t;

static status_t slices_of(op_ctx_t *c, slices_t *s)
{
    const tensor_t *x = c->in[0];
    *s = (slices_t){.x = x, .outer = 1, .n = tensor_count(x), .inner = 1, .flat = true};
    if (op_int(c, "axis", INT64_MAX) == INT64_MAX)
        return STATUS_OK;
    status_t status = op_axis(c, op_int(c, "axis", 0), x->rank, &s->axis);
    s->flat = false;
    s->outer = tensor_count_range(x, 0, s->axis);
    s->n = status == STATUS_OK ? (size_t)x->dims[s->axis] : 0;
    s->inner = tensor_count_range(x, s->axis + 1, x->rank);
    return status;
}

static int compare_slices(const slices_t *s, size_t a, size_t b)
{
    for (size_t o = 0; o < s->outer; o++)
        for (size_t i = 0; i < s->inner; i++) {
            double x = tensor_get_f64(s->x, (o * s->n + a) * s->inner + i);
            double y = tensor_get_f64(s->x, (o * s->n + b) * s->inner + i);
            if (x != y)
                return x < y ? -1 : 1;
        }
    return 0;
}

static int compare_places(const void *a, const void *b, void *slices)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    int order = compare_slices(slices, x, y);
    return order ? order : (x > y) - (x < y);
}

static int compare_sizes(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

/* first[u] = first place of the u-th distinct slice, in the order asked for. */
static size_t *find_unique(op_ctx_t *c, const slices_t *s, size_t *count)
{
    size_t *places = malloc((s->n + 1) * sizeof *places);
    if (!places)
        return NULL;
    for (size_t i = 0; i < s->n; i++)
        places[i] = i;
    qsort_r(places, s->n, sizeof *places, compare_places, (void *)s);
    *count = 0;
    for (size_t i = 0; i < s->n; i++)
        if (!*count || compare_slices(s, places[*count - 1], places[i]))
            places[(*count)++] = places[i];
    if (!op_int(c, "sorted", 1))
        qsort(places, *count, sizeof *places, compare_sizes);
    return places;
}

static status_t infer_unique(op_ctx_t *c)
{
    slices_t s;
    size_t count;
    status_t status = slices_of(c, &s);
    if (status != STATUS_OK)
        return status;
    if (!s.x->data)
        return unknown(c, 0);
    size_t *first = find_unique(c, &s, &count);
    if (!first)
        return err_set(c->err, STATUS_NO_MEMORY, "no memory to sort");
    free(first);
    tensor_t out = *s.x;
    if (s.flat)
        out.rank = 1;
    out.dims[s.axis] = (int64_t)count;
    status = op_set_like(c, 0, &out);
    for (uint32_t i = 1; status == STATUS_OK && i < 4; i++)
        status = op_set(c, i, DTYPE_I64, 1, (int64_t[]){(int64_t)(i == 2 ? s.n : count)});
    return status;
}

static void describe_unique(op_ctx_t *c, const slices_t *s, const size_t *first, size_t count)
{
    tensor_t *index = op_out(c, 1), *inverse = op_out(c, 2), *counts = op_out(c, 3);
    if (counts)
        memset(counts->data, 0, count * sizeof(int64_t));
    for (size_t u = 0; index && u < count; u++)
        ((int64_t *)index->data)[u] = (int64_t)first[u];
    for (size_t i = 0; (inverse || counts) && i < s->n; i++) {
        size_t u = 0;
        while (u < count && compare_slices(s, first[u], i))
            u++;
        if (inverse)
            ((int64_t *)inverse->data)[i] = (int64_t)u;
        if (counts)
            ((int64_t *)counts->data)[u]++;
    }
}

static status_t eval_unique(op_ctx_t *c)
{
    slices_t s;
    size_t count = 0;
    status_t status = slices_of(c, &s);
    size_t *first = status == STATUS_OK ? find_unique(c, &s, &count) : NULL;
    if (!first)
        return status == STATUS_OK ? err_set(c->err, STATUS_NO_MEMORY, "no memory to sort") : status;
    size_t row = s.inner * dtype_size(s.x->dtype);
    for (size_t o = 0; c->out[0] && row && o < s.outer; o++)
        for (size_t u = 0; u < count; u++)
            memcpy((char *)c->out[0]->data + (o * count + u) * row,
                   (const char *)s.x->data + (o * s.n + first[u]) * row, row);
    describe_unique(c, &s, first, count);
    free(first);
    return STATUS_OK;
}

const op_t ops_select[] = {
    {"Compress", 2, 2, 1, 1, 0, infer_compress, eval_compress, NULL, NULL, 0, .rows.kind = ROWS_MIXED},
    {"NonZero", 1, 1, 1, 1, 0, infer_non_zero, eval_non_zero, NULL, NULL, 0, .rows.kind = ROWS_MIXED},
    {"OneHot", 3, 3, 1, 1, 0, infer_one_hot, eval_one_hot, NULL, NULL, 0, .rows.kind = ROWS_KEPT},
    {"TopK", 1, 2, 1, 2, 0, infer_top_k, eval_top_k, NULL, NULL, 0, .rows = {ROWS_ALONG_AXIS, "axis", -1}},
    {"Unique", 1, 1, 1, 4, OP_HEAVY, infer_unique, eval_unique, NULL, NULL, 0, .rows.kind = ROWS_MIXED},
    {"Where", 3, 3, 1, 1, 0, infer_where, eval_where, NULL, NULL, 0, .rows.kind = ROWS_KEPT,
     .kind = OP_WHERE},
    {.name = NULL},
};
