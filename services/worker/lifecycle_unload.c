/* Taking models off the devices: not before the scheduler has nothing left for them and their last batch has ended. */
#include "lifecycle_private.h"

#include "base/clock.h"
#include "base/log.h"

#include <string.h>

/* How long an UNLOADING model waits for the scheduler's word. It comes when other workers have loaded what
 * takes its place, so that is minutes. */
static const int64_t RELEASE_PATIENCE_NS = 600 * NS_PER_S;

void unload_put_in_place(lifecycle_t *l, model_t *old, model_t *model)
{
    repository_replace(l->options.repository, old, model);
    model->predecessor = NULL;
    old->successor = NULL;
}

void unload_done(void *ctx, model_t *model)
{
    lifecycle_t *l = ctx;
    model_t *successor = model->successor;

    log_info("model_unloaded", LOG_STR("model", model->name), LOG_I64("version", model->version));
    if (model->superseded) {
        repository_unretire(l->options.repository, model);
        command_settle_model(l, model, STATUS_OK, "");
        model_destroy(model, l->options.load.devices);
        return;
    }
    model->state = MODEL_UNLOADED;
    model->released = model->leaving = false;
    if (successor) { /* it was asked for again meanwhile, and is still loading */
        unload_put_in_place(l, model, successor);
        lifecycle_tell(l, successor, model);
        command_settle_model(l, model, STATUS_OK, "");
        model_destroy(model, l->options.load.devices);
        return;
    }
    if (model->vanishes) {
        lifecycle_forget(l, model);
        return;
    }
    lifecycle_tell(l, model, NULL);
    command_settle_model(l, model, STATUS_OK, "");
}

/* Nothing can come any more: off the devices. */
void unload_when_idle(lifecycle_t *l, model_t *model)
{
    if (model->under_way > 0 || model->measuring || model->leaving || !(model->released || model->superseded))
        return;
    model->leaving = true;
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

void unload_release(lifecycle_t *l, model_t *model)
{
    if (model->state != MODEL_UNLOADING || model->released)
        return;
    model->released = true;
    unload_when_idle(l, model);
}

void lifecycle_release(lifecycle_t *l, const char *name, int64_t version)
{
    model_t *model = repository_find_version(l->options.repository, name, version);

    if (model)
        unload_release(l, model);
}

void unload_begin(lifecycle_t *l, model_t *model)
{
    log_info("model_unloading", LOG_STR("model", model->name), LOG_I64("version", model->version),
             LOG_U64("batches", model->under_way));
    model->state = MODEL_UNLOADING;
    model->released = model->leaving = false;
    model->release_at_ns = clock_now_ns() + RELEASE_PATIENCE_NS;
    if (!loop_timer_active(&l->patience))
        loop_timer_start(&l->patience, model->release_at_ns);
    lifecycle_tell(l, model, NULL);
    if (!l->online)
        unload_release(l, model);
}

void unload_on_patience(loop_timer_t *timer, void *arg)
{
    lifecycle_t *l = arg;
    const repository_t *repository = l->options.repository;
    int64_t now_ns = clock_now_ns(), next_ns = INT64_MAX;

    for (uint32_t i = 0; i < repository->count; i++) {
        model_t *model = repository->models[i];
        if (model->state != MODEL_UNLOADING || model->released)
            continue;
        if (model->release_at_ns <= now_ns) {
            log_warn("model_not_released", LOG_STR("model", model->name), LOG_I64("version", model->version));
            unload_release(l, model);
        } else if (model->release_at_ns < next_ns) {
            next_ns = model->release_at_ns;
        }
    }
    if (next_ns != INT64_MAX)
        loop_timer_start(timer, next_ns);
}

void lifecycle_online(lifecycle_t *l, bool online)
{
    const repository_t *repository = l->options.repository;

    l->online = online;
    for (uint32_t i = 0; !online && i < repository->count; i++)
        unload_release(l, repository->models[i]);
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
    if (model->successor)
        load_abandon(l, model->successor);
    switch (model->state) {
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
            model->state = MODEL_UNLOADED;
        lifecycle_tell(l, model, NULL);
        return;
    case MODEL_UNLOADED:
        return;
    }
    if (model->state != MODEL_UNLOADED)
        command_wait(l, command, model);
}

void unload_command(lifecycle_t *l, command_t *command, int64_t version)
{
    const repository_t *repository = l->options.repository;
    bool known = false, any = false;

    for (uint32_t i = 0; i < repository->count; i++) {
        model_t *model = repository->models[i];
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
