/*
 * Reductions over axes, running sums and the places of extremes.
 */
#include "graph/ops/sum.h"
#include "graph/ops/tables.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum { SUM, MEAN, MAX, MIN, PROD, L1, L2, LOG_SUM, LOG_SUM_EXP, SUM_SQUARE } kind_t;

static const kind_t kinds[] = {SUM, MEAN, MAX, MIN, PROD, L1, L2, LOG_SUM, LOG_SUM_EXP, SUM_SQUARE};

/* The axes, as a mask. Without any: all, or none with noop_with_empty_axes. */
static status_t read_axes(op_ctx_t *c, unsigned *mask)
{
    const tensor_t *x = c->in[0];
    ints_t axes;
    *mask = 0;
    status_t status = op_read_ints_either(c, "axes", 1, &axes);
    for (uint32_t i = 0; status == STATUS_OK && i < axes.count; i++) {
        uint32_t axis;
        status = op_axis(c, axes.v[i], x->rank, &axis);
        if (status == STATUS_OK)
            *mask |= 1u << axis;
    }
    if (status == STATUS_OK && !axes.count && !op_int(c, "noop_with_empty_axes", 0))
        *mask = (1u << x->rank) - 1;
    return status;
}

static status_t infer_reduce(op_ctx_t *c)
{
    const tensor_t *x = c->in[0];
    int64_t dims[TENSOR_MAX_RANK];
    bool keep = op_int(c, "keepdims", 1);
    uint32_t rank = 0;
    unsigned mask;
    status_t status = read_axes(c, &mask);
    if (status != STATUS_OK)
        return status;
    for (uint32_t d = 0; d < x->rank; d++) {
        if (!(mask & 1u << d))
            dims[rank++] = x->dims[d];
        else if (keep)
            dims[rank++] = 1;
    }
    return op_set(c, 0, x->dtype, rank, dims);
}

static double start_of(kind_t kind)
{
    return kind == MAX || kind == LOG_SUM_EXP ? -(double)INFINITY
           : kind == MIN                      ? (double)INFINITY
                                              : kind == PROD;
}

static double step_f64(kind_t kind, double so_far, double x)
{
    switch (kind) {
    case MAX:
    case LOG_SUM_EXP: /* the first of two passes looks for the maximum */
        return x > so_far || x != x ? x : so_far;
    case MIN:
        return x < so_far || x != x ? x : so_far;
    case PROD:
        return so_far * x;
    case L1:
        return so_far + fabs(x);
    case L2:
    case SUM_SQUARE:
        return so_far + x * x;
    default:
        return so_far + x;
    }
}

static double finish_f64(kind_t kind, double value, double count)
{
    return kind == MEAN ? value / count : kind == L2 ? sqrt(value) : kind == LOG_SUM ? log(value) : value;
}

static int64_t step_i64(kind_t kind, int64_t so_far, int64_t x)
{
    switch (kind) {
    case MAX:
        return x > so_far ? x : so_far;
    case MIN:
        return x < so_far ? x : so_far;
    case PROD:
        return (int64_t)((uint64_t)so_far * (uint64_t)x);
    case L1:
        return so_far + (x < 0 ? -x : x);
    case L2:
    case SUM_SQUARE:
        return (int64_t)((uint64_t)so_far + (uint64_t)x * (uint64_t)x);
    default:
        return (int64_t)((uint64_t)so_far + (uint64_t)x);
    }
}

/* Walks the reduced dimensions under each result; offsets are precomputed for both sets of dimensions. */
typedef struct {
    uint32_t kept, reduced;
    int64_t kept_dims[TENSOR_MAX_RANK], kept_strides[TENSOR_MAX_RANK];
    int64_t dims[TENSOR_MAX_RANK], strides[TENSOR_MAX_RANK];
    size_t results, each;
} layout_t;

static layout_t layout_of(const tensor_t *x, unsigned mask)
{
    int64_t own[TENSOR_MAX_RANK];
    layout_t l = {.results = 1, .each = 1};
    tensor_strides(x, own);
    for (uint32_t d = 0; d < x->rank; d++) {
        if (mask & 1u << d) {
            l.dims[l.reduced] = x->dims[d];
            l.strides[l.reduced++] = own[d];
            l.each *= (size_t)x->dims[d];
        } else {
            l.kept_dims[l.kept] = x->dims[d];
            l.kept_strides[l.kept++] = own[d];
            l.results *= (size_t)x->dims[d];
        }
    }
    return l;
}

static int64_t offset_of(size_t i, uint32_t rank, const int64_t *dims, const int64_t *strides)
{
    int64_t offset = 0;
    for (uint32_t d = rank; d-- > 0; i /= (size_t)dims[d])
        offset += (int64_t)(i % (size_t)dims[d]) * strides[d];
    return offset;
}

static void store(tensor_t *out, size_t i, double value)
{
    if (out->dtype == DTYPE_F32)
        ((float *)out->data)[i] = (float)value;
    else
        ((double *)out->data)[i] = value;
}

static double load(const tensor_t *x, int64_t i)
{
    return x->dtype == DTYPE_F32 ? (double)((const float *)x->data)[i] : ((const double *)x->data)[i];
}

/* The last reduced dimension is the inner loop, so that offsets are computed once per row. */
static double reduce_float(const tensor_t *x, const layout_t *l, int64_t base, kind_t kind, double shift)
{
    double value = kind == LOG_SUM_EXP && shift == shift ? 0 : start_of(kind);
    uint32_t rows = l->reduced ? l->reduced - 1 : 0;
    size_t row = l->reduced ? (size_t)l->dims[rows] : 1;
    int64_t step = l->reduced ? l->strides[rows] : 0;
    for (size_t r = 0; row && r < l->each / row; r++) {
        int64_t at = base + offset_of(r, rows, l->dims, l->strides);
        for (size_t i = 0; i < row; i++, at += step)
            value = kind == LOG_SUM_EXP && shift == shift ? value + exp(load(x, at) - shift)
                                                          : step_f64(kind, value, load(x, at));
    }
    return value;
}

static void run_float(const tensor_t *x, tensor_t *out, const layout_t *l, kind_t kind)
{
    for (size_t r = 0; r < l->results; r++) {
        int64_t base = offset_of(r, l->kept, l->kept_dims, l->kept_strides);
        double value = reduce_float(x, l, base, kind, NAN);
        if (kind == LOG_SUM_EXP && isfinite(value))
            value += log(reduce_float(x, l, base, kind, value));
        store(out, r, finish_f64(kind, value, (double)l->each));
    }
}

static void run_integer(const tensor_t *x, tensor_t *out, const layout_t *l, kind_t kind)
{
    size_t size = dtype_size(out->dtype);
    for (size_t r = 0; r < l->results; r++) {
        int64_t base = offset_of(r, l->kept, l->kept_dims, l->kept_strides);
        int64_t value = kind == MAX ? INT64_MIN : kind == MIN ? INT64_MAX : kind == PROD;
        for (size_t i = 0; i < l->each; i++)
            value =
                step_i64(kind, value,
                         tensor_get_i64(x, (size_t)(base + offset_of(i, l->reduced, l->dims, l->strides))));
        if (kind == MEAN && l->each)
            value /= (int64_t)l->each;
        else if (kind == L2 || kind == LOG_SUM)
            value = op_saturate(finish_f64(kind, (double)value, 1), INT64_MIN, INT64_MAX);
        memcpy((char *)out->data + r * size, &value, size);
    }
}

static status_t eval_reduce(op_ctx_t *c)
{
    const tensor_t *x = c->in[0];
    kind_t kind = *(const kind_t *)c->node->op->aux;
    unsigned mask;
    status_t status = read_axes(c, &mask);
    if (status != STATUS_OK)
        return status;
    layout_t l = layout_of(x, mask);
    if (x->dtype == DTYPE_F32 && (kind == SUM || kind == MEAN))
        sum_f32(x, mask, kind == MEAN ? (double)l.each : 1, c->out[0]->data);
    else if (x->dtype == DTYPE_F32 || x->dtype == DTYPE_F64)
        run_float(x, c->out[0], &l, kind);
    else if (kind == LOG_SUM_EXP)
        return op_unsupported(c, "element type %s is not supported", dtype_name(x->dtype));
    else
        run_integer(x, c->out[0], &l, kind);
    return STATUS_OK;
}

static status_t infer_arg(op_ctx_t *c)
{
    tensor_t out = *c->in[0];
    uint32_t axis;
    status_t status = op_axis(c, op_int(c, "axis", 0), out.rank, &axis);
    if (status != STATUS_OK)
        return status;
    if (!out.dims[axis])
        return op_bad(c, "dimension %u is empty", axis);
    out.dims[axis] = 1;
    if (!op_int(c, "keepdims", 1)) {
        memmove(out.dims + axis, out.dims + axis + 1, (out.rank - axis - 1) * sizeof out.dims[0]);
        out.rank--;
    }
    return op_set(c, 0, DTYPE_I64, out.rank, out.dims);
}

static status_t eval_arg(op_ctx_t *c)
{
    const tensor_t *x = c->in[0];
    bool max = *(const kind_t *)c->node->op->aux == MAX, last = op_int(c, "select_last_index", 0);
    uint32_t axis;
    status_t status = op_axis(c, op_int(c, "axis", 0), x->rank, &axis);
    if (status != STATUS_OK)
        return status;
    size_t outer = tensor_count_range(x, 0, axis), inner = tensor_count_range(x, axis + 1, x->rank);
    size_t n = (size_t)x->dims[axis];
    for (size_t o = 0; o < outer; o++)
        for (size_t i = 0; i < inner; i++) {
            size_t best = 0;
            double value = tensor_get_f64(x, o * n * inner + i);
            for (size_t k = 1; k < n; k++) {
                double v = tensor_get_f64(x, (o * n + k) * inner + i);
                if (max ? v > value || (last && v == value) : v < value || (last && v == value)) {
                    best = k;
                    value = v;
                }
            }
            ((int64_t *)c->out[0]->data)[o * inner + i] = (int64_t)best;
        }
    return STATUS_OK;
}

static status_t cumsum_axis(op_ctx_t *c, uint32_t *axis)
{
    return op_axis(c, op_scalar_i64(c, 1, INT64_MAX), c->in[0]->rank, axis);
}

static status_t eval_cumsum(op_ctx_t *c)
{
    const tensor_t *x = c->in[0];
    bool exclusive = op_int(c, "exclusive", 0), reverse = op_int(c, "reverse", 0);
    uint32_t axis;
    status_t status = cumsum_axis(c, &axis);
    if (status != STATUS_OK)
        return status;
    size_t outer = tensor_count_range(x, 0, axis), inner = tensor_count_range(x, axis + 1, x->rank);
    size_t n = (size_t)x->dims[axis], size = dtype_size(x->dtype);
    bool real = x->dtype == DTYPE_F32 || x->dtype == DTYPE_F64;
    for (size_t o = 0; o < outer; o++)
        for (size_t i = 0; i < inner; i++) {
            double sum = 0;
            int64_t whole = 0;
            for (size_t k = 0; k < n; k++) {
                size_t at = (o * n + (reverse ? n - 1 - k : k)) * inner + i;
                double before = sum;
                int64_t whole_before = whole;
                if (real)
                    sum += tensor_get_f64(x, at);
                else
                    whole = (int64_t)((uint64_t)whole + (uint64_t)tensor_get_i64(x, at));
                int64_t kept = exclusive ? whole_before : whole;
                if (real)
                    store(c->out[0], at, exclusive ? before : sum);
                else
                    memcpy((char *)c->out[0]->data + at * size, &kept, size);
            }
        }
    return STATUS_OK;
}

#define REDUCED(which) .rows.kind = ROWS_KEPT, .kind = OP_REDUCE_##which
#define REDUCE(name, which)                                                                    \
    {                                                                                          \
        name, 1, 2, 1, 1, 0, infer_reduce, eval_reduce, &kinds[which], NULL, 0, REDUCED(which) \
    }

const op_t ops_reduce[] = {
    {"ArgMax", 1, 1, 1, 1, 0, infer_arg, eval_arg, &kinds[MAX], NULL, 0, .rows.kind = ROWS_KEPT,
     .kind = OP_ARG_MAX},
    {"ArgMin", 1, 1, 1, 1, 0, infer_arg, eval_arg, &kinds[MIN], NULL, 0, .rows.kind = ROWS_KEPT,
     .kind = OP_ARG_MIN},
    {"CumSum", 2, 2, 1, 1, 0, op_infer_same, eval_cumsum, NULL, NULL, 0, .rows.kind = ROWS_MIXED},
    REDUCE("ReduceL1", L1),
    REDUCE("ReduceL2", L2),
    REDUCE("ReduceLogSum", LOG_SUM),
    REDUCE("ReduceLogSumExp", LOG_SUM_EXP),
    REDUCE("ReduceMax", MAX),
    REDUCE("ReduceMean", MEAN),
    REDUCE("ReduceMin", MIN),
    REDUCE("ReduceProd", PROD),
    REDUCE("ReduceSum", SUM),
    REDUCE("ReduceSumSquare", SUM_SQUARE),
    {.name = NULL},
};
