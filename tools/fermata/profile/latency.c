/* One model: how long its batches take, and what the execution modes want to know of it. */
#include "fermata/profile/modes.h"
#include "fermata/profile/report.h"
#include "fermata/profile/session.h"
#include "model/measure/kept_profile.h"
#include "model/repository.h"

#include <math.h>
#include <stdlib.h>

/* How long runs of random sizes are made for a check, in times of one size. */
enum { CHECK_TIMES = 10 };

typedef struct {
    profile_session_t *session;
    model_t *model;
    char hash[PROFILE_CACHE_TEXT_BYTES];
    const uint32_t *axis_sizes; /* that are being measured; NULL: nothing but the batch varies */
    profiler_sample_t samples[PROFILER_SIZES_MAX];
    uint32_t count;
    profiler_check_t check;
    profile_found_t found;
    profile_mix_t mix; /* --stages, of a model whose dimensions vary */
} latency_t;

static status_t choose_outputs(latency_t *work, err_t *err)
{
    profile_session_t *session = work->session;
    const profile_options_t *o = session->options;

    if (o->out) {
        if (snprintf(session->path, sizeof(session->path), "%s", o->out) >= (int)sizeof(session->path))
            return err_set(err, STATUS_INVALID_ARGUMENT, "path too long");
    } else if (o->keep && !work->model->file[0]) {
        kept_profile_path(work->model, &session->devices, work->axis_sizes, session->path);
    }
    status_t status = session->path[0] ? profile_check_folder(session->path, err) : STATUS_OK;
    if (status == STATUS_OK && o->plot)
        status = profile_check_folder(o->plot, err);
    return status;
}

/* What was found before and is not measured now stays in the file, if it is of this model on this device. */
static void keep_found(latency_t *work)
{
    const profile_session_t *session = work->session;
    profile_t old;
    profile_modes_t modes;

    if (session->path[0] &&
        kept_profile_read(&session->devices, session->path, work->hash, 0, &old, &modes, NULL) == STATUS_OK)
        work->model->modes = modes;
}

/* At the largest shape of those that come, whatever else was measured. */
static status_t measure_mix(latency_t *work, profiler_t *profiler, profile_how_t *how, err_t *err)
{
    profile_mix_t *mix = &work->mix;
    status_t status = profile_mix_parse(work->session->options->lengths, work->model->shapes, mix, err);

    if (status == STATUS_OK)
        status = profile_mix_measure(mix, profiler, err);
    profiler->axis_sizes = profile_mix_largest(mix);
    how->profile = &mix->shapes[mix->count - 1].latency;
    how->mix = mix;
    return status;
}

static status_t measure_modes(latency_t *work, const profiler_t *profiler, err_t *err)
{
    const profile_options_t *o = work->session->options;
    profiler_t at = *profiler;
    profile_how_t how = {.profiler = &at,
                         .profile = &work->model->profile,
                         .streams = (uint32_t)o->streams,
                         .seconds = o->seconds,
                         .seed = (uint64_t)o->seed,
                         .split_slack = work->model->config.split_slack,
                         .loads = o->loads};
    const model_shapes_t *shapes = work->model->shapes;
    status_t status = STATUS_OK;

    keep_found(work);
    if ((!o->stages && !o->exit_points) || (shapes && work->axis_sizes != shapes_largest(shapes)))
        return STATUS_OK;
    if (shapes)
        status = measure_mix(work, &at, &how, err);
    else if (o->lengths)
        status = err_set(err, STATUS_INVALID_ARGUMENT, "lengths: nothing but the batch of %.80s varies",
                         work->model->name);
    if (status == STATUS_OK && o->stages)
        status = profile_stages(&how, &work->model->modes, &work->found, err);
    if (status == STATUS_OK && o->exit_points)
        status = profile_exit_points(&how, &work->model->modes, &work->found, err);
    return status;
}

static status_t measure(latency_t *work, err_t *err)
{
    const profile_session_t *session = work->session;
    const profile_options_t *o = session->options;
    int64_t goal_ns = llround(o->seconds * 1e9);
    profiler_t profiler = {.ops = session->devices.ops,
                           .engine = session->devices.list[0].engine,
                           .model = work->model->on_device[0],
                           .budget_ns = INT64_MAX,
                           .stop = &profile_never_stop,
                           .sizes = session->size_count ? session->sizes : NULL,
                           .size_count = session->size_count,
                           .size_goal_ns = goal_ns,
                           .axes = work->axis_sizes ? &work->model->shapes->axes : NULL,
                           .axis_sizes = work->axis_sizes};
    status_t status = profiler_run(&profiler, work->samples, &work->count, err);

    if (status == STATUS_OK)
        status = profiler_fit(work->samples, work->count, work->model->info->max_batch, &work->model->profile,
                              err);
    if (status == STATUS_OK)
        status = measure_modes(work, &profiler, err);
    if (status == STATUS_OK && o->check) {
        profiler.size_goal_ns = CHECK_TIMES * goal_ns;
        status = profiler_check(&profiler, &work->model->profile, (uint64_t)o->seed, &work->check, err);
    }
    return status;
}

static status_t report(latency_t *work, err_t *err)
{
    const profile_session_t *session = work->session;
    const profile_options_t *o = session->options;
    char shape[SHAPES_TEXT_BYTES] = "";
    if (work->axis_sizes)
        shapes_text(&work->model->shapes->axes, work->axis_sizes, shape);
    profile_report_t what = {.model = work->model->name,
                             .shape = shape,
                             .engine = work->model->engine,
                             .device = session->devices.identity,
                             .hash = work->hash,
                             .samples = work->samples,
                             .count = work->count,
                             .profile = &work->model->profile,
                             .check = o->check ? &work->check : NULL,
                             .written = session->path[0] ? session->path : NULL};
    status_t status = STATUS_OK;

    if (session->devices.ops->choice)
        snprintf(work->model->modes.engine, sizeof(work->model->modes.engine), "%s", work->model->engine);
    work->model->modes.loading_bytes = work->model->loading_bytes;
    if (what.written)
        status = kept_profile_write(&session->devices, session->path, work->hash, &work->model->profile,
                                    &work->model->modes, err);
    if (status == STATUS_OK && o->plot)
        status = profile_report_svg(&what, o->plot, err);
    if (status != STATUS_OK)
        return status;
    json_t *document = o->json ? profile_report_json(&what) : NULL;
    if (document && (o->stages || o->exit_points))
        json_object_set_new(document, "modes", profile_found_json(&work->found));
    if (document) {
        profile_report_print(document);
        return STATUS_OK;
    }
    if (o->csv) {
        profile_report_csv(&what, work->model->config.slo_ns, stdout);
        return STATUS_OK;
    }
    profile_report_table(&what, stdout);
    if (work->mix.count)
        printf("\nfor the execution modes: operators measured at %s, rows of %u shapes came\n",
               shapes_text(work->mix.axes, profile_mix_largest(&work->mix), shape), work->mix.count);
    profile_found_table(&work->found, stdout);
    return STATUS_OK;
}

static status_t measure_one(latency_t *work, err_t *err)
{
    status_t status = measure(work, err);

    return status == STATUS_OK ? report(work, err) : status;
}

/* A model whose dimensions vary is measured at each of its references, where a worker would. */
static status_t measure_shapes(latency_t *work, err_t *err)
{
    const model_shapes_t *shapes = work->model->shapes;
    status_t status = STATUS_OK;

    if (!shapes)
        return measure_one(work, err);
    if (shapes->reference_count > 1 && (work->session->options->out || work->session->options->plot))
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "%.80s is measured at %u shapes, which --out and --plot take only one of",
                       work->model->name, shapes->reference_count);
    for (uint32_t r = 0; status == STATUS_OK && r < shapes->reference_count; r++) {
        work->axis_sizes = shapes->references[r];
        status = choose_outputs(work, err);
        if (status == STATUS_OK)
            status = measure_one(work, err);
    }
    return status;
}

static status_t profile_model(latency_t *work, const char *path, err_t *err)
{
    uint32_t streams = work->session->options->stages ? (uint32_t)work->session->options->streams : 1;
    status_t status = repository_open_model(path, &work->model, err);

    if (status == STATUS_OK)
        status = profile_open_device(work->session, streams, err);
    if (status == STATUS_OK)
        status = choose_outputs(work, err);
    if (status == STATUS_OK)
        status = profile_load(work->session, work->model, work->hash, err);
    if (status == STATUS_OK)
        status = measure_shapes(work, err);
    if (work->model)
        model_destroy(work->model, &work->session->devices);
    return status;
}

status_t profile_latency(profile_session_t *session, const char *path, err_t *err)
{
    latency_t *work = calloc(1, sizeof(*work));

    if (!work)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    work->session = session;
    status_t status = profile_model(work, path, err);
    free(work);
    return status;
}
