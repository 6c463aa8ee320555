/* The core that decides on the caller's thread: sched_t as it is. Hot path: one call deep. */
#include "sched/core_ops.h"

#include "base/container.h"
#include "sched/core.h"

static sched_t *sched_of(const core_t *core)
{
    return CONTAINER_OF(core, sched_t, core);
}

static void destroy(core_t *core)
{
    sched_destroy(sched_of(core));
}

/* ---- The policy ---- */

static status_t set_policy(core_t *core, int64_t now_ns, const char *name, const char *params, err_t *err)
{
    return sched_set_policy(sched_of(core), now_ns, name, params, err);
}

static const char *policy(const core_t *core)
{
    return sched_of(core)->policy.ops->name;
}

static bool stops(const core_t *core, err_t *why)
{
    if (sched_of(core)->policy.ops->preempts)
        return true;
    (void)err_set(why, STATUS_UNSUPPORTED, "of the policies only fermata and shepherd stop running batches");
    return false;
}

static void set_delays(core_t *core, int64_t now_ns, const sched_delays_t *delays)
{
    sched_set_delays(sched_of(core), now_ns, delays);
}

/* ---- Models ---- */

static status_t add_model(core_t *core, int64_t now_ns, uint32_t model, const profile_t *profile,
                          const sched_model_opts_t *opts, err_t *err)
{
    return sched_add_model(sched_of(core), now_ns, model, profile, opts, err);
}

static void remove_model(core_t *core, int64_t now_ns, uint32_t model)
{
    (void)sched_remove_model(sched_of(core), now_ns, model);
}

static void update_profile(core_t *core, int64_t now_ns, uint32_t model, const profile_t *profile)
{
    (void)sched_update_profile(sched_of(core), now_ns, model, profile);
}

static void set_exit_points(core_t *core, uint32_t model, uint32_t exit_points)
{
    (void)sched_set_exit_points(sched_of(core), model, exit_points);
}

static status_t set_inside(core_t *core, int64_t now_ns, uint32_t model, const sched_inside_t *inside,
                           err_t *err)
{
    return sched_set_inside(sched_of(core), now_ns, model, inside, err);
}

static void allow(core_t *core, int64_t now_ns, uint32_t model, uint32_t gpu, bool allowed)
{
    (void)sched_allow(sched_of(core), now_ns, model, gpu, allowed);
}

static bool model_stats(const core_t *core, uint32_t model, sched_model_stats_t *stats)
{
    return sched_model_stats(sched_of(core), model, stats);
}

static bool model_scatter(const core_t *core, uint32_t model, sched_scatter_t *scatter)
{
    return sched_model_scatter(sched_of(core), model, scatter);
}

static bool backlog(const core_t *core, int64_t now_ns, uint32_t model, sched_backlog_t *backlog)
{
    return sched_backlog(sched_of(core), now_ns, model, backlog);
}

static void note_refused(core_t *core, uint32_t model, uint32_t count)
{
    sched_note_refused(sched_of(core), model, count);
}

static double needed(const core_t *core)
{
    return sched_needed(sched_of(core));
}

/* ---- GPUs ---- */

static status_t add_gpu(core_t *core, int64_t now_ns, uint32_t gpu, const sched_gpu_mode_t *mode,
                        int64_t free_at_ns, err_t *err)
{
    status_t status = sched_add_gpu(sched_of(core), now_ns, gpu, free_at_ns);
    if (status == STATUS_OK) {
        status = sched_set_gpu_mode(sched_of(core), now_ns, gpu, mode);
        if (status != STATUS_OK)
            (void)sched_remove_gpu(sched_of(core), now_ns, gpu);
    }
    return status == STATUS_OK ? status : err_set(err, status, "GPU %u or its mode is out of range", gpu);
}

static void drain_gpu(core_t *core, int64_t now_ns, uint32_t gpu)
{
    (void)sched_drain_gpu(sched_of(core), now_ns, gpu);
}

static void remove_gpu(core_t *core, int64_t now_ns, uint32_t gpu)
{
    (void)sched_remove_gpu(sched_of(core), now_ns, gpu);
}

static void gpu_free(core_t *core, int64_t now_ns, uint32_t gpu, int64_t free_at_ns)
{
    (void)sched_gpu_free(sched_of(core), now_ns, gpu, free_at_ns);
}

/* ---- Tasks and batches ---- */

static status_t submit(core_t *core, int64_t now_ns, uint32_t model, const sched_task_t *task,
                       sched_ref_t *ref)
{
    return sched_submit(sched_of(core), now_ns, model, task, ref);
}

static bool cancel(core_t *core, int64_t now_ns, sched_ref_t ref)
{
    return sched_cancel(sched_of(core), now_ns, ref);
}

static void batch_ran(core_t *core, int64_t now_ns, uint64_t batch, int64_t started_ns, int64_t ended_ns)
{
    (void)sched_batch_ran(sched_of(core), now_ns, batch, started_ns, ended_ns);
}

static void batch_ended(core_t *core, int64_t now_ns, uint64_t batch, int64_t free_at_ns)
{
    (void)sched_batch_done(sched_of(core), now_ns, batch, free_at_ns);
}

static int64_t run(core_t *core, int64_t now_ns, sched_sink_fn sink, void *ctx)
{
    return sched_run(sched_of(core), now_ns, sink, ctx);
}

static bool take_lateness(core_t *core, int64_t *lateness_ns)
{
    (void)core;
    (void)lateness_ns;
    return false;
}

static const core_ops_t single_ops = {
    .destroy = destroy,
    .set_policy = set_policy,
    .policy = policy,
    .stops = stops,
    .set_delays = set_delays,
    .add_model = add_model,
    .remove_model = remove_model,
    .update_profile = update_profile,
    .set_exit_points = set_exit_points,
    .set_inside = set_inside,
    .allow = allow,
    .model_stats = model_stats,
    .model_scatter = model_scatter,
    .backlog = backlog,
    .note_refused = note_refused,
    .needed = needed,
    .add_gpu = add_gpu,
    .drain_gpu = drain_gpu,
    .remove_gpu = remove_gpu,
    .gpu_free = gpu_free,
    .submit = submit,
    .cancel = cancel,
    .batch_ran = batch_ran,
    .batch_ended = batch_ended,
    .run = run,
    .take_lateness = take_lateness,
};

status_t core_single_create(const sched_limits_t *limits, int64_t now_ns, const char *policy_name,
                            const char *params, const sched_delays_t *delays, core_t **out, err_t *err)
{
    sched_t *sched = sched_create(limits, err);
    if (!sched)
        return err->code;
    sched->core.ops = &single_ops;
    sched_set_delays(sched, now_ns, delays);
    status_t status = sched_set_policy(sched, now_ns, policy_name, params, err);
    if (status == STATUS_OK)
        *out = &sched->core;
    else
        sched_destroy(sched);
    return status;
}
