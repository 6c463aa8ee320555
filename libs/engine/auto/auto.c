/*
 * The engines of the CPU as one: onnxruntime, oneDNN and OpenVINO, as far as they are here. A model is loaded on the first that
 * takes it; whoever loads it may try it on the others (engine_choice_t), and then it stays on one. Jobs of all models go one
 * at a time, so that the engines do not compete for the CPUs.
 */
#include "engine/auto/lane.h"
#include "engine/backends.h"
#include "engine/queue/cpu.h"

#include <stdlib.h>

struct engine {
    members_t members;
    auto_lane_t *lanes;
    uint32_t lane_count;
};

static status_t auto_open(const engine_config_t *config, engine_t **out, err_t *err)
{
    uint32_t streams = config->streams ? config->streams : 1;
    engine_t *e = calloc(1, sizeof *e);
    auto_lane_t *lanes = calloc(streams, sizeof *lanes);
    if (!e || !lanes) {
        free(e);
        free(lanes);
        return err_set(err, STATUS_NO_MEMORY, "no memory for an engine of %u streams", streams);
    }
    status_t status = members_open(&e->members, config, err);
    if (status != STATUS_OK) {
        free(lanes);
        free(e);
        return status;
    }
    e->lanes = lanes;
    for (; e->lane_count < streams; e->lane_count++)
        auto_lane_init(&lanes[e->lane_count]);
    *out = e;
    return STATUS_OK;
}

static void auto_close(engine_t *e)
{
    members_close(&e->members);
    for (uint32_t i = 0; i < e->lane_count; i++)
        auto_lane_dispose(&e->lanes[i]);
    free(e->lanes);
    free(e);
}

/* ---- models ---- */

static status_t load(engine_t *engine, const engine_load_t *what, engine_model_t **model, err_t *err)
{
    return member_model_create(&engine->members, what, model, err);
}

static const engine_model_info_t *info(const engine_model_t *model)
{
    return &model->description.info;
}

static status_t prepare(engine_model_t *model, uint32_t batch, err_t *err)
{
    status_t status = member_at(model, batch)->ops->prepare(member_model_at(model, batch), batch, err);
    member_count_memory(model);
    return status;
}

static status_t prepare_shapes(engine_model_t *model, uint32_t batch, const engine_shape_t *input_shapes,
                               err_t *err)
{
    status_t status =
        member_at(model, batch)->ops->prepare_shapes(member_model_at(model, batch), batch, input_shapes, err);
    member_count_memory(model);
    return status;
}

/* Two engines have different operators. */
static status_t uncuttable(const engine_model_t *model, err_t *err)
{
    return err_set(err, STATUS_UNSUPPORTED, "engine %s cannot cut a model", model->running);
}

static bool is_cuttable(const engine_model_t *model)
{
    return model->used.rows == 0 && member_ops(model)->cuts;
}

static status_t cuts(engine_model_t *model, engine_cuts_t *found, err_t *err)
{
    if (!is_cuttable(model))
        return uncuttable(model, err);
    status_t status = member_ops(model)->cuts(member_model(model), found, err);
    member_count_memory(model);
    return status;
}

static status_t border_create(engine_model_t *model, const uint32_t *at, uint32_t cut_count, uint32_t rows,
                              const engine_shape_t *largest_shapes, engine_border_t **out, err_t *err)
{
    const engine_ops_t *ops = member_ops(model);
    if (!is_cuttable(model))
        return uncuttable(model, err);
    engine_border_t *border = calloc(1, sizeof *border);
    if (!border)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a border");
    border->ops = ops;
    status_t status =
        ops->border_create(member_model(model), at, cut_count, rows, largest_shapes, &border->inner, err);
    member_count_memory(model);
    if (status == STATUS_OK)
        *out = border;
    else
        free(border);
    return status;
}

static void border_destroy(engine_border_t *border)
{
    if (!border)
        return;
    border->ops->border_destroy(border->inner);
    free(border);
}

static uint64_t border_bytes(const engine_border_t *border)
{
    return border->ops->border_bytes(border->inner);
}

static status_t prepare_range(engine_model_t *model, const engine_range_t *range, uint32_t batch,
                              const engine_shape_t *input_shapes, err_t *err)
{
    if (!is_cuttable(model))
        return uncuttable(model, err);
    status_t status = member_ops(model)->prepare_range(member_model(model), range, batch, input_shapes, err);
    member_count_memory(model);
    return status;
}

/* ---- the choice ---- */

static uint32_t choice_count(const engine_model_t *model)
{
    return model->members->count;
}

static const char *choice_name(const engine_model_t *model, uint32_t which)
{
    return model->members->list[which].ops->name;
}

static uint32_t choice_used(const engine_model_t *model)
{
    return model->used.large;
}

static const char *choice_running(const engine_model_t *model)
{
    return model->running;
}

static status_t choice_use(engine_model_t *model, uint32_t which, err_t *err)
{
    return member_model_use(model, &(split_t){.small = which, .large = which}, err);
}

static status_t choice_use_two(engine_model_t *model, uint32_t small, uint32_t rows, uint32_t large,
                               err_t *err)
{
    return member_model_use(model, &(split_t){small, large, rows}, err);
}

static const engine_choice_t choice = {
    .count = choice_count,
    .name = choice_name,
    .used = choice_used,
    .running = choice_running,
    .use = choice_use,
    .use_two = choice_use_two,
    .use_named = member_model_use_named,
    .leave = member_model_leave,
    .settle = member_model_settle,
};

/* ---- jobs ---- */

static void submit(engine_t *engine, engine_job_t *job)
{
    err_t err;
    if (job->range.stream < engine->lane_count)
        auto_lane_submit(&engine->lanes[job->range.stream], job);
    else
        fifo_answer(job,
                    err_set(&err, STATUS_INVALID_ARGUMENT,
                            "there is no stream %u; the engine was opened with %u", job->range.stream,
                            engine->lane_count),
                    &err);
}

static bool cancel(engine_t *engine, engine_job_t *job)
{
    return fifo_cancel(&engine->lanes[job->range.stream].fifo, job);
}

static bool stop(engine_t *engine, engine_job_t *job)
{
    return auto_lane_stop(&engine->lanes[job->range.stream], job);
}

static void flush(engine_t *engine)
{
    for (uint32_t i = 0; i < engine->lane_count; i++)
        fifo_flush(&engine->lanes[i].fifo);
}

const engine_ops_t engine_auto = {
    .abi = ENGINE_ABI,
    .size_bytes = sizeof(engine_ops_t),
    .name = "auto",
    .device_count = cpu_device_count,
    .open = auto_open,
    .close = auto_close,
    .load = load,
    .unload = member_model_destroy,
    .info = info,
    .prepare = prepare,
    .prepare_shapes = prepare_shapes,
    .cuts = cuts,
    .border_create = border_create,
    .border_destroy = border_destroy,
    .border_bytes = border_bytes,
    .prepare_range = prepare_range,
    .submit = submit,
    .cancel = cancel,
    .stop = stop,
    .flush = flush,
    .buffer_alloc = cpu_buffer_alloc,
    .buffer_free = cpu_buffer_free,
    .choice = &choice,
};
