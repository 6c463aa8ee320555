/*
 * `fermata-sim mode`: one device, one execution mode, one scenario.
 */
#ifndef SIM_MODE_H
#define SIM_MODE_H

#include "mode_scenario.h"

enum { MODE_GPUS_MAX = 64 };

typedef enum { MODE_LOW, MODE_MEDIUM, MODE_HIGH, MODE_PEAK, MODE_CLOSED } mode_load_t;

/* What a scenario's name and --policy ask for. */
typedef enum {
    MODE_BATCHES,  /* a scenario file, one device */
    MODE_CLUSTER,  /* a scenario file, devices behind a policy */
    MODE_SERVICES, /* pair:A+B, triplet:A+B+C, quadruplet:A+B+C+D */
    MODE_STREAMS,  /* fig11a:SLO */
} mode_runs_t;

typedef struct {
    const char *mode, *scenario, *directory;
    mode_runs_t runs;
    const char *services;   /* of SERVICES: what stands behind the colon */
    const char *trace_path; /* one device: a row per launch; NULL: none */
    mode_load_t load;
    const char *staged; /* settings in place of the scenario's, KEY=VALUE,...; NULL: none */
    double rate_rps;    /* instead of a load, when above 0 */
    double slo_ms;      /* instead of the scenario's, when above 0; of STREAMS: the one of its name */
    double window_ms;   /* DelayBatch's, instead of the scenario's, when above 0 */
    /* zerobatch, delaybatch: form a batch when the one before it has ended, not when it has read its inputs. */
    bool late;
    bool drop_predicted; /* fcfs, sjf, edf: drop what by prediction would be late, as overlap does */
    uint64_t seed;
    uint32_t queries;
    /* A cluster instead of one device: the policy before it, or `none`; NULL: one device. */
    const char *policy, *params;
    uint32_t gpus, slots;
    bool json, help;
} mode_options_t;

typedef struct {
    double avg_ms, p99_ms, throughput_rps, goodput_rps, qos_violation_rate;
    double rate_rps;   /* offered */
    double p99_of_slo; /* of the latencies over the SLO of their model */
    double utilization;
    double predictor_error, linear_error; /* overlap and SJF: of the duration models */
    uint64_t completed, dropped;
    /* Of a cluster: granted batches; of these, rows that were to join one; those that did. */
    uint64_t batches, stretches, joined;
} mode_result_t;

/* Everything behind the word `mode`; returns the exit code. */
int mode_main(int argc, char **argv);

/* The words behind `mode`. INVALID_ARGUMENT names the option: one that is unknown, has a value that it
 * does not take, or would change nothing. NOT_FOUND: no scenarios where the program is. With `help`
 * nothing else is checked. */
status_t mode_options_parse(int argc, char **argv, mode_options_t *options, err_t *err);
const char *mode_options_help(void);

/* One run of a scenario's only model under whole (zerobatch, delaybatch) or staged, at this rate. With
 * load MODE_CLOSED the next query comes when the last is answered. */
status_t mode_run_batches(const mode_options_t *options, const mode_scenario_t *scenario, double rate_rps,
                          mode_result_t *result, err_t *err);

/* The same on a cluster (options->policy), for all of the scenario's models under whole, staged or overlap. */
status_t mode_run_cluster(const mode_options_t *options, const mode_scenario_t *scenario, double rate_rps,
                          mode_result_t *result, err_t *err);

/* Abacus's services under overlap, abacus, fcfs, sjf or edf. */
status_t mode_run_services(const mode_options_t *options, mode_result_t *result, err_t *err);

/* Shepherd's Figure 11(a) under whole (FLEX without preemption), clockwork or preempt. */
status_t mode_run_streams(const mode_options_t *options, mode_result_t *result, err_t *err);

/* Latencies -> the figures of a run. The first tenth is not counted. */
typedef struct {
    double *latency_ms;
    double *of_slo;
    uint32_t count, max;
    uint32_t late, dropped, counted;
    double first_s, last_s;
} mode_tally_t;

status_t mode_tally_init(mode_tally_t *tally, uint32_t max, err_t *err);
void mode_tally_dispose(mode_tally_t *tally);
void mode_tally_answer(mode_tally_t *tally, double at_s, double latency_ms, double slo_ms);
void mode_tally_drop(mode_tally_t *tally, double at_s);
void mode_tally_close(mode_tally_t *tally, mode_result_t *result);

#endif
