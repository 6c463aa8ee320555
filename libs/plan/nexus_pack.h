/*
 * Nexus' plan for a cluster: squishy bin packing (sched/squishy.h, which the policy `nexus` runs too), as a
 * table of nodes. A node is one GPU, or several alike that serve one model alone: which models run on it, in
 * what batches, and how long the round through all of them is (the duty cycle). The first nodes are shared,
 * those of one model alone follow.
 *
 * Allocates; any thread.
 */
#ifndef PLAN_NEXUS_PACK_H
#define PLAN_NEXUS_PACK_H

#include "profile/profile.h"

enum { NEXUS_MODELS_MAX = 65536, NEXUS_GPUS_MAX = 65536 };

typedef struct {
    const profile_t *profile;
    double rate;        /* requests/s */
    int64_t slo_ns;     /* > 0 */
    uint32_t max_batch; /* 0: the profile's */
} nexus_model_t;

/* One model on one node. */
typedef struct {
    uint32_t node, model, batch;
    double rate; /* requests/s, on each GPU of the node */
} nexus_place_t;

typedef struct {
    uint32_t gpus; /* that do the same */
    double duty_ms, occupancy;
} nexus_node_t;

typedef struct {
    nexus_place_t *places; /* by node; owned, as is nodes */
    uint32_t place_count;
    nexus_node_t *nodes;
    uint32_t node_count;
    uint32_t gpus; /* needed */
} nexus_plan_t;

/* INVALID_ARGUMENT names the model whose rate or SLO makes no sense; NOT_FOUND: its SLO is too short for
 * twice a batch of one, or more than gpus_max GPUs are needed. Models of rate 0 are on no node. */
status_t nexus_pack(const nexus_model_t *models, uint32_t model_count, uint32_t gpus_max, nexus_plan_t *plan,
                    err_t *err);
void nexus_plan_dispose(nexus_plan_t *plan);

#endif
