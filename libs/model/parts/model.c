#include "model/model.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Deadline of a model whose config gives none: long enough for batches to form, see docs/model-repository.md. */
static const int64_t SLO_MIN_NS = 100 * NS_PER_MS;
enum { SLO_BATCH = 8, SLO_TIMES = 2 };
/* A changed profile goes through the scheduler to all gateways: not more often. */
static const int64_t CORRECTION_PAUSE_NS = 5 * NS_PER_S;

status_t model_create(const char *name, int64_t version, const char *dir, model_t **out, err_t *err)
{
    model_t *model = calloc(1, sizeof(*model));

    if (!model)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    snprintf(model->name, sizeof(model->name), "%s", name);
    snprintf(model->dir, sizeof(model->dir), "%s", dir);
    model->version = version;
    model_config_init(&model->config);
    *out = model;
    return STATUS_OK;
}

void model_file_path(const model_t *model, char path[MODEL_PATH_BYTES])
{
    if (model->file[0])
        snprintf(path, MODEL_PATH_BYTES, "%s", model->file);
    else
        snprintf(path, MODEL_PATH_BYTES, "%s/%lld/%s", model->dir, (long long)model->version,
                 model_config_file(&model->config));
}

int64_t model_latency_ns(const model_t *model, const uint32_t *sizes, uint32_t batch)
{
    return model->shapes ? shapes_latency_ns(model->shapes, sizes, batch)
                         : profile_latency_ns(&model->profile, batch);
}

int64_t model_least_slo_ns(const model_t *model)
{
    return model->config.slo_ns ? model->config.slo_ns : SLO_MIN_NS;
}

int64_t model_slo_ns(const model_t *model)
{
    uint32_t batch = model->info->max_batch < SLO_BATCH ? model->info->max_batch : SLO_BATCH;
    int64_t slo_ns = SLO_TIMES * profile_latency_ns(&model->profile, batch);

    if (model->config.slo_ns)
        return model->config.slo_ns;
    return slo_ns > SLO_MIN_NS ? slo_ns : SLO_MIN_NS;
}

static bool note_latency(model_t *model, const uint32_t *sizes, uint32_t batch, int64_t exec_ns)
{
    if (model->shapes)
        return shapes_took(model->shapes, sizes, batch, exec_ns);
    correction_add(&model->correction, &model->measured, batch, exec_ns);
    return correction_is_due(&model->correction);
}

bool model_took(model_t *model, int64_t now_ns, const uint32_t *sizes, uint32_t batch, int64_t exec_ns)
{
    if (!model->corrects || !note_latency(model, sizes, batch, exec_ns) ||
        now_ns - model->corrected_ns < CORRECTION_PAUSE_NS)
        return false;
    if (model->shapes)
        shapes_correct(model->shapes);
    else
        correction_apply(&model->correction, &model->measured, &model->profile);
    model->corrected_ns = now_ns;
    return true;
}

void model_take_profile(model_t *model, uint32_t which, const profile_t *profile)
{
    if (model->shapes) {
        shapes_take(model->shapes, which, profile);
        if (which + 1 == model->shapes->reference_count) /* the slowest stands for all */
            model->profile = model->measured = *profile;
        return;
    }
    model->measured = *profile;
    correction_init(&model->correction, model->measured.spread);
    correction_apply(&model->correction, &model->measured, &model->profile);
}

/* ---- buffers ---- */

/* Host memory is as good for one device as for the other; pinned memory stays with its engine. */
static uint32_t buffer_group(const model_devices_t *devices, uint32_t device)
{
    return strcmp(devices->kind, "cuda") == 0 ? device : 0;
}

static void buffers_withdraw(const model_buffers_t *buffers, const engine_model_info_t *info,
                             const model_buffers_watch_t *watch)
{
    for (uint32_t i = 0; watch && i < info->input_count + info->output_count; i++) {
        if (buffers->inputs[i])
            watch->gone(watch->ctx, buffers->inputs[i]);
    }
    for (uint32_t i = 0; watch && buffers->device_inputs && i < info->input_count; i++)
        watch->gone(watch->ctx, buffers->device_inputs[i]);
}

static void free_device_inputs(model_buffers_t *buffers, uint32_t count, const engine_ops_t *ops)
{
    for (uint32_t i = 0; i < count; i++)
        ops->input_free(buffers->engine, buffers->device_inputs[i]);
    free(buffers->device_inputs);
    buffers->device_inputs = NULL;
}

/* Those of a model with shapes grow, and stay with the host. Without memory for them inputs land in the host's. */
static void take_device_inputs(const model_t *model, const model_devices_t *devices, model_buffers_t *buffers,
                               uint32_t device)
{
    uint32_t count = model->info->input_count;
    engine_model_t *there = model->on_device[device];

    buffers->device_inputs = calloc(count, sizeof(void *));
    for (uint32_t i = 0; buffers->device_inputs && i < count; i++) {
        buffers->device_inputs[i] = devices->ops->input_alloc(there, buffers->capacity[i]);
        if (!buffers->device_inputs[i])
            free_device_inputs(buffers, i, devices->ops);
    }
    for (uint32_t i = 0; devices->watch && buffers->device_inputs && i < count; i++)
        devices->watch->made(devices->watch->ctx, true, buffers->device_inputs[i], buffers->capacity[i]);
}

static void buffers_free(model_buffers_t *buffers, const engine_model_info_t *info, const engine_ops_t *ops)
{
    for (uint32_t i = 0; i < info->input_count + info->output_count; i++) {
        if (buffers->inputs[i])
            ops->buffer_free(buffers->engine, buffers->inputs[i]);
    }
    if (buffers->device_inputs)
        free_device_inputs(buffers, info->input_count, ops);
    free(buffers);
}

static model_buffers_t *buffers_create(const model_t *model, const model_devices_t *devices, uint32_t device)
{
    const engine_model_info_t *info = model->info;
    uint32_t total = info->input_count + info->output_count;
    model_buffers_t *buffers = calloc(1, sizeof(*buffers) + total * (sizeof(void *) + sizeof(size_t)));

    if (!buffers)
        return NULL;
    buffers->engine = devices->list[device].engine;
    buffers->group = buffer_group(devices, device);
    buffers->inputs = (void **)(buffers + 1);
    buffers->outputs = buffers->inputs + info->input_count;
    buffers->capacity = (size_t *)(buffers->inputs + total);
    for (uint32_t i = 0; i < total; i++) {
        const engine_tensor_t *tensor =
            i < info->input_count ? &info->inputs[i] : &info->outputs[i - info->input_count];
        size_t len = tensor->row_bytes * info->max_batch;
        if (!model_buffers_reserve(devices, buffers, i, len ? len : 1)) {
            buffers_withdraw(buffers, info, devices->watch);
            buffers_free(buffers, info, devices->ops);
            return NULL;
        }
    }
    if (devices->inputs_on_device && !model->shapes)
        take_device_inputs(model, devices, buffers, device);
    return buffers;
}

/* In its place; told in the order in which memory is used, so that no address has two owners. */
static void buffer_replace(const model_devices_t *devices, model_buffers_t *buffers, uint32_t i, void *larger,
                           size_t bytes)
{
    const model_buffers_watch_t *watch = devices->watch;
    void *old = buffers->inputs[i];

    if (old && watch)
        watch->gone(watch->ctx, old);
    if (old)
        devices->ops->buffer_free(buffers->engine, old);
    buffers->inputs[i] = larger;
    buffers->capacity[i] = bytes;
    if (watch)
        watch->made(watch->ctx, false, larger, bytes);
}

bool model_buffers_reserve(const model_devices_t *devices, model_buffers_t *buffers, uint32_t i, size_t bytes)
{
    if (bytes <= buffers->capacity[i])
        return true;
    /* Lengths that creep up must not cost an allocation each. */
    if (bytes < buffers->capacity[i] + buffers->capacity[i] / 2)
        bytes = buffers->capacity[i] + buffers->capacity[i] / 2;
    void *larger = devices->ops->buffer_alloc(buffers->engine, bytes);
    if (!larger)
        return false;
    buffer_replace(devices, buffers, i, larger, bytes);
    return true;
}

model_buffers_t *model_buffers_get(model_t *model, const model_devices_t *devices, uint32_t device)
{
    model_buffers_t **list = &model->free_buffers[buffer_group(devices, device)];
    model_buffers_t *buffers = *list;

    if (!buffers)
        return buffers_create(model, devices, device);
    *list = buffers->next;
    return buffers;
}

void model_buffers_put(model_t *model, model_buffers_t *buffers)
{
    buffers->next = model->free_buffers[buffers->group];
    model->free_buffers[buffers->group] = buffers;
}

void model_buffers_withdraw(const model_t *model, const model_devices_t *devices)
{
    for (uint32_t g = 0; g < model->buffer_groups; g++) {
        for (const model_buffers_t *buffers = model->free_buffers[g]; buffers; buffers = buffers->next)
            buffers_withdraw(buffers, model->info, devices->watch);
    }
}

void model_buffers_free(model_t *model, const model_devices_t *devices)
{
    for (uint32_t g = 0; g < model->buffer_groups; g++) {
        while (model->free_buffers[g]) {
            model_buffers_t *buffers = model->free_buffers[g];
            model->free_buffers[g] = buffers->next;
            buffers_free(buffers, model->info, devices->ops);
        }
    }
    free(model->free_buffers);
    model->free_buffers = NULL;
    model->buffer_groups = 0;
}
