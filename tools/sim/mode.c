#include "mode.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: fermata-sim mode --mode MODE --scenario NAME [options]\n"
    "One device under one execution mode. Modes: whole, zerobatch, delaybatch, staged;\n"
    "on the scenarios fig11a:250 and fig11a:90 whole, clockwork, preempt;\n"
    "on pair:A+B, triplet:A+B+C, quadruplet:A+B+C+D overlap, abacus (overlap in the paper's order), fcfs, "
    "sjf, edf\n"
    "(at 25, 50, 75, 100 r/s).\n\n"
    "  --load L         low, medium, high: 1/4, 3/5, 9/10 of the scenario's peak (default high);\n"
    "                   peak: the highest rate that meets the SLO; closed: one query at a time\n"
    "  --rate R         requests/s instead of a load\n"
    "  --queries N      how many (default 20000)\n"
    "  --seed K         default 1\n"
    "  --scenarios DIR  default tests/sim/modes\n"
    "  --policy P       a cluster of devices (whole, staged, overlap) behind this policy of the scheduling\n"
    "                   core; none: each request to the device with the fewest unanswered\n"
    "  --params K=V,..  of the policy\n"
    "  --gpus N         devices of the cluster, up to 64 (default 4)\n"
    "  --slots N        batches side by side on each, up to 4 (default 1; overlap 2)\n"
    "  --slo-ms X       instead of the scenario's\n"
    "  --window-ms X    DelayBatch's window instead of the scenario's\n"
    "  --late           zerobatch and delaybatch form a batch when the one before it has ended, not already "
    "when that\n"
    "                   has read its inputs, as Triton's TensorRT backend does\n"
    "  --staged K=V,..  settings of staged in place of the scenario's\n"
    "  --trace FILE     a row per launch; not of a cluster\n"
    "  --json           figures as one JSON object\n";

static const struct option long_options[] = {{"mode", required_argument, NULL, 'm'},
                                             {"scenario", required_argument, NULL, 's'},
                                             {"load", required_argument, NULL, 'l'},
                                             {"rate", required_argument, NULL, 'r'},
                                             {"queries", required_argument, NULL, 'n'},
                                             {"seed", required_argument, NULL, 'k'},
                                             {"json", no_argument, NULL, 'j'},
                                             {"scenarios", required_argument, NULL, 'd'},
                                             {"trace", required_argument, NULL, 't'},
                                             {"policy", required_argument, NULL, 'p'},
                                             {"params", required_argument, NULL, 'P'},
                                             {"gpus", required_argument, NULL, 'g'},
                                             {"slots", required_argument, NULL, 'S'},
                                             {"slo-ms", required_argument, NULL, 'o'},
                                             {"staged", required_argument, NULL, 'T'},
                                             {"window-ms", required_argument, NULL, 'w'},
                                             {"late", no_argument, NULL, 'L'},
                                             {"help", no_argument, NULL, 'h'},
                                             {0}};

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

static bool parse_number(const char *text, double least, double most, double *value)
{
    char *end;
    *value = strtod(text, &end);
    return end != text && *end == '\0' && *value >= least && *value <= most;
}

static bool parse_count(const char *text, uint32_t most, uint32_t *count)
{
    double value;
    if (!parse_number(text, 1, most, &value) || value != (uint32_t)value)
        return false;
    *count = (uint32_t)value;
    return true;
}

static bool take(mode_options_t *options, int option, const char *text)
{
    switch (option) {
    case 'm':
        options->mode = text;
        return true;
    case 's':
        options->scenario = text;
        return true;
    case 'd':
        options->directory = text;
        return true;
    case 't':
        options->trace_path = text;
        return true;
    case 'p':
        options->policy = text;
        return true;
    case 'P':
        options->params = text;
        return true;
    case 'g':
        return parse_count(text, MODE_GPUS_MAX, &options->gpus);
    case 'S':
        return parse_count(text, STAGED_WIDTH_MAX, &options->slots);
    case 'o':
        return parse_number(text, 1e-3, 1e6, &options->slo_ms);
    case 'w':
        return parse_number(text, 1e-3, 1e6, &options->window_ms);
    case 'T':
        options->staged = text;
        return true;
    case 'L':
        return options->late = true;
    case 'j':
        return options->json = true;
    case 'l':
        return parse_load(text, &options->load);
    case 'r':
        return parse_number(text, 1e-3, 1e7, &options->rate_rps);
    case 'k':
        options->seed = strtoull(text, NULL, 10);
        return true;
    case 'n':
        return parse_count(text, 5000000, &options->queries) && options->queries >= 100;
    default:
        return false;
    }
}

static void print_json(const mode_options_t *options, const mode_result_t *result)
{
    printf("{\"mode\": \"%s\", \"scenario\": \"%s\", \"seed\": %llu, \"rate_rps\": %.1f, \"avg_ms\": %.4f, "
           "\"p99_ms\": %.4f, \"throughput_rps\": %.2f, \"goodput_rps\": %.2f, \"qos_violation_rate\": %.5f, "
           "\"p99_of_slo\": %.4f, \"utilization\": %.4f, \"predictor_error\": %.4f, \"linear_error\": %.4f, "
           "\"completed\": %llu, \"dropped\": %llu",
           options->mode, options->scenario, (unsigned long long)options->seed, result->rate_rps,
           result->avg_ms, result->p99_ms, result->throughput_rps, result->goodput_rps,
           result->qos_violation_rate, result->p99_of_slo, result->utilization, result->predictor_error,
           result->linear_error, (unsigned long long)result->completed, (unsigned long long)result->dropped);
    if (options->policy)
        printf(", \"policy\": \"%s\", \"gpus\": %u, \"slots\": %u, \"batches\": %llu, \"stretches\": %llu, "
               "\"joined\": %llu",
               options->policy, options->gpus, options->slots, (unsigned long long)result->batches,
               (unsigned long long)result->stretches, (unsigned long long)result->joined);
    puts("}");
}

static void print_text(const mode_options_t *options, const mode_result_t *result)
{
    printf("%s on %s (seed %llu): offered %.1f r/s, avg %.2f ms, p99 %.2f ms (%.2f of the SLO), throughput "
           "%.1f r/s, "
           "goodput %.1f r/s, QoS violations %.4f, utilization %.3f, %llu answered, %llu dropped\n",
           options->mode, options->scenario, (unsigned long long)options->seed, result->rate_rps,
           result->avg_ms, result->p99_ms, result->p99_of_slo, result->throughput_rps, result->goodput_rps,
           result->qos_violation_rate, result->utilization, (unsigned long long)result->completed,
           (unsigned long long)result->dropped);
    if (options->policy)
        printf("%u devices behind %s: %llu batches granted, of which %llu to join one; %llu did\n",
               options->gpus, options->policy, (unsigned long long)result->batches,
               (unsigned long long)result->stretches, (unsigned long long)result->joined);
    if (result->predictor_error > 0)
        printf("error of the duration model %.1f %%, of a linear one %.1f %%\n",
               100 * result->predictor_error, 100 * result->linear_error);
}

static status_t run_at(const mode_options_t *options, const mode_scenario_t *scenario, double rate_rps,
                       mode_result_t *result, err_t *err)
{
    return (options->policy ? mode_run_cluster : mode_run_batches)(options, scenario, rate_rps, result, err);
}

/* A cluster may drop requests, which then have no latency. */
static bool is_good(const mode_options_t *options, const mode_scenario_t *scenario,
                    const mode_result_t *result)
{
    return options->policy ? result->qos_violation_rate <= 0.01 : result->p99_ms <= scenario->slo_ms;
}

/* The highest rate with p99 <= SLO, to 1 %. */
static status_t search_peak(const mode_options_t *options, const mode_scenario_t *scenario,
                            mode_result_t *best, err_t *err)
{
    double low = 1, high = 4;
    mode_result_t result;
    status_t status = STATUS_OK;
    for (bool open = true; status == STATUS_OK && high < 1e7 && (open || high / low > 1.01);) {
        double rate = open ? high : (low + high) / 2;
        status = run_at(options, scenario, rate, &result, err);
        bool good = status == STATUS_OK && is_good(options, scenario, &result);
        if (good) {
            *best = result;
            low = rate;
            high = open ? rate * 2 : high;
        } else {
            high = rate;
            open = false;
        }
    }
    return status;
}

status_t mode_perform(const mode_options_t *options, mode_result_t *result, err_t *err)
{
    static const double fractions[] = {
        [MODE_LOW] = 0.25, [MODE_MEDIUM] = 0.6, [MODE_HIGH] = 0.9, [MODE_CLOSED] = 1};
    static mode_scenario_t scenario;
    bool schedules = strcmp(options->mode, "clockwork") == 0 || strcmp(options->mode, "preempt") == 0;
    double slo_ms;
    if (strncmp(options->scenario, "fig11a:", 7) == 0) {
        if (!parse_number(options->scenario + 7, 1, 1e6, &slo_ms) ||
            (!schedules && strcmp(options->mode, "whole")))
            return err_set(err, STATUS_INVALID_ARGUMENT,
                           "%s takes an SLO in ms, and whole, clockwork or preempt", options->scenario);
        return mode_run_streams(options, slo_ms, result, err);
    }
    bool overlaps = strcmp(options->mode, "overlap") == 0 && !options->policy;
    bool services = overlaps || strcmp(options->mode, "abacus") == 0 || strcmp(options->mode, "fcfs") == 0 ||
                    strcmp(options->mode, "sjf") == 0 || strcmp(options->mode, "edf") == 0;
    const char *names = strchr(options->scenario, ':');
    if (services)
        return names ? mode_run_services(options, names + 1, result, err)
                     : err_set(err, STATUS_INVALID_ARGUMENT, "%s takes a scenario like pair:resnet50+bert",
                               options->mode);
    if (schedules)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%s runs on fig11a:SLO only", options->mode);
    status_t status =
        mode_scenario_read(&scenario, options->directory, options->scenario, options->staged, err);
    *result = (mode_result_t){0};
    if (status != STATUS_OK)
        return status;
    if (options->slo_ms > 0)
        scenario.slo_ms = options->slo_ms;
    if (options->load == MODE_PEAK && options->rate_rps <= 0)
        return search_peak(options, &scenario, result, err);
    double rate = options->rate_rps > 0 ? options->rate_rps : scenario.peak_rps * fractions[options->load];
    if (rate <= 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%s has no peak_rps: give --rate", options->scenario);
    return run_at(options, &scenario, rate, result, err);
}

static bool known_mode(const char *mode)
{
    static const char *const modes[] = {"whole", "zerobatch", "delaybatch", "staged",  "clockwork", "preempt",
                                        "fcfs",  "sjf",       "edf",        "overlap", "abacus"};
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
        if (strcmp(modes[i], mode) == 0)
            return true;
    return false;
}

int mode_main(int argc, char **argv)
{
    mode_options_t options = {
        .directory = "tests/sim/modes", .load = MODE_HIGH, .seed = 1, .queries = 20000, .gpus = 4};
    err_t err;
    for (int option; (option = getopt_long(argc, argv, "", long_options, NULL)) != -1;) {
        if (option == 'h') {
            fputs(help, stdout);
            return 0;
        }
        if (!take(&options, option, optarg)) {
            fprintf(stderr, "fermata-sim mode: bad value or option\n\n%s", help);
            return 2;
        }
    }
    if (!options.mode || !options.scenario || !known_mode(options.mode) || optind < argc) {
        fprintf(stderr, "fermata-sim mode: give a known --mode and a --scenario\n\n%s", help);
        return 2;
    }
    if (options.slots == 0)
        options.slots = strcmp(options.mode, "overlap") == 0 ? 2 : 1;
    mode_result_t result;
    status_t status = mode_perform(&options, &result, &err);
    if (status == STATUS_OK) {
        (options.json ? print_json : print_text)(&options, &result);
        return 0;
    }
    fprintf(stderr, "fermata-sim mode: %s\n", err.text);
    return status == STATUS_INVALID_ARGUMENT || status == STATUS_NOT_FOUND ? 2 : 1;
}
