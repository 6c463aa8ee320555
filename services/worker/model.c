#include "model.h"

#include "base/clock.h"
#include "memory.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Deadline of a model whose config gives none: long enough for batches to form, see docs/model-repository.md. */
static const int64_t SLO_MIN_NS = 100 * NS_PER_MS;
enum { SLO_BATCH = 8, SLO_TIMES = 2 };
/* A changed profile goes through the scheduler to all gateways: not more often. */
static const int64_t CORRECTION_PAUSE_NS = 5 * NS_PER_S;

const char *model_state_name(model_state_t state)
{
    static const char *const names[] = {"loading", "ready", "failed", "unloading", "unloaded"};

    return names[state];
}

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

int64_t model_latency_ns(const model_t *model, const uint32_t *sizes, uint32_t batch)
{
    return model->shapes ? shapes_latency_ns(model->shapes, sizes, batch)
                         : profile_latency_ns(&model->profile, batch);
}

int64_t model_least_slo_ns(const model_t *model)
{
    return model->config.slo_ns ? model->config.slo_ns : SLO_MIN_NS;
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
    int64_t off = exec_ns - model_latency_ns(model, sizes, batch);

    metrics_observe(model->profile_error, off < 0 ? -off : off);
    if (off > 0)
        metrics_add(model->late, 1);
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
static uint32_t buffer_group(const worker_devices_t *devices, uint32_t device)
{
    return strcmp(devices->kind, "cuda") == 0 ? device : 0;
}

static void buffers_free(model_buffers_t *buffers, const engine_model_info_t *info, const engine_ops_t *ops)
{
    for (uint32_t i = 0; i < info->input_count + info->output_count; i++) {
        if (buffers->inputs[i])
            ops->buffer_free(buffers->engine, buffers->inputs[i]);
    }
    free(buffers);
}

static model_buffers_t *buffers_create(const model_t *model, const worker_devices_t *devices, uint32_t device)
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
            buffers_free(buffers, info, devices->ops);
            return NULL;
        }
    }
    return buffers;
}

bool model_buffers_reserve(const worker_devices_t *devices, model_buffers_t *buffers, uint32_t i,
                           size_t bytes)
{
    if (bytes <= buffers->capacity[i])
        return true;
    /* Lengths that creep up must not cost an allocation each. */
    if (bytes < buffers->capacity[i] + buffers->capacity[i] / 2)
        bytes = buffers->capacity[i] + buffers->capacity[i] / 2;
    void *larger = devices->ops->buffer_alloc(buffers->engine, bytes);
    if (!larger)
        return false;
    if (buffers->inputs[i])
        devices->ops->buffer_free(buffers->engine, buffers->inputs[i]);
    buffers->inputs[i] = larger;
    buffers->capacity[i] = bytes;
    return true;
}

model_buffers_t *model_buffers_get(model_t *model, const worker_devices_t *devices, uint32_t device)
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

static void leave_devices(model_t *model, const worker_devices_t *devices)
{
    mode_dispose(&model->choice);
    memory_give(model, devices);
    free(model->batch_bytes);
    model->batch_bytes = NULL;
    for (uint32_t i = 0; i < model->on_device_count; i++)
        devices->ops->unload(model->on_device[i]);
    free(model->on_device);
    model->on_device = NULL;
    model->on_device_count = 0;
    model->info = NULL;
    free(model->shapes);
    model->shapes = NULL;
}

void model_unload(model_t *model, const worker_devices_t *devices)
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
    leave_devices(model, devices);
}

void model_destroy(model_t *model, const worker_devices_t *devices)
{
    model_unload(model, devices);
    model_config_dispose(&model->config);
    free(model);
}

void model_name_metrics(model_t *model, metrics_t *metrics)
{
    model->batches_ok = metrics_series(metrics, METRIC_WORKER_BATCHES, model->name, "ok");
    model->batches_failed = metrics_series(metrics, METRIC_WORKER_BATCHES, model->name, "failed");
    model->batches_revoked = metrics_series(metrics, METRIC_WORKER_BATCHES, model->name, "revoked");
    model->tasks_ok = metrics_series(metrics, METRIC_WORKER_TASKS, model->name, "ok");
    model->tasks_failed = metrics_series(metrics, METRIC_WORKER_TASKS, model->name, "failed");
    model->push_failed = metrics_series(metrics, METRIC_WORKER_PUSH_FAILURES, model->name);
    model->exec = metrics_series(metrics, METRIC_WORKER_EXEC_SECONDS, model->name);
    model->fetch = metrics_series(metrics, METRIC_WORKER_FETCH_SECONDS, model->name);
    model->push = metrics_series(metrics, METRIC_WORKER_PUSH_SECONDS, model->name);
    model->stopped = metrics_series(metrics, METRIC_WORKER_STOPPED_SECONDS, model->name);
    model->overlap_dropped = metrics_series(metrics, METRIC_WORKER_OVERLAP_DROPPED, model->name);
    model->stretch_joined = metrics_series(metrics, METRIC_WORKER_STRETCHES, model->name, "joined");
    model->stretch_alone = metrics_series(metrics, METRIC_WORKER_STRETCHES, model->name, "alone");
    model->stage_batches = metrics_series(metrics, METRIC_WORKER_STAGED_BATCHES, model->name);
    model->stage_beside = metrics_series(metrics, METRIC_WORKER_STAGED_BESIDE, model->name);
    model->stage_stretched = metrics_series(metrics, METRIC_WORKER_STAGED_ROWS, model->name);
    model->stage_padded = metrics_series(metrics, METRIC_WORKER_STAGED_PADDED, model->name);
    model->stage_splits = metrics_series(metrics, METRIC_WORKER_STAGED_SPLITS, model->name);
    model->unfit = metrics_series(metrics, METRIC_WORKER_MODE_UNFIT, model->name);
    model->late = metrics_series(metrics, METRIC_WORKER_LATE_BATCHES, model->name);
    model->profile_error = metrics_series(metrics, METRIC_WORKER_PROFILE_ERROR_SECONDS, model->name);
}

/* ---- loading ---- */

void model_file_path(const model_t *model, char path[PATH_MAX + 64])
{
    if (model->file[0])
        snprintf(path, PATH_MAX + 64, "%s", model->file);
    else
        snprintf(path, PATH_MAX + 64, "%s/%lld/model.onnx", model->dir, (long long)model->version);
}

static int64_t latency_of(void *arg, uint32_t batch)
{
    return profile_latency_ns(&((const model_t *)arg)->profile, batch);
}

static void describe_bare(const model_t *model, engine_load_t *load, engine_tensor_t tensors[2])
{
    tensors[0] =
        (engine_tensor_t){.name = "input", .dtype = DTYPE_F32, .rank = 1, .dims = {model->emulated_elements}};
    tensors[1] = tensors[0];
    tensors[1].name = "output";
    load->inputs = &tensors[0];
    load->outputs = &tensors[1];
    load->input_count = load->output_count = 1;
    load->batching = ENGINE_BATCH_FORCE;
}

static status_t load_on_devices(model_t *model, const model_load_options_t *options, err_t *err)
{
    const worker_devices_t *devices = options->devices;
    char path[PATH_MAX + 64];
    engine_tensor_t tensors[2];
    engine_load_t load = {.name = model->name,
                          .path = path,
                          .max_batch = model->config.max_batch,
                          .batching = model->config.max_batch > 1 ? ENGINE_BATCH_FORCE : ENGINE_BATCH_AUTO,
                          .precision = model->config.precision};

    model_file_path(model, path);
    if (model->bare) {
        load.path = NULL;
        describe_bare(model, &load, tensors);
    }
    if (strcmp(devices->kind, "emulated") == 0) {
        load.latency = latency_of;
        load.latency_arg = model;
    }
    model->on_device = calloc(devices->count, sizeof(*model->on_device));
    if (!model->on_device)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    for (uint32_t i = 0; i < devices->count; i++) {
        if (atomic_load(options->stop))
            return err_set(err, STATUS_CANCELLED, "stopped");
        status_t status = devices->ops->load(devices->list[i].engine, &load, &model->on_device[i], err);
        if (status != STATUS_OK)
            return status;
        model->on_device_count++;
    }
    model->info = devices->ops->info(model->on_device[0]);
    return STATUS_OK;
}

static status_t sum_rows(const engine_tensor_t *tensors, uint32_t count, const char *what, uint64_t *sum,
                         err_t *err)
{
    *sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (tensors[i].row_bytes > MODEL_ROW_BYTES_MAX - *sum)
            return err_set(err, STATUS_TOO_LARGE, "the %s of one row have over %d MiB, from '%.80s' on", what,
                           MODEL_ROW_BYTES_MAX >> 20, tensors[i].name);
        *sum += tensors[i].row_bytes;
    }
    return STATUS_OK;
}

/* Whether rows are of one size, and of which. */
static status_t measure_rows(model_t *model, err_t *err)
{
    const engine_model_info_t *info = model->info;
    uint64_t out_bytes;

    if (sum_rows(info->inputs, info->input_count, "inputs", &model->row_in_bytes, err) != STATUS_OK ||
        sum_rows(info->outputs, info->output_count, "outputs", &out_bytes, err) != STATUS_OK)
        return err->code;
    if (!axes_present(info))
        return STATUS_OK;
    model->row_in_bytes = 0;
    model->shapes = calloc(1, sizeof(*model->shapes));
    if (!model->shapes)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    return axes_find(&model->shapes->axes, info, &model->config.shapes, err);
}

/* Before the load: the emulated engine asks for latencies, not the other way round. */
static status_t give_profile(model_t *model, err_t *err)
{
    uint32_t max_batch = model->config.max_batch ? model->config.max_batch : ENGINE_DEFAULT_MAX_BATCH;

    if (model->config.has_line)
        return profile_from_line(&model->profile, model->config.alpha_ns, model->config.beta_ns, max_batch,
                                 err);
    if (model->profile.max_batch == 0)
        return err_set(
            err, STATUS_INVALID_ARGUMENT,
            "the emulated engine needs a profile: 'emulate' in config.yaml or a line in --profile");
    return STATUS_OK;
}

static int64_t default_slo_ns(const model_t *model)
{
    uint32_t batch = model->info->max_batch < SLO_BATCH ? model->info->max_batch : SLO_BATCH;
    int64_t slo = SLO_TIMES * profile_latency_ns(&model->profile, batch);

    return slo > SLO_MIN_NS ? slo : SLO_MIN_NS;
}

static status_t check_pipeline(const model_t *model, err_t *err)
{
    const image_pipeline_t *image = &model->config.image;
    bool input = !image->input[0], softmax = !image->softmax[0];

    for (uint32_t i = 0; i < model->info->input_count; i++)
        input |= strcmp(model->info->inputs[i].name, image->input) == 0;
    for (uint32_t i = 0; i < model->info->output_count; i++)
        softmax |= strcmp(model->info->outputs[i].name, image->softmax) == 0;
    if (!input)
        return err_set(err, STATUS_INVALID_ARGUMENT, "preprocess.input: the model has no input '%s'",
                       image->input);
    if (!softmax)
        return err_set(err, STATUS_INVALID_ARGUMENT, "postprocess.softmax: the model has no output '%s'",
                       image->softmax);
    return STATUS_OK;
}

static status_t choose_references(model_t *model, const model_load_options_t *options, err_t *err)
{
    const image_pipeline_t *image = &model->config.image;
    shapes_choice_t choice = {.ops = options->devices->ops,
                              .model = model->on_device[0],
                              .config = &model->config.shapes,
                              .picture_input = image->input,
                              .channels_last = image->layout == IMAGE_NHWC};

    if (image_pipeline_present(image))
        image_pipeline_size(image, &choice.picture_width, &choice.picture_height);
    return shapes_choose(model->shapes, &choice, err);
}

/* An emulated device takes as long as it was told to, whatever the shape. */
static status_t emulate_family(model_t *model, err_t *err)
{
    return family_add(&model->shapes->family, UINT64_MAX, &model->profile, err);
}

static status_t load_steps(model_t *model, const model_load_options_t *options, err_t *err)
{
    bool emulated = strcmp(options->devices->kind, "emulated") == 0;
    status_t status = memory_check_files(model, options->devices, err);

    if (status == STATUS_OK && emulated)
        status = give_profile(model, err);
    if (status == STATUS_OK)
        status = load_on_devices(model, options, err);
    if (status == STATUS_OK)
        status = measure_rows(model, err);
    if (status == STATUS_OK)
        status = check_pipeline(model, err);
    if (status == STATUS_OK && model->shapes && emulated)
        status = emulate_family(model, err);
    else if (status == STATUS_OK && model->shapes)
        status = choose_references(model, options, err);
    if (status == STATUS_OK && !options->profile_later)
        status = model_prepare(model, options, err);
    if (status == STATUS_OK && !options->profile_later)
        status = memory_take(model, options->devices, err);
    if (status == STATUS_OK && !emulated && !options->profile_later)
        status = model_measure(model, options, err);
    if (status == STATUS_OK && !options->profile_later)
        status = mode_choose(model, options, err);
    return status;
}

status_t model_load(model_t *model, const model_load_options_t *options, err_t *err)
{
    err_t local = {0};
    status_t status = load_steps(model, options, &local);

    if (status == STATUS_OK) {
        model->buffer_groups = strcmp(options->devices->kind, "cuda") == 0 ? options->devices->count : 1;
        model->free_buffers = calloc(model->buffer_groups, sizeof(*model->free_buffers));
        if (!model->free_buffers) {
            model->buffer_groups = 0;
            status = err_set(&local, STATUS_NO_MEMORY, "out of memory");
        }
    }
    if (status != STATUS_OK) {
        leave_devices(model, options->devices);
        if (err)
            *err = local;
        return status;
    }
    model->slo_ns = model->config.slo_ns ? model->config.slo_ns : default_slo_ns(model);
    model->measured = model->profile;
    if (model->shapes)
        shapes_start(model->shapes);
    model->corrects = strcmp(options->devices->kind, "emulated") != 0;
    correction_init(&model->correction, model->measured.spread);
    if (model->corrects && model->shapes)
        shapes_correct(model->shapes);
    else if (model->corrects)
        model_take_profile(model, 0, &model->profile);
    return STATUS_OK;
}
