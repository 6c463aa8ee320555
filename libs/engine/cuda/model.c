#include "engine/cuda/model.h"

#include "base/log.h"
#include "engine/cuda/lower/lower.h"
#include "engine/cuda/lower/supports.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- plans ---- */

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
    status_t status = blueprint_instance(&model->blueprint, inputs, &instance, err);
    if (status == STATUS_OK)
        status = lower_program(instance, precision, constants, &program, err);
    if (status != STATUS_OK)
        return status;
    note_host_steps(model, program);
    return plan_create(program, constants, model->gpu->device, &model->gpu->pool, precision, effort, plan,
                       err);
}

/* Under plans.building. Each stream has a work space of its own. */
static void count_bytes(engine_model_t *model)
{
    engine_model_info_t *info = &model->blueprint.description.info;
    uint64_t streams = 0;
    for (uint32_t i = 0; i < sizeof model->streams / sizeof model->streams[0]; i++)
        streams += (uint64_t)__builtin_popcountll(model->streams[i]);
    uint64_t bytes = model->constants.len_bytes + streams * model->plan_bytes;
    if (bytes > info->memory_bytes)
        info->memory_bytes = bytes;
}

void model_note_stream(engine_model_t *model, uint32_t stream)
{
    pthread_mutex_lock(&model->blueprint.plans.building);
    model->streams[stream / 64] |= UINT64_C(1) << stream % 64;
    count_bytes(model);
    pthread_mutex_unlock(&model->blueprint.plans.building);
}

static status_t build(void *ctx, const tensor_t *inputs, plan_entry_t **entry, err_t *err)
{
    engine_model_t *model = ctx;
    plan_t *plan;
    status_t status =
        model_plan_for(model, model->precision, EFFORT_FASTEST, &model->constants, inputs, &plan, err);
    if (status != STATUS_OK)
        return status;
    uint64_t bytes = plan->program->work_bytes + plan->scratch_bytes + SPACE_SLOTS * plan->slot_bytes;
    if (bytes > model->plan_bytes)
        model->plan_bytes = bytes;
    count_bytes(model);
    *entry = &plan->entry;
    return STATUS_OK;
}

status_t model_plan(engine_model_t *model, uint32_t batch, const tensor_t *inputs, plan_t **plan, err_t *err)
{
    plan_entry_t *entry;
    status_t status = plan_table_get(&model->blueprint.plans, batch, inputs, build, model, &entry, err);
    if (status == STATUS_OK)
        *plan = (plan_t *)entry;
    return status;
}

plan_t *model_find_plan(engine_model_t *model, uint32_t batch, const tensor_t *inputs)
{
    return (plan_t *)plan_table_find(&model->blueprint.plans, batch, inputs);
}

void model_release_plan(engine_model_t *model, plan_t *plan)
{
    plan_table_release(&model->blueprint.plans, &plan->entry);
}

/* ---- life ---- */

static void destroy_entry(plan_entry_t *entry)
{
    plan_destroy((plan_t *)entry);
}

void model_destroy(engine_model_t *model)
{
    plan_table_dispose(&model->blueprint.plans);
    for (uint32_t i = 0; i < model->constants.count; i++)
        pool_free(&model->gpu->pool, model->constants.items[i].device);
    constants_dispose(&model->constants);
    blueprint_dispose(&model->blueprint);
    free(model);
}

status_t model_create(engine_t *engine, gpu_t *gpu, const engine_load_t *what, engine_model_t **out,
                      err_t *err)
{
    engine_model_t *model = calloc(1, sizeof *model);
    if (!model)
        return err_set(err, STATUS_NO_MEMORY, "no memory for model '%.80s'", what->name);
    model->engine = engine;
    model->gpu = gpu;
    model->streams[0] = 1; /* where it runs whole */
    model->precision = what->precision;
    snprintf(model->name, sizeof model->name, "%s", what->name);
    status_t status = blueprint_open(&model->blueprint, what, cuda_supports_epilogue, &model_borders, err);
    if (status == STATUS_OK)
        status = plan_table_init(&model->blueprint.plans, model_info(model), model->blueprint.varies,
                                 destroy_entry, err);
    if (status == STATUS_OK)
        *out = model;
    else
        model_destroy(model);
    return status;
}
