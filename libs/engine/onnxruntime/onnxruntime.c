/*
 * CPU engine on onnxruntime: whatever it runs, whole. One thread for each stream calls it; a session of each model for each
 * device, with threads of its own beyond the first where the device has several.
 *
 * Shapes and batching are described as for the other engines where libs/graph reads the file, so that engines can be
 * compared and exchanged; else by what the session says (signature.h).
 */
#include "base/clock.h"
#include "engine/onnxruntime/session.h"
#include "engine/onnxruntime/signature.h"
#include "engine/onnxruntime/stopper.h"
#include "engine/onnxruntime/values.h"
#include "engine/queue/cpu.h"

#include <stdlib.h>
#include <string.h>

enum {
    THREADS_MAX = 256,
    COPY_FILES = 2, /* what a session takes, in sizes of the file: weights as they are and as it packs them */
};

struct engine {
    cpu_t cpu; /* first */
    session_threads_t threads;
    stopper_t *stoppers; /* one for each lane */
    uint32_t stopper_count;
};

struct engine_model {
    description_t description;
    OrtSession *session;
    uint32_t nodes; /* as libs/graph reads it; 0 where it does not */
    const char *input_names[ENGINE_MAX_IO], *output_names[ENGINE_MAX_IO];
    bool binds[ENGINE_MAX_IO]; /* onnxruntime writes this output where the job wants it */
};

static const engine_model_info_t *info(const engine_model_t *model)
{
    return &model->description.info;
}

/* ---- runs ---- */

typedef struct {
    OrtValue *inputs[ENGINE_MAX_IO], *outputs[ENGINE_MAX_IO];
    value_read_t out[ENGINE_MAX_IO]; /* without data: onnxruntime makes it */
} bound_t;

/* Where the job's output i is written to, if its size is known before. */
static void place_output(const engine_model_t *model, const engine_job_t *job, uint32_t i, tensor_t *out)
{
    const engine_tensor_t *t = &info(model)->outputs[i];
    bool batchable = info(model)->batchable;
    *out = (tensor_t){.dtype = t->dtype, .rank = t->rank + batchable};
    if (!t->row_bytes || !model->binds[i])
        return;
    out->dims[0] = job->batch; /* overwritten where there is no batch */
    memcpy(out->dims + batchable, t->dims, t->rank * sizeof t->dims[0]);
    out->data = job->outputs[i];
}

static status_t bind(const engine_model_t *model, const engine_job_t *job, bound_t *bound, err_t *err)
{
    const engine_model_info_t *about = info(model);
    tensor_t inputs[ENGINE_MAX_IO];
    status_t status = cpu_job_inputs(about, job, inputs, err);
    for (uint32_t i = 0; status == STATUS_OK && i < about->input_count; i++)
        status = value_bind(&inputs[i], about->inputs[i].text, &bound->inputs[i], err);
    for (uint32_t i = 0; status == STATUS_OK && i < about->output_count; i++) {
        place_output(model, job, i, &bound->out[i].tensor);
        if (bound->out[i].tensor.data)
            status = value_bind(&bound->out[i].tensor, false, &bound->outputs[i], err);
    }
    return status;
}

static void unbind(const engine_model_info_t *info, bound_t *bound)
{
    for (uint32_t i = 0; i < info->input_count; i++)
        if (bound->inputs[i])
            ort->ReleaseValue(bound->inputs[i]);
    for (uint32_t i = 0; i < info->output_count; i++) {
        if (bound->outputs[i])
            ort->ReleaseValue(bound->outputs[i]);
        free(bound->out[i].made);
    }
}

/* Outputs that onnxruntime made go where the job has room for them. */
static status_t take_outputs(const engine_model_info_t *info, engine_job_t *job, bound_t *bound, err_t *err)
{
    const tensor_t *outputs[ENGINE_MAX_IO];
    status_t status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < info->output_count; i++) {
        const engine_tensor_t *t = &info->outputs[i];
        outputs[i] = &bound->out[i].tensor;
        if (!bound->out[i].tensor.data)
            status = value_read(bound->outputs[i], t->name, t->text ? (size_t)t->dims[t->rank - 1] : 0,
                                &bound->out[i], err);
    }
    return status == STATUS_OK ? cpu_job_put_outputs(info, job, outputs, err) : status;
}

/* What a model that is loaded, and has its memory, fails of is what it was given: an index, a category. */
static status_t blame_inputs(status_t status, err_t *err)
{
    if (status != STATUS_INTERNAL)
        return status;
    err->code = STATUS_INVALID_ARGUMENT;
    return STATUS_INVALID_ARGUMENT;
}

static status_t stopped(engine_job_t *job, err_t *err)
{
    job->reached = job->range.from; /* how far it came onnxruntime does not say */
    return err_set(err, STATUS_CANCELLED, "stopped while it ran");
}

static status_t run_session(engine_t *e, const cpu_lane_t *lane, engine_job_t *job, bound_t *bound,
                            err_t *err)
{
    engine_model_t *model = job->model;
    stopper_begin(&e->stoppers[lane->index], &lane->fifo);
    status_t status =
        library_check(ort->Run(model->session, e->stoppers[lane->index].options, model->input_names,
                               (const OrtValue *const *)bound->inputs, info(model)->input_count,
                               model->output_names, info(model)->output_count, bound->outputs),
                      "a run", err);
    if (status != STATUS_OK && stopper_stopped(&lane->fifo))
        return stopped(job, err);
    return blame_inputs(status, err);
}

static status_t run(cpu_lane_t *lane, engine_job_t *job, err_t *err)
{
    engine_model_t *model = job->model;
    bound_t bound = {0};
    status_t status = bind(model, job, &bound, err);
    job->started_ns = clock_now_ns();
    if (status == STATUS_OK)
        status = run_session((engine_t *)lane->cpu, lane, job, &bound, err);
    if (status == STATUS_OK)
        status = take_outputs(info(model), job, &bound, err);
    unbind(info(model), &bound);
    return status;
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

static status_t onnxruntime_open(const engine_config_t *config, engine_t **out, err_t *err)
{
    status_t status = library_open(err);
    if (status != STATUS_OK)
        return status;
    if (config->threads > THREADS_MAX)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%u threads are too many", config->threads);
    engine_t *e = calloc(1, sizeof *e);
    if (!e)
        return err_set(err, STATUS_NO_MEMORY, "no memory for an engine");
    e->cpu.run = run;
    e->cpu.info = info;
    status = open_stoppers(e, config->streams ? config->streams : 1, err);
    if (status == STATUS_OK)
        status = cpu_init(&e->cpu, config, err);
    if (status != STATUS_OK) {
        close_stoppers(e);
        free(e);
        return status;
    }
    e->threads = (session_threads_t){
        .threads = config->threads ? config->threads : 1, .cpus = e->cpu.cpus, .cpu_count = e->cpu.cpu_count};
    *out = e;
    return STATUS_OK;
}

static void onnxruntime_close(engine_t *e)
{
    cpu_dispose(&e->cpu);
    close_stoppers(e);
    free(e);
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
    status_t status = describe_graph(&model->description, graph, what, err);
    *fixed = status == STATUS_OK && info(model)->batchable && leads_with_one(graph);
    return status;
}

/* By the session: what libs/graph does not read, onnxruntime may. */
static status_t describe_session(const engine_t *engine, engine_model_t *model, const engine_load_t *what,
                                 err_t *err)
{
    status_t status = what->batching == ENGINE_BATCH_FORCE ? open_batch(engine, model, what, err) : STATUS_OK;
    return status == STATUS_OK ? signature_read(&model->description, model->session, what, err) : status;
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
    if (text || describe_open(what, &graph, NULL) != STATUS_OK)
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
    status_t status = session_create(what, &engine->threads, false, &model->session, err);
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
    description_dispose(&model->description);
    free(model);
}

static status_t note_names(engine_model_t *model, err_t *err)
{
    status_t status = STATUS_OK;
    for (uint32_t i = 0; i < info(model)->input_count; i++)
        model->input_names[i] = info(model)->inputs[i].name;
    for (uint32_t i = 0; status == STATUS_OK && i < info(model)->output_count; i++) {
        model->output_names[i] = info(model)->outputs[i].name;
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
    status_t status = load_into(engine, model, what, err);
    if (status == STATUS_OK)
        status = note_names(model, err);
    if (status != STATUS_OK) {
        unload(model);
        return status;
    }
    model->description.info.stop_points = model->nodes > 1 ? model->nodes - 1 : 1;
    model->description.info.memory_bytes = COPY_FILES * describe_file_bytes(what);
    *out = model;
    return STATUS_OK;
}

/* A session is whole when it is there: the first run of a size takes its memory. */
static status_t prepare_shapes(engine_model_t *model, uint32_t batch, const engine_shape_t *input_shapes,
                               err_t *err)
{
    tensor_t inputs[ENGINE_MAX_IO];
    if (batch < 1 || batch > info(model)->max_batch)
        return err_set(err, STATUS_INVALID_ARGUMENT, "batch %u is outside 1..%u", batch,
                       info(model)->max_batch);
    return cpu_input_shapes(info(model), batch, input_shapes, inputs, err);
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
    .info = info,
    .prepare = prepare,
    .prepare_shapes = prepare_shapes,
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
