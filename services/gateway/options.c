#include "gateway/options.h"

#include "base/clock.h"
#include "gateway/sessions/preprocess.h"
#include "transfer/options.h"

#include <stddef.h>

enum { GATEWAY_THREADS_MAX = 64 };

#define AT(field) .offset = offsetof(gateway_options_t, field)
#define MS_MAX (INT64_C(86400) * NS_PER_S)
static const config_option_t option_table[] = {
    {"scheduler", CONFIG_ADDRESS, "Cluster", "Control address of the scheduler.", .def = "127.0.0.1:9000",
     AT(scheduler)},
    {"name", CONFIG_STRING, "Cluster", "Name shown to people; host name and pid by default.", AT(name)},
    {"advertise_data_address", CONFIG_STRING, "Cluster",
     "Where workers reach the data plane; by default this host as the scheduler sees it.",
     AT(advertise_data_address)},
    TLS_CLUSTER_OPTIONS(gateway_options_t),
    {"http_address", CONFIG_ADDRESS, "Listening", "REST.", .def = "127.0.0.1:8000", AT(http_address)},
    {"grpc_address", CONFIG_ADDRESS, "Listening", "gRPC.", .def = "127.0.0.1:8001", AT(grpc_address)},
    {"metrics_address", CONFIG_ADDRESS, "Listening", "Where /metrics is served.", .def = "127.0.0.1:8002",
     AT(metrics_address)},
    {"data_address", CONFIG_ADDRESS, "Listening", "The data plane, for workers.", .def = "127.0.0.1:8003",
     AT(data_address)},
    {"keys", CONFIG_PATH, "Access",
     "File of API keys (`fermata key`): who has none of them is answered 401. Read again when it changes.",
     AT(keys)},
    {"address_limits", CONFIG_STRING, "Access",
     "What each address may ask for: rate=N (inferences a second), burst=N, concurrent=N, with commas "
     "between.",
     .metavar = "LIMITS", AT(address_limits)},
    {"model_limits", CONFIG_LIST, "Access",
     "What all clients together may ask of a model at this gateway: MODEL:LIMITS; may be repeated.",
     .metavar = "MODEL:LIMITS", AT(model_limits)},
    TLS_SERVER_OPTIONS(gateway_options_t),
    CONFIG_INSECURE_OPTION(gateway_options_t),
    TRANSFER_OPTIONS(gateway_options_t),
    {"drain_timeout", CONFIG_DURATION, "Cluster",
     "On SIGTERM: how long requests under way may take before they are cut off.", .def = "5s", .min = 0,
     .max = 600 * NS_PER_S, AT(drain_timeout)},
    {"drain_delay", CONFIG_DURATION, "Cluster",
     "On SIGTERM: how long it goes on serving, not ready and ending each connection with its next answer, "
     "where there was a request within the last second.",
     .def = "300ms", .min = 0, .max = 600 * NS_PER_S, AT(drain_delay)},
    {"reuse_port", CONFIG_BOOL, "Listening", "Let several gateways share the REST port of one host.",
     .def = "false", AT(reuse_port)},
    {"client_shared_memory", CONFIG_BOOL, "Access",
     "Let clients of this host register objects of /dev/shm and pass tensors in them (Triton's system shared "
     "memory). They reach every object of this program's user there.",
     .def = "false", AT(client_shared_memory)},
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
    {"preprocess_threads", CONFIG_INT, "Limits",
     "Threads that decode large pictures; one more is for small ones.", .def = "1", .min = 1,
     .max = PREPROCESS_THREADS_MAX, AT(preprocess_threads)},
    {"gateway_threads", CONFIG_INT, "Limits",
     "Event loops that read and answer requests, each with a thread and its part of the arena and of the "
     "limits; the first is that of "
     "the program itself.",
     .def = "1", .min = 1, .max = GATEWAY_THREADS_MAX, AT(gateway_threads)},
    {"header_timeout", CONFIG_DURATION, "Slow clients",
     "From the first byte of a request to the end of its headers.", .def = "10s", .min = NS_PER_MS,
     .max = MS_MAX, AT(header_timeout)},
    {"body_timeout", CONFIG_DURATION, "Slow clients", "For each 64 KiB of a body.", .def = "20s",
     .min = NS_PER_MS, .max = MS_MAX, AT(body_timeout)},
    {"idle_timeout", CONFIG_DURATION, "Slow clients", "Of a connection between requests.", .def = "2m",
     .min = NS_PER_MS, .max = MS_MAX, AT(idle_timeout)},
    {"write_timeout", CONFIG_DURATION, "Slow clients", "Without a byte of an answer being taken.",
     .def = "20s", .min = NS_PER_MS, .max = MS_MAX, AT(write_timeout)},
    CONFIG_LOG_OPTIONS(gateway_options_t),
};

const config_schema_t gateway_options_schema = {
    .program = "fermata-gateway",
    .summary = "Takes inference requests over REST and gRPC and has them run by the cluster.",
    .options = option_table,
    .options_len = sizeof option_table / sizeof *option_table,
};

exposure_guards_t gateway_options_guards(const gateway_options_t *options)
{
    return (exposure_guards_t){.tls = options->tls.cert,
                               .client_ca = options->tls.client_ca,
                               .keys = options->keys,
                               .cluster = options->cluster.ca,
                               .secret = options->cluster_secret,
                               .insecure = options->insecure};
}

status_t gateway_options_check(const gateway_options_t *options, err_t *err)
{
    const exposure_listener_t listeners[] = {
        {"--http-address", &options->http_address, EXPOSURE_CLIENTS},
        {"--grpc-address", &options->grpc_address, EXPOSURE_CLIENTS},
        {"--metrics-address", &options->metrics_address, EXPOSURE_SERVICES},
        {"--data-address", &options->data_address, EXPOSURE_DATA}};
    const exposure_guards_t guards = gateway_options_guards(options);
    return exposure_check(listeners, sizeof listeners / sizeof *listeners, &guards, err);
}
