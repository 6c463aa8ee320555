/*
 * How values lie on the borders of a model, and the borders.
 */
#include "engine/cuda/lower.h"
#include "engine/cuda/model.h"

#include <stdlib.h>

static bool holds_all(const program_t *program, const graph_cut_t *cut, edge_t *edges)
{
    bool any = false;
    for (uint32_t v = 0; v < cut->value_count; v++) {
        edges[v] = edge_of(program, cut->values[v], cut->op);
        any = any || edges[v].used;
    }
    return any;
}

/* A cut at which no step looks for anything is none: what is behind it depends on nothing. */
static status_t choose_edges(engine_model_t *model, const program_t *program, err_t *err)
{
    graph_cuts_t *cuts = &model->blueprint.graph_cuts;
    uint32_t kept = 0;
    free(model->edges);
    model->edges = calloc(blueprint_value_count(&model->blueprint) + 1, sizeof *model->edges);
    if (!model->edges)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the cuts of a model");
    for (uint32_t c = 0; c < cuts->cut_count; c++)
        if (holds_all(program, &cuts->cuts[c], model->edges + (cuts->cuts[c].values - cuts->values)))
            cuts->cuts[kept++] = cuts->cuts[c];
    cuts->cut_count = kept;
    return kept ? STATUS_OK : err_set(err, STATUS_UNSUPPORTED, "nothing is alive at any cut of the model");
}

/* Lowering needs no GPU; only the constants of the program are noted, for when a plan wants them. */
static status_t choose(engine_model_t *model, err_t *err)
{
    tensor_t inputs[ENGINE_MAX_IO];
    graph_t *instance;
    program_t *program;
    uint32_t likely = blueprint_layout_batch(&model->blueprint);
    blueprint_trial_shapes(&model->blueprint, &model->plans, likely, inputs);
    status_t status = blueprint_instance(&model->blueprint, inputs, &instance, err);
    if (status != STATUS_OK)
        return status;
    pthread_mutex_lock(&model->plans.building);
    status = lower_program(instance, model->precision, &model->constants, &program, err);
    pthread_mutex_unlock(&model->plans.building);
    if (status != STATUS_OK)
        return status;
    status = choose_edges(model, program, err);
    program_destroy(program);
    return status;
}

static size_t value_row_bytes(const engine_model_t *model, uint32_t i, const tensor_t *t, uint32_t batch)
{
    return edge_room_bytes(&model->edges[i], t, batch);
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

/* ---- segments ---- */

static status_t find_transfers(engine_model_t *model, plan_t *plan, uint32_t op, bool into, uint32_t batch,
                               const transfers_t **transfers, err_t *err)
{
    uint32_t first, count;
    blueprint_values(&model->blueprint, op, &first, &count);
    edges_t edges = {.edges = model->edges + first, .count = count};
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
