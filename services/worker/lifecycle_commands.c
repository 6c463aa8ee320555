/* Commands under way: who waits for which model, and what they hear. */
#include "lifecycle_private.h"

#include "base/clock.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

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

    command->waiting += !(model->waiting & bit);
    model->waiting |= bit;
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
    const repository_t *repository = l->options.repository;

    for (uint32_t i = 0; i < repository->count; i++) {
        model_t *model = repository->models[i];
        if (model->state == MODEL_READY && strcmp(model->name, command->name) == 0 &&
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
    uint64_t waiting = model->waiting;

    model->waiting = 0;
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
    const repository_t *repository = l->options.repository;
    int64_t most_ns = INT64_MAX;

    for (uint32_t i = 0; i < repository->count; i++) {
        const model_t *model = repository->models[i];
        if (model->state == MODEL_READY && model->slo_ns / SLO_SHARE < most_ns)
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
    repository_remove(l->options.repository, model);
    l->options.ops->gone(l->options.ctx, model);
    command_settle_model(l, model, STATUS_OK, "");
    model_destroy(model, l->options.load.devices);
}
