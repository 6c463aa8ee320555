#include "serve/serve.h"

#include "base/clock.h"
#include "base/log.h"
#include "gateway/service.h"
#include "link/link.h"
#include "scheduler/scheduler.h"
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
    scheduler_t *scheduler;
    gateway_service_t *gateway;
    worker_service_t *worker;
    char metrics_address[CONFIG_ADDRESS_TEXT_BYTES];
    bool stopping;
    void (*on_stopped)(void *arg);
    void *on_stopped_arg;
};

/* ---- starting ---- */

static const char *address_text(const config_address_t *address, char text[CONFIG_ADDRESS_TEXT_BYTES])
{
    config_address_t full = *address;

    if (!full.host[0])
        snprintf(full.host, sizeof(full.host), "127.0.0.1");
    return value_format_address(&full, text, CONFIG_ADDRESS_TEXT_BYTES);
}

static status_t start_scheduler(serve_t *serve, err_t *err)
{
    scheduler_options_t options;

    scheduler_options_init(&options);
    options.hub = serve->hub;
    options.metrics = serve->metrics;
    options.http_address = address_text(&serve->options->metrics_address, serve->metrics_address);
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

    while (gateway_service_models(serve->gateway) < worker_service_models(serve->worker)->count &&
           clock_now_ns() < until_ns)
        loop_run_once(serve->loop, NS_PER_MS);
}

/* The scheduler first: what follows in a turn of the loop happens in the order gateway, scheduler, worker, since the handles that
 * were started last are called first. */
static status_t start(serve_t *serve, err_t *err)
{
    serve->metrics = metrics_create("serve", err);
    if (!serve->metrics)
        return err->code;
    status_t status = link_hub_create(serve->loop, &serve->hub, err);
    if (status == STATUS_OK)
        status = start_scheduler(serve, err);
    if (status != STATUS_OK)
        return status;
    const gateway_within_t gateway = {.hub = serve->hub, .metrics = serve->metrics};
    status = gateway_service_create(serve->loop, &serve->options->gateway, &gateway, &serve->gateway, err);
    if (status != STATUS_OK)
        return status;
    const worker_within_t worker = {
        .hub = serve->hub, .owner = gateway_service_owner(serve->gateway), .metrics = serve->metrics};
    status = worker_service_create(serve->loop, &serve->options->worker, &worker, &serve->worker, err);
    if (status != STATUS_OK)
        return status;
    worker_service_on_stopped(serve->worker, on_worker_stopped, serve);
    introduce(serve);
    return gateway_service_open(serve->gateway, err);
}

/* ---- stopping: the gateway answers its clients, the worker ends its batches, the scheduler goes last ---- */

static void on_scheduler_stopped(void *arg)
{
    serve_t *serve = arg;

    if (serve->on_stopped)
        serve->on_stopped(serve->on_stopped_arg);
}

static void on_worker_stopped(void *arg)
{
    serve_t *serve = arg;

    scheduler_stop(serve->scheduler, on_scheduler_stopped, serve);
}

static void on_gateway_stopped(void *arg)
{
    serve_t *serve = arg;

    if (serve->worker)
        worker_service_stop(serve->worker, "its gateway has stopped");
    else
        on_worker_stopped(serve);
}

void serve_on_stopped(serve_t *serve, void (*on_stopped)(void *arg), void *arg)
{
    serve->on_stopped = on_stopped;
    serve->on_stopped_arg = arg;
}

void serve_stop(serve_t *serve, const char *by)
{
    if (serve->stopping)
        return;
    serve->stopping = true;
    log_info("stopping", LOG_STR("by", by),
             LOG_U64("requests", serve->gateway ? gateway_service_waiting(serve->gateway) : 0));
    if (serve->gateway)
        gateway_service_stop(serve->gateway, on_gateway_stopped, serve);
    else
        on_gateway_stopped(serve);
}

/* ---- making and ending ---- */

void serve_destroy(serve_t *serve)
{
    if (!serve)
        return;
    worker_service_destroy(serve->worker);
    gateway_service_destroy(serve->gateway);
    scheduler_destroy(serve->scheduler);
    link_hub_destroy(serve->hub);
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
        if (serve->scheduler)
            serve_stop(serve, "its start failed");
        while (serve->scheduler && !unwinding.ended)
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
    return gateway_service_http(serve->gateway);
}

const char *serve_grpc(const serve_t *serve)
{
    return gateway_service_grpc(serve->gateway);
}

const char *serve_metrics(const serve_t *serve)
{
    return scheduler_http_address(serve->scheduler);
}
