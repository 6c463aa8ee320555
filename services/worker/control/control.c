#include "worker/control/control.h"

#include "base/clock.h"
#include "base/log.h"
#include "link/outage.h"
#include "repeated.h"
#include "worker/control/done.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum {
    PROTOCOL_VERSION = 1,
    SEND_QUEUE_BYTES = 64 << 20, /* a new stream begins with the reports of all models, labels and all */
};
#define CONTROL_METHOD "/fermata.control.v1.Control/Worker"

struct worker_control {
    worker_control_options_t options;
    run_t *run;
    lifecycle_t *lifecycle;
    link_kind_t kind;
    link_dial_t *dial;
    pb_arena_t arena;
    uv_prepare_t flush;  /* before the loop sleeps: one message for all batches that ended in this turn */
    uint64_t epoch;      /* newest seen */
    uint32_t generation; /* counts streams; batches of an older one are not reported */
    outage_t outage;
    bool stopping;
    bool draining; /* what was last said of the devices; each new stream hears it again */
    bool welcome;  /* this stream has been answered */
    bool devices_due;
    model_t **by_id; /* models by catalogue id */
    uint32_t by_id_cap;
    done_list_t done; /* batches that have ended in this turn */
    metric_t *connected;
    void (*closed)(void *ctx);
    void *closed_ctx;
};

enum { CATALOGUE_ID_MAX = 1 << 20 }; /* never reused within an epoch; far more loads than an epoch sees */

/* ---- sending ---- */

/* A message that is lost would leave the scheduler waiting: better with everything, on a new stream. */
static void control_begin_anew(worker_control_t *control)
{
    link_t *link = control->dial ? link_dial_up(control->dial) : NULL;

    if (link)
        link_cancel(link);
}

static void control_send(worker_control_t *control, Control__WorkerToScheduler *message)
{
    link_t *link = control->dial ? link_dial_up(control->dial) : NULL;

    if (!link)
        return;
    message->epoch = control->epoch;
    if (link_send(link, &message->base) != STATUS_OK)
        control_begin_anew(control);
}

static void control_send_hello(worker_control_t *control)
{
    const model_devices_t *devices = control->options.devices;
    Control__WorkerToScheduler message = CONTROL__WORKER_TO_SCHEDULER__INIT;
    Control__Hello hello = CONTROL__HELLO__INIT;
    Control__Device **list = repeated_make(&control__device__descriptor, devices->count, NULL);

    if (!list) {
        control_begin_anew(control);
        return;
    }
    for (uint32_t i = 0; i < devices->count; i++) {
        list[i]->name = devices->list[i].name;
        list[i]->kind = (char *)(uintptr_t)devices->kind;
        list[i]->memory_bytes = devices->memory_bytes;
        list[i]->stretches = devices->stretches;
        list[i]->slots = devices->slots;
        list[i]->ahead = devices->ahead;
        list[i]->inflight = devices->inflight;
        list[i]->device_class = (char *)(uintptr_t)devices->device_class;
    }
    hello.min_version = hello.max_version = PROTOCOL_VERSION;
    hello.instance_id = control->options.instance_id;
    hello.instance_key = control->options.instance_key;
    hello.name = (char *)(uintptr_t)control->options.name;
    hello.n_devices = devices->count;
    hello.devices = list;
    message.hello = &hello;
    control_send(control, &message);
    free(list);
}

/* gone: it has left the repository. */
static void send_report(worker_control_t *control, const model_t *model, bool gone)
{
    Control__WorkerToScheduler message = CONTROL__WORKER_TO_SCHEDULER__INIT;
    Control__ModelReport report, *list = &report;

    if (!control->welcome)
        return;
    if (model_report_fill(&report, model) != STATUS_OK) {
        control_begin_anew(control);
        return;
    }
    if (gone)
        report.state = CONTROL__MODEL_STATE__MODEL_STATE_GONE;
    message.n_models = 1;
    message.models = &list;
    control_send(control, &message);
    model_report_dispose(&report);
}

/* Grants name a model by its catalogue id. */
static void move_ids(worker_control_t *control, const model_t *from, model_t *to)
{
    for (uint32_t i = 0; i < control->by_id_cap; i++) {
        if (control->by_id[i] == from)
            control->by_id[i] = to;
    }
}

void worker_control_report_model(worker_control_t *control, const model_t *model, const model_t *old)
{
    if (old)
        move_ids(control, old, served_find_version(control->options.served, model->name, model->version));
    send_report(control, model, false);
}

void worker_control_report_gone(worker_control_t *control, const model_t *model)
{
    move_ids(control, model, NULL);
    send_report(control, model, true);
}

void worker_control_report_command(worker_control_t *control, uint64_t command, status_t status,
                                   const char *reason)
{
    Control__WorkerToScheduler message = CONTROL__WORKER_TO_SCHEDULER__INIT;
    Control__CommandDone done = CONTROL__COMMAND_DONE__INIT, *list = &done;

    if (!control->welcome)
        return;
    done.id = command;
    done.status = status;
    done.reason = (char *)(uintptr_t)reason;
    message.n_commands_done = 1;
    message.commands_done = &list;
    control_send(control, &message);
}

static bool any_lost(const model_devices_t *devices)
{
    for (uint32_t i = 0; i < devices->count; i++) {
        if (devices->list[i].lost)
            return true;
    }
    return false;
}

static void control_put_state(const worker_control_t *control, uint32_t device, Control__DeviceState *state)
{
    static char lost[] = "the engine has lost it";

    state->device = device;
    state->status =
        control->draining ? CONTROL__DEVICE_STATUS__DEVICE_DRAINING : CONTROL__DEVICE_STATUS__DEVICE_READY;
    if (control->options.devices->list[device].lost) {
        state->status = CONTROL__DEVICE_STATUS__DEVICE_FAILED;
        state->reason = lost;
    }
}

static void control_send_devices(worker_control_t *control)
{
    const model_devices_t *devices = control->options.devices;
    Control__WorkerToScheduler message = CONTROL__WORKER_TO_SCHEDULER__INIT;
    Control__DeviceState **list = repeated_make(&control__device_state__descriptor, devices->count, NULL);

    if (!list) {
        control_begin_anew(control);
        return;
    }
    for (uint32_t i = 0; i < devices->count; i++)
        control_put_state(control, i, list[i]);
    message.n_devices = devices->count;
    message.devices = list;
    control_send(control, &message);
    free(list);
}

static void control_send_all_models(worker_control_t *control)
{
    const served_t *served = control->options.served;

    for (uint32_t i = 0; i < served->count; i++)
        worker_control_report_model(control, served->models[i], NULL);
}

static void control_send_pong(worker_control_t *control, const Control__Ping *ping, int64_t received_ns)
{
    Control__WorkerToScheduler message = CONTROL__WORKER_TO_SCHEDULER__INIT;
    Control__Pong pong = CONTROL__PONG__INIT;
    Control__DataLinks links = CONTROL__DATA_LINKS__INIT;

    pong.sent_ns = ping->sent_ns;
    pong.held_ns = clock_now_ns() - received_ns;
    message.pong = &pong;
    transfer_stats_t stats;
    peers_stats(control->options.peers, &stats);
    links.tcp = stats.by[TRANSFER_BY_TCP].connections;
    links.shm = stats.by[TRANSFER_BY_SHM].connections;
    links.rdma = stats.by[TRANSFER_BY_RDMA].connections;
    links.inputs_land = control->options.inputs_land;
    message.data_links = &links;
    control_send(control, &message);
}

/* ---- batches that have ended ---- */

void worker_control_report_batch(void *ctx, const run_report_t *report)
{
    worker_control_t *control = ctx;

    if (report->generation != control->generation || !control->welcome)
        return;
    if (!done_add(&control->done, report)) {
        done_clear(&control->done); /* rows that failed must not go out as good ones */
        control_begin_anew(control);
    }
}

void worker_control_report_devices(worker_control_t *control)
{
    control->devices_due = true;
}

static void control_send_done(worker_control_t *control)
{
    Control__WorkerToScheduler message = CONTROL__WORKER_TO_SCHEDULER__INIT;

    if (control->done.count == 0)
        return;
    done_put(&control->done, &message);
    control_send(control, &message);
    done_clear(&control->done);
}

/* Batches first: those of a device that is said to be lost are forgotten, and their end would be news of nothing. */
static void control_on_flush(uv_prepare_t *prepare)
{
    worker_control_t *control = prepare->data;

    control_send_done(control);
    if (control->devices_due && control->welcome)
        control_send_devices(control);
    control->devices_due = false; /* a welcome that is still to come tells it all the same */
}

/* ---- receiving ---- */

static void forget_catalogue(worker_control_t *control)
{
    for (uint32_t i = 0; i < control->by_id_cap; i++)
        control->by_id[i] = NULL;
}

static void control_on_welcome(worker_control_t *control, const Control__SchedulerToWorker *message)
{
    control->welcome = true;
    outage_over(&control->outage);
    if (message->epoch != control->epoch)
        log_info("scheduler_joined", LOG_U64("epoch", message->epoch),
                 LOG_STR("scheduler", control->options.scheduler),
                 LOG_U64("index", message->welcome->peer_index));
    control->epoch = message->epoch;
    forget_catalogue(control);
    peers_clear(control->options.peers);
    metrics_set(control->connected, 1);
    if (control->lifecycle)
        lifecycle_online(control->lifecycle, true);
    if (control->draining || any_lost(control->options.devices))
        control_send_devices(control);
    control_send_all_models(control);
}

static void control_on_model_id(worker_control_t *control, const Control__ModelId *id)
{
    model_t *model = served_find_version(control->options.served, id->name, id->version);
    uint32_t cap = control->by_id_cap;

    if (!model) /* one without a version is reported as its first */
        model = served_find_version(control->options.served, id->name, 0);
    if (!model || id->id >= CATALOGUE_ID_MAX) {
        log_warn_limited("unknown_model_named", LOG_STR("model", id->name), LOG_I64("version", id->version));
        return;
    }
    while (cap <= id->id)
        cap = cap ? cap * 2 : 64;
    if (cap > control->by_id_cap) {
        model_t **by_id = realloc(control->by_id, cap * sizeof(*by_id));
        if (!by_id) {
            control_begin_anew(control);
            return;
        }
        memset(by_id + control->by_id_cap, 0, (cap - control->by_id_cap) * sizeof(*by_id));
        control->by_id = by_id;
        control->by_id_cap = cap;
    }
    control->by_id[id->id] = model;
}

static void control_on_peers(worker_control_t *control, const Control__PeerTable *table)
{
    err_t err;

    for (size_t i = 0; i < table->n_gone; i++)
        peers_remove(control->options.peers, table->gone[i]);
    for (size_t i = 0; i < table->n_peers; i++) {
        const Control__Peer *peer = table->peers[i];
        if (peers_set(control->options.peers, peer->index, peer->instance_id, peer->data_address, &err) !=
            STATUS_OK)
            log_warn_limited("gateway_unusable", LOG_STR("gateway", peer->name),
                             LOG_STR("address", peer->data_address), LOG_ERR(&err));
    }
}

void worker_control_drain(worker_control_t *control, bool drain)
{
    control->draining = drain;
    if (control->welcome)
        control_send_devices(control);
}

static void control_on_grants(worker_control_t *control, const Control__SchedulerToWorker *message)
{
    for (size_t i = 0; i < message->n_grants; i++) {
        const Control__Grant *grant = message->grants[i];
        model_t *model = grant->model < control->by_id_cap ? control->by_id[grant->model] : NULL;
        run_grant(control->run, control->generation, model, grant);
    }
}

static void control_on_command(worker_control_t *control, const Control__ModelCommand *command)
{
    lifecycle_command_t asked = {.id = command->id,
                                 .name = command->name,
                                 .version = command->version,
                                 .unload = command->action == CONTROL__MODEL_ACTION__MODEL_ACTION_UNLOAD,
                                 .planned = command->planned};

    if (!control->lifecycle) {
        worker_control_report_command(control, command->id, STATUS_UNSUPPORTED,
                                      "this worker's models are fixed");
        return;
    }
    switch (command->action) {
    case CONTROL__MODEL_ACTION__MODEL_ACTION_LOAD:
    case CONTROL__MODEL_ACTION__MODEL_ACTION_UNLOAD:
        log_info("model_command", LOG_STR("action", asked.unload ? "unload" : "load"),
                 LOG_STR("model", asked.name), LOG_I64("version", asked.version), LOG_U64("id", asked.id));
        lifecycle_command(control->lifecycle, &asked);
        break;
    case CONTROL__MODEL_ACTION__MODEL_ACTION_RELEASE:
        lifecycle_release(control->lifecycle, command->name, command->version);
        break;
    case CONTROL__MODEL_ACTION__MODEL_ACTION_MEASURE:
        log_info("model_command", LOG_STR("action", "measure"), LOG_STR("model", asked.name),
                 LOG_I64("version", asked.version), LOG_U64("id", asked.id));
        lifecycle_measure(control->lifecycle, command->id, command->name, command->version);
        break;
    default:
        worker_control_report_command(control, command->id, STATUS_UNSUPPORTED,
                                      "this worker does not know the command");
        break;
    }
}

/* In field order: names come before what uses them. */
static void control_handle(worker_control_t *control, const Control__SchedulerToWorker *message)
{
    int64_t now = clock_now_ns();

    if (message->welcome && !control->welcome)
        control_on_welcome(control, message);
    if (message->ping)
        control_send_pong(control, message->ping, now);
    for (size_t i = 0; i < message->n_model_ids; i++)
        control_on_model_id(control, message->model_ids[i]);
    if (message->peers)
        control_on_peers(control, message->peers);
    control_on_grants(control, message);
    if (message->revoke) {
        for (size_t i = 0; i < message->revoke->n_batch_id; i++)
            run_revoke(control->run, control->generation, message->revoke->batch_id[i]);
    }
    if (message->drain) {
        log_info(message->drain->drain ? "draining" : "serving_again",
                 LOG_U64("batches", run_under_way(control->run)));
        if (message->drain->drain && message->drain->exit)
            control->options.leave(control->options.leave_ctx);
        else
            worker_control_drain(control, message->drain->drain);
    }
    for (size_t i = 0; i < message->n_commands; i++)
        control_on_command(control, message->commands[i]);
}

/* What a message may be: newer or as new as all seen, and nothing before the welcome. */
static const char *control_objection(const worker_control_t *control,
                                     const Control__SchedulerToWorker *message)
{
    if (message->epoch < control->epoch)
        return "its message is of an older epoch";
    if (!control->welcome && !message->welcome)
        return "its message comes before the welcome";
    if (control->welcome && message->epoch != control->epoch)
        return "its message is of another epoch than the welcome of its stream";
    if (message->welcome && message->welcome->version != PROTOCOL_VERSION)
        return "it speaks another version of the control protocol";
    return NULL;
}

static void control_on_said(link_t *link, void *ctx, const ProtobufCMessage *said)
{
    worker_control_t *control = ctx;
    const Control__SchedulerToWorker *message = (const Control__SchedulerToWorker *)said;
    const char *objection = "it says what is no message of the control protocol";

    if (control->stopping)
        return;
    if (message)
        objection = control_objection(control, message);
    if (!objection)
        control_handle(control, message);
    else if (!message || !control->welcome)
        outage_refuse(&control->outage, link, RPC_FAILED_PRECONDITION, objection);
    else
        log_warn_limited("scheduler_message_dropped", LOG_STR("reason", objection),
                         LOG_U64("newest_epoch", control->epoch));
}

/* ---- the stream ---- */

static void control_on_open(link_t *link, void *ctx)
{
    worker_control_t *control = ctx;

    (void)link;
    control->generation++;
    outage_try(&control->outage);
    control->welcome = false;
    done_clear(&control->done);
    run_revoke_all(control->run);
    control_send_hello(control);
}

/* Each reason is told once. */
static void control_on_no_link(void *ctx, rpc_code_t code, const char *text)
{
    worker_control_t *control = ctx;
    bool news = outage_explain(&control->outage, &code, &text);

    log_at(news && !control->stopping ? LOG_WARN : LOG_DEBUG, "scheduler_away", LOG_STR("part", "worker"),
           LOG_STR("scheduler", control->options.scheduler), LOG_STR("code", rpc_code_name(code)),
           LOG_STR("reason", text));
}

static void control_on_close(link_t *link, void *ctx, rpc_code_t code, const char *text)
{
    worker_control_t *control = ctx;

    (void)link;
    control_on_no_link(control, code, text);
    control->welcome = false;
    metrics_set(control->connected, 0);
    if (control->lifecycle)
        lifecycle_online(control->lifecycle, false);
}

status_t worker_control_create(const worker_control_options_t *options, worker_control_t **out, err_t *err)
{
    worker_control_t *control = calloc(1, sizeof(*control));

    if (!control)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    control->options = *options;
    control->connected = metrics_series(options->metrics, METRIC_WORKER_SCHEDULER_CONNECTED);
    pb_arena_init(&control->arena, 64 << 20);
    *out = control;
    return STATUS_OK;
}

status_t worker_control_start(worker_control_t *control, run_t *run, lifecycle_t *lifecycle, err_t *err)
{
    const worker_control_options_t *options = &control->options;
    const link_via_t via = {.hub = options->hub,
                            .rpc = options->rpc,
                            .address = options->scheduler,
                            .tls = options->tls,
                            .limits = {.send_queue_bytes = SEND_QUEUE_BYTES}};

    control->run = run;
    control->lifecycle = lifecycle;
    uv_prepare_init(loop_uv(options->loop), &control->flush);
    control->flush.data = control;
    uv_prepare_start(&control->flush, control_on_flush);
    uv_unref((uv_handle_t *)&control->flush);
    control->kind = (link_kind_t){.method = CONTROL_METHOD,
                                  .hears = &control__scheduler_to_worker__descriptor,
                                  .arena = &control->arena,
                                  .ops = {.opened = control_on_open,
                                          .said = control_on_said,
                                          .closed = control_on_close,
                                          .down = control_on_no_link},
                                  .ctx = control};
    return link_dial(&via, &control->kind, &control->dial, err);
}

static void control_on_link_closed(void *arg)
{
    worker_control_t *control = arg;

    control->closed(control->closed_ctx);
}

void worker_control_stop(worker_control_t *control, void (*closed)(void *ctx), void *ctx)
{
    control->closed = closed;
    control->closed_ctx = ctx;
    control_on_flush(&control->flush);
    control->welcome = false;
    control->stopping = true;
    if (control->dial)
        link_dial_close(control->dial, control_on_link_closed, control);
    else
        closed(ctx);
}

static void control_on_flush_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void worker_control_destroy(worker_control_t *control)
{
    if (!control)
        return;
    link_dial_destroy(control->dial);
    pb_arena_dispose(&control->arena);
    done_dispose(&control->done);
    free(control->by_id);
    if (control->flush.data)
        uv_close((uv_handle_t *)&control->flush, control_on_flush_closed);
    else
        free(control);
}
