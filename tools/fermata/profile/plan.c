/* Several models that are to run side by side: the overlap plan, with the duration model that is trained on them. */
#include "fermata/profile/overlap.h"
#include "fermata/profile/report.h"
#include "fermata/profile/session.h"
#include "model/repository.h"

#include <libgen.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    profile_session_t *session;
    model_t *models[OVERLAP_MODELS_MAX]; /* by name */
    uint32_t count;
    profile_mix_t *mixes; /* of each model */
} plan_work_t;

/* By name, so that the order in which they are said does not matter. */
static status_t open_models(plan_work_t *work, const char *const *paths, uint32_t count, err_t *err)
{
    for (uint32_t i = 0; i < count; i++) {
        model_t *model;
        status_t status = repository_open_model(paths[i], &model, err);
        if (status != STATUS_OK)
            return status;
        uint32_t at = work->count++;
        for (; at > 0 && strcmp(work->models[at - 1]->name, model->name) > 0; at--)
            work->models[at] = work->models[at - 1];
        work->models[at] = model;
    }
    for (uint32_t i = 1; i < count; i++)
        if (strcmp(work->models[i]->name, work->models[i - 1]->name) == 0)
            return err_set(err, STATUS_INVALID_ARGUMENT, "two models are named %.80s", work->models[i]->name);
    return STATUS_OK;
}

/* Beside the folders of the models. */
static status_t choose_plan(plan_work_t *work, err_t *err)
{
    profile_session_t *session = work->session;
    const profile_options_t *o = session->options;
    char dir[PATH_MAX];
    int len = 0;

    if (o->out) {
        len = snprintf(session->path, sizeof(session->path), "%s", o->out);
    } else if (o->keep && !work->models[0]->file[0]) {
        memcpy(dir, work->models[0]->dir, sizeof(dir));
        if (!overlap_plan_path(dirname(dir), profile_engine_name(o), session->path, sizeof(session->path)))
            len = (int)sizeof(session->path);
    }
    if (len >= (int)sizeof(session->path))
        return err_set(err, STATUS_INVALID_ARGUMENT, "path too long");
    return session->path[0] ? profile_check_folder(session->path, err) : STATUS_OK;
}

/* --lengths is of the models of which one dimension varies; rows of others come in the shapes of their references. */
static status_t choose_mixes(plan_work_t *work, err_t *err)
{
    const char *lengths = work->session->options->lengths;
    uint32_t taken = 0;

    for (uint32_t i = 0; i < work->count; i++) {
        const model_shapes_t *shapes = work->models[i]->shapes;
        bool takes = shapes && lengths && shapes->axes.count == 1;
        if (takes && profile_mix_parse(lengths, shapes, &work->mixes[i], err) != STATUS_OK)
            return err_prefix(err, "%.80s", work->models[i]->name);
        if (shapes && !takes)
            profile_mix_references(shapes, &work->mixes[i]);
        taken += takes;
    }
    return !lengths || taken ? STATUS_OK
                             : err_set(err, STATUS_INVALID_ARGUMENT,
                                       "lengths: of none of these models one dimension varies");
}

/* When it is known which shapes were measured. */
static void note_lengths(const plan_work_t *work, overlap_plan_t *plan)
{
    for (uint32_t i = 0; i < work->count; i++) {
        const profile_mix_t *mix = &work->mixes[i];
        plan->models[i].length_min = mix->count ? axes_length(mix->axes, mix->shapes[0].sizes) : 1;
        plan->models[i].length_max = mix->count ? axes_length(mix->axes, profile_mix_largest(mix)) : 1;
        plan->models[i].size_count = mix->count ? mix->axes->count : 0;
        if (mix->count)
            memcpy(plan->models[i].sizes, profile_mix_largest(mix), sizeof(plan->models[i].sizes));
    }
}

static status_t load_models(plan_work_t *work, overlap_plan_t *plan, err_t *err)
{
    profile_session_t *session = work->session;
    snprintf(plan->device, sizeof(plan->device), "%s", session->devices.identity);
    for (uint32_t i = 0; i < work->count; i++) {
        model_t *model = work->models[i];
        if (session->size_count)
            model->config.max_batch = session->sizes[session->size_count - 1];
        status_t status = profile_load(session, model, plan->models[i].hash, err);
        if (status != STATUS_OK)
            return status;
        snprintf(plan->models[i].name, sizeof(plan->models[i].name), "%s", model->name);
        plan->models[i].version = model->version ? model->version : 1;
    }
    return choose_mixes(work, err);
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

static void report_overlap(const plan_work_t *work, const profile_overlap_how_t *how,
                           const profile_overlap_t *found)
{
    const profile_session_t *session = work->session;
    char text[SHAPES_TEXT_BYTES];

    if (session->options->json) {
        json_t *document = profile_overlap_json(how, found), *sizes = json_object();
        for (uint32_t i = 0; i < how->count; i++)
            json_object_set_new(sizes, how->models[i]->name, sizes_json(&work->mixes[i]));
        json_object_set_new(document, "sizes", sizes);
        profile_report_print(document);
        return;
    }
    profile_overlap_table(how, found, stdout);
    for (uint32_t i = 0; i < how->count; i++)
        if (work->mixes[i].count)
            printf("%s: rows of %u shapes came, up to %s; larger ones run whole\n", how->models[i]->name,
                   work->mixes[i].count,
                   shapes_text(work->mixes[i].axes, profile_mix_largest(&work->mixes[i]), text));
    if (session->path[0])
        printf("written: %s%s\n", session->path,
               session->options->out ? " (for --overlap-plan of fermata up or the worker)" : "");
}

static status_t train_plan(plan_work_t *work, overlap_plan_t *plan, err_t *err)
{
    profile_session_t *session = work->session;
    const profile_options_t *o = session->options;
    profile_mix_t *mixes[OVERLAP_MODELS_MAX];
    profile_overlap_how_t how = {.models = work->models,
                                 .count = work->count,
                                 .mixes = mixes,
                                 .devices = &session->devices,
                                 .samples = (uint32_t)o->groups,
                                 .seed = (uint64_t)o->seed,
                                 .stop = &profile_never_stop};
    profile_overlap_t found;

    for (uint32_t i = 0; i < how.count; i++)
        mixes[i] = work->models[i]->shapes ? &work->mixes[i] : NULL;
    status_t status = profile_overlap(&how, &plan->predictor, &found, err);
    note_lengths(work, plan);
    if (status == STATUS_OK && session->path[0])
        status = overlap_plan_write(session->path, plan, err);
    if (status == STATUS_OK)
        report_overlap(work, &how, &found);
    return status;
}

static status_t make_plan(plan_work_t *work, const char *const *paths, uint32_t count, overlap_plan_t *plan,
                          err_t *err)
{
    status_t status = open_models(work, paths, count, err);

    if (status == STATUS_OK)
        status = choose_plan(work, err);
    if (status == STATUS_OK)
        status = profile_open_device(work->session, count, err);
    if (status == STATUS_OK)
        status = load_models(work, plan, err);
    if (status == STATUS_OK)
        status = train_plan(work, plan, err);
    for (uint32_t i = 0; i < work->count; i++)
        model_destroy(work->models[i], &work->session->devices);
    return status;
}

status_t profile_plan(profile_session_t *session, const char *const *paths, uint32_t count, err_t *err)
{
    overlap_plan_t *plan = calloc(1, sizeof(*plan));
    plan_work_t work = {.session = session, .mixes = calloc(count, sizeof(*work.mixes))};
    status_t status = plan && work.mixes ? make_plan(&work, paths, count, plan, err)
                                         : err_set(err, STATUS_NO_MEMORY, "out of memory");

    free(work.mixes);
    free(plan);
    return status;
}
