/* Making, starting and stopping the whole, and the turn of the loop. */
#include "scheduler/shell.h"

#include "base/clock.h"
#include "base/log.h"
#include "control/models/announce.h"
#include "scheduler/admin/admin.h"
#include "scheduler/admin/http.h"
#include "scheduler/solver.h"
#include "scheduler/streams.h"
#include "scheduler/threads.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

enum {
    ARENA_BYTES_MAX = 64 << 20,
    STOP_GRACE_MS = 200,
};

void scheduler_options_init(scheduler_options_t *options)
{
    *options = (scheduler_options_t){0};
    control_options_init(&options->control);
}

static uint64_t epoch_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static status_t init_metrics(scheduler_t *s, err_t *err)
{
    s->metrics = s->options.metrics ? s->options.metrics : metrics_create("scheduler", err);
    if (!s->metrics)
        return STATUS_NO_MEMORY;
    s->metric.decision = metrics_series(s->metrics, METRIC_SCHED_DECISION_SECONDS);
    s->metric.gateways = metrics_series(s->metrics, METRIC_SCHED_GATEWAYS);
    s->metric.workers = metrics_series(s->metrics, METRIC_SCHED_WORKERS);
    return STATUS_OK;
}

/* A worker does not speak as a gateway, and neither changes the cluster. */
static status_t require_roles(const scheduler_t *s)
{
    status_t status = rpc_server_require_role(s->server, s->kinds.gateway.method, "gateway");
    if (status == STATUS_OK)
        status = rpc_server_require_role(s->server, s->kinds.worker.method, "worker");
    for (const rpc_unary_method_t *call = scheduler_admin_calls; call->path && status == STATUS_OK; call++)
        status = rpc_server_require_role(s->server, call->path, "admin");
    return status;
}

static status_t init_rpc(scheduler_t *s, err_t *err)
{
    rpc_runtime_options_t how = {.loop = s->loop};
    if (!s->options.grpc_address)
        return streams_add(s);
    status_t status = rpc_runtime_create(&how, &s->runtime, err);
    if (status != STATUS_OK)
        return status;
    rpc_server_options_t options = {
        .address = s->options.grpc_address,
        .limits = {.max_receive_bytes = STREAM_MESSAGE_BYTES_MAX,
                   /* streams.c says when a peer is given up: what it lets wait fits */
                   .send_queue_bytes = CATALOGUE_BYTES_MAX + 2 * STREAM_FRAMES_BYTES_MAX,
                   .keepalive_ns = s->options.control.peer_timeout_ns},
        .tls = s->options.tls,
        .unfinished = {.bytes_max = STREAMS_UNFINISHED_BYTES_MAX, .step_ns = 10 * NS_PER_S},
        .accept_slots = 16, /* peers connect once; slots cost memory */
    };
    status = rpc_server_create(s->runtime, &options, &s->server, err);
    if (status == STATUS_OK)
        status = streams_add(s);
    if (status == STATUS_OK)
        status = admin_init(s);
    if (status == STATUS_OK)
        status = require_roles(s);
    return status;
}

/* ---- The control plane ---- */

static void on_note(void *arg, log_level_t level, const char *event, const log_field_t *fields)
{
    (void)arg;
    if (log_enabled(level))
        log_write_limited(level, event, fields, clock_now_ns());
}

static status_t init_control(scheduler_t *s, err_t *err)
{
    world_t world = {.note = on_note,
                     .send = stream_send,
                     .takes_large = stream_takes_large,
                     .close = stream_close,
                     .cancel = stream_cancel,
                     .solve = solver_solve};
    if (s->options.shards > 0) {
        world.make_threads = threads_make;
        world.release_threads = threads_release;
    }
    control_options_t options = s->options.control;
    if (options.epoch == 0)
        options.epoch = epoch_now();
    if (getrandom(&options.scheduler_id, sizeof options.scheduler_id, 0) !=
        (ssize_t)sizeof options.scheduler_id)
        options.scheduler_id = options.epoch;
    return control_create(&options, &world, s, s->metrics, loop_now_ns(), &s->control, err);
}

/* ---- The turn of the loop ---- */

/* What is due is done at the end of the turn, with everything that came in it: other work of the loop may lie between the
 * timer's call and this one. */
static void run(scheduler_t *s)
{
    int64_t begun_ns = loop_now_ns();
    s->due = false;
    control_decide(s->control, begun_ns);
    int64_t decided_ns = loop_now_ns();
    metrics_observe(s->metric.decision, decided_ns - begun_ns);
    control_flush(s->control, decided_ns);
    loop_timer_start(&s->wake, control_due_ns(s->control));
}

static void on_turn(uv_check_t *check)
{
    scheduler_t *s = check->data;
    if (s->due || control_due_ns(s->control) == INT64_MIN)
        run(s);
}

static void on_wake(loop_timer_t *timer, void *arg)
{
    (void)timer;
    scheduler_t *s = arg;
    s->due = true;
}

static status_t init_turn(scheduler_t *s, err_t *err)
{
    status_t status = loop_timer_init(&s->wake, s->loop, on_wake, s, err);
    if (status != STATUS_OK)
        return status;
    s->turn = malloc(sizeof *s->turn);
    if (!s->turn)
        return err_set(err, STATUS_NO_MEMORY, "no memory");
    (void)uv_check_init(loop_uv(s->loop), s->turn);
    s->turn->data = s;
    (void)uv_check_start(s->turn, on_turn);
    loop_timer_start(&s->wake, control_due_ns(s->control));
    return STATUS_OK;
}

static void close_turn(uv_handle_t *handle)
{
    free(handle);
}

/* ---- Making ---- */

static status_t start(scheduler_t *s, err_t *err)
{
    status_t status = init_metrics(s, err);
    if (status == STATUS_OK)
        status = init_control(s, err);
    if (status == STATUS_OK)
        status = init_rpc(s, err);
    if (status == STATUS_OK)
        status = http_start(s, err);
    if (status == STATUS_OK)
        status = init_turn(s, err);
    if (status == STATUS_OK)
        status = solver_start(s, err);
    if (status == STATUS_OK && s->server)
        status = rpc_server_start(s->server, err);
    return status;
}

status_t scheduler_create(loop_t *loop, const scheduler_options_t *options, scheduler_t **out, err_t *err)
{
    scheduler_t *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(err, STATUS_NO_MEMORY, "no memory");
    s->loop = loop;
    s->options = *options;
    pb_arena_init(&s->arena, ARENA_BYTES_MAX);
    status_t status = start(s, err);
    if (status != STATUS_OK) {
        scheduler_destroy(s);
        return status;
    }
    *out = s;
    return STATUS_OK;
}

const char *scheduler_grpc_address(const scheduler_t *s)
{
    return s->server ? rpc_server_address(s->server) : "";
}

const char *scheduler_http_address(const scheduler_t *s)
{
    return http_server_address(s->http);
}

/* ---- Stopping ---- */

static void stopped_one(scheduler_t *s)
{
    if (s->grpc_stopped && s->http_stopped && s->on_stopped)
        s->on_stopped(s->on_stopped_arg);
}

static void on_grpc_stopped(void *arg)
{
    scheduler_t *s = arg;
    s->grpc_stopped = true;
    stopped_one(s);
}

static void on_http_stopped(http_server_t *server, void *user)
{
    (void)server;
    scheduler_t *s = user;
    s->http_stopped = true;
    stopped_one(s);
}

void scheduler_stop(scheduler_t *s, void (*on_stopped)(void *arg), void *arg)
{
    if (s->stopping)
        return;
    s->stopping = true;
    s->on_stopped = on_stopped;
    s->on_stopped_arg = arg;
    control_stop(s->control, loop_now_ns());
    solver_stop(s);
    if (s->server)
        rpc_server_stop(s->server, STOP_GRACE_MS * NS_PER_MS, on_grpc_stopped, s);
    else
        s->grpc_stopped = true;
    http_server_stop(s->http, STOP_GRACE_MS, on_http_stopped, s);
}

void scheduler_destroy(scheduler_t *s)
{
    if (!s)
        return;
    rpc_server_destroy(s->server);
    if (s->runtime)
        rpc_runtime_destroy(s->runtime);
    http_server_destroy(s->http);
    if (s->turn) {
        (void)uv_check_stop(s->turn);
        uv_close((uv_handle_t *)s->turn, close_turn);
    }
    if (s->wake.loop)
        loop_timer_dispose(&s->wake);
    if (s->control && !s->stopping)
        control_stop(s->control, loop_now_ns()); /* its start failed: there is nobody to send away */
    solver_stop(s);
    control_destroy(s->control);
    if (!s->options.metrics)
        metrics_destroy(s->metrics);
    pb_arena_dispose(&s->arena);
    free(s);
}
