/* Looking at the repository again and again: what is new, what has changed, what is gone. */
#include "worker/models/lifecycle_private.h"

#include "base/log.h"

#include <string.h>

/* Whether a version on disk is news. One that failed or was unloaded stays so until its files change. */
static bool is_news(const lifecycle_t *l, const model_t *fresh)
{
    const model_t *model = served_find_version(l->options.served, fresh->name, fresh->version);

    if (!model)
        return true;
    if (model->serving->successor)
        return false;
    return model->serving->state != MODEL_LOADING && model->fingerprint != fresh->fingerprint;
}

static bool has_news(const lifecycle_t *l, const repository_reading_t *reading)
{
    for (uint32_t i = 0; i < reading->count; i++) {
        if (is_news(l, reading->versions[i]))
            return true;
    }
    const served_t *served = l->options.served;
    for (uint32_t i = 0; i < served->count; i++) {
        const model_t *model = served->models[i];
        bool read = false;
        for (uint32_t k = 0; k < reading->count; k++)
            read |= reading->versions[k]->version == model->version;
        if (!read && model->serving->state == MODEL_READY && strcmp(model->name, reading->name) == 0)
            return true;
    }
    return false;
}

/* Notes it on all versions of a model; returns whether it was so before. */
static bool mark_unreadable(lifecycle_t *l, const char *name, bool unreadable)
{
    const served_t *served = l->options.served;
    bool before = false;

    for (uint32_t i = 0; i < served->count; i++) {
        model_t *model = served->models[i];
        if (strcmp(model->name, name) != 0)
            continue;
        before |= model->serving->unreadable;
        model->serving->unreadable = unreadable;
    }
    return before;
}

static void show_failure(lifecycle_t *l, repository_reading_t *reading)
{
    err_t err;

    model_t *known = served_find(l->options.served, reading->name);
    if (known) {
        if (!mark_unreadable(l, reading->name, true) && known->version > 0)
            log_warn("model_not_read", LOG_STR("model", reading->name), LOG_ERR(&reading->err));
        return;
    }
    log_error("model_failed", LOG_STR("model", reading->name), LOG_ERR(&reading->err));
    if (served_take(l->options.served, reading, &err) == STATUS_OK)
        lifecycle_tell(l, served_find(l->options.served, reading->name), NULL);
}

static void look_at(lifecycle_t *l, repository_reading_t *reading)
{
    if (reading->status != STATUS_OK) {
        show_failure(l, reading);
        return;
    }
    (void)mark_unreadable(l, reading->name, false);
    command_t *command = has_news(l, reading) ? command_take(l, reading->name) : NULL;
    if (!command) /* nothing new, or too much at once: the next look finds it */
        return;
    command->supersedes = true;
    load_reading(l, command, reading);
}

static bool is_listed(const char *name, const repository_reading_t *readings, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(readings[i].name, name) == 0)
            return true;
    }
    return false;
}

/* A model whose folder is gone: what serves is unloaded, then forgotten. */
static void vanish(lifecycle_t *l, model_t *model)
{
    model->serving->vanishes = true;
    if (model->serving->successor)
        load_abandon(l, model->serving->successor);
    switch (model->serving->state) {
    case MODEL_READY:
        unload_begin(l, model);
        break;
    case MODEL_LOADING:
        load_abandon(l, model);
        break;
    case MODEL_UNLOADING:
        break;
    case MODEL_FAILED:
    case MODEL_UNLOADED:
        lifecycle_forget(l, model);
        break;
    }
}

static bool is_ready(const lifecycle_t *l, const char *name)
{
    const served_t *served = l->options.served;

    for (uint32_t i = 0; i < served->count; i++)
        if (strcmp(served->models[i]->name, name) == 0 && served->models[i]->serving->state == MODEL_READY)
            return true;
    return false;
}

void look_on_read_all(void *ctx, repository_reading_t *readings, uint32_t count, const err_t *err)
{
    lifecycle_t *l = ctx;
    const served_t *served = l->options.served;

    l->reading = false;
    if (err->code != STATUS_OK) { /* a share that is away for a moment unloads nothing */
        log_warn("repository_not_read", LOG_ERR(err));
        return;
    }
    bool all = l->options.control != MODEL_CONTROL_EXPLICIT;
    for (uint32_t i = 0; i < count; i++)
        if (all || is_ready(l, readings[i].name))
            look_at(l, &readings[i]);
    for (uint32_t i = served->count; i-- > 0;) { /* backwards: vanish may take it out */
        if (all && !is_listed(served->models[i]->name, readings, count))
            vanish(l, served->models[i]);
    }
}

void lifecycle_reread(lifecycle_t *l)
{
    log_info("repository_read_again");
    if (!l->reading)
        l->reading = loader_read_all(l->loader) == STATUS_OK;
}

void look_on_poll(loop_timer_t *timer, void *arg)
{
    lifecycle_t *l = arg;

    if (!l->reading)
        l->reading = loader_read_all(l->loader) == STATUS_OK;
    loop_timer_start_in(timer, l->options.poll_interval_ns);
}
