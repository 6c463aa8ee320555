/*
 * What the files of the policy `fermata` share: what it knows, which the slow loop measures (fermata_measure.c), what it plans from that
 * (fermata_plan.c), and how the plan reaches the shards (policy_fermata.c). Nobody else includes this.
 */
#ifndef SCHED_FERMATA_H
#define SCHED_FERMATA_H

#include "sched/busy.h"
#include "sched/dispersion.h"
#include "sched/fluid.h"
#include "sched/policy.h"
#include "sched/rates.h"
#include "sched/room.h"
#include "sched/steady.h"
#include "sched/swing.h"
#include "sched/trial.h"

typedef struct {
    /* parameters */
    double rate_tau_ms, loss_tau_ms;
    double kappa, fairness, urgency, efficiency;
    double starve_limit, starve_gain, starve_most, busy_limit;
    double overload, reach, silence_limit;
    double spare, room;
    double scarce;
    double preempt;
    /* state */
    busy_t busy;
    double busy_ms, busy_weight; /* decaying sums: GPUs' time taken, and the time itself */
    double scarcity;             /* of GPU time: part of the planned batches that heads are given up for */
    /* Part of the idle capacity that starvation has claimed. Below 0: of what is spent on chance's account and on leads so much
     * is left idle, for those that starting early hurts. */
    double starve;
    bool helped_early;    /* whether starting earlier helps whoever starves */
    bool alone;           /* one model has nearly all of the use */
    double early;         /* part of the slacks by which all start early */
    double load;          /* GPUs that it takes at the least to serve all, over those that there are */
    double hurt_ms;       /* starting still earlier hurts models of less slack than this */
    dispersion_t scatter; /* of all arrivals */
    swing_t swing;
    trial_t trial;      /* whether to start at once all the same, or to hold, where bunches come */
    bool holds, starts; /* what is planned: some are held, or their bunches kept together; some start early */
    double at_once_use; /* GPUs that are busy if each runs alone; INFINITY: all must be held */
    int64_t begun_ns, last_ns;
    bool begun;
} fermata_t;

typedef struct {
    fluid_model_t fluid; /* first: see fluid_models_t */
    double refuse;
    rates_t rates;
    steady_t steady; /* of its arrivals */
    trial_model_t trial;
    double beyond; /* decaying sum: of its half seconds in a row those that differ as clients cannot */
} fermata_model_t;

/* Values of parameters that are words. */
enum { OVERLOAD_FAIR, OVERLOAD_TOTAL };
enum { SPARE_LATENCY, SPARE_RELEASE };

/* ---- Measured ---- */

typedef struct {
    double bad; /* pooled bad rate */
    /* Highest part of a model's requests that starved: of models that starting early hurts, and of the others. */
    double worst_hurt, worst_other;
} fermata_losses_t;

/* At each look, `dt_ms` after the last one: all that is known of the models, and of them together. */
fermata_losses_t fermata_measure(policy_t *policy, double dt_ms);
/* Then: the part of the GPUs' time that was taken lately, 1 before anything is known. */
double fermata_measure_busy(policy_t *policy, int64_t from_ns, int64_t now_ns);

/* How far into an overload, 0 to 1 at so much beyond what the GPUs can do. */
double fermata_overloaded(const fermata_t *state, double most);
/* How even arrivals are, from 0 (at random, or in bursts) to 1. */
double fermata_evenness(const fermata_t *state);
/* Whether they come more evenly than at random over some time: clients that wait and think do, also in bunches. */
bool fermata_scatters_less(const fermata_t *state, const fermata_model_t *model);

/* ---- Planned ---- */

typedef struct {
    double early;  /* part of each model's slack that it starts before frontrun */
    double price;  /* 0: no batch is large enough to start before its time */
    double needed; /* of the GPU time that this takes, what would be taken if no GPU were spent on latency */
    double contending;  /* models, by their use; see fluid_state_t */
    double together;    /* how far bunches are kept together, 0 to 1 */
    uint32_t max_batch; /* see shard_plan_t */
    uint32_t spread;    /* GPUs over which requests of clients that wait are spread; 0: of none */
    bool bursts;        /* the rest of a burst wants the GPUs that are idle */
    room_reserve_t reserve;
} fermata_plan_t;

/* How early all start from now on, and what else the idle GPUs are for. Sets what of the models and of the state is planned. */
fermata_plan_t fermata_plan(fermata_t *state, const fluid_models_t *models, uint32_t gpus);
/* Before it, `dt_ms` after the last time: which way all start (trial.h). */
void fermata_try_other_ways(fermata_t *state, const fluid_models_t *models, uint32_t gpus, double dt_ms);

#endif
