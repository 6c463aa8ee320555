#include "options.h"

#include "base/figures.h"
#include "config/suggest.h"
#include "sched/sched.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPT_MODELS = 256,
    OPT_GPUS,
    OPT_GPUS_PER_MODEL,
    OPT_LINE,
    OPT_POLICY,
    OPT_PARAMS,
    OPT_SWITCH,
    OPT_RATE,
    OPT_SECONDS,
    OPT_WARMUP,
    OPT_SEED,
    OPT_SEEDS,
    OPT_COPIES,
    OPT_SLO,
    OPT_TIMEOUT_FRACTION,
    OPT_DIR,
    OPT_RESUME,
    OPT_OUT,
    OPT_THREADS,
    OPT_ALL,
    OPT_ARRIVALS,
    OPT_POPULARITY,
    OPT_NET,
    OPT_NET_QUANTILE,
    OPT_JITTER,
    OPT_TIMELINE,
    OPT_STEPS,
    OPT_TRACE,
    OPT_FUNCTIONS,
    OPT_MINUTES,
    OPT_SERIES,
    OPT_CHANGES,
    OPT_CSV,
    OPT_AUTOSCALE,
    OPT_PROVISION,
    OPT_AUTOSCALE_WINDOW,
    OPT_RULE,
    OPT_JSON,
    OPT_PER_MODEL,
    OPT_HELP,
    OPT_VERSION,
};

static const struct option long_options[] = {
    {"models", required_argument, NULL, OPT_MODELS},
    {"gpus", required_argument, NULL, OPT_GPUS},
    {"gpus-per-model", required_argument, NULL, OPT_GPUS_PER_MODEL},
    {"line", required_argument, NULL, OPT_LINE},
    {"policy", required_argument, NULL, OPT_POLICY},
    {"params", required_argument, NULL, OPT_PARAMS},
    {"switch", required_argument, NULL, OPT_SWITCH},
    {"rate", required_argument, NULL, OPT_RATE},
    {"seconds", required_argument, NULL, OPT_SECONDS},
    {"warmup", required_argument, NULL, OPT_WARMUP},
    {"seed", required_argument, NULL, OPT_SEED},
    {"seeds", required_argument, NULL, OPT_SEEDS},
    {"copies", required_argument, NULL, OPT_COPIES},
    {"slo", required_argument, NULL, OPT_SLO},
    {"timeout-fraction", required_argument, NULL, OPT_TIMEOUT_FRACTION},
    {"dir", required_argument, NULL, OPT_DIR},
    {"resume", required_argument, NULL, OPT_RESUME},
    {"out", required_argument, NULL, OPT_OUT},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"all", no_argument, NULL, OPT_ALL},
    {"arrivals", required_argument, NULL, OPT_ARRIVALS},
    {"popularity", required_argument, NULL, OPT_POPULARITY},
    {"net", required_argument, NULL, OPT_NET},
    {"net-quantile", required_argument, NULL, OPT_NET_QUANTILE},
    {"jitter", required_argument, NULL, OPT_JITTER},
    {"timeline", required_argument, NULL, OPT_TIMELINE},
    {"steps", required_argument, NULL, OPT_STEPS},
    {"trace", required_argument, NULL, OPT_TRACE},
    {"functions", required_argument, NULL, OPT_FUNCTIONS},
    {"minutes", required_argument, NULL, OPT_MINUTES},
    {"series", required_argument, NULL, OPT_SERIES},
    {"changes", required_argument, NULL, OPT_CHANGES},
    {"csv", required_argument, NULL, OPT_CSV},
    {"autoscale", required_argument, NULL, OPT_AUTOSCALE},
    {"provision", required_argument, NULL, OPT_PROVISION},
    {"autoscale-window", required_argument, NULL, OPT_AUTOSCALE_WINDOW},
    {"rule", required_argument, NULL, OPT_RULE},
    {"json", no_argument, NULL, OPT_JSON},
    {"per-model", no_argument, NULL, OPT_PER_MODEL},
    {"help", no_argument, NULL, OPT_HELP},
    {"version", no_argument, NULL, OPT_VERSION},
    {0}};

static const char help[] =
    "Usage: fermata-sim run|goodput|bound --models FILE.csv --gpus N [OPTION]...\n"
    "       fermata-sim gpus --models FILE.csv --rate R [OPTION]...\n"
    "       fermata-sim trace --out FILE.csv [--functions N] [--minutes N] [--seed K]\n"
    "       fermata-sim scenario NAME|--all [--dir DIR] [--resume FILE]\n"
    "                            [--out FILE.md] [--threads N]\n"
    "       fermata-sim policies\n"
    "       fermata-sim mode --help\n"
    "\n"
    "Simulates a cluster of GPUs under the scheduling core that the service runs.\n"
    "  run      one rate, and what came of it\n"
    "  goodput  the highest rate at which every model loses at most 1 % of its\n"
    "           requests\n"
    "  bound    the fluid upper bound on goodput\n"
    "  gpus     the fewest GPUs on which every model loses at most 1 % of its\n"
    "           requests\n"
    "  trace    writes a synthetic trace in the format of the Azure Functions 2019\n"
    "           trace\n"
    "  scenario a named experiment, as Markdown; with --out also its figure, beside\n"
    "           the file\n"
    "  policies what each does, and its parameters\n"
    "  mode     one device under an execution mode\n"
    "\n"
    "  --models FILE        CSV or YAML of the models, as `fermata plan` reads and\n"
    "                       `fermata profile --csv` prints it:\n"
    "                       name,alpha_ms,beta_ms,slo_ms and by choice weight, rate,\n"
    "                       exit_points, max_batch, timeout_ms\n"
    "  --gpus N             how many, all alike\n"
    "  --gpus-per-model R   instead of --gpus\n"
    "  --line A,B,SLO       one model in place of a file: latency A·b + B, all in ms\n"
    "  --copies N           every model N times (default 1)\n"
    "  --slo MS             instead of the file's\n"
    "  --timeout-fraction F the models' timeout as a part of their SLO (policy\n"
    "                       timeout)\n"
    "  --policy NAME        one of those below (default: the first)\n"
    "  --params K=V,...     the policy's parameters (see fermata-sim policies)\n"
    "  --switch AT_S,POLICY another policy from then on\n"
    "  --rate R             requests/s of all models together (run, gpus; default:\n"
    "                       the sum of the file's column rate)\n"
    "  --seconds S          simulated seconds that count (default 20)\n"
    "  --warmup S           seconds before them that do not (default 2)\n"
    "  --seed K             of all chance (default 1)\n"
    "  --seeds N            goodput: mean over the seeds K .. K+N-1 (default 1)\n"
    "  --arrivals A         poisson (default), uniform[:PHASE], gamma:SHAPE,\n"
    "                       mmpp:FACTOR,DWELL_S, closed:CLIENTS,THINK_MS,\n"
    "                       bursts:N,PERIOD_MS,START_MS[,GAP_MS]; A/B/...: one for\n"
    "                       each model\n"
    "  --popularity P       equal, zipf:S (default: the weights of the file)\n"
    "  --net NET            zero (default), rdma, tcp, fixed:CTRL_US[,DATA_US], or\n"
    "                       FILE.csv (quantile,delay_us)\n"
    "  --net-quantile Q     as in a service, which measures the delays: on the way to\n"
    "                       a batch it counts on what so large a part of them keeps,\n"
    "                       or a part that follows from what late batches cost\n"
    "                       (learned), and each begins as soon as it can (default:\n"
    "                       .9999, and no batch begins before it was planned to)\n"
    "  --jitter F           standard deviation of GPU latencies, as a part of them\n"
    "                       (default 0)\n"
    "  --rule worst|mean    goodput: 1 % lost of each model (default), or of all\n"
    "                       together\n"
    "  --steps FILE.csv     changing rates: at_s,model,factor (model * is all)\n"
    "  --trace FILE.csv     invocations per minute, as in the Azure Functions 2019\n"
    "                       trace; rows are dealt to the models in turn, --rate\n"
    "                       scales the mean\n"
    "  --changes FILE.csv   GPUs that fail and come back: at_s,gpu,event (up or down)\n"
    "  --autoscale N        run: begin with N GPUs, follow the autoscaling advice, up\n"
    "                       to --gpus\n"
    "  --provision S        with --autoscale: an added GPU is there after S seconds\n"
    "                       (default 0)\n"
    "  --autoscale-window S with --autoscale: the advice looks at windows of S\n"
    "                       seconds (default 5)\n"
    "  --series FILE.csv    run: a row per second: requests, good, bad, GPUs, busy\n"
    "                       fraction, advice\n"
    "  --timeline FILE.svg  run: draw what each GPU did in the first second that\n"
    "                       counts\n"
    "  --csv PREFIX         PREFIX-models.csv, PREFIX-gpus.csv and\n"
    "                       PREFIX-batches.csv: losses per model, busy fraction per\n"
    "                       GPU, batches per size\n"
    "  --json               one line of JSON\n"
    "  --per-model          a line per model; with --json a list, in the order of the\n"
    "                       file\n"
    "  --dir DIR            of the scenarios (default tests/sim/scenarios)\n"
    "  --resume FILE        scenario: keep results there, and do not run again what\n"
    "                       is there\n"
    "  --help, --version\n";

void options_print_help(void)
{
    printf("%s\nPolicies: ", help);
    for (uint32_t i = 0; sched_policy_name(i); i++)
        printf("%s%s", i ? ", " : "", sched_policy_name(i));
    printf("\n");
}

static status_t number(const char *option, const char *text, double least, double most, double *value,
                       err_t *err)
{
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    if (end == text || *end != '\0' || errno != 0 || !isfinite(v))
        return err_set(err, STATUS_INVALID_ARGUMENT, "--%s: '%.60s' is not a number", option, text);
    char low[FIGURES_BYTES], high[FIGURES_BYTES];
    if (v < least || v > most)
        return err_set(err, STATUS_INVALID_ARGUMENT, "--%s: %.60s is not within %s to %s", option, text,
                       figures_number(least, low, sizeof(low)), figures_number(most, high, sizeof(high)));
    *value = v;
    return STATUS_OK;
}

static status_t count(const char *option, const char *text, double least, double most, uint32_t *value,
                      err_t *err)
{
    double v;
    status_t status = number(option, text, least, most, &v, err);
    if (status == STATUS_OK && v != floor(v))
        return err_set(err, STATUS_INVALID_ARGUMENT, "--%s: %s is not whole", option, text);
    if (status == STATUS_OK)
        *value = (uint32_t)v;
    return status;
}

static status_t parse_rule(const char *text, goodput_rule_t *rule, err_t *err)
{
    if (strcmp(text, "worst") != 0 && strcmp(text, "mean") != 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "--rule: '%.60s' is neither worst nor mean", text);
    *rule = text[0] == 'w' ? GOODPUT_WORST_MODEL : GOODPUT_MEAN;
    return STATUS_OK;
}

static status_t parse_net_quantile(const char *text, options_t *options, err_t *err)
{
    options->net_quantile = SCHED_DELAYS_MOST;
    options->net_learned = strcmp(text, "learned") == 0;
    return options->net_learned ? STATUS_OK
                                : number("net-quantile", text, 1e-3, 1, &options->net_quantile, err);
}

static status_t parse_seed(const char *text, uint64_t *seed, err_t *err)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || text[0] == '-')
        return err_set(err, STATUS_INVALID_ARGUMENT, "--seed: '%.60s' is not a whole number", text);
    *seed = value;
    return STATUS_OK;
}

static status_t parse_line_model(const char *text, double line_ms[3], err_t *err)
{
    int used = 0;
    if (sscanf(text, "%lf,%lf,%lf%n", &line_ms[0], &line_ms[1], &line_ms[2], &used) != 3 ||
        text[used] != '\0')
        return err_set(err, STATUS_INVALID_ARGUMENT, "--line: '%.60s' is not ALPHA,BETA,SLO", text);
    for (int i = 0; i < 3; i++) {
        if (!(line_ms[i] >= 0 && line_ms[i] <= 1e6))
            return err_set(err, STATUS_INVALID_ARGUMENT, "--line: '%.60s' is out of range", text);
    }
    return STATUS_OK;
}

static status_t parse_switch(const char *text, options_t *options, err_t *err)
{
    int used = 0;
    if (sscanf(text, "%lf,%n", &options->switch_s, &used) != 1 || used == 0 || text[used] == '\0' ||
        !(options->switch_s >= 0 && options->switch_s <= 1e6))
        return err_set(err, STATUS_INVALID_ARGUMENT, "--switch: '%.60s' is not AT_S,POLICY", text);
    options->switch_policy = text + used;
    return STATUS_OK;
}

static void set_text(options_t *options, int option, const char *text)
{
    const char **place = option == OPT_TRACE        ? &options->trace_path
                         : option == OPT_STEPS      ? &options->steps_path
                         : option == OPT_SERIES     ? &options->series_path
                         : option == OPT_CHANGES    ? &options->changes_path
                         : option == OPT_CSV        ? &options->csv_prefix
                         : option == OPT_DIR        ? &options->directory
                         : option == OPT_RESUME     ? &options->resume_path
                         : option == OPT_OUT        ? &options->out_path
                         : option == OPT_MODELS     ? &options->models_path
                         : option == OPT_POLICY     ? &options->policy
                         : option == OPT_PARAMS     ? &options->params
                         : option == OPT_ARRIVALS   ? &options->arrivals
                         : option == OPT_POPULARITY ? &options->popularity
                         : option == OPT_NET        ? &options->net
                                                    : &options->timeline_path;
    *place = text;
}

/* False: it is none that has no value. */
static bool set_flag(options_t *options, int option)
{
    switch (option) {
    case OPT_ALL:
        options->all = true;
        return true;
    case OPT_JSON:
        options->json = true;
        return true;
    case OPT_PER_MODEL:
        options->per_model = true;
        return true;
    case OPT_HELP:
        options->command = COMMAND_HELP;
        return true;
    case OPT_VERSION:
        options->command = COMMAND_VERSION;
        return true;
    default:
        return false;
    }
}

static status_t parse_option(options_t *options, int option, const char *text, err_t *err)
{
    if (set_flag(options, option))
        return STATUS_OK;
    switch (option) {
    case OPT_GPUS:
        return count("gpus", text, 1, 16384, &options->gpus, err);
    case OPT_GPUS_PER_MODEL:
        return number("gpus-per-model", text, 1e-3, 1000, &options->gpus_per_model, err);
    case OPT_LINE:
        return parse_line_model(text, options->line_ms, err);
    case OPT_RATE:
        return number("rate", text, 1e-6, 1e9, &options->rate_rps, err);
    case OPT_SECONDS:
        return number("seconds", text, 1e-3, 1e6, &options->seconds, err);
    case OPT_WARMUP:
        return number("warmup", text, 0, 1e6, &options->warmup_s, err);
    case OPT_JITTER:
        return number("jitter", text, 0, 1, &options->jitter, err);
    case OPT_NET_QUANTILE:
        return parse_net_quantile(text, options, err);
    case OPT_SLO:
        return number("slo", text, 1e-3, 1e6, &options->slo_ms, err);
    case OPT_TIMEOUT_FRACTION:
        return number("timeout-fraction", text, 0, 1, &options->timeout_fraction, err);
    case OPT_THREADS:
        return count("threads", text, 1, 256, &options->threads, err);
    case OPT_FUNCTIONS:
        return count("functions", text, 1, 1e6, &options->functions, err);
    case OPT_MINUTES:
        return count("minutes", text, 1, 1440 * 14, &options->minutes, err);
    case OPT_AUTOSCALE:
        return count("autoscale", text, 1, 16384, &options->start_gpus, err);
    case OPT_SWITCH:
        return parse_switch(text, options, err);
    case OPT_PROVISION:
        return number("provision", text, 0, 1e6, &options->provision_s, err);
    case OPT_AUTOSCALE_WINDOW:
        return number("autoscale-window", text, 0.1, 1e6, &options->window_s, err);
    case OPT_SEEDS:
        return count("seeds", text, 1, 1000, &options->seeds, err);
    case OPT_COPIES:
        return count("copies", text, 1, 10000, &options->copies, err);
    case OPT_SEED:
        return parse_seed(text, &options->seed, err);
    case OPT_RULE:
        return parse_rule(text, &options->rule, err);
    default:
        set_text(options, option, text);
        return STATUS_OK;
    }
}

static status_t bad_word(const char *what, const char *word, const char *const *words, err_t *err)
{
    const char *meant = suggest_name(word, words);
    return err_set(err, STATUS_INVALID_ARGUMENT, "there is no %s %.80s%s%s%s", what, word,
                   meant ? ", did you mean " : "", meant ? meant : "", meant ? "?" : "");
}

static status_t unknown_option(const char *word, err_t *err)
{
    enum { COUNT = sizeof(long_options) / sizeof(long_options[0]) };
    const char *names[COUNT];
    for (unsigned i = 0; i < COUNT; i++)
        names[i] = long_options[i].name;
    return bad_word("option", word + strspn(word, "-"), names, err);
}

static status_t parse_command(const char *word, command_t *command, err_t *err)
{
    static const char *const words[] = {"run",   "goodput",  "bound", "gpus", "scenario",
                                        "trace", "policies", "mode",  NULL};
    for (unsigned i = 0; i <= COMMAND_POLICIES; i++) {
        if (strcmp(word, words[i]) == 0) {
            *command = (command_t)i;
            return STATUS_OK;
        }
    }
    return suggest_name(word, words)
               ? bad_word("command", word, words, err)
               : err_set(err, STATUS_INVALID_ARGUMENT,
                         "'%.60s' is none of run, goodput, bound, gpus, trace, scenario, policies, mode",
                         word);
}

static status_t check_needed(const options_t *options, err_t *err)
{
    if (options->command == COMMAND_POLICIES)
        return STATUS_OK;
    if (options->command == COMMAND_TRACE)
        return options->out_path ? STATUS_OK : err_set(err, STATUS_INVALID_ARGUMENT, "--out is missing");
    if (options->command == COMMAND_SCENARIO)
        return options->scenario || options->all
                   ? STATUS_OK
                   : err_set(err, STATUS_INVALID_ARGUMENT, "NAME or --all is missing");
    if (options->changes_path && options->start_gpus)
        return err_set(err, STATUS_INVALID_ARGUMENT, "--changes and --autoscale exclude each other");
    if (!options->models_path && !(options->line_ms[2] > 0))
        return err_set(err, STATUS_INVALID_ARGUMENT, "--models is missing");
    if (options->gpus == 0 && !(options->gpus_per_model > 0) && options->command != COMMAND_GPUS)
        return err_set(err, STATUS_INVALID_ARGUMENT, "--gpus is missing");
    return STATUS_OK;
}

status_t options_parse(int argc, char **argv, options_t *options, err_t *err)
{
    *options = (options_t){.command = COMMAND_HELP,
                           .seconds = 20,
                           .warmup_s = 2,
                           .seed = 1,
                           .seeds = 1,
                           .copies = 1,
                           .arrivals = "poisson",
                           .net = "zero",
                           .functions = 1000,
                           .minutes = 1440,
                           .directory = "tests/sim/scenarios"};
    if (argc < 2)
        return err_set(err, STATUS_INVALID_ARGUMENT, "a command is missing");
    if (argv[1][0] != '-') {
        status_t status = parse_command(argv[1], &options->command, err);
        if (status != STATUS_OK)
            return status;
        argc--;
        argv++;
    }
    opterr = 0;
    optind = 0; /* the parser may be used again: scenarios hold many command lines */
    for (int option; (option = getopt_long(argc, argv, ":", long_options, NULL)) != -1;) {
        if (option == ':')
            return err_set(err, STATUS_INVALID_ARGUMENT, "%.80s needs a value", argv[optind - 1]);
        if (option == '?')
            return unknown_option(argv[optind - 1], err);
        status_t status = parse_option(options, option, optarg, err);
        if (status != STATUS_OK || options->command == COMMAND_HELP || options->command == COMMAND_VERSION)
            return status;
    }
    if (optind < argc && options->command == COMMAND_SCENARIO && !options->all)
        options->scenario = argv[optind++];
    if (optind < argc)
        return err_set(err, STATUS_INVALID_ARGUMENT, "'%.80s' is not an option", argv[optind]);
    if (options->command == COMMAND_HELP)
        return err_set(err, STATUS_INVALID_ARGUMENT, "a command is missing");
    return check_needed(options, err);
}
