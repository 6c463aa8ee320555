/*
 * Runs a graph with the reference kernels of libs/graph: slow, and what the other engines are compared with. Nothing is
 * prepared; every run interprets the graph.
 */
#include "engine/backends.h"
#include "engine/queue/cpu.h"

#include <stdlib.h>
#include <string.h>

struct engine {
    cpu_t cpu;
};

struct engine_model {
    description_t description;
    graph_t *graph;
};

static const engine_model_info_t *info(const engine_model_t *model)
{
    return &model->description.info;
}

static status_t run(cpu_lane_t *lane, engine_job_t *job, err_t *err)
{
    (void)lane;
    engine_model_t *model = job->model;
    tensor_t inputs[ENGINE_MAX_IO];
    status_t status = cpu_job_inputs(info(model), job, inputs, err);
    return status == STATUS_OK ? cpu_job_interpret(info(model), job, model->graph, inputs, err) : status;
}

static status_t reference_open(const engine_config_t *config, engine_t **out, err_t *err)
{
    engine_t *engine = calloc(1, sizeof *engine);
    if (!engine)
        return err_set(err, STATUS_NO_MEMORY, "no memory for an engine");
    engine->cpu.run = run;
    engine->cpu.info = info;
    status_t status = cpu_init(&engine->cpu, config, err);
    if (status == STATUS_OK)
        *out = engine;
    else
        free(engine);
    return status;
}

static void reference_close(engine_t *engine)
{
    cpu_dispose(&engine->cpu);
    free(engine);
}

static status_t load(engine_t *engine, const engine_load_t *what, engine_model_t **out, err_t *err)
{
    (void)engine;
    engine_model_t *model = calloc(1, sizeof *model);
    if (!model)
        return err_set(err, STATUS_NO_MEMORY, "no memory for model '%s'", what->name);
    status_t status = describe_open(what, &model->graph, err);
    if (status == STATUS_OK)
        status = describe_graph(&model->description, model->graph, what, err);
    if (status == STATUS_OK) {
        *out = model;
        return status;
    }
    graph_destroy(model->graph);
    free(model);
    return status;
}

static void unload(engine_model_t *model)
{
    description_dispose(&model->description);
    graph_destroy(model->graph);
    free(model);
}

static status_t prepare(engine_model_t *model, uint32_t batch, err_t *err)
{
    if (batch < 1 || batch > info(model)->max_batch)
        return err_set(err, STATUS_INVALID_ARGUMENT, "batch %u is outside 1..%u", batch,
                       info(model)->max_batch);
    return STATUS_OK;
}

const engine_ops_t engine_reference = {
    .abi = ENGINE_ABI,
    .size_bytes = sizeof(engine_ops_t),
    .name = "reference",
    .device_count = cpu_device_count,
    .open = reference_open,
    .close = reference_close,
    .load = load,
    .unload = unload,
    .info = info,
    .prepare = prepare,
    .submit = cpu_engine_submit,
    .cancel = cpu_engine_cancel,
    .flush = cpu_engine_flush,
    .buffer_alloc = cpu_buffer_alloc,
    .buffer_free = cpu_buffer_free,
};
