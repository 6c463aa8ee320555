#include "load/options.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

static const char *const protocols[] = {"rest", "grpc", NULL};
static const char *const arrivals[] = {"poisson", "uniform", NULL};

#define FIELD(name) .offset = offsetof(load_options_t, name)

static const config_option_t options[] = {
    {"protocol", CONFIG_ENUM, "Server", "How to speak", .def = "rest", .choices = protocols, FIELD(protocol)},
    {"address", CONFIG_LIST, "Server",
     "Where to (127.0.0.1:8000, or :8001 for gRPC; with TLS also https://… or grpcs://…); repeated: taken in "
     "turn",
     .metavar = "HOST:PORT", FIELD(addresses)},
    {"api_key", CONFIG_STRING, "Server", "Key to show to a gateway that wants one", .metavar = "KEY",
     FIELD(api_key)},
    TLS_CLIENT_OPTIONS(load_options_t, "Server"),
    {"connections", CONFIG_INT, "Server", "REST connections kept open to each address", .def = "64", .min = 1,
     .max = 4096, FIELD(connections)},

    {"model", CONFIG_LIST, "Requests",
     "Model to ask, with its own rate per second and its own deadline if given; may be repeated",
     .metavar = "NAME[:RATE[:DEADLINE]]", .required = true, FIELD(models)},
    {"pictures", CONFIG_PATH, "Requests", "Send the pictures of this folder (png, jpg) in turn",
     .metavar = "DIR", FIELD(pictures)},
    {"picture_input", CONFIG_STRING, "Requests", "The input that takes them, if there are several",
     FIELD(picture_input)},
    {"input_region", CONFIG_STRING, "Requests",
     "Region of shared memory, registered already, where the inputs lie one behind the other: none are sent",
     .metavar = "NAME", FIELD(input_region)},
    {"shape", CONFIG_LIST, "Requests",
     "Sizes of an input whose dimensions vary, without the batch: 3,224,224; 16-128 is drawn, @FILE too; "
     "repeated",
     .metavar = "INPUT[+INPUT]:SIZES", FIELD(shapes)},
    {"variants", CONFIG_INT, "Requests", "Different tensors to send in turn when there are no pictures",
     .def = "16", .min = 1, .max = 4096, FIELD(variants)},
    {"rows", CONFIG_INT, "Requests", "Batch items in each request", .def = "1", .min = 1, .max = 4096,
     FIELD(rows)},
    {"classes", CONFIG_INT, "Requests", "Ask for the top classes instead of the tensors; 0 = do not",
     .def = "0", .min = 0, .max = 100000, FIELD(classes)},

    {"rate", CONFIG_DOUBLE, "Load", "Requests per second for each model without its own (open loop)",
     .def = "100", .min = 0, .max = 10000000, FIELD(rate)},
    {"arrivals", CONFIG_ENUM, "Load", "Random or evenly spaced send times", .def = "poisson",
     .choices = arrivals, FIELD(arrivals)},
    {"steps", CONFIG_PATH, "Load",
     "CSV of changing rates: at_s,model,factor; from then on so many times the model's rate (* is all)",
     FIELD(steps)},
    {"concurrency", CONFIG_INT, "Load",
     "Closed loop: so many requests always under way, whatever the rates; 0 = open loop", .def = "0",
     .min = 0, .max = 65536, FIELD(concurrency)},
    {"duration", CONFIG_DURATION, "Load", "How long to send", .def = "10s", .min = NS_PER_MS,
     .max = 86400 * NS_PER_S, FIELD(duration_ns)},
    {"warmup", CONFIG_DURATION, "Load", "First part of the duration that is not counted", .def = "0",
     .min = 0, .max = 3600 * NS_PER_S, FIELD(warmup_ns)},
    {"requests", CONFIG_INT, "Load", "Stop after so many requests; 0 = by duration alone", .def = "0",
     .min = 0, .max = INT64_MAX, FIELD(requests)},
    {"deadline", CONFIG_DURATION, "Load",
     "Sent with each request; later answers count as bad; 0 = the model's own, all answers count as good",
     .def = "0", .min = 0, .max = 3600 * NS_PER_S, FIELD(deadline_ns)},
    {"timeout", CONFIG_DURATION, "Load", "Give up on an answer after this", .def = "10s", .min = NS_PER_MS,
     .max = 3600 * NS_PER_S, FIELD(timeout_ns)},
    {"seed", CONFIG_INT, "Load", "Of send times and tensors", .def = "1", .min = 0, .max = INT64_MAX,
     FIELD(seed)},

    {"json", CONFIG_BOOL, "Output", "Print the report as one JSON document", .def = "false", FIELD(json)},
    {"results", CONFIG_PATH, "Output", "Write one JSON line per answer, with its outputs, to this file",
     .metavar = "FILE", FIELD(results)},
    {"log_level", CONFIG_ENUM, "Output", "Least severe line to log", .def = "warn",
     .choices = config_log_levels, FIELD(log_level)},
};

const config_schema_t load_schema = {
    .program = "fermata-load",
    .summary = "Loads a server of the Open Inference Protocol and reports what came back, and when.",
    .options = options,
    .options_len = sizeof options / sizeof *options,
    .epilog = "Latency counts from the time at which a request was meant to be sent. Exit\n"
              "code 0: the run took place, whatever the answers were.",
};

status_t load_parse_model(const char *text, model_load_t *model, err_t *err)
{
    const char *rate = strchr(text, ':');
    size_t len = rate ? (size_t)(rate - text) : strlen(text);
    if (len == 0 || len >= sizeof model->name)
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "--model %s: expected NAME, NAME:RATE or NAME:RATE:DEADLINE", text);
    model_load_t parsed = *model;
    const char *deadline = rate ? strchr(rate + 1, ':') : NULL;
    char number[32];
    snprintf(number, sizeof number, "%.*s", rate ? (int)(deadline ? deadline - rate - 1 : 31) : 0,
             rate ? rate + 1 : "");
    if (rate && (value_parse_double(number, &parsed.rate_per_s, NULL) != STATUS_OK ||
                 parsed.rate_per_s <= 0 || parsed.rate_per_s > 1e7))
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "--model %s: expected a rate above 0 and at most 10000000 behind the colon", text);
    if (deadline && (value_parse_duration(deadline + 1, &parsed.deadline_ns, NULL) != STATUS_OK ||
                     parsed.deadline_ns <= 0))
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "--model %s: expected a duration such as 50ms behind the second colon", text);
    snprintf(parsed.name, sizeof parsed.name, "%.*s", (int)len, text);
    *model = parsed;
    return STATUS_OK;
}

status_t load_options_check(const load_options_t *o, err_t *err)
{
    if (o->warmup_ns >= o->duration_ns)
        return err_set(err, STATUS_INVALID_ARGUMENT, "--warmup must be shorter than --duration");
    if (o->shapes.len > 0 && o->pictures)
        return err_set(err, STATUS_INVALID_ARGUMENT, "--shape is for tensors, --pictures sends none");
    if (o->input_region && o->pictures)
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "--input-region has the inputs, --pictures would send some");
    if (o->picture_input && !o->pictures)
        return err_set(err, STATUS_INVALID_ARGUMENT, "--picture-input needs --pictures");
    if (o->concurrency > 0 && o->steps)
        return err_set(err, STATUS_INVALID_ARGUMENT, "--steps changes rates, --concurrency has none");
    if (o->concurrency == 0 && o->rate <= 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "--rate must be above 0");
    return STATUS_OK;
}
