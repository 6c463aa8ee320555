#include "serve/options.h"

#include "base/log.h"
#include "screen/log_folder.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 96 };

static const config_option_t own[] = {
    {"join", CONFIG_ADDRESS, "Cluster",
     "Be a gateway and a worker of the cluster of this scheduler (its control address) instead of serving "
     "alone.",
     .offset = offsetof(serve_options_t, join)},
    TLS_CLUSTER_OPTIONS(serve_options_t),
    {"worker_cert", CONFIG_PATH, "Cluster",
     "With --join and --cluster-ca: the certificate of the role worker, beside --cluster-cert, which is of "
     "the role "
     "gateway.",
     .metavar = "FILE", .offset = offsetof(serve_options_t, worker_cert)},
    {"worker_key", CONFIG_PATH, "Cluster", "Its private key (PEM).", .metavar = "FILE",
     .offset = offsetof(serve_options_t, worker_key)},
    {"metrics_address", CONFIG_ADDRESS, "Listening", "Where /metrics and /state are served.",
     .def = "127.0.0.1:8002", .offset = offsetof(serve_options_t, metrics_address)},
    {"policy", CONFIG_STRING, "Scheduling", "Batching policy.", .def = "fermata",
     .offset = offsetof(serve_options_t, policy)},
    {"policy_params", CONFIG_STRING, "Scheduling", "Parameters of the policy: key=value,key=value.",
     .offset = offsetof(serve_options_t, policy_params)},
    {"json", CONFIG_BOOL, "Output", "Say what serves in one line of JSON.", .def = "false",
     .offset = offsetof(serve_options_t, json)},
    {"log_to", CONFIG_ENUM, "Logging",
     "Where the log goes: file, serve.log in --log-dir; stderr; auto: file at a terminal.", .def = "auto",
     .choices = log_to_choices, .offset = offsetof(serve_options_t, log_to)},
    {"log_dir", CONFIG_PATH, "Logging",
     "Folder for the log; default: a new one in $TMPDIR or /tmp, which is told.",
     .offset = offsetof(serve_options_t, log_dir)},
    CONFIG_LOG_OPTIONS(serve_options_t),
};

/* What `own` has in their place. */
static const char *const left_out[] = {"scheduler",  "metrics_address", "log_level",  "log_format",
                                       "cluster_ca", "cluster_cert",    "cluster_key"};

/* Everybody who can reach them is answered: nobody else can, unless it is asked for. */
static const struct {
    const char *name, *def;
} other_defaults[] = {
    {"http_address", "127.0.0.1:8000"}, {"grpc_address", "127.0.0.1:8001"}, {"threads", "0"}};

static bool is_left_out(const char *name)
{
    for (size_t i = 0; i < sizeof(left_out) / sizeof(*left_out); i++) {
        if (strcmp(left_out[i], name) == 0)
            return true;
    }
    return false;
}

static bool is_there(const config_option_t *rows, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].name, name) == 0)
            return true;
    }
    return false;
}

/* Rows of a schema whose struct lies at base. */
static size_t take_rows(config_option_t *rows, size_t count, const config_schema_t *from, size_t base)
{
    for (size_t i = 0; i < from->options_len && count < ROWS_MAX; i++) {
        config_option_t *row = &rows[count];
        if (is_left_out(from->options[i].name) || is_there(rows, count, from->options[i].name))
            continue;
        *row = from->options[i];
        row->offset += base;
        for (size_t d = 0; d < sizeof(other_defaults) / sizeof(*other_defaults); d++) {
            if (strcmp(other_defaults[d].name, row->name) == 0)
                row->def = other_defaults[d].def;
        }
        count++;
    }
    return count;
}

/* Those of one group stand together, groups in the order of their first. */
static size_t by_group(const config_option_t *rows, size_t count, config_option_t *sorted)
{
    size_t n = 0;

    for (size_t i = 0; i < count; i++) {
        bool first = true;
        for (size_t j = 0; j < i; j++)
            first &= strcmp(rows[j].group, rows[i].group) != 0;
        for (size_t j = i; first && j < count; j++) {
            if (strcmp(rows[j].group, rows[i].group) == 0)
                sorted[n++] = rows[j];
        }
    }
    return n;
}

const config_schema_t *serve_options_schema(void)
{
    static config_option_t rows[ROWS_MAX], sorted[ROWS_MAX];
    static config_schema_t schema = {
        .program = "fermata serve",
        .summary =
            "Serves the models of a folder over REST and gRPC: gateway, scheduler and worker in one process.",
        .options = sorted,
        .epilog = "`fermata serve --supervise` stays beside it, to start it again when it crashed."};

    if (schema.options_len == 0) {
        size_t count = take_rows(rows, 0, &worker_options_schema, offsetof(serve_options_t, worker));
        count = take_rows(rows, count, &gateway_options_schema, offsetof(serve_options_t, gateway));
        for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
            rows[count++] = own[i];
        schema.options_len = by_group(rows, count, sorted);
    }
    return &schema;
}

/* The data plane's port is there only for a cluster. */
static status_t check_exposure(const serve_options_t *options, err_t *err)
{
    const gateway_options_t *gateway = &options->gateway;
    const exposure_listener_t listeners[] = {
        {"--http-address", &gateway->http_address, EXPOSURE_CLIENTS},
        {"--grpc-address", &gateway->grpc_address, EXPOSURE_CLIENTS},
        {"--metrics-address", &options->metrics_address, EXPOSURE_SERVICES},
        {"--data-address", &gateway->data_address, EXPOSURE_DATA}};
    const exposure_guards_t guards = gateway_options_guards(gateway);
    size_t count = sizeof listeners / sizeof *listeners;

    return exposure_check(listeners, options->join.port > 0 ? count : count - 1, &guards, err);
}

static status_t check_pairs(const serve_options_t *options, err_t *err)
{
    bool wanted = options->join.port > 0 && options->cluster.ca,
         both = options->worker_cert && options->worker_key;

    if (wanted && !both)
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "--join with --cluster-ca wants --worker-cert and --worker-key, too: it is a gateway "
                       "and a worker");
    if (!wanted && (options->worker_cert || options->worker_key))
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "--worker-cert and --worker-key go with --join and --cluster-ca");
    return STATUS_OK;
}

status_t serve_options_finish(serve_options_t *options, err_t *err)
{
    gateway_options_t *gateway = &options->gateway;
    worker_options_t *worker = &options->worker;
    const char *mistake = worker_options_mistake(worker);

    gateway->scheduler = worker->scheduler = options->join;
    gateway->transfer = worker->transfer;
    gateway->transfer_spin = worker->transfer_spin;
    gateway->cluster_secret = worker->cluster_secret;
    gateway->drain_timeout = worker->drain_timeout;
    gateway->insecure = worker->insecure;
    gateway->cluster = options->cluster;
    if (options->join.port > 0)
        worker->cluster = (tls_cluster_options_t){
            .ca = options->cluster.ca, .cert = options->worker_cert, .key = options->worker_key};
    if (mistake)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%s", mistake);
    status_t status = check_pairs(options, err);
    return status == STATUS_OK ? check_exposure(options, err) : status;
}
