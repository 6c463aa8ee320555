/*
 * What each sub-cluster carries under a partial plan, kept up to date move by move. Private to libs/plan.
 */
#ifndef PLAN_PARTITION_LOAD_H
#define PLAN_PARTITION_LOAD_H

#include "plan/partition.h"

typedef struct {
    double rate, static_bytes;
    uint32_t *members; /* models, in no order */
    uint32_t count, capacity;
} cluster_load_t;

typedef struct {
    const partition_problem_t *problem;
    double rate_mean, static_mean; /* per sub-cluster; 1 where the total is 0, so that spreads are 0 */
    double share_mean;
    uint32_t *cluster; /* of each model */
    uint32_t *place;   /* of each model among its cluster's members */
    cluster_load_t *load;
    double cost;
} partition_load_t;

status_t partition_load_init(partition_load_t *load, const partition_problem_t *problem, err_t *err);
void partition_load_dispose(partition_load_t *load);

/* The model is on no sub-cluster. NO_MEMORY leaves all as it was. */
status_t partition_load_put(partition_load_t *load, uint32_t model, uint32_t cluster);
void partition_load_take(partition_load_t *load, uint32_t model);

/* Σ c_ij y_ij of having this model there rather than where it is now. */
double partition_move_cost(const partition_problem_t *problem, uint32_t model, uint32_t cluster);

/* Whether the sub-cluster keeps eq. 4 and 5 with `add` and without `without` (either may be PARTITION_NOWHERE). */
bool partition_load_fits(const partition_load_t *load, uint32_t cluster, uint32_t add, uint32_t without);

/* Squared relative deviation of one sub-cluster: what the search descends on, for it is smooth where the
 * largest deviation of eq. 6 and 7 is flat. */
double partition_load_energy(const partition_load_t *load, uint32_t cluster, double rate,
                             double static_bytes);

/* The rate that a sub-cluster has in a perfect spread. */
double partition_load_due(const partition_load_t *load, uint32_t cluster);

#endif
