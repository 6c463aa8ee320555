/* How long batches of a loaded model take: kept beside it, known of a copy of it, or measured. */
#include "base/clock.h"
#include "base/log.h"
#include "model/measure/kept_profile.h"
#include "model/measure/profiler.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What the line is off by between two sizes is a part of what they take, and that of the SLO. */
enum { SMALL_PART = 100 };

/* Of a model, at some sizes of its axes. */
typedef struct {
    const model_t *model;
    const model_load_options_t *options;
    const uint32_t *sizes; /* NULL: it has no axes */
    const profile_t *old;  /* to be improved; NULL: there is none */
    char path[KEPT_PROFILE_PATH_BYTES], hash[PROFILE_CACHE_TEXT_BYTES], text[SHAPES_TEXT_BYTES];
    profile_memo_key_t key;
    profile_modes_t modes;
} wanted_t;

profiler_t model_profiler(const model_t *model, const model_load_options_t *options, const uint32_t *sizes)
{
    const model_devices_t *devices = options->devices;

    return (profiler_t){.ops = devices->ops,
                        .engine = devices->list[0].engine,
                        .model = model->on_device[0],
                        .budget_ns = options->profile_budget_ns,
                        .small_ns = model_least_slo_ns(model) / SMALL_PART,
                        .stop = options->stop,
                        .busy = &devices->list[0].batches,
                        .step_most_ns = options->step_most_ns,
                        .granted_ns = &devices->list[0].granted_ns,
                        .coarse = options->coarse,
                        .on_host = strcmp(devices->kind, "cuda") != 0,
                        .axes = sizes ? &model->shapes->axes : NULL,
                        .axis_sizes = sizes};
}

const uint32_t *model_largest(const model_t *model)
{
    return model->shapes && model->shapes->reference_count ? shapes_largest(model->shapes) : NULL;
}

profiler_t model_profiler_of_largest(const model_t *model, const model_load_options_t *options)
{
    return model_profiler(model, options, model_largest(model));
}

static void log_not_used(const wanted_t *wanted, const err_t *why)
{
    log_warn("profile_not_used", LOG_STR("model", wanted->model->name), LOG_ERR(why));
}

/* Or there was nothing to choose. */
static bool is_of_engine(const wanted_t *wanted, const profile_modes_t *modes)
{
    return !wanted->options->devices->ops->choice || strcmp(modes->engine, wanted->model->engine) == 0;
}

/* Why a kept profile is not used is worth a line only when there is one. What it has for the modes holds even where its
 * latencies do not tell what a batch costs. */
static bool take_kept_profile(wanted_t *wanted, profile_t *profile)
{
    profile_modes_t modes;
    err_t why;
    status_t status = kept_profile_read(wanted->options->devices, wanted->path, wanted->hash,
                                        wanted->model->info->max_batch, profile, &modes, &why);

    if (status != STATUS_OK && access(wanted->path, F_OK) != 0)
        return false;
    if (status == STATUS_OK && !is_of_engine(wanted, &modes))
        status =
            err_set(&why, STATUS_NOT_FOUND, "%.200s was measured on engine %s", wanted->path, modes.engine);
    if (status == STATUS_OK)
        wanted->modes = modes;
    if (status == STATUS_OK && !profile_is_whole(profile))
        status = err_set(&why, STATUS_NOT_FOUND, "%.200s is of one batch size only", wanted->path);
    if (status != STATUS_OK) {
        log_not_used(wanted, &why);
        return false;
    }
    log_info("profile_used", LOG_STR("model", wanted->model->name), LOG_STR("file", wanted->path),
             LOG_MS("b1_ms", profile_latency_ns(profile, 1)),
             LOG_MS("max_ms", profile_latency_ns(profile, profile->max_batch)));
    return true;
}

/* Of a copy's profile, which may be the very one that is to be improved. */
static bool is_better(const profile_t *profile, const profile_t *old)
{
    return !profile_is_whole(old) || profile_doubt(profile) < profile_doubt(old) ||
           (profile->points > old->points && profile_doubt(profile) <= PROFILE_DOUBT_MOST);
}

/* With what was found for the modes of its own, if there is any. */
static bool take_shared_profile(wanted_t *wanted, profile_t *profile)
{
    const profile_modes_t own = wanted->modes;
    profile_modes_t modes;
    profile_t known;

    if (!profile_memo_find(wanted->options->memo, &wanted->key, clock_now_ns(), &known, &modes) ||
        !is_of_engine(wanted, &modes) || (wanted->old && !is_better(&known, wanted->old)))
        return false;
    *profile = known;
    wanted->modes = own.stage_count || own.exit_count ? own : modes;
    log_info("profile_shared", LOG_STR("model", wanted->model->name), LOG_STR("sizes", wanted->text),
             LOG_MS("b1_ms", profile_latency_ns(profile, 1)),
             LOG_MS("max_ms", profile_latency_ns(profile, profile->max_batch)));
    return true;
}

/* One that others left no time for is measured again when they are quiet, or by the next load. */
static void keep(const wanted_t *wanted, const profile_t *profile)
{
    const model_load_options_t *options = wanted->options;
    err_t why;

    if (!profile_is_whole(profile))
        err_set(&why, STATUS_UNAVAILABLE, "others left time for one batch size only");
    else if (!options->use_cache || kept_profile_write(options->devices, wanted->path, wanted->hash, profile,
                                                       &wanted->modes, &why) == STATUS_OK)
        return;
    log_info("profile_not_cached", LOG_STR("model", wanted->model->name), LOG_ERR(&why));
}

/* More sizes are worth a little more doubt. */
#define DOUBT_FOR_SIZES 1.25

/* What one that is to be improved had for sizes that were not run this time is worth keeping. */
static status_t improve(const wanted_t *wanted, profile_t *profile, err_t *err)
{
    const profile_t *old = wanted->old;
    double doubt = profile_doubt(profile);

    if (!old || !profile_is_whole(old))
        return STATUS_OK;
    double most = profile_doubt(old) * (profile->points > old->points ? DOUBT_FOR_SIZES : 1);
    if (doubt > PROFILE_DOUBT_MOST && doubt > most)
        return err_set(err, STATUS_UNAVAILABLE, "it would be planned with %.2f times what it needs, not %.2f",
                       doubt, profile_doubt(old));
    profile_continue(profile, old);
    return STATUS_OK;
}

static status_t measure(wanted_t *wanted, profile_t *profile, err_t *err)
{
    const model_t *model = wanted->model;
    profiler_t profiler = model_profiler(model, wanted->options, wanted->sizes);
    int64_t begin = clock_now_ns();

    if (wanted->old && profile_is_whole(wanted->old))
        profiler.granted_ns = NULL; /* the next request may come while one runs */
    status_t status = profiler_measure(&profiler, profile, err);

    if (status != STATUS_OK)
        return status;
    log_info("model_profiled", LOG_STR("model", model->name), LOG_STR("sizes", wanted->text),
             LOG_U64("measured", profile->points), LOG_U64("up_to", profile->table_len),
             LOG_MS("b1_ms", profile_latency_ns(profile, 1)),
             LOG_MS("max_ms", profile_latency_ns(profile, model->info->max_batch)),
             LOG_F64("spread", profile->spread), LOG_F64("noise", profile->noise),
             LOG_MS("took_ms", clock_now_ns() - begin));
    status = improve(wanted, profile, err);
    if (status == STATUS_OK)
        keep(wanted, profile);
    return status;
}

/* With nothing found for the modes yet. The hash is that of the load. */
static void want(wanted_t *wanted, const model_t *model, const model_load_options_t *options,
                 const uint32_t *sizes)
{
    *wanted = (wanted_t){.model = model, .options = options, .sizes = sizes};
    memcpy(wanted->hash, model->hash, sizeof(wanted->hash));
    wanted->modes.loading_bytes = model->loading_bytes;
    if (options->devices->ops->choice && model->engine)
        snprintf(wanted->modes.engine, sizeof(wanted->modes.engine), "%s", model->engine);
    if (sizes)
        shapes_text(&model->shapes->axes, sizes, wanted->text);
    kept_profile_path(model, options->devices, sizes, wanted->path);
    wanted->key = (profile_memo_key_t){
        .hash = wanted->hash, .sizes = wanted->text, .max_batch = model->info->max_batch};
}

bool model_known_engine(const model_t *model, const model_load_options_t *options,
                        char word[PROFILE_CACHE_ENGINE_BYTES])
{
    profile_modes_t modes;
    profile_t profile;
    wanted_t wanted;

    want(&wanted, model, options, model_largest(model));
    if (!profile_memo_find(options->memo, &wanted.key, clock_now_ns(), &profile, &modes))
        return false;
    memcpy(word, modes.engine, sizeof(modes.engine));
    return word[0] != '\0';
}

static void share(const wanted_t *wanted, const profile_t *profile)
{
    if (profile_is_whole(profile))
        profile_memo_add(wanted->options->memo, &wanted->key, clock_now_ns(), profile, &wanted->modes);
}

static status_t measure_at(model_t *model, const model_load_options_t *options, const uint32_t *sizes,
                           profile_t *profile, err_t *err)
{
    wanted_t wanted;
    bool kept = false, known;
    status_t status = STATUS_OK;

    want(&wanted, model, options, sizes);
    if (options->use_cache)
        kept = take_kept_profile(&wanted, profile);
    known = kept || take_shared_profile(&wanted, profile);
    if (!known)
        status = measure(&wanted, profile, err);
    if (status != STATUS_OK)
        return status;
    if (kept && model->loading_bytes && !wanted.modes.loading_bytes) { /* it is older than trials are */
        wanted.modes.loading_bytes = model->loading_bytes;
        keep(&wanted, profile);
    }
    if (kept || !known)
        share(&wanted, profile);
    model->modes = wanted.modes;
    return STATUS_OK;
}

/* What is on disk by now may be another model, whose profile this would become. */
status_t model_measure_again(const model_t *model, const model_load_options_t *options, uint32_t which,
                             profile_t *profile, err_t *err)
{
    const uint32_t *sizes = model->shapes ? model->shapes->references[which] : NULL;
    char now[PROFILE_CACHE_TEXT_BYTES];
    wanted_t wanted;
    status_t status = model_hash(model, now, err);

    if (status != STATUS_OK)
        return status;
    if (strcmp(now, model->hash) != 0)
        return err_set(err, STATUS_UNAVAILABLE, "its files have changed");
    want(&wanted, model, options, sizes);
    wanted.modes = model->modes;
    wanted.old = options->afresh ? NULL : model_measured(model, which);
    if (!options->afresh && take_shared_profile(&wanted, profile))
        return STATUS_OK;
    status = measure(&wanted, profile, err);
    if (status == STATUS_OK)
        share(&wanted, profile);
    return status;
}

status_t model_measure(model_t *model, const model_load_options_t *options, err_t *err)
{
    model_shapes_t *shapes = model->shapes;
    profile_t profile;

    if (!shapes)
        return measure_at(model, options, NULL, &model->profile, err);
    for (uint32_t r = 0; r < shapes->reference_count; r++) {
        const uint32_t *sizes = shapes->references[r];
        status_t status = measure_at(model, options, sizes, &profile, err);
        if (status == STATUS_OK)
            status = family_add(&shapes->family, axes_elements(&shapes->axes, sizes), &profile, err);
        if (status != STATUS_OK)
            return status;
    }
    model->profile =
        shapes->family.members[shapes->family.count - 1].profile; /* the slowest stands for all */
    return STATUS_OK;
}
