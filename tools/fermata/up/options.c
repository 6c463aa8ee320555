#include "fermata/up/options.h"

#include "config/exposure.h"
#include "model/parts/config.h"
#include "screen/log_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define AT(field) .offset = offsetof(up_options_t, field)
#define S_NS INT64_C(1000000000)

static const config_option_t options[] = {
    {"models", CONFIG_PATH, "What to serve", "Model repository: a folder with MODEL/VERSION/model.onnx.",
     AT(models)},
    {"engine", CONFIG_ENUM, "What to serve",
     "What runs the models; auto: on the CPU, the fastest of those that are here.", .def = "auto",
     .choices = model_engines, AT(engine)},
    {"mode", CONFIG_ENUM, "What to serve", "How batches are run of models whose config.yaml names no mode.",
     .def = "whole", .choices = model_mode_names, AT(mode)},
    {"overlap_plan", CONFIG_PATH, "What to serve",
     "Duration model of mode overlap; default: what `fermata profile --overlap` wrote beside the models.",
     AT(overlap_plan)},
    {"profile", CONFIG_PATH, "What to serve", "CSV file with latency profiles, for the emulated engine.",
     AT(profile)},
    {"policy", CONFIG_STRING, "What to serve", "Batching policy of the scheduler.", .metavar = "NAME",
     AT(policy)},
    {"workers", CONFIG_INT, "How many", "Worker processes.", .def = "1", .min = 1, .max = 256, AT(workers)},
    {"gateways", CONFIG_INT, "How many", "Gateway processes.", .def = "1", .min = 1, .max = 64, AT(gateways)},
    {"gpus", CONFIG_INT, "How many", "Devices of each worker; 0: as many as the engine finds.", .def = "0",
     .min = 0, .max = 65536, AT(gpus)},
    {"threads", CONFIG_INT, "How many",
     "Threads of each worker's engine; 0: its part of the CPUs, but 1 with a mode other than whole.",
     .def = "0", .min = 0, .max = 1024, AT(threads)},

    {"host", CONFIG_STRING, "Ports (0 picks a free one)", "Address that clients reach the first gateway at.",
     .def = "127.0.0.1", .metavar = "ADDRESS", AT(host)},
    {"http", CONFIG_INT, "Ports (0 picks a free one)",
     "REST of the first gateway; further gateways pick free ports.", .def = "8000", .max = 65535,
     .metavar = "PORT", AT(http)},
    {"grpc", CONFIG_INT, "Ports (0 picks a free one)", "gRPC of the first gateway.", .def = "8001",
     .max = 65535, .metavar = "PORT", AT(grpc)},
    {"metrics", CONFIG_INT, "Ports (0 picks a free one)", "Metrics of the first gateway.", .def = "8002",
     .max = 65535, .metavar = "PORT", AT(metrics)},
    {"data", CONFIG_INT, "Ports (0 picks a free one)", "Data plane of the first gateway.", .def = "8003",
     .max = 65535, .metavar = "PORT", AT(data)},
    {"scheduler_grpc", CONFIG_INT, "Ports (0 picks a free one)", "gRPC of the scheduler.", .def = "9000",
     .max = 65535, .metavar = "PORT", AT(scheduler_grpc)},
    {"scheduler_http", CONFIG_INT, "Ports (0 picks a free one)", "HTTP of the scheduler.", .def = "9001",
     .max = 65535, .metavar = "PORT", AT(scheduler_http)},
    {"worker_metrics", CONFIG_INT, "Ports (0 picks a free one)",
     "Metrics of the first worker; further workers pick free ports.", .def = "9101", .max = 65535,
     .metavar = "PORT", AT(worker_metrics)},
    {"keys", CONFIG_PATH, "Access",
     "File of API keys (`fermata key`): gateways answer 401 to who has none of them.", .metavar = "FILE",
     AT(keys)},
    {"any_port", CONFIG_BOOL, "Ports (0 picks a free one)", "Pick free ports for all that are not given.",
     AT(any_port)},

    {"tls", CONFIG_BOOL, "Access",
     "TLS for clients, and certificates between the services, from an authority of its own that is made when "
     "it is not there.",
     AT(tls)},
    {"tls_dir", CONFIG_PATH, "Access", "Folder of that authority and of what it issues.",
     .def = "fermata-certs", AT(tls_dir)},
    CONFIG_INSECURE_OPTION(up_options_t),

    {"json", CONFIG_BOOL, "Running", "When ready, print one line of JSON with all addresses and process ids.",
     AT(json)},
    {"restart", CONFIG_BOOL, "Running",
     "Start a service again (and say so) when it dies; else the rest goes on without it.", AT(restart)},
    {"ready_timeout", CONFIG_DURATION, "Running", "Give up when not everything is ready by then.",
     .def = "5m", .min = 1, .max = 24 * 3600 * S_NS, AT(ready_timeout_ns)},
    {"grace", CONFIG_DURATION, "Running", "On a stop, kill what has not ended by itself after this long.",
     .def = "10s", .min = 1, .max = 3600 * S_NS, AT(grace_ns)},
    {"log_to", CONFIG_ENUM, "Running",
     "Where the services' logs go: file, one each in --log-dir; stderr, each line with a name; auto: file at "
     "a "
     "terminal.",
     .def = "auto", .choices = log_to_choices, AT(log_to)},
    {"log_dir", CONFIG_PATH, "Running",
     "Folder for one log file per service; default: a new one in $TMPDIR or /tmp, which is told.",
     AT(log_dir)},

    {"gateway_config", CONFIG_PATH, "Passed on", "Configuration file for the gateways.", AT(gateway_config)},
    {"scheduler_config", CONFIG_PATH, "Passed on", "Configuration file for the scheduler.",
     AT(scheduler_config)},
    {"worker_config", CONFIG_PATH, "Passed on", "Configuration file for the workers.", AT(worker_config)},
    {"gateway_flags", CONFIG_LIST, "Passed on", "A further flag for the gateways.", .metavar = "--NAME=VALUE",
     AT(gateway_flags)},
    {"scheduler_flags", CONFIG_LIST, "Passed on", "A further flag for the scheduler.",
     .metavar = "--NAME=VALUE", AT(scheduler_flags)},
    {"worker_flags", CONFIG_LIST, "Passed on", "A further flag for the workers.", .metavar = "--NAME=VALUE",
     AT(worker_flags)},
    {"bin_dir", CONFIG_PATH, "Passed on",
     "Folder with the services' programs; default: where fermata itself is.", AT(bin_dir)},
    CONFIG_LOG_OPTIONS(up_options_t),
};

const config_schema_t up_schema = {
    .program = "fermata up",
    .summary = "Starts a scheduler, gateways and workers on this machine, waits until the models are ready, "
               "and stops all of it "
               "cleanly on Ctrl-C or SIGTERM.",
    .options = options,
    .options_len = sizeof options / sizeof *options,
    .epilog = "Example:\n  fermata up --models examples/models --workers 2",
};

static bool is_passed_on(const up_options_t *o, const char *flag)
{
    for (size_t i = 0; i < o->worker_flags.len; i++)
        if (strncmp(o->worker_flags.items[i], flag, strlen(flag)) == 0)
            return true;
    return o->worker_config;
}

void up_options_share(up_options_t *o, uint32_t cpus)
{
    int64_t devices = o->workers * (o->gpus > 0 ? o->gpus : 1);
    if (o->threads > 0 || o->mode || is_passed_on(o, "--threads") || is_passed_on(o, "--mode"))
        return;
    o->threads = cpus > devices ? cpus / devices : 1;
}

const char *up_engine_name(const up_options_t *o)
{
    return model_engines[o->engine];
}

const char *up_mode_name(const up_options_t *o)
{
    return model_mode_names[o->mode];
}

static status_t check_folder(const char *flag, const char *path, err_t *err)
{
    struct stat info;
    if (!path)
        return STATUS_OK;
    if (stat(path, &info) != 0)
        return err_set(err, STATUS_NOT_FOUND, "flag --%s: %s: %s", flag, path, strerror(errno));
    if (!S_ISDIR(info.st_mode))
        return err_set(err, STATUS_INVALID_ARGUMENT, "flag --%s: %s is not a folder", flag, path);
    return STATUS_OK;
}

/* Without any model nothing would ever become ready, and the wait for it would say nothing. */
static status_t check_models(const up_options_t *o, err_t *err)
{
    status_t st = check_folder("models", o->models, err);
    if (st != STATUS_OK || !o->models || o->profile)
        return st;
    DIR *folder = opendir(o->models);
    if (!folder)
        return err_set(err, STATUS_IO, "flag --models: %s: %s", o->models, strerror(errno));
    bool any = false;
    for (struct dirent *entry; !any && (entry = readdir(folder));) {
        struct stat info;
        any = entry->d_name[0] != '.' && fstatat(dirfd(folder), entry->d_name, &info, 0) == 0 &&
              S_ISDIR(info.st_mode);
    }
    closedir(folder);
    return any ? STATUS_OK
               : err_set(err, STATUS_NOT_FOUND, "flag --models: %s holds no MODEL/VERSION/model.onnx",
                         o->models);
}

static void free_port(int64_t *port, const config_t *config, const char *name)
{
    if (strcmp(config_source(config, name), "default") == 0)
        *port = 0;
}

/* A gateway that gets more than we know of says by itself what it lacks. */
static status_t check_exposure(const up_options_t *o, err_t *err)
{
    config_address_t address = {.port = (uint16_t)o->http};
    const exposure_listener_t host = {"--host", &address, EXPOSURE_UP};
    const exposure_guards_t guards = {.tls = o->tls, .keys = o->keys, .insecure = o->insecure};
    snprintf(address.host, sizeof address.host, "%s", o->host);
    if (o->gateway_config || o->gateway_flags.len > 0)
        return STATUS_OK;
    return exposure_check(&host, 1, &guards, err);
}

status_t up_options_finish(up_options_t *o, const config_t *config, err_t *err)
{
    if (o->any_port) {
        free_port(&o->http, config, "http");
        free_port(&o->grpc, config, "grpc");
        free_port(&o->metrics, config, "metrics");
        free_port(&o->data, config, "data");
        free_port(&o->scheduler_grpc, config, "scheduler_grpc");
        free_port(&o->scheduler_http, config, "scheduler_http");
        free_port(&o->worker_metrics, config, "worker_metrics");
    }
    if (!o->models && !o->profile)
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "flag --models is required (or --profile with --engine emulated)");
    status_t st = check_exposure(o, err);
    if (st == STATUS_OK)
        st = check_models(o, err);
    if (st == STATUS_OK)
        st = check_folder("log-dir", o->log_dir, err);
    return st == STATUS_OK ? check_folder("bin-dir", o->bin_dir, err) : st;
}
