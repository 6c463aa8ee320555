/*
 * Making the plans of a model, which all its streams share.
 */
#include "engine/onednn/lower/lower.h"
#include "engine/onednn/model.h"
#include "engine/onednn/run/team.h"

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
    status = lower_plan(instance, &model->weights, &model->choices, e->dnnl, stream, plan, err);
    if (status == STATUS_OK) {
        (*plan)->model = model;
        (*plan)->signature = cuts_signature((*plan)->instance);
    }
    omp_set_num_threads(before);
    dnnl_stream_destroy(stream);
    return status;
}

/* Under the lock. NO_MEMORY: what came on top is not counted. */
static status_t count_bytes(engine_model_t *model, err_t *err)
{
    uint64_t bytes = model->graph_bytes - model->dropped_bytes + model->weight_bytes + model->work_bytes +
                     model->fork_bytes;
    if (bytes == model->counted_bytes)
        return STATUS_OK;
    status_t status = model_account(model->engine, (int64_t)(bytes - model->counted_bytes), err);
    if (status == STATUS_OK)
        model->counted_bytes = model->blueprint.description.info.memory_bytes = bytes;
    return status;
}

/* What the model takes now that it has this plan. */
static status_t account_plan(engine_model_t *model, const plan_t *plan, err_t *err)
{
    pthread_mutex_lock(&model->segmenting);
    uint64_t before = model->work_bytes;
    model->weight_bytes = model->weights.len_bytes;
    model->dropped_bytes = model->weights.dropped_bytes;
    model->work_bytes = plan->work_bytes > before ? plan->work_bytes : before;
    status_t status = count_bytes(model, err);
    if (status != STATUS_OK)
        model->work_bytes = before;
    pthread_mutex_unlock(&model->segmenting);
    return status;
}

static uint64_t bytes_of_forks(const plan_t *plan)
{
    uint64_t bytes = 0;
    for (const fork_t *fork = plan->forks; fork; fork = fork->next)
        bytes += fork->len_bytes;
    return bytes;
}

static void destroy_entry(plan_entry_t *entry)
{
    plan_t *plan = (plan_t *)entry;
    engine_model_t *model = plan->model;
    pthread_mutex_lock(&model->segmenting);
    model->fork_bytes -= bytes_of_forks(plan);
    (void)count_bytes(model, NULL); /* it can only be less */
    pthread_mutex_unlock(&model->segmenting);
    plan_destroy(plan);
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
    return plan_table_init(&model->blueprint.plans, model_info(model), model->blueprint.varies, destroy_entry,
                           err);
}

status_t model_plan(engine_model_t *model, uint32_t batch, const tensor_t *inputs, plan_t **plan, err_t *err)
{
    plan_entry_t *entry;
    status_t status = plan_table_get(&model->blueprint.plans, batch, inputs, build, model, &entry, err);
    if (status == STATUS_OK)
        *plan = (plan_t *)entry;
    return status;
}

void model_release_plan(engine_model_t *model, plan_t *plan)
{
    plan_table_release(&model->blueprint.plans, &plan->entry);
}

/* ---- segments ---- */

/* What a border holds at a cut; nothing at the ends. */
static edges_t edges_at(const engine_model_t *model, uint32_t op)
{
    edges_t edges;
    edges.edges = border_edges(&model->blueprint, op, &edges.count);
    return edges;
}

static status_t find_fork(engine_model_t *model, plan_t *plan, uint32_t stream, uint32_t batch, fork_t **fork,
                          err_t *err)
{
    for (*fork = plan->forks; *fork; *fork = (*fork)->next)
        if ((*fork)->stream == stream)
            return STATUS_OK;
    status_t status = fork_create(plan, stream, batch, model->engine->dnnl, fork, err);
    if (status != STATUS_OK)
        return status;
    (*fork)->next = plan->forks;
    plan->forks = *fork;
    return STATUS_OK;
}

static status_t reach_both(const engine_model_t *model, fork_t *fork, const engine_range_t *range, err_t *err)
{
    dnnl_engine_t dnnl = model->engine->dnnl;
    status_t status = fork_reach(fork, edges_at(model, range->from), range->from, true, dnnl, err);
    return status == STATUS_OK ? fork_reach(fork, edges_at(model, range->to), range->to, false, dnnl, err)
                               : status;
}

status_t model_segment(engine_model_t *model, plan_t *plan, const engine_range_t *range, uint32_t batch,
                       segment_t *segment, err_t *err)
{
    bool parted = range->from || range->to != plan->instance->node_count;
    if (parted && plan->signature != model->blueprint.graph_cuts.signature)
        return blueprint_check_instance(&model->blueprint, plan->instance, err);
    pthread_mutex_lock(&model->segmenting);
    uint64_t before = bytes_of_forks(plan);
    *segment = (segment_t){.range = *range};
    status_t status = find_fork(model, plan, range->stream, batch, &segment->fork, err);
    if (status == STATUS_OK)
        status = reach_both(model, segment->fork, range, err);
    model->fork_bytes += bytes_of_forks(plan) - before;
    status = status == STATUS_OK ? count_bytes(model, err) : status;
    pthread_mutex_unlock(&model->segmenting);
    return status;
}
