/*
 * Making the plans of a model, which all its streams share.
 */
#include "engine/onednn/build.h"
#include "engine/onednn/model.h"

#include <omp.h>
#include <stdlib.h>

status_t model_account(engine_t *e, int64_t change_bytes, err_t *err)
{
    uint64_t before = atomic_load(&e->memory_bytes), after;
    do {
        after = before + (uint64_t)change_bytes;
        if (change_bytes > 0 && e->memory_limit_bytes && after > e->memory_limit_bytes)
            return err_set(err, STATUS_NO_MEMORY, "%llu MiB are needed, and %llu of %llu MiB are in use",
                           (unsigned long long)(change_bytes >> 20), (unsigned long long)(before >> 20),
                           (unsigned long long)(e->memory_limit_bytes >> 20));
    } while (!atomic_compare_exchange_weak(&e->memory_bytes, &before, after));
    return STATUS_OK;
}

/* Primitives are made for the number of threads of the thread that makes them. */
static status_t compile(engine_model_t *model, const tensor_t *inputs, plan_t **plan, err_t *err)
{
    engine_t *e = model->engine;
    graph_t *instance;
    dnnl_stream_t stream;
    int before = omp_get_max_threads();
    status_t status = blueprint_instance(&model->blueprint, inputs, &instance, err);
    if (status != STATUS_OK)
        return status;
    if (dnnl_stream_create(&stream, e->dnnl, dnnl_stream_default_flags) != dnnl_success) {
        graph_destroy(instance);
        return err_set(err, STATUS_NO_MEMORY, "no memory for a stream");
    }
    omp_set_num_threads(e->threads);
    status = build_plan(instance, &model->weights, e->dnnl, stream, plan, err);
    omp_set_num_threads(before);
    dnnl_stream_destroy(stream);
    return status;
}

/* What the model takes now that it has this plan. */
static status_t account_plan(engine_model_t *model, const plan_t *plan, err_t *err)
{
    uint64_t most = plan->work_bytes > model->work_bytes ? plan->work_bytes : model->work_bytes;
    uint64_t bytes = model->graph_bytes + model->weights.len_bytes + most;
    status_t status = model_account(model->engine, (int64_t)(bytes - model->counted_bytes), err);
    if (status != STATUS_OK)
        return status;
    model->counted_bytes = model->blueprint.description.info.memory_bytes = bytes;
    model->work_bytes = most;
    return STATUS_OK;
}

static void destroy_entry(plan_entry_t *entry)
{
    plan_destroy((plan_t *)entry);
}

static status_t build(void *ctx, const tensor_t *inputs, plan_entry_t **entry, err_t *err)
{
    engine_model_t *model = ctx;
    plan_t *plan;
    status_t status = compile(model, inputs, &plan, err);
    if (status != STATUS_OK)
        return status;
    status = account_plan(model, plan, err);
    if (status == STATUS_OK)
        *entry = &plan->entry;
    else
        plan_destroy(plan);
    return status;
}

status_t model_init_plans(engine_model_t *model, err_t *err)
{
    return plan_table_init(&model->plans, model_info(model), model->blueprint.varies, destroy_entry, err);
}

status_t model_plan(engine_model_t *model, uint32_t batch, const tensor_t *inputs, plan_t **plan, err_t *err)
{
    plan_entry_t *entry;
    status_t status = plan_table_get(&model->plans, batch, inputs, build, model, &entry, err);
    if (status == STATUS_OK)
        *plan = (plan_t *)entry;
    return status;
}

void model_release_plan(engine_model_t *model, plan_t *plan)
{
    plan_table_release(&model->plans, &plan->entry);
}

/* ---- segments ---- */

static segment_t *find_segment(const plan_t *plan, const engine_range_t *range)
{
    for (segment_t *s = plan->segments; s; s = s->next)
        if (s->range.stream == range->stream && s->range.from == range->from && s->range.to == range->to)
            return s;
    return NULL;
}

status_t model_segment(engine_model_t *model, plan_t *plan, const engine_range_t *range, uint32_t batch,
                       segment_t **segment, err_t *err)
{
    status_t status = STATUS_OK;
    bool parted = range->from || range->to != plan->instance->node_count;
    if (parted)
        status = blueprint_check_instance(&model->blueprint, plan->instance, err);
    if (status != STATUS_OK)
        return status;
    pthread_mutex_lock(&model->segmenting);
    *segment = find_segment(plan, range);
    if (!*segment)
        status = segment_create(plan, range, batch, model_edges(model, range->from),
                                model_edges(model, range->to), model->engine->dnnl, segment, err);
    if (status == STATUS_OK && !find_segment(plan, range)) {
        (*segment)->next = plan->segments;
        plan->segments = *segment;
    }
    pthread_mutex_unlock(&model->segmenting);
    return status;
}
