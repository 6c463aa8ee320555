/*
 * A model can be served where a worker has it ready on devices that take grants. Of those, in this order: the
 * one that the configuration names; the one of the last plan; the one where it is, as long as its SLO can be
 * met there; and of the others first those where the SLO can be met, then the one with most room. A model of
 * which nothing has been asked yet also leaves a home for one with more room. What waits when a model moves
 * is queued at its new home.
 */
#include "scheduler/placement.h"

#include "base/clock.h"
#include "base/log.h"
#include "loop/loop.h"
#include "scheduler/catalogue.h"
#include "scheduler/devices.h"
#include "scheduler/registry.h"
#include "scheduler/service.h"
#include "scheduler/shapes.h"
#include "scheduler/subcluster.h"
#include "scheduler/subclusters.h"
#include "scheduler/workers.h"

#include <string.h>

/* By then what failed once on a worker has been tried on another, or is too late. */
enum { SHUN_MOST_MS = 1000 };

/* ---- What a model finds in a sub-cluster ---- */

bool placement_ready(const instance_t *instance)
{
    return instance->state == CONTROL__MODEL_STATE__MODEL_STATE_READY && !instance->conflict;
}

bool placement_draining(const instance_t *instance)
{
    return instance->state == CONTROL__MODEL_STATE__MODEL_STATE_UNLOADING && !instance->conflict &&
           !instance->released;
}

bool placement_any(const model_t *model, bool (*is)(const instance_t *instance))
{
    for (const instance_t *i = model->instances; i != NULL; i = i->next)
        if (is(i))
            return true;
    return false;
}

bool placement_usable(const model_t *model, const instance_t *instance)
{
    return placement_ready(instance) || (model->staying && placement_draining(instance));
}

static bool is_able(const instance_t *instance)
{
    return placement_ready(instance) || placement_draining(instance);
}

/* Takes tasks. One that drains does where nobody else can. */
static bool serves(const model_t *model, const instance_t *instance)
{
    return placement_usable(model, instance) ||
           (placement_draining(instance) && !placement_any(model, placement_ready));
}

static bool holds(const instance_t *instance, uint32_t device)
{
    return (instance->devices[device / 64] >> device % 64 & 1) != 0;
}

bool placement_runs_on(const model_t *model, const device_t *device)
{
    for (const instance_t *i = model->instances; i != NULL; i = i->next)
        if (i->worker == device->worker)
            return serves(model, i) && i->shunned_until_ns == 0 && holds(i, device->index);
    return false;
}

/* Whether any device of the worker that holds the model is in the sub-cluster; serving: and takes grants. */
static bool reaches(const instance_t *instance, const subcluster_t *sub, bool serving)
{
    for (uint32_t d = 0; d < instance->worker->device_count; d++) {
        const device_t *device = &instance->worker->devices[d];
        if (device->subcluster == sub && holds(instance, d) && (!serving || device_serves(device)))
            return true;
    }
    return false;
}

static bool served_at(const model_t *model, const subcluster_t *sub)
{
    for (const instance_t *i = model->instances; i != NULL; i = i->next)
        if (serves(model, i) && reaches(i, sub, true))
            return true;
    return false;
}

bool placement_counts(const instance_t *instance, const subcluster_t *sub)
{
    return is_able(instance) && reaches(instance, sub, false);
}

/* The slowest that was reported there: devices of one class differ little. False: nobody has it there. */
static bool profile_at(const model_t *model, const subcluster_t *sub, profile_t *profile)
{
    bool any = false;
    for (const instance_t *i = model->instances; i != NULL; i = i->next) {
        if (!placement_counts(i, sub))
            continue;
        if (any)
            profile_merge_slower(profile, &i->profile);
        else
            *profile = i->profile;
        any = true;
    }
    return any;
}

/* The fewest that were reported there: what cannot stop must not be asked to. */
static uint32_t exit_points_at(const model_t *model, const subcluster_t *sub)
{
    uint32_t fewest = UINT32_MAX;
    for (const instance_t *i = model->instances; i != NULL; i = i->next)
        if (placement_counts(i, sub) && i->report->exit_points < fewest)
            fewest = i->report->exit_points;
    return fewest == UINT32_MAX ? 0 : fewest;
}

/* Of the first that reports stages, or parts that it keeps busy: devices of one class differ little. */
static sched_inside_t inside_at(const model_t *model, const subcluster_t *sub)
{
    sched_inside_t inside = {0};
    for (const instance_t *i = model->instances; i != NULL; i = i->next) {
        const Control__ModelReport *report = i->report;
        bool tells = report->n_stage_until > 0 || report->busy_fixed > 0 || report->busy_row > 0;
        if (!is_able(i) || !reaches(i, sub, false) || !tells)
            continue;
        inside.stages = report->n_stage_until <= SCHED_STAGES_MAX ? (uint32_t)report->n_stage_until : 0;
        for (uint32_t s = 0; s < inside.stages; s++)
            inside.until[s] =
                report->stage_until[s] < SCHED_WHOLE ? (uint16_t)report->stage_until[s] : SCHED_WHOLE;
        inside.comp_wait_ns = peer_duration(&i->worker->peer, report->comp_wait_ns);
        inside.busy_fixed = report->busy_fixed < SCHED_WHOLE ? report->busy_fixed : SCHED_WHOLE;
        inside.busy_row = report->busy_row < SCHED_WHOLE ? report->busy_row : SCHED_WHOLE;
        break;
    }
    return inside;
}

/* ---- Choosing ---- */

static bool feasible_at(const model_t *model, const subcluster_t *sub)
{
    profile_t profile;
    if (model->slo_ns <= 0 || !profile_at(model, sub, &profile))
        return true;
    const sched_delays_t *delays = &sub->delays.sched;
    return profile_latency_ns(&profile, 1) + delays->ctrl_ns + delays->fixed_ns + delays->data_ns <=
           model->slo_ns;
}

/* With this model: the part of its devices' time that is taken, and a little for every model, so that idle sub-clusters
 * are filled evenly. */
static double crowding(const scheduler_t *s, const subcluster_t *sub, const model_t *model)
{
    const double model_weight = 0.01;
    uint32_t models = 0;
    for (uint32_t m = 0; m < s->model_count; m++)
        models += s->models[m]->home == sub || s->models[m] == model;
    return sub->autoscale.busy_fraction + model_weight * models / (sub->device_count + 1);
}

static const char *configured_home(const scheduler_t *s, const model_t *model)
{
    size_t len = strlen(model->name);
    for (uint32_t i = 0; i < s->options.placement_count; i++)
        if (strncmp(s->options.placements[i], model->name, len) == 0 && s->options.placements[i][len] == '=')
            return s->options.placements[i] + len + 1;
    return NULL;
}

static subcluster_t *roomiest(const scheduler_t *s, const model_t *model)
{
    subcluster_t *best = NULL;
    bool best_feasible = false;
    for (uint32_t i = 0; i < s->subcluster_count; i++) {
        subcluster_t *sub = s->subclusters[i];
        if (!served_at(model, sub))
            continue;
        bool feasible = feasible_at(model, sub);
        if (best != NULL &&
            (feasible < best_feasible ||
             (feasible == best_feasible && crowding(s, sub, model) >= crowding(s, best, model))))
            continue;
        best = sub;
        best_feasible = feasible;
    }
    return best;
}

static bool stays_at_home(const scheduler_t *s, const model_t *model, const subcluster_t *best)
{
    sched_model_stats_t stats;
    if (model->home == NULL || !served_at(model, model->home) || !feasible_at(model, model->home))
        return false;
    placement_stats(model, &stats);
    return stats.submitted > 0 || crowding(s, model->home, model) <= crowding(s, best, model);
}

static subcluster_t *choose(const scheduler_t *s, const model_t *model)
{
    const char *name = configured_home(s, model);
    subcluster_t *named = name != NULL ? subclusters_find(s, name) : NULL;
    if (named != NULL && served_at(model, named))
        return named;
    if (model->planned != NULL && served_at(model, model->planned))
        return model->planned;
    subcluster_t *best = roomiest(s, model);
    if (best == NULL) /* nobody takes grants: what waits may still find its workers back */
        return model->home;
    return stays_at_home(s, model, best) ? model->home : best;
}

/* ---- Following ---- */

static void move_in(model_t *model, subcluster_t *home)
{
    err_t err = {0};
    status_t status = profile_at(model, home, &model->profile)
                          ? subcluster_add_model(home, model->id, &model->profile, model->slo_ns, &err)
                          : err_set(&err, STATUS_NOT_FOUND, "no profile");
    if (status != STATUS_OK) {
        log_error("model_refused", LOG_STR("model", model->name), LOG_STR("subcluster", home->name),
                  LOG_ERR(&err));
        return;
    }
    model->home = home;
    log_info("model_placed", LOG_STR("model", model->name), LOG_I64("version", model->version),
             LOG_STR("subcluster", home->name));
}

void placement_leave(scheduler_t *s, model_t *model)
{
    if (model->home == NULL)
        return;
    subcluster_remove_model(model->home, model->id);
    shapes_move_out(model);
    model->home = NULL;
    scheduler_touch(s);
}

static void follow_profile(model_t *model)
{
    profile_t fresh;
    shapes_update_profiles(model);
    if (!profile_at(model, model->home, &fresh) || memcmp(&fresh, &model->profile, sizeof fresh) == 0)
        return;
    model->profile = fresh;
    subcluster_update_profile(model->home, model->id, &fresh);
}

void placement_allow(const model_t *model, const device_t *device)
{
    bool allowed = placement_runs_on(model, device);
    subcluster_allow(model->home, model->id, device->gpu, allowed);
    shapes_allow(model, device->gpu, allowed);
}

static bool anyone_else(const model_t *model, const worker_t *worker)
{
    for (const instance_t *i = model->instances; i != NULL; i = i->next)
        if (i->worker != worker && placement_ready(i) && i->shunned_until_ns == 0 &&
            reaches(i, model->home, true))
            return true;
    return false;
}

static void allow_devices(model_t *model)
{
    subcluster_t *home = model->home;
    for (instance_t *i = model->instances; i != NULL; i = i->next)
        if (i->shunned_until_ns != 0 && !anyone_else(model, i->worker))
            i->shunned_until_ns = 0;
    for (uint32_t gpu = 0; gpu < home->devices_max; gpu++)
        if (home->devices[gpu] != NULL && home->devices[gpu]->open)
            placement_allow(model, home->devices[gpu]);
}

void placement_follow_inside(const model_t *model, uint32_t core_id, bool suits_mode)
{
    err_t err = {0};
    sched_inside_t inside = {0};
    if (suits_mode)
        inside = inside_at(model, model->home);
    subcluster_set_exit_points(model->home, core_id, exit_points_at(model, model->home));
    if (!subcluster_set_inside(model->home, core_id, &inside, &err))
        log_warn("model_inside_refused", LOG_STR("model", model->name), LOG_ERR(&err));
}

void placement_settle(scheduler_t *s, model_t *model)
{
    subcluster_t *home = model->ready ? choose(s, model) : model->home;
    if (home != model->home)
        placement_leave(s, model);
    if (home != NULL && model->home == NULL)
        move_in(model, home);
    else if (home != NULL)
        follow_profile(model);
    if (model->home != NULL) {
        placement_follow_inside(model, model->id, true);
        shapes_follow_inside(model);
        allow_devices(model);
    }
    scheduler_touch(s);
}

bool placement_move(scheduler_t *s, model_t *model, subcluster_t *to)
{
    if (!served_at(model, to))
        return false;
    model->planned = to;
    placement_settle(s, model);
    return model->home == to;
}

bool placement_is_configured(const scheduler_t *s, const model_t *model)
{
    return configured_home(s, model) != NULL;
}

void placement_devices_changed(worker_t *worker)
{
    scheduler_t *s = worker->peer.scheduler;
    for (uint32_t m = 0; m < s->model_count; m++)
        for (const instance_t *i = s->models[m]->instances; i != NULL; i = i->next)
            if (i->worker == worker)
                placement_settle(s, s->models[m]);
}

void placement_shun(scheduler_t *s, model_t *model, const worker_t *worker, int64_t until_ns)
{
    int64_t most_ns = loop_now_ns() + SHUN_MOST_MS * NS_PER_MS;
    if (model->home == NULL)
        return;
    for (instance_t *i = model->instances; i != NULL; i = i->next)
        if (i->worker == worker)
            i->shunned_until_ns = until_ns < most_ns ? until_ns : most_ns;
    allow_devices(model);
    scheduler_touch(s);
}

void placement_tick(scheduler_t *s)
{
    int64_t now_ns = loop_now_ns();
    for (uint32_t m = 0; m < s->model_count; m++) {
        bool over = false;
        for (instance_t *i = s->models[m]->instances; i != NULL; i = i->next) {
            if (i->shunned_until_ns == 0 || i->shunned_until_ns > now_ns)
                continue;
            i->shunned_until_ns = 0;
            over = true;
        }
        if (over && s->models[m]->home != NULL)
            allow_devices(s->models[m]);
    }
}

void placement_stats(const model_t *model, sched_model_stats_t *stats)
{
    *stats = (sched_model_stats_t){0};
    if (model->home != NULL)
        subcluster_model_stats(model->home, model->id, stats);
    shapes_add_stats(model, stats);
}

void placement_scatter(const model_t *model, sched_scatter_t *scatter)
{
    *scatter = (sched_scatter_t){.mean = 1, .guard = 1};
    if (model->home != NULL)
        subcluster_model_scatter(model->home, model->id, scatter);
    shapes_widen_scatter(model, scatter);
}
