/*
 * The plans of a model: one for each batch size or set of shapes, made when it is first wanted and shared by all streams.
 */
#include "engine/onednn/build.h"
#include "engine/onednn/model.h"
#include "graph/fuse.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

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

void model_shapes(const engine_model_t *model, uint32_t batch, int64_t size, tensor_t *inputs)
{
    bool batched = model_info(model)->batchable;
    for (uint32_t i = 0; i < model_info(model)->input_count; i++) {
        const engine_tensor_t *t = &model_info(model)->inputs[i];
        inputs[i] = (tensor_t){.dtype = t->dtype, .rank = t->rank + batched};
        inputs[i].dims[0] = batch;
        for (uint32_t d = 0; d < t->rank; d++)
            inputs[i].dims[d + batched] = t->dims[d] < 0 ? size : t->dims[d];
    }
}

status_t model_instance(engine_model_t *model, const tensor_t *inputs, graph_t **instance, err_t *err)
{
    tensor_t shapes[ENGINE_MAX_IO];
    for (uint32_t i = 0; i < model_info(model)->input_count; i++) {
        shapes[i] = inputs[i];
        shapes[i].data = NULL;
    }
    status_t status = graph_instantiate(model->graph, shapes, instance, err);
    if (status != STATUS_OK)
        return status;
    if ((*instance)->open) {
        status = err_set(err, STATUS_UNSUPPORTED, "%.200s", (*instance)->by_value_text);
        graph_destroy(*instance);
        return status;
    }
    return graph_fuse_epilogues(*instance, build_allows, err);
}

/* Primitives are made for the number of threads of the thread that makes them. */
static status_t compile(engine_model_t *model, const tensor_t *inputs, plan_t **plan, err_t *err)
{
    engine_t *e = model->engine;
    graph_t *instance;
    dnnl_stream_t stream;
    int before = omp_get_max_threads();
    status_t status = model_instance(model, inputs, &instance, err);
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

static bool same_shapes(const engine_model_t *model, const slot_t *slot, const tensor_t *inputs)
{
    for (uint32_t i = 0; i < model_info(model)->input_count; i++)
        if (!tensor_same_shape(&slot->shapes[i], &inputs[i]))
            return false;
    return true;
}

static plan_t *find_plan(engine_model_t *model, uint32_t batch, const tensor_t *inputs)
{
    plan_t *plan = NULL;
    pthread_mutex_lock(&model->mutex);
    if (!model->varies)
        plan = model->by_batch[batch];
    for (uint32_t i = 0; model->varies && i < MODEL_SHAPES_MAX && !plan; i++) {
        slot_t *slot = &model->by_shape[i];
        if (!slot->plan || !same_shapes(model, slot, inputs))
            continue;
        slot->used = ++model->clock;
        plan = slot->plan;
    }
    if (plan)
        plan->users++;
    pthread_mutex_unlock(&model->mutex);
    return plan;
}

bool model_last_shapes(engine_model_t *model, tensor_t *inputs)
{
    const slot_t *last = NULL;
    pthread_mutex_lock(&model->mutex);
    for (uint32_t i = 0; i < MODEL_SHAPES_MAX; i++) {
        const slot_t *slot = &model->by_shape[i];
        if (slot->plan && (!last || slot->used > last->used))
            last = slot;
    }
    for (uint32_t i = 0; last && i < model_info(model)->input_count; i++)
        inputs[i] = last->shapes[i];
    pthread_mutex_unlock(&model->mutex);
    return last != NULL;
}

void model_release_plan(engine_model_t *model, plan_t *plan)
{
    pthread_mutex_lock(&model->mutex);
    plan->users--;
    pthread_mutex_unlock(&model->mutex);
}

/* There are more slots than streams, so one is always free of users. */
static status_t store_shape(engine_model_t *model, const tensor_t *inputs, plan_t *plan, err_t *err)
{
    slot_t *oldest = NULL;
    for (uint32_t i = 0; i < MODEL_SHAPES_MAX; i++) {
        slot_t *slot = &model->by_shape[i];
        if (!(slot->plan && slot->plan->users) && (!oldest || slot->used < oldest->used))
            oldest = slot;
    }
    size_t len = (model_info(model)->input_count + 1) * sizeof *inputs;
    tensor_t *shapes = malloc(len);
    if (!shapes)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a plan");
    memcpy(shapes, inputs, model_info(model)->input_count * sizeof *inputs);
    plan_destroy(oldest->plan);
    free(oldest->shapes);
    *oldest = (slot_t){.plan = plan, .shapes = shapes, .used = ++model->clock};
    return STATUS_OK;
}

static status_t store_plan(engine_model_t *model, uint32_t batch, const tensor_t *inputs, plan_t *plan,
                           err_t *err)
{
    pthread_mutex_lock(&model->mutex);
    uint64_t most = plan->work_bytes > model->work_bytes ? plan->work_bytes : model->work_bytes;
    uint64_t bytes = model->graph_bytes + model->weights.len_bytes + most;
    status_t status = model_account(model->engine, (int64_t)(bytes - model->counted_bytes), err);
    if (status == STATUS_OK)
        model->counted_bytes = bytes;
    if (status == STATUS_OK && model->varies)
        status = store_shape(model, inputs, plan, err);
    else if (status == STATUS_OK)
        model->by_batch[batch] = plan;
    if (status == STATUS_OK) {
        model->description.info.memory_bytes = bytes;
        model->work_bytes = most;
        plan->users = 1;
    }
    pthread_mutex_unlock(&model->mutex);
    return status;
}

status_t model_plan(engine_model_t *model, uint32_t batch, const tensor_t *inputs, plan_t **plan, err_t *err)
{
    if ((*plan = find_plan(model, batch, inputs)))
        return STATUS_OK;
    pthread_mutex_lock(&model->building);
    status_t status = STATUS_OK;
    if (!(*plan = find_plan(model, batch, inputs))) {
        status = compile(model, inputs, plan, err);
        if (status == STATUS_OK && (status = store_plan(model, batch, inputs, *plan, err)) != STATUS_OK)
            plan_destroy(*plan);
    }
    pthread_mutex_unlock(&model->building);
    return status;
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
    if (parted && cuts_signature(plan->instance) != model->graph_cuts.signature)
        return err_set(err, STATUS_UNSUPPORTED,
                       "with these shapes the model has other operators: it runs whole");
    pthread_mutex_lock(&model->mutex);
    *segment = find_segment(plan, range);
    if (!*segment)
        status = segment_create(plan, range, batch, model_edges(model, range->from),
                                model_edges(model, range->to), model->engine->dnnl, segment, err);
    if (status == STATUS_OK && !find_segment(plan, range)) {
        (*segment)->next = plan->segments;
        plan->segments = *segment;
    }
    pthread_mutex_unlock(&model->mutex);
    return status;
}
