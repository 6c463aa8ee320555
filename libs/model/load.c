/* Onto the devices, step by step, and off them again. */
#include "model/model.h"

#include "model/measure/choose_engine.h"
#include "model/measure/kept_profile.h"
#include "model/measure/profiler_bench.h"
#include "model/parts/memory.h"
#include "model/trial/trial.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void leave_engines(model_t *model, const model_devices_t *devices)
{
    for (uint32_t i = 0; i < model->on_device_count; i++)
        devices->ops->unload(model->on_device[i]);
    free(model->on_device);
    model->on_device = NULL;
    model->on_device_count = 0;
    model->info = NULL;
    model->engine = NULL;
}

static void leave_devices(model_t *model, const model_devices_t *devices)
{
    mode_dispose(&model->choice);
    memory_give(model, devices);
    free(model->batch_bytes);
    model->batch_bytes = NULL;
    leave_engines(model, devices);
    free(model->shapes);
    model->shapes = NULL;
}

/* The heap keeps what was freed in pieces. It looks through all of itself for that, which small models are not worth. */
enum { TRIM_FROM_BYTES = 16 << 20 };

void model_unload(model_t *model, const model_devices_t *devices)
{
    uint64_t taken_bytes = model->taken_bytes;

    model_buffers_free(model, devices);
    leave_devices(model, devices);
    if (taken_bytes >= TRIM_FROM_BYTES)
        (void)malloc_trim(0);
}

void model_destroy(model_t *model, const model_devices_t *devices)
{
    model_unload(model, devices);
    model_config_dispose(&model->config);
    free(model);
}

/* ---- loading ---- */

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

static bool is_emulated(const model_load_options_t *options)
{
    return strcmp(options->devices->kind, "emulated") == 0;
}

static status_t load_on_devices(model_t *model, const model_load_options_t *options, err_t *err)
{
    const model_devices_t *devices = options->devices;
    char path[MODEL_PATH_BYTES];
    engine_tensor_t tensors[2];
    engine_load_t load = {.name = model->name,
                          .path = path,
                          .max_batch = model->config.max_batch,
                          .batching =
                              model->config.max_batch > 1 ? ENGINE_BATCH_FORCE : model->config.batching,
                          .precision = model->config.precision,
                          .text_bytes = model->config.string_bytes};

    model_file_path(model, path);
    load.only = model->only_engine[0] ? model->only_engine : NULL;
    load.without = model->without[0] ? model->without : NULL;
    if (model->bare) {
        load.path = NULL;
        describe_bare(model, &load, tensors);
    }
    if (model->config.providers[0])
        load.providers = model->config.providers;
    if (is_emulated(options)) {
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

/* A model and how it is loaded. */
typedef struct {
    const model_t *model;
    const model_load_options_t *options;
} loading_t;

static status_t takes(void *arg, const uint32_t *sizes, err_t *err)
{
    const loading_t *loading = arg;
    profiler_t profiler = model_profiler(loading->model, loading->options, sizes);
    int64_t took_ns;
    bench_t bench;

    if (atomic_load(loading->options->stop))
        return err_set(err, STATUS_CANCELLED, "stopped");
    status_t status = bench_init(&profiler, loading->model->info, &bench, err);
    bench.job.batch = 1;
    if (status == STATUS_OK)
        status = bench_run(&profiler, &bench.job, &took_ns, err);
    bench_dispose(&profiler, &bench);
    return status;
}

static status_t choose_references(model_t *model, const model_load_options_t *options, err_t *err)
{
    const image_pipeline_t *image = &model->config.image;
    loading_t loading = {model, options};
    shapes_choice_t choice = {.takes = takes,
                              .takes_arg = &loading,
                              .ops = options->devices->ops,
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

/* The one that config.yaml names, or that was the fastest when its profile was kept, or on trial. An engine that is gone since, or that does not take it, is not insisted on unless it was named. */
static void name_engine(model_t *model, const model_load_options_t *options)
{
    model->only_engine[0] = '\0';
    if (!options->devices->ops->choice)
        return;
    if (model->config.engine[0])
        snprintf(model->only_engine, sizeof(model->only_engine), "%s", model->config.engine);
    else if (options->use_cache)
        kept_profile_engine(model, options->devices, model->only_engine);
    if (!model->only_engine[0])
        snprintf(model->only_engine, sizeof(model->only_engine), "%s", model->fastest);
}

static status_t load_anywhere(model_t *model, const model_load_options_t *options, err_t *err)
{
    status_t status = load_on_devices(model, options, err);

    if (status == STATUS_OK || !model->only_engine[0] || model->config.engine[0] ||
        status == STATUS_CANCELLED)
        return status;
    model->only_engine[0] = '\0';
    leave_engines(model, options->devices);
    return load_on_devices(model, options, err);
}

/* ---- first elsewhere ---- */

/* What is loaded here while other engines are tried. */
typedef struct {
    model_t *model;
    const model_load_options_t *options;
    char without[MODEL_WITHOUT_BYTES]; /* as it was then */
    char engine[MODEL_ENGINE_NAME_BYTES];
} early_t;

/* On the very engine, which takes the place of one that it was loaded on before; what goes wrong goes wrong again when it is loaded in its turn, and
 * is told then. */
static void load_early(void *arg, const char *engine)
{
    early_t *early = arg;
    model_t *model = early->model;
    const model_load_options_t *options = early->options;

    if (model->on_device_count > 0 && strcmp(early->engine, engine) == 0)
        return;
    leave_engines(model, options->devices);
    name_engine(model, options);
    if ((model->only_engine[0] && strcmp(model->only_engine, engine) != 0) ||
        memory_take_loading(model, options->devices, NULL) != STATUS_OK)
        return;
    memcpy(early->without, model->without, sizeof(early->without));
    snprintf(early->engine, sizeof(early->engine), "%s", engine);
    snprintf(model->only_engine, sizeof(model->only_engine), "%s", engine);
    if (load_on_devices(model, options, NULL) != STATUS_OK)
        leave_engines(model, options->devices);
}

/* With an engine less than it knows of, or on another than the fastest, it is not as it would be loaded now. */
static void keep_early(const early_t *early)
{
    const model_t *model = early->model;

    if (model->on_device_count > 0 && (strcmp(early->without, model->without) != 0 ||
                                       (model->fastest[0] && strcmp(early->engine, model->fastest) != 0)))
        leave_engines(early->model, early->options->devices);
}

/* First what its files do to a process of their own, while only their sizes are counted here; then what that took is. */
static status_t try_elsewhere(model_t *model, const model_load_options_t *options, err_t *err)
{
    early_t loaded = {.model = model, .options = options};
    const trial_early_t early = {.passed = load_early, .arg = &loaded};
    status_t status = memory_take_files(model, options->devices, err);

    model->hash[0] = '\0';
    model->loading_bytes = 0;
    if (status != STATUS_OK || !options->trials || model->bare)
        return status;
    status = trial_of(options->trials, model, options, &early, err);
    keep_early(&loaded);
    return status == STATUS_OK ? memory_take_loading(model, options->devices, err) : status;
}

static status_t place_steps(model_t *model, const model_load_options_t *options, err_t *err)
{
    bool emulated = is_emulated(options);
    status_t status = try_elsewhere(model, options, err);

    if (status == STATUS_OK)
        name_engine(model, options);
    if (status == STATUS_OK && emulated)
        status = give_profile(model, err);
    if (status == STATUS_OK && model->on_device_count == 0)
        status = load_anywhere(model, options, err);
    if (status == STATUS_OK && model->config.triton)
        status = triton_config_check(model->config.triton, model->info, &model->config.shapes, err);
    if (status == STATUS_OK)
        status = measure_rows(model, err);
    if (status == STATUS_OK)
        status = check_pipeline(model, err);
    if (status == STATUS_OK && model->shapes && emulated)
        status = emulate_family(model, err);
    else if (status == STATUS_OK && model->shapes)
        status = choose_references(model, options, err);
    return status == STATUS_OK && !options->profile_later ? model_prepare_engines(model, options, err)
                                                          : status;
}

static status_t ready_steps(model_t *model, const model_load_options_t *options, err_t *err)
{
    bool measures = !is_emulated(options) && !options->profile_later;
    status_t status = STATUS_OK;

    if (atomic_load(options->stop))
        return err_set(err, STATUS_CANCELLED, "stopped");
    if (measures && !model->hash[0])
        status = model_hash(model, model->hash, err);
    if (status == STATUS_OK)
        status = model_choose_engine(model, options, err);
    if (status == STATUS_OK && measures)
        status = model_measure(model, options, err);
    if (status == STATUS_OK && !options->profile_later)
        status = mode_choose(model, options, err);
    if (status != STATUS_OK)
        return status;
    uint32_t groups = strcmp(options->devices->kind, "cuda") == 0 ? options->devices->count : 1;
    model->free_buffers = calloc(groups, sizeof(*model->free_buffers));
    if (!model->free_buffers)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    model->buffer_groups = groups;
    return STATUS_OK;
}

/* What failed leaves nothing on the devices. */
static status_t step_done(model_t *model, const model_load_options_t *options, status_t status,
                          const err_t *why, err_t *err)
{
    if (status == STATUS_OK)
        return status;
    leave_devices(model, options->devices);
    if (err)
        *err = *why;
    return status;
}

status_t model_place(model_t *model, const model_load_options_t *options, err_t *err)
{
    err_t why = {0};

    return step_done(model, options, place_steps(model, options, &why), &why, err);
}

status_t model_ready(model_t *model, const model_load_options_t *options, err_t *err)
{
    err_t why = {0};
    status_t status = step_done(model, options, ready_steps(model, options, &why), &why, err);

    if (status != STATUS_OK)
        return status;
    model->slo_ns = model_slo_ns(model);
    model->measured = model->profile;
    if (model->shapes)
        shapes_start(model->shapes);
    model->corrects = !is_emulated(options);
    correction_init(&model->correction, model->measured.spread);
    if (model->corrects && model->shapes)
        shapes_correct(model->shapes);
    else if (model->corrects)
        model_take_profile(model, 0, &model->profile);
    return STATUS_OK;
}

status_t model_load(model_t *model, const model_load_options_t *options, err_t *err)
{
    status_t status = model_place(model, options, err);

    return status == STATUS_OK ? model_ready(model, options, err) : status;
}
