/*
 * How values lie on the borders of a model, and what these are made of.
 */
#include "engine/onednn/model.h"
#include "engine/onednn/run/md.h"

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

static status_t make(engine_model_t *model, uint32_t batch, const tensor_t *inputs, void **made, err_t *err)
{
    plan_t *plan = NULL;
    status_t status = model->blueprint.varies ? STATUS_OK : model_plan(model, batch, inputs, &plan, err);
    *made = plan;
    return status;
}

static void drop(engine_model_t *model, void *made)
{
    if (made)
        model_release_plan(model, made);
}

/* With varying shapes, or where the rows of a layout are not in one piece each, a border is row-major. */
static bool lay_out(const void *made, int32_t value, uint32_t op, void *to)
{
    const plan_t *plan = made;
    const place_t *place = plan ? place_at(plan, value, op) : NULL;
    edge_t *edge = to;
    edge->value = value;
    edge->described = place && md_of_place(plan, place, &edge->md) && edge_is_sliceable(&edge->md);
    return true;
}

static size_t row_bytes(const void *edge, const tensor_t *t, uint32_t batch)
{
    return edge_row_bytes(edge, t, batch);
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

const border_ops_t model_borders = {
    .edge_bytes = sizeof(edge_t),
    .make = make,
    .drop = drop,
    .lay_out = lay_out,
    .row_bytes = row_bytes,
    .take = take,
    .give = give,
};
