/* The border to the core; what is hot in it is one call deep. */
#include "control/core/subcluster.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Long enough to count what is dropped, short enough that an overload is over before clients give up. */
static const int64_t SHED_WINDOW_NS = 500 * NS_PER_MS;

/* ---- Making ---- */

static void init_autoscale(subcluster_t *sub, int64_t window_ns)
{
    autoscale_params_t params = autoscale_defaults;
    if (window_ns > 0)
        params.window_ns = window_ns;
    autoscale_init(&sub->autoscale.state, &params);
}

static void init_metrics(subcluster_t *sub, metrics_t *m)
{
    sub->metric.idle = metrics_series(m, METRIC_SCHED_DEVICES, sub->name, "free");
    sub->metric.busy = metrics_series(m, METRIC_SCHED_DEVICES, sub->name, "busy");
    sub->metric.strikes = metrics_series(m, METRIC_SCHED_DEVICE_STRIKES, sub->name);
    sub->metric.delay_ctrl = metrics_series(m, METRIC_SCHED_DELAY_SECONDS, sub->name, "ctrl");
    sub->metric.delay_data = metrics_series(m, METRIC_SCHED_DELAY_SECONDS, sub->name, "data");
    sub->metric.delay_wake = metrics_series(m, METRIC_SCHED_DELAY_SECONDS, sub->name, "wake");
    sub->metric.desired = metrics_series(m, METRIC_DESIRED_GPUS, sub->name);
    sub->metric.bad_rate = metrics_series(m, METRIC_SUBCLUSTER_BAD_RATE, sub->name);
    sub->metric.idle_fraction = metrics_series(m, METRIC_SUBCLUSTER_IDLE_FRACTION, sub->name);
    sub->metric.models = metrics_series(m, METRIC_SUBCLUSTER_MODELS, sub->name);
}

static void on_news(void *arg)
{
    subcluster_t *sub = arg;
    sub->dirty = true;
    turn_touch(sub->turn);
}

/* UNSUPPORTED: threads cannot run the policy. */
static status_t make_threads(subcluster_t *sub, const subcluster_options_t *options, err_t *err)
{
    const thread_core_t wish = {.limits = options->limits,
                                .policy = options->policy,
                                .params = options->policy_params,
                                .delays = sub->delays.sched,
                                .on_news = on_news,
                                .news_arg = sub};
    return sub->turn->world.make_threads(sub->turn->arg, &wish, &sub->core, &sub->threads, err);
}

static status_t make_core(subcluster_t *sub, const subcluster_options_t *options, err_t *err)
{
    sched_limits_t limits = options->limits;
    if (sub->turn->world.make_threads) {
        status_t status = make_threads(sub, options, err);
        if (status != STATUS_UNSUPPORTED)
            return status;
        note_info(sub->turn, "core_not_on_threads", LOG_STR("subcluster", sub->name), LOG_ERR(err));
    }
    limits.gpu_inflight_max = subcluster_inflight_most(options->limits.gpu_inflight_max);
    return core_single_create(&limits, sub->turn->now_ns, options->policy, options->policy_params,
                              &sub->delays.sched, &sub->core, err);
}

static status_t fill(subcluster_t *sub, const subcluster_options_t *options, err_t *err)
{
    int64_t delay_ns = options->initial_delay_ns;
    sub->turn = options->turn;
    sub->index = options->index;
    sub->devices_max = options->limits.gpus_max;
    sub->wake_ns = SCHED_NEVER;
    sub->share = 1;
    shed_init(&sub->shed, SHED_WINDOW_NS);
    (void)snprintf(sub->name, sizeof sub->name, "%s", options->name);
    (void)snprintf(sub->device_class, sizeof sub->device_class, "%s", options->device_class);
    init_autoscale(sub, options->autoscale_window_ns);
    init_metrics(sub, options->turn->metrics);
    sub->devices = calloc(sub->devices_max, sizeof(*sub->devices));
    if (!sub->devices)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %u devices", sub->devices_max);
    sub->delays.sched = (sched_delays_t){.ctrl_ns = delay_ns, .fixed_ns = delay_ns, .wake_ns = delay_ns};
    sub->delays.push_bound_ns = delay_ns;
    sub->plain_inflight = options->limits.gpu_inflight_max;
    return make_core(sub, options, err);
}

status_t subcluster_create(const subcluster_options_t *options, subcluster_t **out, err_t *err)
{
    subcluster_t *sub = calloc(1, sizeof *sub);
    if (!sub)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a sub-cluster");
    status_t status = fill(sub, options, err);
    if (status != STATUS_OK) {
        subcluster_destroy(sub);
        return status;
    }
    *out = sub;
    return STATUS_OK;
}

void subcluster_destroy(subcluster_t *sub)
{
    if (!sub)
        return;
    if (sub->core)
        sub->core->ops->destroy(sub->core);
    if (sub->threads)
        sub->turn->world.release_threads(sub->threads);
    free(sub->devices);
    free(sub);
}

/* What a policy takes does not depend on the size of its core. */
status_t subcluster_check_policy(const char *name, const char *params, err_t *err)
{
    const sched_limits_t smallest = {.models_max = 1, .gpus_max = 1, .tasks_max = 1, .batch_max = 1};
    sched_t *core = sched_create(&smallest, err);
    status_t status = core ? sched_set_policy(core, 0, name, params, err) : err->code;
    sched_destroy(core);
    return status;
}

/* Of what threads cannot do. */
static status_t name_remedy(status_t status, err_t *err)
{
    if (status != STATUS_UNSUPPORTED)
        return status;
    const err_t why = *err;
    return err_set(err, status, "%s: start the scheduler with --shards 0", why.text);
}

/* Once for each policy: who asked for mode `preempt` should know that it changes nothing. */
static void hint_at_stopping(subcluster_t *sub)
{
    err_t why = {0};
    if (!sub->stoppable || sub->hinted || sub->core->ops->stops(sub->core, &why))
        return;
    sub->hinted = true;
    if (sub->core->ops->threads)
        (void)name_remedy(why.code, &why);
    note_warn(sub->turn, "policy_never_stops", LOG_STR("policy", subcluster_policy(sub)),
              LOG_STR("reason", why.text));
}

status_t subcluster_set_policy(subcluster_t *sub, const char *name, const char *params, err_t *err)
{
    sub->dirty = true;
    status_t status = sub->core->ops->set_policy(sub->core, sub->turn->now_ns, name, params, err);
    if (status == STATUS_OK) {
        sub->hinted = false;
        hint_at_stopping(sub);
    }
    return name_remedy(status, err);
}

const char *subcluster_policy(const subcluster_t *sub)
{
    return sub->core->ops->policy(sub->core);
}

/* ---- Models ---- */

status_t subcluster_add_model(subcluster_t *sub, uint32_t model, const profile_t *profile, int64_t slo_ns,
                              err_t *err)
{
    sched_model_opts_t opts = {.slo_ns = slo_ns};
    sub->dirty = true;
    return sub->core->ops->add_model(sub->core, sub->turn->now_ns, model, profile, &opts, err);
}

void subcluster_remove_model(subcluster_t *sub, uint32_t model)
{
    sub->dirty = true;
    sub->core->ops->remove_model(sub->core, sub->turn->now_ns, model);
}

void subcluster_update_profile(subcluster_t *sub, uint32_t model, const profile_t *profile)
{
    sub->dirty = true;
    sub->core->ops->update_profile(sub->core, sub->turn->now_ns, model, profile);
}

void subcluster_set_exit_points(subcluster_t *sub, uint32_t model, uint32_t exit_points)
{
    sub->core->ops->set_exit_points(sub->core, model, exit_points);
    sub->stoppable |= exit_points > 0;
    hint_at_stopping(sub);
}

bool subcluster_set_inside(subcluster_t *sub, uint32_t model, const sched_inside_t *inside, err_t *err)
{
    sub->dirty = true;
    return sub->core->ops->set_inside(sub->core, sub->turn->now_ns, model, inside, err) == STATUS_OK;
}

void subcluster_allow(subcluster_t *sub, uint32_t model, uint32_t gpu, bool allowed)
{
    sub->dirty = true;
    sub->core->ops->allow(sub->core, sub->turn->now_ns, model, gpu, allowed);
}

void subcluster_model_stats(const subcluster_t *sub, uint32_t model, sched_model_stats_t *stats)
{
    *stats = (sched_model_stats_t){0};
    (void)sub->core->ops->model_stats(sub->core, model, stats);
}

void subcluster_model_scatter(const subcluster_t *sub, uint32_t model, sched_scatter_t *scatter)
{
    *scatter = (sched_scatter_t){.mean = 1, .guard = 1};
    (void)sub->core->ops->model_scatter(sub->core, model, scatter);
}

bool subcluster_backlog(const subcluster_t *sub, uint32_t model, sched_backlog_t *backlog)
{
    return sub->core->ops->backlog(sub->core, sub->turn->now_ns, model, backlog);
}

void subcluster_note_refused(subcluster_t *sub, uint32_t model, uint32_t count)
{
    sub->core->ops->note_refused(sub->core, model, count);
}

/* ---- Devices ---- */

uint32_t subcluster_seat(subcluster_t *sub, device_t *device)
{
    for (uint32_t gpu = 0; gpu < sub->devices_max; gpu++) {
        if (sub->devices[gpu])
            continue;
        sub->devices[gpu] = device;
        sub->device_count++;
        return gpu;
    }
    return UINT32_MAX;
}

void subcluster_unseat(subcluster_t *sub, uint32_t gpu)
{
    sub->devices[gpu] = NULL;
    sub->device_count--;
}

status_t subcluster_open(subcluster_t *sub, uint32_t gpu, const sched_gpu_mode_t *mode, int64_t free_at_ns,
                         err_t *err)
{
    sched_gpu_mode_t own = *mode;
    if (own.inflight > DEVICE_INFLIGHT_MOST)
        own.inflight = DEVICE_INFLIGHT_MOST;
    if (own.inflight < sub->plain_inflight)
        own.inflight = sub->plain_inflight;
    sub->dirty = true;
    return name_remedy(sub->core->ops->add_gpu(sub->core, sub->turn->now_ns, gpu, &own, free_at_ns, err),
                       err);
}

void subcluster_drain(subcluster_t *sub, uint32_t gpu)
{
    sub->dirty = true;
    sub->core->ops->drain_gpu(sub->core, sub->turn->now_ns, gpu);
}

void subcluster_close(subcluster_t *sub, uint32_t gpu)
{
    sub->dirty = true;
    sub->core->ops->remove_gpu(sub->core, sub->turn->now_ns, gpu);
}

void subcluster_free_at(subcluster_t *sub, uint32_t gpu, int64_t free_at_ns)
{
    sub->dirty = true;
    sub->core->ops->gpu_free(sub->core, sub->turn->now_ns, gpu, free_at_ns);
}

/* ---- Tasks and batches ---- */

status_t subcluster_submit(subcluster_t *sub, uint32_t model, const sched_task_t *task, sched_ref_t *ref)
{
    sub->dirty = true;
    return sub->core->ops->submit(sub->core, sub->turn->now_ns, model, task, ref);
}

bool subcluster_cancel(subcluster_t *sub, sched_ref_t ref)
{
    sub->dirty = true;
    return sub->core->ops->cancel(sub->core, sub->turn->now_ns, ref);
}

void subcluster_batch_ran(subcluster_t *sub, uint64_t batch, int64_t started_ns, int64_t ended_ns)
{
    sub->dirty = true;
    sub->core->ops->batch_ran(sub->core, sub->turn->now_ns, batch, started_ns, ended_ns);
}

void subcluster_batch_ended(subcluster_t *sub, uint64_t batch, int64_t free_at_ns)
{
    sub->dirty = true;
    sub->core->ops->batch_ended(sub->core, sub->turn->now_ns, batch, free_at_ns);
}

bool subcluster_is_due(const subcluster_t *sub, int64_t now_ns)
{
    return sub->wake_ns <= now_ns || sub->core->ops->threads;
}

void subcluster_run(subcluster_t *sub, sched_sink_fn sink, void *ctx)
{
    sub->dirty = false; /* first: what the sink says about this sub-cluster is for the next run */
    sub->wake_ns = sub->core->ops->run(sub->core, sub->turn->now_ns, sink, ctx);
    int64_t lateness_ns;
    int64_t now_ns = sub->turn->now_ns;
    if (sub->core->ops->take_lateness(sub->core, &lateness_ns) &&
        !stall_excuses(&sub->turn->stall, now_ns - lateness_ns))
        delay_add(&sub->delays.lateness, now_ns, lateness_ns);
}

void subcluster_note_busy(subcluster_t *sub, int64_t device_ns)
{
    sub->sums.busy_ns += (uint64_t)((double)device_ns * sub->core->ops->needed(sub->core));
}

/* ---- Delays ---- */

static int64_t at_most(int64_t value_ns, int64_t most_ns)
{
    return value_ns < most_ns ? value_ns : most_ns;
}

/* What goes before a batch takes at most a quarter of the shortest SLO: on a host so bad that more was measured it is
 * better to try than to refuse everything, and only what is tried brings new measurements. */
static sched_delays_t lead_of(delay_bounds_t ctrl, const fetch_bounds_t *fetch, int64_t shortest_slo_ns)
{
    enum { LEAD_SHARE = 4, LEAD_PARTS = 3, LEAD_BATCH = 32 };
    int64_t most_ns = shortest_slo_ns / (LEAD_SHARE * LEAD_PARTS);
    sched_delays_t lead = {.ctrl_ns = at_most(ctrl.most_ns, most_ns),
                           .fixed_ns = at_most(fetch->fixed.most_ns, most_ns),
                           .data_ns = at_most(fetch->per_task_ns, most_ns / LEAD_BATCH)};
    lead.ctrl_rare_ns = lead.ctrl_ns - at_most(ctrl.many_ns, most_ns);
    lead.fixed_rare_ns = lead.fixed_ns - at_most(fetch->fixed.many_ns, most_ns);
    return lead;
}

/* A decision later than its bound can lose requests whose model gains little by batching, where an earlier one only costs
 * a few in a batch, and of a hundred or fewer samples the next one is the largest too often. */
enum { WAKE_SAFETY = 2 };

void subcluster_update_delays(subcluster_t *sub, int64_t now_ns, delay_bounds_t ctrl, int64_t wake_ns,
                              int64_t shortest_slo_ns, int64_t fallback_ns)
{
    fetch_bounds_t fetch = fetch_delay_bounds(&sub->delays.fetch, now_ns, fallback_ns);
    sched_delays_t delays = lead_of(ctrl, &fetch, shortest_slo_ns);
    delays.wake_ns =
        WAKE_SAFETY *
        (sub->core->ops->threads ? delay_bound_ns(&sub->delays.lateness, now_ns, fallback_ns) : wake_ns);
    sub->delays.push_bound_ns = delay_bound_ns(&sub->delays.push, now_ns, fallback_ns);
    sub->delays.usual_ns = delay_quantile_ns(&sub->delays.push, 0.5, 0) +
                           delay_quantile_ns(&sub->delays.fetch.classes[0], 0.5, 0);
    if (memcmp(&delays, &sub->delays.sched, sizeof delays) == 0)
        return;
    sub->delays.sched = delays;
    sub->dirty = true;
    sub->core->ops->set_delays(sub->core, now_ns, &delays);
}

/* ---- Size ---- */

/* Devices to release are named once in many windows: the wish stands while as many are still idle. */
static bool still_spare(const subcluster_t *sub)
{
    const autoscale_t *scale = &sub->autoscale.state;
    double spare = sub->autoscale.devices * (scale->idle_fraction - scale->params.idle_reserve);
    return scale->bad_rate <= scale->params.bad_limit &&
           sub->autoscale.desired + spare >= (double)sub->autoscale.devices - 1;
}

void subcluster_autoscale(subcluster_t *sub, uint32_t devices)
{
    autoscale_t *scale = &sub->autoscale.state;
    int32_t advice = autoscale_observe(scale, sub->turn->now_ns, devices, &sub->sums);
    bool resized = devices != sub->autoscale.devices, judged = scale->begun_ns != sub->autoscale.window_ns;
    sub->autoscale.devices = devices;
    sub->autoscale.window_ns = scale->begun_ns;
    if (judged && !resized)
        sub->autoscale.busy_fraction = 1 - scale->idle_fraction;
    if (devices == 0)
        sub->autoscale.desired = sub->sums.requests > 0;
    else if (advice != 0 || resized)
        sub->autoscale.desired = (uint32_t)((int64_t)devices + advice);
    else if (judged && (sub->autoscale.desired > devices || !still_spare(sub)))
        sub->autoscale.desired = devices;
}
