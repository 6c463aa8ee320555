/*
 * How values lie on the borders of a model, and the borders.
 */
#include "engine/onednn/build.h"
#include "engine/onednn/model.h"

#include <stdlib.h>

enum { BORDER_ALIGN_BYTES = 64 };

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
    const graph_cuts_t *cuts = &model->blueprint.graph_cuts;
    free(model->edges);
    model->edges = calloc(blueprint_value_count(&model->blueprint) + 1, sizeof *model->edges);
    if (!model->edges)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the cuts of a model");
    for (uint32_t c = 0; c < cuts->cut_count; c++)
        for (uint32_t v = 0; v < cuts->cuts[c].value_count; v++) {
            const int32_t *value = &cuts->cuts[c].values[v];
            edge_t *edge = &model->edges[value - cuts->values];
            const place_t *place = plan ? place_at(plan, *value, cuts->cuts[c].op) : NULL;
            edge->value = *value;
            edge->described = place && build_place_md(plan, place, &edge->md) && edge_is_sliceable(&edge->md);
        }
    return STATUS_OK;
}

static status_t choose(engine_model_t *model, err_t *err)
{
    tensor_t inputs[ENGINE_MAX_IO];
    plan_t *plan;
    uint32_t likely = blueprint_layout_batch(&model->blueprint);
    if (model->blueprint.varies)
        return choose_edges(model, NULL, err);
    blueprint_shapes(&model->blueprint, likely, BLUEPRINT_TRIAL_SIZE, inputs);
    status_t status = model_plan(model, likely, inputs, &plan, err);
    if (status != STATUS_OK)
        return status;
    status = choose_edges(model, plan, err);
    model_release_plan(model, plan);
    return status;
}

static size_t value_row_bytes(const engine_model_t *model, uint32_t i, const tensor_t *t, uint32_t batch)
{
    return edge_row_bytes(&model->edges[i], t, batch);
}

static status_t take(engine_model_t *model, uint64_t len_bytes, void **data, err_t *err)
{
    status_t status = model_account(model->engine, (int64_t)len_bytes, err);
    if (status != STATUS_OK)
        return status;
    *data = aligned_alloc(BORDER_ALIGN_BYTES,
                          (len_bytes + BORDER_ALIGN_BYTES) / BORDER_ALIGN_BYTES * BORDER_ALIGN_BYTES);
    if (*data)
        return STATUS_OK;
    model_account(model->engine, -(int64_t)len_bytes, NULL);
    return err_set(err, STATUS_NO_MEMORY, "out of memory");
}

static void give(engine_model_t *model, void *data, uint64_t len_bytes)
{
    model_account(model->engine, -(int64_t)len_bytes, NULL);
    free(data);
}

const border_layout_t model_borders = {
    .choose = choose, .row_bytes = value_row_bytes, .take = take, .give = give};

status_t model_cuts(engine_model_t *model, engine_cuts_t *cuts, err_t *err)
{
    return blueprint_cuts(&model->blueprint, model, &model->plans, cuts, err);
}

status_t border_create(engine_model_t *model, const uint32_t *cuts, uint32_t cut_count, uint32_t rows,
                       const engine_shape_t *largest_shapes, engine_border_t **border, err_t *err)
{
    return blueprint_border_create(&model->blueprint, model, cuts, cut_count, rows, largest_shapes, border,
                                   err);
}

edges_t model_edges(const engine_model_t *model, uint32_t op)
{
    uint32_t first, count;
    blueprint_values(&model->blueprint, op, &first, &count);
    return (edges_t){.edges = model->edges + first, .count = count};
}
