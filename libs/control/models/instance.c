#include "control/models/instance.h"

instance_t *instance_of(const model_t *model, const worker_t *worker)
{
    return worker->instances ? worker->instances[model->id] : NULL;
}

bool instance_is_ready(const instance_t *instance)
{
    return instance->state == CONTROL__MODEL_STATE__MODEL_STATE_READY && !instance->conflict;
}

bool instance_is_draining(const instance_t *instance)
{
    return instance->state == CONTROL__MODEL_STATE__MODEL_STATE_UNLOADING && !instance->conflict &&
           !instance->released;
}

bool instance_is_believed(const instance_t *instance)
{
    return instance->shunned_until_ns == 0 && standing_allows(&instance->standing);
}

bool model_any(const model_t *model, bool (*is)(const instance_t *instance))
{
    for (const instance_t *i = model->instances; i; i = i->next)
        if (is(i))
            return true;
    return false;
}

bool instance_is_usable(const model_t *model, const instance_t *instance)
{
    return instance_is_ready(instance) || (model->staying && instance_is_draining(instance));
}

static bool is_able(const instance_t *instance)
{
    return instance_is_ready(instance) || instance_is_draining(instance);
}

/* Takes tasks. One that drains does where nobody else can. */
static bool serves(const model_t *model, const instance_t *instance)
{
    return instance_is_usable(model, instance) ||
           (instance_is_draining(instance) && !model_any(model, instance_is_ready));
}

static bool holds(const instance_t *instance, uint32_t device)
{
    return (instance->devices[device / 64] >> device % 64 & 1) != 0;
}

/* Where one is tried: what is lost there is one batch. */
static bool is_first_that_serves(const instance_t *instance, const device_t *device)
{
    for (uint32_t d = 0; d < device->index; d++)
        if (holds(instance, d) && device_serves(&device->worker->devices[d]))
            return false;
    return true;
}

bool model_runs_on(const model_t *model, const device_t *device)
{
    const instance_t *i = instance_of(model, device->worker);
    if (!standing_allows(&device->standing) || !i || !serves(model, i) || i->outlier ||
        !instance_is_believed(i) || !holds(i, device->index))
        return false;
    return i->standing.state == STANDING_TRUSTED || is_first_that_serves(i, device);
}

/* Whether any device of the worker that holds the model is in the sub-cluster; serving: and takes grants. */
bool instance_reaches(const instance_t *instance, const subcluster_t *sub, bool serving)
{
    for (uint32_t d = 0; d < instance->worker->device_count; d++) {
        const device_t *device = &instance->worker->devices[d];
        if (device->subcluster == sub && holds(instance, d) && (!serving || device_serves(device)))
            return true;
    }
    return false;
}

bool model_is_served_at(const model_t *model, const subcluster_t *sub)
{
    for (const instance_t *i = model->instances; i; i = i->next)
        if (serves(model, i) && instance_reaches(i, sub, true))
            return true;
    return false;
}

bool instance_counts(const instance_t *instance, const subcluster_t *sub)
{
    return is_able(instance) && !instance->outlier && instance_reaches(instance, sub, false);
}

/* ---- Outliers ---- */

static const subcluster_t *subcluster_of(const instance_t *instance)
{
    for (uint32_t d = 0; d < instance->worker->device_count; d++)
        if (holds(instance, d))
            return instance->worker->devices[d].subcluster;
    return NULL;
}

static int64_t row_ns(const instance_t *instance)
{
    return profile_latency_ns(&instance->profile, 1);
}

static bool is_outlier(const model_t *model, const instance_t *instance)
{
    const subcluster_t *sub = subcluster_of(instance);
    int64_t ns = row_ns(instance);
    uint32_t others = 0, far_quicker = 0;
    bool another_meets = false;
    for (const instance_t *i = model->instances; i && sub; i = i->next) {
        if (i == instance || !is_able(i) || !instance_reaches(i, sub, false))
            continue;
        others++;
        far_quicker += row_ns(i) < ns / OUTLIER_TIMES;
        another_meets |= row_ns(i) <= model->slo_ns;
    }
    return (model->slo_ns > 0 && ns > model->slo_ns && another_meets) ||
           (others >= 2 && far_quicker > others / 2);
}

void model_mark_outliers(model_t *model, void (*found)(const model_t *model, const instance_t *instance))
{
    for (instance_t *i = model->instances; i; i = i->next) {
        bool outlier = is_able(i) && is_outlier(model, i);
        bool is_news = outlier && !i->outlier;
        i->outlier = outlier;
        if (is_news)
            found(model, i);
    }
}

/* The slowest that was reported there: devices of one class differ little. False: nobody has it there. */
bool model_profile_at(const model_t *model, const subcluster_t *sub, profile_t *profile)
{
    bool any = false;
    for (const instance_t *i = model->instances; i; i = i->next) {
        if (!instance_counts(i, sub))
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
    for (const instance_t *i = model->instances; i; i = i->next)
        if (instance_counts(i, sub) && i->report->exit_points < fewest)
            fewest = i->report->exit_points;
    return fewest == UINT32_MAX ? 0 : fewest;
}

/* Of the first that reports stages, or parts that it keeps busy: devices of one class differ little. */
static sched_inside_t inside_at(const model_t *model, const subcluster_t *sub)
{
    sched_inside_t inside = {0};
    for (const instance_t *i = model->instances; i; i = i->next) {
        const Control__ModelReport *report = i->report;
        bool tells = report->n_stage_until > 0 || report->busy_fixed > 0 || report->busy_row > 0;
        if (!is_able(i) || !instance_reaches(i, sub, false) || !tells)
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

void model_tell_inside(const model_t *model, uint32_t core_id, bool suits_mode)
{
    err_t err = {0};
    sched_inside_t inside = {0};
    if (suits_mode)
        inside = inside_at(model, model->home);
    subcluster_set_exit_points(model->home, core_id, exit_points_at(model, model->home));
    if (!subcluster_set_inside(model->home, core_id, &inside, &err))
        note_warn(model->home->turn, "model_inside_refused", LOG_STR("model", model->name), LOG_ERR(&err));
}
