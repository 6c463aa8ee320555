/*
 * Pools over windows, and over everything.
 */
#include "graph/ops/tables.h"
#include "graph/ops/window.h"

#include <math.h>
#include <string.h>

static status_t geometry(op_ctx_t *c, window_t *w)
{
    const attr_t *kernel = op_ints(c, "kernel_shape");
    if (c->in[0]->rank < 3 || c->in[0]->rank > 5)
        return op_unsupported(c, "an input of %u dimensions is not supported (3 to 5 are)", c->in[0]->rank);
    if (!kernel || kernel->count != c->in[0]->rank - 2)
        return op_bad(c, "'kernel_shape' is missing or does not fit the input");
    return window_read(c, w, kernel->ints);
}

static status_t check_type(op_ctx_t *c)
{
    dtype_t dtype = c->in[0]->dtype;
    bool known = dtype == DTYPE_F32 || dtype == DTYPE_F64 || dtype == DTYPE_I8 || dtype == DTYPE_U8;
    return known ? STATUS_OK : op_unsupported(c, "element type %s is not supported", dtype_name(dtype));
}

static status_t infer_pool(op_ctx_t *c)
{
    window_t w = {0};
    status_t status = check_type(c);
    if (status == STATUS_OK)
        status = geometry(c, &w);
    if (status != STATUS_OK)
        return status;
    tensor_t out = *c->in[0];
    memcpy(out.dims + 2, w.out, w.dims * sizeof out.dims[0]);
    status = op_set_like(c, 0, &out);
    return status == STATUS_OK ? op_set(c, 1, DTYPE_I64, out.rank, out.dims) : status;
}

/* One window: [from, to) of input positions per dimension, step = dilation; three dimensions always. */
typedef struct {
    int64_t in[3], from[3], to[3], step[3];
    int64_t padded; /* positions of the window within the padded input */
} patch_t;

static void patch_at(const window_t *w, const int64_t *o, patch_t *p)
{
    uint32_t skip = 3 - w->dims;
    p->padded = 1;
    for (uint32_t i = 0; i < 3; i++) {
        if (i < skip) {
            p->in[i] = p->to[i] = p->step[i] = 1;
            p->from[i] = 0;
            continue;
        }
        uint32_t d = i - skip;
        int64_t first = o[i] * w->stride[d] - w->before[d], step = w->dilation[d];
        int64_t end = first + (w->kernel[d] - 1) * step + 1, limit = w->in[d] + w->after[d];
        p->padded *= ((end < limit ? end : limit) - first + step - 1) / step;
        p->in[i] = w->in[d];
        p->step[i] = step;
        p->from[i] = first < 0 ? first + (-first + step - 1) / step * step : first;
        p->to[i] = end < w->in[d] ? end : w->in[d];
    }
}

typedef struct {
    double sum, max;
    int64_t count, max_at;
} stat_t;

static double element(const tensor_t *x, int64_t i)
{
    return x->dtype == DTYPE_F32 ? (double)((const float *)x->data)[i] : tensor_get_f64(x, (size_t)i);
}

static stat_t reduce_patch(const tensor_t *x, int64_t base, const patch_t *p, double power)
{
    stat_t s = {.max = -INFINITY, .max_at = -1};
    for (int64_t i = p->from[0]; i < p->to[0]; i += p->step[0])
        for (int64_t j = p->from[1]; j < p->to[1]; j += p->step[1])
            for (int64_t k = p->from[2]; k < p->to[2]; k += p->step[2]) {
                int64_t at = (i * p->in[1] + j) * p->in[2] + k;
                double v = element(x, base + at);
                s.sum += power > 0 ? pow(fabs(v), power) : v;
                s.count++;
                if (v > s.max || s.max_at < 0 || v != v) {
                    s.max = v;
                    s.max_at = at;
                }
            }
    return s;
}

static void store(tensor_t *t, size_t i, double value)
{
    switch (t->dtype) {
    case DTYPE_F32:
        ((float *)t->data)[i] = (float)value;
        break;
    case DTYPE_F64:
        ((double *)t->data)[i] = value;
        break;
    case DTYPE_I8:
        ((int8_t *)t->data)[i] = (int8_t)op_saturate(value, INT8_MIN, INT8_MAX);
        break;
    default:
        ((uint8_t *)t->data)[i] = (uint8_t)op_saturate(value, 0, UINT8_MAX);
        break;
    }
}

/* storage_order 1 counts the last two dimensions column by column. */
static int64_t index_of(const window_t *w, const stat_t *s, int64_t base, bool columns)
{
    if (!columns || w->dims < 2)
        return base + s->max_at;
    int64_t width = w->in[w->dims - 1], height = w->in[w->dims - 2], plane = width * height;
    int64_t in_plane = s->max_at % plane;
    return base + s->max_at / plane * plane + in_plane % width * height + in_plane / width;
}

typedef enum { POOL_MAX, POOL_AVERAGE, POOL_LP } pool_t;

static double result_of(pool_t pool, const stat_t *s, const patch_t *p, bool include_pad, double power)
{
    if (pool == POOL_MAX)
        return s->max;
    if (pool == POOL_LP)
        return pow(s->sum, 1 / power);
    int64_t n = include_pad ? p->padded : s->count;
    return n ? s->sum / (double)n : 0;
}

static status_t run(op_ctx_t *c, pool_t pool)
{
    const tensor_t *x = c->in[0];
    tensor_t *y = op_out(c, 0), *indices = op_out(c, 1);
    window_t w;
    status_t status = geometry(c, &w);
    if (status != STATUS_OK)
        return status;
    bool include_pad = op_int(c, "count_include_pad", 0), columns = op_int(c, "storage_order", 0);
    double power = pool == POOL_LP ? (double)op_int(c, "p", 2) : 0;
    int64_t out[3] = {1, 1, 1}, o[3], size = 1, planes = x->dims[0] * x->dims[1];
    size_t at = 0;
    for (uint32_t d = 0; d < w.dims; d++) {
        out[3 - w.dims + d] = w.out[d];
        size *= w.in[d];
    }
    for (int64_t n = 0; n < planes; n++)
        for (o[0] = 0; o[0] < out[0]; o[0]++)
            for (o[1] = 0; o[1] < out[1]; o[1]++)
                for (o[2] = 0; o[2] < out[2]; o[2]++, at++) {
                    patch_t p;
                    patch_at(&w, o, &p);
                    stat_t s = reduce_patch(x, n * size, &p, power);
                    if (y)
                        store(y, at, result_of(pool, &s, &p, include_pad, power));
                    if (indices)
                        ((int64_t *)indices->data)[at] = index_of(&w, &s, n * size, columns);
                }
    return STATUS_OK;
}

static status_t eval_max(op_ctx_t *c)
{
    return run(c, POOL_MAX);
}

static status_t eval_average(op_ctx_t *c)
{
    return run(c, POOL_AVERAGE);
}

static status_t eval_lp(op_ctx_t *c)
{
    return run(c, POOL_LP);
}

static status_t infer_global(op_ctx_t *c)
{
    tensor_t out = *c->in[0];
    if (out.rank < 2)
        return op_bad(c, "the input has %u dimensions", out.rank);
    status_t status = check_type(c);
    if (status != STATUS_OK)
        return status;
    for (uint32_t d = 2; d < out.rank; d++)
        out.dims[d] = 1;
    return op_set_like(c, 0, &out);
}

static status_t run_global(op_ctx_t *c, pool_t pool)
{
    const tensor_t *x = c->in[0];
    size_t planes = tensor_count_range(x, 0, 2), size = tensor_count_range(x, 2, x->rank);
    double power = (double)op_int(c, "p", 2);
    for (size_t n = 0; n < planes; n++) {
        patch_t p = {.in = {1, 1, (int64_t)size}, .to = {1, 1, (int64_t)size}, .step = {1, 1, 1}};
        stat_t s = reduce_patch(x, (int64_t)(n * size), &p, pool == POOL_LP ? power : 0);
        store(c->out[0], n, result_of(pool, &s, &p, false, power));
    }
    return STATUS_OK;
}

static status_t eval_global_max(op_ctx_t *c)
{
    return run_global(c, POOL_MAX);
}

static status_t eval_global_average(op_ctx_t *c)
{
    return run_global(c, POOL_AVERAGE);
}

static status_t eval_global_lp(op_ctx_t *c)
{
    return run_global(c, POOL_LP);
}

/* The inverse of MaxPool with indices: the size is that of its smallest possible input unless given. */
static status_t infer_max_unpool(op_ctx_t *c)
{
    tensor_t out = *c->in[0];
    const attr_t *kernel = op_ints(c, "kernel_shape"), *strides = op_ints(c, "strides"),
                 *pads = op_ints(c, "pads");
    uint32_t spatial = out.rank - 2;
    ints_t want;
    status_t status = op_read_ints(c, 2, &want);
    if (status != STATUS_OK)
        return status;
    bool fits = out.rank >= 3 && kernel && kernel->count == spatial &&
                (!strides || strides->count == spatial) && (!pads || pads->count == 2 * spatial) &&
                (!want.count || want.count == out.rank);
    if (!fits)
        return op_bad(c, "the attributes do not fit the input");
    for (uint32_t d = 0; d < spatial; d++) {
        int64_t stride = strides ? strides->ints[d] : 1;
        out.dims[d + 2] = (out.dims[d + 2] - 1) * stride + kernel->ints[d] -
                          (pads ? pads->ints[d] + pads->ints[d + spatial] : 0);
    }
    if (want.count)
        memcpy(out.dims, want.v, want.count * sizeof out.dims[0]);
    return op_set_like(c, 0, &out);
}

/* The indices count in the input of the MaxPool, which may be smaller than output_shape. */
static size_t spread(const op_ctx_t *c, int64_t index)
{
    const tensor_t *x = c->in[0], *out = c->out[0];
    const attr_t *kernel = op_ints(c, "kernel_shape"), *strides = op_ints(c, "strides"),
                 *pads = op_ints(c, "pads");
    uint32_t spatial = out->rank - 2;
    int64_t place = 0, stride_out = 1;
    for (uint32_t d = out->rank; d-- > 0;) {
        int64_t dim = x->dims[d];
        if (d >= 2) {
            uint32_t k = d - 2;
            dim = (dim - 1) * (strides ? strides->ints[k] : 1) + kernel->ints[k] -
                  (pads ? pads->ints[k] + pads->ints[k + spatial] : 0);
        }
        if (dim < 1)
            return SIZE_MAX;
        place += index % dim * stride_out;
        index /= dim;
        stride_out *= out->dims[d];
    }
    return (size_t)place;
}

static status_t eval_max_unpool(op_ctx_t *c)
{
    const tensor_t *x = c->in[0], *indices = c->in[1];
    tensor_t *out = c->out[0];
    size_t n = tensor_count(out), size = dtype_size(x->dtype);
    memset(out->data, 0, tensor_bytes(out));
    for (size_t i = 0; i < tensor_count(x) && i < tensor_count(indices); i++) {
        int64_t index = tensor_get_i64(indices, i);
        size_t at = index < 0 ? n : spread(c, index);
        if (at >= n)
            return op_bad(c, "index %lld is outside the result", (long long)index);
        memcpy((char *)out->data + at * size, (const char *)x->data + i * size, size);
    }
    return STATUS_OK;
}

const op_t ops_pool[] = {
    {"AveragePool", 1, 1, 1, 1, OP_HEAVY, infer_pool, eval_average, NULL, NULL, 0, .rows.kind = ROWS_KEPT,
     .kind = OP_AVERAGE_POOL},
    {"GlobalAveragePool", 1, 1, 1, 1, OP_HEAVY, infer_global, eval_global_average, NULL, NULL, 0,
     .rows.kind = ROWS_KEPT, .kind = OP_GLOBAL_AVERAGE_POOL},
    {"GlobalLpPool", 1, 1, 1, 1, OP_HEAVY, infer_global, eval_global_lp, NULL, NULL, 0,
     .rows.kind = ROWS_KEPT},
    {"GlobalMaxPool", 1, 1, 1, 1, OP_HEAVY, infer_global, eval_global_max, NULL, NULL, 0,
     .rows.kind = ROWS_KEPT, .kind = OP_GLOBAL_MAX_POOL},
    {"LpPool", 1, 1, 1, 1, OP_HEAVY, infer_pool, eval_lp, NULL, NULL, 0, .rows.kind = ROWS_KEPT,
     .kind = OP_LP_POOL},
    {"MaxPool", 1, 1, 1, 2, OP_HEAVY, infer_pool, eval_max, NULL, NULL, 0, .rows.kind = ROWS_KEPT_FIRST,
     .kind = OP_MAX_POOL},
    {"MaxUnpool", 2, 3, 1, 1, OP_HEAVY, infer_max_unpool, eval_max_unpool, NULL, NULL, 0,
     .rows.kind = ROWS_MIXED},
    {.name = NULL},
};
