/*
 * Commands under way (who waits for which model, and what they hear), and what unloads a model: the end of the one may begin
 * the other. A model leaves its devices when the scheduler has nothing left for it and its last batch has ended.
 */
#include "worker/models/lifecycle_private.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* ---- commands ---- */

command_t *command_take(lifecycle_t *l, const char *name)
{
    for (uint32_t i = 0; i < COMMANDS_MAX; i++) {
        command_t *command = &l->commands[i];
        if (command->used)
            continue;
        *command = (command_t){.used = true};
        snprintf(command->name, sizeof(command->name), "%s", name);
        return command;
    }
    return NULL;
}

void command_wait(lifecycle_t *l, command_t *command, model_t *model)
{
    uint64_t bit = UINT64_C(1) << (command - l->commands);

    command->waiting += !(model->serving->waiting & bit);
    model->serving->waiting |= bit;
}

static bool is_kept(const command_t *command, int64_t version)
{
    for (uint32_t i = 0; i < command->keep_count; i++) {
        if (command->keep[i] == version)
            return true;
    }
    return false;
}

/* All that was to be loaded serves: what it takes the place of may go. */
static void unload_others(lifecycle_t *l, const command_t *command)
{
    const served_t *served = l->options.served;

    for (uint32_t i = 0; i < served->count; i++) {
        model_t *model = served->models[i];
        if (model->serving->state == MODEL_READY && strcmp(model->name, command->name) == 0 &&
            !is_kept(command, model->version))
            unload_begin(l, model);
    }
}

void command_settle(lifecycle_t *l, command_t *command)
{
    if (command->waiting > 0)
        return;
    if (command->supersedes && command->status == STATUS_OK)
        unload_others(l, command);
    command->used = false;
    if (command->told)
        l->options.ops->answer(l->options.ctx, command->id, command->status,
                               command->status == STATUS_OK ? "" : command->err.text);
}

/* The model has come to rest: those who waited for it hear how. */
void command_settle_model(lifecycle_t *l, model_t *model, status_t status, const char *text)
{
    uint64_t waiting = model->serving->waiting;

    model->serving->waiting = 0;
    for (uint32_t i = 0; i < COMMANDS_MAX; i++) {
        command_t *command = &l->commands[i];
        if (!(waiting >> i & 1) || !command->used)
            continue;
        if (status != STATUS_OK)
            command_fail(command, status, "%.400s", text);
        command->waiting--;
        command_settle(l, command);
    }
}

/* A quarter of the shortest SLO: a batch that has to wait so long is still in time. */
void lifecycle_limit_measuring(lifecycle_t *l)
{
    enum { SLO_SHARE = 4 };
    const served_t *served = l->options.served;
    int64_t most_ns = INT64_MAX;

    for (uint32_t i = 0; i < served->count; i++) {
        const model_t *model = served->models[i];
        if (model->serving->state == MODEL_READY && model->slo_ns / SLO_SHARE < most_ns)
            most_ns = model->slo_ns / SLO_SHARE;
    }
    atomic_store(&l->step_most_ns, most_ns);
}

void lifecycle_tell(lifecycle_t *l, const model_t *model, const model_t *old)
{
    lifecycle_limit_measuring(l);
    l->options.ops->changed(l->options.ctx, model, old);
}

void lifecycle_forget(lifecycle_t *l, model_t *model)
{
    served_remove(l->options.served, model);
    l->options.ops->gone(l->options.ctx, model);
    command_settle_model(l, model, STATUS_OK, "");
    serving_destroy(model, l->options.load.devices);
}

/* ---- off the devices ---- */

/* How long an UNLOADING model waits for the scheduler's word. It comes when other workers have loaded what
 * takes its place, so that is minutes. */
static const int64_t RELEASE_PATIENCE_NS = 600 * NS_PER_S;

void unload_put_in_place(lifecycle_t *l, model_t *old, model_t *model)
{
    served_replace(l->options.served, old, model);
    model->serving->predecessor = NULL;
    old->serving->successor = NULL;
}

void unload_done(void *ctx, model_t *model)
{
    lifecycle_t *l = ctx;
    model_t *successor = model->serving->successor;

    log_info("model_unloaded", LOG_STR("model", model->name), LOG_I64("version", model->version));
    if (model->serving->superseded) {
        served_unretire(l->options.served, model);
        command_settle_model(l, model, STATUS_OK, "");
        serving_destroy(model, l->options.load.devices);
        return;
    }
    model->serving->state = MODEL_UNLOADED;
    model->serving->released = model->serving->leaving = false;
    if (successor) { /* it was asked for again meanwhile, and is still loading */
        unload_put_in_place(l, model, successor);
        lifecycle_tell(l, successor, model);
        command_settle_model(l, model, STATUS_OK, "");
        serving_destroy(model, l->options.load.devices);
        return;
    }
    if (model->serving->vanishes) {
        lifecycle_forget(l, model);
        return;
    }
    lifecycle_tell(l, model, NULL);
    command_settle_model(l, model, STATUS_OK, "");
}

/* Nothing can come any more: off the devices. */
void unload_when_idle(lifecycle_t *l, model_t *model)
{
    if (model->serving->under_way > 0 || model->serving->measuring || model->serving->leaving ||
        !(model->serving->released || model->serving->superseded))
        return;
    model->serving->leaving = true;
    if (l->options.ops->leaves)
        l->options.ops->leaves(l->options.ctx, model);
    if (loader_unload(l->loader, model) == STATUS_OK)
        return;
    model_unload(model, l->options.load.devices); /* rather here than not at all */
    unload_done(l, model);
}

void lifecycle_idle(lifecycle_t *l, model_t *model)
{
    unload_when_idle(l, model);
}

/* No grant comes any more. */
static void unload_release(lifecycle_t *l, model_t *model)
{
    if (model->serving->state != MODEL_UNLOADING || model->serving->released)
        return;
    model->serving->released = true;
    unload_when_idle(l, model);
}

void lifecycle_release(lifecycle_t *l, const char *name, int64_t version)
{
    model_t *model = served_find_version(l->options.served, name, version);

    if (model)
        unload_release(l, model);
}

void unload_begin(lifecycle_t *l, model_t *model)
{
    log_info("model_unloading", LOG_STR("model", model->name), LOG_I64("version", model->version),
             LOG_U64("batches", model->serving->under_way));
    model->serving->state = MODEL_UNLOADING;
    model->serving->released = model->serving->leaving = false;
    model->serving->release_at_ns = clock_now_ns() + RELEASE_PATIENCE_NS;
    if (!loop_timer_active(&l->patience))
        loop_timer_start(&l->patience, model->serving->release_at_ns);
    lifecycle_tell(l, model, NULL);
    if (!l->online)
        unload_release(l, model);
}

void unload_on_patience(loop_timer_t *timer, void *arg)
{
    lifecycle_t *l = arg;
    const served_t *served = l->options.served;
    int64_t now_ns = clock_now_ns(), next_ns = INT64_MAX;

    for (uint32_t i = 0; i < served->count; i++) {
        model_t *model = served->models[i];
        if (model->serving->state != MODEL_UNLOADING || model->serving->released)
            continue;
        if (model->serving->release_at_ns <= now_ns) {
            log_warn("model_not_released", LOG_STR("model", model->name), LOG_I64("version", model->version));
            unload_release(l, model);
        } else if (model->serving->release_at_ns < next_ns) {
            next_ns = model->serving->release_at_ns;
        }
    }
    if (next_ns != INT64_MAX)
        loop_timer_start(timer, next_ns);
}

void lifecycle_online(lifecycle_t *l, bool online)
{
    const served_t *served = l->options.served;

    l->online = online;
    for (uint32_t i = 0; !online && i < served->count; i++)
        unload_release(l, served->models[i]);
    for (uint32_t i = 0; i < COMMANDS_MAX; i++)
        l->commands[i].told = false;
}

/* A load that nobody wants any more ends early; load_done sees to the rest. */
void load_abandon(lifecycle_t *l, model_t *model)
{
    if (atomic_exchange(&model->stop, 1)) /* those who wait now want it gone */
        return;
    command_settle_model(l, model, STATUS_CANCELLED, "it was unloaded while it was loading");
}

/* What an unload does to one version; the command waits for it where that takes time. */
static void unload_one(lifecycle_t *l, model_t *model, command_t *command)
{
    if (model->serving->successor)
        load_abandon(l, model->serving->successor);
    switch (model->serving->state) {
    case MODEL_LOADING:
        load_abandon(l, model);
        break;
    case MODEL_READY:
        unload_begin(l, model);
        break;
    case MODEL_UNLOADING:
        break;
    case MODEL_FAILED:
        if (model->version > 0)
            model->serving->state = MODEL_UNLOADED;
        lifecycle_tell(l, model, NULL);
        return;
    case MODEL_UNLOADED:
        return;
    }
    if (model->serving->state != MODEL_UNLOADED)
        command_wait(l, command, model);
}

void unload_command(lifecycle_t *l, command_t *command, int64_t version)
{
    const served_t *served = l->options.served;
    bool known = false, any = false;

    for (uint32_t i = 0; i < served->count; i++) {
        model_t *model = served->models[i];
        if (strcmp(model->name, command->name) != 0)
            continue;
        known = true;
        if (version != 0 && model->version != version)
            continue;
        any = true;
        unload_one(l, model, command);
    }
    if (!known)
        command_fail(command, STATUS_NOT_FOUND, "there is no model '%.100s'", command->name);
    else if (!any)
        command_fail(command, STATUS_NOT_FOUND, "model '%.100s' has no version %lld", command->name,
                     (long long)version);
    command_settle(l, command);
}
