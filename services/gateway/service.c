#include "gateway/service.h"

#include "base/clock.h"
#include "base/log.h"
#include "gateway/access/access.h"
#include "gateway/access/clients.h"
#include "gateway/front/grpc_front.h"
#include "gateway/front/rest.h"
#include "gateway/gateway.h"
#include "gateway/links/control.h"
#include "gateway/links/dataplane.h"
#include "gateway/models/catalogue.h"
#include "gateway/sessions/awake.h"
#include "gateway/sessions/preprocess.h"
#include "gateway/sessions/session.h"
#include "loop/timer.h"
#include "rpc/runtime.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* A gateway that nobody has asked anything for so long is asked nothing while it stops. */
#define QUIET_NS NS_PER_S

struct gateway_service {
    const gateway_options_t *options;
    gateway_within_t within;
    gateway_t gateway;
    rpc_runtime_t *rpc;
    rest_t *rest;
    grpc_front_t *grpc;
    loop_timer_t parting; /* from the first word of a stop until it takes no more */
    unsigned stopping;    /* parts that are still busy */
    bool stopped;
    void (*on_stopped)(void *arg);
    void *on_stopped_arg;
    transfer_block_t *arena_memory; /* what the arena lies in */
    uv_prepare_t *before_sleep;     /* its own allocation, as it outlives the service until closed */
    pthread_mutex_t lock;
    gateway_readings_t readings; /* for other threads */
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

static void take_no_more(gateway_service_t *service)
{
    int64_t patience_ns = service->options->drain_timeout;
    service->stopping = 1;
    if (service->rest) {
        service->stopping++;
        rest_stop(service->rest, (uint32_t)(patience_ns / NS_PER_MS), on_part_stopped, service);
    }
    if (service->grpc) {
        service->stopping++;
        grpc_front_stop(service->grpc, patience_ns, on_part_stopped, service);
    }
    on_part_stopped(service);
}

static void on_parted(loop_timer_t *timer, void *arg)
{
    (void)timer;
    take_no_more(arg);
}

/* Whoever sends one request after the other is told first, by readiness and with an answer, to go elsewhere: a connection that is closed
 * just when a request comes loses it. */
void gateway_service_stop(gateway_service_t *service, void (*on_stopped)(void *arg), void *arg)
{
    const gateway_t *gateway = &service->gateway;
    if (service->on_stopped)
        return;
    service->on_stopped = on_stopped;
    service->on_stopped_arg = arg;
    service->gateway.stopping = true;
    bool asked = clock_now_ns() - sessions_asked_ns(gateway->sessions) < QUIET_NS;
    if (!service->rest || !asked || service->options->drain_delay == 0) {
        take_no_more(service);
        return;
    }
    rest_part(service->rest);
    loop_timer_start_in(&service->parting, service->options->drain_delay);
}

/* ------------------------------------------------------------------ what others read */

static void read_now(const gateway_service_t *service, gateway_readings_t *readings)
{
    const gateway_t *gateway = &service->gateway;
    *readings = (gateway_readings_t){.connections = service->rest ? rest_connections(service->rest) : 0,
                                     .requests = sessions_waiting(gateway->sessions),
                                     .tasks = sessions_tasks_waiting(gateway->sessions),
                                     .preprocess_queue = preprocess_queued(gateway->preprocess),
                                     .models = catalogue_count(gateway->catalogue),
                                     .up = gateway_control_is_up(gateway->control)};
    arena_stats(gateway->arena, &readings->arena);
    if (service->grpc)
        grpc_front_unfinished(service->grpc, &readings->unfinished);
    if (!service->within.hub)
        dataplane_stats(gateway->dataplane, &readings->data);
}

void gateway_service_read(gateway_service_t *service, gateway_readings_t *readings)
{
    if (loop_on_thread(service->gateway.loop)) {
        read_now(service, readings);
        return;
    }
    pthread_mutex_lock(&service->lock);
    *readings = service->readings;
    pthread_mutex_unlock(&service->lock);
}

static void on_before_sleep(uv_prepare_t *prepare)
{
    gateway_service_t *service = prepare->data;
    gateway_readings_t now;
    read_now(service, &now);
    pthread_mutex_lock(&service->lock);
    service->readings = now;
    pthread_mutex_unlock(&service->lock);
}

static status_t be_read(gateway_service_t *service, err_t *err)
{
    if (!service->within.others)
        return STATUS_OK;
    service->before_sleep = malloc(sizeof *service->before_sleep);
    if (!service->before_sleep)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the gateway");
    uv_prepare_init(loop_uv(service->gateway.loop), service->before_sleep);
    service->before_sleep->data = service;
    uv_prepare_start(service->before_sleep, on_before_sleep);
    return STATUS_OK;
}

static void on_read_closed(uv_handle_t *handle)
{
    free(handle);
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

/* Where the data plane is to listen; NULL: nowhere. */
static const char *data_listen(const gateway_service_t *service, char text[CONFIG_ADDRESS_TEXT_BYTES])
{
    return service->within.hub ? NULL
                               : value_format_address_at(&service->options->data_address, "127.0.0.1", text,
                                                         CONFIG_ADDRESS_TEXT_BYTES);
}

/* In memory of the kind that workers reach on the shortest way. */
static status_t create_arena(gateway_service_t *service, err_t *err)
{
    char text[CONFIG_ADDRESS_TEXT_BYTES];

    if (transfer_choice_check((transfer_choice_t)service->options->transfer, err) != STATUS_OK ||
        transfer_block_create(choice_of(service), data_listen(service, text),
                              (size_t)service->options->arena_bytes, &service->arena_memory,
                              err) != STATUS_OK)
        return err->code;
    return arena_create_on(&service->gateway.arena, transfer_block_base(service->arena_memory),
                           transfer_block_bytes(service->arena_memory), err);
}

static status_t open_base(gateway_service_t *service, err_t *err)
{
    gateway_t *gateway = &service->gateway;
    const gateway_options_t *options = service->options;
    const rpc_runtime_options_t rpc = {.loop = gateway->loop};
    char host[64] = "gateway";
    gethostname(host, sizeof host - 1);
    snprintf(service->name, sizeof service->name, "%s/%d", host, (int)getpid());
    gateway->name = options->name ? options->name : service->name;
    gateway->body_bytes_max = (size_t)options->max_body_bytes;
    if (getrandom(&gateway->instance_id, sizeof gateway->instance_id, 0) != sizeof gateway->instance_id ||
        getrandom(&gateway->instance_key, sizeof gateway->instance_key, 0) != sizeof gateway->instance_key)
        return err_set(err, STATUS_IO, "getrandom: %m");
    gateway->metrics = service->within.metrics;
    if (create_arena(service, err) != STATUS_OK ||
        catalogue_create(gateway->metrics, service->within.board, &gateway->catalogue, err) != STATUS_OK ||
        sessions_create(gateway, (uint32_t)options->max_requests, &gateway->sessions, err) != STATUS_OK ||
        preprocess_create(gateway->loop, gateway->metrics, (uint32_t)options->preprocess_threads,
                          &gateway->preprocess, err) != STATUS_OK)
        return err->code;
    if (options->keys && access_create(gateway->loop, gateway->metrics, options->keys, service->within.usages,
                                       &gateway->access, err) != STATUS_OK)
        return err->code;
    const clients_options_t clients = {.metrics = gateway->metrics,
                                       .usages = service->within.usages,
                                       .address_limits = options->address_limits,
                                       .model_limits = options->model_limits.items,
                                       .model_limits_len = options->model_limits.len,
                                       .requests_max = (uint32_t)options->max_requests,
                                       .memory_bytes = arena_total_bytes(gateway->arena)};
    if (clients_create(&clients, &gateway->clients, err) != STATUS_OK)
        return err->code;
    keep_awake(service);
    /* One for all: a thread of gRPC that has nothing to do still takes the events of others from the kernel, and hands them on. */
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
    const dataplane_options_t dataplane = {.loop = gateway->loop,
                                           .listen = data_listen(service, text),
                                           .advertise = options->advertise_data_address,
                                           .towards = service->scheduler,
                                           .instance_id = gateway->instance_id,
                                           .arena = gateway->arena,
                                           .memory = service->arena_memory,
                                           .choice = choice_of(service),
                                           .spin = options->transfer_spin,
                                           .trust = service->within.trust,
                                           .shared = service->within.others,
                                           .receiver = sessions_receiver(),
                                           .ctx = gateway->sessions};
    if (dataplane_create(&dataplane, &gateway->dataplane, err) != STATUS_OK)
        return err->code;
    const gateway_control_options_t control = {.loop = gateway->loop,
                                               .rpc = service->rpc,
                                               .hub = service->within.hub,
                                               .metrics = gateway->metrics,
                                               .scheduler = service->scheduler,
                                               .tls = service->within.dialled,
                                               .name = gateway->name,
                                               .instance_id = gateway->instance_id,
                                               .instance_key = gateway->instance_key,
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
        .listen = value_format_address_at(&options->http_address, "127.0.0.1", text, sizeof text),
        .reuse_port = options->reuse_port || service->within.others,
        .tls = service->within.tls,
        .connections_max = (unsigned)options->max_connections,
        .body_bytes_max = (uint64_t)options->max_body_bytes,
        .header_timeout_ms = (uint32_t)(options->header_timeout / NS_PER_MS),
        .body_timeout_ms = (uint32_t)(options->body_timeout / NS_PER_MS),
        .idle_timeout_ms = (uint32_t)(options->idle_timeout / NS_PER_MS),
        .write_timeout_ms = (uint32_t)(options->write_timeout / NS_PER_MS)};
    status_t status = rest_create(gateway, &http, &service->rest, err);
    if (status != STATUS_OK)
        return status;
    const grpc_front_options_t grpc = {
        .rpc = service->rpc,
        .listen = value_format_address_at(&options->grpc_address, "127.0.0.1", text, sizeof text),
        .reuse_port = service->within.others,
        .step_ns = options->body_timeout,
        .idle_ns = options->idle_timeout,
        .tls = service->within.tls};
    return grpc_front_create(gateway, &grpc, &service->grpc, err);
}

/* ------------------------------------------------------------------ from outside */

void gateway_service_reread(gateway_service_t *service)
{
    access_look(service->gateway.access);
}

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

const char *gateway_service_data(const gateway_service_t *service)
{
    return dataplane_address(service->gateway.dataplane);
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
    if (service->parting.loop)
        loop_timer_dispose(&service->parting);
    rest_destroy(service->rest);
    grpc_front_destroy(service->grpc);
    preprocess_destroy(gateway->preprocess);
    gateway_control_destroy(gateway->control);
    dataplane_destroy(gateway->dataplane);
    if (service->rpc)
        rpc_runtime_destroy(service->rpc);
    sessions_destroy(gateway->sessions);
    clients_destroy(gateway->clients);
    access_destroy(gateway->access);
    catalogue_destroy(gateway->catalogue);
    awake_destroy(gateway->awake);
    arena_destroy(gateway->arena);
    transfer_block_destroy(service->arena_memory);
    if (service->before_sleep)
        uv_close((uv_handle_t *)service->before_sleep, on_read_closed);
    pthread_mutex_destroy(&service->lock);
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
    service->within = *within;
    service->gateway.calls = within->calls;
    service->gateway.regions = within->regions;
    pthread_mutex_init(&service->lock, NULL);
    status_t status = open_base(service, err);
    if (status == STATUS_OK)
        status = open_cluster(service, err);
    if (status == STATUS_OK)
        status = loop_timer_init(&service->parting, loop, on_parted, service, err);
    if (status == STATUS_OK)
        status = be_read(service, err);
    if (status != STATUS_OK) {
        gateway_service_destroy(service);
        return status;
    }
    *out = service;
    return STATUS_OK;
}
