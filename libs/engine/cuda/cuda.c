/*
 * The CUDA engine: a GPU, the models on it, and a lane for each stream.
 */
#include "base/log.h"
#include "engine/cuda/accuracy.h"
#include "engine/cuda/lane.h"
#include "engine/queue/cpu.h"
#include "engine/queue/segment.h"

#include <stdlib.h>

struct engine {
    gpu_t gpu;
    lane_t *lanes;
    uint32_t lane_count;
};

/* ---- life ---- */

static void *pool_get(void *arg, size_t len)
{
    return device_alloc(arg, len);
}

static void pool_put(void *arg, void *memory)
{
    device_free(arg, memory);
}

static status_t open_gpu(gpu_t *gpu, const engine_config_t *config, uint32_t streams, err_t *err)
{
    status_t status = device_open(config->index, streams + 1, &gpu->device, err);
    if (status != STATUS_OK)
        return status;
    /* A little is left for the driver and the libraries, which allocate on their own. */
    uint64_t limit = device_free_bytes(gpu->device) / 20 * 19;
    if (config->memory_limit_bytes && config->memory_limit_bytes < limit)
        limit = config->memory_limit_bytes;
    pool_init(&gpu->pool, limit, pool_get, pool_put, gpu->device);
    space_init(&gpu->aside, gpu->device, &gpu->pool, streams);
    pthread_mutex_init(&gpu->aside_mutex, NULL);
    return STATUS_OK;
}

static void close_gpu(gpu_t *gpu)
{
    space_dispose(&gpu->aside);
    pthread_mutex_destroy(&gpu->aside_mutex);
    pool_dispose(&gpu->pool);
    device_close(gpu->device);
}

static void cuda_close(engine_t *e)
{
    while (e->lane_count)
        lane_dispose(&e->lanes[--e->lane_count]);
    close_gpu(&e->gpu);
    free(e->lanes);
    free(e);
}

static status_t cuda_open(const engine_config_t *config, engine_t **out, err_t *err)
{
    uint32_t streams = config->streams ? config->streams : 1;
    if (streams > ENGINE_MAX_STREAMS)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%u streams are too many", streams);
    engine_t *e = calloc(1, sizeof *e);
    lane_t *lanes = calloc(streams, sizeof *lanes);
    status_t status = e && lanes ? open_gpu(&e->gpu, config, streams, err)
                                 : err_set(err, STATUS_NO_MEMORY, "no memory for an engine");
    if (status != STATUS_OK) {
        free(lanes);
        free(e);
        return status;
    }
    e->lanes = lanes;
    for (; status == STATUS_OK && e->lane_count < streams; e->lane_count += status == STATUS_OK)
        status = lane_init(&lanes[e->lane_count], &e->gpu, e->lane_count, err);
    if (status != STATUS_OK) {
        cuda_close(e);
        return status;
    }
    log_info("engine_open", LOG_STR("engine", device_engine_name), LOG_U64("device", config->index),
             LOG_STR("name", device_name(e->gpu.device)), LOG_U64("streams", streams),
             LOG_U64("memory_limit_mib", e->gpu.pool.limit_bytes >> 20));
    *out = e;
    return STATUS_OK;
}

static const char *describe_device(const engine_t *e, uint64_t *memory_bytes)
{
    *memory_bytes = e->gpu.pool.limit_bytes;
    return device_name(e->gpu.device);
}

static void report_accuracy(engine_model_t *model, const char *name)
{
    static const char *const names[] = {"fp32", "tf32", "fp16", "bf16"};
    accuracy_t a;
    err_t err;
    if (accuracy_measure(model, &a, &err) == STATUS_OK)
        log_info("model_accuracy", LOG_STR("model", name), LOG_STR("precision", names[model->precision]),
                 LOG_F64("max_relative_error", a.max_relative),
                 LOG_F64("rms_relative_error", a.rms_relative));
    else
        log_info("model_accuracy_not_measured", LOG_STR("model", name), LOG_ERR(&err));
}

static status_t load(engine_t *e, const engine_load_t *what, engine_model_t **model, err_t *err)
{
    if (what->precision < ENGINE_FP32 || what->precision > ENGINE_BF16)
        return err_set(err, STATUS_INVALID_ARGUMENT, "model '%.80s': there is no such precision", what->name);
    status_t status = model_create(e, &e->gpu, what, model, err);
    if (status == STATUS_OK && what->precision != ENGINE_FP32)
        report_accuracy(*model, what->name);
    return status;
}

static bool is_lost(const engine_t *e)
{
    return device_is_lost(e->gpu.device);
}

/* ---- preparing ---- */

/* range NULL: the whole model on the first stream. */
static status_t prepare_plan(engine_model_t *model, plan_t *plan, const engine_range_t *range, uint32_t batch,
                             err_t *err)
{
    engine_t *e = model->engine;
    uint32_t ops = plan->program->instance->node_count;
    engine_range_t part = range ? *range : (engine_range_t){.to = 0};
    segment_t segment;
    part.to = part.to ? part.to : ops;
    status_t status = blueprint_check_range(&model->blueprint, &part, e->lane_count, ops, err);
    if (status == STATUS_OK)
        status = model_segment(model, plan, &part, batch, &segment, err);
    if (status == STATUS_OK)
        status = lane_prepare(&e->lanes[part.stream], plan, &segment, err);
    if (status == STATUS_OK)
        model_note_stream(model, part.stream);
    return status;
}

static status_t prepare_range(engine_model_t *model, const engine_range_t *range, uint32_t batch,
                              const engine_shape_t *input_shapes, err_t *err)
{
    const engine_model_info_t *info = model_info(model);
    tensor_t inputs[ENGINE_MAX_IO];
    plan_t *plan;
    if (batch < 1 || batch > info->max_batch)
        return err_set(err, STATUS_INVALID_ARGUMENT, "batch %u is outside 1..%u", batch, info->max_batch);
    status_t status = cpu_input_shapes(info, batch, input_shapes, inputs, err);
    if (status != STATUS_OK || model->blueprint.by_value || (model->blueprint.varies && !input_shapes))
        return status;
    status = model_plan(model, batch, inputs, &plan, err);
    if (status != STATUS_OK)
        return status;
    status = prepare_plan(model, plan, range, batch, err);
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

/* ---- jobs ---- */

static void submit(engine_t *e, engine_job_t *job)
{
    err_t err;
    const blueprint_t *blueprint = &job->model->blueprint;
    status_t status =
        fifo_check_job(&blueprint->description.info, &blueprint->cuts, e->lane_count, job, &err);
    if (status == STATUS_OK && is_lost(e))
        status =
            err_set(&err, STATUS_UNAVAILABLE, "the GPU is lost; this process must be started anew to use it");
    if (status != STATUS_OK)
        fifo_answer(job, status, &err);
    else
        fifo_push(&e->lanes[job->range.stream].fifo, job);
}

static bool cancel(engine_t *e, engine_job_t *job)
{
    return fifo_cancel(&e->lanes[job->range.stream].fifo, job);
}

static bool stop(engine_t *e, engine_job_t *job)
{
    return cancel(e, job) || (job->exit_count && fifo_interrupt(&e->lanes[job->range.stream].fifo, job));
}

static void flush(engine_t *e)
{
    for (uint32_t i = 0; i < e->lane_count; i++)
        lane_flush(&e->lanes[i]);
}

static void *buffer_alloc(engine_t *e, size_t len_bytes)
{
    return device_pinned_alloc(e->gpu.device, len_bytes);
}

static void buffer_free(engine_t *e, void *buffer)
{
    if (buffer)
        device_pinned_free(e->gpu.device, buffer);
}

/* The copy into a slot takes it from either side of the bus. */
static void *input_alloc(engine_model_t *model, size_t len_bytes)
{
    return model->blueprint.by_value ? NULL : device_alloc(model->gpu->device, len_bytes);
}

static void input_free(engine_t *e, void *input)
{
    device_free(e->gpu.device, input);
}

static const engine_ops_t ops = {
    .abi = ENGINE_ABI,
    .size_bytes = sizeof(engine_ops_t),
    .name = device_engine_name,
    .device_count = device_count,
    .open = cuda_open,
    .close = cuda_close,
    .load = load,
    .unload = model_destroy,
    .info = model_info,
    .prepare = prepare,
    .prepare_shapes = prepare_shapes,
    .cuts = border_cuts,
    .border_create = border_create,
    .border_destroy = border_destroy,
    .border_bytes = border_bytes,
    .prepare_range = prepare_range,
    .submit = submit,
    .cancel = cancel,
    .stop = stop,
    .flush = flush,
    .buffer_alloc = buffer_alloc,
    .buffer_free = buffer_free,
    .input_alloc = input_alloc,
    .input_free = input_free,
    .describe = describe_device,
    .is_lost = is_lost,
};

const engine_ops_t *fermata_engine(uint32_t abi);

const engine_ops_t *fermata_engine(uint32_t abi)
{
    return abi == ENGINE_ABI ? &ops : NULL;
}
