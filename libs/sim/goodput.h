/*
 * Goodput: the highest total rate at which every model loses at most 1 % of its requests (p99 within its SLO), found by
 * bisection between 0 and a little over the fluid bound.
 */
#ifndef SIM_GOODPUT_H
#define SIM_GOODPUT_H

#include "sim/simulation.h"

typedef enum { GOODPUT_WORST_MODEL, GOODPUT_MEAN } goodput_rule_t;

typedef struct {
    simulation_config_t base; /* its workload's rate is set here */
    double bad_limit;         /* 0: 0.01 */
    double precision;         /* of the rate; 0: 0.005 */
    goodput_rule_t rule;
} goodput_config_t;

/* *result is of a run at *rate_rps, without giving up early; the caller disposes it. */
status_t goodput_search(const goodput_config_t *config, double *rate_rps, simulation_result_t **result,
                        err_t *err);

#endif
