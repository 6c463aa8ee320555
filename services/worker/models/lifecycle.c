#include "worker/models/lifecycle_private.h"

#include "base/log.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- commands from outside ---- */

static const char *refusal(const lifecycle_t *l, const lifecycle_command_t *asked)
{
    if (asked->planned || l->options.control == MODEL_CONTROL_EXPLICIT)
        return NULL;
    return l->options.control == MODEL_CONTROL_POLL
               ? "this worker loads what it finds in its repository (--model-control poll)"
               : "this worker loads its models at start only (--model-control none)";
}

void lifecycle_command(lifecycle_t *l, const lifecycle_command_t *asked)
{
    const char *no = refusal(l, asked);

    if (strlen(asked->name) >= MODEL_NAME_BYTES) {
        l->options.ops->answer(l->options.ctx, asked->id, STATUS_NOT_FOUND, "no model has so long a name");
        return;
    }
    command_t *command = no ? NULL : command_take(l, asked->name);

    if (!command) {
        l->options.ops->answer(l->options.ctx, asked->id, no ? STATUS_UNSUPPORTED : STATUS_UNAVAILABLE,
                               no ? no : "too many loads and unloads are under way");
        return;
    }
    command->id = asked->id;
    command->told = true;
    command->supersedes = !asked->unload && asked->version == 0;
    if (asked->unload) {
        unload_command(l, command, asked->version);
        return;
    }
    if (loader_read(l->loader, asked->name, asked->version, (uint64_t)(command - l->commands)) == STATUS_OK)
        return;
    command_fail(command, STATUS_UNAVAILABLE, "too many models are waiting to be loaded");
    command_settle(l, command);
}

/* ---- life ---- */

static bool is_wanted_at_start(const lifecycle_options_t *options, const char *name)
{
    if (options->control != MODEL_CONTROL_EXPLICIT)
        return true;
    for (size_t i = 0; i < options->at_start_count; i++) {
        if (strcmp(options->at_start[i], "*") == 0 || strcmp(options->at_start[i], name) == 0)
            return true;
    }
    return false;
}

static status_t check_at_start(const lifecycle_options_t *options, err_t *err)
{
    for (size_t i = 0; i < options->at_start_count; i++) {
        const char *name = options->at_start[i];
        if (strcmp(name, "*") != 0 && !served_find(options->served, name))
            return err_set(err, STATUS_NOT_FOUND,
                           "--load-model: there is no model '%.100s' in the repository", name);
    }
    return STATUS_OK;
}

static void load_at_start(lifecycle_t *l)
{
    const served_t *served = l->options.served;

    for (uint32_t i = 0; i < served->count; i++) {
        model_t *model = served->models[i];
        serving_name_metrics(model, l->options.metrics);
        if (model->serving->state == MODEL_FAILED)
            load_log(model, 0);
        else if (is_wanted_at_start(&l->options, model->name))
            load_start(l, model);
        else
            model->serving->state = MODEL_UNLOADED;
    }
}

static status_t init_timers(lifecycle_t *l, err_t *err)
{
    loop_t *loop = l->options.loop;

    if (loop_timer_init(&l->poll, loop, look_on_poll, l, err) != STATUS_OK)
        return err->code;
    if (loop_timer_init(&l->patience, loop, unload_on_patience, l, err) != STATUS_OK)
        goto poll;
    if (loop_timer_init(&l->measure, loop, measure_on_timer, l, err) != STATUS_OK)
        goto patience;
    l->timers_ready = true;
    return STATUS_OK;
patience:
    loop_timer_dispose(&l->patience);
poll:
    loop_timer_dispose(&l->poll);
    return err->code;
}

status_t lifecycle_create(const lifecycle_options_t *options, lifecycle_t **out, err_t *err)
{
    static const loader_ops_t ops = {.loaded = load_done,
                                     .measured = measure_done,
                                     .unloaded = unload_done,
                                     .read = load_on_read,
                                     .read_all = look_on_read_all};
    lifecycle_t *l = calloc(1, sizeof(*l));

    if (!l)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    l->options = *options;
    l->options.load.step_most_ns = &l->step_most_ns;
    l->options.load.coarse = true; /* lifecycle_measure.c sees to the rest */
    lifecycle_limit_measuring(l);
    status_t status = check_at_start(options, err);
    if (status == STATUS_OK)
        status = init_timers(l, err);
    if (status == STATUS_OK)
        status = loader_create(options->loop, options->source, &l->options.load, options->loaders, &ops, l,
                               &l->loader, err);
    if (status != STATUS_OK) {
        lifecycle_destroy(l);
        return status;
    }
    load_at_start(l);
    if (options->control == MODEL_CONTROL_POLL)
        loop_timer_start_in(&l->poll, options->poll_interval_ns);
    *out = l;
    return STATUS_OK;
}

void lifecycle_destroy(lifecycle_t *l)
{
    if (!l)
        return;
    served_stop_loads(l->options.served);
    loader_destroy(l->loader);
    if (l->timers_ready) {
        loop_timer_dispose(&l->poll);
        loop_timer_dispose(&l->patience);
        loop_timer_dispose(&l->measure);
    }
    free(l);
}
