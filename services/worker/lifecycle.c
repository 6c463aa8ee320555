#include "lifecycle.h"

#include "base/clock.h"
#include "base/log.h"
#include "loop/timer.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Commands under way; a set of them is a word in a model. The scheduler sends a few at a time. */
enum { COMMANDS_MAX = 64 };
/* How long an UNLOADING model waits for the scheduler's word. It comes when other workers have loaded what takes its place,
 * so that is minutes. */
static const int64_t RELEASE_PATIENCE_NS = 600 * NS_PER_S;

typedef struct {
    bool used, told; /* told: somebody waits for the answer */
    bool supersedes; /* once all is loaded, versions that were not read are unloaded */
    uint64_t id;
    uint32_t waiting; /* models */
    status_t status;
    err_t err;
    char name[MODEL_NAME_BYTES];
    int64_t keep[MODEL_VERSIONS_MAX]; /* versions that were read */
    uint32_t keep_count;
} command_t;

struct lifecycle {
    lifecycle_options_t options;
    loader_t *loader;
    loop_timer_t poll, patience;
    bool timers_ready, reading, online;
    _Atomic(int64_t) step_most_ns; /* for the loader: how long measuring may keep those waiting that serve */
    command_t commands[COMMANDS_MAX];
};

static void begin_unload(lifecycle_t *l, model_t *model);

/* ---- commands ---- */

static command_t *command_take(lifecycle_t *l, const char *name)
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

/* The first failure is the one that is told. */
#define command_fail(command, code, ...)                                     \
    do {                                                                     \
        if ((command)->status == STATUS_OK)                                  \
            (command)->status = err_set(&(command)->err, code, __VA_ARGS__); \
    } while (0)

static void command_wait(lifecycle_t *l, command_t *command, model_t *model)
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
            begin_unload(l, model);
    }
}

static void command_settle(lifecycle_t *l, command_t *command)
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
static void model_settle(lifecycle_t *l, model_t *model, status_t status, const char *text)
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
static void limit_measuring(lifecycle_t *l)
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

static void tell(lifecycle_t *l, const model_t *model, const model_t *old)
{
    limit_measuring(l);
    l->options.ops->changed(l->options.ctx, model, old);
}

/* ---- unloading ---- */

static void put_in_place(lifecycle_t *l, model_t *old, model_t *model)
{
    repository_replace(l->options.repository, old, model);
    model->predecessor = NULL;
    old->successor = NULL;
}

static void forget(lifecycle_t *l, model_t *model)
{
    repository_remove(l->options.repository, model);
    l->options.ops->gone(l->options.ctx, model);
    model_settle(l, model, STATUS_OK, "");
    model_destroy(model, l->options.load.devices);
}

static void on_unloaded(void *ctx, model_t *model)
{
    lifecycle_t *l = ctx;
    model_t *successor = model->successor;

    log_info("model_unloaded", LOG_STR("model", model->name), LOG_I64("version", model->version));
    if (model->superseded) {
        repository_unretire(l->options.repository, model);
        model_settle(l, model, STATUS_OK, "");
        model_destroy(model, l->options.load.devices);
        return;
    }
    model->state = MODEL_UNLOADED;
    model->released = model->leaving = false;
    if (successor) { /* it was asked for again meanwhile, and is still loading */
        put_in_place(l, model, successor);
        tell(l, successor, model);
        model_settle(l, model, STATUS_OK, "");
        model_destroy(model, l->options.load.devices);
        return;
    }
    if (model->vanishes) {
        forget(l, model);
        return;
    }
    tell(l, model, NULL);
    model_settle(l, model, STATUS_OK, "");
}

/* Nothing can come any more: off the devices. */
static void leave_when_idle(lifecycle_t *l, model_t *model)
{
    if (model->under_way > 0 || model->leaving || !(model->released || model->superseded))
        return;
    model->leaving = true;
    if (l->options.ops->leaves)
        l->options.ops->leaves(l->options.ctx, model);
    if (loader_unload(l->loader, model) == STATUS_OK)
        return;
    model_unload(model, l->options.load.devices); /* rather here than not at all */
    on_unloaded(l, model);
}

void lifecycle_idle(lifecycle_t *l, model_t *model)
{
    leave_when_idle(l, model);
}

static void release(lifecycle_t *l, model_t *model)
{
    if (model->state != MODEL_UNLOADING || model->released)
        return;
    model->released = true;
    leave_when_idle(l, model);
}

void lifecycle_release(lifecycle_t *l, const char *name, int64_t version)
{
    model_t *model = repository_find_version(l->options.repository, name, version);

    if (model)
        release(l, model);
}

static void begin_unload(lifecycle_t *l, model_t *model)
{
    log_info("model_unloading", LOG_STR("model", model->name), LOG_I64("version", model->version),
             LOG_U64("batches", model->under_way));
    model->state = MODEL_UNLOADING;
    model->released = model->leaving = false;
    model->release_at_ns = clock_now_ns() + RELEASE_PATIENCE_NS;
    if (!loop_timer_active(&l->patience))
        loop_timer_start(&l->patience, model->release_at_ns);
    tell(l, model, NULL);
    if (!l->online)
        release(l, model);
}

static void on_patience(loop_timer_t *timer, void *arg)
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
            release(l, model);
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
        release(l, repository->models[i]);
    for (uint32_t i = 0; i < COMMANDS_MAX; i++)
        l->commands[i].told = false;
}

/* A load that nobody wants any more ends early; on_loaded sees to the rest. */
static void abandon_load(lifecycle_t *l, model_t *model)
{
    atomic_store(&model->stop, 1);
    model_settle(l, model, STATUS_CANCELLED, "it was unloaded while it was loading");
}

/* What an unload does to one version; the command waits for it where that takes time. */
static void unload_one(lifecycle_t *l, model_t *model, command_t *command)
{
    if (model->successor)
        abandon_load(l, model->successor);
    switch (model->state) {
    case MODEL_LOADING:
        abandon_load(l, model);
        break;
    case MODEL_READY:
        begin_unload(l, model);
        break;
    case MODEL_UNLOADING:
        break;
    case MODEL_FAILED:
        if (model->version > 0)
            model->state = MODEL_UNLOADED;
        tell(l, model, NULL);
        return;
    case MODEL_UNLOADED:
        return;
    }
    if (model->state != MODEL_UNLOADED)
        command_wait(l, command, model);
}

static void unload(lifecycle_t *l, command_t *command, int64_t version)
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

/* ---- loading ---- */

static void log_loaded(const model_t *model, int64_t took_ns)
{
    if (model->load_status == STATUS_OK)
        log_info("model_loaded", LOG_STR("model", model->name), LOG_I64("version", model->version),
                 LOG_U64("max_batch", model->info->max_batch), LOG_MS("slo_ms", model->slo_ns),
                 LOG_MS("took_ms", took_ns));
    else if (model->load_status != STATUS_CANCELLED)
        log_error("model_failed", LOG_STR("model", model->name), LOG_I64("version", model->version),
                  LOG_STR("status", status_name(model->load_status)), LOG_ERR(&model->load_err));
}

static void retire(lifecycle_t *l, model_t *model)
{
    model->superseded = true;
    repository_retire(l->options.repository, model);
}

/* The one that serves is replaced between two batches: its own go on to their end. */
static void succeed(lifecycle_t *l, model_t *model)
{
    model_t *old = model->predecessor;

    put_in_place(l, old, model);
    retire(l, old);
    tell(l, model, old);
    leave_when_idle(l, old);
}

/* Its load was called off: what has been loaded of it leaves the devices again. */
static void on_abandoned(lifecycle_t *l, model_t *model)
{
    if (model->predecessor) {
        model->predecessor->successor = NULL;
        retire(l, model);
    }
    model->state = MODEL_UNLOADING;
    model->released = true;
    leave_when_idle(l, model);
}

static void on_successor_loaded(lifecycle_t *l, model_t *model)
{
    if (model->load_status == STATUS_OK) {
        succeed(l, model);
        model_settle(l, model, STATUS_OK, "");
        return;
    }
    model->predecessor->successor = NULL; /* which goes on serving */
    model_settle(l, model, model->load_status, model->load_err.text);
    model_destroy(model, l->options.load.devices);
}

static void on_loaded(void *ctx, model_t *model, int64_t took_ns)
{
    lifecycle_t *l = ctx;

    log_loaded(model, took_ns);
    if (atomic_load(&model->stop)) {
        on_abandoned(l, model);
        return;
    }
    model->state = model->load_status == STATUS_OK ? MODEL_READY : MODEL_FAILED;
    if (model->predecessor) {
        on_successor_loaded(l, model);
        return;
    }
    tell(l, model, NULL);
    model_settle(l, model, model->load_status, model->load_err.text);
}

static void start_load(lifecycle_t *l, model_t *model)
{
    model->state = MODEL_LOADING;
    if (loader_load(l->loader, model) == STATUS_OK)
        return;
    model->load_status =
        err_set(&model->load_err, STATUS_UNAVAILABLE, "too many models are waiting to be loaded");
    on_loaded(l, model, 0);
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

static model_t *load_beside(lifecycle_t *l, command_t *command, model_t *old, model_t *fresh)
{
    if (old->successor) {
        join_load(l, command, old->successor, fresh);
        return fresh;
    }
    old->successor = fresh;
    fresh->predecessor = old;
    command_wait(l, command, fresh);
    start_load(l, fresh);
    return NULL;
}

static model_t *load_instead(lifecycle_t *l, command_t *command, model_t *old, model_t *fresh)
{
    repository_replace(l->options.repository, old, fresh);
    command_wait(l, command, fresh);
    fresh->state = MODEL_LOADING;
    tell(l, fresh, old);
    model_destroy(old, l->options.load.devices);
    start_load(l, fresh);
    return NULL;
}

/* Unloading has begun and can still be called off. */
static void keep_after_all(lifecycle_t *l, model_t *model)
{
    model->state = MODEL_READY;
    model->vanishes = false;
    tell(l, model, NULL);
    model_settle(l, model, STATUS_CANCELLED, "it was loaded again");
}

static model_t *load_new(lifecycle_t *l, command_t *command, model_t *fresh)
{
    if (repository_add(l->options.repository, fresh, &command->err) != STATUS_OK) {
        command->status = command->err.code;
        return fresh;
    }
    command_wait(l, command, fresh);
    fresh->state = MODEL_LOADING;
    tell(l, fresh, NULL);
    start_load(l, fresh);
    return NULL;
}

/* A version as it is on disk now. Returns it when it is not needed. */
static model_t *adopt(lifecycle_t *l, command_t *command, model_t *fresh)
{
    model_t *model = repository_find_version(l->options.repository, fresh->name, fresh->version);

    model_name_metrics(fresh, l->options.metrics);
    if (!model)
        return load_new(l, command, fresh);
    bool same = model->fingerprint == fresh->fingerprint;
    switch (model->state) {
    case MODEL_LOADING:
        join_load(l, command, model, fresh);
        return fresh;
    case MODEL_READY:
        return same && !model->successor ? fresh : load_beside(l, command, model, fresh);
    case MODEL_UNLOADING:
        if (!same || model->released)
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
    model_t *model = repository_find_version(l->options.repository, name, 0);

    if (model)
        forget(l, model);
}

static void load(lifecycle_t *l, command_t *command, repository_reading_t *reading)
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

static void on_read(void *ctx, repository_reading_t *reading, uint64_t user)
{
    lifecycle_t *l = ctx;
    command_t *command = &l->commands[user];

    if (reading->status == STATUS_OK) {
        load(l, command, reading);
        return;
    }
    command_fail(command, reading->status, "%.400s", reading->err.text);
    command_settle(l, command);
}

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
        unload(l, command, asked->version);
        return;
    }
    if (loader_read(l->loader, asked->name, asked->version, (uint64_t)(command - l->commands)) == STATUS_OK)
        return;
    command_fail(command, STATUS_UNAVAILABLE, "too many models are waiting to be loaded");
    command_settle(l, command);
}

/* ---- looking at the repository ---- */

/* Whether a version on disk is news. One that failed or was unloaded stays so until its files change. */
static bool is_news(const lifecycle_t *l, const model_t *fresh)
{
    const model_t *model = repository_find_version(l->options.repository, fresh->name, fresh->version);

    if (!model)
        return true;
    if (model->successor)
        return false;
    return model->state != MODEL_LOADING && model->fingerprint != fresh->fingerprint;
}

static bool has_news(const lifecycle_t *l, const repository_reading_t *reading)
{
    for (uint32_t i = 0; i < reading->count; i++) {
        if (is_news(l, reading->versions[i]))
            return true;
    }
    const repository_t *repository = l->options.repository;
    for (uint32_t i = 0; i < repository->count; i++) {
        const model_t *model = repository->models[i];
        bool read = false;
        for (uint32_t k = 0; k < reading->count; k++)
            read |= reading->versions[k]->version == model->version;
        if (!read && model->state == MODEL_READY && strcmp(model->name, reading->name) == 0)
            return true;
    }
    return false;
}

static void show_failure(lifecycle_t *l, repository_reading_t *reading)
{
    err_t err;

    model_t *known = repository_find(l->options.repository, reading->name);
    if (known) {
        if (!known->unreadable && known->version > 0)
            log_warn("model_not_read", LOG_STR("model", reading->name), LOG_ERR(&reading->err));
        known->unreadable = true;
        return;
    }
    log_error("model_failed", LOG_STR("model", reading->name), LOG_ERR(&reading->err));
    if (repository_take(l->options.repository, reading, &err) == STATUS_OK)
        tell(l, repository_find(l->options.repository, reading->name), NULL);
}

static void look_at(lifecycle_t *l, repository_reading_t *reading)
{
    if (reading->status != STATUS_OK) {
        show_failure(l, reading);
        return;
    }
    command_t *command = has_news(l, reading) ? command_take(l, reading->name) : NULL;
    if (!command) /* nothing new, or too much at once: the next look finds it */
        return;
    command->supersedes = true;
    load(l, command, reading);
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
    model->vanishes = true;
    if (model->successor)
        abandon_load(l, model->successor);
    switch (model->state) {
    case MODEL_READY:
        begin_unload(l, model);
        break;
    case MODEL_LOADING:
        abandon_load(l, model);
        break;
    case MODEL_UNLOADING:
        break;
    case MODEL_FAILED:
    case MODEL_UNLOADED:
        forget(l, model);
        break;
    }
}

static void on_read_all(void *ctx, repository_reading_t *readings, uint32_t count, const err_t *err)
{
    lifecycle_t *l = ctx;
    const repository_t *repository = l->options.repository;

    l->reading = false;
    if (err->code != STATUS_OK) { /* a share that is away for a moment unloads nothing */
        log_warn("repository_not_read", LOG_ERR(err));
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        look_at(l, &readings[i]);
    for (uint32_t i = repository->count; i-- > 0;) { /* backwards: vanish may take it out */
        if (!is_listed(repository->models[i]->name, readings, count))
            vanish(l, repository->models[i]);
    }
}

static void on_poll(loop_timer_t *timer, void *arg)
{
    lifecycle_t *l = arg;

    if (!l->reading)
        l->reading = loader_read_all(l->loader) == STATUS_OK;
    loop_timer_start_in(timer, l->options.poll_interval_ns);
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

static status_t take_all(const lifecycle_options_t *options, err_t *err)
{
    repository_reading_t *readings;
    uint32_t count;
    status_t status = repository_read_all(options->source, &readings, &count, err);

    if (status != STATUS_OK)
        return status;
    for (uint32_t i = 0; i < count; i++) {
        if (status == STATUS_OK)
            status = repository_take(options->repository, &readings[i], err);
        repository_reading_dispose(&readings[i]);
    }
    free(readings);
    return status;
}

static status_t check_at_start(const lifecycle_options_t *options, err_t *err)
{
    for (size_t i = 0; i < options->at_start_count; i++) {
        const char *name = options->at_start[i];
        if (strcmp(name, "*") != 0 && !repository_find(options->repository, name))
            return err_set(err, STATUS_NOT_FOUND,
                           "--load-model: there is no model '%.100s' in the repository", name);
    }
    return STATUS_OK;
}

static void load_at_start(lifecycle_t *l)
{
    const repository_t *repository = l->options.repository;

    for (uint32_t i = 0; i < repository->count; i++) {
        model_t *model = repository->models[i];
        model_name_metrics(model, l->options.metrics);
        if (model->state == MODEL_FAILED)
            log_loaded(model, 0);
        else if (is_wanted_at_start(&l->options, model->name))
            start_load(l, model);
        else
            model->state = MODEL_UNLOADED;
    }
}

status_t lifecycle_create(const lifecycle_options_t *options, lifecycle_t **out, err_t *err)
{
    static const loader_ops_t ops = {
        .loaded = on_loaded, .unloaded = on_unloaded, .read = on_read, .read_all = on_read_all};
    status_t status = take_all(options, err);
    lifecycle_t *l = status == STATUS_OK ? calloc(1, sizeof(*l)) : NULL;

    if (!l)
        return status != STATUS_OK ? status : err_set(err, STATUS_NO_MEMORY, "out of memory");
    l->options = *options;
    l->options.load.step_most_ns = &l->step_most_ns;
    limit_measuring(l);
    status = check_at_start(options, err);
    if (status == STATUS_OK)
        status = loop_timer_init(&l->poll, options->loop, on_poll, l, err);
    if (status == STATUS_OK &&
        (status = loop_timer_init(&l->patience, options->loop, on_patience, l, err)) != STATUS_OK)
        loop_timer_dispose(&l->poll);
    l->timers_ready = status == STATUS_OK;
    if (status == STATUS_OK)
        status = loader_create(options->loop, options->source, &l->options.load, &ops, l, &l->loader, err);
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
    repository_stop_loads(l->options.repository);
    loader_destroy(l->loader);
    if (l->timers_ready) {
        loop_timer_dispose(&l->poll);
        loop_timer_dispose(&l->patience);
    }
    free(l);
}
