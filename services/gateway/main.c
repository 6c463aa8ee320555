#include "base/clock.h"
#include "base/log.h"
#include "config/config.h"
#include "exporter/data.h"
#include "exporter/exporter.h"
#include "gateway/front/grpc_front.h"
#include "gateway/front/rest.h"
#include "gateway/gateway.h"
#include "gateway/links/control.h"
#include "gateway/links/dataplane.h"
#include "gateway/models/catalogue.h"
#include "gateway/sessions/awake.h"
#include "gateway/sessions/preprocess.h"
#include "gateway/sessions/session.h"
#include "loop/clock_watch.h"
#include "loop/signals.h"
#include "transfer/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* How long a stopping gateway waits for requests under way. */
#define STOP_PATIENCE_NS (5 * NS_PER_S)

typedef struct {
    config_address_t scheduler, http_address, grpc_address, metrics_address, data_address;
    const char *advertise_data_address, *name;
    int64_t arena_bytes, max_body_bytes, max_connections, max_requests, preprocess_threads;
    int64_t header_timeout, body_timeout, idle_timeout, write_timeout;
    bool reuse_port, keep_awake, transfer_spin;
    int transfer;
    int log_level, log_format;
} options_t;

#define AT(field) .offset = offsetof(options_t, field)
#define MS_MAX (INT64_C(86400) * NS_PER_S)
static const config_option_t option_table[] = {
    {"scheduler", CONFIG_ADDRESS, "Cluster", "Control address of the scheduler.", .def = "127.0.0.1:9000",
     AT(scheduler)},
    {"name", CONFIG_STRING, "Cluster", "Name shown to people; host name and pid by default.", AT(name)},
    {"advertise_data_address", CONFIG_STRING, "Cluster",
     "Where workers reach the data plane; by default this host as the scheduler sees it.",
     AT(advertise_data_address)},
    {"http_address", CONFIG_ADDRESS, "Listening", "REST.", .def = "0.0.0.0:8000", AT(http_address)},
    {"grpc_address", CONFIG_ADDRESS, "Listening", "gRPC.", .def = "0.0.0.0:8001", AT(grpc_address)},
    {"metrics_address", CONFIG_ADDRESS, "Listening", "Where /metrics is served.", .def = "0.0.0.0:8002",
     AT(metrics_address)},
    {"data_address", CONFIG_ADDRESS, "Listening", "The data plane, for workers.", .def = "0.0.0.0:8003",
     AT(data_address)},
    TRANSFER_OPTIONS(options_t),
    {"reuse_port", CONFIG_BOOL, "Listening", "Let several gateways share the REST port of one host.",
     .def = "false", AT(reuse_port)},
    {"arena_bytes", CONFIG_BYTES, "Limits", "Memory for tensors; touched when it is used.", .def = "1GiB",
     .min = 1 << 20, .max = INT64_MAX, AT(arena_bytes)},
    {"max_body_bytes", CONFIG_BYTES, "Limits", "Largest body of a request.", .def = "64MiB", .min = 1024,
     .max = INT64_C(1) << 31, AT(max_body_bytes)},
    {"max_connections", CONFIG_INT, "Limits", "REST connections.", .def = "4096", .min = 1, .max = 1 << 20,
     AT(max_connections)},
    {"max_requests", CONFIG_INT, "Limits", "Requests under way.", .def = "8192", .min = 1, .max = 1 << 20,
     AT(max_requests)},
    {"keep_awake", CONFIG_BOOL, "Latency",
     "Keep idle CPUs of this host from halting while requests are under way, where the kernel and our rights "
     "allow it.",
     .def = "true", AT(keep_awake)},
    {"preprocess_threads", CONFIG_INT, "Limits", "Threads that decode pictures.", .def = "1", .min = 1,
     .max = 256, AT(preprocess_threads)},
    {"header_timeout", CONFIG_DURATION, "Slow clients",
     "From the first byte of a request to the end of its headers.", .def = "10s", .min = NS_PER_MS,
     .max = MS_MAX, AT(header_timeout)},
    {"body_timeout", CONFIG_DURATION, "Slow clients", "For each 64 KiB of a body.", .def = "20s",
     .min = NS_PER_MS, .max = MS_MAX, AT(body_timeout)},
    {"idle_timeout", CONFIG_DURATION, "Slow clients", "Of a connection between requests.", .def = "2m",
     .min = NS_PER_MS, .max = MS_MAX, AT(idle_timeout)},
    {"write_timeout", CONFIG_DURATION, "Slow clients", "Without a byte of an answer being taken.",
     .def = "20s", .min = NS_PER_MS, .max = MS_MAX, AT(write_timeout)},
    CONFIG_LOG_OPTIONS(options_t),
};

static const config_schema_t schema = {
    .program = "fermata-gateway",
    .summary = "Takes inference requests over REST and gRPC and has them run by the cluster.",
    .options = option_table,
    .options_len = sizeof option_table / sizeof *option_table,
};

typedef struct {
    const options_t *options;
    gateway_t gateway;
    rpc_runtime_t *rpc;
    rest_t *rest;
    grpc_front_t *grpc;
    http_server_t *metrics_server;
    loop_signals_t *signals;
    clock_watch_t *clock_watch;
    unsigned stopping; /* parts that are still busy */
    metric_t *connections, *tasks, *arena_used, *arena_total, *preprocess_queue;
    exporter_data_t data;
    char name[128];
    char scheduler[CONFIG_ADDRESS_TEXT_BYTES];
} program_t;

/* ------------------------------------------------------------------ stopping */

static void on_control_closed(void *ctx)
{
    loop_stop(((program_t *)ctx)->gateway.loop);
}

/* The front ends have answered everything: nothing more to tell the scheduler. */
static void on_part_stopped(void *arg)
{
    program_t *program = arg;
    if (--program->stopping == 0)
        gateway_control_stop(program->gateway.control, on_control_closed, program);
}

static void on_metrics_stopped(http_server_t *server, void *user)
{
    (void)server;
    on_part_stopped(user);
}

/* Stops what there is, also of a start that failed half-way; loop_run returns when it is done. */
static void stop_parts(program_t *program)
{
    if (!program->gateway.control) {
        loop_stop(program->gateway.loop);
        return;
    }
    program->stopping = 1;
    if (program->rest) {
        program->stopping++;
        rest_stop(program->rest, STOP_PATIENCE_NS / NS_PER_MS, on_part_stopped, program);
    }
    if (program->grpc) {
        program->stopping++;
        grpc_front_stop(program->grpc, STOP_PATIENCE_NS, on_part_stopped, program);
    }
    if (program->metrics_server) {
        program->stopping++;
        http_server_stop(program->metrics_server, 100, on_metrics_stopped, program);
    }
    on_part_stopped(program);
}

static void on_signal(void *arg, int signum)
{
    program_t *program = arg;
    log_info("stopping", LOG_I64("signal", signum),
             LOG_U64("requests", sessions_waiting(program->gateway.sessions)));
    stop_parts(program);
}

/* ------------------------------------------------------------------ metrics */

static void on_collect(void *arg)
{
    program_t *program = arg;
    const gateway_t *gateway = &program->gateway;
    arena_stats_t arena;
    transfer_stats_t data;
    arena_stats(gateway->arena, &arena);
    metrics_set(program->arena_used, (double)arena.used_bytes);
    metrics_set(program->arena_total, (double)arena.total_bytes);
    dataplane_stats(gateway->dataplane, &data);
    exporter_data_collect(&program->data, &data);
    metrics_set(program->tasks, sessions_tasks_waiting(gateway->sessions));
    metrics_set(program->connections, (double)rest_connections(program->rest));
    metrics_set(program->preprocess_queue, preprocess_queued(gateway->preprocess));
}

static void name_metrics(program_t *program)
{
    metrics_t *metrics = program->gateway.metrics;
    program->connections = metrics_series(metrics, METRIC_GATEWAY_CONNECTIONS, "rest");
    program->tasks = metrics_series(metrics, METRIC_GATEWAY_TASKS_IN_FLIGHT);
    program->arena_used = metrics_series(metrics, METRIC_GATEWAY_ARENA_USED_BYTES);
    program->arena_total = metrics_series(metrics, METRIC_GATEWAY_ARENA_BYTES);
    exporter_data_init(&program->data, metrics);
    program->preprocess_queue = metrics_series(metrics, METRIC_GATEWAY_PREPROCESS_QUEUE);
}

/* ------------------------------------------------------------------ starting */

static const char *address_text(const config_address_t *address, const char *default_host,
                                char text[CONFIG_ADDRESS_TEXT_BYTES])
{
    config_address_t full = *address;
    if (!full.host[0])
        snprintf(full.host, sizeof full.host, "%s", default_host);
    return value_format_address(&full, text, CONFIG_ADDRESS_TEXT_BYTES);
}

static void keep_awake(program_t *program)
{
    err_t err = {0};
    gateway_t *gateway = &program->gateway;
    if (program->options->keep_awake &&
        awake_create(gateway->loop, AWAKE_PATH, &gateway->awake, &err) != STATUS_OK)
        log_info("cpus_may_sleep", LOG_ERR(&err));
}

/* Workers of this host read it where it lies, if they may. */
static status_t create_arena(program_t *program, err_t *err)
{
    const options_t *options = program->options;
    if (transfer_choice_check((transfer_choice_t)options->transfer, err) != STATUS_OK)
        return err->code;
    size_t bytes = (size_t)options->arena_bytes;
    return options->transfer == TRANSFER_CHOOSE_AUTO
               ? arena_create_shared(&program->gateway.arena, bytes, err)
               : arena_create(&program->gateway.arena, bytes, err);
}

static status_t open_base(program_t *program, err_t *err)
{
    gateway_t *gateway = &program->gateway;
    const options_t *options = program->options;
    rpc_runtime_options_t rpc = {.name = "control"};
    char host[64] = "gateway";
    gethostname(host, sizeof host - 1);
    snprintf(program->name, sizeof program->name, "%s/%d", host, (int)getpid());
    gateway->name = options->name ? options->name : program->name;
    gateway->body_bytes_max = (size_t)options->max_body_bytes;
    if (getrandom(&gateway->instance_id, sizeof gateway->instance_id, 0) != sizeof gateway->instance_id)
        return err_set(err, STATUS_IO, "getrandom: %m");
    gateway->metrics = metrics_create("gateway", err);
    if (!gateway->metrics)
        return err->code;
    if (loop_create(&gateway->loop, err) != STATUS_OK || create_arena(program, err) != STATUS_OK ||
        catalogue_create(gateway->metrics, &gateway->catalogue, err) != STATUS_OK ||
        sessions_create(gateway, (uint32_t)options->max_requests, &gateway->sessions, err) != STATUS_OK ||
        preprocess_create(gateway->loop, (uint32_t)options->preprocess_threads, &gateway->preprocess, err) !=
            STATUS_OK)
        return err->code;
    keep_awake(program);
    rpc.loop = gateway->loop;
    return rpc_runtime_create(&rpc, &program->rpc, err);
}

static status_t open_cluster(program_t *program, err_t *err)
{
    gateway_t *gateway = &program->gateway;
    const options_t *options = program->options;
    char text[CONFIG_ADDRESS_TEXT_BYTES];
    const dataplane_options_t dataplane = {
        .loop = gateway->loop,
        .listen = address_text(&options->data_address, "0.0.0.0", text),
        .advertise = options->advertise_data_address,
        .towards = address_text(&options->scheduler, "127.0.0.1", program->scheduler),
        .instance_id = gateway->instance_id,
        .arena = gateway->arena,
        .choice = (transfer_choice_t)options->transfer,
        .spin = options->transfer_spin,
        .receiver = sessions_receiver(),
        .ctx = gateway->sessions};
    if (dataplane_create(&dataplane, &gateway->dataplane, err) != STATUS_OK)
        return err->code;
    const gateway_control_options_t control = {.loop = gateway->loop,
                                               .rpc = program->rpc,
                                               .metrics = gateway->metrics,
                                               .scheduler = program->scheduler,
                                               .name = gateway->name,
                                               .instance_id = gateway->instance_id,
                                               .data_address = dataplane_advertised(gateway->dataplane),
                                               .ops = sessions_control_ops(),
                                               .ctx = gateway->sessions};
    return gateway_control_create(&control, &gateway->control, err);
}

static status_t open_fronts(program_t *program, err_t *err)
{
    gateway_t *gateway = &program->gateway;
    const options_t *options = program->options;
    char text[CONFIG_ADDRESS_TEXT_BYTES];
    const http_server_config_t http = {.listen = address_text(&options->http_address, "0.0.0.0", text),
                                       .reuse_port = options->reuse_port,
                                       .connections_max = (unsigned)options->max_connections,
                                       .body_bytes_max = (uint64_t)options->max_body_bytes,
                                       .header_timeout_ms = (uint32_t)(options->header_timeout / NS_PER_MS),
                                       .body_timeout_ms = (uint32_t)(options->body_timeout / NS_PER_MS),
                                       .idle_timeout_ms = (uint32_t)(options->idle_timeout / NS_PER_MS),
                                       .write_timeout_ms = (uint32_t)(options->write_timeout / NS_PER_MS)};
    if (rest_create(gateway, &http, &program->rest, err) != STATUS_OK ||
        grpc_front_create(gateway, address_text(&options->grpc_address, "0.0.0.0", text), &program->grpc,
                          err) != STATUS_OK ||
        exporter_create(loop_uv(gateway->loop), address_text(&options->metrics_address, "0.0.0.0", text),
                        gateway->metrics, &program->metrics_server, err) != STATUS_OK)
        return err->code;
    name_metrics(program);
    if (metrics_on_collect(gateway->metrics, on_collect, program) != STATUS_OK)
        return err_set(err, STATUS_INTERNAL, "too many collectors");
    if (clock_watch_create(&program->clock_watch, gateway->loop, err) != STATUS_OK)
        return err->code;
    return loop_signals_create(&program->signals, gateway->loop, on_signal, program, err);
}

static void print_ready(const program_t *program)
{
    printf(
        "ready {\"service\":\"gateway\",\"http\":\"%s\",\"grpc\":\"%s\",\"metrics\":\"%s\",\"data\":\"%s\","
        "\"pid\":%d}\n",
        rest_address(program->rest), grpc_front_address(program->grpc),
        http_server_address(program->metrics_server), dataplane_address(program->gateway.dataplane),
        (int)getpid());
    fflush(stdout);
}

/* Also unwinds a start that failed half-way. */
static void close_program(program_t *program)
{
    gateway_t *gateway = &program->gateway;
    rest_destroy(program->rest);
    grpc_front_destroy(program->grpc);
    http_server_destroy(program->metrics_server);
    preprocess_destroy(gateway->preprocess);
    gateway_control_destroy(gateway->control);
    dataplane_destroy(gateway->dataplane);
    if (program->rpc)
        rpc_runtime_destroy(program->rpc);
    if (program->signals)
        loop_signals_destroy(program->signals);
    clock_watch_destroy(program->clock_watch);
    sessions_destroy(gateway->sessions);
    catalogue_destroy(gateway->catalogue);
    awake_destroy(gateway->awake);
    if (gateway->loop)
        loop_destroy(gateway->loop);
    arena_destroy(gateway->arena);
    metrics_destroy(gateway->metrics);
}

static status_t gateway_main(const options_t *options, err_t *err)
{
    program_t program = {.options = options};
    loop_raise_descriptor_limit();
    status_t status = open_base(&program, err);
    if (status == STATUS_OK)
        status = open_cluster(&program, err);
    if (status == STATUS_OK)
        status = open_fronts(&program, err);
    if (status == STATUS_OK) {
        print_ready(&program);
        loop_run(program.gateway.loop);
        log_info("stopped");
    } else if (program.gateway.loop) {
        stop_parts(&program);
        loop_run(program.gateway.loop);
    }
    close_program(&program);
    return status;
}

int main(int argc, char **argv)
{
    options_t options;
    config_t *config;
    int exit_code;
    err_t err = {0};
    if (!config_start(&schema, argc, argv, &options, &config, &exit_code))
        return exit_code;
    log_init("gateway", (log_level_t)options.log_level, (log_format_t)options.log_format);
    status_t status = gateway_main(&options, &err);
    config_destroy(config);
    return config_exit(&schema, status, &err);
}
