/*
 * The core whose threads decide. They tell the loop that they have by a job of their own, which outlives the
 * core while it is on its way. Hot path: one call deep.
 */
#include "base/clock.h"
#include "base/container.h"
#include "loop/loop.h"
#include "sched/policy.h"
#include "scheduler/core.h"
#include "shards/front.h"

#include <stdatomic.h>
#include <stdlib.h>

typedef struct {
    loop_job_t job;
    loop_t *loop;
    _Atomic bool posted;
    bool deaf; /* the core is gone */
    void (*on_news)(void *arg);
    void *arg;
} news_t;

typedef struct {
    core_t core;
    front_t *front;
    news_t *news;
    uint32_t *model_of; /* by the low half of a tag */
} on_threads_t;

static front_t *front_of(const core_t *core)
{
    return CONTAINER_OF(core, on_threads_t, core)->front;
}

/* ---- News from threads ---- */

static void on_news(void *arg)
{
    news_t *news = arg;
    if (news->deaf) {
        free(news);
        return;
    }
    atomic_store_explicit(&news->posted, false, memory_order_release);
    news->on_news(news->arg);
}

static void wake(void *ctx)
{
    news_t *news = ctx;
    if (!atomic_exchange_explicit(&news->posted, true, memory_order_acq_rel))
        loop_post_job(news->loop, &news->job);
}

static news_t *make_news(const backend_options_t *options)
{
    news_t *news = calloc(1, sizeof *news);
    if (news == NULL)
        return NULL;
    *news = (news_t){.loop = options->loop, .on_news = options->on_news, .arg = options->arg};
    news->job.fn = on_news;
    news->job.arg = news;
    return news;
}

/* No thread posts any more. */
static void dispose_news(news_t *news)
{
    if (news == NULL)
        return;
    news->deaf = true;
    if (!atomic_load_explicit(&news->posted, memory_order_acquire))
        free(news);
}

/* ---- Life ---- */

static void destroy(core_t *core)
{
    on_threads_t *made = CONTAINER_OF(core, on_threads_t, core);
    front_destroy(made->front);
    dispose_news(made->news);
    free(made->model_of);
    free(made);
}

static status_t create(const backend_options_t *options, core_t **out, err_t *err)
{
    front_options_t how = {.limits = options->limits,
                           .shard_count = options->shards,
                           .tags_max = options->limits.tasks_max,
                           .policy = options->policy,
                           .params = options->params,
                           .delays = options->delays,
                           .balance_ns = NS_PER_S,
                           .wake = wake};
    on_threads_t *made = calloc(1, sizeof *made);
    if (made == NULL)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the scheduling core");
    made->core.ops = &core_on_threads;
    made->news = make_news(options);
    made->model_of = calloc(options->limits.tasks_max, sizeof *made->model_of);
    how.ctx = made->news;
    status_t status = made->news != NULL && made->model_of != NULL
                          ? front_create(&how, &made->front, err)
                          : err_set(err, STATUS_NO_MEMORY, "no memory for the scheduling core");
    if (status == STATUS_OK)
        *out = &made->core;
    else
        destroy(&made->core);
    return status;
}

static status_t set_policy(core_t *core, const char *name, const char *params, err_t *err)
{
    return front_set_policy(front_of(core), name, params, err);
}

static void set_delays(core_t *core, const sched_delays_t *delays)
{
    front_set_delays(front_of(core), delays);
}

/* ---- Models ---- */

static status_t add_model(core_t *core, uint32_t model, const profile_t *profile,
                          const sched_model_opts_t *opts, err_t *err)
{
    return front_add_model(front_of(core), model, profile, opts, err);
}

static void remove_model(core_t *core, uint32_t model)
{
    (void)front_remove_model(front_of(core), model);
}

static void update_profile(core_t *core, uint32_t model, const profile_t *profile)
{
    (void)front_update_profile(front_of(core), model, profile);
}

/* Only policies that preempt look at them. */
static void set_exit_points(core_t *core, uint32_t model, uint32_t exit_points)
{
    (void)core;
    (void)model;
    (void)exit_points;
}

/* Only modes that need a sched_t look at it; one that makes no sense is refused there. */
static status_t set_inside(core_t *core, uint32_t model, const sched_inside_t *inside, err_t *err)
{
    (void)core;
    (void)model;
    (void)inside;
    (void)err;
    return STATUS_OK;
}

static void allow(core_t *core, uint32_t model, uint32_t gpu, bool allowed)
{
    (void)front_allow(front_of(core), model, gpu, allowed);
}

static bool model_stats(const core_t *core, uint32_t model, sched_model_stats_t *stats)
{
    return front_model_stats(front_of(core), model, stats);
}

static bool model_scatter(const core_t *core, uint32_t model, sched_scatter_t *scatter)
{
    return front_model_scatter(front_of(core), model, scatter);
}

/* ---- GPUs ---- */

static status_t add_gpu(core_t *core, uint32_t gpu, const sched_gpu_mode_t *mode, int64_t free_at_ns)
{
    (void)mode; /* whole */
    return front_add_gpu(front_of(core), gpu, free_at_ns);
}

static void drain_gpu(core_t *core, uint32_t gpu)
{
    (void)front_drain_gpu(front_of(core), gpu);
}

static void remove_gpu(core_t *core, uint32_t gpu)
{
    (void)front_remove_gpu(front_of(core), gpu);
}

static void gpu_free(core_t *core, uint32_t gpu, int64_t free_at_ns)
{
    front_gpu_free(front_of(core), gpu, free_at_ns);
}

/* ---- Tasks and batches ---- */

static status_t submit(core_t *core, uint32_t model, const sched_task_t *task, sched_ref_t *ref)
{
    const on_threads_t *made = CONTAINER_OF(core, on_threads_t, core);
    made->model_of[(uint32_t)task->tag] = model;
    *ref = task->tag;
    return front_submit(made->front, model, task);
}

static bool cancel(core_t *core, sched_ref_t ref)
{
    const on_threads_t *made = CONTAINER_OF(core, on_threads_t, core);
    front_cancel(made->front, made->model_of[(uint32_t)ref], ref);
    return false;
}

static void batch_ran(core_t *core, uint64_t batch, int64_t started_ns, int64_t ended_ns)
{
    front_batch_ran(front_of(core), batch, started_ns, ended_ns);
}

static void batch_ended(core_t *core, uint64_t batch, int64_t free_at_ns)
{
    front_batch_done(front_of(core), batch, free_at_ns);
}

static int64_t run(core_t *core, sched_sink_fn sink, void *ctx)
{
    return front_run(front_of(core), loop_now_ns(), sink, ctx);
}

static double needed(const core_t *core)
{
    return front_needed(front_of(core));
}

static bool take_lateness(core_t *core, int64_t *lateness_ns)
{
    return front_take_lateness(front_of(core), lateness_ns);
}

bool core_can_thread(const char *policy, const char *params, bool stoppable)
{
    double values[POLICY_PARAMS_MAX];
    const policy_ops_t *ops = policy_find(policy);
    if (ops == NULL || ops->routes || ops->stops_all)
        return false;
    return !stoppable || policy_parse(ops, params, values, NULL) != STATUS_OK || !policy_stops(ops, values);
}

const core_ops_t core_on_threads = {
    .where = "threads",
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
