/*
 * Results as a line of JSON, or as text for people.
 */
#ifndef SIM_REPORT_H
#define SIM_REPORT_H

#include "sim/simulation.h"

#include <stdio.h>

/* goodput_rate_rps < 0 and gpus_needed 0: of a plain run. per_model: latencies are known of each. */
void report_json(FILE *out, const simulation_result_t *result, double goodput_rate_rps, uint32_t gpus_needed,
                 double bound_rps, bool per_model);
void report_text(FILE *out, const simulation_result_t *result, double goodput_rate_rps, uint32_t gpus_needed,
                 double bound_rps);
/* PREFIX-models.csv, whose latencies are known, PREFIX-gpus.csv, PREFIX-batches.csv. */
status_t report_csv(const char *prefix, const simulation_result_t *result, const workload_t *workload,
                    err_t *err);
/* A line for each model, whose latencies are known. */
void report_models(FILE *out, const simulation_result_t *result, const workload_t *workload);

#endif
