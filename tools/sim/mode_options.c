#include "mode.h"

#include "base/beside.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "usage: fermata-sim mode --mode MODE --scenario NAME [options]\n"
    "One device under one execution mode. Modes: whole, zerobatch, delaybatch,\n"
    "staged, of one model; on the scenarios fig11a:250 and fig11a:90 whole,\n"
    "clockwork, preempt; on pair:A+B, triplet:A+B+C, quadruplet:A+B+C+D overlap,\n"
    "abacus (overlap in the paper's order), fcfs, sjf, edf (low, medium, high, peak:\n"
    "25, 50, 75, 100 r/s).\n"
    "\n"
    "  --load L         low, medium, high: 1/4, 3/5, 9/10 of the scenario's peak\n"
    "                   (default high); peak: the highest rate that meets the SLO;\n"
    "                   closed: one query at a time\n"
    "  --rate R         requests/s instead of a load\n"
    "  --queries N      how many (default 20000)\n"
    "  --seed K         default 1\n"
    "  --scenarios DIR  default: tests/sim/modes of the source tree that the program\n"
    "                   was built in, or share/fermata/modes beside the folder that\n"
    "                   it is installed in\n"
    "  --policy P       a cluster of devices (whole, staged, overlap) with all models\n"
    "                   of the scenario behind this policy of the scheduling core;\n"
    "                   none: each request to the device with the fewest unanswered;\n"
    "                   on fig11a: this policy before the device (default FLEX, of\n"
    "                   whole without preemption)\n"
    "  --params K=V,..  of the policy\n"
    "  --gpus N         devices of the cluster, up to 64 (default 4)\n"
    "  --slots N        batches side by side on each, up to 4 (default 1; overlap 2)\n"
    "  --slo-ms X       instead of the scenario's\n"
    "  --window-ms X    DelayBatch's window instead of the scenario's\n"
    "  --late           zerobatch and delaybatch form a batch when the one before it\n"
    "                   has ended, not already when that has read its inputs, as\n"
    "                   Triton's TensorRT backend does\n"
    "  --drop RULE      fcfs, sjf and edf drop a query when its deadline has passed\n"
    "                   before it begins (late, the paper's rule and the default), or\n"
    "                   when by the duration model it would end behind it, run alone\n"
    "                   and now (predicted, the rule of overlap and abacus)\n"
    "  --staged K=V,..  settings of staged in place of the scenario's\n"
    "  --trace FILE     a row per launch; not of a cluster\n"
    "  --json           figures as one JSON object\n";

static const struct option long_options[] = {
    {"mode", required_argument, NULL, 'm'},    {"scenario", required_argument, NULL, 's'},
    {"load", required_argument, NULL, 'l'},    {"rate", required_argument, NULL, 'r'},
    {"queries", required_argument, NULL, 'n'}, {"seed", required_argument, NULL, 'k'},
    {"json", no_argument, NULL, 'j'},          {"scenarios", required_argument, NULL, 'd'},
    {"trace", required_argument, NULL, 't'},   {"policy", required_argument, NULL, 'p'},
    {"params", required_argument, NULL, 'P'},  {"gpus", required_argument, NULL, 'g'},
    {"slots", required_argument, NULL, 'S'},   {"slo-ms", required_argument, NULL, 'o'},
    {"staged", required_argument, NULL, 'T'},  {"window-ms", required_argument, NULL, 'w'},
    {"late", no_argument, NULL, 'L'},          {"drop", required_argument, NULL, 'D'},
    {"help", no_argument, NULL, 'h'},          {0}};

/* Sets of kinds of runs. */
enum {
    BATCHES = 1 << MODE_BATCHES,
    CLUSTER = 1 << MODE_CLUSTER,
    SERVICES = 1 << MODE_SERVICES,
    STREAMS = 1 << MODE_STREAMS,
    ALL = BATCHES | CLUSTER | SERVICES | STREAMS,
};

typedef struct {
    const char *mode;
    unsigned runs; /* the kinds of runs that know it */
} known_mode_t;

static const known_mode_t modes[] = {
    {"whole", BATCHES | CLUSTER | STREAMS},
    {"zerobatch", BATCHES},
    {"delaybatch", BATCHES},
    {"staged", BATCHES | CLUSTER},
    {"clockwork", STREAMS},
    {"preempt", STREAMS},
    {"fcfs", SERVICES},
    {"sjf", SERVICES},
    {"edf", SERVICES},
    {"overlap", CLUSTER | SERVICES},
    {"abacus", SERVICES},
};

/* Which runs an option means something to; what is not here goes with all. */
static const struct {
    char option;
    unsigned runs;
    const char *modes; /* of these only, with blanks between; NULL: of all */
} applies[] = {
    {'l', BATCHES | CLUSTER | SERVICES, NULL},
    {'r', BATCHES | CLUSTER | SERVICES, NULL},
    {'n', BATCHES | CLUSTER | SERVICES, NULL},
    {'k', BATCHES | CLUSTER | SERVICES, NULL},
    {'d', BATCHES | CLUSTER | SERVICES, NULL},
    {'t', BATCHES | SERVICES | STREAMS, NULL},
    {'p', CLUSTER | STREAMS, "whole staged overlap preempt"},
    {'P', CLUSTER | STREAMS, NULL},
    {'g', CLUSTER, NULL},
    {'S', CLUSTER, NULL},
    {'o', BATCHES | CLUSTER, NULL},
    {'T', BATCHES | CLUSTER, "staged"},
    {'w', BATCHES, "delaybatch"},
    {'L', BATCHES, "zerobatch delaybatch"},
    {'D', SERVICES, "fcfs sjf edf"},
};

static const char *const run_names[] = {
    [MODE_BATCHES] = "one device",
    [MODE_CLUSTER] = "a cluster (--policy)",
    [MODE_SERVICES] = "services on one device",
    [MODE_STREAMS] = "fig11a",
};

/* Values */

static bool parse_load(const char *text, mode_load_t *load)
{
    static const char *const words[] = {"low", "medium", "high", "peak", "closed"};
    for (int i = 0; i < 5; i++)
        if (strcmp(words[i], text) == 0) {
            *load = (mode_load_t)i;
            return true;
        }
    return false;
}

static bool parse_drop(const char *text, bool *predicted)
{
    *predicted = strcmp(text, "predicted") == 0;
    return *predicted || strcmp(text, "late") == 0;
}

static bool parse_number(const char *text, double least, double most, double *value)
{
    char *end;
    *value = strtod(text, &end);
    return end != text && *end == '\0' && *value >= least && *value <= most;
}

static bool parse_count(const char *text, uint32_t least, uint32_t most, uint32_t *count)
{
    double value;
    if (!parse_number(text, least, most, &value) || value != floor(value))
        return false;
    *count = (uint32_t)value;
    return true;
}

static bool parse_seed(const char *text, uint64_t *seed)
{
    char *end;
    errno = 0;
    *seed = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0;
}

/* NULL, or what the option takes. */
static const char *take(mode_options_t *options, int option, const char *text)
{
    switch (option) {
    case 'm':
        options->mode = text;
        return NULL;
    case 's':
        options->scenario = text;
        return NULL;
    case 'd':
        options->directory = text;
        return NULL;
    case 't':
        options->trace_path = text;
        return NULL;
    case 'p':
        options->policy = text;
        return NULL;
    case 'P':
        options->params = text;
        return NULL;
    case 'T':
        options->staged = text;
        return NULL;
    case 'L':
        options->late = true;
        return NULL;
    case 'j':
        options->json = true;
        return NULL;
    case 'h':
        options->help = true;
        return NULL;
    case 'g':
        return parse_count(text, 1, MODE_GPUS_MAX, &options->gpus) ? NULL : "1 to 64";
    case 'S':
        return parse_count(text, 1, STAGED_WIDTH_MAX, &options->slots) ? NULL : "1 to 4";
    case 'o':
        return parse_number(text, 1e-3, 1e6, &options->slo_ms) ? NULL : "0.001 to 1000000 ms";
    case 'w':
        return parse_number(text, 1e-3, 1e6, &options->window_ms) ? NULL : "0.001 to 1000000 ms";
    case 'l':
        return parse_load(text, &options->load) ? NULL : "low, medium, high, peak or closed";
    case 'D':
        return parse_drop(text, &options->drop_predicted) ? NULL : "late or predicted";
    case 'r':
        return parse_number(text, 1e-3, 1e7, &options->rate_rps) ? NULL : "0.001 to 10000000 requests/s";
    case 'k':
        return parse_seed(text, &options->seed) ? NULL : "a whole number from 0 to 2^64 - 1";
    default:
        return parse_count(text, 100, 5000000, &options->queries) ? NULL : "100 to 5000000";
    }
}

/* What is run */

static uint32_t names_in(const char *list)
{
    uint32_t count = 1;
    for (const char *at = list; (at = strchr(at, '+')); at++)
        count++;
    return count;
}

/* fig11a:SLO, or pair:, triplet:, quadruplet: and as many services. */
static status_t read_prefix(mode_options_t *options, const char *colon, err_t *err)
{
    static const char *const groups[] = {"pair", "triplet", "quadruplet"};
    const char *name = options->scenario;
    size_t len = (size_t)(colon - name);
    if (len == 6 && strncmp(name, "fig11a", len) == 0) {
        options->runs = MODE_STREAMS;
        return parse_number(colon + 1, 1, 1e6, &options->slo_ms)
                   ? STATUS_OK
                   : err_set(err, STATUS_INVALID_ARGUMENT,
                             "--scenario %.80s: an SLO in ms follows fig11a:", name);
    }
    for (uint32_t i = 0; i < 3; i++)
        if (strlen(groups[i]) == len && strncmp(name, groups[i], len) == 0) {
            options->runs = MODE_SERVICES;
            options->services = colon + 1;
            return names_in(colon + 1) == i + 2
                       ? STATUS_OK
                       : err_set(err, STATUS_INVALID_ARGUMENT,
                                 "--scenario %.80s: %s: is followed by %u services with + between them", name,
                                 groups[i], i + 2);
        }
    return err_set(err, STATUS_INVALID_ARGUMENT,
                   "--scenario %.80s: before a colon stands fig11a, pair, triplet or quadruplet", name);
}

static status_t find_runs(mode_options_t *options, err_t *err)
{
    const char *colon = strchr(options->scenario, ':');
    status_t status = STATUS_OK;
    options->runs = options->policy ? MODE_CLUSTER : MODE_BATCHES;
    if (colon)
        status = read_prefix(options, colon, err);
    if (status == STATUS_OK && colon && options->policy && options->runs != MODE_STREAMS)
        return err_set(err, STATUS_INVALID_ARGUMENT, "--policy: a cluster takes a scenario file, not %.80s",
                       options->scenario);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (strcmp(modes[i].mode, options->mode) != 0)
            continue;
        if (modes[i].runs & 1u << options->runs)
            return STATUS_OK;
        if (modes[i].runs == SERVICES || (modes[i].runs == (CLUSTER | SERVICES) && !colon))
            return err_set(err, STATUS_INVALID_ARGUMENT, "--mode %s takes a scenario like pair:resnet50+bert",
                           options->mode);
        return err_set(err, STATUS_INVALID_ARGUMENT, "--mode %s does not run on %.80s (%s)", options->mode,
                       options->scenario, run_names[options->runs]);
    }
    return err_set(err, STATUS_INVALID_ARGUMENT, "--mode: there is no %.80s", options->mode);
}

static const char *name_of(char option)
{
    const struct option *at = long_options;
    while (at->val != option)
        at++;
    return at->name;
}

/* An option that would change nothing is a mistake in what was asked for. */
static status_t check_applies(const mode_options_t *options, const bool *given, err_t *err)
{
    for (size_t i = 0; i < sizeof(applies) / sizeof(applies[0]); i++) {
        if (!given[(int)applies[i].option])
            continue;
        if (!(applies[i].runs & 1u << options->runs))
            return err_set(err, STATUS_INVALID_ARGUMENT, "--%s means nothing to %s",
                           name_of(applies[i].option), run_names[options->runs]);
        if (applies[i].modes && !strstr(applies[i].modes, options->mode))
            return err_set(err, STATUS_INVALID_ARGUMENT, "--%s means nothing to --mode %s",
                           name_of(applies[i].option), options->mode);
    }
    if (given['l'] && given['r'])
        return err_set(err, STATUS_INVALID_ARGUMENT, "--load and --rate: give one of them");
    if (given['P'] && strcmp(options->policy, "none") == 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "--params means nothing to --policy none");
    if (options->load == MODE_CLOSED && options->runs != MODE_BATCHES)
        return err_set(err, STATUS_INVALID_ARGUMENT, "--load closed means nothing to %s",
                       run_names[options->runs]);
    if (options->trace_path && options->load == MODE_PEAK && options->runs == MODE_BATCHES)
        return err_set(err, STATUS_INVALID_ARGUMENT, "--trace is of one run, --load peak makes many");
    return STATUS_OK;
}

/* Where the scenarios are: in the source tree of build/PRESET/bin, or beside an installed program. */
static const char *default_directory(void)
{
    static const char *const places[] = {"../../../tests/sim/modes", "../share/fermata/modes"};
    static char path[1024];
    for (int i = 0; i < 2; i++) {
        if (beside_program(places[i], path, sizeof(path)) && access(path, R_OK | X_OK) == 0)
            return path;
    }
    return NULL;
}

static status_t read_words(int argc, char **argv, mode_options_t *options, bool *given, err_t *err)
{
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, ":", long_options, NULL)) != -1;) {
        if (option == ':' || option == '?')
            return err_set(err, STATUS_INVALID_ARGUMENT,
                           option == ':' ? "%.80s needs a value" : "there is no option %.80s",
                           argv[optind - 1]);
        const char *wanted = take(options, option, optarg);
        if (wanted)
            return err_set(err, STATUS_INVALID_ARGUMENT, "--%s takes %s, not \"%.80s\"",
                           name_of((char)option), wanted, optarg);
        given[option] = true;
    }
    return optind < argc ? err_set(err, STATUS_INVALID_ARGUMENT, "\"%.80s\" is no option", argv[optind])
                         : STATUS_OK;
}

status_t mode_options_parse(int argc, char **argv, mode_options_t *options, err_t *err)
{
    bool given[128] = {false};
    *options = (mode_options_t){.load = MODE_HIGH, .seed = 1, .queries = 20000, .gpus = 4};
    status_t status = read_words(argc, argv, options, given, err);
    if (status != STATUS_OK || options->help)
        return status;
    if (!options->mode || !options->scenario)
        return err_set(err, STATUS_INVALID_ARGUMENT, "give --mode and --scenario");
    status = find_runs(options, err);
    if (status == STATUS_OK)
        status = check_applies(options, given, err);
    if (status == STATUS_OK && options->slots == 0)
        options->slots = strcmp(options->mode, "overlap") == 0 ? 2 : 1;
    if (status == STATUS_OK && !options->directory && options->runs != MODE_STREAMS &&
        !(options->directory = default_directory()))
        return err_set(err, STATUS_NOT_FOUND,
                       "the scenarios are not where this program is: name them with --scenarios DIR");
    return status;
}

const char *mode_options_help(void)
{
    return help;
}
