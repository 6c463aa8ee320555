#include "worker/options.h"

#include "base/clock.h"
#include "base/log.h"
#include "model/parts/config.h"
#include "transfer/options.h"

#include <stddef.h>
#include <string.h>

static const char *const controls[] = {"none", "explicit", "poll",
                                       NULL}; /* in the order of model_control_t */

#define AT(field) .offset = offsetof(worker_options_t, field)
static const config_option_t option_table[] = {
    {"scheduler", CONFIG_ADDRESS, "Cluster", "Control address of the scheduler.", .def = "127.0.0.1:9000",
     AT(scheduler)},
    {"name", CONFIG_STRING, "Cluster", "Name shown to people; host name and pid by default.", AT(name)},
    {"metrics_address", CONFIG_ADDRESS, "Cluster", "Where /metrics is served.", .def = "127.0.0.1:9101",
     AT(metrics_address)},
    TLS_CLUSTER_OPTIONS(worker_options_t),
    CONFIG_INSECURE_OPTION(worker_options_t),
    TRANSFER_OPTIONS(worker_options_t),
    {"drain_timeout", CONFIG_DURATION, "Cluster",
     "On a stop, how long granted batches may take to end before they are given back.", .def = "5s", .min = 0,
     .max = 600 * NS_PER_S, AT(drain_timeout)},
    {"models", CONFIG_PATH, "Models", "Model repository.", AT(models)},
    {"model_control", CONFIG_ENUM, "Models",
     "none: what is there at the start is served. explicit: clients load and unload. poll: the repository is "
     "read again and again.",
     .def = "none", .choices = controls, AT(model_control)},
    {"load_model", CONFIG_LIST, "Models",
     "With --model-control explicit: a model to load at the start; * = all of them.", .metavar = "NAME",
     AT(load_model)},
    {"poll_interval", CONFIG_DURATION, "Models", "With --model-control poll: how often it is read.",
     .def = "15s", .min = 100 * NS_PER_MS, .max = 24 * 3600 * NS_PER_S, AT(poll_interval)},
    {"profile_budget", CONFIG_DURATION, "Models", "Time to spend on measuring one model.", .def = "1s",
     .min = 0, .max = INT64_MAX, AT(profile_budget)},
    {"mode", CONFIG_ENUM, "Models", "How batches of a model are run whose config.yaml names no mode.",
     .def = "whole", .choices = model_mode_names, AT(mode)},
    {"overlap_plan", CONFIG_PATH, "Models",
     "Duration model of mode overlap, for these models on this device; default: what `fermata profile "
     "--overlap` wrote "
     "beside them.",
     AT(overlap_plan)},
    {"profile_cache", CONFIG_BOOL, "Models", "Keep measured profiles beside the models.", .def = "true",
     AT(profile_cache)},
    {"loader", CONFIG_STRING, "Models",
     "Program that loads each model first, in a process of its own, so that a bad one harms nothing else; "
     "beside: "
     "fermata-loader, where this program lies; none: it is loaded here at once.",
     .def = "beside", .metavar = "PATH", AT(loader)},
    {"load_timeout", CONFIG_DURATION, "Models", "How long that may take for one model.", .def = "120s",
     .min = 100 * NS_PER_MS, .max = 24 * 3600 * NS_PER_S, AT(load_timeout)},
    {"engine", CONFIG_ENUM, "Devices",
     "What runs the models; auto: on the CPU, the fastest of those that are here.", .def = "auto",
     .choices = model_engines, AT(engine)},
    {"providers", CONFIG_STRING, "Devices",
     "Execution providers of onnxruntime for all models, in their order: cuda, tensorrt, …; the CPU is "
     "behind them.",
     .metavar = "NAME,…", AT(providers)},
    {"devices", CONFIG_INT, "Devices", "How many; 0 = one CPU engine, all GPUs, one emulated GPU.",
     .def = "0", .min = 0, .max = MODEL_DEVICES_MAX, AT(devices)},
    {"device_class", CONFIG_STRING, "Devices",
     "Devices of one class take the same time for the same batch; by default their kind.", .metavar = "NAME",
     AT(device_class)},
    {"threads", CONFIG_INT, "Devices",
     "CPU threads of each device; 0 = the CPUs that affinity and control groups leave, divided among the "
     "devices.",
     .def = "1", .min = 0, .max = 256, AT(threads)},
    {"streams", CONFIG_INT, "Devices",
     "Batches or stages that a device runs side by side; 0 = as the modes need and a CPU has cores for.",
     .def = "0", .min = 0, .max = ENGINE_MAX_STREAMS, AT(streams)},
    {"pin", CONFIG_BOOL, "Devices", "Keep the threads of each device on CPUs of their own.", .def = "false",
     AT(pin)},
    {"memory_limit", CONFIG_BYTES, "Devices", "For the models of one device; 0 = what there is.", .def = "0",
     .min = 0, .max = INT64_MAX, AT(memory_limit)},
    {"profile", CONFIG_PATH, "Emulation", "CSV with name,alpha_ms,beta_ms,slo_ms: each line is a model.",
     AT(profile)},
    {"emulated_elements", CONFIG_INT, "Emulation", "FP32 elements of input and output of such a model.",
     .def = "16", .min = 1, .max = 1 << 24, AT(emulated_elements)},
    {"emulated_max_batch", CONFIG_INT, "Emulation", "Largest batch of such a model.", .def = "64", .min = 1,
     .max = ENGINE_MAX_BATCH, AT(emulated_max_batch)},
    {"emulated_jitter", CONFIG_DOUBLE, "Emulation", "Spread of latencies: 0.1 = 10 % up and down.",
     .def = "0", AT(emulated_jitter)},
    CONFIG_LOG_OPTIONS(worker_options_t),
};

const config_schema_t worker_options_schema = {
    .program = "fermata-worker",
    .summary = "Holds models on devices and runs the batches that the scheduler grants.",
    .options = option_table,
    .options_len = sizeof(option_table) / sizeof(option_table[0]),
};

const char *worker_options_mistake(const worker_options_t *options)
{
    bool emulated = strcmp(model_engines[options->engine], "emulated") == 0;

    if (options->profile && !emulated)
        return "--profile is for --engine emulated only";
    if (!options->models && !options->profile)
        return emulated ? "--models or --profile is required" : "--models is required";
    if (options->load_model.len > 0 && options->model_control != MODEL_CONTROL_EXPLICIT)
        return "--load-model needs --model-control explicit";
    if (options->providers && strcmp(model_engines[options->engine], "auto") != 0 &&
        strcmp(model_engines[options->engine], "onnxruntime") != 0)
        return "--providers is for --engine auto and onnxruntime";
    if (!(options->emulated_jitter >= 0 && options->emulated_jitter < 1))
        return "--emulated-jitter must be in [0, 1)";
    return NULL;
}

status_t worker_options_check(const worker_options_t *options, err_t *err)
{
    const exposure_listener_t metrics = {"--metrics-address", &options->metrics_address, EXPOSURE_SERVICES};
    const exposure_guards_t guards = {.cluster = options->cluster.ca, .insecure = options->insecure};

    return exposure_check(&metrics, 1, &guards, err);
}
