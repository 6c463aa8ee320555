/*
 * Other ways to plan, to compare the planners with: slow, or no better than chance.
 */
#ifndef TESTS_PLAN_ORACLES_H
#define TESTS_PLAN_ORACLES_H

#include "plan/herd.h"
#include "plan/partition.h"

/* CBC on the linearised ILP. UNAVAILABLE: nothing found within the time; NOT_FOUND: proved that there is no plan. */
status_t herd_ilp(const herd_problem_t *problem, herd_plan_t *plan, err_t *err);

/* The baseline of Appendix A.2: random partitions until the time is over, the best that keeps all bounds. */
status_t partition_random(const partition_problem_t *problem, partition_t *plan, err_t *err);

#endif
