/*
 * Softmax and its kin. Before opset 13 the input is seen as a matrix cut at the axis; since then it is one axis.
 */
#include "graph/ops/tables.h"

#include <math.h>
#include <string.h>

typedef struct {
    size_t outer, n, inner;
} lanes_t;

static status_t lanes_of(op_ctx_t *c, lanes_t *l)
{
    const tensor_t *x = c->in[0];
    bool old = c->node->opset < 13;
    uint32_t axis;
    if (x->rank == 0) {
        *l = (lanes_t){1, 1, 1};
        return STATUS_OK;
    }
    int64_t want = op_int(c, "axis", old ? 1 : -1);
    if (old && want == x->rank) {
        *l = (lanes_t){tensor_count(x), 1, 1};
        return STATUS_OK;
    }
    status_t status = op_axis(c, want, x->rank, &axis);
    if (status != STATUS_OK)
        return status;
    l->outer = tensor_count_range(x, 0, axis);
    l->n = old ? tensor_count_range(x, axis, x->rank) : (size_t)x->dims[axis];
    l->inner = old ? 1 : tensor_count_range(x, axis + 1, x->rank);
    return STATUS_OK;
}

static status_t infer(op_ctx_t *c)
{
    lanes_t l;
    status_t status = lanes_of(c, &l);
    return status == STATUS_OK ? op_infer_same(c) : status;
}

#define LANE(suffix, T)                                                                       \
    static void softmax_##suffix(const void *in, void *out, size_t n, size_t step, char kind) \
    {                                                                                         \
        const T *x = in;                                                                      \
        T *y = out;                                                                           \
        double max = -INFINITY, sum = 0;                                                      \
        size_t best = 0;                                                                      \
        for (size_t i = 0; i < n; i++)                                                        \
            if ((double)x[i * step] > max) {                                                  \
                max = (double)x[i * step];                                                    \
                best = i;                                                                     \
            }                                                                                 \
        for (size_t i = 0; kind != 'h' && i < n; i++)                                         \
            sum += exp((double)x[i * step] - max);                                            \
        double log_sum = log(sum);                                                            \
        for (size_t i = 0; i < n; i++) {                                                      \
            double shifted = (double)x[i * step] - max;                                       \
            y[i * step] = (T)(kind == 'h'   ? i == best                                       \
                              : kind == 'l' ? shifted - log_sum                               \
                                            : exp(shifted) / sum);                            \
        }                                                                                     \
    }

LANE(f32, float)
LANE(f64, double)

static status_t run(op_ctx_t *c, char kind)
{
    const tensor_t *x = c->in[0];
    lanes_t l;
    status_t status = lanes_of(c, &l);
    if (status != STATUS_OK)
        return status;
    if (x->dtype != DTYPE_F32 && x->dtype != DTYPE_F64)
        return op_unsupported(c, "element type %s is not supported", dtype_name(x->dtype));
    size_t size = dtype_size(x->dtype);
    for (size_t o = 0; o < l.outer; o++)
        for (size_t i = 0; i < l.inner; i++) {
            size_t at = (o * l.n * l.inner + i) * size;
            (x->dtype == DTYPE_F32 ? softmax_f32 : softmax_f64)(
                (const char *)x->data + at, (char *)c->out[0]->data + at, l.n, l.inner, kind);
        }
    return STATUS_OK;
}

static status_t eval_softmax(op_ctx_t *c)
{
    return run(c, 's');
}

static status_t eval_log_softmax(op_ctx_t *c)
{
    return run(c, 'l');
}

static status_t eval_hardmax(op_ctx_t *c)
{
    return run(c, 'h');
}

const op_t ops_softmax[] = {
    {"Hardmax", 1, 1, 1, 1, 0, infer, eval_hardmax, NULL, NULL, 0, .rows = {ROWS_ALONG_AXIS, "axis", -1}},
    {"LogSoftmax", 1, 1, 1, 1, 0, infer, eval_log_softmax, NULL, NULL, 0,
     .rows = {ROWS_ALONG_AXIS, "axis", -1}, .kind = OP_LOG_SOFTMAX},
    {"Softmax", 1, 1, 1, 1, 0, infer, eval_softmax, NULL, NULL, 0, .rows = {ROWS_ALONG_AXIS, "axis", -1},
     .kind = OP_SOFTMAX},
    {.name = NULL},
};
