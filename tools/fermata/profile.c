/* fermata profile MODEL: measures how long batches take and keeps that where a worker finds it. */
#include "base/clock.h"
#include "base/log.h"
#include "config/config.h"
#include "fermata/command.h"
#include "fermata/profile_modes.h"
#include "fermata/profile_overlap.h"
#include "fermata/profile_report.h"
#include "repository.h"

#include <libgen.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    int engine;
    const char *batches, *out, *plot, *lengths;
    double seconds;
    int64_t threads, device_memory, seed, groups, streams;
    bool pin, json, check, keep, stages, loads, exit_points, overlap;
} profile_options_t;

static const char *const engines[] = {"onednn", "cuda", "reference", "emulated", NULL};

static const config_option_t options[] = {
    {.name = "engine",
     .type = CONFIG_ENUM,
     .group = "Device",
     .help = "What runs the model.",
     .def = "onednn",
     .choices = engines,
     .offset = offsetof(profile_options_t, engine)},
    {.name = "threads",
     .type = CONFIG_INT,
     .group = "Device",
     .help = "CPU threads; a worker takes up only a profile of as many as its own.",
     .def = "1",
     .min = 1,
     .max = 256,
     .offset = offsetof(profile_options_t, threads)},
    {.name = "pin",
     .type = CONFIG_BOOL,
     .group = "Device",
     .help = "Keep the threads on CPUs of their own.",
     .offset = offsetof(profile_options_t, pin)},
    {.name = "memory_limit",
     .type = CONFIG_BYTES,
     .group = "Device",
     .help = "For the model; 0 = what there is.",
     .def = "0",
     .min = 0,
     .max = INT64_MAX,
     .offset = offsetof(profile_options_t, device_memory)},
    {.name = "batches",
     .type = CONFIG_STRING,
     .group = "Measuring",
     .metavar = "LIST",
     .help = "Sizes, as 1,2,4-8; by default 1, 2, 3, 4, 6, 8, 12, … up to the model's max_batch.",
     .offset = offsetof(profile_options_t, batches)},
    {.name = "seconds",
     .type = CONFIG_DOUBLE,
     .group = "Measuring",
     .help = "Time for each size (0.001 to 3600).",
     .def = "0.5",
     .offset = offsetof(profile_options_t, seconds)},
    {.name = "check",
     .type = CONFIG_BOOL,
     .group = "Measuring",
     .help = "Then run batches of random sizes and say how far off the profile is.",
     .offset = offsetof(profile_options_t, check)},
    {.name = "stages",
     .type = CONFIG_BOOL,
     .group = "Execution modes",
     .help = "Try numbers of stages and T_comp_wait for mode staged; a worker takes up the best.",
     .offset = offsetof(profile_options_t, stages)},
    {.name = "loads",
     .type = CONFIG_BOOL,
     .group = "Execution modes",
     .help = "Then play ZeroBatch, DelayBatch and what --stages found at low, medium, high and peak load.",
     .offset = offsetof(profile_options_t, loads)},
    {.name = "lengths",
     .type = CONFIG_STRING,
     .group = "Execution modes",
     .metavar = "LIST",
     .help =
         "Sizes of the dimension that varies and how many of the rows have each, as 16:2,24:8; by default "
         "--stages lets only rows of the largest profiled shape come, and --overlap as many of each.",
     .offset = offsetof(profile_options_t, lengths)},
    {.name = "streams",
     .type = CONFIG_INT,
     .group = "Execution modes",
     .help = "Streams of the device that --stages uses, each of --threads threads.",
     .def = "2",
     .min = 1,
     .max = 64,
     .offset = offsetof(profile_options_t, streams)},
    {.name = "exit_points",
     .type = CONFIG_BOOL,
     .group = "Execution modes",
     .help =
         "Try numbers of exit points for mode preempt; a worker takes up the fewest that keep overhead and "
         "delay below 5 %.",
     .offset = offsetof(profile_options_t, exit_points)},
    {.name = "overlap",
     .type = CONFIG_BOOL,
     .group = "Execution modes",
     .help =
         "Measure groups of operators of several MODELs side by side, and train the duration model of mode "
         "overlap on them.",
     .offset = offsetof(profile_options_t, overlap)},
    {.name = "groups",
     .type = CONFIG_INT,
     .group = "Execution modes",
     .help = "How many groups --overlap measures; 2000 for each pair in the paper.",
     .def = "2000",
     .min = 50,
     .max = 1000000,
     .offset = offsetof(profile_options_t, groups)},
    {.name = "seed",
     .type = CONFIG_INT,
     .group = "Measuring",
     .help = "Of the random sizes, the arrivals and the groups.",
     .def = "1",
     .min = 0,
     .max = INT64_MAX,
     .offset = offsetof(profile_options_t, seed)},
    {.name = "keep",
     .type = CONFIG_BOOL,
     .group = "Output",
     .help = "Write the profile beside the model of a folder, where a worker looks for it.",
     .def = "true",
     .offset = offsetof(profile_options_t, keep)},
    {.name = "out",
     .type = CONFIG_PATH,
     .group = "Output",
     .metavar = "FILE",
     .help = "Write the profile here instead.",
     .offset = offsetof(profile_options_t, out)},
    {.name = "plot",
     .type = CONFIG_PATH,
     .group = "Output",
     .metavar = "FILE",
     .help = "Draw it as SVG.",
     .offset = offsetof(profile_options_t, plot)},
    {.name = "json",
     .type = CONFIG_BOOL,
     .group = "Output",
     .help = "Print one JSON document.",
     .offset = offsetof(profile_options_t, json)},
};

static const config_schema_t schema = {
    .program = "fermata profile",
    .summary = "Measures how long batches of a model take, and keeps the profile for the workers.",
    .options = options,
    .options_len = sizeof options / sizeof *options,
    .positionals = "MODEL…",
    .epilog = "MODEL is a model's folder of a repository (config.yaml counts) or an ONNX file; several with "
              "--overlap\n"
              "alone. docs/modes.md says what the execution modes make of it.\n",
};

/* How long runs of random sizes are made for a check, in times of one size. */
enum { CHECK_TIMES = 10 };

static const _Atomic(int) never_stop;

typedef struct {
    const profile_options_t *options;
    worker_devices_t devices;
    metrics_t *metrics; /* that the devices want */
    model_t *model;
    uint32_t sizes[PROFILER_SIZES_MAX], size_count; /* 0: the usual ones */
    profiler_sample_t samples[PROFILER_SIZES_MAX];
    uint32_t count;
    profiler_check_t check;
    profile_found_t found;
    profile_mix_t mix;    /* --stages, of a model whose dimensions vary */
    profile_mix_t *mixes; /* --overlap, of each model */
    char hash[PROFILE_CACHE_TEXT_BYTES];
    char path[PATH_MAX + 192];           /* of the profile, or the overlap plan; "" = it is not kept */
    const uint32_t *axis_sizes;          /* that are being measured; NULL: nothing but the batch varies */
    model_t *others[OVERLAP_MODELS_MAX]; /* --overlap: all of them, by name; `model` is the first */
    uint32_t other_count;
} session_t;

/* Before minutes are spent on measuring. */
static status_t check_folder_of(const char *path, err_t *err)
{
    char copy[PATH_MAX + 192];

    if (snprintf(copy, sizeof(copy), "%s", path) >= (int)sizeof(copy))
        return err_set(err, STATUS_INVALID_ARGUMENT, "path too long");
    if (access(dirname(copy), W_OK | X_OK) != 0)
        return err_set(err, STATUS_IO, "cannot write %.200s: %m", path);
    return STATUS_OK;
}

static status_t choose_outputs(session_t *session, err_t *err)
{
    const profile_options_t *o = session->options;

    if (o->out) {
        if (snprintf(session->path, sizeof(session->path), "%s", o->out) >= (int)sizeof(session->path))
            return err_set(err, STATUS_INVALID_ARGUMENT, "path too long");
    } else if (o->keep && !session->model->file[0]) {
        model_profile_path(session->model, &session->devices, session->axis_sizes, session->path);
    }
    status_t status = session->path[0] ? check_folder_of(session->path, err) : STATUS_OK;
    if (status == STATUS_OK && o->plot)
        status = check_folder_of(o->plot, err);
    return status;
}

static status_t open_device(session_t *session, err_t *err)
{
    const profile_options_t *o = session->options;
    engine_config_t config = {.threads = (uint32_t)o->threads,
                              .streams = o->overlap  ? session->other_count
                                         : o->stages ? (uint32_t)o->streams
                                                     : 1,
                              .memory_limit_bytes = (uint64_t)o->device_memory};

    session->metrics = metrics_create("profile", err);
    if (!session->metrics)
        return err->code;
    return worker_devices_open(&session->devices, engines[o->engine], 1, &config, o->pin, session->metrics,
                               err);
}

/* A file has no config: what is asked for is its max_batch. */
static status_t load(session_t *session, err_t *err)
{
    model_load_options_t how = {.devices = &session->devices, .profile_later = true, .stop = &never_stop};
    uint32_t largest = session->size_count ? session->sizes[session->size_count - 1] : 0;
    model_t *model = session->model;

    if (model->file[0])
        model->config.max_batch = largest;
    status_t status = model_load(model, &how, err);
    if (status != STATUS_OK)
        return err_prefix(err, "%.80s", model->name);
    if (largest > model->info->max_batch)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%.80s: a batch of %u is more than its max_batch, %u",
                       model->name, largest, model->info->max_batch);
    return model_hash(model, session->hash, err);
}

/* What was found before and is not measured now stays in the file, if it is of this model on this device. */
static void keep_found(session_t *session)
{
    profile_t old;
    profile_modes_t modes;

    if (session->path[0] && profile_cache_read(session->path, session->devices.identity, session->hash, &old,
                                               &modes, NULL) == STATUS_OK)
        session->model->modes = modes;
}

/* At the largest shape of those that come, whatever else was measured. */
static status_t measure_mix(session_t *session, profiler_t *profiler, profile_how_t *how, err_t *err)
{
    profile_mix_t *mix = &session->mix;
    status_t status = profile_mix_parse(session->options->lengths, session->model->shapes, mix, err);

    if (status == STATUS_OK)
        status = profile_mix_measure(mix, profiler, err);
    profiler->axis_sizes = profile_mix_largest(mix);
    how->profile = &mix->shapes[mix->count - 1].latency;
    how->mix = mix;
    return status;
}

static status_t measure_modes(session_t *session, const profiler_t *profiler, err_t *err)
{
    const profile_options_t *o = session->options;
    profiler_t at = *profiler;
    profile_how_t how = {.profiler = &at,
                         .profile = &session->model->profile,
                         .streams = (uint32_t)o->streams,
                         .seconds = o->seconds,
                         .seed = (uint64_t)o->seed,
                         .split_slack = session->model->config.split_slack,
                         .loads = o->loads};
    const model_shapes_t *shapes = session->model->shapes;
    status_t status = STATUS_OK;

    keep_found(session);
    if ((!o->stages && !o->exit_points) || (shapes && session->axis_sizes != shapes_largest(shapes)))
        return STATUS_OK;
    if (shapes)
        status = measure_mix(session, &at, &how, err);
    else if (o->lengths)
        status = err_set(err, STATUS_INVALID_ARGUMENT, "lengths: nothing but the batch of %.80s varies",
                         session->model->name);
    if (status == STATUS_OK && o->stages)
        status = profile_stages(&how, &session->model->modes, &session->found, err);
    if (status == STATUS_OK && o->exit_points)
        status = profile_exit_points(&how, &session->model->modes, &session->found, err);
    return status;
}

static status_t measure(session_t *session, err_t *err)
{
    const profile_options_t *o = session->options;
    int64_t goal_ns = llround(o->seconds * 1e9);
    profiler_t profiler = {.ops = session->devices.ops,
                           .engine = session->devices.list[0].engine,
                           .model = session->model->on_device[0],
                           .budget_ns = INT64_MAX,
                           .stop = &never_stop,
                           .sizes = session->size_count ? session->sizes : NULL,
                           .size_count = session->size_count,
                           .size_goal_ns = goal_ns,
                           .axes = session->axis_sizes ? &session->model->shapes->axes : NULL,
                           .axis_sizes = session->axis_sizes};
    status_t status = profiler_run(&profiler, session->samples, &session->count, err);

    if (status == STATUS_OK)
        status = profiler_fit(session->samples, session->count, session->model->info->max_batch,
                              &session->model->profile, err);
    if (status == STATUS_OK)
        status = measure_modes(session, &profiler, err);
    if (status == STATUS_OK && o->check) {
        profiler.size_goal_ns = CHECK_TIMES * goal_ns;
        status = profiler_check(&profiler, &session->model->profile, (uint64_t)o->seed, &session->check, err);
    }
    return status;
}

static void print_json(json_t *document)
{
    json_dumpf(document, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(document);
}

static status_t report(session_t *session, err_t *err)
{
    const profile_options_t *o = session->options;
    char shape[SHAPES_TEXT_BYTES] = "";
    if (session->axis_sizes)
        shapes_text(&session->model->shapes->axes, session->axis_sizes, shape);
    profile_report_t what = {.model = session->model->name,
                             .shape = shape,
                             .engine = engines[o->engine],
                             .device = session->devices.identity,
                             .hash = session->hash,
                             .samples = session->samples,
                             .count = session->count,
                             .profile = &session->model->profile,
                             .check = o->check ? &session->check : NULL,
                             .written = session->path[0] ? session->path : NULL};
    status_t status = STATUS_OK;

    if (what.written)
        status = model_store_profile(&session->devices, session->path, session->hash,
                                     &session->model->profile, &session->model->modes, err);
    if (status == STATUS_OK && o->plot)
        status = profile_report_svg(&what, o->plot, err);
    if (status != STATUS_OK)
        return status;
    json_t *document = o->json ? profile_report_json(&what) : NULL;
    if (document && (o->stages || o->exit_points))
        json_object_set_new(document, "modes", profile_found_json(&session->found));
    if (document) {
        print_json(document);
        return STATUS_OK;
    }
    profile_report_table(&what, stdout);
    if (session->mix.count)
        printf("\nfor the execution modes: operators measured at %s, rows of %u shapes came\n",
               shapes_text(session->mix.axes, profile_mix_largest(&session->mix), shape), session->mix.count);
    profile_found_table(&session->found, stdout);
    return STATUS_OK;
}

static void session_close(session_t *session)
{
    if (session->model && !session->other_count)
        model_destroy(session->model, &session->devices);
    for (uint32_t i = 0; i < session->other_count; i++)
        model_destroy(session->others[i], &session->devices);
    free(session->mixes);
    worker_devices_close(&session->devices);
    metrics_destroy(session->metrics);
}

static status_t measure_one(session_t *session, err_t *err)
{
    status_t status = measure(session, err);

    return status == STATUS_OK ? report(session, err) : status;
}

/* A model whose dimensions vary is measured at each of its references, where a worker would. */
static status_t measure_shapes(session_t *session, err_t *err)
{
    const model_shapes_t *shapes = session->model->shapes;
    status_t status = STATUS_OK;

    if (!shapes)
        return measure_one(session, err);
    if (shapes->reference_count > 1 && (session->options->out || session->options->plot))
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "%.80s is measured at %u shapes, which --out and --plot take only one of",
                       session->model->name, shapes->reference_count);
    for (uint32_t r = 0; status == STATUS_OK && r < shapes->reference_count; r++) {
        session->axis_sizes = shapes->references[r];
        status = choose_outputs(session, err);
        if (status == STATUS_OK)
            status = measure_one(session, err);
    }
    return status;
}

static status_t profile_model(session_t *session, const char *path, err_t *err)
{
    status_t status = repository_open_model(path, &session->model, err);

    if (status == STATUS_OK)
        status = open_device(session, err);
    if (status == STATUS_OK)
        status = choose_outputs(session, err);
    if (status == STATUS_OK)
        status = load(session, err);
    if (status == STATUS_OK)
        status = measure_shapes(session, err);
    session_close(session);
    return status;
}

/* ---- several models ---- */

/* By name, so that the order in which they are said does not matter. */
static status_t open_models(session_t *session, const char *const *paths, uint32_t count, err_t *err)
{
    for (uint32_t i = 0; i < count; i++) {
        model_t *model;
        status_t status = repository_open_model(paths[i], &model, err);
        if (status != STATUS_OK)
            return status;
        uint32_t at = session->other_count++;
        for (; at > 0 && strcmp(session->others[at - 1]->name, model->name) > 0; at--)
            session->others[at] = session->others[at - 1];
        session->others[at] = model;
    }
    session->model = session->others[0];
    for (uint32_t i = 1; i < count; i++)
        if (strcmp(session->others[i]->name, session->others[i - 1]->name) == 0)
            return err_set(err, STATUS_INVALID_ARGUMENT, "two models are named %.80s",
                           session->others[i]->name);
    return STATUS_OK;
}

/* Beside the folders of the models. */
static status_t choose_plan(session_t *session, err_t *err)
{
    const profile_options_t *o = session->options;
    char dir[PATH_MAX];
    int len = 0;

    if (o->out) {
        len = snprintf(session->path, sizeof(session->path), "%s", o->out);
    } else if (o->keep && !session->model->file[0]) {
        memcpy(dir, session->model->dir, sizeof(dir));
        if (!overlap_plan_path(dirname(dir), engines[o->engine], session->path, sizeof(session->path)))
            len = (int)sizeof(session->path);
    }
    if (len >= (int)sizeof(session->path))
        return err_set(err, STATUS_INVALID_ARGUMENT, "path too long");
    return session->path[0] ? check_folder_of(session->path, err) : STATUS_OK;
}

/* --lengths is of the models of which one dimension varies; rows of others come in the shapes of their references. */
static status_t choose_mixes(session_t *session, err_t *err)
{
    const char *lengths = session->options->lengths;
    uint32_t taken = 0;

    for (uint32_t i = 0; i < session->other_count; i++) {
        const model_shapes_t *shapes = session->others[i]->shapes;
        bool takes = shapes && lengths && shapes->axes.count == 1;
        if (takes && profile_mix_parse(lengths, shapes, &session->mixes[i], err) != STATUS_OK)
            return err_prefix(err, "%.80s", session->others[i]->name);
        if (shapes && !takes)
            profile_mix_references(shapes, &session->mixes[i]);
        taken += takes;
    }
    return !lengths || taken ? STATUS_OK
                             : err_set(err, STATUS_INVALID_ARGUMENT,
                                       "lengths: of none of these models one dimension varies");
}

/* When it is known which shapes were measured. */
static void note_lengths(const session_t *session, overlap_plan_t *plan)
{
    for (uint32_t i = 0; i < session->other_count; i++) {
        const profile_mix_t *mix = &session->mixes[i];
        plan->models[i].length_min = mix->count ? axes_length(mix->axes, mix->shapes[0].sizes) : 1;
        plan->models[i].length_max = mix->count ? axes_length(mix->axes, profile_mix_largest(mix)) : 1;
        plan->models[i].size_count = mix->count ? mix->axes->count : 0;
        if (mix->count)
            memcpy(plan->models[i].sizes, profile_mix_largest(mix), sizeof(plan->models[i].sizes));
    }
}

static status_t load_models(session_t *session, overlap_plan_t *plan, err_t *err)
{
    snprintf(plan->device, sizeof(plan->device), "%s", session->devices.identity);
    for (uint32_t i = 0; i < session->other_count; i++) {
        model_t *model = session->model = session->others[i];
        if (session->size_count)
            model->config.max_batch = session->sizes[session->size_count - 1];
        status_t status = load(session, err);
        if (status != STATUS_OK)
            return status;
        snprintf(plan->models[i].name, sizeof(plan->models[i].name), "%s", model->name);
        plan->models[i].version = model->version ? model->version : 1;
        memcpy(plan->models[i].hash, session->hash, sizeof(session->hash));
    }
    return choose_mixes(session, err);
}

/* At which sizes a model was measured. */
static json_t *sizes_json(const profile_mix_t *mix)
{
    char text[SHAPES_TEXT_BYTES];
    json_t *sizes = json_array();

    for (uint32_t shape = 0; shape < mix->count; shape++)
        json_array_append_new(sizes, json_string(shapes_text(mix->axes, mix->shapes[shape].sizes, text)));
    return sizes;
}

static void report_overlap(const session_t *session, const profile_overlap_how_t *how,
                           const profile_overlap_t *found)
{
    char text[SHAPES_TEXT_BYTES];

    if (session->options->json) {
        json_t *document = profile_overlap_json(how, found), *sizes = json_object();
        for (uint32_t i = 0; i < how->count; i++)
            json_object_set_new(sizes, how->models[i]->name, sizes_json(&session->mixes[i]));
        json_object_set_new(document, "sizes", sizes);
        print_json(document);
        return;
    }
    profile_overlap_table(how, found, stdout);
    for (uint32_t i = 0; i < how->count; i++)
        if (session->mixes[i].count)
            printf("%s: rows of %u shapes came, up to %s; larger ones run whole\n", how->models[i]->name,
                   session->mixes[i].count,
                   shapes_text(session->mixes[i].axes, profile_mix_largest(&session->mixes[i]), text));
    if (session->path[0])
        printf("written: %s%s\n", session->path,
               session->options->out ? " (for --overlap-plan of fermata up or the worker)" : "");
}

static status_t train_plan(session_t *session, overlap_plan_t *plan, err_t *err)
{
    const profile_options_t *o = session->options;
    profile_mix_t *mixes[OVERLAP_MODELS_MAX];
    profile_overlap_how_t how = {.models = session->others,
                                 .count = session->other_count,
                                 .mixes = mixes,
                                 .devices = &session->devices,
                                 .samples = (uint32_t)o->groups,
                                 .seed = (uint64_t)o->seed,
                                 .stop = &never_stop};
    profile_overlap_t found;

    for (uint32_t i = 0; i < how.count; i++)
        mixes[i] = session->others[i]->shapes ? &session->mixes[i] : NULL;
    status_t status = profile_overlap(&how, &plan->predictor, &found, err);
    note_lengths(session, plan);
    if (status == STATUS_OK && session->path[0])
        status = overlap_plan_write(session->path, plan, err);
    if (status == STATUS_OK)
        report_overlap(session, &how, &found);
    return status;
}

static status_t profile_models(session_t *session, const char *const *paths, uint32_t count, err_t *err)
{
    overlap_plan_t *plan = calloc(1, sizeof(*plan));
    session->mixes = calloc(count, sizeof(*session->mixes));
    status_t status = plan && session->mixes ? open_models(session, paths, count, err)
                                             : err_set(err, STATUS_NO_MEMORY, "out of memory");

    if (status == STATUS_OK)
        status = choose_plan(session, err);
    if (status == STATUS_OK)
        status = open_device(session, err);
    if (status == STATUS_OK)
        status = load_models(session, plan, err);
    if (status == STATUS_OK)
        status = train_plan(session, plan, err);
    free(plan);
    session_close(session);
    return status;
}

/* What the option table cannot say. */
static status_t check_usage(session_t *session, size_t words, err_t *err)
{
    const profile_options_t *o = session->options;

    if (!o->overlap && words != 1)
        return err_set(err, STATUS_INVALID_ARGUMENT, "say one MODEL (see --help)");
    if (o->overlap && (words < 2 || words > OVERLAP_MODELS_MAX))
        return err_set(err, STATUS_INVALID_ARGUMENT, "overlap: say 2 to %d MODELs", OVERLAP_MODELS_MAX);
    if (o->overlap && (o->stages || o->exit_points || o->check || o->plot))
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "overlap measures several models: nothing else goes with it");
    if ((o->loads && !o->stages) || (o->lengths && !o->stages && !o->overlap))
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "loads go with --stages, and lengths with --stages or --overlap");
    if (!(o->seconds >= 0.001 && o->seconds <= 3600))
        return err_set(err, STATUS_INVALID_ARGUMENT, "seconds: %g is not within 0.001..3600", o->seconds);
    if (!o->batches)
        return STATUS_OK;
    return profile_batches_parse(o->batches, session->sizes, PROFILER_SIZES_MAX, &session->size_count, err);
}

int command_profile(int argc, char **argv)
{
    profile_options_t o;
    config_t *config;
    int exit_code;
    size_t words;
    err_t err = {0};

    if (!config_start(&schema, argc, argv, &o, &config, &exit_code))
        return exit_code;
    session_t *session = calloc(1, sizeof(*session));
    const char *const *paths = config_positionals(config, &words);
    log_init("profile", LOG_WARN, LOG_FORMAT_TEXT);
    if (!session) {
        exit_code = config_exit(&schema, err_set(&err, STATUS_NO_MEMORY, "out of memory"), &err);
    } else {
        session->options = &o;
        if (check_usage(session, words, &err) == STATUS_OK) {
            status_t status = o.overlap ? profile_models(session, paths, (uint32_t)words, &err)
                                        : profile_model(session, paths[0], &err);
            exit_code = config_exit(&schema, status, &err);
        } else {
            fprintf(stderr, "fermata profile: %s\n", err.text);
            exit_code = EXIT_CODE_USAGE;
        }
    }
    free(session);
    config_destroy(config);
    return exit_code;
}
