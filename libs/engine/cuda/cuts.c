/*
 * How values lie on the borders of a model, what these are made of, and the parts of a plan between them.
 */
#include "engine/cuda/lower/lower.h"
#include "engine/cuda/model.h"

/* Lowering needs no GPU; only the constants of the program are noted, for when a plan wants them. */
static status_t make(engine_model_t *model, uint32_t batch, const tensor_t *inputs, void **made, err_t *err)
{
    graph_t *instance;
    program_t *program;
    (void)batch;
    status_t status = blueprint_instance(&model->blueprint, inputs, &instance, err);
    if (status != STATUS_OK)
        return status;
    pthread_mutex_lock(&model->blueprint.plans.building);
    status = lower_program(instance, model->precision, &model->constants, &program, err);
    pthread_mutex_unlock(&model->blueprint.plans.building);
    if (status == STATUS_OK)
        *made = program;
    return status;
}

static void drop(engine_model_t *model, void *made)
{
    (void)model;
    program_destroy(made);
}

static bool lay_out(const void *made, int32_t value, uint32_t op, void *edge)
{
    *(edge_t *)edge = edge_of(made, value, op);
    return ((edge_t *)edge)->used;
}

static size_t row_bytes(const void *edge, const tensor_t *t, uint32_t batch)
{
    return edge_room_bytes(edge, t, batch);
}

static status_t take(engine_model_t *model, uint64_t len_bytes, void **data, err_t *err)
{
    return pool_alloc(&model->gpu->pool, len_bytes, data, err);
}

static void give(engine_model_t *model, void *data, uint64_t len_bytes)
{
    (void)len_bytes;
    pool_free(&model->gpu->pool, data);
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

/* ---- segments ---- */

static status_t find_transfers(engine_model_t *model, plan_t *plan, uint32_t op, bool into, uint32_t batch,
                               const transfers_t **transfers, err_t *err)
{
    edges_t edges;
    edges.edges = border_edges(&model->blueprint, op, &edges.count);
    return plan_transfers(plan, op, into, edges, batch, transfers, err);
}

/* The signature of a plan is worth keeping: it goes through all nodes. */
static bool is_alike(const engine_model_t *model, plan_t *plan)
{
    if (!model->blueprint.cuts.ops)
        return false;
    if (!atomic_load(&plan->alike)) {
        status_t same = blueprint_check_instance(&model->blueprint, plan->program->instance, NULL);
        atomic_store(&plan->alike, same == STATUS_OK ? 1 : -1);
    }
    return atomic_load(&plan->alike) > 0;
}

status_t model_segment(engine_model_t *model, plan_t *plan, const engine_range_t *range, uint32_t batch,
                       segment_t *segment, err_t *err)
{
    uint32_t ops = plan->program->instance->node_count;
    segment_t s = {.from = range->from, .to = range->to, .is_last = range->to == ops};
    status_t status = STATUS_OK;
    s.alike = is_alike(model, plan);
    if ((s.from || !s.is_last) && !s.alike)
        status = blueprint_check_instance(&model->blueprint, plan->program->instance, err);
    if (status == STATUS_OK && s.from)
        status = find_transfers(model, plan, s.from, true, batch, &s.loads, err);
    if (status == STATUS_OK && !s.is_last)
        status = find_transfers(model, plan, s.to, false, batch, &s.stores, err);
    if (status != STATUS_OK)
        return status;
    s.first_step = program_first_step(plan->program, s.from);
    s.end_step = program_end_step(plan->program, s.to);
    *segment = s;
    return STATUS_OK;
}
