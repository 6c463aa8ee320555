#include "serve/serve.h"

#include "base/clock.h"
#include "base/log.h"
#include "exporter/exporter.h"
#include "gateway/loops.h"
#include "link/link.h"
#include "scheduler/scheduler.h"
#include "serve/admin.h"
#include "worker/service.h"
#include "worker/state/served.h"

#include <stdio.h>
#include <stdlib.h>

/* A few turns of the loop; more only where something is amiss. */
static const int64_t INTRODUCTION_NS = NS_PER_S;

struct serve {
    loop_t *loop;
    const serve_options_t *options;
    metrics_t *metrics;
    link_hub_t *hub;
    tls_context_t *shown;   /* to who reads metrics; NULL: plain */
    scheduler_t *scheduler; /* NULL: it joins a cluster, and shows its metrics itself: */
    http_server_t *http;
    gateway_loops_t *gateways;
    worker_service_t *worker;
    char metrics_address[CONFIG_ADDRESS_TEXT_BYTES], join[CONFIG_ADDRESS_TEXT_BYTES];
    serve_admin_t admin;
    bool stopping, gateway_stopped, worker_stopped;
    void (*on_stopped)(void *arg);
    void *on_stopped_arg;
};

/* ---- starting ---- */

static const char *metrics_address(serve_t *serve)
{
    return value_format_address_at(&serve->options->metrics_address, "127.0.0.1", serve->metrics_address,
                                   sizeof(serve->metrics_address));
}

static status_t start_scheduler(serve_t *serve, err_t *err)
{
    scheduler_options_t options;

    scheduler_options_init(&options);
    options.hub = serve->hub;
    options.metrics = serve->metrics;
    options.http_address = metrics_address(serve);
    options.tls = serve->shown;
    options.control.policy = serve->options->policy;
    options.control.policy_params = serve->options->policy_params;
    options.control.plan_interval_ns = 0; /* there is one worker */
    return scheduler_create(serve->loop, &options, &serve->scheduler, err);
}

static void on_worker_stopped(void *arg);

/* The first client shall not be told that there is no such model: it is there, and may still be loaded. */
static void introduce(serve_t *serve)
{
    const int64_t until_ns = clock_now_ns() + INTRODUCTION_NS;

    while (gateway_loops_models(serve->gateways) < worker_service_models(serve->worker)->count &&
           clock_now_ns() < until_ns)
        loop_run_once(serve->loop, NS_PER_MS);
}

static status_t start_alone(serve_t *serve, err_t *err)
{
    status_t status = link_hub_create(serve->loop, &serve->hub, err);

    return status == STATUS_OK ? start_scheduler(serve, err) : status;
}

static status_t start_joining(serve_t *serve, err_t *err)
{
    return exporter_create(loop_uv(serve->loop), metrics_address(serve), serve->shown, serve->metrics,
                           &serve->http, err);
}

static status_t start_worker(serve_t *serve, err_t *err)
{
    const worker_within_t within = {.hub = serve->hub,
                                    .owners = gateway_loops_owners(serve->gateways),
                                    .owner_count = gateway_loops_count(serve->gateways),
                                    .metrics = serve->metrics};
    status_t status =
        worker_service_create(serve->loop, &serve->options->worker, &within, &serve->worker, err);

    if (status == STATUS_OK)
        worker_service_on_stopped(serve->worker, on_worker_stopped, serve);
    return status;
}

/* The scheduler first: what follows in a turn of the loop happens in the order gateway, scheduler, worker, since the handles that
 * were started last are called first. */
static status_t start(serve_t *serve, err_t *err)
{
    serve->metrics = metrics_create("serve", err);
    if (!serve->metrics)
        return err->code;
    status_t status = tls_cluster_serve(&serve->options->cluster, NULL, &serve->shown, err);
    if (status == STATUS_OK)
        status = serve_joins(serve) ? start_joining(serve, err) : start_alone(serve, err);
    serve->admin = (serve_admin_t){
        .loop = serve->loop,
        .scheduler = serve->scheduler,
        .elsewhere = value_format_address(&serve->options->join, serve->join, sizeof(serve->join))};
    const gateway_within_t within = {
        .hub = serve->hub, .metrics = serve->metrics, .calls = serve_admin_calls(&serve->admin)};
    if (status == STATUS_OK)
        status = gateway_loops_create(serve->loop, &serve->options->gateway, &within, &serve->gateways, err);
    if (status == STATUS_OK)
        status = start_worker(serve, err);
    if (status != STATUS_OK)
        return status;
    if (!serve_joins(serve))
        introduce(serve);
    return gateway_loops_open(serve->gateways, err);
}

/* ---- stopping: the gateway answers its clients, the worker ends its batches, the scheduler or what shows the metrics goes last ---- */

static void on_last_stopped(void *arg)
{
    serve_t *serve = arg;

    if (serve->on_stopped)
        serve->on_stopped(serve->on_stopped_arg);
}

static void on_http_stopped(http_server_t *server, void *arg)
{
    (void)server;
    on_last_stopped(arg);
}

static void stop_last(serve_t *serve)
{
    if (serve->scheduler)
        scheduler_stop(serve->scheduler, on_last_stopped, serve);
    else if (serve->http)
        http_server_stop(serve->http, 100, on_http_stopped, serve);
    else
        on_last_stopped(serve);
}

static void on_gateway_stopped(void *arg)
{
    serve_t *serve = arg;

    serve->gateway_stopped = true;
    if (serve->worker && !serve->worker_stopped)
        worker_service_stop(serve->worker, "its gateway has stopped");
    else
        stop_last(serve);
}

/* Or its scheduler has sent it away: then the gateway is to follow. */
static void on_worker_stopped(void *arg)
{
    serve_t *serve = arg;

    serve->worker_stopped = true;
    if (serve->gateway_stopped)
        stop_last(serve);
    else
        serve_stop(serve, "its worker has stopped");
}

void serve_on_stopped(serve_t *serve, void (*on_stopped)(void *arg), void *arg)
{
    serve->on_stopped = on_stopped;
    serve->on_stopped_arg = arg;
}

void serve_reread(serve_t *serve)
{
    if (!serve->worker || serve->stopping)
        return;
    tls_context_look(serve->shown);
    gateway_loops_reread(serve->gateways);
    worker_service_reread(serve->worker);
    log_info("read_again");
}

void serve_stop(serve_t *serve, const char *by)
{
    if (serve->stopping)
        return;
    serve->stopping = true;
    log_info("stopping", LOG_STR("by", by),
             LOG_U64("requests", serve->gateways ? gateway_loops_waiting(serve->gateways) : 0));
    if (serve->gateways)
        gateway_loops_stop(serve->gateways, on_gateway_stopped, serve);
    else
        on_gateway_stopped(serve);
}

/* ---- making and ending ---- */

void serve_destroy(serve_t *serve)
{
    if (!serve)
        return;
    worker_service_destroy(serve->worker);
    gateway_loops_destroy(serve->gateways);
    scheduler_destroy(serve->scheduler);
    http_server_destroy(serve->http);
    link_hub_destroy(serve->hub);
    tls_context_destroy(serve->shown);
    metrics_destroy(serve->metrics);
    free(serve);
}

typedef struct {
    bool ended;
} unwinding_t;

static void on_unwound(void *arg)
{
    ((unwinding_t *)arg)->ended = true;
}

status_t serve_create(loop_t *loop, const serve_options_t *options, serve_t **out, err_t *err)
{
    serve_t *serve = calloc(1, sizeof(*serve));
    unwinding_t unwinding = {0};

    if (!serve)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    serve->loop = loop;
    serve->options = options;
    status_t status = start(serve, err);
    if (status != STATUS_OK) {
        serve_on_stopped(serve, on_unwound, &unwinding);
        serve_stop(serve, "its start failed");
        while (!unwinding.ended)
            loop_run_once(loop, NS_PER_MS);
        serve_destroy(serve);
        return status;
    }
    *out = serve;
    return STATUS_OK;
}

const struct served *serve_models(const serve_t *serve)
{
    return worker_service_models(serve->worker);
}

const char *serve_http(const serve_t *serve)
{
    return gateway_loops_http(serve->gateways);
}

const char *serve_grpc(const serve_t *serve)
{
    return gateway_loops_grpc(serve->gateways);
}

const char *serve_metrics(const serve_t *serve)
{
    return serve->scheduler ? scheduler_http_address(serve->scheduler) : http_server_address(serve->http);
}

bool serve_joins(const serve_t *serve)
{
    return serve->options->join.port > 0;
}

const char *serve_keys(const serve_t *serve)
{
    return serve->options->gateway.keys;
}
