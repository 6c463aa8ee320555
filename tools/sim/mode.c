#include "mode.h"

#include <stdio.h>
#include <string.h>

#define PEAK_LEAST_RPS 1.0

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
    if (options->runs == MODE_CLUSTER)
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
    if (options->runs == MODE_CLUSTER)
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

/* The highest rate with p99 <= SLO, to 1 %. UNAVAILABLE: from PEAK_LEAST_RPS on there is none. */
static status_t search_peak(const mode_options_t *options, const mode_scenario_t *scenario,
                            mode_result_t *best, err_t *err)
{
    double low = PEAK_LEAST_RPS, high = 4 * low;
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
    if (status == STATUS_OK && best->rate_rps <= 0)
        return err_set(err, STATUS_UNAVAILABLE,
                       "%s on %s: no rate from %g request/s on meets the SLO of %g ms", options->mode,
                       options->scenario, PEAK_LEAST_RPS, scenario->slo_ms);
    return status;
}

static status_t run_scenario(const mode_options_t *options, mode_result_t *result, err_t *err)
{
    static const double fractions[] = {
        [MODE_LOW] = 0.25, [MODE_MEDIUM] = 0.6, [MODE_HIGH] = 0.9, [MODE_CLOSED] = 1};
    static mode_scenario_t scenario;
    status_t status =
        mode_scenario_read(&scenario, options->directory, options->scenario, options->staged, err);
    if (status != STATUS_OK)
        return status;
    if (!options->policy && scenario.model_count > 1)
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "--scenario %s has %u models, --mode %s runs one on a device (--policy: a cluster)",
                       options->scenario, scenario.model_count, options->mode);
    if (options->slo_ms > 0)
        scenario.slo_ms = options->slo_ms;
    if (options->load == MODE_PEAK && options->rate_rps <= 0)
        return search_peak(options, &scenario, result, err);
    double rate = options->rate_rps > 0 ? options->rate_rps : scenario.peak_rps * fractions[options->load];
    if (rate <= 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%s has no peak_rps: give --rate", options->scenario);
    return run_at(options, &scenario, rate, result, err);
}

static status_t perform(const mode_options_t *options, mode_result_t *result, err_t *err)
{
    *result = (mode_result_t){0};
    switch (options->runs) {
    case MODE_SERVICES:
        return mode_run_services(options, result, err);
    case MODE_STREAMS:
        return mode_run_streams(options, result, err);
    default:
        return run_scenario(options, result, err);
    }
}

int mode_main(int argc, char **argv)
{
    mode_options_t options;
    mode_result_t result;
    err_t err;
    status_t status = mode_options_parse(argc, argv, &options, &err);
    if (status == STATUS_OK && options.help) {
        fputs(mode_options_help(), stdout);
        return 0;
    }
    if (status == STATUS_OK)
        status = perform(&options, &result, &err);
    if (status == STATUS_OK) {
        (options.json ? print_json : print_text)(&options, &result);
        return 0;
    }
    fprintf(stderr, "fermata-sim mode: %s\n", err.text);
    return status == STATUS_INVALID_ARGUMENT || status == STATUS_NOT_FOUND ? 2 : 1;
}
