#include "scheduler/catalogue.h"

#include "base/log.h"
#include "loop/loop.h"
#include "repeated.h"
#include "scheduler/placement.h"
#include "scheduler/planner.h"
#include "scheduler/registry.h"
#include "scheduler/service.h"
#include "scheduler/shapes.h"
#include "scheduler/workers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

model_t *catalogue_model(const scheduler_t *s, uint32_t id)
{
    return id < s->model_count ? s->models[id] : NULL;
}

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
    if (model->instances == NULL)
        (void)snprintf(model->reason, sizeof model->reason, "no worker has it");
    for (const instance_t *i = model->instances; i != NULL && len < sizeof model->reason; i = i->next) {
        if (placement_usable(model, i))
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
    if (model->canonical != NULL && placement_ready(model->canonical))
        return;
    instance_t *best = model->instances;
    for (instance_t *i = model->instances; i != NULL; i = i->next)
        if (worth(i) > worth(best))
            best = i;
    model->canonical = best;
}

static void mark_conflicts(model_t *model)
{
    for (instance_t *i = model->instances; i != NULL; i = i->next) {
        bool differs = i != model->canonical && i->state == CONTROL__MODEL_STATE__MODEL_STATE_READY &&
                       i->signature != model->canonical->signature;
        if (differs && !i->conflict) {
            (void)snprintf(i->reason, sizeof i->reason, "another interface than on %s",
                           model->canonical->worker->peer.name);
            log_warn("model_conflict", LOG_STR("model", model->name), LOG_I64("version", model->version),
                     LOG_STR("worker", i->worker->peer.name), LOG_STR("reason", i->reason));
        }
        i->conflict = differs;
    }
}

static void count_ready(scheduler_t *s, model_t *model)
{
    bool was = model->ready;
    model->ready_workers = 0;
    for (const instance_t *i = model->instances; i != NULL; i = i->next)
        model->ready_workers += placement_usable(model, i);
    model->ready = model->ready_workers > 0;
    if (was && !model->ready) {
        model->unready_since_ns = loop_now_ns();
        model->unready_version = s->catalogue_version + 1;
    }
    if (was != model->ready)
        log_info(model->ready ? "model_ready" : "model_not_ready", LOG_STR("model", model->name),
                 LOG_I64("version", model->version), LOG_U64("workers", model->ready_workers),
                 LOG_STR("reason", model->reason));
    s->catalogue_changed = true;
    s->catalogue_version++;
}

static void settle_one(scheduler_t *s, model_t *model)
{
    choose_canonical(model);
    mark_conflicts(model);
    explain(model);
    count_ready(s, model);
    if (model->ready)
        model->slo_ns = model->canonical->report->slo_ns;
    placement_settle(s, model);
}

static bool is_loading(const instance_t *instance)
{
    return instance->state == CONTROL__MODEL_STATE__MODEL_STATE_LOADING;
}

/* A report on one version may change what another one is good for. */
static void settle(scheduler_t *s, model_t *changed)
{
    uint32_t rising = 0;
    for (uint32_t m = 0; m < s->model_count; m++) {
        model_t *model = s->models[m];
        if (strcmp(model->name, changed->name) != 0)
            continue;
        model->rising = placement_any(model, is_loading);
        rising += model->rising;
    }
    for (uint32_t m = 0; m < s->model_count; m++) {
        model_t *model = s->models[m];
        if (strcmp(model->name, changed->name) != 0)
            continue;
        bool staying = rising > (uint32_t)model->rising;
        if (model != changed && staying == model->staying)
            continue;
        model->staying = staying;
        settle_one(s, model);
    }
}

/* ---- One report ---- */

static uint64_t fnv1a(const uint8_t *data, size_t len)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ data[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* Of what gateways rely on: tensors, batching, picture pipeline, labels. Not of speed, size or state. */
static uint64_t signature_of(const Control__ModelReport *report)
{
    Control__ModelReport part = CONTROL__MODEL_REPORT__INIT;
    part.n_inputs = report->n_inputs;
    part.inputs = report->inputs;
    part.n_outputs = report->n_outputs;
    part.outputs = report->outputs;
    part.max_batch = report->max_batch;
    part.image = report->image;
    part.n_labels = report->n_labels;
    part.labels = report->labels;
    part.softmax_output = report->softmax_output;
    part.n_axes = report->n_axes;
    part.axes = report->axes;
    rpc_bytes_t *bytes = rpc_pack(&part.base);
    uint64_t hash = fnv1a(rpc_bytes_flat(bytes), rpc_bytes_len(bytes));
    rpc_bytes_free(bytes);
    return hash;
}

static Control__ModelReport *copy_report(const Control__ModelReport *report)
{
    rpc_bytes_t *bytes = rpc_pack(&report->base);
    Control__ModelReport *copy =
        control__model_report__unpack(NULL, rpc_bytes_len(bytes), rpc_bytes_flat(bytes));
    rpc_bytes_free(bytes);
    return copy;
}

static status_t reported_profile(const Control__Latency *latency, uint32_t max_batch, profile_t *profile,
                                 err_t *err)
{
    if (latency == NULL)
        return err_set(err, STATUS_INVALID_ARGUMENT, "ready without a latency profile");
    if (latency->n_table_ns == 0) {
        if (!(latency->alpha_ns >= 0 && latency->alpha_ns < 1e13 && latency->beta_ns >= 0 &&
              latency->beta_ns < 1e13))
            return err_set(err, STATUS_INVALID_ARGUMENT, "latency line out of range");
        return profile_from_line(profile, (int64_t)latency->alpha_ns, (int64_t)latency->beta_ns, max_batch,
                                 err);
    }
    profile_point_t points[PROFILE_TABLE_MAX];
    uint32_t count =
        latency->n_table_ns < PROFILE_TABLE_MAX ? (uint32_t)latency->n_table_ns : PROFILE_TABLE_MAX;
    for (uint32_t i = 0; i < count; i++) {
        points[i] = (profile_point_t){.batch = i + 1, .latency_ns = latency->table_ns[i]};
        if (latency->table_ns[i] < 0 || latency->table_ns[i] > DURATION_MOST_NS)
            return err_set(err, STATUS_INVALID_ARGUMENT, "latency of a batch of %u out of range", i + 1);
    }
    return profile_from_points(profile, points, count, max_batch, err);
}

/* A device that needs no time was never measured, and would look like endless capacity; an emulated one may. */
static status_t profile_of(const worker_t *worker, const Control__ModelReport *report, profile_t *profile,
                           err_t *err)
{
    uint32_t max_batch = report->max_batch > 0 ? report->max_batch : 1;
    status_t status = reported_profile(report->latency, max_batch, profile, err);
    bool free = status == STATUS_OK && profile_latency_ns(profile, profile->max_batch) == 0;
    if (free && strcmp(worker->devices[0].kind, "emulated") != 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "a latency profile of zeros");
    return status;
}

/* Of a model whose dimensions vary. Without latencies of shapes its one latency holds for all of them. */
static status_t family_of(const Control__ModelReport *report, uint32_t max_batch, family_t *family,
                          err_t *err)
{
    profile_t profile;
    status_t status = STATUS_OK;
    if (report->n_shape_latencies == 0) {
        status = reported_profile(report->latency, max_batch, &profile, err);
        return status == STATUS_OK ? family_add(family, UINT64_MAX, &profile, err) : status;
    }
    for (size_t i = 0; i < report->n_shape_latencies && status == STATUS_OK; i++) {
        const Control__ShapeLatency *at = report->shape_latencies[i];
        if (at->n_size != report->n_axes)
            return err_set(err, STATUS_INVALID_ARGUMENT, "a latency without a size for each axis");
        status = reported_profile(at->latency, max_batch, &profile, err);
        if (status == STATUS_OK)
            status = family_add(family, shapes_elements(report, at->size), &profile, err);
    }
    return status;
}

static status_t instance_profiles(instance_t *instance, const Control__ModelReport *report, err_t *err)
{
    uint32_t max_batch = report->max_batch > 0 ? report->max_batch : 1;
    free(instance->family);
    instance->family = NULL;
    if (report->n_axes > SHAPE_AXES_MAX)
        return err_set(err, STATUS_INVALID_ARGUMENT, "more than %d axes", SHAPE_AXES_MAX);
    if (report->n_axes > 0) {
        instance->family = calloc(1, sizeof *instance->family);
        if (instance->family == NULL)
            return err_set(err, STATUS_NO_MEMORY, "no memory for its latencies");
        if (family_of(report, max_batch, instance->family, err) != STATUS_OK)
            return err->code;
    }
    return profile_of(instance->worker, report, &instance->profile, err);
}

static void fill_devices(instance_t *instance, const Control__ModelReport *report)
{
    memset(instance->devices, report->n_devices == 0 ? 0xff : 0, sizeof instance->devices);
    for (size_t i = 0; i < report->n_devices; i++)
        if (report->devices[i] < instance->worker->device_count)
            instance->devices[report->devices[i] / 64] |= UINT64_C(1) << report->devices[i] % 64;
}

static instance_t *instance_of(model_t *model, worker_t *worker, bool make)
{
    for (instance_t *i = model->instances; i != NULL; i = i->next)
        if (i->worker == worker)
            return i;
    instance_t *instance = make ? calloc(1, sizeof *instance) : NULL;
    if (instance == NULL)
        return NULL;
    instance->worker = worker;
    instance->next = model->instances;
    model->instances = instance;
    return instance;
}

static void instance_remove(model_t *model, worker_t *worker)
{
    for (instance_t **link = &model->instances; *link != NULL; link = &(*link)->next) {
        instance_t *instance = *link;
        if (instance->worker != worker)
            continue;
        *link = instance->next;
        if (model->canonical == instance)
            model->canonical = NULL;
        control__model_report__free_unpacked(instance->report, NULL);
        free(instance->family);
        free(instance);
        return;
    }
}

static void instance_fill(instance_t *instance, const Control__ModelReport *report)
{
    err_t err = {0};
    Control__ModelReport *copy = copy_report(report);
    if (copy == NULL)
        return;
    if (instance->report != NULL)
        control__model_report__free_unpacked(instance->report, NULL);
    instance->report = copy;
    instance->state = report->state;
    instance->signature = signature_of(report);
    fill_devices(instance, report);
    instance->conflict = instance->released = false;
    (void)snprintf(instance->reason, sizeof instance->reason, "%s", report->reason);
    if (report->state != CONTROL__MODEL_STATE__MODEL_STATE_READY &&
        report->state != CONTROL__MODEL_STATE__MODEL_STATE_UNLOADING)
        return;
    if (instance_profiles(instance, report, &err) != STATUS_OK) {
        instance->state = CONTROL__MODEL_STATE__MODEL_STATE_FAILED;
        (void)snprintf(instance->reason, sizeof instance->reason, "%.180s", err.text);
        peer_complain(&instance->worker->peer, NONSENSE_MODEL, err.text);
    }
}

/* ---- Finding and making models ---- */

static void model_metrics(scheduler_t *s, model_t *model)
{
    metrics_t *m = s->metrics;
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
    model->metrics.took_mean = metrics_series(m, METRIC_SCHED_LATENCY_SCATTER, model->name, "mean");
    model->metrics.took_guard = metrics_series(m, METRIC_SCHED_LATENCY_SCATTER, model->name, "guard");
}

static model_t *model_find(const scheduler_t *s, const char *name, int64_t version)
{
    for (uint32_t m = 0; m < s->model_count; m++)
        if (s->models[m]->version == version && strcmp(s->models[m]->name, name) == 0)
            return s->models[m];
    return NULL;
}

static model_t *model_make(scheduler_t *s, const char *name, int64_t version)
{
    if (s->model_count == s->options.models_max)
        return NULL;
    model_t *model = calloc(1, sizeof *model);
    char *copy = strdup(name);
    if (model == NULL || copy == NULL) {
        free(model);
        free(copy);
        return NULL;
    }
    model->id = s->model_count;
    model->name = copy;
    model->version = version;
    model_metrics(s, model);
    s->models[s->model_count++] = model;
    return model;
}

void catalogue_report(worker_t *worker, const Control__ModelReport *report)
{
    scheduler_t *s = worker->peer.scheduler;
    if (report->name[0] == '\0' || strlen(report->name) > 255) {
        peer_complain(&worker->peer, NONSENSE_MODEL, "model without a name, or with one over 255 bytes");
        return;
    }
    bool gone = report->state == CONTROL__MODEL_STATE__MODEL_STATE_GONE;
    model_t *model = model_find(s, report->name, report->version);
    if (model == NULL && !gone)
        model = model_make(s, report->name, report->version);
    if (model == NULL) {
        peer_complain(&worker->peer, NONSENSE_MODEL, gone ? "an unknown model is gone" : "too many models");
        return;
    }
    if (gone) {
        instance_remove(model, worker);
    } else {
        instance_t *instance = instance_of(model, worker, true);
        if (instance == NULL)
            return;
        instance_fill(instance, report);
        if (instance->report == NULL)
            instance_remove(model, worker);
        worker->model_ids_due = true;
    }
    settle(s, model);
}

void catalogue_worker_gone(worker_t *worker)
{
    scheduler_t *s = worker->peer.scheduler;
    for (uint32_t m = 0; m < s->model_count; m++) {
        if (instance_of(s->models[m], worker, false) == NULL)
            continue;
        instance_remove(s->models[m], worker);
        settle(s, s->models[m]);
    }
}

void catalogue_tick(scheduler_t *s)
{
    int64_t now_ns = loop_now_ns();
    for (uint32_t m = 0; m < s->model_count; m++) {
        model_t *model = s->models[m];
        if (!model->ready && model->planned != NULL && !placement_any(model, placement_draining))
            planner_rescue(s->planner, model);
        if (!model->ready && !placement_any(model, placement_draining) &&
            now_ns - model->unready_since_ns > s->options.worker_grace_ns)
            placement_leave(s, model);
    }
}

/* ---- For the gateways ---- */

static Control__ModelReport *nothing_known(const model_t *model, rpc_arena_t *arena)
{
    Control__ModelReport *report = rpc_arena_alloc(arena, sizeof *report);
    if (report == NULL)
        return NULL;
    control__model_report__init(report);
    report->name = model->name;
    report->version = model->version;
    return report;
}

/* False: no memory. */
static bool fill_entry(Control__CatalogueModel *entry, model_t *model, rpc_arena_t *arena)
{
    entry->id = model->id;
    entry->ready = model->ready;
    entry->workers = model->ready_workers;
    entry->rising = model->rising;
    if (!model->ready)
        entry->reason = model->reason;
    entry->description = model->canonical != NULL ? model->canonical->report : nothing_known(model, arena);
    return entry->description != NULL;
}

static void leave_out(scheduler_t *s, Control__CatalogueModel *entry, const model_t *model,
                      Control__ModelReport *bare)
{
    static char reason[] = "the catalogue has no room for its description";
    entry->ready = false;
    entry->workers = 0;
    entry->reason = reason;
    entry->description = bare;
    if (!s->catalogue_full)
        log_error("catalogue_full", LOG_STR("model", model->name), LOG_I64("version", model->version),
                  LOG_U64("limit_mib", CATALOGUE_BYTES_MAX >> 20));
    s->catalogue_full = true;
}

/* False: no memory. */
static bool fit_entry(scheduler_t *s, Control__CatalogueModel *entry, const model_t *model,
                      rpc_arena_t *arena, size_t *room)
{
    size_t bytes = control__catalogue_model__get_packed_size(entry);
    if (bytes > *room) {
        Control__ModelReport *bare = nothing_known(model, arena);
        if (bare == NULL)
            return false;
        leave_out(s, entry, model, bare);
        bytes = control__catalogue_model__get_packed_size(entry);
    }
    *room -= bytes < *room ? bytes : *room;
    return true;
}

Control__Catalogue *catalogue_message(scheduler_t *s, rpc_arena_t *arena)
{
    Control__Catalogue *catalogue = rpc_arena_alloc(arena, sizeof *catalogue);
    if (catalogue == NULL)
        return NULL;
    control__catalogue__init(catalogue);
    catalogue->version = s->catalogue_version;
    catalogue->models =
        repeated_make(&control__catalogue_model__descriptor, s->model_count, &arena->allocator);
    if (catalogue->models == NULL)
        return NULL;
    catalogue->n_models = s->model_count;
    size_t room = CATALOGUE_BYTES_MAX;
    for (uint32_t m = 0; m < s->model_count; m++)
        if (!fill_entry(catalogue->models[m], s->models[m], arena) ||
            !fit_entry(s, catalogue->models[m], s->models[m], arena, &room))
            return NULL;
    return catalogue;
}

void catalogue_dispose(scheduler_t *s)
{
    for (uint32_t m = 0; m < s->model_count; m++) {
        model_t *model = s->models[m];
        while (model->instances != NULL)
            instance_remove(model, model->instances->worker);
        free(model->name);
        free(model);
    }
    free(s->models);
}
