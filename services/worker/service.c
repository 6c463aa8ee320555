/*
 * The worker process: who holds what. One loop thread owns everything here; the loader thread builds models, and each engine
 * executes on threads of its own.
 *
 *   models/  loader ─▶ libs/model                      what can be run, and when: lifecycle.h
 *   scheduler ◀─▶ control/ ─▶ batch/ ─▶ modes/ ─▶ state/launch.h ─▶ engine     batches in their modes
 *                                └─▶ libs/transfer ◀─▶ gateways                inputs in, outputs out
 *   state/   what the rooms share: a batch, the gateways it came from, a model that is served
 *
 * A room calls those behind it in this order and none before: control, models, batch, modes, state (scripts/check-calls).
 */
#include "worker/service.h"

#include "base/clock.h"
#include "base/log.h"
#include "exporter/data.h"
#include "exporter/exporter.h"
#include "http/server.h"
#include "loop/timer.h"
#include "model/trial/trial.h"
#include "rpc/runtime.h"
#include "worker/control/control.h"
#include "worker/cpu_share.h"
#include "worker/models/devices_wanted.h"
#include "worker/options.h"
#include "worker/state/landing.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* How long a worker that has left the scheduler waits for those who read its metrics. */
static const int64_t LEAVE_PATIENCE_NS = 3 * NS_PER_S;
static const int64_t STOP_POLL_NS = 5 * NS_PER_MS;
/* Idle for so many polls in a row: grants that met the drain half-way have come and gone. */
enum { STOP_IDLE_POLLS = 4 };

struct worker_service {
    const worker_options_t *options;
    worker_within_t within; /* of one by itself: nothing */
    bool is_within;
    tls_context_t *dialled, *shown; /* of the scheduler, and of who reads metrics; NULL: plain */
    transfer_trust_t trust;         /* of gateways */
    bool has_overlap;
    overlap_plan_t overlap;
    err_t overlap_err; /* why there is none */
    loop_t *loop;
    void (*on_stopped)(void *arg);
    void *on_stopped_arg;
    metrics_t *metrics;
    http_server_t *http;
    rpc_runtime_t *rpc;
    model_devices_t devices;
    uint32_t loaders; /* threads that may load models beside those of the devices */
    char loader[TRIALS_PROGRAM_BYTES];
    trials_t *trials;
    repository_source_t source;
    served_t served;
    lifecycle_t *lifecycle;
    transfer_pool_t *pool;
    exporter_data_t data;
    model_buffers_watch_t buffers; /* what the data plane hears of batch buffers */
    peers_t *peers;
    run_t *run;
    worker_control_t *control;
    loop_timer_t stop_timer;
    bool stop_timer_ready;
    int64_t stop_at_ns; /* 0 = not stopping */
    int idle_polls;
    bool leaving, control_closed, http_stopped;
    char name[MODEL_DEVICE_TEXT_BYTES], scheduler[CONFIG_ADDRESS_TEXT_BYTES],
        metrics_address[CONFIG_ADDRESS_TEXT_BYTES];
};

/* ---- stopping ---- */

static void worker_on_control_closed(void *ctx)
{
    ((worker_service_t *)ctx)->control_closed = true;
}

/* Drain, then leave the scheduler, then end: each step when the one before is done or patience is. */
static void worker_on_stop_timer(loop_timer_t *timer, void *arg)
{
    worker_service_t *worker = arg;
    bool idle = run_under_way(worker->run) == 0;
    bool impatient = clock_now_ns() >= worker->stop_at_ns;

    worker->idle_polls = idle ? worker->idle_polls + 1 : 0;
    if (!worker->leaving && (worker->idle_polls >= STOP_IDLE_POLLS || impatient)) {
        worker->leaving = true;
        worker->stop_at_ns = clock_now_ns() + LEAVE_PATIENCE_NS;
        run_revoke_all(worker->run);
        worker_control_stop(worker->control, worker_on_control_closed, worker);
    } else if (worker->control_closed && (worker->http_stopped || impatient)) {
        worker->on_stopped(worker->on_stopped_arg);
        return;
    }
    loop_timer_start_in(timer, STOP_POLL_NS);
}

static void worker_on_http_stopped(http_server_t *server, void *user)
{
    (void)server;
    ((worker_service_t *)user)->http_stopped = true;
}

void worker_service_stop(worker_service_t *worker, const char *by)
{
    if (worker->stop_at_ns != 0)
        return;
    log_info("stopping", LOG_STR("by", by), LOG_U64("batches", run_under_way(worker->run)));
    worker->stop_at_ns = clock_now_ns() + worker->options->drain_timeout;
    worker_control_drain(worker->control, true);
    if (worker->http)
        http_server_stop(worker->http, 100, worker_on_http_stopped, worker);
    else
        worker->http_stopped = true;
    loop_timer_start_in(&worker->stop_timer, STOP_POLL_NS);
}

void worker_service_reread(worker_service_t *worker)
{
    tls_context_look(worker->dialled);
    tls_context_look(worker->shown);
    if (worker->lifecycle && worker->stop_at_ns == 0)
        lifecycle_reread(worker->lifecycle);
}

static void worker_on_leave(void *ctx)
{
    worker_service_stop(ctx, "the scheduler");
}

/* ---- metrics ---- */

/* For the sizes 1, 2, 4, … and the largest. An unloaded model has 0 of everything. */
static void collect_model_bytes(metrics_t *metrics, const model_t *model)
{
    char version[24], batch[16];
    uint32_t most = model->taken_bytes ? model->info->max_batch : model->measured.max_batch;

    snprintf(version, sizeof(version), "%lld", (long long)model->version);
    for (uint32_t b = 1; b <= most; b = b < most && b * 2 > most ? most : b * 2) {
        snprintf(batch, sizeof(batch), "%u", b);
        metrics_set(metrics_series(metrics, METRIC_WORKER_MODEL_BYTES, model->name, version, batch),
                    model->taken_bytes ? (double)model->batch_bytes[b] : 0);
    }
}

static void collect_devices(worker_service_t *worker)
{
    const model_devices_t *devices = &worker->devices;

    for (uint32_t i = 0; i < devices->count; i++) {
        const model_device_t *device = &devices->list[i];
        metrics_set(metrics_series(worker->metrics, METRIC_WORKER_DEVICE_BYTES, device->name, "used"),
                    (double)atomic_load(&device->used_bytes));
        metrics_set(metrics_series(worker->metrics, METRIC_WORKER_DEVICE_BYTES, device->name, "limit"),
                    (double)devices->memory_bytes);
    }
}

static void worker_on_collect(void *arg)
{
    worker_service_t *worker = arg;
    uint32_t counts[MODEL_STATES] = {0};
    transfer_stats_t data;

    for (uint32_t i = 0; i < worker->served.count; i++) {
        const model_t *model = worker->served.models[i];
        counts[model->serving->state]++;
        if (model->serving->state == MODEL_READY || model->serving->state == MODEL_UNLOADED)
            collect_model_bytes(worker->metrics, model);
    }
    collect_devices(worker);
    if (!worker->is_within) {
        transfer_pool_stats(worker->pool, &data);
        exporter_data_collect(&worker->data, &data);
    }
    for (int state = 0; state < MODEL_STATES; state++)
        metrics_set(
            metrics_series(worker->metrics, METRIC_WORKER_MODELS, model_state_name((model_state_t)state)),
            counts[state]);
}

/* ---- starting ---- */

static void on_model_changed(void *ctx, const model_t *model, const model_t *old)
{
    worker_service_t *worker = ctx;

    if (model->serving->state == MODEL_READY)
        serving_tell_mode(model, worker->metrics);
    worker_control_report_model(worker->control, model, old);
}

static void on_model_leaves(void *ctx, const model_t *model)
{
    worker_service_t *worker = ctx;

    if (worker->run)
        run_forget(worker->run, model);
    model_buffers_withdraw(model, &worker->devices);
}

static void on_model_gone(void *ctx, const model_t *model)
{
    worker_service_t *worker = ctx;

    collect_model_bytes(worker->metrics, model); /* no later look finds it */
    worker_control_report_gone(worker->control, model);
}

static void on_command_done(void *ctx, uint64_t command, status_t status, const char *reason)
{
    worker_control_report_command(((worker_service_t *)ctx)->control, command, status, reason);
}

static void worker_on_report(void *ctx, const run_report_t *report)
{
    worker_control_report_batch(((worker_service_t *)ctx)->control, report);
}

static void worker_on_device_lost(void *ctx, uint32_t device)
{
    (void)device;
    worker_control_report_devices(((worker_service_t *)ctx)->control);
}

static void worker_on_profile(void *ctx, const model_t *model)
{
    log_debug("profile_corrected", LOG_STR("model", model->name),
              LOG_MS("b1_ms", profile_latency_ns(&model->profile, 1)),
              LOG_MS("max_ms", profile_latency_ns(&model->profile, model->profile.max_batch)));
    if (!model->serving->superseded)
        worker_control_report_model(((worker_service_t *)ctx)->control, model, NULL);
}

static void worker_on_model_idle(void *ctx, model_t *model)
{
    worker_service_t *worker = ctx;

    if (worker->lifecycle)
        lifecycle_idle(worker->lifecycle, model);
}

static void worker_name(worker_service_t *worker)
{
    const worker_options_t *options = worker->options;
    char host[64] = "worker";

    gethostname(host, sizeof(host) - 1);
    if (options->name)
        snprintf(worker->name, sizeof(worker->name), "%s", options->name);
    else
        snprintf(worker->name, sizeof(worker->name), "%s/%d", host, (int)getpid());
    if (worker->within.hub)
        snprintf(worker->scheduler, sizeof(worker->scheduler), "this process");
    else
        value_format_address_at(&options->scheduler, "127.0.0.1", worker->scheduler,
                                sizeof(worker->scheduler));
    value_format_address_at(&options->metrics_address, "127.0.0.1", worker->metrics_address,
                            sizeof(worker->metrics_address));
}

static status_t worker_open_models(worker_service_t *worker, err_t *err)
{
    const worker_options_t *options = worker->options;

    status_t status = repository_source_open(&worker->source, options->models, options->profile,
                                             (uint32_t)options->emulated_elements,
                                             (uint32_t)options->emulated_max_batch, err);
    return status == STATUS_OK ? served_fill(&worker->served, &worker->source, err) : status;
}

static status_t worker_start_models(worker_service_t *worker, err_t *err)
{
    static const lifecycle_ops_t ops = {.changed = on_model_changed,
                                        .leaves = on_model_leaves,
                                        .gone = on_model_gone,
                                        .answer = on_command_done};
    const worker_options_t *options = worker->options;
    lifecycle_options_t lifecycle = {.loop = worker->loop,
                                     .served = &worker->served,
                                     .source = &worker->source,
                                     .metrics = worker->metrics,
                                     .load = {.devices = &worker->devices,
                                              .profile_budget_ns = options->profile_budget,
                                              .mode = (model_mode_t)options->mode,
                                              .overlap = worker->has_overlap ? &worker->overlap : NULL,
                                              .overlap_why = worker->overlap_err.text,
                                              .trials = worker->trials,
                                              .use_cache = options->profile_cache},
                                     .loaders = worker->loaders,
                                     .control = (model_control_t)options->model_control,
                                     .at_start = options->load_model.items,
                                     .at_start_count = options->load_model.len,
                                     .poll_interval_ns = options->poll_interval,
                                     .ops = &ops,
                                     .ctx = worker};

    return lifecycle_create(&lifecycle, &worker->lifecycle, err);
}

/* The one that is named, else the one that `fermata profile --overlap` left beside the models, if there is one. A plan
 * that cannot be read is no reason not to serve. */
static void worker_read_overlap(worker_service_t *worker)
{
    const worker_options_t *options = worker->options;
    const char *path = options->overlap_plan;
    char beside[PATH_MAX];
    err_t *err = &worker->overlap_err;

    if (!path && options->models &&
        overlap_plan_path(options->models, model_engines[options->engine], beside, sizeof(beside)) &&
        access(beside, F_OK) == 0)
        path = beside;
    if (!path)
        err_set(err, STATUS_NOT_FOUND,
                "there is no overlap plan: `fermata profile --overlap MODEL MODEL...` makes one (or name it: "
                "--overlap-plan)");
    else if (overlap_plan_read(path, &worker->overlap, err) == STATUS_OK)
        worker->has_overlap = true;
    else
        log_warn("overlap_plan_not_used", LOG_ERR(err));
}

static status_t worker_open_trials(worker_service_t *worker, const engine_config_t *config, err_t *err)
{
    trials_options_t trials = {.timeout_ns = worker->options->load_timeout, .engine = *config};
    status_t status = trials_program(worker->options->loader, worker->loader, &trials.program, err);

    return status == STATUS_OK && trials.program ? trials_create(&trials, &worker->trials, err) : status;
}

static status_t worker_open_devices(worker_service_t *worker, err_t *err)
{
    const worker_options_t *options = worker->options;
    const overlap_plan_t *plan = worker->has_overlap ? &worker->overlap : NULL;
    engine_config_t config = {.providers = options->providers,
                              .threads = (uint32_t)options->threads,
                              .streams = (uint32_t)options->streams,
                              .memory_limit_bytes = (uint64_t)options->memory_limit,
                              .jitter = options->emulated_jitter};
    const char *engine = model_engines[options->engine];
    uint32_t count = (uint32_t)options->devices;
    model_mode_t mode = (model_mode_t)options->mode;
    devices_wanted_t wanted = wanted_by_configs(&worker->served, mode);

    bool on_cpu = model_engine_is_cpu(engine);
    cpus_t cpus;

    cpus_look(&cpus);
    if (count == 0 && strcmp(engine, "cuda") != 0)
        count = 1;
    config.threads = cpu_share_threads(&cpus, config.threads, count);
    if (config.streams == 0)
        config.streams = wanted_streams(&wanted, plan, on_cpu ? &cpus : NULL, count, config.threads);
    if (on_cpu)
        cpu_share_tell(&cpus, count, config.streams, config.threads);
    if (strcmp(engine, "emulated") != 0)
        worker->loaders =
            cpu_share_left(&cpus, on_cpu ? (uint64_t)count * config.streams * config.threads : 0);
    status_t status =
        model_devices_open(&worker->devices, engine, count, &config, options->pin, worker->metrics, err);
    if (status == STATUS_OK)
        status = worker_open_trials(worker, &config, err);
    if (status != STATUS_OK)
        return status;
    if (options->device_class)
        worker->devices.device_class = options->device_class;
    if (options->profile_cache)
        wanted_by_profiles(&wanted, &worker->served, mode, &worker->devices);
    wanted_tell(&wanted, plan, &worker->devices);
    return STATUS_OK;
}

static void worker_on_buffer_made(void *ctx, bool on_device, void *base, size_t len_bytes)
{
    transfer_buffer_add(((worker_service_t *)ctx)->pool, on_device ? TRANSFER_IN_DEVICE : TRANSFER_IN_HOST,
                        base, len_bytes);
}

static void worker_on_buffer_gone(void *ctx, void *base)
{
    transfer_buffer_drop(((worker_service_t *)ctx)->pool, base);
}

/* Inputs are fetched into the buffers of batches and outputs pushed from them. */
static void worker_watch_buffers(worker_service_t *worker)
{
    worker->buffers =
        (model_buffers_watch_t){.made = worker_on_buffer_made, .gone = worker_on_buffer_gone, .ctx = worker};
    worker->devices.watch = &worker->buffers;
}

static landing_t worker_choose_landing(worker_service_t *worker)
{
    const transfer_reach_t reach = transfer_pool_reach(worker->pool);
    const char *why;
    landing_t landing = landing_choose(&reach, worker->devices.ops->input_alloc, &why);

    worker->devices.inputs_on_device = landing == LANDS_IN_DEVICE;
    log_info("inputs_land", LOG_STR("in", landing_name(landing)), LOG_STR("because", why));
    return landing;
}

/* Everything that turns on the loop, from the outside in. */
static status_t worker_open_services(worker_service_t *worker, err_t *err)
{
    transfer_pool_options_t pool = {.loop = loop_uv(worker->loop),
                                    .choice = (transfer_choice_t)worker->options->transfer,
                                    .spin = worker->options->transfer_spin};
    rpc_runtime_options_t rpc = {.loop = worker->loop};
    worker_control_options_t control = {.loop = worker->loop,
                                        .scheduler = worker->scheduler,
                                        .name = worker->name,
                                        .devices = &worker->devices,
                                        .served = &worker->served,
                                        .metrics = worker->metrics,
                                        .leave = worker_on_leave,
                                        .leave_ctx = worker};

    if (transfer_choice_check(pool.choice, err) != STATUS_OK)
        return err->code;
    if (getrandom(&control.instance_id, sizeof(control.instance_id), 0) != sizeof(control.instance_id) ||
        getrandom(&control.instance_key, sizeof(control.instance_key), 0) != sizeof(control.instance_key))
        return err_set(err, STATUS_IO, "getrandom: %m");
    if (tls_cluster_dial(&worker->options->cluster, "scheduler", NULL, &worker->dialled, err) != STATUS_OK ||
        tls_cluster_serve(&worker->options->cluster, NULL, &worker->shown, err) != STATUS_OK ||
        transfer_trust_open(&worker->options->cluster, worker->options->cluster_secret, false, &worker->trust,
                            err) != STATUS_OK)
        return err->code;
    pool.trust = worker->trust;
    if (!worker->is_within && exporter_create(loop_uv(worker->loop), worker->metrics_address, worker->shown,
                                              worker->metrics, &worker->http, err) != STATUS_OK)
        return err->code;
    if (!worker->within.hub && rpc_runtime_create(&rpc, &worker->rpc, err) != STATUS_OK)
        return err->code;
    const peers_here_t here = {
        .loop = worker->loop, .owners = worker->within.owners, .count = worker->within.owner_count};
    if (transfer_pool_create(&pool, &worker->pool, err) != STATUS_OK ||
        peers_create(worker->pool, worker->is_within ? &here : NULL, &worker->peers, err) != STATUS_OK)
        return err->code;
    worker_watch_buffers(worker);
    control.inputs_land = worker_choose_landing(worker);
    control.rpc = worker->rpc;
    control.hub = worker->within.hub;
    control.tls = worker->dialled;
    control.peers = worker->peers;
    if (worker_control_create(&control, &worker->control, err) != STATUS_OK)
        return err->code;
    run_options_t run = {.loop = worker->loop,
                         .devices = &worker->devices,
                         .peers = worker->peers,
                         .pool = worker->pool,
                         .metrics = worker->metrics,
                         .report = worker_on_report,
                         .device_lost = worker_on_device_lost,
                         .profile_changed = worker_on_profile,
                         .model_idle = worker_on_model_idle,
                         .ctx = worker};
    return run_create(&run, &worker->run, err);
}

static status_t worker_start(worker_service_t *worker, err_t *err)
{
    if (loop_timer_init(&worker->stop_timer, worker->loop, worker_on_stop_timer, worker, err) != STATUS_OK)
        return err->code;
    worker->stop_timer_ready = true;
    if (!worker->is_within)
        exporter_data_init(&worker->data, worker->metrics);
    if (metrics_on_collect(worker->metrics, worker_on_collect, worker) != STATUS_OK)
        return err_set(err, STATUS_INTERNAL, "too many collectors");
    if (worker_start_models(worker, err) != STATUS_OK)
        return err->code;
    return worker_control_start(worker->control, worker->run, worker->lifecycle, err);
}

/* ---- from outside ---- */

const served_t *worker_service_models(const worker_service_t *worker)
{
    return &worker->served;
}

void worker_service_print_ready(const worker_service_t *worker)
{
    printf("ready {\"service\":\"worker\",\"metrics\":\"%s\",\"devices\":%u,\"models\":%u,\"pid\":%d}\n",
           worker->http ? http_server_address(worker->http) : "", worker->devices.count, worker->served.count,
           (int)getpid());
    fflush(stdout);
}

void worker_service_on_stopped(worker_service_t *worker, void (*on_stopped)(void *arg), void *arg)
{
    worker->on_stopped = on_stopped;
    worker->on_stopped_arg = arg;
}

/* In the order of loop/loop.h; also unwinds a start that failed half-way. */
void worker_service_destroy(worker_service_t *worker)
{
    if (!worker)
        return;
    run_destroy(worker->run);
    worker_control_destroy(worker->control);
    lifecycle_destroy(worker->lifecycle);
    peers_destroy(worker->peers);
    worker->devices.watch = NULL;
    transfer_pool_destroy(worker->pool);
    http_server_destroy(worker->http);
    if (worker->rpc)
        rpc_runtime_destroy(worker->rpc);
    tls_context_destroy(worker->dialled);
    tls_context_destroy(worker->shown);
    transfer_trust_close(&worker->trust);
    served_dispose(&worker->served, &worker->devices);
    if (worker->devices.ops)
        model_devices_close(&worker->devices);
    trials_destroy(worker->trials);
    repository_source_close(&worker->source);
    if (worker->stop_timer_ready)
        loop_timer_dispose(&worker->stop_timer);
    if (!worker->is_within)
        metrics_destroy(worker->metrics);
    free(worker);
}

static status_t worker_open(worker_service_t *worker, err_t *err)
{
    worker_name(worker);
    worker->metrics = worker->is_within ? worker->within.metrics : metrics_create("worker", err);
    if (!worker->metrics)
        return err->code;
    status_t status = worker_open_models(worker, err);
    if (status == STATUS_OK)
        worker_read_overlap(worker);
    if (status == STATUS_OK)
        status = worker_open_devices(worker, err);
    if (status == STATUS_OK)
        status = worker_open_services(worker, err);
    return status == STATUS_OK ? worker_start(worker, err) : status;
}

status_t worker_service_create(loop_t *loop, const worker_options_t *options, const worker_within_t *within,
                               worker_service_t **out, err_t *err)
{
    worker_service_t *worker = calloc(1, sizeof(*worker));

    if (!worker)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    worker->loop = loop;
    worker->options = options;
    worker->is_within = within;
    if (within)
        worker->within = *within;
    status_t status = worker_open(worker, err);
    if (status != STATUS_OK) {
        worker_service_destroy(worker);
        return status;
    }
    *out = worker;
    return STATUS_OK;
}
