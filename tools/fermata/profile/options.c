#include "fermata/profile/options.h"

#include "base/clock.h"
#include "model/modes/overlap_plan.h"
#include "model/parts/config.h"

static const config_option_t options[] = {
    {.name = "engine",
     .type = CONFIG_ENUM,
     .group = "Device",
     .help = "What runs the model; auto: on the CPU, the fastest of those that are here.",
     .def = "auto",
     .choices = model_engines,
     .offset = offsetof(profile_options_t, engine)},
    {.name = "threads",
     .type = CONFIG_INT,
     .group = "Device",
     .help = "CPU threads; a worker takes up only a profile of as many as its own.",
     .def = "1",
     .min = 1,
     .max = 256,
     .offset = offsetof(profile_options_t, threads)},
    {.name = "pin",
     .type = CONFIG_BOOL,
     .group = "Device",
     .help = "Keep the threads on CPUs of their own.",
     .offset = offsetof(profile_options_t, pin)},
    {.name = "memory_limit",
     .type = CONFIG_BYTES,
     .group = "Device",
     .help = "For the model; 0 = what there is.",
     .def = "0",
     .min = 0,
     .max = INT64_MAX,
     .offset = offsetof(profile_options_t, device_memory)},
    {.name = "loader",
     .type = CONFIG_STRING,
     .group = "Device",
     .metavar = "PATH",
     .help = "Program that loads the model first, in a process of its own; beside: fermata-loader, where "
             "this program "
             "lies; none: it is loaded here at once.",
     .def = "beside",
     .offset = offsetof(profile_options_t, loader)},
    {.name = "load_timeout",
     .type = CONFIG_DURATION,
     .group = "Device",
     .help = "How long that may take.",
     .def = "120s",
     .min = 100 * NS_PER_MS,
     .max = 24 * 3600 * NS_PER_S,
     .offset = offsetof(profile_options_t, load_timeout)},
    {.name = "batches",
     .type = CONFIG_STRING,
     .group = "Measuring",
     .metavar = "LIST",
     .help = "Sizes, as 1,2,4-8; by default 1, 2, 3, 4, 6, 8, 12, … up to the model's max_batch.",
     .offset = offsetof(profile_options_t, batches)},
    {.name = "seconds",
     .type = CONFIG_DOUBLE,
     .group = "Measuring",
     .help = "Time for each size (0.001 to 3600).",
     .def = "0.5",
     .offset = offsetof(profile_options_t, seconds)},
    {.name = "check",
     .type = CONFIG_BOOL,
     .group = "Measuring",
     .help = "Then run batches of random sizes and say how far off the profile is.",
     .offset = offsetof(profile_options_t, check)},
    {.name = "stages",
     .type = CONFIG_BOOL,
     .group = "Execution modes",
     .help = "Try numbers of stages and T_comp_wait for mode staged; a worker takes up the best.",
     .offset = offsetof(profile_options_t, stages)},
    {.name = "loads",
     .type = CONFIG_BOOL,
     .group = "Execution modes",
     .help = "Then play ZeroBatch, DelayBatch and what --stages found at low, medium, high and peak load.",
     .offset = offsetof(profile_options_t, loads)},
    {.name = "lengths",
     .type = CONFIG_STRING,
     .group = "Execution modes",
     .metavar = "LIST",
     .help =
         "Sizes of the dimension that varies and how many of the rows have each, as 16:2,24:8; by default "
         "--stages lets only rows of the largest profiled shape come, and --overlap as many of each.",
     .offset = offsetof(profile_options_t, lengths)},
    {.name = "streams",
     .type = CONFIG_INT,
     .group = "Execution modes",
     .help = "Streams of the device that --stages uses, each of --threads threads.",
     .def = "2",
     .min = 1,
     .max = 64,
     .offset = offsetof(profile_options_t, streams)},
    {.name = "exit_points",
     .type = CONFIG_BOOL,
     .group = "Execution modes",
     .help =
         "Try numbers of exit points for mode preempt; a worker takes up the fewest that keep overhead and "
         "delay below 5 %.",
     .offset = offsetof(profile_options_t, exit_points)},
    {.name = "overlap",
     .type = CONFIG_BOOL,
     .group = "Execution modes",
     .help =
         "Measure groups of operators of several MODELs side by side, and train the duration model of mode "
         "overlap on them.",
     .offset = offsetof(profile_options_t, overlap)},
    {.name = "groups",
     .type = CONFIG_INT,
     .group = "Execution modes",
     .help = "How many groups --overlap measures; 2000 for each pair in the paper.",
     .def = "2000",
     .min = 50,
     .max = 1000000,
     .offset = offsetof(profile_options_t, groups)},
    {.name = "seed",
     .type = CONFIG_INT,
     .group = "Measuring",
     .help = "Of the random sizes, the arrivals and the groups.",
     .def = "1",
     .min = 0,
     .max = INT64_MAX,
     .offset = offsetof(profile_options_t, seed)},
    {.name = "keep",
     .type = CONFIG_BOOL,
     .group = "Output",
     .help = "Write the profile beside the model of a folder, where a worker looks for it.",
     .def = "true",
     .offset = offsetof(profile_options_t, keep)},
    {.name = "out",
     .type = CONFIG_PATH,
     .group = "Output",
     .metavar = "FILE",
     .help = "Write the profile here instead.",
     .offset = offsetof(profile_options_t, out)},
    {.name = "plot",
     .type = CONFIG_PATH,
     .group = "Output",
     .metavar = "FILE",
     .help = "Draw it as SVG.",
     .offset = offsetof(profile_options_t, plot)},
    {.name = "json",
     .type = CONFIG_BOOL,
     .group = "Output",
     .help = "Print one JSON document.",
     .offset = offsetof(profile_options_t, json)},
    {.name = "csv",
     .type = CONFIG_BOOL,
     .group = "Output",
     .help = "Print the model as CSV, as `fermata-sim --models` and `fermata plan --models` read it.",
     .offset = offsetof(profile_options_t, csv)},
};

const config_schema_t profile_schema = {
    .program = "fermata profile",
    .summary = "Measures how long batches of a model take, and keeps the profile for the workers.",
    .options = options,
    .options_len = sizeof options / sizeof *options,
    .positionals = "MODEL…",
    .epilog = "MODEL is a model's folder of a repository (config.yaml counts) or an ONNX file;\n"
              "several with --overlap alone. docs/modes/profiling.md says what the execution\n"
              "modes make of it.\n",
};

const char *profile_engine_name(const profile_options_t *o)
{
    return model_engines[o->engine];
}

status_t profile_options_check(const profile_options_t *o, size_t models, err_t *err)
{
    if (!o->overlap && models != 1)
        return err_set(err, STATUS_INVALID_ARGUMENT, "say one MODEL (see --help)");
    if (o->overlap && (models < 2 || models > OVERLAP_MODELS_MAX))
        return err_set(err, STATUS_INVALID_ARGUMENT, "overlap: say 2 to %d MODELs", OVERLAP_MODELS_MAX);
    if (o->overlap && (o->stages || o->exit_points || o->check || o->plot))
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "overlap measures several models: nothing else goes with it");
    if (o->csv && (o->json || o->overlap || o->check || o->stages || o->exit_points))
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "csv: of a model's line alone, without --json, --check or an execution mode");
    if ((o->loads && !o->stages) || (o->lengths && !o->stages && !o->overlap))
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "loads go with --stages, and lengths with --stages or --overlap");
    if (!(o->seconds >= 0.001 && o->seconds <= 3600))
        return err_set(err, STATUS_INVALID_ARGUMENT, "seconds: %g is not within 0.001..3600", o->seconds);
    return STATUS_OK;
}
