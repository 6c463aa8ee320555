#include "engine/cuda/model.h"

#include "base/log.h"
#include "engine/cuda/lower.h"
#include "graph/fuse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const engine_model_info_t *info_of(const engine_model_t *model)
{
    return &model->description.info;
}

/* ---- plans ---- */

static status_t instantiate(engine_model_t *model, const tensor_t *inputs, graph_t **instance, err_t *err)
{
    tensor_t shapes[ENGINE_MAX_IO];
    for (uint32_t i = 0; i < info_of(model)->input_count; i++) {
        shapes[i] = inputs[i];
        shapes[i].data = NULL;
    }
    status_t status = graph_instantiate(model->graph, shapes, instance, err);
    if (status != STATUS_OK)
        return status;
    if ((*instance)->open)
        status = err_set(err, STATUS_UNSUPPORTED, "%.200s", (*instance)->by_value_text);
    else
        status = lower_fuse(*instance, err);
    if (status != STATUS_OK)
        graph_destroy(*instance);
    return status;
}

/* Each such step waits for the GPU and copies both ways: whoever wonders about a slow model must find it said. */
static void note_host_steps(const engine_model_t *model, const program_t *p)
{
    for (uint32_t i = 0; p->host_steps && i < p->step_count; i++) {
        if (p->steps[i].kind != STEP_HOST)
            continue;
        log_warn("steps_on_cpu", LOG_STR("model", model->name), LOG_U64("steps", p->host_steps),
                 LOG_STR("first", p->steps[i].node->op->name));
        return;
    }
}

status_t model_plan_for(engine_model_t *model, engine_precision_t precision, effort_t effort,
                        constants_t *constants, const tensor_t *inputs, plan_t **plan, err_t *err)
{
    graph_t *instance;
    program_t *program;
    status_t status = instantiate(model, inputs, &instance, err);
    if (status == STATUS_OK)
        status = lower_program(instance, precision, constants, &program, err);
    if (status != STATUS_OK)
        return status;
    note_host_steps(model, program);
    return plan_create(program, constants, model->device, model->pool, precision, effort, plan, err);
}

static bool same_shapes(const engine_model_t *model, const slot_t *slot, const tensor_t *inputs)
{
    for (uint32_t i = 0; i < info_of(model)->input_count; i++)
        if (!tensor_same_shape(&slot->shapes[i], &inputs[i]))
            return false;
    return true;
}

plan_t *model_find_plan(engine_model_t *model, uint32_t batch, const tensor_t *inputs)
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
    pthread_mutex_unlock(&model->mutex);
    return plan;
}

/* Only the engine's thread stores plans of varying models, and it waits for the running batch first. */
static status_t store_shape(engine_model_t *model, const tensor_t *inputs, plan_t *plan, err_t *err)
{
    slot_t *oldest = &model->by_shape[0];
    for (uint32_t i = 1; i < MODEL_SHAPES_MAX; i++)
        if (model->by_shape[i].used < oldest->used)
            oldest = &model->by_shape[i];
    size_t len = (info_of(model)->input_count + 1) * sizeof *inputs;
    tensor_t *shapes = malloc(len);
    if (!shapes)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a plan");
    memcpy(shapes, inputs, info_of(model)->input_count * sizeof *inputs);
    plan_destroy(oldest->plan);
    free(oldest->shapes);
    *oldest = (slot_t){.plan = plan, .shapes = shapes, .used = ++model->clock};
    return STATUS_OK;
}

static status_t store(engine_model_t *model, uint32_t batch, const tensor_t *inputs, plan_t *plan, err_t *err)
{
    status_t status = STATUS_OK;
    pthread_mutex_lock(&model->mutex);
    if (model->varies)
        status = store_shape(model, inputs, plan, err);
    else
        model->by_batch[batch] = plan;
    uint64_t bytes = model->constants.len_bytes + plan->program->work_bytes + PLAN_SLOTS * plan->slot_bytes;
    if (status == STATUS_OK && bytes > model->description.info.memory_bytes)
        model->description.info.memory_bytes = bytes;
    pthread_mutex_unlock(&model->mutex);
    return status;
}

status_t model_plan(engine_model_t *model, uint32_t batch, const tensor_t *inputs, plan_t **plan, err_t *err)
{
    if ((*plan = model_find_plan(model, batch, inputs)))
        return STATUS_OK;
    pthread_mutex_lock(&model->building);
    status_t status = STATUS_OK;
    if (!(*plan = model_find_plan(model, batch, inputs))) {
        status =
            model_plan_for(model, model->precision, EFFORT_FASTEST, &model->constants, inputs, plan, err);
        if (status == STATUS_OK && (status = store(model, batch, inputs, *plan, err)) != STATUS_OK)
            plan_destroy(*plan);
    }
    pthread_mutex_unlock(&model->building);
    return status;
}

/* ---- life ---- */

void model_batch_shapes(const engine_model_t *model, uint32_t batch, tensor_t *inputs)
{
    bool batched = info_of(model)->batchable;
    for (uint32_t i = 0; i < info_of(model)->input_count; i++) {
        const engine_tensor_t *t = &info_of(model)->inputs[i];
        inputs[i] = (tensor_t){.dtype = t->dtype, .rank = t->rank + batched};
        inputs[i].dims[0] = batch;
        memcpy(inputs[i].dims + batched, t->dims, t->rank * sizeof t->dims[0]);
    }
}

/* Whether something but the batch varies, and whether shapes depend on contents; the latter shows at a trial size. */
static status_t find_kind(engine_model_t *model, err_t *err)
{
    tensor_t inputs[ENGINE_MAX_IO];
    graph_t *instance;
    model_batch_shapes(model, 1, inputs);
    for (uint32_t i = 0; i < info_of(model)->input_count; i++)
        for (uint32_t d = 0; d < inputs[i].rank; d++)
            if (inputs[i].dims[d] < 0) {
                inputs[i].dims[d] = 16;
                model->varies = true;
            }
    status_t status = graph_instantiate(model->graph, inputs, &instance, err);
    if (status != STATUS_OK)
        return model->varies ? STATUS_OK : status;
    model->by_value = instance->open;
    graph_destroy(instance);
    return STATUS_OK;
}

static status_t open_into(engine_model_t *model, const engine_load_t *what, err_t *err)
{
    status_t status = describe_open(what, &model->graph, err);
    if (status == STATUS_OK)
        status = graph_fold_batch_norms(model->graph, err);
    if (status == STATUS_OK)
        status = graph_recognise(model->graph, err);
    if (status == STATUS_OK)
        status = describe_graph(&model->description, model->graph, what, err);
    if (status == STATUS_OK)
        status = find_kind(model, err);
    if (status != STATUS_OK)
        return status;
    model->by_batch = calloc(info_of(model)->max_batch + 1, sizeof *model->by_batch);
    return model->by_batch ? STATUS_OK
                           : err_set(err, STATUS_NO_MEMORY, "no memory for model '%.80s'", what->name);
}

void model_destroy(engine_model_t *model)
{
    for (uint32_t b = 1; model->by_batch && b <= info_of(model)->max_batch; b++)
        plan_destroy(model->by_batch[b]);
    for (uint32_t i = 0; i < MODEL_SHAPES_MAX; i++) {
        plan_destroy(model->by_shape[i].plan);
        free(model->by_shape[i].shapes);
    }
    free(model->by_batch);
    for (uint32_t i = 0; i < model->constants.count; i++)
        pool_free(model->pool, model->constants.items[i].device);
    constants_dispose(&model->constants);
    description_dispose(&model->description);
    graph_destroy(model->graph);
    pthread_mutex_destroy(&model->mutex);
    pthread_mutex_destroy(&model->building);
    free(model);
}

status_t model_create(engine_t *engine, device_t *device, pool_t *pool, const engine_load_t *what,
                      engine_model_t **out, err_t *err)
{
    engine_model_t *model = calloc(1, sizeof *model);
    if (!model)
        return err_set(err, STATUS_NO_MEMORY, "no memory for model '%.80s'", what->name);
    model->engine = engine;
    model->device = device;
    model->pool = pool;
    model->precision = what->precision;
    snprintf(model->name, sizeof model->name, "%s", what->name);
    pthread_mutex_init(&model->building, NULL);
    pthread_mutex_init(&model->mutex, NULL);
    status_t status = open_into(model, what, err);
    if (status == STATUS_OK)
        *out = model;
    else
        model_destroy(model);
    return status;
}
