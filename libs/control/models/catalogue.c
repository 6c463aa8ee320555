#include "control/models/catalogue.h"

#include "control/models/instance.h"
#include "control/models/placement.h"
#include "control/models/report.h"
#include "control/models/shapes.h"
#include "control/models/versions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- What the reports amount to ---- */

static const char *state_name(Control__ModelState state)
{
    switch (state) {
    case CONTROL__MODEL_STATE__MODEL_STATE_LOADING:
        return "loading";
    case CONTROL__MODEL_STATE__MODEL_STATE_READY:
        return "ready";
    case CONTROL__MODEL_STATE__MODEL_STATE_FAILED:
        return "failed";
    case CONTROL__MODEL_STATE__MODEL_STATE_UNLOADING:
        return "unloading";
    case CONTROL__MODEL_STATE__MODEL_STATE_UNLOADED:
        return "unloaded";
    default:
        return "unknown";
    }
}

static void explain(model_t *model)
{
    size_t len = 0;
    model->reason[0] = '\0';
    if (!model->instances)
        (void)snprintf(model->reason, sizeof model->reason, "no worker has it");
    for (const instance_t *i = model->instances; i && len < sizeof model->reason; i = i->next) {
        if (instance_is_usable(model, i))
            continue;
        int n = snprintf(model->reason + len, sizeof model->reason - len, "%s%s: %s%s%s", len > 0 ? "; " : "",
                         i->worker->peer.name, i->conflict ? "conflict" : state_name(i->state),
                         i->reason[0] != '\0' ? ": " : "", i->reason);
        len += n > 0 ? (size_t)n : 0;
    }
}

/* How much an instance's description says, to choose the one that gateways see. */
static int worth(const instance_t *instance)
{
    switch (instance->state) {
    case CONTROL__MODEL_STATE__MODEL_STATE_READY:
        return 3;
    case CONTROL__MODEL_STATE__MODEL_STATE_UNLOADING:
        return 2;
    case CONTROL__MODEL_STATE__MODEL_STATE_LOADING:
        return 1;
    default:
        return 0;
    }
}

static void choose_canonical(model_t *model)
{
    if (model->canonical && instance_is_ready(model->canonical))
        return;
    instance_t *best = model->instances;
    for (instance_t *i = model->instances; i; i = i->next)
        if (worth(i) > worth(best))
            best = i;
    model->canonical = best;
}

static void mark_conflicts(const models_t *models, model_t *model)
{
    for (instance_t *i = model->instances; i; i = i->next) {
        bool differs = i != model->canonical && i->state == CONTROL__MODEL_STATE__MODEL_STATE_READY &&
                       i->signature != model->canonical->signature;
        if (differs && !i->conflict) {
            (void)snprintf(i->reason, sizeof i->reason, "another interface than on %s",
                           model->canonical->worker->peer.name);
            note_warn(models->turn, "model_conflict", LOG_STR("model", model->name),
                      LOG_I64("version", model->version), LOG_STR("worker", i->worker->peer.name),
                      LOG_STR("reason", i->reason));
        }
        i->conflict = differs;
    }
}

static void count_ready(models_t *models, model_t *model)
{
    bool was = model->ready;
    model->ready_workers = 0;
    for (const instance_t *i = model->instances; i; i = i->next)
        model->ready_workers += instance_is_usable(model, i);
    model->ready = model->ready_workers > 0;
    if (was && !model->ready) {
        model->unready_since_ns = models->turn->now_ns;
        model->unready_version = models->version + 1;
    }
    if (was != model->ready)
        note_info(models->turn, model->ready ? "model_ready" : "model_not_ready",
                  LOG_STR("model", model->name), LOG_I64("version", model->version),
                  LOG_U64("workers", model->ready_workers), LOG_STR("reason", model->reason));
    models->changed = true;
    models->version++;
}

static void settle_one(models_t *models, model_t *model)
{
    choose_canonical(model);
    mark_conflicts(models, model);
    explain(model);
    count_ready(models, model);
    if (model->ready)
        model->slo_ns = model->canonical->report->slo_ns;
    versions_settle(models, model);
    placement_settle(models, model);
}

static bool is_loading(const instance_t *instance)
{
    return instance->state == CONTROL__MODEL_STATE__MODEL_STATE_LOADING;
}

/* A report on one version may change what another one is good for. */
static void settle(models_t *models, model_t *changed)
{
    uint32_t rising = 0;
    for (uint32_t m = 0; m < models->count; m++) {
        model_t *model = models->all[m];
        if (strcmp(model->name, changed->name) != 0)
            continue;
        model->rising = model_any(model, is_loading);
        rising += model->rising;
    }
    for (uint32_t m = 0; m < models->count; m++) {
        model_t *model = models->all[m];
        if (strcmp(model->name, changed->name) != 0)
            continue;
        bool staying = rising > (uint32_t)model->rising;
        if (model != changed && staying == model->staying)
            continue;
        model->staying = staying;
        settle_one(models, model);
    }
}

/* ---- One report ---- */

/* NULL: no memory. */
static instance_t *instance_make(const models_t *models, model_t *model, worker_t *worker)
{
    instance_t *instance = instance_of(model, worker);
    if (instance)
        return instance;
    if (!worker->instances)
        worker->instances = calloc(models->turn->options.models_max, sizeof(*worker->instances));
    instance = worker->instances ? calloc(1, sizeof *instance) : NULL;
    if (!instance)
        return NULL;
    worker->instances[model->id] = instance;
    worker->instance_count++;
    instance->worker = worker;
    instance->next = model->instances;
    model->instances = instance;
    return instance;
}

static void instance_remove(model_t *model, worker_t *worker)
{
    for (instance_t **link = &model->instances; *link; link = &(*link)->next) {
        instance_t *instance = *link;
        if (instance->worker != worker)
            continue;
        *link = instance->next;
        if (model->canonical == instance)
            model->canonical = NULL;
        worker->instances[model->id] = NULL;
        worker->instance_count--;
        control__model_report__free_unpacked(instance->report, NULL);
        free(instance->family);
        free(instance);
        return;
    }
}

/* ---- Finding and making models ---- */

static void model_metrics(models_t *models, model_t *model)
{
    metrics_t *m = models->turn->metrics;
    model->metrics.granted = metrics_series(m, METRIC_SCHED_TASKS, model->name, "granted");
    model->metrics.dropped = metrics_series(m, METRIC_SCHED_TASKS, model->name, "dropped");
    model->metrics.cancelled = metrics_series(m, METRIC_SCHED_TASKS, model->name, "cancelled");
    model->metrics.retried = metrics_series(m, METRIC_SCHED_TASKS, model->name, "retried");
    model->metrics.infeasible = metrics_series(m, METRIC_SCHED_TASKS, model->name, "infeasible");
    model->metrics.queue = metrics_series(m, METRIC_SCHED_QUEUE, model->name);
    model->metrics.queue_seconds = metrics_series(m, METRIC_SCHED_QUEUE_SECONDS, model->name);
    model->metrics.batches = metrics_series(m, METRIC_SCHED_BATCHES, model->name);
    model->metrics.stretches = metrics_series(m, METRIC_SCHED_STRETCHES, model->name);
    model->metrics.revoked_stopped = metrics_series(m, METRIC_SCHED_REVOKED, model->name, "stopped");
    model->metrics.revoked_late = metrics_series(m, METRIC_SCHED_REVOKED, model->name, "late");
    model->metrics.wasted = metrics_series(m, METRIC_SCHED_REVOKED_SECONDS, model->name);
    model->metrics.batch_size = metrics_series(m, METRIC_SCHED_BATCH_SIZE, model->name);
    model->metrics.shunned = metrics_series(m, METRIC_SCHED_SHUNNED, model->name);
    for (uint32_t kind = ILL_FAILED; kind < ILL_KINDS; kind++)
        model->metrics.strikes[kind] =
            metrics_series(m, METRIC_SCHED_STRIKES, model->name, ill_label((ill_t)kind));
    model->metrics.proven = metrics_series(m, METRIC_SCHED_DOUBTED, model->name, "arrived");
    model->metrics.unproven = metrics_series(m, METRIC_SCHED_DOUBTED, model->name, "tried_again");
    model->metrics.took_mean = metrics_series(m, METRIC_SCHED_LATENCY_SCATTER, model->name, "mean");
    model->metrics.took_guard = metrics_series(m, METRIC_SCHED_LATENCY_SCATTER, model->name, "guard");
}

/* Its series are the most that a model takes. */
static void release_metrics(models_t *models, model_t *model)
{
    metric_t **series = (metric_t **)&model->metrics;
    for (size_t i = 0; i < sizeof model->metrics / sizeof *series; i++)
        if (series[i])
            series[i] = metrics_release(models->turn->metrics, series[i]);
}

static model_t *model_find(const models_t *models, const char *name, int64_t version)
{
    for (uint32_t m = 0; m < models->count; m++)
        if (models->all[m]->version == version && strcmp(models->all[m]->name, name) == 0)
            return models->all[m];
    return NULL;
}

/* Nobody has it, nothing of it is known any more, and every gateway has been told: no task can come for its number. */
static bool is_left(const models_t *models, const model_t *model)
{
    return !model->instances && !model->home && model->tasks == 0 && model->shape_count == 0 &&
           roster_knows(models->roster, model->unready_version);
}

/* ---- Forgetting ---- */

/* Who has left may come back, and clients are told until then that it is not there now. But what one stranger has brought by the thousand is
 * not kept: where an eighth of the table is of models that nobody has had for a minute, those beyond are not listed, and nothing of them counted. */
static const int64_t FORGET_NS = 60 * NS_PER_S;
enum { REMEMBERED_PART = 8 };

static bool is_long_gone(const models_t *models, const model_t *model)
{
    return models->turn->now_ns - model->unready_since_ns > FORGET_NS && is_left(models, model);
}

static void forget(models_t *models, model_t *model)
{
    model->forgotten = true;
    free(model->profile);
    model->profile = NULL;
    release_metrics(models, model);
    models->changed = true;
    models->version++;
    turn_touch(models->turn);
}

/* False: no memory. */
static bool remember(models_t *models, model_t *model)
{
    model->profile = calloc(1, sizeof *model->profile);
    if (!model->profile)
        return false;
    model->forgotten = false;
    model_metrics(models, model);
    return true;
}

static void forget_some(models_t *models)
{
    uint32_t most = models->turn->options.models_max / REMEMBERED_PART;
    for (uint32_t m = 0, gone = 0; m < models->count && models->count > most; m++) {
        model_t *model = models->all[m];
        if (!model->forgotten && is_long_gone(models, model) && ++gone > most)
            forget(models, model);
    }
}

/* Places stay and what models bring does not: made one by one between that, each would keep a page or two. */
enum { PLACES_OF_A_BLOCK = 64 };

static model_t *new_place(models_t *models)
{
    uint32_t within = models->count % PLACES_OF_A_BLOCK;
    model_t *model =
        within > 0 ? models->all[models->count - 1] + 1 : calloc(PLACES_OF_A_BLOCK, sizeof *model);
    if (model) {
        *model = (model_t){.id = models->count, .forgotten = true};
        models->all[models->count++] = model;
    }
    return model;
}

/* Where there is no other place: that of a model that has left, which is listed until then. NULL: there is none. */
static model_t *place_for(models_t *models)
{
    if (models->count < models->turn->options.models_max)
        return new_place(models);
    for (uint32_t m = 0; m < models->count; m++)
        if (is_left(models, models->all[m]))
            return models->all[m];
    return NULL;
}

static model_t *model_make(models_t *models, const char *name, int64_t version)
{
    model_t *model = place_for(models);
    if (!model)
        return NULL;
    if (!model->forgotten)
        forget(models, model);
    *model = (model_t){.id = model->id, .version = version, .forgotten = true};
    snprintf(model->name, sizeof(model->name), "%s", name);
    return remember(models, model) ? model : NULL;
}

/* One worker cannot fill the table: the last places are for those who have fewer models. */
static bool has_its_share(const models_t *models, const worker_t *worker)
{
    const uint32_t most = models->turn->options.models_max, last = most / 8;
    uint32_t taken = 0;
    if (worker->instance_count < most / 2)
        return false;
    for (uint32_t m = 0; m < models->count; m++)
        taken += models->all[m]->instances ? 1 : 0;
    return taken + last >= most;
}

void catalogue_report(models_t *models, worker_t *worker, const Control__ModelReport *report)
{
    if (report->name[0] == '\0' || strlen(report->name) >= MODEL_NAME_BYTES) {
        peer_complain(&worker->peer, NONSENSE_MODEL, "model without a name, or with one over 255 bytes");
        return;
    }
    bool gone = report->state == CONTROL__MODEL_STATE__MODEL_STATE_GONE;
    model_t *model = model_find(models, report->name, report->version);
    if (model && model->forgotten && !gone && !remember(models, model))
        return;
    if (!model && !gone && !has_its_share(models, worker))
        model = model_make(models, report->name, report->version);
    if (!model) {
        peer_complain(&worker->peer, NONSENSE_MODEL,
                      gone ? "an unknown model is gone" : "too many models: more need --models-max");
        return;
    }
    if (gone) {
        instance_remove(model, worker);
    } else {
        instance_t *instance = instance_make(models, model, worker);
        if (!instance)
            return;
        report_take(instance, report);
        if (!instance->report)
            instance_remove(model, worker);
        worker->model_ids_due = true;
    }
    settle(models, model);
}

void catalogue_worker_gone(models_t *models, worker_t *worker)
{
    for (uint32_t m = 0; m < models->count; m++) {
        if (!instance_of(models->all[m], worker))
            continue;
        instance_remove(models->all[m], worker);
        settle(models, models->all[m]);
    }
    free(worker->instances);
    worker->instances = NULL;
}

void catalogue_tick(models_t *models)
{
    forget_some(models);
    int64_t now_ns = models->turn->now_ns;
    for (uint32_t m = 0; m < models->count; m++) {
        model_t *model = models->all[m];
        if (!model->ready && !model_any(model, instance_is_draining) &&
            now_ns - model->unready_since_ns > models->turn->options.worker_grace_ns)
            placement_leave(models, model);
    }
}

/* ---- Making ---- */

status_t catalogue_init(models_t *models, turn_t *turn, const roster_t *roster, subclusters_t *subclusters,
                        err_t *err)
{
    *models = (models_t){.turn = turn, .roster = roster, .subclusters = subclusters};
    models->all = calloc(turn->options.models_max, sizeof(*models->all));
    if (!models->all)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %u models", turn->options.models_max);
    return shapes_init(models, err);
}

void catalogue_dispose(models_t *models)
{
    for (uint32_t m = 0; m < models->count; m++) {
        while (models->all[m]->instances)
            instance_remove(models->all[m], models->all[m]->instances->worker);
        free(models->all[m]->profile);
    }
    for (uint32_t m = 0; m < models->count; m += PLACES_OF_A_BLOCK)
        free(models->all[m]);
    free(models->all);
    shapes_dispose(models);
}
