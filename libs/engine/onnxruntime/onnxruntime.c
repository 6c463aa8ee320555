/*
 * CPU engine on onnxruntime: whatever it runs. One thread for each stream calls it; a session of each model for each
 * device, with threads of its own beyond the first where the device has several.
 *
 * Shapes and batching are described as for the other engines where libs/graph reads the file, so that engines can be
 * compared and exchanged; else by what the session says (signature.h).
 */
#include "engine/onnxruntime/parts.h"
#include "engine/onnxruntime/providers.h"
#include "engine/onnxruntime/signature.h"

#include <stdlib.h>
#include <string.h>

enum { THREADS_MAX = 256 };

static const engine_model_info_t *info_of(const engine_model_t *model)
{
    return model_info(model);
}

static const engine_cuts_t *cuts_of(const engine_model_t *model)
{
    return &model->blueprint.cuts;
}

static bool stop(engine_t *e, engine_job_t *job)
{
    uint32_t lane = job->range.stream;
    return cpu_cancel(&e->cpu, job) || stopper_stop(&e->stoppers[lane], &e->cpu.lanes[lane].fifo, job);
}

/* ---- life ---- */

static void close_stoppers(engine_t *e)
{
    for (uint32_t i = 0; i < e->stopper_count; i++)
        stopper_dispose(&e->stoppers[i]);
    free(e->stoppers);
}

static status_t open_stoppers(engine_t *e, uint32_t lanes, err_t *err)
{
    status_t status = STATUS_OK;
    e->stoppers = calloc(lanes, sizeof *e->stoppers);
    if (!e->stoppers)
        return err_set(err, STATUS_NO_MEMORY, "no memory for an engine of %u streams", lanes);
    for (; status == STATUS_OK && e->stopper_count < lanes; e->stopper_count++)
        status = stopper_init(&e->stoppers[e->stopper_count], err);
    return status;
}

static void engine_free(engine_t *e)
{
    close_stoppers(e);
    free(e->providers);
    free(e);
}

static status_t onnxruntime_open(const engine_config_t *config, engine_t **out, err_t *err)
{
    status_t status = library_open(err);
    if (status != STATUS_OK)
        return status;
    status = providers_check(config->providers, err);
    if (status != STATUS_OK)
        return status;
    if (config->threads > THREADS_MAX)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%u threads are too many", config->threads);
    engine_t *e = calloc(1, sizeof *e);
    if (!e)
        return err_set(err, STATUS_NO_MEMORY, "no memory for an engine");
    e->cpu.run = model_run;
    e->cpu.info = info_of;
    e->cpu.cuts = cuts_of;
    e->providers = strdup(config->providers ? config->providers : "");
    if (!e->providers)
        status = err_set(err, STATUS_NO_MEMORY, "no memory for an engine");
    if (status == STATUS_OK)
        status = open_stoppers(e, config->streams ? config->streams : 1, err);
    if (status == STATUS_OK)
        status = cpu_init(&e->cpu, config, err);
    if (status != STATUS_OK) {
        engine_free(e);
        return status;
    }
    e->threads = (session_threads_t){.threads = config->threads ? config->threads : 1,
                                     .cpus = e->cpu.cpus,
                                     .cpu_count = e->cpu.cpu_count,
                                     .providers = e->providers,
                                     .device = config->index};
    *out = e;
    return STATUS_OK;
}

static void onnxruntime_close(engine_t *e)
{
    cpu_dispose(&e->cpu);
    engine_free(e);
}

static bool leads_with_one(const graph_t *graph)
{
    for (uint32_t i = 0; i < graph->input_count; i++)
        if (graph->inputs[i].rank >= 1 && graph->inputs[i].dims[0] == 1)
            return true;
    return false;
}

/* Again, with leading dimensions that are open. */
static status_t open_batch(const engine_t *engine, engine_model_t *model, const engine_load_t *what,
                           err_t *err)
{
    ort->ReleaseSession(model->session);
    model->session = NULL;
    return session_create(what, &engine->threads, true, &model->session, err);
}

/* *fixed: a batch is wanted of inputs that are declared with one row. */
static status_t describe_imported(engine_model_t *model, const graph_t *graph, const engine_load_t *what,
                                  bool *fixed, err_t *err)
{
    status_t status = describe_graph(&model->blueprint.description, graph, what, err);
    *fixed = status == STATUS_OK && model_info(model)->batchable && leads_with_one(graph);
    return status;
}

/* By the session: what libs/graph does not read, onnxruntime may. */
static status_t describe_session(const engine_t *engine, engine_model_t *model, const engine_load_t *what,
                                 err_t *err)
{
    status_t status = what->batching == ENGINE_BATCH_FORCE ? open_batch(engine, model, what, err) : STATUS_OK;
    return status == STATUS_OK ? signature_read(&model->blueprint.description, model->session, what, err)
                               : status;
}

static status_t describe_any(const engine_t *engine, engine_model_t *model, const engine_load_t *what,
                             bool *fixed, err_t *err)
{
    graph_t *graph;
    bool text;
    *fixed = false;
    status_t status = session_has_text(model->session, &text, err);
    if (status != STATUS_OK)
        return status;
    if (text || describe_open_shapes(what, &graph, NULL) != STATUS_OK)
        return describe_session(engine, model, what, err);
    status = describe_imported(model, graph, what, fixed, err);
    model->nodes = graph->node_count;
    graph_destroy(graph);
    return status;
}

static status_t load_into(const engine_t *engine, engine_model_t *model, const engine_load_t *what,
                          err_t *err)
{
    bool fixed;
    if (what->precision != ENGINE_FP32)
        return err_set(err, STATUS_UNSUPPORTED, "model '%.80s': this engine computes as the file says",
                       what->name);
    status_t status = describe_check_opens(what, err);
    if (status == STATUS_OK)
        status = session_create(what, &engine->threads, false, &model->session, err);
    if (status == STATUS_OK)
        status = describe_any(engine, model, what, &fixed, err);
    if (status != STATUS_OK || !fixed)
        return status;
    return open_batch(engine, model, what, err);
}

static void unload(engine_model_t *model)
{
    if (model->session)
        ort->ReleaseSession(model->session);
    parts_dispose(model);
    blueprint_dispose(&model->blueprint);
    describe_load_dispose(&model->load);
    free(model);
}

static status_t note_names(engine_model_t *model, err_t *err)
{
    status_t status = STATUS_OK;
    for (uint32_t i = 0; i < model_info(model)->input_count; i++)
        model->input_names[i] = model_info(model)->inputs[i].name;
    for (uint32_t i = 0; status == STATUS_OK && i < model_info(model)->output_count; i++) {
        model->output_names[i] = model_info(model)->outputs[i].name;
        status = session_output_binds(model->session, i, &model->binds[i], err);
    }
    return status;
}

static status_t load(engine_t *engine, const engine_load_t *what, engine_model_t **out, err_t *err)
{
    if (!what->path && !what->bytes)
        return err_set(err, STATUS_UNSUPPORTED, "model '%.80s' has no file", what->name);
    engine_model_t *model = calloc(1, sizeof *model);
    if (!model)
        return err_set(err, STATUS_NO_MEMORY, "no memory for model '%.80s'", what->name);
    model->engine = engine;
    parts_init(model);
    status_t status = describe_load_copy(&model->load, what, err);
    if (status == STATUS_OK)
        status = load_into(engine, model, what, err);
    if (status == STATUS_OK)
        status = note_names(model, err);
    if (status != STATUS_OK) {
        unload(model);
        return status;
    }
    model->blueprint.description.info.stop_points = model->nodes > 1 ? model->nodes - 1 : 1;
    model->blueprint.description.info.memory_bytes = MODEL_COPIES * describe_file_bytes(what);
    *out = model;
    return STATUS_OK;
}

/* A session is whole when it is there: the first run of a size takes its memory. */
static status_t prepare_shapes(engine_model_t *model, uint32_t batch, const engine_shape_t *input_shapes,
                               err_t *err)
{
    tensor_t inputs[ENGINE_MAX_IO];
    if (batch < 1 || batch > model_info(model)->max_batch)
        return err_set(err, STATUS_INVALID_ARGUMENT, "batch %u is outside 1..%u", batch,
                       model_info(model)->max_batch);
    return cpu_input_shapes(model_info(model), batch, input_shapes, inputs, err);
}

static status_t prepare(engine_model_t *model, uint32_t batch, err_t *err)
{
    return prepare_shapes(model, batch, NULL, err);
}

static const engine_ops_t engine_onnxruntime = {
    .abi = ENGINE_ABI,
    .size_bytes = sizeof(engine_ops_t),
    .name = "onnxruntime",
    .device_count = cpu_device_count,
    .open = onnxruntime_open,
    .close = onnxruntime_close,
    .load = load,
    .unload = unload,
    .info = info_of,
    .prepare = prepare,
    .prepare_shapes = prepare_shapes,
    .cuts = parts_cuts,
    .border_create = border_create,
    .border_destroy = border_destroy,
    .border_bytes = border_bytes,
    .prepare_range = parts_prepare_range,
    .submit = cpu_engine_submit,
    .cancel = cpu_engine_cancel,
    .stop = stop,
    .flush = cpu_engine_flush,
    .buffer_alloc = cpu_buffer_alloc,
    .buffer_free = cpu_buffer_free,
};

const engine_ops_t *fermata_engine(uint32_t abi);

const engine_ops_t *fermata_engine(uint32_t abi)
{
    return abi == ENGINE_ABI ? &engine_onnxruntime : NULL;
}
