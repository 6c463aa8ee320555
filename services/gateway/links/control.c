#include "gateway/links/control.h"

#include "base/clock.h"
#include "base/log.h"
#include "control.pb-c.h"
#include "link/outage.h"
#include "loop/timer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTROL_VERSION = 1 };

/* A catalogue of a thousand models with a thousand labels each unpacks to some 50 MB. */
enum { UNPACK_LIMIT_BYTES = 128 << 20, RECEIVE_LIMIT_BYTES = 64 << 20 };

/* Tasks leave while less than half of it waits: one full message, half a megabyte, and all else still fits then. */
enum { SEND_QUEUE_BYTES = 2 << 20 };

/* The scheduler is given up after so many of its ping intervals in silence, and not before SILENCE_MIN_NS. */
enum { SILENT_INTERVALS = 20 };
#define SILENCE_MIN_NS (2 * NS_PER_S)
/* What may pass until its Welcome says how often it pings. */
#define GREETING_NS (5 * NS_PER_S)

typedef enum { CONTROL_DOWN, CONTROL_GREETING, CONTROL_WELCOMED, CONTROL_UP } control_state_t;

struct gateway_control {
    gateway_control_options_t options;
    link_kind_t kind;
    link_dial_t *dial;
    link_t *link; /* NULL: none is up */
    control_state_t state;
    uint64_t epoch; /* the newest seen */
    pb_arena_t arena;
    uv_check_t after_poll;
    uv_prepare_t before_poll; /* for what came from elsewhere: timers, posted jobs */
    unsigned open_handles;
    loop_timer_t silence;
    int64_t heard_ns, silence_ns;
    bool pong_due;
    uint64_t pong_sent_ns;
    int64_t ping_heard_ns;
    metric_t *connected;
    void (*closed)(void *ctx);
    void *closed_ctx;
    outage_t outage;
    char away[320];
    uint64_t seen; /* version of the catalogue taken over, to be told; 0 = told */
    asks_t asks;
    bool refused; /* a task, for which the outbox had no room; on_room is due */
    outbox_t outbox;
};

/* ------------------------------------------------------------------ sending */

/* The stream holds as much as it should. What it is given then would only grow old in it: tasks wait in
 * the outbox, which lets go of those that have missed their deadlines, and cancellations stay behind their
 * tasks. on_writable goes on. */
static bool congested(const gateway_control_t *control)
{
    return link_pending_bytes(control->link) > SEND_QUEUE_BYTES / 2;
}

bool gateway_control_has_room(const gateway_control_t *control)
{
    return control->link && !congested(control);
}

/* What was in it is lost to the scheduler where it cannot be sent. With a new stream all tasks are submitted again. */
static void send_frame(gateway_control_t *control, const Control__GatewayToScheduler *frame)
{
    status_t status = link_send(control->link, &frame->base);
    if (status == STATUS_OK)
        return;
    log_warn_limited("control_send_failed", LOG_STR("status", status_name(status)));
    link_cancel(control->link);
}

void gateway_control_refused(gateway_control_t *control, estimates_refused_t *refused)
{
    Control__GatewayToScheduler frame = CONTROL__GATEWAY_TO_SCHEDULER__INIT;
    Control__Refused message = CONTROL__REFUSED__INIT;
    message.n_model = message.n_priority = refused->count;
    message.n_overload = message.n_backlog = message.n_infeasible = refused->count;
    message.model = refused->model;
    message.priority = refused->priority;
    message.overload = refused->overload;
    message.backlog = refused->backlog;
    message.infeasible = refused->infeasible;
    frame.epoch = control->epoch;
    frame.refused = &message;
    send_frame(control, &frame);
}

static void flush(gateway_control_t *control)
{
    outbox_t *outbox = &control->outbox;
    bool waiting = outbox->count > 0 || outbox->cancel_count > 0 || outbox->missed_count > 0;
    bool other =
        control->pong_due || control->seen > 0 || control->asks.unsent > 0 || outbox->arrived_count > 0;
    if (!control->link || (!waiting && !other))
        return;
    bool go = waiting && !congested(control);
    if (!go && !other)
        return;
    Control__ModelRequest requests[ASKS_MAX], *request_list[ASKS_MAX];
    Control__GatewayToScheduler message = CONTROL__GATEWAY_TO_SCHEDULER__INIT;
    Control__TaskBatch tasks;
    Control__CancelBatch cancels;
    Control__Pong pong = CONTROL__PONG__INIT;
    int64_t now_ns = clock_now_ns();
    message.epoch = control->epoch;
    message.tasks = go && outbox_take_tasks(outbox, now_ns, &tasks) ? &tasks : NULL;
    message.cancels = go && outbox_take_cancels(outbox, &cancels) ? &cancels : NULL;
    if (control->pong_due) {
        pong.sent_ns = control->pong_sent_ns;
        pong.held_ns = now_ns - control->ping_heard_ns;
        message.pong = &pong;
        control->pong_due = false;
    }
    message.n_model_requests = asks_take_unsent(&control->asks, requests, request_list);
    message.model_requests = request_list;
    message.n_arrived = outbox_take_arrived(outbox, &message.arrived);
    message.catalogue_seen = control->seen;
    control->seen = 0;
    send_frame(control, &message);
}

/* What on_room submits leaves at once, too. Each round fills the stream, so there are few. */
static void flush_and_tell(gateway_control_t *control)
{
    flush(control);
    while (control->refused && control->state == CONTROL_UP && control->outbox.count == 0) {
        control->refused = false;
        control->options.ops->on_room(control->options.ctx);
        flush(control);
    }
}

static void on_writable(link_t *link, void *ctx)
{
    (void)link;
    flush_and_tell(ctx);
}

static void on_after_poll(uv_check_t *check)
{
    flush_and_tell(check->data);
}

static void on_before_poll(uv_prepare_t *prepare)
{
    flush_and_tell(prepare->data);
}

static status_t refuse(gateway_control_t *control)
{
    control->refused = true;
    return STATUS_UNAVAILABLE;
}

status_t gateway_control_submit(gateway_control_t *control, const gateway_control_task_t *task)
{
    outbox_t *outbox = &control->outbox;
    if (outbox_add(outbox, task) == STATUS_OK)
        return STATUS_OK;
    flush(control);
    if (outbox->count > 0 && outbox_let_go(outbox, clock_now_ns()) == 0)
        return refuse(control);
    return outbox_add(outbox, task) == STATUS_OK ? STATUS_OK : refuse(control);
}

status_t gateway_control_ask(gateway_control_t *control, bool load, const char *name, ask_done_fn done,
                             void *ctx, uint64_t *id, err_t *err)
{
    if (control->state != CONTROL_UP)
        return err_set(err, STATUS_UNAVAILABLE, "%s", control->away);
    return asks_add(&control->asks, load, name, done, ctx, id, err);
}

void gateway_control_forget(gateway_control_t *control, uint64_t id)
{
    asks_forget(&control->asks, id);
}

void gateway_control_cancel(gateway_control_t *control, uint64_t id)
{
    if (control->state == CONTROL_UP)
        outbox_cancel(&control->outbox, id);
}

void gateway_control_miss(gateway_control_t *control, uint64_t id)
{
    if (control->state == CONTROL_UP)
        outbox_miss(&control->outbox, id);
}

void gateway_control_arrive(gateway_control_t *control, uint64_t id)
{
    if (control->state == CONTROL_UP)
        outbox_arrive(&control->outbox, id);
}

static void send_hello(gateway_control_t *control)
{
    Control__Hello hello = CONTROL__HELLO__INIT;
    hello.min_version = hello.max_version = CONTROL_VERSION;
    hello.instance_id = control->options.instance_id;
    hello.instance_key = control->options.instance_key;
    hello.name = (char *)(uintptr_t)control->options.name;
    hello.data_address = (char *)(uintptr_t)control->options.data_address;
    Control__GatewayToScheduler message = CONTROL__GATEWAY_TO_SCHEDULER__INIT;
    message.epoch = control->epoch;
    message.hello = &hello;
    link_send(control->link, &message.base);
}

/* ------------------------------------------------------------------ receiving */

static void refuse_version(gateway_control_t *control, uint32_t version)
{
    char text[OUTAGE_TEXT_BYTES];
    snprintf(text, sizeof text, "it speaks version %u of the control protocol, and this gateway version %d",
             version, CONTROL_VERSION);
    outage_refuse(&control->outage, control->link, RPC_FAILED_PRECONDITION, text);
}

static void on_welcome(gateway_control_t *control, const Control__Welcome *welcome, uint64_t epoch)
{
    if (welcome->version != CONTROL_VERSION) {
        refuse_version(control, welcome->version);
        return;
    }
    outage_over(&control->outage);
    control->state = CONTROL_WELCOMED;
    int64_t silence_ns = welcome->ping_interval_ns > 0 && welcome->ping_interval_ns < NS_PER_S * 60
                             ? welcome->ping_interval_ns * SILENT_INTERVALS
                             : 0;
    control->silence_ns = silence_ns > 0 && silence_ns < SILENCE_MIN_NS ? SILENCE_MIN_NS : silence_ns;
    if (control->silence_ns > 0)
        loop_timer_start_in(&control->silence, control->silence_ns);
    else
        loop_timer_stop(&control->silence);
    log_info("scheduler_joined", LOG_STR("scheduler", control->options.scheduler), LOG_U64("epoch", epoch),
             LOG_U64("version", welcome->version), LOG_U64("peer_index", welcome->peer_index));
}

static const char *stage_text(uint32_t stage)
{
    static const char *const texts[] = {"scheduler", "admission", "queue", "worker",
                                        "lost",      "fetch",     "shapes"};
    return stage < sizeof texts / sizeof *texts ? texts[stage] : texts[0];
}

static void on_drops(gateway_control_t *control, const Control__DropBatch *drops)
{
    if (drops->n_status != drops->n_id || drops->n_stage != drops->n_id ||
        drops->n_retry_after_ms != drops->n_id)
        return;
    for (size_t i = 0; i < drops->n_id; i++) {
        uint32_t status = drops->status[i];
        gateway_control_drop_t drop = {
            .id = drops->id[i],
            .status = status != STATUS_OK && status <= STATUS_INTERNAL ? (status_t)status : STATUS_INTERNAL,
            .stage = stage_text(drops->stage[i]),
            .retry_after_ms = drops->retry_after_ms[i]};
        control->options.ops->on_drop(control->options.ctx, &drop);
    }
}

static void on_catalogue(gateway_control_t *control, const Control__Catalogue *catalogue)
{
    control->options.ops->on_catalogue(control->options.ctx, catalogue);
    control->seen = catalogue->version;
    if (control->state == CONTROL_WELCOMED) {
        control->state = CONTROL_UP;
        metrics_set(control->connected, 1);
        control->options.ops->on_up(control->options.ctx);
    }
}

static void dispatch(gateway_control_t *control, const Control__SchedulerToGateway *message)
{
    if (message->epoch < control->epoch) {
        if (message->welcome) /* an old scheduler took the call: somewhere there is a newer one */
            outage_refuse(&control->outage, control->link, RPC_FAILED_PRECONDITION, "it is of an old epoch");
        return;
    }
    if (message->welcome && control->state == CONTROL_GREETING)
        on_welcome(control, message->welcome, message->epoch);
    if (control->state < CONTROL_WELCOMED)
        return;
    control->epoch = message->epoch;
    if (message->ping) {
        control->pong_due = true;
        control->pong_sent_ns = message->ping->sent_ns;
        control->ping_heard_ns = control->heard_ns;
    }
    if (message->catalogue)
        on_catalogue(control, message->catalogue);
    if (message->drops)
        on_drops(control, message->drops);
    for (size_t i = 0; i < message->n_doubted; i++)
        control->options.ops->on_doubt(control->options.ctx, message->doubted[i]);
    if (message->estimate && control->state == CONTROL_UP)
        control->options.ops->on_estimate(control->options.ctx, message->estimate);
    for (size_t i = 0; i < message->n_model_answers; i++) {
        const Control__ModelAnswer *answer = message->model_answers[i];
        asks_answer(&control->asks, answer->id,
                    answer->status <= STATUS_INTERNAL ? (status_t)answer->status : STATUS_INTERNAL,
                    answer->reason);
    }
}

static void on_said(link_t *link, void *ctx, const ProtobufCMessage *message)
{
    gateway_control_t *control = ctx;
    if (link != control->link)
        return;
    control->heard_ns = clock_now_ns();
    if (message) {
        dispatch(control, (const Control__SchedulerToGateway *)message);
    } else {
        outage_refuse(&control->outage, link, RPC_INTERNAL,
                      "it says what is no message of the control protocol");
    }
}

/* ------------------------------------------------------------------ the stream's life */

static void on_open(link_t *link, void *ctx)
{
    gateway_control_t *control = ctx;
    control->link = link;
    outage_try(&control->outage);
    control->state = CONTROL_GREETING;
    control->heard_ns = clock_now_ns();
    outbox_clear(&control->outbox);
    control->pong_due = control->refused = false;
    control->seen = 0;
    control->silence_ns = GREETING_NS;
    loop_timer_start_in(&control->silence, GREETING_NS);
    send_hello(control);
}

/* Each reason is told once; as long as it holds clients hear it. */
static void explain(gateway_control_t *control, rpc_code_t code, const char *text)
{
    bool news = outage_explain(&control->outage, &code, &text);
    snprintf(control->away, sizeof control->away, "no connection to the scheduler at %s (%s%s%s)",
             control->options.scheduler, rpc_code_name(code), text && text[0] ? ": " : "", text ? text : "");
    log_at(news && !control->closed ? LOG_WARN : LOG_DEBUG, "scheduler_away", LOG_STR("part", "gateway"),
           LOG_STR("scheduler", control->options.scheduler), LOG_STR("code", rpc_code_name(code)),
           LOG_STR("reason", text ? text : ""));
}

static void on_close(link_t *link, void *ctx, rpc_code_t code, const char *text)
{
    gateway_control_t *control = ctx;
    bool was_up = control->state == CONTROL_UP;
    (void)link;
    control->link = NULL;
    control->state = CONTROL_DOWN;
    outbox_clear(&control->outbox);
    loop_timer_stop(&control->silence);
    metrics_set(control->connected, 0);
    explain(control, code, text);
    asks_fail(&control->asks, "the scheduler went away; it may be done nevertheless");
    if (was_up)
        control->options.ops->on_down(control->options.ctx);
}

static void on_no_link(void *ctx, rpc_code_t code, const char *text)
{
    gateway_control_t *control = ctx;
    if (control->state == CONTROL_DOWN)
        explain(control, code, text);
}

static void on_silence(loop_timer_t *timer, void *arg)
{
    gateway_control_t *control = arg;
    char text[OUTAGE_TEXT_BYTES];
    int64_t quiet_ns = clock_now_ns() - control->heard_ns;
    if (!control->link)
        return;
    if (quiet_ns < control->silence_ns) {
        loop_timer_start_in(timer, control->silence_ns - quiet_ns);
        return;
    }
    snprintf(text, sizeof text, "nothing was heard of it for %.0f s", (double)quiet_ns / NS_PER_S);
    outage_refuse(&control->outage, control->link, RPC_DEADLINE_EXCEEDED, text);
}

bool gateway_control_is_up(const gateway_control_t *control)
{
    return control->state == CONTROL_UP;
}

const char *gateway_control_away_reason(const gateway_control_t *control)
{
    return control->away;
}

/* ------------------------------------------------------------------ making and ending */

static void on_handle_closed(uv_handle_t *handle)
{
    gateway_control_t *control = handle->data;
    if (--control->open_handles > 0)
        return;
    link_dial_destroy(control->dial);
    if (control->closed)
        control->closed(control->closed_ctx);
}

static void start_handles(gateway_control_t *control)
{
    uv_loop_t *uv = loop_uv(control->options.loop);
    uv_check_init(uv, &control->after_poll);
    uv_prepare_init(uv, &control->before_poll);
    control->after_poll.data = control->before_poll.data = control;
    control->open_handles = 2;
    uv_check_start(&control->after_poll, on_after_poll);
    uv_prepare_start(&control->before_poll, on_before_poll);
}

status_t gateway_control_create(const gateway_control_options_t *options, gateway_control_t **control,
                                err_t *err)
{
    gateway_control_t *made = calloc(1, sizeof *made);
    if (!made)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the control stream");
    made->options = *options;
    made->connected = metrics_series(options->metrics, METRIC_GATEWAY_SCHEDULER_CONNECTED);
    snprintf(made->away, sizeof made->away, "no connection to the scheduler at %s yet", options->scheduler);
    pb_arena_init(&made->arena, UNPACK_LIMIT_BYTES);
    status_t status = loop_timer_init(&made->silence, options->loop, on_silence, made, err);
    if (status != STATUS_OK)
        goto free_control;
    made->kind = (link_kind_t){.method = "/fermata.control.v1.Control/Gateway",
                               .hears = &control__scheduler_to_gateway__descriptor,
                               .arena = &made->arena,
                               .ops = {.opened = on_open,
                                       .said = on_said,
                                       .writable = on_writable,
                                       .closed = on_close,
                                       .down = on_no_link},
                               .ctx = made};
    const link_via_t via = {
        .hub = options->hub,
        .loop = options->loop,
        .rpc = options->rpc,
        .address = options->scheduler,
        .tls = options->tls,
        .limits = {.max_receive_bytes = RECEIVE_LIMIT_BYTES, .send_queue_bytes = SEND_QUEUE_BYTES}};
    status = link_dial(&via, &made->kind, &made->dial, err);
    if (status != STATUS_OK)
        goto dispose_timer;
    start_handles(made);
    *control = made;
    return STATUS_OK;

dispose_timer:
    loop_timer_dispose(&made->silence);
free_control:
    free(made);
    return status;
}

static void on_link_closed(void *arg)
{
    gateway_control_t *control = arg;
    uv_close((uv_handle_t *)&control->after_poll, on_handle_closed);
    uv_close((uv_handle_t *)&control->before_poll, on_handle_closed);
}

void gateway_control_stop(gateway_control_t *control, void (*closed)(void *ctx), void *ctx)
{
    control->closed = closed;
    control->closed_ctx = ctx;
    flush(control); /* the last cancellations */
    link_dial_close(control->dial, on_link_closed, control);
}

void gateway_control_destroy(gateway_control_t *control)
{
    if (!control)
        return;
    loop_timer_dispose(&control->silence);
    pb_arena_dispose(&control->arena);
    free(control);
}
