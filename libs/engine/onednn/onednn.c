/*
 * CPU engine on oneDNN, float32. One thread for each stream runs its jobs; compute threads beyond it are a team's (team.h).
 *
 * A model is compiled once per batch size (or set of shapes) into a plan. Plans share the reordered weights
 * of the model and, on each stream, one work space. A segment runs a part of a plan's steps, and so computes
 * the same to the last bit. Models whose shapes depend on contents are interpreted by the reference kernels.
 */
#include "base/clock.h"
#include "engine/backends.h"
#include "engine/onednn/lower/supports.h"
#include "engine/onednn/model.h"
#include "engine/onednn/run/team.h"
#include "engine/queue/segment.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    HUGE_PAGE_BYTES = 2 << 20,
    THREADS_MAX = 1024,
};

static const engine_model_info_t *model_info_of(const engine_model_t *model)
{
    return model_info(model);
}

static const engine_cuts_t *cuts_of(const engine_model_t *model)
{
    return &model->blueprint.cuts;
}

static void start_thread(cpu_t *cpu)
{
    omp_set_num_threads(((engine_t *)cpu)->threads);
}

static uint64_t constant_bytes(const graph_t *g)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < g->value_count; i++)
        bytes += g->values[i].blob ? tensor_bytes(&g->values[i].t) : 0;
    return bytes;
}

/* ---- runs ---- */

static status_t reserve_work(workspace_t *space, size_t len, err_t *err)
{
    if (len <= space->work_bytes)
        return STATUS_OK;
    len = (len + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    void *work = aligned_alloc(HUGE_PAGE_BYTES, len);
    if (!work)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a work space of %zu MiB", len >> 20);
    madvise(work, len, MADV_HUGEPAGE);
    free(space->work);
    space->work = work;
    space->work_bytes = len;
    return STATUS_OK;
}

/* What no model that is still here needs goes back to the host; the next run makes a smaller one. Waits for runs under way. */
static void shrink_spaces(engine_t *e, size_t needed)
{
    for (uint32_t i = 0; i < e->cpu.lane_count; i++) {
        workspace_t *space = &e->spaces[i];
        pthread_mutex_lock(&space->running);
        if (space->work_bytes >= needed + HUGE_PAGE_BYTES) {
            free(space->work);
            space->work = NULL;
            space->work_bytes = 0;
        }
        pthread_mutex_unlock(&space->running);
    }
}

static status_t check_outputs(engine_model_t *model, engine_job_t *job, const plan_t *plan, err_t *err)
{
    const tensor_t *outputs[ENGINE_MAX_IO];
    for (uint32_t i = 0; i < plan->output_count; i++)
        outputs[i] = &plan->outputs[i].shape;
    return cpu_job_outputs(model_info(model), job, outputs, err);
}

static status_t run_whole(workspace_t *space, engine_job_t *job, plan_t *plan, err_t *err)
{
    status_t status = plan_run(plan, space->stream, space->work, job->inputs, err);
    for (uint32_t i = 0; status == STATUS_OK && i < plan->output_count; i++) {
        size_t bytes = tensor_bytes(&plan->outputs[i].shape);
        if (bytes)
            memcpy(job->outputs[i], plan_output(plan, i, space->work, job->inputs), bytes);
    }
    job->reached = plan->instance->node_count;
    return status;
}

static status_t run_part(workspace_t *space, engine_job_t *job, plan_t *plan, const atomic_bool *stop,
                         err_t *err)
{
    segment_t segment;
    engine_range_t range = job->range;
    segment_run_t how = {.stream = space->stream, .work = space->work, .stop = stop};
    range.to = range.to ? range.to : plan->instance->node_count;
    if (job->op_ns && range.to != segment_end(job, &job->model->blueprint.cuts))
        return err_set(err, STATUS_UNSUPPORTED, "with these shapes the model has other operators");
    status_t status = model_segment(job->model, plan, &range, job->batch, &segment, err);
    return status == STATUS_OK ? segment_run(&segment, &how, job, err) : status;
}

/* The bindings of the plan itself are the first stream's. */
static status_t run_plan(workspace_t *space, engine_job_t *job, plan_t *plan, const atomic_bool *stop,
                         err_t *err)
{
    engine_model_t *model = job->model;
    status_t status = STATUS_OK;
    if (segment_is_last(job, &model->blueprint.cuts))
        status = check_outputs(model, job, plan, err);
    if (status == STATUS_OK)
        status = reserve_work(space, plan->work_bytes, err);
    job->started_ns = clock_now_ns(); /* building the plan is not part of it */
    if (status != STATUS_OK)
        return status;
    return segment_is_whole(job) && job->range.stream == 0 ? run_whole(space, job, plan, err)
                                                           : run_part(space, job, plan, stop, err);
}

static status_t run(cpu_lane_t *lane, engine_job_t *job, err_t *err)
{
    engine_model_t *model = job->model;
    engine_t *e = (engine_t *)lane->cpu;
    tensor_t inputs[ENGINE_MAX_IO];
    plan_t *plan;
    status_t status = cpu_job_inputs(model_info(model), job, inputs, err);
    if (status != STATUS_OK)
        return status;
    if (model->blueprint.by_value)
        return cpu_job_interpret(model_info(model), job, model->blueprint.graph, inputs, err);
    status = model_plan(model, job->batch, inputs, &plan, err);
    if (status != STATUS_OK)
        return status;
    workspace_t *space = &e->spaces[lane->index];
    pthread_mutex_lock(&space->running);
    status = run_plan(space, job, plan, &lane->fifo.interrupted, err);
    pthread_mutex_unlock(&space->running);
    model_release_plan(model, plan);
    return status;
}

/* ---- life ---- */

static void close_spaces(engine_t *e, uint32_t count)
{
    for (uint32_t i = 0; e->spaces && i < count; i++) {
        dnnl_stream_destroy(e->spaces[i].stream);
        pthread_mutex_destroy(&e->spaces[i].running);
        free(e->spaces[i].work);
    }
    free(e->spaces);
}

static status_t open_dnnl(engine_t *e, uint32_t streams, err_t *err)
{
    e->spaces = calloc(streams, sizeof *e->spaces);
    if (!e->spaces)
        return err_set(err, STATUS_NO_MEMORY, "no memory for an engine of %u streams", streams);
    for (uint32_t i = 0; i < streams; i++)
        pthread_mutex_init(&e->spaces[i].running, NULL);
    dnnl_status_t made = dnnl_engine_create(&e->dnnl, dnnl_cpu, 0);
    for (uint32_t i = 0; made == dnnl_success && i < streams; i++)
        made = dnnl_stream_create(&e->spaces[i].stream, e->dnnl, dnnl_stream_default_flags);
    return made == dnnl_success ? STATUS_OK : err_set(err, STATUS_UNAVAILABLE, "oneDNN does not start");
}

static status_t onednn_open(const engine_config_t *config, engine_t **out, err_t *err)
{
    uint32_t streams = config->streams ? config->streams : 1;
    if (config->threads > THREADS_MAX)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%u threads are too many", config->threads);
    if (streams > ENGINE_MAX_STREAMS)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%u streams are too many", streams);
    engine_t *e = calloc(1, sizeof *e);
    if (!e)
        return err_set(err, STATUS_NO_MEMORY, "no memory for an engine");
    e->threads = config->threads ? (int)config->threads : 1;
    e->memory_limit_bytes = config->memory_limit_bytes;
    pthread_mutex_init(&e->listing, NULL);
    e->cpu.run = run;
    e->cpu.info = model_info_of;
    e->cpu.cuts = cuts_of;
    e->cpu.start = start_thread;
    status_t status = open_dnnl(e, streams, err);
    if (status == STATUS_OK)
        status = cpu_init(&e->cpu, config, err);
    if (status == STATUS_OK) {
        *out = e;
        return status;
    }
    close_spaces(e, streams);
    dnnl_engine_destroy(e->dnnl);
    pthread_mutex_destroy(&e->listing);
    free(e);
    return status;
}

static void onednn_close(engine_t *e)
{
    uint32_t streams = e->cpu.lane_count;
    cpu_dispose(&e->cpu);
    close_spaces(e, streams);
    dnnl_engine_destroy(e->dnnl);
    pthread_mutex_destroy(&e->listing);
    free(e);
}

static status_t load_into(engine_t *engine, engine_model_t *model, const engine_load_t *what, err_t *err)
{
    if (what->precision != ENGINE_FP32)
        return err_set(err, STATUS_UNSUPPORTED, "model '%.80s': this engine computes in fp32 only",
                       what->name);
    status_t status = blueprint_open(&model->blueprint, what, onednn_supports_epilogue, &model_borders, err);
    if (status == STATUS_OK)
        status = model_init_plans(model, err);
    if (status == STATUS_OK)
        status = weights_may_drop(&model->weights, model->blueprint.graph, err);
    if (status != STATUS_OK)
        return status;
    model->graph_bytes = constant_bytes(model->blueprint.graph);
    model->blueprint.description.info.memory_bytes = model->graph_bytes;
    status = model_account(engine, (int64_t)model->graph_bytes, err);
    if (status == STATUS_OK)
        model->counted_bytes = model->graph_bytes;
    return status;
}

static void enlist(engine_t *e, engine_model_t *model)
{
    pthread_mutex_lock(&e->listing);
    model->next = e->models;
    e->models = model;
    pthread_mutex_unlock(&e->listing);
}

static uint64_t work_bytes_of(engine_model_t *model)
{
    pthread_mutex_lock(&model->segmenting);
    uint64_t bytes = model->work_bytes;
    pthread_mutex_unlock(&model->segmenting);
    return bytes;
}

/* What the others need of a work space. */
static uint64_t delist(engine_t *e, const engine_model_t *model)
{
    uint64_t most = 0;
    pthread_mutex_lock(&e->listing);
    for (engine_model_t **at = &e->models; *at;) {
        if (*at == model) {
            *at = model->next;
            continue;
        }
        uint64_t bytes = work_bytes_of(*at);
        most = bytes > most ? bytes : most;
        at = &(*at)->next;
    }
    pthread_mutex_unlock(&e->listing);
    return most;
}

static void unload(engine_model_t *model)
{
    shrink_spaces(model->engine, delist(model->engine, model));
    plan_table_dispose(&model->blueprint.plans);
    model_account(model->engine, -(int64_t)model->counted_bytes, NULL);
    weights_dispose(&model->weights);
    conv_choices_dispose(&model->choices);
    blueprint_dispose(&model->blueprint);
    pthread_mutex_destroy(&model->segmenting);
    free(model);
}

/* What a model may take for speed alone: a quarter of what is left when it comes, so that others come in behind it. */
static uint64_t spare_bytes(engine_t *e)
{
    uint64_t used = atomic_load(&e->memory_bytes);
    if (!e->memory_limit_bytes)
        return UINT64_MAX;
    return used < e->memory_limit_bytes ? (e->memory_limit_bytes - used) / 4 : 0;
}

static status_t load(engine_t *engine, const engine_load_t *what, engine_model_t **out, err_t *err)
{
    engine_model_t *model = calloc(1, sizeof *model);
    if (!model)
        return err_set(err, STATUS_NO_MEMORY, "no memory for model '%.80s'", what->name);
    model->engine = engine;
    weights_init(&model->weights);
    model->weights.extra_max_bytes = spare_bytes(engine);
    conv_choices_init(&model->choices);
    pthread_mutex_init(&model->segmenting, NULL);
    enlist(engine, model);
    status_t status = load_into(engine, model, what, err);
    if (status == STATUS_OK)
        *out = model;
    else
        unload(model);
    return status;
}

/* range NULL: the whole plan alone. */
static status_t prepare_range(engine_model_t *model, const engine_range_t *range, uint32_t batch,
                              const engine_shape_t *input_shapes, err_t *err)
{
    tensor_t inputs[ENGINE_MAX_IO];
    plan_t *plan;
    if (batch < 1 || batch > model_info(model)->max_batch)
        return err_set(err, STATUS_INVALID_ARGUMENT, "batch %u is outside 1..%u", batch,
                       model_info(model)->max_batch);
    status_t status = cpu_input_shapes(model_info(model), batch, input_shapes, inputs, err);
    if (status != STATUS_OK || model->blueprint.by_value || (model->blueprint.varies && !input_shapes))
        return status;
    status = model_plan(model, batch, inputs, &plan, err);
    if (status != STATUS_OK)
        return status;
    if (range) {
        engine_range_t part = *range;
        segment_t segment;
        part.to = part.to ? part.to : plan->instance->node_count;
        status = blueprint_check_range(&model->blueprint, &part, model->engine->cpu.lane_count,
                                       plan->instance->node_count, err);
        if (status == STATUS_OK)
            status = model_segment(model, plan, &part, batch, &segment, err);
    }
    model_release_plan(model, plan);
    return status;
}

static status_t prepare_shapes(engine_model_t *model, uint32_t batch, const engine_shape_t *input_shapes,
                               err_t *err)
{
    return prepare_range(model, NULL, batch, input_shapes, err);
}

static status_t prepare(engine_model_t *model, uint32_t batch, err_t *err)
{
    return prepare_shapes(model, batch, NULL, err);
}

static bool stop(engine_t *engine, engine_job_t *job)
{
    return cpu_stop(&engine->cpu, job);
}

const engine_ops_t engine_onednn = {
    .abi = ENGINE_ABI,
    .size_bytes = sizeof(engine_ops_t),
    .name = "onednn",
    .device_count = cpu_device_count,
    .open = onednn_open,
    .close = onednn_close,
    .load = load,
    .unload = unload,
    .info = model_info_of,
    .prepare = prepare,
    .prepare_shapes = prepare_shapes,
    .cuts = border_cuts,
    .border_create = border_create,
    .border_destroy = border_destroy,
    .border_bytes = border_bytes,
    .prepare_range = prepare_range,
    .submit = cpu_engine_submit,
    .cancel = cpu_engine_cancel,
    .stop = stop,
    .flush = cpu_engine_flush,
    .buffer_alloc = cpu_buffer_alloc,
    .buffer_free = cpu_buffer_free,
};
