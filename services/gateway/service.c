#include "gateway/service.h"

#include "base/clock.h"
#include "base/log.h"
#include "exporter/data.h"
#include "exporter/exporter.h"
#include "gateway/access/access.h"
#include "gateway/front/grpc_front.h"
#include "gateway/front/rest.h"
#include "gateway/gateway.h"
#include "gateway/links/control.h"
#include "gateway/links/dataplane.h"
#include "gateway/models/catalogue.h"
#include "gateway/sessions/awake.h"
#include "gateway/sessions/preprocess.h"
#include "gateway/sessions/session.h"
#include "rpc/runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* How long a stopping gateway waits for requests under way. */
#define STOP_PATIENCE_NS (5 * NS_PER_S)

struct gateway_service {
    const gateway_options_t *options;
    gateway_within_t within; /* of one by itself: nothing */
    bool is_within;
    gateway_t gateway;
    rpc_runtime_t *rpc;
    rest_t *rest;
    grpc_front_t *grpc;
    http_server_t *metrics_server;
    unsigned stopping; /* parts that are still busy */
    bool stopped;
    void (*on_stopped)(void *arg);
    void *on_stopped_arg;
    transfer_block_t *arena_memory; /* what the arena lies in */
    metric_t *connections, *tasks, *arena_used, *arena_total, *preprocess_queue;
    exporter_data_t data;
    char name[128];
    char scheduler[CONFIG_ADDRESS_TEXT_BYTES];
};

/* ------------------------------------------------------------------ stopping */

static void on_control_closed(void *ctx)
{
    gateway_service_t *service = ctx;
    service->stopped = true;
    service->on_stopped(service->on_stopped_arg);
}

/* The front ends have answered everything: nothing more to tell the scheduler. */
static void on_part_stopped(void *arg)
{
    gateway_service_t *service = arg;
    if (--service->stopping == 0)
        gateway_control_stop(service->gateway.control, on_control_closed, service);
}

static void on_metrics_stopped(http_server_t *server, void *user)
{
    (void)server;
    on_part_stopped(user);
}

void gateway_service_stop(gateway_service_t *service, void (*on_stopped)(void *arg), void *arg)
{
    if (service->on_stopped)
        return;
    service->on_stopped = on_stopped;
    service->on_stopped_arg = arg;
    service->stopping = 1;
    if (service->rest) {
        service->stopping++;
        rest_stop(service->rest, STOP_PATIENCE_NS / NS_PER_MS, on_part_stopped, service);
    }
    if (service->grpc) {
        service->stopping++;
        grpc_front_stop(service->grpc, STOP_PATIENCE_NS, on_part_stopped, service);
    }
    if (service->metrics_server) {
        service->stopping++;
        http_server_stop(service->metrics_server, 100, on_metrics_stopped, service);
    }
    on_part_stopped(service);
}

/* ------------------------------------------------------------------ metrics */

static void on_collect(void *arg)
{
    gateway_service_t *service = arg;
    const gateway_t *gateway = &service->gateway;
    arena_stats_t arena;
    transfer_stats_t data;
    arena_stats(gateway->arena, &arena);
    metrics_set(service->arena_used, (double)arena.used_bytes);
    metrics_set(service->arena_total, (double)arena.total_bytes);
    if (!service->within.hub) {
        dataplane_stats(gateway->dataplane, &data);
        exporter_data_collect(&service->data, &data);
    }
    metrics_set(service->tasks, sessions_tasks_waiting(gateway->sessions));
    metrics_set(service->connections, (double)rest_connections(service->rest));
    metrics_set(service->preprocess_queue, preprocess_queued(gateway->preprocess));
}

static void name_metrics(gateway_service_t *service)
{
    metrics_t *metrics = service->gateway.metrics;
    service->connections = metrics_series(metrics, METRIC_GATEWAY_CONNECTIONS, "rest");
    service->tasks = metrics_series(metrics, METRIC_GATEWAY_TASKS_IN_FLIGHT);
    service->arena_used = metrics_series(metrics, METRIC_GATEWAY_ARENA_USED_BYTES);
    service->arena_total = metrics_series(metrics, METRIC_GATEWAY_ARENA_BYTES);
    if (!service->within.hub)
        exporter_data_init(&service->data, metrics);
    service->preprocess_queue = metrics_series(metrics, METRIC_GATEWAY_PREPROCESS_QUEUE);
}

/* ------------------------------------------------------------------ starting */

static void keep_awake(gateway_service_t *service)
{
    err_t err = {0};
    gateway_t *gateway = &service->gateway;
    if (service->options->keep_awake &&
        awake_create(gateway->loop, AWAKE_PATH, &gateway->awake, &err) != STATUS_OK)
        log_info("cpus_may_sleep", LOG_ERR(&err));
}

static transfer_choice_t choice_of(const gateway_service_t *service)
{
    return service->within.hub ? TRANSFER_CHOOSE_TCP : (transfer_choice_t)service->options->transfer;
}

/* In memory of the kind that workers reach on the shortest way. */
static status_t create_arena(gateway_service_t *service, err_t *err)
{
    if (transfer_choice_check((transfer_choice_t)service->options->transfer, err) != STATUS_OK ||
        transfer_block_create(choice_of(service), (size_t)service->options->arena_bytes,
                              &service->arena_memory, err) != STATUS_OK)
        return err->code;
    return arena_create_on(&service->gateway.arena, transfer_block_base(service->arena_memory),
                           transfer_block_bytes(service->arena_memory), err);
}

static status_t open_base(gateway_service_t *service, err_t *err)
{
    gateway_t *gateway = &service->gateway;
    const gateway_options_t *options = service->options;
    rpc_runtime_options_t rpc = {.name = "control"};
    char host[64] = "gateway";
    gethostname(host, sizeof host - 1);
    snprintf(service->name, sizeof service->name, "%s/%d", host, (int)getpid());
    gateway->name = options->name ? options->name : service->name;
    gateway->body_bytes_max = (size_t)options->max_body_bytes;
    if (getrandom(&gateway->instance_id, sizeof gateway->instance_id, 0) != sizeof gateway->instance_id)
        return err_set(err, STATUS_IO, "getrandom: %m");
    gateway->metrics = service->is_within ? service->within.metrics : metrics_create("gateway", err);
    if (!gateway->metrics)
        return err->code;
    if (create_arena(service, err) != STATUS_OK ||
        catalogue_create(gateway->metrics, &gateway->catalogue, err) != STATUS_OK ||
        sessions_create(gateway, (uint32_t)options->max_requests, &gateway->sessions, err) != STATUS_OK ||
        preprocess_create(gateway->loop, (uint32_t)options->preprocess_threads, &gateway->preprocess, err) !=
            STATUS_OK)
        return err->code;
    if (options->keys &&
        access_create(gateway->loop, gateway->metrics, options->keys, &gateway->access, err) != STATUS_OK)
        return err->code;
    keep_awake(service);
    rpc.loop = gateway->loop;
    return rpc_runtime_create(&rpc, &service->rpc, err);
}

static status_t open_cluster(gateway_service_t *service, err_t *err)
{
    gateway_t *gateway = &service->gateway;
    const gateway_options_t *options = service->options;
    char text[CONFIG_ADDRESS_TEXT_BYTES];
    if (service->within.hub)
        snprintf(service->scheduler, sizeof service->scheduler, "this process");
    else
        value_format_address_at(&options->scheduler, "127.0.0.1", service->scheduler,
                                sizeof service->scheduler);
    const dataplane_options_t dataplane = {
        .loop = gateway->loop,
        .listen = service->within.hub
                      ? NULL
                      : value_format_address_at(&options->data_address, "0.0.0.0", text, sizeof text),
        .advertise = options->advertise_data_address,
        .towards = service->scheduler,
        .instance_id = gateway->instance_id,
        .arena = gateway->arena,
        .memory = service->arena_memory,
        .choice = choice_of(service),
        .spin = options->transfer_spin,
        .receiver = sessions_receiver(),
        .ctx = gateway->sessions};
    if (dataplane_create(&dataplane, &gateway->dataplane, err) != STATUS_OK)
        return err->code;
    const gateway_control_options_t control = {.loop = gateway->loop,
                                               .rpc = service->rpc,
                                               .hub = service->within.hub,
                                               .metrics = gateway->metrics,
                                               .scheduler = service->scheduler,
                                               .name = gateway->name,
                                               .instance_id = gateway->instance_id,
                                               .data_address = dataplane_advertised(gateway->dataplane),
                                               .ops = sessions_control_ops(),
                                               .ctx = gateway->sessions};
    return gateway_control_create(&control, &gateway->control, err);
}

status_t gateway_service_open(gateway_service_t *service, err_t *err)
{
    gateway_t *gateway = &service->gateway;
    const gateway_options_t *options = service->options;
    char text[CONFIG_ADDRESS_TEXT_BYTES];
    const http_server_config_t http = {
        .listen = value_format_address_at(&options->http_address, "0.0.0.0", text, sizeof text),
        .reuse_port = options->reuse_port,
        .connections_max = (unsigned)options->max_connections,
        .body_bytes_max = (uint64_t)options->max_body_bytes,
        .header_timeout_ms = (uint32_t)(options->header_timeout / NS_PER_MS),
        .body_timeout_ms = (uint32_t)(options->body_timeout / NS_PER_MS),
        .idle_timeout_ms = (uint32_t)(options->idle_timeout / NS_PER_MS),
        .write_timeout_ms = (uint32_t)(options->write_timeout / NS_PER_MS)};
    if (rest_create(gateway, &http, &service->rest, err) != STATUS_OK ||
        grpc_front_create(gateway,
                          value_format_address_at(&options->grpc_address, "0.0.0.0", text, sizeof text),
                          &service->grpc, err) != STATUS_OK)
        return err->code;
    if (!service->is_within &&
        exporter_create(loop_uv(gateway->loop),
                        value_format_address_at(&options->metrics_address, "0.0.0.0", text, sizeof text),
                        gateway->metrics, &service->metrics_server, err) != STATUS_OK)
        return err->code;
    name_metrics(service);
    if (metrics_on_collect(gateway->metrics, on_collect, service) != STATUS_OK)
        return err_set(err, STATUS_INTERNAL, "too many collectors");
    return STATUS_OK;
}

/* ------------------------------------------------------------------ from outside */

struct transfer_owner *gateway_service_owner(const gateway_service_t *service)
{
    return dataplane_owner(service->gateway.dataplane);
}

const char *gateway_service_http(const gateway_service_t *service)
{
    return rest_address(service->rest);
}

const char *gateway_service_grpc(const gateway_service_t *service)
{
    return grpc_front_address(service->grpc);
}

uint32_t gateway_service_models(const gateway_service_t *service)
{
    return catalogue_count(service->gateway.catalogue);
}

uint32_t gateway_service_waiting(const gateway_service_t *service)
{
    return sessions_waiting(service->gateway.sessions);
}

void gateway_service_print_ready(const gateway_service_t *service)
{
    printf(
        "ready {\"service\":\"gateway\",\"http\":\"%s\",\"grpc\":\"%s\",\"metrics\":\"%s\",\"data\":\"%s\","
        "\"pid\":%d}\n",
        rest_address(service->rest), grpc_front_address(service->grpc),
        http_server_address(service->metrics_server), dataplane_address(service->gateway.dataplane),
        (int)getpid());
    fflush(stdout);
}

static void on_unwound(void *arg)
{
    (void)arg;
}

/* What turns on the loop since a start that failed later ends on it. */
static void unwind(gateway_service_t *service)
{
    gateway_service_stop(service, on_unwound, NULL);
    while (!service->stopped)
        loop_run_once(service->gateway.loop, NS_PER_MS);
}

void gateway_service_destroy(gateway_service_t *service)
{
    if (!service)
        return;
    if (service->gateway.control && !service->stopped)
        unwind(service);
    gateway_t *gateway = &service->gateway;
    rest_destroy(service->rest);
    grpc_front_destroy(service->grpc);
    http_server_destroy(service->metrics_server);
    preprocess_destroy(gateway->preprocess);
    gateway_control_destroy(gateway->control);
    dataplane_destroy(gateway->dataplane);
    if (service->rpc)
        rpc_runtime_destroy(service->rpc);
    sessions_destroy(gateway->sessions);
    access_destroy(gateway->access);
    catalogue_destroy(gateway->catalogue);
    awake_destroy(gateway->awake);
    arena_destroy(gateway->arena);
    transfer_block_destroy(service->arena_memory);
    if (!service->is_within)
        metrics_destroy(gateway->metrics);
    free(service);
}

status_t gateway_service_create(loop_t *loop, const gateway_options_t *options,
                                const gateway_within_t *within, gateway_service_t **out, err_t *err)
{
    gateway_service_t *service = calloc(1, sizeof *service);
    if (!service)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the gateway");
    service->options = options;
    service->gateway.loop = loop;
    service->is_within = within;
    if (within)
        service->within = *within;
    status_t status = open_base(service, err);
    if (status == STATUS_OK)
        status = open_cluster(service, err);
    if (status != STATUS_OK) {
        gateway_service_destroy(service);
        return status;
    }
    *out = service;
    return STATUS_OK;
}
