/*
 * The command line of fermata-sim.
 */
#ifndef SIM_OPTIONS_H
#define SIM_OPTIONS_H

#include "sim/goodput.h"

typedef enum {
    COMMAND_RUN,
    COMMAND_GOODPUT,
    COMMAND_BOUND,
    COMMAND_GPUS,
    COMMAND_SCENARIO,
    COMMAND_TRACE,
    COMMAND_POLICIES,
    COMMAND_HELP,
    COMMAND_VERSION,
} command_t;

typedef struct {
    command_t command;
    const char *models_path;
    double line_ms[3]; /* alpha, beta, SLO of one model, when there is no file */
    uint32_t gpus;
    double gpus_per_model; /* instead of gpus, when above 0 */
    const char *policy, *params;
    const char *switch_policy; /* from switch_s on; NULL: never */
    double switch_s;
    double rate_rps, seconds, warmup_s, jitter, slo_ms, timeout_fraction;
    /* As in a service, which part of the net's delays keeps what the core counts on before a batch. 0: it counts on their bound, and a
     * batch begins when it was planned to. */
    double net_quantile;
    bool net_learned; /* that part follows from what late batches cost */
    uint64_t seed;
    uint32_t seeds, copies;
    const char *arrivals, *popularity, *net, *timeline_path, *steps_path, *series_path, *trace_path;
    const char *changes_path, *csv_prefix;
    uint32_t start_gpus; /* > 0: follow the autoscaling advice from so many on */
    double provision_s;  /* until an added GPU is there */
    double window_s;     /* of the autoscaling advice; 0: its default */
    goodput_rule_t rule;
    bool json, per_model;
    /* scenario */
    const char *scenario, *directory, *resume_path, *out_path;
    uint32_t threads; /* 0: as many as there are cores */
    bool all;
    /* trace */
    uint32_t functions, minutes;
} options_t;

/* INVALID_ARGUMENT with a text for the user (exit code 2). */
status_t options_parse(int argc, char **argv, options_t *options, err_t *err);
void options_print_help(void); /* to stdout */

#endif
