/*
 * A cluster operator who follows the advice of sched/autoscale.h at once: the lowest GPU that is off is added, the highest
 * one that is on is drained and goes when it is idle.
 */
#ifndef SIM_SCALER_H
#define SIM_SCALER_H

#include "sched/autoscale.h"
#include "sched/sched.h"

typedef struct {
    autoscale_t autoscale;
    uint32_t gpus, most; /* ids 0 .. gpus - 1 are on, those from there on may still drain */
} scaler_t;

void scaler_init(scaler_t *scaler, const autoscale_params_t *params, uint32_t gpus, uint32_t most);

/* What the core has counted so far. */
autoscale_sums_t scaler_sums(const sched_t *sched, uint32_t models);

/* Call every second. up: per GPU, whether it is in the core. Returns the advice that was followed. */
int32_t scaler_follow(scaler_t *scaler, sched_t *sched, int64_t now_ns, const autoscale_sums_t *sums,
                      bool *up);

#endif
