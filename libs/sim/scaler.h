/*
 * A cluster operator who follows the advice of sched/autoscale.h: what is missing is ordered and there after
 * a delay, the lowest GPUs that are off first; the highest that are on are drained, and go when they are
 * idle.
 *
 * What is on its way counts: only what is advised beyond that is ordered, and nothing is released before it has come.
 */
#ifndef SIM_SCALER_H
#define SIM_SCALER_H

#include "sched/autoscale.h"
#include "sched/sched.h"

enum {
    SCALER_ORDERS_MAX = 64
}; /* under way at a time: a few per window of the advice, however long they take */

typedef struct {
    int64_t due_ns;
    uint32_t count;
} scaler_order_t;

typedef struct {
    autoscale_t autoscale;
    uint32_t gpus, most; /* ids 0 .. gpus - 1 are on, those from there on may still drain */
    int64_t delay_ns;
    scaler_order_t orders[SCALER_ORDERS_MAX]; /* the oldest first */
    uint32_t order_count, ordered;            /* ordered: GPUs of all orders */
    uint64_t busy_seen_ns, needed_ns;         /* of all that GPUs did, and of it what the load needed */
} scaler_t;

void scaler_init(scaler_t *scaler, const autoscale_params_t *params, uint32_t gpus, uint32_t most,
                 int64_t delay_ns);

/* What the core has counted so far. */
autoscale_sums_t scaler_sums(const sched_t *sched, uint32_t models);

/* Call every second. up: per GPU, whether it is in the core. Returns the advice. */
int32_t scaler_follow(scaler_t *scaler, sched_t *sched, int64_t now_ns, const autoscale_sums_t *sums,
                      bool *up);

#endif
