/*
 * How much of what is idle may be spent on answering early: how many GPUs may be busy so that everybody can still wait for one.
 * The rules, one by one: docs/policies/fermata.md, "How much room there is". For the slow loop of the policy `fermata`; pure.
 */
#ifndef SCHED_ROOM_H
#define SCHED_ROOM_H

#include "sched/fluid.h"

typedef struct {
    /* A request may be so likely to find no GPU in time, times the part of the GPUs that is left while all are held. */
    double chance;
    /* Of arrivals: variance of what comes in an interval over its mean, 1: at random. */
    double dispersion;
    /* GPUs that are wanted beyond the rates in the worst moments, 0: there are no bursts. */
    double worst;
} room_t;

/* Holding batches saves little that counts while a smaller part of the GPUs than this is busy. */
#define ROOM_FREE_USE 0.1

/* How far one model is alone with its own batches, which are in step: 0 where two alike contend, or more. contending: see fluid_state_t. */
double room_alone(double contending);

/* How far a burst suffers from what was started early before it, 0 to 1. slack: the shortest, ms. */
double room_blocked(const fluid_models_t *models, double slack);

/* What else starts early, before its time, while GPUs enough are free, and leaves some to those whose time has come. */
typedef struct {
    uint32_t idle; /* GPUs that must be free, with the one that it takes; 0: nothing does */
    double early;  /* so much of the slacks */
    double use;    /* GPUs that are busy then, in the mean */
    bool strictly; /* what is large enough to start at once does not take the others either */
} room_reserve_t;

/*
 * Who starts early on all GPUs but a few is in nobody's way who finds those few: what the others cannot take in time comes to them at
 * its time. `early`: as all start on any GPU. That is trunk reservation. Not in bursts, which want more than a few at once.
 */
room_reserve_t room_reserve(const room_t *room, const fluid_models_t *models, uint32_t gpus,
                            const fluid_state_t *held, double early);

/*
 * How far requests that come in a bunch are to be kept together, 0 to 1, when all start so `early`. One that is split takes a GPU for each
 * of them, and where a batch of one takes longer than another model can wait none of those ends in time for what comes next. That costs
 * nothing as long as there are GPUs enough for all of them; where not all start at once there are not.
 */
double room_keep_together(const room_t *room, const fluid_models_t *models, uint32_t gpus,
                          const fluid_state_t *held, double early);

/*
 * GPUs that may be busy, at least `needed`, when they are `held->use` while all batches are held (early = 0). Sets at_once of those models
 * that may start at once however long the others are held, and clears it of the others.
 */
double room_spend(const room_t *room, const fluid_models_t *models, uint32_t gpus, const fluid_state_t *held,
                  double needed);

#endif
