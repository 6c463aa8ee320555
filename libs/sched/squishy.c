#include "sched/squishy.h"

#include <math.h>
#include <stdbool.h>

#define NONE UINT32_MAX

typedef struct {
    char *models;
    uint32_t count, stride;
    squishy_node_t *nodes;
    uint32_t nodes_max, used;
} packer_t;

static squishy_model_t *model_at(const packer_t *packer, uint32_t i)
{
    return (squishy_model_t *)(void *)(packer->models + (uint64_t)i * packer->stride);
}

static double latency_ms(const squishy_model_t *model, uint32_t batch)
{
    return (double)profile_latency_ns(model->profile, batch) / 1e6;
}

/* The largest b with l(b) + b/rate <= SLO; the wait grows with b too, so a search on the sum. */
static uint32_t residual_batch(const squishy_model_t *model, double rate)
{
    int64_t gap_ns = (int64_t)fmin(1e6 / rate, 1e15);
    uint32_t batch = profile_largest_batch_sloped(model->profile, (int64_t)(model->slo * 1e6), gap_ns);
    if (batch > model->limit)
        batch = model->limit;
    return batch ? batch : 1;
}

static void split(squishy_model_t *model, double scale)
{
    double rate = model->rate * scale;
    uint32_t batch = profile_largest_batch(model->profile, (int64_t)(model->slo * 0.5e6));
    batch = batch > model->limit ? model->limit : batch ? batch : 1;
    double throughput = batch / fmax(latency_ms(model, batch), 1e-6);
    model->whole_batch = batch;
    model->whole = (uint32_t)fmin(floor(rate / throughput), 1e6);
    model->whole_rate = throughput;
    model->residual = rate - model->whole * throughput;
    model->batch = 0;
    model->node = NONE;
    if (!(model->residual > 0))
        return;
    model->batch = residual_batch(model, model->residual);
    model->duty = model->batch / model->residual;
    model->occupancy = latency_ms(model, model->batch) / model->duty;
}

static uint32_t squished_batch(const squishy_model_t *model, double duty)
{
    double batch = ceil(duty * model->residual - 1e-9);
    return batch < 1 ? 1 : batch > model->limit ? model->limit : (uint32_t)batch;
}

/* Occupancy of the node with one member more, or a value above 1 if they do not fit. */
static double joined_occupancy(const packer_t *packer, const squishy_node_t *node,
                               const squishy_model_t *model)
{
    double duty = fmin(node->duty, model->duty);
    double busy = latency_ms(model, squished_batch(model, duty));
    for (uint32_t i = node->first; i != NONE && busy <= duty; i = model_at(packer, i)->next)
        busy += latency_ms(model_at(packer, i), squished_batch(model_at(packer, i), duty));
    return busy / duty;
}

static bool place(packer_t *packer, uint32_t index)
{
    squishy_model_t *model = model_at(packer, index);
    uint32_t best = NONE;
    double best_occupancy = 0;
    for (uint32_t n = 0; n < packer->used; n++) {
        double occupancy = joined_occupancy(packer, &packer->nodes[n], model);
        if (occupancy <= 1 && occupancy > best_occupancy) {
            best = n;
            best_occupancy = occupancy;
        }
    }
    if (best == NONE) {
        if (packer->used == packer->nodes_max)
            return false;
        best = packer->used++;
        packer->nodes[best] = (squishy_node_t){.duty = model->duty, .first = NONE};
        best_occupancy = model->occupancy;
    }
    squishy_node_t *node = &packer->nodes[best];
    node->duty = fmin(node->duty, model->duty);
    node->occupancy = best_occupancy;
    model->node = best;
    model->next = node->first;
    node->first = index;
    return true;
}

/* Indices of the models with a residual by falling occupancy, in the `order` fields (heapsort: no memory,
 * no recursion). */
static bool comes_later(const packer_t *packer, uint32_t a, uint32_t b)
{
    const squishy_model_t *x = model_at(packer, a), *y = model_at(packer, b);
    return x->occupancy < y->occupancy || (x->occupancy <= y->occupancy && a > b);
}

static void sift(const packer_t *packer, uint32_t at, uint32_t len)
{
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= len)
            return;
        uint32_t right = child + 1;
        if (right < len &&
            !comes_later(packer, model_at(packer, child)->order, model_at(packer, right)->order))
            child = right;
        uint32_t *above = &model_at(packer, at)->order, *below = &model_at(packer, child)->order;
        if (comes_later(packer, *above, *below))
            return;
        uint32_t swap = *above;
        *above = *below;
        *below = swap;
        at = child;
    }
}

static uint32_t sort_residuals(const packer_t *packer)
{
    uint32_t len = 0;
    for (uint32_t i = 0; i < packer->count; i++) {
        const squishy_model_t *model = model_at(packer, i);
        if (model->profile && model->residual > 0)
            model_at(packer, len++)->order = i;
    }
    for (uint32_t i = len / 2; i-- > 0;)
        sift(packer, i, len);
    for (uint32_t end = len; end > 1;) {
        end--;
        uint32_t *first = &model_at(packer, 0)->order, *last = &model_at(packer, end)->order;
        uint32_t swap = *first;
        *first = *last;
        *last = swap;
        sift(packer, 0, end);
    }
    return len;
}

uint32_t squishy_pack(void *models, uint32_t count, uint32_t stride, double scale, squishy_node_t *nodes,
                      uint32_t nodes_max, uint32_t *shared)
{
    packer_t packer = {
        .models = models, .count = count, .stride = stride, .nodes = nodes, .nodes_max = nodes_max};
    uint64_t whole = 0;
    for (uint32_t i = 0; i < count; i++) {
        squishy_model_t *model = model_at(&packer, i);
        if (!model->profile)
            continue;
        split(model, scale);
        whole += model->whole;
    }
    uint32_t residuals = sort_residuals(&packer);
    for (uint32_t i = 0; i < residuals; i++) {
        if (!place(&packer, model_at(&packer, i)->order))
            return UINT32_MAX;
    }
    for (uint32_t i = 0; i < count; i++) {
        squishy_model_t *model = model_at(&packer, i);
        if (!model->profile || model->node == NONE)
            continue;
        model->cycle = nodes[model->node].duty;
        model->batch = squished_batch(model, nodes[model->node].duty);
    }
    *shared = packer.used;
    return packer.used + whole > nodes_max ? UINT32_MAX : packer.used + (uint32_t)whole;
}
