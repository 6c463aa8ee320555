/* What is hot in it is one call deep. */
#include "scheduler/backend.h"

#include "base/log.h"
#include "sched/policy.h"
#include "scheduler/core.h"

#include <stdio.h>
#include <stdlib.h>

/* What a core was told, kept with shards only, so that one of the other kind can be told the same. */
typedef struct {
    bool present;
    profile_t profile;
    sched_model_opts_t opts;
    sched_inside_t inside;
} known_model_t;

typedef struct {
    bool present, draining;
    int64_t free_ns; /* as predicted */
    sched_gpu_mode_t mode;
} known_gpu_t;

struct backend {
    backend_options_t options;
    core_t *core;
    core_t *old;        /* NULL, or after a change of kind: what waited in it has still to come out */
    const char *policy; /* a name of libs/sched */
    char params[BACKEND_PARAMS_BYTES];
    uint32_t modes;     /* GPUs whose mode needs a sched_t */
    uint32_t stoppable; /* models with exit points */
    bool stops, hinted; /* some model could be stopped; it was said that the policy never does it */
    sched_delays_t delays;
    uint64_t
        id_mask; /* between the core's ids of batches and ours: those of the core before are unknown to it */
    known_model_t *models;
    known_gpu_t *gpus;
    uint64_t *denied;   /* bit model · gpus_max + gpu */
    sched_sink_fn sink; /* during backend_run */
    void *sink_ctx;
};

#define ID_BIT (UINT64_C(1) << 63)

static bool is_whole(const sched_gpu_mode_t *mode)
{
    return !mode->stretches && mode->slots <= 1;
}

/* The kind of core that the policy is to run on. */
static const core_ops_t *kind_for(const backend_t *backend, const char *policy, const char *params)
{
    bool threads = backend->options.shards > 0 && backend->modes == 0 &&
                   core_can_thread(policy, params, backend->stoppable > 0);
    return threads ? &core_on_threads : &core_on_loop;
}

static status_t make_core(const backend_t *backend, const char *policy, const char *params, core_t **core,
                          err_t *err)
{
    backend_options_t options = backend->options;
    options.policy = policy;
    options.params = params;
    options.delays = backend->delays;
    return kind_for(backend, policy, params)->create(&options, core, err);
}

/* ---- Making ---- */

static void note_policy(backend_t *backend, const char *name, const char *params)
{
    backend->policy = policy_find(name)->name;
    (void)snprintf(backend->params, sizeof backend->params, "%s", params != NULL ? params : "");
}

static status_t allocate(backend_t *backend, err_t *err)
{
    const sched_limits_t *limits = &backend->options.limits;
    if (backend->options.shards == 0)
        return STATUS_OK;
    backend->models = calloc(limits->models_max, sizeof *backend->models);
    backend->gpus = calloc(limits->gpus_max, sizeof *backend->gpus);
    backend->denied = calloc(((uint64_t)limits->models_max * limits->gpus_max + 63) / 64, sizeof(uint64_t));
    if (backend->models == NULL || backend->gpus == NULL || backend->denied == NULL)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the scheduling core");
    return STATUS_OK;
}

status_t backend_create(const backend_options_t *options, backend_t **out, err_t *err)
{
    backend_t *backend = calloc(1, sizeof *backend);
    if (backend == NULL)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the scheduling core");
    backend->options = *options;
    backend->options.policy = backend->options.params = NULL; /* the caller's */
    backend->delays = options->delays;
    status_t status = allocate(backend, err);
    if (status == STATUS_OK)
        status = make_core(backend, options->policy, options->params, &backend->core, err);
    if (status != STATUS_OK) {
        backend_destroy(backend);
        return status;
    }
    note_policy(backend, options->policy, options->params);
    *out = backend;
    return STATUS_OK;
}

void backend_destroy(backend_t *backend)
{
    if (backend == NULL)
        return;
    if (backend->core != NULL)
        backend->core->ops->destroy(backend->core);
    if (backend->old != NULL)
        backend->old->ops->destroy(backend->old);
    free(backend->denied);
    free(backend->gpus);
    free(backend->models);
    free(backend);
}

/* ---- Policies ---- */

static bool is_denied(const backend_t *backend, uint32_t model, uint32_t gpu)
{
    uint64_t bit = (uint64_t)model * backend->options.limits.gpus_max + gpu;
    return backend->denied[bit / 64] >> (bit % 64) & 1;
}

static void note_denied(backend_t *backend, uint32_t model, uint32_t gpu, bool denied)
{
    uint64_t bit = (uint64_t)model * backend->options.limits.gpus_max + gpu;
    uint64_t mask = UINT64_C(1) << (bit % 64);
    backend->denied[bit / 64] = denied ? backend->denied[bit / 64] | mask : backend->denied[bit / 64] & ~mask;
}

static void tell_gpus(const backend_t *backend, core_t *core)
{
    for (uint32_t gpu = 0; gpu < backend->options.limits.gpus_max; gpu++) {
        const known_gpu_t *known = &backend->gpus[gpu];
        if (!known->present)
            continue;
        (void)core->ops->add_gpu(core, gpu, &known->mode, known->free_ns);
        if (known->draining)
            core->ops->drain_gpu(core, gpu);
    }
}

static void tell_model(const backend_t *backend, core_t *core, uint32_t model)
{
    const known_model_t *known = &backend->models[model];
    if (!known->present)
        return;
    (void)core->ops->add_model(core, model, &known->profile, &known->opts, NULL);
    (void)core->ops->set_inside(core, model, &known->inside, NULL);
    for (uint32_t gpu = 0; gpu < backend->options.limits.gpus_max; gpu++)
        if (is_denied(backend, model, gpu))
            core->ops->allow(core, model, gpu, false);
}

/* What waits comes out of the old core in drops; what runs goes on, and the devices are free when it should end. */
static status_t change_kind(backend_t *backend, const char *name, const char *params, err_t *err)
{
    core_t *made = NULL;
    if (backend->old != NULL)
        return err_set(err, STATUS_UNAVAILABLE, "the core is being changed; try again");
    status_t status = make_core(backend, name, params, &made, err);
    if (status != STATUS_OK)
        return status;
    tell_gpus(backend, made);
    for (uint32_t model = 0; model < backend->options.limits.models_max; model++) {
        tell_model(backend, made, model);
        if (backend->models[model].present)
            backend->core->ops->remove_model(backend->core, model);
    }
    backend->old = backend->core;
    backend->core = made;
    backend->id_mask ^= ID_BIT;
    log_info("core_changed", LOG_STR("policy", name), LOG_STR("on", made->ops->where),
             LOG_STR("reason", backend_is_threaded(backend) ? "all that decides can run on them"
                               : backend->modes > 0 ? "a device's mode looks at queues and devices at once"
                                                    : "the policy looks at queues and devices at once"));
    return STATUS_OK;
}

/* Once for each policy: who asked for mode `preempt` should know that it changes nothing. */
static void hint_at_stopping(backend_t *backend)
{
    if (!backend->stops || backend->hinted || policy_find(backend->policy)->preempts != NULL)
        return;
    backend->hinted = true;
    log_warn("policy_never_stops", LOG_STR("policy", backend->policy),
             LOG_STR("reason", "models run in mode preempt, but of the policies only fermata and shepherd "
                               "stop running batches"));
}

status_t backend_set_policy(backend_t *backend, const char *name, const char *params, err_t *err)
{
    bool changes = policy_find(name) != NULL && kind_for(backend, name, params) != backend->core->ops;
    status_t status = changes ? change_kind(backend, name, params, err)
                              : backend->core->ops->set_policy(backend->core, name, params, err);
    if (status == STATUS_OK) {
        note_policy(backend, name, params);
        backend->hinted = false;
        hint_at_stopping(backend);
    }
    return status;
}

const char *backend_policy(const backend_t *backend)
{
    return backend->policy;
}

bool backend_is_threaded(const backend_t *backend)
{
    return backend->core->ops == &core_on_threads;
}

/* ---- Models ---- */

static void note_exit_points(backend_t *backend, uint32_t model, uint32_t exit_points)
{
    uint32_t *known = &backend->models[model].opts.exit_points;
    backend->stoppable -= *known > 0;
    backend->stoppable += exit_points > 0;
    *known = exit_points;
}

status_t backend_add_model(backend_t *backend, uint32_t model, const profile_t *profile,
                           const sched_model_opts_t *opts, err_t *err)
{
    status_t status = backend->core->ops->add_model(backend->core, model, profile, opts, err);
    if (status == STATUS_OK && backend->models != NULL) {
        backend->models[model] = (known_model_t){.present = true, .profile = *profile, .opts = *opts};
        backend->stoppable += opts->exit_points > 0;
    }
    return status;
}

void backend_remove_model(backend_t *backend, uint32_t model)
{
    if (backend->models != NULL) {
        note_exit_points(backend, model, 0);
        backend->models[model].present = false;
        for (uint32_t gpu = 0; gpu < backend->options.limits.gpus_max; gpu++)
            note_denied(backend, model, gpu, false);
    }
    backend->core->ops->remove_model(backend->core, model);
}

void backend_update_profile(backend_t *backend, uint32_t model, const profile_t *profile)
{
    if (backend->models != NULL)
        backend->models[model].profile = *profile;
    backend->core->ops->update_profile(backend->core, model, profile);
}

void backend_set_exit_points(backend_t *backend, uint32_t model, uint32_t exit_points)
{
    if (backend->models != NULL)
        note_exit_points(backend, model, exit_points);
    backend->core->ops->set_exit_points(backend->core, model, exit_points);
    err_t err = {0};
    if (backend_is_threaded(backend) &&
        kind_for(backend, backend->policy, backend->params) != backend->core->ops &&
        change_kind(backend, backend->policy, backend->params, &err) != STATUS_OK)
        log_warn("core_not_changed", LOG_ERR(&err)); /* nothing is stopped, all else goes on */
    backend->stops |= exit_points > 0;
    hint_at_stopping(backend);
}

status_t backend_set_inside(backend_t *backend, uint32_t model, const sched_inside_t *inside, err_t *err)
{
    status_t status = backend->core->ops->set_inside(backend->core, model, inside, err);
    if (status == STATUS_OK && backend->models != NULL)
        backend->models[model].inside = *inside;
    return status;
}

void backend_allow(backend_t *backend, uint32_t model, uint32_t gpu, bool allowed)
{
    if (backend->models != NULL) {
        if (is_denied(backend, model, gpu) == !allowed)
            return; /* as it is: nobody need stand still for it */
        note_denied(backend, model, gpu, !allowed);
    }
    backend->core->ops->allow(backend->core, model, gpu, allowed);
}

bool backend_model_stats(const backend_t *backend, uint32_t model, sched_model_stats_t *stats)
{
    return backend->core->ops->model_stats(backend->core, model, stats);
}

double backend_needed(const backend_t *backend)
{
    return backend->core->ops->needed(backend->core);
}

bool backend_model_scatter(const backend_t *backend, uint32_t model, sched_scatter_t *scatter)
{
    return backend->core->ops->model_scatter(backend->core, model, scatter);
}

/* ---- GPUs ---- */

status_t backend_add_gpu(backend_t *backend, uint32_t gpu, const sched_gpu_mode_t *mode, int64_t free_at_ns)
{
    err_t err = {0};
    if (backend->gpus == NULL)
        return backend->core->ops->add_gpu(backend->core, gpu, mode, free_at_ns);
    backend->modes += !is_whole(mode);
    status_t status = STATUS_OK;
    if (backend_is_threaded(backend) && backend->modes > 0)
        status = change_kind(backend, backend->policy, backend->params, &err);
    if (status == STATUS_OK)
        status = backend->core->ops->add_gpu(backend->core, gpu, mode, free_at_ns);
    if (status == STATUS_OK)
        backend->gpus[gpu] = (known_gpu_t){.present = true, .free_ns = free_at_ns, .mode = *mode};
    else
        backend->modes -= !is_whole(mode);
    return status;
}

void backend_drain_gpu(backend_t *backend, uint32_t gpu)
{
    if (backend->gpus != NULL)
        backend->gpus[gpu].draining = true;
    backend->core->ops->drain_gpu(backend->core, gpu);
}

void backend_remove_gpu(backend_t *backend, uint32_t gpu)
{
    if (backend->gpus != NULL) {
        backend->modes -= backend->gpus[gpu].present && !is_whole(&backend->gpus[gpu].mode);
        backend->gpus[gpu].present = false;
        for (uint32_t model = 0; model < backend->options.limits.models_max; model++)
            note_denied(backend, model, gpu, false);
    }
    backend->core->ops->remove_gpu(backend->core, gpu);
}

void backend_gpu_free(backend_t *backend, uint32_t gpu, int64_t free_at_ns)
{
    backend->core->ops->gpu_free(backend->core, gpu, free_at_ns);
}

void backend_set_delays(backend_t *backend, const sched_delays_t *delays)
{
    backend->delays = *delays;
    backend->core->ops->set_delays(backend->core, delays);
}

/* ---- Tasks and batches ---- */

status_t backend_submit(backend_t *backend, uint32_t model, const sched_task_t *task, sched_ref_t *ref)
{
    return backend->core->ops->submit(backend->core, model, task, ref);
}

bool backend_cancel(backend_t *backend, sched_ref_t ref)
{
    if (backend->old != NULL)
        return false; /* whose it is cannot be told; what waits is on its way out */
    return backend->core->ops->cancel(backend->core, ref);
}

void backend_batch_ran(backend_t *backend, uint64_t batch, int64_t started_ns, int64_t ended_ns)
{
    backend->core->ops->batch_ran(backend->core, batch ^ backend->id_mask, started_ns, ended_ns);
}

void backend_batch_ended(backend_t *backend, uint64_t batch, int64_t free_at_ns)
{
    backend->core->ops->batch_ended(backend->core, batch ^ backend->id_mask, free_at_ns);
}

static void on_action(void *ctx, const sched_action_t *action)
{
    backend_t *backend = ctx;
    sched_action_t ours = *action;
    if (action->kind == SCHED_GRANT) {
        backend->gpus[action->grant.gpu].free_ns = action->grant.finish_ns;
        ours.grant.batch_id ^= backend->id_mask;
        if (ours.grant.stretches != 0)
            ours.grant.stretches ^= backend->id_mask;
    } else if (action->kind == SCHED_PREEMPT) {
        ours.preempt.batch_id ^= backend->id_mask;
    }
    backend->sink(backend->sink_ctx, &ours);
}

int64_t backend_run(backend_t *backend, sched_sink_fn sink, void *ctx)
{
    if (backend->options.shards == 0)
        return backend->core->ops->run(backend->core, sink, ctx);
    backend->sink = sink;
    backend->sink_ctx = ctx;
    if (backend->old != NULL) {
        (void)backend->old->ops->run(backend->old, sink, ctx);
        backend->old->ops->destroy(backend->old);
        backend->old = NULL;
    }
    return backend->core->ops->run(backend->core, on_action, backend);
}

bool backend_take_lateness(backend_t *backend, int64_t *lateness_ns)
{
    return backend->core->ops->take_lateness(backend->core, lateness_ns);
}
