/*
 * One command of fermata-sim, from its options to its numbers.
 */
#ifndef SIM_JOB_H
#define SIM_JOB_H

#include "options.h"
#include "sim/timeline.h"

#include <stdio.h>

typedef struct {
    options_t options;
    profile_entry_t *models;
    uint32_t model_count;
    workload_t workload;
    simulation_config_t config;
    double bound_rps;
    rate_step_t *steps;
    simulation_change_t *changes;
    arrivals_spec_t *each; /* per model, when they differ */
    autoscale_params_t autoscale;
    sched_delays_t delays; /* that are counted on, with net_quantile */
    FILE *series;          /* these two while it runs, if they are wanted */
    timeline_t *timeline;
    /* after job_perform */
    simulation_result_t *result; /* NULL for bound */
    double goodput_rps;          /* < 0: not searched for */
    uint32_t gpus_needed;        /* 0: not searched for */
} job_t;

/* Reads the files that the options name. The job is to be disposed in any case. */
status_t job_init(job_t *job, const options_t *options, err_t *err);
void job_dispose(job_t *job);

status_t job_perform(job_t *job, err_t *err);

/* A number of the result by its name in the JSON. False: there is none of this name. */
bool job_value(const job_t *job, const char *name, double *value);

#endif
