/* The core that decides on the loop's thread, when it is run. Hot path: one call deep. */
#include "base/container.h"
#include "loop/loop.h"
#include "scheduler/core.h"

#include <stdlib.h>

typedef struct {
    core_t core;
    sched_t *sched;
    uint32_t plain_inflight; /* of a device that says nothing else */
} on_loop_t;

static sched_t *sched_of(const core_t *core)
{
    return CONTAINER_OF(core, on_loop_t, core)->sched;
}

static void destroy(core_t *core)
{
    sched_destroy(sched_of(core));
    free(core);
}

static status_t create(const backend_options_t *options, core_t **out, err_t *err)
{
    on_loop_t *made = calloc(1, sizeof *made);
    if (made == NULL)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the scheduling core");
    made->core.ops = &core_on_loop;
    sched_limits_t limits = options->limits;
    limits.gpu_inflight_max = backend_inflight_most(&options->limits);
    made->plain_inflight = options->limits.gpu_inflight_max;
    made->sched = sched_create(&limits, err);
    if (made->sched == NULL) {
        free(made);
        return err->code;
    }
    sched_set_delays(made->sched, loop_now_ns(), &options->delays);
    status_t status = sched_set_policy(made->sched, loop_now_ns(), options->policy, options->params, err);
    if (status == STATUS_OK)
        *out = &made->core;
    else
        destroy(&made->core);
    return status;
}

static status_t set_policy(core_t *core, const char *name, const char *params, err_t *err)
{
    return sched_set_policy(sched_of(core), loop_now_ns(), name, params, err);
}

static void set_delays(core_t *core, const sched_delays_t *delays)
{
    sched_set_delays(sched_of(core), loop_now_ns(), delays);
}

static status_t add_model(core_t *core, uint32_t model, const profile_t *profile,
                          const sched_model_opts_t *opts, err_t *err)
{
    return sched_add_model(sched_of(core), loop_now_ns(), model, profile, opts, err);
}

static void remove_model(core_t *core, uint32_t model)
{
    (void)sched_remove_model(sched_of(core), loop_now_ns(), model);
}

static void update_profile(core_t *core, uint32_t model, const profile_t *profile)
{
    (void)sched_update_profile(sched_of(core), loop_now_ns(), model, profile);
}

static void set_exit_points(core_t *core, uint32_t model, uint32_t exit_points)
{
    (void)sched_set_exit_points(sched_of(core), model, exit_points);
}

static status_t set_inside(core_t *core, uint32_t model, const sched_inside_t *inside, err_t *err)
{
    return sched_set_inside(sched_of(core), loop_now_ns(), model, inside, err);
}

static void allow(core_t *core, uint32_t model, uint32_t gpu, bool allowed)
{
    (void)sched_allow(sched_of(core), loop_now_ns(), model, gpu, allowed);
}

static bool model_stats(const core_t *core, uint32_t model, sched_model_stats_t *stats)
{
    return sched_model_stats(sched_of(core), model, stats);
}

static bool model_scatter(const core_t *core, uint32_t model, sched_scatter_t *scatter)
{
    return sched_model_scatter(sched_of(core), model, scatter);
}

static status_t add_gpu(core_t *core, uint32_t gpu, const sched_gpu_mode_t *mode, int64_t free_at_ns)
{
    on_loop_t *on_loop = CONTAINER_OF(core, on_loop_t, core);
    sched_gpu_mode_t own = *mode;
    status_t status = sched_add_gpu(on_loop->sched, loop_now_ns(), gpu, free_at_ns);
    if (own.inflight > BACKEND_INFLIGHT_MOST)
        own.inflight = BACKEND_INFLIGHT_MOST;
    if (own.inflight < on_loop->plain_inflight)
        own.inflight = on_loop->plain_inflight;
    return status == STATUS_OK ? sched_set_gpu_mode(on_loop->sched, loop_now_ns(), gpu, &own) : status;
}

static void drain_gpu(core_t *core, uint32_t gpu)
{
    (void)sched_drain_gpu(sched_of(core), loop_now_ns(), gpu);
}

static void remove_gpu(core_t *core, uint32_t gpu)
{
    (void)sched_remove_gpu(sched_of(core), loop_now_ns(), gpu);
}

static void gpu_free(core_t *core, uint32_t gpu, int64_t free_at_ns)
{
    (void)sched_gpu_free(sched_of(core), loop_now_ns(), gpu, free_at_ns);
}

static status_t submit(core_t *core, uint32_t model, const sched_task_t *task, sched_ref_t *ref)
{
    return sched_submit(sched_of(core), loop_now_ns(), model, task, ref);
}

static bool cancel(core_t *core, sched_ref_t ref)
{
    return sched_cancel(sched_of(core), loop_now_ns(), ref);
}

static void batch_ran(core_t *core, uint64_t batch, int64_t started_ns, int64_t ended_ns)
{
    (void)sched_batch_ran(sched_of(core), loop_now_ns(), batch, started_ns, ended_ns);
}

static void batch_ended(core_t *core, uint64_t batch, int64_t free_at_ns)
{
    (void)sched_batch_done(sched_of(core), loop_now_ns(), batch, free_at_ns);
}

static int64_t run(core_t *core, sched_sink_fn sink, void *ctx)
{
    return sched_run(sched_of(core), loop_now_ns(), sink, ctx);
}

/* The loop knows how late it comes itself. */
static double needed(const core_t *core)
{
    return sched_needed(sched_of(core));
}

static bool take_lateness(core_t *core, int64_t *lateness_ns)
{
    (void)core;
    (void)lateness_ns;
    return false;
}

const core_ops_t core_on_loop = {
    .where = "the loop",
    .create = create,
    .destroy = destroy,
    .set_policy = set_policy,
    .set_delays = set_delays,
    .add_model = add_model,
    .remove_model = remove_model,
    .update_profile = update_profile,
    .set_exit_points = set_exit_points,
    .set_inside = set_inside,
    .allow = allow,
    .model_stats = model_stats,
    .model_scatter = model_scatter,
    .add_gpu = add_gpu,
    .drain_gpu = drain_gpu,
    .remove_gpu = remove_gpu,
    .gpu_free = gpu_free,
    .submit = submit,
    .cancel = cancel,
    .batch_ran = batch_ran,
    .batch_ended = batch_ended,
    .run = run,
    .needed = needed,
    .take_lateness = take_lateness,
};
