/* What is hot in it is one call deep. */
#include "scheduler/backend.h"

#include "base/clock.h"
#include "base/log.h"
#include "sched/policy.h"
#include "shards/front.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* Tells the loop that threads have decided something; it outlives its backend while it is on its way. */
typedef struct {
    loop_job_t job;
    loop_t *loop;
    _Atomic bool posted;
    backend_t *backend; /* NULL: gone */
} news_t;

/* One of the two. */
typedef struct {
    sched_t *sched;
    front_t *front;
} core_t;

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
    core_t core;
    core_t old;         /* after a change of kind: what waited in it has still to come out */
    const char *policy; /* a name of libs/sched */
    char params[BACKEND_PARAMS_BYTES];
    uint32_t modes; /* GPUs whose mode needs a sched_t */
    sched_delays_t delays;
    uint64_t
        id_mask; /* between the core's ids of batches and ours: those of the core before are unknown to it */
    news_t *news;
    known_model_t *models;
    known_gpu_t *gpus;
    uint64_t *denied;   /* bit model · gpus_max + gpu */
    uint32_t *model_of; /* by the low half of a tag */
    sched_sink_fn sink; /* during backend_run */
    void *sink_ctx;
};

#define ID_BIT (UINT64_C(1) << 63)

/* ---- News from threads ---- */

static void on_news(void *arg)
{
    news_t *news = arg;
    if (news->backend == NULL) {
        free(news);
        return;
    }
    atomic_store_explicit(&news->posted, false, memory_order_release);
    news->backend->options.on_news(news->backend->options.arg);
}

static void wake(void *ctx)
{
    news_t *news = ctx;
    if (!atomic_exchange_explicit(&news->posted, true, memory_order_acq_rel))
        loop_post_job(news->loop, &news->job);
}

/* No thread posts any more. */
static void dispose_news(news_t *news)
{
    if (news == NULL)
        return;
    news->backend = NULL;
    if (!atomic_load_explicit(&news->posted, memory_order_acquire))
        free(news);
}

/* ---- A core of either kind ---- */

static bool runs_on_threads(const char *policy)
{
    const policy_ops_t *ops = policy_find(policy);
    return ops != NULL && !ops->routes && ops->preempts == NULL;
}

static status_t make_front(const backend_t *backend, const char *policy, const char *params, core_t *core,
                           err_t *err)
{
    front_options_t options = {.limits = backend->options.limits,
                               .shard_count = backend->options.shards,
                               .tags_max = backend->options.limits.tasks_max,
                               .policy = policy,
                               .params = params,
                               .delays = backend->delays,
                               .balance_ns = NS_PER_S,
                               .wake = wake,
                               .ctx = backend->news};
    return front_create(&options, &core->front, err);
}

static status_t make_sched(const backend_t *backend, const char *policy, const char *params, core_t *core,
                           err_t *err)
{
    core->sched = sched_create(&backend->options.limits, err);
    if (core->sched == NULL)
        return err->code;
    sched_set_delays(core->sched, loop_now_ns(), &backend->delays);
    return sched_set_policy(core->sched, loop_now_ns(), policy, params, err);
}

static void core_dispose(core_t *core)
{
    sched_destroy(core->sched);
    front_destroy(core->front);
    *core = (core_t){0};
}

static bool wants_threads(const backend_t *backend, const char *policy)
{
    return backend->options.shards > 0 && backend->modes == 0 && runs_on_threads(policy);
}

static status_t core_make(const backend_t *backend, const char *policy, const char *params, core_t *core,
                          err_t *err)
{
    status_t status = wants_threads(backend, policy) ? make_front(backend, policy, params, core, err)
                                                     : make_sched(backend, policy, params, core, err);
    if (status != STATUS_OK)
        core_dispose(core);
    return status;
}

static status_t core_add_model(const core_t *core, uint32_t model, const profile_t *profile,
                               const sched_model_opts_t *opts, err_t *err)
{
    return core->front != NULL ? front_add_model(core->front, model, profile, opts, err)
                               : sched_add_model(core->sched, loop_now_ns(), model, profile, opts, err);
}

static void core_remove_model(const core_t *core, uint32_t model)
{
    if (core->front != NULL)
        (void)front_remove_model(core->front, model);
    else
        (void)sched_remove_model(core->sched, loop_now_ns(), model);
}

static void core_allow(const core_t *core, uint32_t model, uint32_t gpu, bool allowed)
{
    if (core->front != NULL)
        (void)front_allow(core->front, model, gpu, allowed);
    else
        (void)sched_allow(core->sched, loop_now_ns(), model, gpu, allowed);
}

static bool is_whole(const sched_gpu_mode_t *mode)
{
    return !mode->stretches && mode->slots <= 1;
}

static status_t core_add_gpu(const core_t *core, uint32_t gpu, const sched_gpu_mode_t *mode,
                             int64_t free_at_ns)
{
    if (core->front != NULL)
        return front_add_gpu(core->front, gpu, free_at_ns);
    status_t status = sched_add_gpu(core->sched, loop_now_ns(), gpu, free_at_ns);
    return status == STATUS_OK ? sched_set_gpu_mode(core->sched, loop_now_ns(), gpu, mode) : status;
}

static void core_drain_gpu(const core_t *core, uint32_t gpu)
{
    if (core->front != NULL)
        (void)front_drain_gpu(core->front, gpu);
    else
        (void)sched_drain_gpu(core->sched, loop_now_ns(), gpu);
}

static int64_t core_run(const core_t *core, sched_sink_fn sink, void *ctx)
{
    return core->front != NULL ? front_run(core->front, loop_now_ns(), sink, ctx)
                               : sched_run(core->sched, loop_now_ns(), sink, ctx);
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
    backend->news = calloc(1, sizeof *backend->news);
    backend->models = calloc(limits->models_max, sizeof *backend->models);
    backend->gpus = calloc(limits->gpus_max, sizeof *backend->gpus);
    backend->denied = calloc(((uint64_t)limits->models_max * limits->gpus_max + 63) / 64, sizeof(uint64_t));
    backend->model_of = calloc(limits->tasks_max, sizeof *backend->model_of);
    if (backend->news == NULL || backend->models == NULL || backend->gpus == NULL ||
        backend->denied == NULL || backend->model_of == NULL)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the scheduling core");
    *backend->news = (news_t){.backend = backend, .loop = backend->options.loop};
    backend->news->job.fn = on_news;
    backend->news->job.arg = backend->news;
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
        status = core_make(backend, options->policy, options->params, &backend->core, err);
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
    core_dispose(&backend->core);
    core_dispose(&backend->old);
    dispose_news(backend->news);
    free(backend->model_of);
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

static void tell_gpus(const backend_t *backend, const core_t *core)
{
    for (uint32_t gpu = 0; gpu < backend->options.limits.gpus_max; gpu++) {
        const known_gpu_t *known = &backend->gpus[gpu];
        if (!known->present)
            continue;
        (void)core_add_gpu(core, gpu, &known->mode, known->free_ns);
        if (known->draining)
            core_drain_gpu(core, gpu);
    }
}

static void tell_model(const backend_t *backend, const core_t *core, uint32_t model)
{
    const known_model_t *known = &backend->models[model];
    if (!known->present)
        return;
    (void)core_add_model(core, model, &known->profile, &known->opts, NULL);
    if (core->sched != NULL)
        (void)sched_set_inside(core->sched, loop_now_ns(), model, &known->inside, NULL);
    for (uint32_t gpu = 0; gpu < backend->options.limits.gpus_max; gpu++)
        if (is_denied(backend, model, gpu))
            core_allow(core, model, gpu, false);
}

static bool has_old(const backend_t *backend)
{
    return backend->old.sched != NULL || backend->old.front != NULL;
}

/* What waits comes out of the old core in drops; what runs goes on, and the devices are free when it should end. */
static status_t change_kind(backend_t *backend, const char *name, const char *params, err_t *err)
{
    core_t made = {0};
    if (has_old(backend))
        return err_set(err, STATUS_UNAVAILABLE, "the core is being changed; try again");
    status_t status = core_make(backend, name, params, &made, err);
    if (status != STATUS_OK)
        return status;
    tell_gpus(backend, &made);
    for (uint32_t model = 0; model < backend->options.limits.models_max; model++) {
        tell_model(backend, &made, model);
        if (backend->models[model].present)
            core_remove_model(&backend->core, model);
    }
    backend->old = backend->core;
    backend->core = made;
    backend->id_mask ^= ID_BIT;
    log_info("core_changed", LOG_STR("policy", name), LOG_STR("on", made.front ? "threads" : "the loop"),
             LOG_STR("reason", made.front           ? "all that decides can run on them"
                               : backend->modes > 0 ? "a device's mode looks at queues and devices at once"
                                                    : "the policy looks at queues and devices at once"));
    return STATUS_OK;
}

status_t backend_set_policy(backend_t *backend, const char *name, const char *params, err_t *err)
{
    status_t status;
    bool threads = wants_threads(backend, name);
    if (threads != backend_is_threaded(backend) && policy_find(name) != NULL)
        status = change_kind(backend, name, params, err);
    else if (threads)
        status = front_set_policy(backend->core.front, name, params, err);
    else
        status = sched_set_policy(backend->core.sched, loop_now_ns(), name, params, err);
    if (status == STATUS_OK)
        note_policy(backend, name, params);
    return status;
}

const char *backend_policy(const backend_t *backend)
{
    return backend->policy;
}

bool backend_is_threaded(const backend_t *backend)
{
    return backend->core.front != NULL;
}

/* ---- Models ---- */

status_t backend_add_model(backend_t *backend, uint32_t model, const profile_t *profile,
                           const sched_model_opts_t *opts, err_t *err)
{
    status_t status = core_add_model(&backend->core, model, profile, opts, err);
    if (status == STATUS_OK && backend->models != NULL)
        backend->models[model] = (known_model_t){.present = true, .profile = *profile, .opts = *opts};
    return status;
}

void backend_remove_model(backend_t *backend, uint32_t model)
{
    if (backend->models != NULL) {
        backend->models[model].present = false;
        for (uint32_t gpu = 0; gpu < backend->options.limits.gpus_max; gpu++)
            note_denied(backend, model, gpu, false);
    }
    core_remove_model(&backend->core, model);
}

void backend_update_profile(backend_t *backend, uint32_t model, const profile_t *profile)
{
    if (backend->models != NULL)
        backend->models[model].profile = *profile;
    if (backend->core.front != NULL)
        (void)front_update_profile(backend->core.front, model, profile);
    else
        (void)sched_update_profile(backend->core.sched, loop_now_ns(), model, profile);
}

/* Only policies that preempt look at them. */
void backend_set_exit_points(backend_t *backend, uint32_t model, uint32_t exit_points)
{
    if (backend->models != NULL)
        backend->models[model].opts.exit_points = exit_points;
    if (backend->core.sched != NULL)
        (void)sched_set_exit_points(backend->core.sched, model, exit_points);
}

status_t backend_set_inside(backend_t *backend, uint32_t model, const sched_inside_t *inside, err_t *err)
{
    status_t status =
        backend->core.sched != NULL
            ? sched_set_inside(backend->core.sched, loop_now_ns(), model, inside, err)
            : STATUS_OK; /* only modes that need a sched_t look at it; one that makes no sense is refused there */
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
    core_allow(&backend->core, model, gpu, allowed);
}

bool backend_model_stats(const backend_t *backend, uint32_t model, sched_model_stats_t *stats)
{
    return backend->core.front != NULL ? front_model_stats(backend->core.front, model, stats)
                                       : sched_model_stats(backend->core.sched, model, stats);
}

/* ---- GPUs ---- */

status_t backend_add_gpu(backend_t *backend, uint32_t gpu, const sched_gpu_mode_t *mode, int64_t free_at_ns)
{
    err_t err = {0};
    if (backend->gpus == NULL)
        return core_add_gpu(&backend->core, gpu, mode, free_at_ns);
    backend->modes += !is_whole(mode);
    status_t status = STATUS_OK;
    if (backend->core.front != NULL && backend->modes > 0)
        status = change_kind(backend, backend->policy, backend->params, &err);
    if (status == STATUS_OK)
        status = core_add_gpu(&backend->core, gpu, mode, free_at_ns);
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
    core_drain_gpu(&backend->core, gpu);
}

void backend_remove_gpu(backend_t *backend, uint32_t gpu)
{
    if (backend->gpus != NULL) {
        backend->modes -= backend->gpus[gpu].present && !is_whole(&backend->gpus[gpu].mode);
        backend->gpus[gpu].present = false;
        for (uint32_t model = 0; model < backend->options.limits.models_max; model++)
            note_denied(backend, model, gpu, false);
    }
    if (backend->core.front != NULL)
        (void)front_remove_gpu(backend->core.front, gpu);
    else
        (void)sched_remove_gpu(backend->core.sched, loop_now_ns(), gpu);
}

void backend_gpu_free(backend_t *backend, uint32_t gpu, int64_t free_at_ns)
{
    if (backend->core.front != NULL)
        front_gpu_free(backend->core.front, gpu, free_at_ns);
    else
        (void)sched_gpu_free(backend->core.sched, loop_now_ns(), gpu, free_at_ns);
}

void backend_set_delays(backend_t *backend, const sched_delays_t *delays)
{
    backend->delays = *delays;
    if (backend->core.front != NULL)
        front_set_delays(backend->core.front, delays);
    else
        sched_set_delays(backend->core.sched, loop_now_ns(), delays);
}

/* ---- Tasks and batches ---- */

status_t backend_submit(backend_t *backend, uint32_t model, const sched_task_t *task, sched_ref_t *ref)
{
    if (backend->core.front == NULL)
        return sched_submit(backend->core.sched, loop_now_ns(), model, task, ref);
    backend->model_of[(uint32_t)task->tag] = model;
    *ref = task->tag;
    return front_submit(backend->core.front, model, task);
}

bool backend_cancel(backend_t *backend, sched_ref_t ref)
{
    if (has_old(backend))
        return false; /* whose it is cannot be told; what waits is on its way out */
    if (backend->core.front == NULL)
        return sched_cancel(backend->core.sched, loop_now_ns(), ref);
    front_cancel(backend->core.front, backend->model_of[(uint32_t)ref], ref);
    return false;
}

void backend_batch_ended(backend_t *backend, uint64_t batch, int64_t free_at_ns)
{
    uint64_t id = batch ^ backend->id_mask;
    if (backend->core.front != NULL)
        front_batch_done(backend->core.front, id, free_at_ns);
    else
        (void)sched_batch_done(backend->core.sched, loop_now_ns(), id, free_at_ns);
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
        return core_run(&backend->core, sink, ctx);
    backend->sink = sink;
    backend->sink_ctx = ctx;
    if (has_old(backend)) {
        (void)core_run(&backend->old, sink, ctx);
        core_dispose(&backend->old);
    }
    return core_run(&backend->core, on_action, backend);
}

bool backend_take_lateness(backend_t *backend, int64_t *lateness_ns)
{
    return backend->core.front != NULL && front_take_lateness(backend->core.front, lateness_ns);
}
