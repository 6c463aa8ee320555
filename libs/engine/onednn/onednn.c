/*
 * CPU engine on oneDNN, float32. One thread runs the jobs; compute threads beyond it are OpenMP's (one by default: libgomp's
 * barriers spin, and a neighbour on the same cores makes them very slow).
 *
 * A model is compiled once per batch size (or set of shapes) into a plan. Plans share the reordered weights of the model
 * and the one work space of the engine. Models whose shapes depend on contents are interpreted by the reference kernels.
 */
#include "base/clock.h"
#include "engine/backends.h"
#include "engine/cpu.h"
#include "engine/onednn/build.h"
#include "graph/fuse.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    SHAPES_MAX = 256, /* plans kept for models whose dimensions vary; the least recently used one goes */
    HUGE_PAGE_BYTES = 2 << 20,
};

struct engine {
    cpu_t cpu;
    dnnl_engine_t dnnl;
    dnnl_stream_t stream; /* of the engine's thread */
    int threads;
    uint64_t memory_limit_bytes;
    _Atomic uint64_t memory_bytes;
    void *work;
    size_t work_bytes;
};

typedef struct {
    plan_t *plan;
    tensor_t *shapes; /* of the inputs */
    uint64_t used;
} slot_t;

struct engine_model {
    engine_t *engine;
    description_t description;
    graph_t *graph;
    weights_t weights;
    pthread_mutex_t building; /* plans are built one at a time, by whoever needs one first */
    pthread_mutex_t mutex;    /* the two tables */
    plan_t **by_batch;        /* [1..max_batch] */
    slot_t by_shape[SHAPES_MAX];
    uint64_t clock;
    const plan_t *running; /* on the engine's thread: not to be pushed out */
    uint64_t graph_bytes, counted_bytes;
    uint64_t work_bytes; /* the largest of its plans */
    bool by_value, varies;
};

static const engine_model_info_t *info(const engine_model_t *model)
{
    return &model->description.info;
}

static void start_thread(cpu_t *cpu)
{
    omp_set_num_threads(((engine_t *)cpu)->threads);
}

/* ---- plans ---- */

static uint64_t constant_bytes(const graph_t *g)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < g->value_count; i++)
        bytes += g->values[i].blob ? tensor_bytes(&g->values[i].t) : 0;
    return bytes;
}

/* The model's share changes to `bytes`; refuses what goes over the limit. */
static status_t account(engine_model_t *model, uint64_t bytes, err_t *err)
{
    engine_t *e = model->engine;
    uint64_t others = e->memory_bytes - model->counted_bytes;
    if (e->memory_limit_bytes && others + bytes > e->memory_limit_bytes)
        return err_set(err, STATUS_NO_MEMORY, "%llu MiB are needed, and %llu of %llu MiB are in use",
                       (unsigned long long)(bytes >> 20), (unsigned long long)(others >> 20),
                       (unsigned long long)(e->memory_limit_bytes >> 20));
    e->memory_bytes += bytes - model->counted_bytes;
    model->counted_bytes = bytes;
    return STATUS_OK;
}

static status_t instantiate(engine_model_t *model, const tensor_t *inputs, graph_t **instance, err_t *err)
{
    tensor_t shapes[ENGINE_MAX_IO];
    for (uint32_t i = 0; i < info(model)->input_count; i++) {
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
    status_t status = instantiate(model, inputs, &instance, err);
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
    for (uint32_t i = 0; i < info(model)->input_count; i++)
        if (!tensor_same_shape(&slot->shapes[i], &inputs[i]))
            return false;
    return true;
}

/* to_run: it will be run, by the engine's thread, and stays until release_plan. */
static plan_t *find_plan(engine_model_t *model, uint32_t batch, const tensor_t *inputs, bool to_run)
{
    plan_t *plan = NULL;
    pthread_mutex_lock(&model->mutex);
    if (!model->varies)
        plan = model->by_batch[batch];
    for (uint32_t i = 0; model->varies && i < SHAPES_MAX && !plan; i++) {
        slot_t *slot = &model->by_shape[i];
        if (!slot->plan || !same_shapes(model, slot, inputs))
            continue;
        slot->used = ++model->clock;
        plan = slot->plan;
    }
    if (to_run)
        model->running = plan;
    pthread_mutex_unlock(&model->mutex);
    return plan;
}

static void release_plan(engine_model_t *model)
{
    pthread_mutex_lock(&model->mutex);
    model->running = NULL;
    pthread_mutex_unlock(&model->mutex);
}

static status_t store_shape(engine_model_t *model, const tensor_t *inputs, plan_t *plan, err_t *err)
{
    slot_t *oldest = NULL;
    for (uint32_t i = 0; i < SHAPES_MAX; i++) {
        slot_t *slot = &model->by_shape[i];
        bool running = slot->plan && slot->plan == model->running;
        if (!running && (!oldest || slot->used < oldest->used))
            oldest = slot;
    }
    size_t len = (info(model)->input_count + 1) * sizeof *inputs;
    tensor_t *shapes = malloc(len);
    if (!shapes)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a plan");
    memcpy(shapes, inputs, info(model)->input_count * sizeof *inputs);
    plan_destroy(oldest->plan);
    free(oldest->shapes);
    *oldest = (slot_t){.plan = plan, .shapes = shapes, .used = ++model->clock};
    return STATUS_OK;
}

static status_t store_plan(engine_model_t *model, uint32_t batch, const tensor_t *inputs, plan_t *plan,
                           bool to_run, err_t *err)
{
    pthread_mutex_lock(&model->mutex);
    uint64_t most = plan->work_bytes > model->work_bytes ? plan->work_bytes : model->work_bytes;
    uint64_t bytes = model->graph_bytes + model->weights.len_bytes + most;
    status_t status = account(model, bytes, err);
    if (status == STATUS_OK && model->varies)
        status = store_shape(model, inputs, plan, err);
    else if (status == STATUS_OK)
        model->by_batch[batch] = plan;
    if (status == STATUS_OK) {
        model->description.info.memory_bytes = bytes;
        model->work_bytes = most;
        model->running = to_run ? plan : model->running;
    }
    pthread_mutex_unlock(&model->mutex);
    return status;
}

static status_t get_plan(engine_model_t *model, uint32_t batch, const tensor_t *inputs, bool to_run,
                         plan_t **plan, err_t *err)
{
    if ((*plan = find_plan(model, batch, inputs, to_run)))
        return STATUS_OK;
    pthread_mutex_lock(&model->building);
    status_t status = STATUS_OK;
    if (!(*plan = find_plan(model, batch, inputs, to_run))) {
        status = compile(model, inputs, plan, err);
        if (status == STATUS_OK &&
            (status = store_plan(model, batch, inputs, *plan, to_run, err)) != STATUS_OK)
            plan_destroy(*plan);
    }
    pthread_mutex_unlock(&model->building);
    return status;
}

/* ---- runs ---- */

static status_t reserve_work(engine_t *e, size_t len, err_t *err)
{
    if (len <= e->work_bytes)
        return STATUS_OK;
    len = (len + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    void *work = aligned_alloc(HUGE_PAGE_BYTES, len);
    if (!work)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a work space of %zu MiB", len >> 20);
    madvise(work, len, MADV_HUGEPAGE);
    free(e->work);
    e->work = work;
    e->work_bytes = len;
    return STATUS_OK;
}

static status_t check_outputs(engine_model_t *model, engine_job_t *job, const plan_t *plan, err_t *err)
{
    const tensor_t *outputs[ENGINE_MAX_IO];
    for (uint32_t i = 0; i < plan->output_count; i++)
        outputs[i] = &plan->outputs[i].shape;
    return cpu_job_outputs(info(model), job, outputs, err);
}

static status_t run_plan(engine_t *e, engine_model_t *model, engine_job_t *job, plan_t *plan, err_t *err)
{
    status_t status = check_outputs(model, job, plan, err);
    if (status == STATUS_OK)
        status = reserve_work(e, plan->work_bytes, err);
    if (model->varies)
        job->started_ns = clock_now_ns(); /* building the plan is not part of it */
    if (status == STATUS_OK)
        status = plan_run(plan, e->stream, e->work, job->inputs, err);
    for (uint32_t i = 0; status == STATUS_OK && i < plan->output_count; i++) {
        size_t bytes = tensor_bytes(&plan->outputs[i].shape);
        if (bytes)
            memcpy(job->outputs[i], plan_output(plan, i, e->work, job->inputs), bytes);
    }
    return status;
}

static status_t run(cpu_t *cpu, engine_job_t *job, err_t *err)
{
    engine_model_t *model = job->model;
    tensor_t inputs[ENGINE_MAX_IO];
    plan_t *plan;
    status_t status = cpu_job_inputs(info(model), job, inputs, err);
    if (status != STATUS_OK)
        return status;
    if (model->by_value)
        return cpu_job_interpret(info(model), job, model->graph, inputs, err);
    status = get_plan(model, job->batch, inputs, true, &plan, err);
    if (status != STATUS_OK)
        return status;
    status = run_plan((engine_t *)cpu, model, job, plan, err);
    if (model->varies)
        release_plan(model);
    return status;
}

/* ---- life ---- */

static status_t onednn_open(const engine_config_t *config, engine_t **out, err_t *err)
{
    engine_t *e = calloc(1, sizeof *e);
    if (!e)
        return err_set(err, STATUS_NO_MEMORY, "no memory for an engine");
    e->threads = config->threads ? (int)config->threads : 1;
    e->memory_limit_bytes = config->memory_limit_bytes;
    e->cpu.run = run;
    e->cpu.info = info;
    e->cpu.start = start_thread;
    status_t status = STATUS_OK;
    if (e->threads > 1024)
        status = err_set(err, STATUS_INVALID_ARGUMENT, "%d threads are too many", e->threads);
    else if (dnnl_engine_create(&e->dnnl, dnnl_cpu, 0) != dnnl_success ||
             dnnl_stream_create(&e->stream, e->dnnl, dnnl_stream_default_flags) != dnnl_success)
        status = err_set(err, STATUS_UNAVAILABLE, "oneDNN does not start");
    if (status == STATUS_OK)
        status = cpu_init(&e->cpu, config, err);
    if (status == STATUS_OK) {
        *out = e;
        return status;
    }
    dnnl_stream_destroy(e->stream);
    dnnl_engine_destroy(e->dnnl);
    free(e);
    return status;
}

static void onednn_close(engine_t *e)
{
    cpu_dispose(&e->cpu);
    dnnl_stream_destroy(e->stream);
    dnnl_engine_destroy(e->dnnl);
    free(e->work);
    free(e);
}

static bool has_varying_input(const engine_model_t *model)
{
    for (uint32_t i = 0; i < info(model)->input_count; i++)
        for (uint32_t d = 0; d < info(model)->inputs[i].rank; d++)
            if (info(model)->inputs[i].dims[d] < 0)
                return true;
    return false;
}

/* Models whose dimensions vary find out at their first job. */
static status_t find_by_value(engine_model_t *model, err_t *err)
{
    tensor_t inputs[ENGINE_MAX_IO];
    graph_t *instance;
    model->varies = has_varying_input(model);
    for (uint32_t i = 0; i < info(model)->input_count; i++) {
        const engine_tensor_t *t = &info(model)->inputs[i];
        inputs[i] = (tensor_t){.dtype = t->dtype, .rank = t->rank + info(model)->batchable};
        inputs[i].dims[0] = 1;
        for (uint32_t d = 0; d < t->rank; d++)
            inputs[i].dims[d + info(model)->batchable] = t->dims[d] < 0 ? 16 : t->dims[d];
    }
    status_t status = graph_instantiate(model->graph, inputs, &instance, err);
    if (status != STATUS_OK)
        return model->varies ? STATUS_OK : status;
    model->by_value = instance->open;
    graph_destroy(instance);
    return STATUS_OK;
}

static status_t load_into(engine_model_t *model, const engine_load_t *what, err_t *err)
{
    if (what->precision != ENGINE_FP32)
        return err_set(err, STATUS_UNSUPPORTED, "model '%.80s': this engine computes in fp32 only",
                       what->name);
    status_t status = describe_open(what, &model->graph, err);
    if (status == STATUS_OK)
        status = graph_fold_batch_norms(model->graph, err);
    if (status == STATUS_OK)
        status = graph_recognise(model->graph, err);
    if (status == STATUS_OK)
        status = describe_graph(&model->description, model->graph, what, err);
    if (status == STATUS_OK)
        status = find_by_value(model, err);
    if (status != STATUS_OK)
        return status;
    model->by_batch = calloc(info(model)->max_batch + 1, sizeof *model->by_batch);
    if (!model->by_batch)
        return err_set(err, STATUS_NO_MEMORY, "no memory for model '%.80s'", what->name);
    model->graph_bytes = model->description.info.memory_bytes = constant_bytes(model->graph);
    return account(model, model->graph_bytes, err);
}

static void unload(engine_model_t *model)
{
    for (uint32_t b = 1; model->by_batch && b <= info(model)->max_batch; b++)
        plan_destroy(model->by_batch[b]);
    for (uint32_t i = 0; i < SHAPES_MAX; i++) {
        plan_destroy(model->by_shape[i].plan);
        free(model->by_shape[i].shapes);
    }
    free(model->by_batch);
    model->engine->memory_bytes -= model->counted_bytes;
    weights_dispose(&model->weights);
    description_dispose(&model->description);
    graph_destroy(model->graph);
    pthread_mutex_destroy(&model->mutex);
    pthread_mutex_destroy(&model->building);
    free(model);
}

static status_t load(engine_t *engine, const engine_load_t *what, engine_model_t **out, err_t *err)
{
    engine_model_t *model = calloc(1, sizeof *model);
    if (!model)
        return err_set(err, STATUS_NO_MEMORY, "no memory for model '%.80s'", what->name);
    model->engine = engine;
    weights_init(&model->weights);
    pthread_mutex_init(&model->building, NULL);
    pthread_mutex_init(&model->mutex, NULL);
    status_t status = load_into(model, what, err);
    if (status == STATUS_OK)
        *out = model;
    else
        unload(model);
    return status;
}

static status_t prepare_shapes(engine_model_t *model, uint32_t batch, const engine_shape_t *input_shapes,
                               err_t *err)
{
    tensor_t inputs[ENGINE_MAX_IO];
    plan_t *plan;
    if (batch < 1 || batch > info(model)->max_batch)
        return err_set(err, STATUS_INVALID_ARGUMENT, "batch %u is outside 1..%u", batch,
                       info(model)->max_batch);
    status_t status = cpu_input_shapes(info(model), batch, input_shapes, inputs, err);
    if (status != STATUS_OK || model->by_value || (model->varies && !input_shapes))
        return status;
    return get_plan(model, batch, inputs, false, &plan, err);
}

static status_t prepare(engine_model_t *model, uint32_t batch, err_t *err)
{
    return prepare_shapes(model, batch, NULL, err);
}

static void submit(engine_t *engine, engine_job_t *job)
{
    cpu_submit(&engine->cpu, job);
}

static bool cancel(engine_t *engine, engine_job_t *job)
{
    return fifo_cancel(&engine->cpu.fifo, job);
}

static void flush(engine_t *engine)
{
    fifo_flush(&engine->cpu.fifo);
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
    .info = info,
    .prepare = prepare,
    .prepare_shapes = prepare_shapes,
    .submit = submit,
    .cancel = cancel,
    .flush = flush,
    .buffer_alloc = cpu_buffer_alloc,
    .buffer_free = cpu_buffer_free,
};
