/*
 * A model can be served where a worker has it ready on devices that take grants. Of those, in this order: the
 * one that the configuration names; the one of the last plan; the one where it is, as long as its SLO can be
 * met there; and of the others first those where the SLO can be met, then the one with most room. A model of
 * which nothing has been asked yet also leaves a home for one with more room. What waits when a model moves
 * is queued at its new home.
 */
#include "control/models/placement.h"

#include "base/clock.h"
#include "control/models/commands.h"
#include "control/models/instance.h"
#include "control/models/shapes.h"

#include <string.h>

/* By then what failed once on a worker has been tried on another, or is too late. */
enum { SHUN_MOST_MS = 1000 };
/* As long as measuring may well take. */
static const int64_t MEASURE_PAUSE_NS = 60 * NS_PER_S;

/* ---- Choosing ---- */

static bool feasible_at(const model_t *model, const subcluster_t *sub)
{
    profile_t profile;
    if (model->slo_ns <= 0 || !model_profile_at(model, sub, &profile))
        return true;
    const sched_delays_t *delays = &sub->delays.sched;
    return profile_latency_ns(&profile, 1) + delays->ctrl_ns + delays->fixed_ns + delays->data_ns <=
           model->slo_ns;
}

/* With this model: the part of its devices' time that is taken, and a little for every model, so that idle sub-clusters
 * are filled evenly. */
static double crowding(const models_t *models, const subcluster_t *sub, const model_t *model)
{
    const double model_weight = 0.01;
    uint32_t here = 0;
    for (uint32_t m = 0; m < models->count; m++)
        here += models->all[m]->home == sub || models->all[m] == model;
    return sub->autoscale.busy_fraction + model_weight * here / (sub->device_count + 1);
}

static const char *configured_home(const models_t *models, const model_t *model)
{
    size_t len = strlen(model->name);
    for (uint32_t i = 0; i < models->turn->options.placement_count; i++)
        if (strncmp(models->turn->options.placements[i], model->name, len) == 0 &&
            models->turn->options.placements[i][len] == '=')
            return models->turn->options.placements[i] + len + 1;
    return NULL;
}

static subcluster_t *roomiest(const models_t *models, const model_t *model)
{
    subcluster_t *best = NULL;
    bool best_feasible = false;
    for (uint32_t i = 0; i < models->subclusters->count; i++) {
        subcluster_t *sub = models->subclusters->all[i];
        if (!model_is_served_at(model, sub))
            continue;
        bool feasible = feasible_at(model, sub);
        if (best &&
            (feasible < best_feasible ||
             (feasible == best_feasible && crowding(models, sub, model) >= crowding(models, best, model))))
            continue;
        best = sub;
        best_feasible = feasible;
    }
    return best;
}

static bool stays_at_home(const models_t *models, const model_t *model, const subcluster_t *best)
{
    sched_model_stats_t stats;
    if (!model->home || !model_is_served_at(model, model->home) || !feasible_at(model, model->home))
        return false;
    placement_stats(model, &stats);
    return stats.submitted > 0 || crowding(models, model->home, model) <= crowding(models, best, model);
}

static subcluster_t *choose(const models_t *models, const model_t *model)
{
    const char *name = configured_home(models, model);
    subcluster_t *named = name ? subclusters_find(models->subclusters, name) : NULL;
    if (named && model_is_served_at(model, named))
        return named;
    if (model->planned && model_is_served_at(model, model->planned))
        return model->planned;
    subcluster_t *best = roomiest(models, model);
    if (!best) /* nobody takes grants: what waits may still find its workers back */
        return model->home;
    return stays_at_home(models, model, best) ? model->home : best;
}

/* ---- Following ---- */

static void move_in(model_t *model, subcluster_t *home)
{
    err_t err = {0};
    status_t status = model_profile_at(model, home, model->profile)
                          ? subcluster_add_model(home, model->id, model->profile, model->slo_ns, &err)
                          : err_set(&err, STATUS_NOT_FOUND, "no profile");
    if (status != STATUS_OK) {
        note_error(home->turn, "model_refused", LOG_STR("model", model->name),
                   LOG_STR("subcluster", home->name), LOG_ERR(&err));
        return;
    }
    model->home = home;
    note_info(home->turn, "model_placed", LOG_STR("model", model->name), LOG_I64("version", model->version),
              LOG_STR("subcluster", home->name));
}

void placement_leave(models_t *models, model_t *model)
{
    if (!model->home)
        return;
    subcluster_remove_model(model->home, model->id);
    shapes_move_out(model);
    model->home = NULL;
    turn_touch(models->turn);
}

static void follow_profile(model_t *model)
{
    profile_t fresh;
    shapes_update_profiles(model);
    if (!model_profile_at(model, model->home, &fresh) || memcmp(&fresh, model->profile, sizeof fresh) == 0)
        return;
    *model->profile = fresh;
    subcluster_update_profile(model->home, model->id, &fresh);
}

void placement_allow(const model_t *model, const device_t *device)
{
    bool allowed = model_runs_on(model, device);
    subcluster_allow(model->home, model->id, device->gpu, allowed);
    shapes_allow(model, device->gpu, allowed);
}

static bool may_serve(const model_t *model, const instance_t *instance)
{
    return instance_is_ready(instance) && !instance->outlier && instance_reaches(instance, model->home, true);
}

bool placement_has_another(const model_t *model, const worker_t *worker)
{
    for (const instance_t *i = model->instances; i; i = i->next)
        if (i->worker != worker && may_serve(model, i) && i->standing.state != STANDING_SHUNNED)
            return true;
    return false;
}

/* Also while that one is not granted anything for a moment. */
static bool has_another_trusted(const model_t *model, const worker_t *worker)
{
    for (const instance_t *i = model->instances; i; i = i->next)
        if (i->worker != worker && may_serve(model, i) && i->standing.state == STANDING_TRUSTED)
            return true;
    return false;
}

/* Whoever is there is better than nobody; first who is on trial already. */
static void pardon(model_t *model, standing_state_t state)
{
    for (instance_t *i = model->instances; i; i = i->next)
        if (i->standing.state == state && !has_another_trusted(model, i->worker))
            standing_pardon(&i->standing);
}

/* Likewise of those who are not granted anything for a moment: the one that has been so longest. */
static void recall(model_t *model)
{
    instance_t *longest = NULL;
    for (instance_t *i = model->instances; i; i = i->next) {
        if (!may_serve(model, i))
            continue;
        if (instance_is_believed(i))
            return;
        if (i->shunned_until_ns != 0 && (!longest || i->shunned_until_ns < longest->shunned_until_ns))
            longest = i;
    }
    if (longest)
        longest->shunned_until_ns = 0;
}

static void allow_devices(model_t *model)
{
    subcluster_t *home = model->home;
    pardon(model, STANDING_TRIED);
    pardon(model, STANDING_SHUNNED);
    recall(model);
    for (uint32_t gpu = 0; gpu < home->devices_max; gpu++)
        if (home->devices[gpu] && home->devices[gpu]->open)
            placement_allow(model, home->devices[gpu]);
}

static void note_outlier(const model_t *model, const instance_t *instance)
{
    note_warn(instance->worker->peer.turn, "profile_outlier", LOG_STR("model", model->name),
              LOG_STR("worker", instance->worker->peer.name),
              LOG_MS("latency_ms", profile_latency_ns(&instance->profile, 1)),
              LOG_STR("reason", "others who have the model are far quicker: it is granted nothing there "
                                "until it is measured anew"));
}

void placement_settle(models_t *models, model_t *model)
{
    model_mark_outliers(model, note_outlier);
    subcluster_t *home = model->ready ? choose(models, model) : model->home;
    if (home != model->home)
        placement_leave(models, model);
    if (home && !model->home)
        move_in(model, home);
    else if (home)
        follow_profile(model);
    if (model->home) {
        model_tell_inside(model, model->id, true);
        shapes_follow_inside(model);
        allow_devices(model);
    }
    turn_touch(models->turn);
}

static bool is_of_no_use(const models_t *models, const subcluster_t *sub)
{
    if (sub->declared || sub->device_count > 0)
        return false;
    for (uint32_t m = 0; m < models->count; m++)
        if (models->all[m]->home == sub || models->all[m]->planned == sub)
            return false;
    return true;
}

/* A worker that comes back soon finds its own. */
static const int64_t OF_NO_USE_NS = 60 * NS_PER_S;

static void tick_subclusters(const models_t *models)
{
    subclusters_t *subs = models->subclusters;
    int64_t now_ns = models->turn->now_ns;
    for (uint32_t i = subs->count; i-- > 0;) {
        subcluster_t *sub = subs->all[i];
        if (!is_of_no_use(models, sub))
            sub->idle_since_ns = 0;
        else if (sub->idle_since_ns == 0)
            sub->idle_since_ns = now_ns;
        else if (now_ns - sub->idle_since_ns > OF_NO_USE_NS)
            subclusters_remove(subs, i);
    }
}

void placement_make_room(models_t *models)
{
    subclusters_t *subs = models->subclusters;
    if (subs->count < SUBCLUSTERS_MAX)
        return;
    for (uint32_t i = subs->count; i-- > 0;)
        if (is_of_no_use(models, subs->all[i]))
            subclusters_remove(subs, i);
}

bool placement_move(models_t *models, model_t *model, subcluster_t *to)
{
    if (!model_is_served_at(model, to))
        return false;
    model->planned = to;
    placement_settle(models, model);
    return model->home == to;
}

bool placement_is_configured(const models_t *models, const model_t *model)
{
    return configured_home(models, model);
}

void placement_devices_changed(models_t *models, const worker_t *worker)
{
    for (uint32_t m = 0; m < models->count; m++)
        for (const instance_t *i = models->all[m]->instances; i; i = i->next)
            if (i->worker == worker)
                placement_settle(models, models->all[m]);
}

static void settle_devices(models_t *models, model_t *model)
{
    if (model->home)
        allow_devices(model);
    turn_touch(models->turn);
}

void placement_shun(models_t *models, model_t *model, const worker_t *worker, int64_t until_ns)
{
    int64_t most_ns = models->turn->now_ns + SHUN_MOST_MS * NS_PER_MS;
    instance_t *instance = instance_of(model, worker);
    if (!model->home || !instance)
        return;
    instance->shunned_until_ns = until_ns < most_ns ? until_ns : most_ns;
    settle_devices(models, model);
}

static void note_standing(const models_t *models, const model_t *model, const instance_t *instance)
{
    note_info(models->turn,
              instance->standing.state == STANDING_TRIED ? "worker_on_trial" : "worker_trusted_again",
              LOG_STR("worker", instance->worker->peer.name), LOG_STR("model", model->name));
}

/* At once, then after 1, 2, 4, … minutes, an hour at most: a host that was asleep is awake by the first, and one that is so slow is not asked
 * for ever. What it reports then makes it an outlier no more, or leaves it one. */
static void ask_to_measure(const models_t *models, const model_t *model, instance_t *instance)
{
    enum { DOUBLINGS_MOST = 6 };
    int64_t now_ns = models->turn->now_ns;
    if (!instance->outlier || now_ns < instance->measure_ns ||
        worker_measure_model(instance->worker, model) != STATUS_OK)
        return;
    uint32_t doublings = instance->measures < DOUBLINGS_MOST ? instance->measures : DOUBLINGS_MOST;
    instance->measures++;
    instance->measure_ns = now_ns + (MEASURE_PAUSE_NS << doublings);
}

static bool tick_instance(const models_t *models, const model_t *model, instance_t *instance)
{
    int64_t now_ns = models->turn->now_ns;
    standing_state_t was = instance->standing.state;
    bool over = standing_tick(&instance->standing, now_ns);
    if (instance->standing.state != was)
        note_standing(models, model, instance);
    if (instance->shunned_until_ns == 0 || instance->shunned_until_ns > now_ns)
        return over;
    instance->shunned_until_ns = 0;
    return true;
}

/* ---- Who is believed ---- */

void placement_did_well(const models_t *models, const model_t *model, device_t *device, uint32_t rows)
{
    instance_t *instance = instance_of(model, device->worker);
    standing_well(&device->standing, models->turn->now_ns, rows);
    if (instance)
        standing_well(&instance->standing, models->turn->now_ns, rows);
}

bool placement_wants_proof(const model_t *model, const worker_t *worker)
{
    const instance_t *instance = instance_of(model, worker);
    return instance && standing_wants_proof(&instance->standing) &&
           (model->trial.state == VERSION_TRIED || placement_has_another(model, worker));
}

void placement_did_prove(const models_t *models, const model_t *model, const worker_t *worker)
{
    instance_t *instance = instance_of(model, worker);
    if (instance)
        standing_prove(&instance->standing, models->turn->now_ns);
}

/* What goes ill with all alike is the model's fault, or a gateway's. */
static bool others_do_better(const model_t *model, const instance_t *accused)
{
    double ill = 0;
    uint32_t others = 0;
    for (const instance_t *i = model->instances; i; i = i->next) {
        if (i == accused || !may_serve(model, i) || i->standing.state == STANDING_SHUNNED)
            continue;
        ill += standing_ill_part(&i->standing);
        others++;
    }
    return standing_is_outdone(&accused->standing, ill, others);
}

void placement_did_ill(models_t *models, model_t *model, const worker_t *worker, ill_t kind, uint32_t rows)
{
    instance_t *instance = instance_of(model, worker);
    int64_t now_ns = models->turn->now_ns;
    if (!instance || !model->home)
        return;
    standing_ill(&instance->standing, now_ns, kind, rows);
    if (!standing_is_suspect(&instance->standing) || !has_another_trusted(model, worker) ||
        !others_do_better(model, instance))
        return;
    int64_t for_ns = standing_strike(&instance->standing, now_ns);
    metrics_add(model->metrics.strikes[kind], 1);
    note_warn(models->turn, "worker_shunned", LOG_STR("worker", worker->peer.name),
              LOG_STR("model", model->name), LOG_STR("reason", ill_text(kind)),
              LOG_U64("strikes", instance->standing.strikes), LOG_MS("for_ms", for_ns));
    settle_devices(models, model);
}

/* ---- Devices ---- */

/* What goes ill on all devices of a worker alike is the worker's fault, or its model's. */
static bool siblings_do_better(const device_t *accused)
{
    const worker_t *worker = accused->worker;
    double ill = 0;
    uint32_t others = 0;
    for (uint32_t d = 0; d < worker->device_count; d++) {
        const device_t *device = &worker->devices[d];
        if (device == accused || !device_serves(device) || device->standing.state == STANDING_SHUNNED)
            continue;
        ill += standing_ill_part(&device->standing);
        others++;
    }
    return standing_is_outdone(&accused->standing, ill, others);
}

static void settle_device(const models_t *models, const device_t *device)
{
    for (uint32_t m = 0; m < models->count; m++)
        if (models->all[m]->home && models->all[m]->home == device->subcluster)
            placement_allow(models->all[m], device);
    turn_touch(models->turn);
}

/* False: it is not the device, as far as is known. */
static bool device_is_to_blame(const models_t *models, device_t *device, uint32_t rows)
{
    int64_t now_ns = models->turn->now_ns;
    standing_ill(&device->standing, now_ns, ILL_FAILED, rows);
    if (device->standing.state == STANDING_SHUNNED)
        return true; /* what was granted before */
    if (!standing_is_suspect(&device->standing) || !siblings_do_better(device))
        return false;
    int64_t for_ns = standing_strike(&device->standing, now_ns);
    metrics_add(device->subcluster->metric.strikes, 1);
    note_warn(models->turn, "device_shunned", LOG_STR("worker", device->worker->peer.name),
              LOG_STR("device", device->name), LOG_STR("reason", ill_text(ILL_FAILED)),
              LOG_U64("strikes", device->standing.strikes), LOG_MS("for_ms", for_ns));
    settle_device(models, device);
    return true;
}

void placement_did_fail(models_t *models, model_t *model, device_t *device, uint32_t rows)
{
    if (!device_is_to_blame(models, device, rows))
        placement_did_ill(models, model, device->worker, ILL_FAILED, rows);
}

static void tick_device(const models_t *models, device_t *device)
{
    standing_state_t was = device->standing.state;
    bool over = standing_tick(&device->standing, models->turn->now_ns);
    if (device->standing.state != was)
        note_info(models->turn,
                  device->standing.state == STANDING_TRIED ? "device_on_trial" : "device_trusted_again",
                  LOG_STR("worker", device->worker->peer.name), LOG_STR("device", device->name));
    if (over)
        settle_device(models, device);
}

static void tick_devices(const models_t *models)
{
    for (uint32_t w = 0; w < PEERS_MAX; w++) {
        const worker_t *worker = models->roster->workers[w];
        for (uint32_t d = 0; worker && d < worker->device_count; d++)
            tick_device(models, &worker->devices[d]);
    }
}

/* ---- Trials ---- */

static bool is_on_trial(const instance_t *instance)
{
    return instance->standing.state == STANDING_TRIED;
}

bool placement_is_on_trial(const model_t *model, const device_t *device)
{
    const instance_t *instance = instance_of(model, device->worker);
    return device->standing.state == STANDING_TRIED || (instance && is_on_trial(instance));
}

/* A device gets no other batch in this very turn; of a worker each model may get one. */
void placement_granted(models_t *models, const model_t *model, device_t *device, int64_t judged_ns)
{
    instance_t *instance = instance_of(model, device->worker);
    int64_t now_ns = models->turn->now_ns;
    bool of_device = device->standing.state == STANDING_TRIED;
    standing_granted(&device->standing, now_ns, judged_ns);
    if (instance)
        standing_granted(&instance->standing, now_ns, judged_ns);
    if (of_device)
        settle_device(models, device);
    models->tried = true;
}

void placement_close_trials(models_t *models)
{
    if (!models->tried)
        return;
    models->tried = false;
    for (uint32_t m = 0; m < models->count; m++)
        if (model_any(models->all[m], is_on_trial))
            settle_devices(models, models->all[m]);
}

/* ---- As time passes ---- */

void placement_tick(models_t *models)
{
    tick_subclusters(models);
    tick_devices(models);
    for (uint32_t m = 0; m < models->count; m++) {
        model_t *model = models->all[m];
        bool over = false;
        uint32_t shunned = 0;
        for (instance_t *i = model->instances; i; i = i->next) {
            over |= tick_instance(models, model, i);
            ask_to_measure(models, model, i);
            shunned += i->standing.state != STANDING_TRUSTED;
        }
        metrics_set(model->metrics.shunned, shunned);
        if (over)
            settle_devices(models, model);
    }
}

/* ---- For people ---- */

void placement_stats(const model_t *model, sched_model_stats_t *stats)
{
    *stats = (sched_model_stats_t){0};
    if (model->home)
        subcluster_model_stats(model->home, model->id, stats);
    shapes_add_stats(model, stats);
}

void placement_scatter(const model_t *model, sched_scatter_t *scatter)
{
    *scatter = (sched_scatter_t){.mean = 1, .guard = 1};
    if (model->home)
        subcluster_model_scatter(model->home, model->id, scatter);
    shapes_widen_scatter(model, scatter);
}
