/*
 * The fluid upper bound on goodput: GPUs are perfectly shared and nothing ever waits.
 *
 * A model at rate r runs the largest real batch b with b <= 1 + r·(SLO - latency(b)) and latency(b) <= SLO:
 * all that arrives in the whole slack of its first request. That costs r·latency(b)/b GPUs; the bound is the
 * highest total rate, at the given shares, that the GPUs can pay. It ignores the 1 % that may be lost, and is
 * loose for one model on few GPUs.
 */
#ifndef SIM_BOUND_H
#define SIM_BOUND_H

#include "sim/workload.h"

/* GPUs that the workload needs at this total rate. */
double bound_gpus(const workload_t *workload, double rate_rps);

double bound_rate_rps(const workload_t *workload, uint32_t gpus);

#endif
