/*
 * Losses, which exported training graphs carry: negative log-likelihood and softmax cross-entropy.
 */
#include "graph/ops/tables.h"

#include <math.h>
#include <string.h>

/* Scores [N, C, d…], targets [N, d…]. */
typedef struct {
    size_t batch, classes, inner;
    char reduction; /* 'n'one, 's'um, 'm'ean */
    bool ignores;
    int64_t ignored;
} loss_t;

static status_t loss_of(op_ctx_t *c, loss_t *l)
{
    const tensor_t *x = c->in[0], *target = c->in[1];
    if (x->rank < 2 || target->rank != x->rank - 1 || x->dtype != DTYPE_F32)
        return op_bad(c, "the scores or the targets have the wrong shape or type");
    l->batch = (size_t)x->dims[0];
    l->classes = (size_t)x->dims[1];
    l->inner = tensor_count_range(x, 2, x->rank);
    if (tensor_count(target) != l->batch * l->inner)
        return op_bad(c, "the targets do not fit the scores");
    const tensor_t *weights = op_in(c, 2);
    if (weights && (weights->dtype != DTYPE_F32 || tensor_count(weights) != l->classes))
        return op_bad(c, "the weights do not fit %zu classes", l->classes);
    l->reduction = *op_string(c, "reduction", "mean");
    l->ignores = node_attr(c->node, "ignore_index");
    l->ignored = op_int(c, "ignore_index", 0);
    return STATUS_OK;
}

static status_t infer(op_ctx_t *c)
{
    loss_t l = {0};
    status_t status = loss_of(c, &l);
    if (status == STATUS_OK)
        status = l.reduction == 'n' ? op_set(c, 0, DTYPE_F32, c->in[1]->rank, c->in[1]->dims)
                                    : op_set(c, 0, DTYPE_F32, 0, NULL);
    return status == STATUS_OK ? op_set_like(c, 1, c->in[0]) : status;
}

static double log_probability(const float *x, const loss_t *l, size_t n, size_t i, size_t class)
{
    const float *lane = x + n * l->classes * l->inner + i;
    double max = -(double)INFINITY, sum = 0;
    for (size_t k = 0; k < l->classes; k++)
        max = fmax(max, (double)lane[k * l->inner]);
    for (size_t k = 0; k < l->classes; k++)
        sum += exp((double)lane[k * l->inner] - max);
    return (double)lane[class * l->inner] - max - log(sum);
}

static void log_probabilities(const float *x, const loss_t *l, float *out)
{
    for (size_t n = 0; n < l->batch; n++)
        for (size_t k = 0; k < l->classes; k++)
            for (size_t i = 0; i < l->inner; i++)
                out[(n * l->classes + k) * l->inner + i] = (float)log_probability(x, l, n, i, k);
}

static status_t run(op_ctx_t *c, bool softmax)
{
    const float *x = c->in[0]->data, *weights = op_in(c, 2) ? op_in(c, 2)->data : NULL;
    double total = 0, weight_total = 0;
    loss_t l = {0};
    status_t status = loss_of(c, &l);
    if (status != STATUS_OK)
        return status;
    for (size_t t = 0; t < l.batch * l.inner; t++) {
        int64_t class = tensor_get_i64(c->in[1], t);
        size_t n = t / l.inner, i = t % l.inner;
        bool ignored = l.ignores && class == l.ignored;
        if (!ignored && (class < 0 || class >= (int64_t)l.classes))
            return op_bad(c, "target %lld is no class", (long long)class);
        double weight = ignored ? 0 : weights ? (double)weights[class] : 1, loss = 0;
        if (!ignored)
            loss = -weight * (softmax ? log_probability(x, &l, n, i, (size_t) class)
                                      : (double)x[(n * l.classes + (size_t) class) * l.inner + i]);
        total += loss;
        weight_total += weight;
        if (l.reduction == 'n' && c->out[0])
            ((float *)c->out[0]->data)[t] = (float)loss;
    }
    if (l.reduction != 'n' && c->out[0])
        *(float *)c->out[0]->data = (float)(l.reduction == 's' ? total : total / weight_total);
    if (op_out(c, 1))
        log_probabilities(x, &l, c->out[1]->data);
    return STATUS_OK;
}

static status_t eval_nll(op_ctx_t *c)
{
    return run(c, false);
}

static status_t eval_cross_entropy(op_ctx_t *c)
{
    return run(c, true);
}

const op_t ops_loss[] = {
    {"NegativeLogLikelihoodLoss", 2, 3, 1, 1, OP_HEAVY, infer, eval_nll, NULL, NULL, 0,
     .rows.kind = ROWS_KEPT},
    {"SoftmaxCrossEntropyLoss", 2, 3, 1, 2, OP_HEAVY, infer, eval_cross_entropy, NULL, NULL, 0,
     .rows.kind = ROWS_KEPT},
    {.name = NULL},
};
