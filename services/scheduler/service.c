/* Making, starting and stopping the whole. */
#include "scheduler/service.h"

#include "base/clock.h"
#include "loop/loop.h"
#include "scheduler/admin.h"
#include "scheduler/catalogue.h"
#include "scheduler/driver.h"
#include "scheduler/gateways.h"
#include "scheduler/http.h"
#include "scheduler/planner.h"
#include "scheduler/registry.h"
#include "scheduler/requests.h"
#include "scheduler/scheduler.h"
#include "scheduler/workers.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    MESSAGE_BYTES_MAX = 16 << 20, /* the largest report of a model is its labels: 21,000 classes are 1 MB */
    ARENA_BYTES_MAX = 64 << 20,
    STOP_GRACE_MS = 200,
    DEVICE_INFLIGHT_DEFAULT = 2, /* one runs while the inputs of the next travel */
};

void scheduler_options_init(scheduler_options_t *options)
{
    *options = (scheduler_options_t){
        .policy = "fermata",
        .tasks_max = 65536,
        .models_max = 1024,
        .devices_max = 1024,
        .batch_max = 256,
        .ping_interval_ns = 100 * NS_PER_MS,
        .peer_timeout_ns = 3 * NS_PER_S,
        .worker_grace_ns = 500 * NS_PER_MS,
        .initial_delay_ns = NS_PER_MS,
        .autoscale_window_ns = 5 * NS_PER_S,
        .plan_interval_ns = 300 * NS_PER_S,
        .plan_limit_ns = 2 * NS_PER_S,
        .plan_moves_max = 16,
    };
}

static uint64_t epoch_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static status_t init_metrics(scheduler_t *s, err_t *err)
{
    s->metrics = metrics_create("scheduler", err);
    if (s->metrics == NULL)
        return STATUS_NO_MEMORY;
    s->metric.decision = metrics_series(s->metrics, METRIC_SCHED_DECISION_SECONDS);
    s->metric.gateways = metrics_series(s->metrics, METRIC_SCHED_GATEWAYS);
    s->metric.workers = metrics_series(s->metrics, METRIC_SCHED_WORKERS);
    metrics_set(metrics_series(s->metrics, METRIC_SCHED_EPOCH), (double)s->epoch);
    return STATUS_OK;
}

static status_t init_rpc(scheduler_t *s, err_t *err)
{
    rpc_runtime_options_t how = {.loop = s->loop};
    status_t status = rpc_runtime_create(&how, &s->runtime, err);
    if (status != STATUS_OK)
        return status;
    rpc_server_options_t options = {
        .address = s->options.grpc_address,
        .limits = {.max_receive_bytes = MESSAGE_BYTES_MAX,
                   /* registry.c says when a peer is given up: what it lets wait fits */
                   .send_queue_bytes = CATALOGUE_BYTES_MAX + 2 * FRAMES_BYTES_MAX,
                   .keepalive_ns = s->options.peer_timeout_ns},
        .accept_slots = 16, /* peers connect once; slots cost memory */
    };
    status = rpc_server_create(s->runtime, &options, &s->server, err);
    if (status == STATUS_OK)
        status =
            rpc_server_add_stream(s->server, "/fermata.control.v1.Control/Gateway", &gateway_stream_ops, s);
    if (status == STATUS_OK)
        status =
            rpc_server_add_stream(s->server, "/fermata.control.v1.Control/Worker", &worker_stream_ops, s);
    if (status == STATUS_OK)
        status = admin_init(s);
    return status;
}

/* ---- The turn of the loop ---- */

static void on_turn(uv_check_t *check)
{
    scheduler_t *s = check->data;
    if (s->dirty)
        driver_run(s);
}

static void on_ping(loop_timer_t *timer, void *arg)
{
    scheduler_t *s = arg;
    registry_tick(s);
    loop_timer_start_in(timer, s->options.ping_interval_ns);
}

static status_t init_turn(scheduler_t *s, err_t *err)
{
    status_t status = loop_timer_init(&s->ping, s->loop, on_ping, s, err);
    if (status != STATUS_OK)
        return status;
    s->turn = malloc(sizeof *s->turn);
    if (s->turn == NULL)
        return err_set(err, STATUS_NO_MEMORY, "no memory");
    (void)uv_check_init(loop_uv(s->loop), s->turn);
    s->turn->data = s;
    (void)uv_check_start(s->turn, on_turn);
    loop_timer_start_in(&s->ping, s->options.ping_interval_ns);
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
        status = driver_init(s, err);
    if (status == STATUS_OK)
        status = init_rpc(s, err);
    if (status == STATUS_OK)
        status = http_start(s, err);
    if (status == STATUS_OK)
        status = init_turn(s, err);
    if (status == STATUS_OK)
        status = planner_create(s, &s->planner, err);
    if (status == STATUS_OK)
        status = rpc_server_start(s->server, err);
    return status;
}

status_t scheduler_create(loop_t *loop, const scheduler_options_t *options, scheduler_t **out, err_t *err)
{
    scheduler_t *s = calloc(1, sizeof *s);
    if (s == NULL)
        return err_set(err, STATUS_NO_MEMORY, "no memory");
    s->loop = loop;
    s->options = *options;
    if (s->options.device_inflight_max == 0)
        s->options.device_inflight_max = DEVICE_INFLIGHT_DEFAULT;
    s->epoch = options->epoch != 0 ? options->epoch : epoch_now();
    s->started_ns = loop_now_ns();
    if (getrandom(&s->scheduler_id, sizeof s->scheduler_id, 0) != (ssize_t)sizeof s->scheduler_id)
        s->scheduler_id = s->epoch; /* it only tells schedulers apart for people */
    rpc_arena_init(&s->arena, ARENA_BYTES_MAX);
    rpc_arena_init(&s->scratch, ARENA_BYTES_MAX);
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
    return rpc_server_address(s->server);
}

const char *scheduler_http_address(const scheduler_t *s)
{
    return http_server_address(s->http);
}

/* ---- Stopping ---- */

static void stopped_one(scheduler_t *s)
{
    if (s->grpc_stopped && s->http_stopped && s->on_stopped != NULL)
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

static void close_peers(void **table)
{
    for (uint32_t i = 0; i < PEERS_MAX; i++)
        if (table[i] != NULL)
            peer_close(table[i], RPC_UNAVAILABLE, "the scheduler stops");
}

void scheduler_stop(scheduler_t *s, void (*on_stopped)(void *arg), void *arg)
{
    if (s->stopping)
        return;
    s->stopping = true;
    s->on_stopped = on_stopped;
    s->on_stopped_arg = arg;
    close_peers((void **)s->gateways);
    close_peers((void **)s->workers);
    planner_stop(s->planner);
    rpc_server_stop(s->server, STOP_GRACE_MS * NS_PER_MS, on_grpc_stopped, s);
    http_server_stop(s->http, STOP_GRACE_MS, on_http_stopped, s);
}

void scheduler_destroy(scheduler_t *s)
{
    if (s == NULL)
        return;
    rpc_server_destroy(s->server);
    rpc_runtime_destroy(s->runtime);
    http_server_destroy(s->http);
    if (s->turn != NULL) {
        (void)uv_check_stop(s->turn);
        uv_close((uv_handle_t *)s->turn, close_turn);
    }
    if (s->ping.loop != NULL)
        loop_timer_dispose(&s->ping);
    requests_dispose(s);
    planner_destroy(s->planner);
    catalogue_dispose(s);
    driver_dispose(s);
    metrics_destroy(s->metrics);
    rpc_arena_dispose(&s->arena);
    rpc_arena_dispose(&s->scratch);
    free(s);
}
