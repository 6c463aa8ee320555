/* Versions as they are on disk now: loaded, or beside the one that serves, or not needed. */
#include "worker/models/lifecycle_private.h"

#include "base/log.h"

#include <stdatomic.h>

void load_log(const model_t *model, int64_t took_ns)
{
    const mode_choice_t *choice = &model->choice;

    if (model->load_status == STATUS_OK)
        log_info("model_loaded", LOG_STR("model", model->name), LOG_I64("version", model->version),
                 LOG_U64("max_batch", model->info->max_batch), LOG_MS("slo_ms", model->slo_ns),
                 LOG_STR("mode", model_mode_names[choice->mode]),
                 LOG_U64("stages", choice->stages ? choice->stages->count : 0),
                 LOG_STR("schedule", choice->stages ? model_stages_schedule(choice->stages) : ""),
                 LOG_U64("exit_points", choice->exit_points), LOG_STR("mode_reason", choice->why),
                 LOG_STR("alone", model->info->alone), LOG_MS("took_ms", took_ns));
    else if (model->load_status != STATUS_CANCELLED)
        log_error("model_failed", LOG_STR("model", model->name), LOG_I64("version", model->version),
                  LOG_STR("status", status_name(model->load_status)), LOG_ERR(&model->load_err));
}

static void retire(lifecycle_t *l, model_t *model)
{
    model->serving->superseded = true;
    served_retire(l->options.served, model);
}

/* The one that serves is replaced between two batches: its own go on to their end. */
static void succeed(lifecycle_t *l, model_t *model)
{
    model_t *old = model->serving->predecessor;

    unload_put_in_place(l, old, model);
    retire(l, old);
    lifecycle_tell(l, model, old);
    measure_later(l, model);
    unload_when_idle(l, old);
}

/* Its load was called off: what has been loaded of it leaves the devices again. */
static void on_abandoned(lifecycle_t *l, model_t *model)
{
    if (model->serving->predecessor) {
        model->serving->predecessor->serving->successor = NULL;
        retire(l, model);
    }
    model->serving->state = MODEL_UNLOADING;
    model->serving->released = true;
    unload_when_idle(l, model);
}

static void on_successor_loaded(lifecycle_t *l, model_t *model)
{
    if (model->load_status == STATUS_OK) {
        succeed(l, model);
        command_settle_model(l, model, STATUS_OK, "");
        return;
    }
    model->serving->predecessor->serving->successor = NULL; /* which goes on serving */
    command_settle_model(l, model, model->load_status, model->load_err.text);
    serving_destroy(model, l->options.load.devices);
}

void load_done(void *ctx, model_t *model, int64_t took_ns)
{
    lifecycle_t *l = ctx;

    load_log(model, took_ns);
    if (atomic_load(&model->stop)) {
        on_abandoned(l, model);
        return;
    }
    model->serving->state = model->load_status == STATUS_OK ? MODEL_READY : MODEL_FAILED;
    if (model->serving->predecessor) {
        on_successor_loaded(l, model);
        return;
    }
    lifecycle_tell(l, model, NULL);
    measure_later(l, model);
    command_settle_model(l, model, model->load_status, model->load_err.text);
}

static void log_notes(const model_t *model)
{
    const triton_config_t *config = model->config.triton;

    for (uint32_t i = 0; config && i < config->note_count; i++)
        log_warn("config_key_not_taken_up", LOG_STR("model", model->name),
                 LOG_STR("key", config->notes[i].key), LOG_STR("file", "config.pbtxt"),
                 LOG_I64("line", config->notes[i].line), LOG_STR("why", config->notes[i].why));
    if (config && config->notes_left_out > 0)
        log_warn("config_keys_not_taken_up", LOG_STR("model", model->name), LOG_STR("file", "config.pbtxt"),
                 LOG_U64("more", config->notes_left_out));
}

void load_start(lifecycle_t *l, model_t *model)
{
    model->serving->state = MODEL_LOADING;
    log_notes(model);
    if (loader_load(l->loader, model) == STATUS_OK)
        return;
    model->load_status =
        err_set(&model->load_err, STATUS_UNAVAILABLE, "too many models are waiting to be loaded");
    load_done(l, model, 0);
}

/* The same files as those of a load under way: one load for both. */
static void join_load(lifecycle_t *l, command_t *command, model_t *loading, const model_t *fresh)
{
    if (loading->fingerprint == fresh->fingerprint && !atomic_load(&loading->stop))
        command_wait(l, command, loading);
    else
        command_fail(command, STATUS_UNAVAILABLE,
                     "another load or unload of this version is under way; try again");
}

/* From now on it is the worker's. False: no memory; the command has failed. */
static bool begin_serving(const lifecycle_t *l, command_t *command, model_t *fresh)
{
    if (serving_begin(fresh, &command->err) != STATUS_OK) {
        command->status = command->err.code;
        return false;
    }
    serving_name_metrics(fresh, l->options.metrics);
    return true;
}

static model_t *load_beside(lifecycle_t *l, command_t *command, model_t *old, model_t *fresh)
{
    if (old->serving->successor) {
        join_load(l, command, old->serving->successor, fresh);
        return fresh;
    }
    if (!begin_serving(l, command, fresh))
        return fresh;
    old->serving->successor = fresh;
    fresh->serving->predecessor = old;
    command_wait(l, command, fresh);
    load_start(l, fresh);
    return NULL;
}

static model_t *load_instead(lifecycle_t *l, command_t *command, model_t *old, model_t *fresh)
{
    if (!begin_serving(l, command, fresh))
        return fresh;
    served_replace(l->options.served, old, fresh);
    command_wait(l, command, fresh);
    lifecycle_tell(l, fresh, old);
    serving_destroy(old, l->options.load.devices);
    load_start(l, fresh);
    return NULL;
}

/* Unloading has begun and can still be called off. */
static void keep_after_all(lifecycle_t *l, model_t *model)
{
    model->serving->state = MODEL_READY;
    model->serving->vanishes = false;
    lifecycle_tell(l, model, NULL);
    command_settle_model(l, model, STATUS_CANCELLED, "it was loaded again");
}

static model_t *load_new(lifecycle_t *l, command_t *command, model_t *fresh)
{
    if (served_add(l->options.served, fresh, &command->err) != STATUS_OK) {
        command->status = command->err.code;
        return fresh;
    }
    serving_name_metrics(fresh, l->options.metrics);
    command_wait(l, command, fresh);
    lifecycle_tell(l, fresh, NULL);
    load_start(l, fresh);
    return NULL;
}

/* A version as it is on disk now. Returns it when it is not needed. */
static model_t *adopt(lifecycle_t *l, command_t *command, model_t *fresh)
{
    model_t *model = served_find_version(l->options.served, fresh->name, fresh->version);

    if (!model)
        return load_new(l, command, fresh);
    bool same = model->fingerprint == fresh->fingerprint;
    switch (model->serving->state) {
    case MODEL_LOADING:
        join_load(l, command, model, fresh);
        return fresh;
    case MODEL_READY:
        return same && !model->serving->successor ? fresh : load_beside(l, command, model, fresh);
    case MODEL_UNLOADING:
        if (!same || model->serving->released)
            return load_beside(l, command, model, fresh);
        keep_after_all(l, model);
        return fresh;
    case MODEL_FAILED:
    case MODEL_UNLOADED:
        break;
    }
    return load_instead(l, command, model, fresh);
}

/* One that had no version to show stands in the list as version 0: it is none any more. */
static void drop_stand_in(lifecycle_t *l, const char *name)
{
    model_t *model = served_find_version(l->options.served, name, 0);

    if (model)
        lifecycle_forget(l, model);
}

void load_reading(lifecycle_t *l, command_t *command, repository_reading_t *reading)
{
    drop_stand_in(l, reading->name);
    command->waiting++; /* until all versions have been looked at */
    for (uint32_t i = 0; i < reading->count; i++) {
        command->keep[command->keep_count++] = reading->versions[i]->version;
        reading->versions[i] = adopt(l, command, reading->versions[i]);
    }
    command->waiting--;
    command_settle(l, command);
}

void load_on_read(void *ctx, repository_reading_t *reading, uint64_t user)
{
    lifecycle_t *l = ctx;
    command_t *command = &l->commands[user];

    if (reading->status == STATUS_OK) {
        load_reading(l, command, reading);
        return;
    }
    command_fail(command, reading->status, "%.400s", reading->err.text);
    command_settle(l, command);
}
