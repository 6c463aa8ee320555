#include "base/clock.h"
#include "engine/onnxruntime/parts.h"
#include "engine/onnxruntime/values.h"
#include "engine/queue/segment.h"

#include <stdlib.h>
#include <string.h>

/* ---- One run of a session ---- */

static status_t stopped(engine_job_t *job, err_t *err)
{
    job->reached = job->range.from; /* how far it came onnxruntime does not say */
    return err_set(err, STATUS_CANCELLED, "stopped while it ran");
}

/* What a model that is loaded, and has its memory, fails of is what it was given: an index, a category. */
static status_t blame_inputs(status_t status, err_t *err)
{
    if (status != STATUS_INTERNAL)
        return status;
    err->code = STATUS_INVALID_ARGUMENT;
    return STATUS_INVALID_ARGUMENT;
}

status_t model_call(const cpu_lane_t *lane, engine_job_t *job, const call_t *call, err_t *err)
{
    stopper_t *stopper = &((engine_t *)lane->cpu)->stoppers[lane->index];
    stopper_begin(stopper, &lane->fifo);
    status_t status = library_check(ort->Run(call->session, stopper->options, call->input_names,
                                             (const OrtValue *const *)call->inputs, call->input_count,
                                             call->output_names, call->output_count, call->outputs),
                                    "a run", err);
    if (status != STATUS_OK && stopper_stopped(&lane->fifo))
        return stopped(job, err);
    return blame_inputs(status, err);
}

/* ---- A whole model ---- */

typedef struct {
    OrtValue *inputs[ENGINE_MAX_IO], *outputs[ENGINE_MAX_IO];
    value_read_t out[ENGINE_MAX_IO]; /* without data: onnxruntime makes it */
} bound_t;

/* Where the job's output i is written to, if its size is known before. */
static void place_output(const engine_model_t *model, const engine_job_t *job, uint32_t i, tensor_t *out)
{
    const engine_tensor_t *t = &model_info(model)->outputs[i];
    bool batchable = model_info(model)->batchable;
    *out = (tensor_t){.dtype = t->dtype, .rank = t->rank + batchable};
    if (!t->row_bytes || !model->binds[i])
        return;
    out->dims[0] = job->batch; /* overwritten where there is no batch */
    memcpy(out->dims + batchable, t->dims, t->rank * sizeof t->dims[0]);
    out->data = job->outputs[i];
}

static status_t bind(const engine_model_t *model, const engine_job_t *job, bound_t *bound, err_t *err)
{
    const engine_model_info_t *about = model_info(model);
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

static status_t run_bound(const cpu_lane_t *lane, engine_job_t *job, bound_t *bound, err_t *err)
{
    const engine_model_t *model = job->model;
    const call_t call = {.session = model->session,
                         .input_names = model->input_names,
                         .output_names = model->output_names,
                         .input_count = model_info(model)->input_count,
                         .output_count = model_info(model)->output_count,
                         .inputs = bound->inputs,
                         .outputs = bound->outputs};
    return model_call(lane, job, &call, err);
}

static status_t run_whole(cpu_lane_t *lane, engine_job_t *job, err_t *err)
{
    engine_model_t *model = job->model;
    bound_t bound = {0};
    status_t status = bind(model, job, &bound, err);
    job->started_ns = clock_now_ns();
    if (status == STATUS_OK)
        status = run_bound(lane, job, &bound, err);
    if (status == STATUS_OK)
        status = take_outputs(model_info(model), job, &bound, err);
    if (status == STATUS_OK)
        job->reached = model->blueprint.cuts.ops;
    unbind(model_info(model), &bound);
    return status;
}

status_t model_run(cpu_lane_t *lane, engine_job_t *job, err_t *err)
{
    bool whole = segment_is_whole(job) || !job->model->blueprint.cuts.ops;
    return whole ? run_whole(lane, job, err) : parts_run(lane, job, err);
}
