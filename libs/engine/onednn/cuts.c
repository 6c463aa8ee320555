/*
 * Where a model can be cut, and the borders there.
 */
#include "engine/onednn/build.h"
#include "engine/onednn/model.h"
#include "engine/segment.h"

#include <stdlib.h>
#include <string.h>

enum {
    TRIAL_SIZE = 16,  /* of what varies, when two batches are compared */
    LAYOUT_BATCH = 8, /* borders have the layouts of this batch, or of the largest one */
    BORDER_ALIGN_BYTES = 64,
};

/* The first place that holds the value in front of this operator. */
static const place_t *place_at(const plan_t *plan, int32_t value, uint32_t op)
{
    for (uint32_t i = 0; i < plan->place_count; i++) {
        const place_t *place = &plan->places[i];
        const buffer_t *b = &plan->buffers[place->buffer];
        uint32_t step = plan->op_steps[op];
        if (place->value == value && place->step <= step &&
            (b->kind != BUFFER_WORK || (b->first < step && b->last >= step)))
            return place;
    }
    return NULL;
}

/* With varying shapes, or where the rows of a layout are not in one piece each, a border is row-major. */
static status_t choose_edges(engine_model_t *model, const plan_t *plan, err_t *err)
{
    const graph_cuts_t *cuts = &model->graph_cuts;
    uint32_t count = 0;
    for (uint32_t c = 0; c < cuts->cut_count; c++)
        count += cuts->cuts[c].value_count;
    model->edges = calloc(count + 1, sizeof *model->edges);
    if (!model->edges)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the cuts of a model");
    for (uint32_t c = 0; c < cuts->cut_count; c++)
        for (uint32_t v = 0; v < cuts->cuts[c].value_count; v++) {
            const int32_t *value = &cuts->cuts[c].values[v];
            edge_t *edge = &model->edges[value - cuts->values];
            const place_t *place = plan ? place_at(plan, *value, cuts->cuts[c].op) : NULL;
            edge->value = *value;
            edge->described = place && place->described && edge_is_sliceable(&place->md);
            if (edge->described)
                edge->md = place->md;
        }
    return STATUS_OK;
}

static size_t cut_row_bytes(const engine_model_t *model, const graph_t *instance, uint32_t cut,
                            uint32_t batch)
{
    const graph_cut_t *c = &model->graph_cuts.cuts[cut];
    size_t bytes = 0;
    for (uint32_t v = 0; v < c->value_count; v++)
        bytes += edge_row_bytes(&model->edges[c->values + v - model->graph_cuts.values],
                                &instance->values[c->values[v]].t, batch);
    return bytes;
}

static status_t publish(engine_model_t *model, const graph_t *instance, uint32_t batch, err_t *err)
{
    const graph_cuts_t *from = &model->graph_cuts;
    engine_cut_t *list = calloc(from->cut_count, sizeof *list);
    if (!list)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the cuts of a model");
    for (uint32_t c = 0; c < from->cut_count; c++)
        list[c] = (engine_cut_t){.op = from->cuts[c].op,
                                 .tensors = from->cuts[c].value_count,
                                 .row_bytes = model->varies ? 0 : cut_row_bytes(model, instance, c, batch),
                                 .name = instance->nodes[from->cuts[c].op - 1].name};
    pthread_mutex_lock(&model->mutex);
    model->cuts = (engine_cuts_t){.ops = from->ops, .cuts = list, .cut_count = from->cut_count};
    pthread_mutex_unlock(&model->mutex);
    return STATUS_OK;
}

static status_t find_cuts(engine_model_t *model, const graph_t *small, const graph_t *large, uint32_t batch,
                          err_t *err)
{
    tensor_t inputs[ENGINE_MAX_IO];
    plan_t *plan = NULL;
    uint32_t most = model_info(model)->max_batch, likely = most < LAYOUT_BATCH ? most : LAYOUT_BATCH;
    status_t status = cuts_find(small, large, &model->graph_cuts, err);
    if (status == STATUS_OK && !model->varies) {
        model_shapes(model, likely, TRIAL_SIZE, inputs);
        status = model_plan(model, likely, inputs, &plan, err);
    }
    if (status == STATUS_OK)
        status = choose_edges(model, plan, err);
    if (status == STATUS_OK)
        status = publish(model, small, batch, err);
    if (plan)
        model_release_plan(model, plan);
    if (status != STATUS_OK)
        model_dispose_cuts(model);
    return status;
}

/* Shapes that the model is known to take, where some were prepared: not every one takes TRIAL_SIZE. */
static void trial_shapes(engine_model_t *model, uint32_t batch, tensor_t *inputs)
{
    model_shapes(model, batch, TRIAL_SIZE, inputs);
    if (model->varies && model_last_shapes(model, inputs) && model_info(model)->batchable)
        for (uint32_t i = 0; i < model_info(model)->input_count; i++)
            inputs[i].dims[0] = batch;
}

static status_t compare_batches(engine_model_t *model, err_t *err)
{
    tensor_t inputs[ENGINE_MAX_IO];
    graph_t *small, *large = NULL;
    bool batched = model_info(model)->batchable;
    if (model->by_value)
        return err_set(err, STATUS_UNSUPPORTED, "shapes depend on contents: the model runs whole");
    trial_shapes(model, batched ? 2 : 1, inputs);
    status_t status = model_instance(model, inputs, &small, err);
    if (status != STATUS_OK)
        return status;
    if (batched) {
        trial_shapes(model, 3, inputs);
        status = model_instance(model, inputs, &large, err);
    }
    if (status == STATUS_OK)
        status = find_cuts(model, small, large ? large : small, batched ? 2 : 1, err);
    graph_destroy(large);
    graph_destroy(small);
    return status;
}

status_t model_cuts(engine_model_t *model, engine_cuts_t *cuts, err_t *err)
{
    pthread_mutex_lock(&model->cutting);
    status_t status = model->cuts.ops ? STATUS_OK : compare_batches(model, err);
    if (status == STATUS_OK)
        *cuts = model->cuts;
    pthread_mutex_unlock(&model->cutting);
    return status;
}

void model_dispose_cuts(engine_model_t *model)
{
    free((void *)(uintptr_t)model->cuts.cuts);
    free(model->edges);
    cuts_dispose(&model->graph_cuts);
    model->cuts = (engine_cuts_t){0};
    model->edges = NULL;
}

edges_t model_edges(const engine_model_t *model, uint32_t op)
{
    uint32_t cut = model->cuts.ops ? segment_find_cut(&model->cuts, op) : UINT32_MAX;
    if (cut == UINT32_MAX)
        return (edges_t){.count = 0};
    const graph_cut_t *at = &model->graph_cuts.cuts[cut];
    return (edges_t){.edges = model->edges + (at->values - model->graph_cuts.values),
                     .count = at->value_count};
}

/* ---- borders ---- */

static status_t largest_row(engine_model_t *model, const uint32_t *cuts, uint32_t count,
                            const graph_t *instance, size_t *row_bytes, err_t *err)
{
    *row_bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t cut = segment_find_cut(&model->cuts, cuts[i]);
        if (cut == UINT32_MAX)
            return err_set(err, STATUS_INVALID_ARGUMENT, "the model cannot be cut before operator %u",
                           cuts[i]);
        size_t bytes = instance ? cut_row_bytes(model, instance, cut, 1) : model->cuts.cuts[cut].row_bytes;
        *row_bytes = bytes > *row_bytes ? bytes : *row_bytes;
    }
    return STATUS_OK;
}

/* Of one row, with these shapes. */
static status_t shape_instance(engine_model_t *model, const engine_shape_t *shapes, graph_t **instance,
                               err_t *err)
{
    tensor_t inputs[ENGINE_MAX_IO];
    engine_shape_t one[ENGINE_MAX_IO];
    if (!shapes)
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "the dimensions of the model vary: say how large they get");
    memcpy(one, shapes, model_info(model)->input_count * sizeof *one);
    for (uint32_t i = 0; model_info(model)->batchable && i < model_info(model)->input_count; i++)
        one[i].dims[0] = 1;
    status_t status = cpu_input_shapes(model_info(model), 1, one, inputs, err);
    return status == STATUS_OK ? model_instance(model, inputs, instance, err) : status;
}

static status_t make_border(engine_model_t *model, uint32_t rows, size_t row_bytes, engine_border_t **out,
                            err_t *err)
{
    uint64_t len = (uint64_t)rows * row_bytes;
    status_t status = model_account(model->engine, (int64_t)len, err);
    if (status != STATUS_OK)
        return err_prefix(err, "a border of %llu bytes", (unsigned long long)len);
    engine_border_t *border = calloc(1, sizeof *border);
    char *data = aligned_alloc(BORDER_ALIGN_BYTES,
                               (len + BORDER_ALIGN_BYTES) / BORDER_ALIGN_BYTES * BORDER_ALIGN_BYTES);
    if (!border || !data) {
        free(border);
        free(data);
        model_account(model->engine, -(int64_t)len, NULL);
        return err_set(err, STATUS_NO_MEMORY, "no memory for a border of %llu bytes",
                       (unsigned long long)len);
    }
    *border = (engine_border_t){.model = model, .rows = rows, .len_bytes = len, .data = data};
    *out = border;
    return STATUS_OK;
}

status_t border_create(engine_model_t *model, const uint32_t *cuts, uint32_t cut_count, uint32_t rows,
                       const engine_shape_t *largest_shapes, engine_border_t **border, err_t *err)
{
    graph_t *instance = NULL;
    size_t row_bytes;
    status_t status = model->varies ? shape_instance(model, largest_shapes, &instance, err) : STATUS_OK;
    if (status == STATUS_OK && instance && cuts_signature(instance) != model->graph_cuts.signature)
        status = err_set(err, STATUS_UNSUPPORTED,
                         "with these shapes the model has other operators: it runs whole");
    if (status == STATUS_OK)
        status = largest_row(model, cuts, cut_count, instance, &row_bytes, err);
    graph_destroy(instance);
    return status == STATUS_OK ? make_border(model, rows, row_bytes, border, err) : status;
}

void border_destroy(engine_border_t *border)
{
    if (!border)
        return;
    model_account(border->model->engine, -(int64_t)border->len_bytes, NULL);
    free(border->data);
    free(border);
}

uint64_t border_bytes(const engine_border_t *border)
{
    return border->len_bytes;
}
