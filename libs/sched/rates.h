/*
 * What a slow loop measures of one model: its rate, its budgets, what it lost. Exponentially weighted, and
 * right from the first moment on (the weights are counted too). Embedded in a policy's model_state; zero it
 * to start.
 */
#ifndef SCHED_RATES_H
#define SCHED_RATES_H

#include "sched/shard.h"

typedef struct {
    double arrivals, time_ms;          /* decaying with the rate's time constant */
    double requests, dropped, expired; /* decaying with the losses' time constant, as are */
    double spells, followers;          /* see shard_counts_t */
    double budget_ms; /* mean of what the requests had left when they came; 0: none came yet */
    uint64_t submitted_seen, dropped_seen, expired_seen;
    uint64_t spells_seen, followers_seen;
    uint64_t budget_seen_ns;
    double granted, batches, complete; /* decaying with the rate's time constant */
    uint64_t granted_seen, batches_seen, complete_seen;
    double silence_ns, silence_expected_ns; /* decaying with the rate's time constant */
    double silence_seen_ns, silence_expected_seen_ns;
    double last, before_last;          /* arrivals in the last interval and in the one before it, */
    double last_ms, before_last_ms;    /* and how long they were; 0: there was none */
    double last_dropped;               /* in the last interval */
    double last_batches, last_work_ns; /* granted in it, and the GPU time that they take */
    uint64_t work_seen_ns;
    bool started;
} rates_t;

/* Takes in what happened in the last dt_ms. */
void rates_update(rates_t *rates, const shard_t *shard, double dt_ms, double rate_tau_ms, double loss_tau_ms);

/* How much longer than by chance nothing came before batches were granted: 1 for random arrivals, about n
 * for n clients that wait for their answers. */
static inline double rates_silence(const rates_t *rates)
{
    return rates->silence_expected_ns > 0 && rates->silence_ns > rates->silence_expected_ns
               ? rates->silence_ns / rates->silence_expected_ns
               : 1;
}

static inline double rates_per_ms(const rates_t *rates)
{
    return rates->time_ms > 0 ? rates->arrivals / rates->time_ms : 0;
}

#endif
