#include "engine/cuda/accuracy.h"

#include "base/prng.h"
#include "engine/cuda/run/runner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 20260420 };

typedef struct {
    void *data[ENGINE_MAX_IO];
} set_t;

static void dispose(device_t *device, set_t *set)
{
    for (uint32_t i = 0; i < ENGINE_MAX_IO; i++)
        if (set->data[i])
            device_pinned_free(device, set->data[i]);
}

static void fill(const tensor_t *t, void *data, prng_t *prng)
{
    for (size_t i = 0, n = tensor_count(t); i < n; i++) {
        double uniform = prng_uniform(prng);
        if (t->dtype == DTYPE_F32)
            ((float *)data)[i] = (float)(2 * uniform - 1);
        else if (t->dtype == DTYPE_F64)
            ((double *)data)[i] = 2 * uniform - 1;
        else if (t->dtype == DTYPE_F16)
            ((uint16_t *)data)[i] = float_to_half((float)(2 * uniform - 1));
        else if (t->dtype == DTYPE_I64)
            ((int64_t *)data)[i] = uniform < 0.5; /* token numbers and masks: what every model takes */
        else if (t->dtype == DTYPE_I32)
            ((int32_t *)data)[i] = uniform < 0.5;
        else
            memset((char *)data + i * dtype_size(t->dtype), 0, dtype_size(t->dtype));
    }
}

static status_t make_set(device_t *device, const tensor_t *tensors, uint32_t count, set_t *set, err_t *err)
{
    for (uint32_t i = 0; i < count; i++)
        if (!(set->data[i] = device_pinned_alloc(device, tensor_bytes(&tensors[i]) + 1)))
            return err_set(err, STATUS_NO_MEMORY, "no memory to measure the accuracy");
    return STATUS_OK;
}

/* All on one stream, in the space aside, so that nothing of the jobs' is touched. */
static status_t queue(runner_t *r, const set_t *in, const set_t *out, err_t *err)
{
    const space_t *space = r->space;
    const program_t *p = r->plan->program;
    step_range_t all = {.end = p->step_count};
    status_t status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < p->input_count; i++)
        status = runner_copy_in(r, 0, i, in->data[i], err);
    if (status == STATUS_OK)
        status = device_sync(space->device, space->in, err);
    if (status == STATUS_OK)
        status = runner_run_plainly(r, &all, err);
    if (status == STATUS_OK)
        status = device_sync(space->device, space->compute, err);
    for (uint32_t i = 0; status == STATUS_OK && i < p->output_count; i++)
        status = runner_copy_out(r, 0, i, out->data[i], err);
    return status == STATUS_OK ? device_sync(space->device, space->out, err) : status;
}

static status_t run(gpu_t *gpu, plan_t *plan, const set_t *in, set_t *out, err_t *err)
{
    runner_t *runner;
    status_t status = make_set(gpu->device, plan->program->outputs, plan->program->output_count, out, err);
    pthread_mutex_lock(&gpu->aside_mutex);
    if (status == STATUS_OK)
        status = plan_runner(plan, &gpu->aside, &runner, err);
    if (status == STATUS_OK)
        status = runner_ready(runner, err);
    if (status == STATUS_OK)
        status = queue(runner, in, out, err);
    pthread_mutex_unlock(&gpu->aside_mutex);
    return status;
}

static void compare(const program_t *p, const set_t *got, const set_t *want, accuracy_t *a)
{
    *a = (accuracy_t){0};
    for (uint32_t i = 0; i < p->output_count; i++) {
        tensor_t x = p->outputs[i], y = p->outputs[i];
        double worst = 0, largest = 0, wrong = 0, whole = 0;
        x.data = got->data[i];
        y.data = want->data[i];
        for (size_t k = 0, n = tensor_count(&x); k < n; k++) {
            double ref = tensor_get_f64(&y, k), difference = fabs(tensor_get_f64(&x, k) - ref);
            worst = difference > worst || difference != difference ? difference : worst;
            largest = fmax(largest, fabs(ref));
            wrong += difference * difference;
            whole += ref * ref;
        }
        double relative = worst == 0 ? 0 : worst / fmax(largest, 1e-30);
        double rms = wrong == 0 ? 0 : sqrt(wrong / fmax(whole, 1e-60));
        a->max_relative = relative > a->max_relative || relative != relative ? relative : a->max_relative;
        a->rms_relative = rms > a->rms_relative || rms != rms ? rms : a->rms_relative;
    }
}

static status_t run_as(engine_model_t *model, engine_precision_t precision, const tensor_t *inputs,
                       const set_t *in, set_t *out, accuracy_t *a, const set_t *want, err_t *err)
{
    constants_t constants = {0};
    plan_t *plan;
    status_t status = model_plan_for(model, precision, want ? EFFORT_FASTEST : EFFORT_FIRST, &constants,
                                     inputs, &plan, err);
    if (status == STATUS_OK) {
        status = run(model->gpu, plan, in, out, err);
        if (status == STATUS_OK && want)
            compare(plan->program, out, want, a);
        plan_destroy(plan);
    }
    for (uint32_t i = 0; i < constants.count; i++)
        pool_free(&model->gpu->pool, constants.items[i].device);
    constants_dispose(&constants);
    return status;
}

status_t accuracy_measure(engine_model_t *model, accuracy_t *accuracy, err_t *err)
{
    tensor_t inputs[ENGINE_MAX_IO];
    set_t in = {0}, got = {0}, want = {0};
    uint32_t count = model_info(model)->input_count;
    prng_t prng;
    if (model->blueprint.varies || model->blueprint.by_value)
        return err_set(err, STATUS_UNSUPPORTED, "the shapes vary");
    prng_init(&prng, SEED);
    blueprint_shapes(&model->blueprint, 1, BLUEPRINT_TRIAL_SIZE, inputs);
    status_t status = make_set(model->gpu->device, inputs, count, &in, err);
    for (uint32_t i = 0; status == STATUS_OK && i < count; i++)
        fill(&inputs[i], in.data[i], &prng);
    pthread_mutex_lock(&model->blueprint.plans.building);
    if (status == STATUS_OK)
        status = run_as(model, ENGINE_FP32, inputs, &in, &want, accuracy, NULL, err);
    if (status == STATUS_OK)
        status = run_as(model, model->precision, inputs, &in, &got, accuracy, &want, err);
    pthread_mutex_unlock(&model->blueprint.plans.building);
    dispose(model->gpu->device, &in);
    dispose(model->gpu->device, &got);
    dispose(model->gpu->device, &want);
    return status;
}
