/*
 * How large the groups become when it is known which models share them. Private to libs/plan.
 */
#ifndef PLAN_HERD_SIZES_H
#define PLAN_HERD_SIZES_H

#include "plan/herd.h"

static inline double herd_need(const herd_model_t *model)
{
    return model->rate / model->goodput;
}

static inline uint32_t herd_cap(const herd_problem_t *problem)
{
    return problem->group_gpus_max ? problem->group_gpus_max : problem->gpu_count;
}

/* need[j]: the largest n of a group's models. Gives GPUs so that the least size/need is largest, to nobody more than
 * that takes; returns it. O(count²) at most. INFINITY when no group needs any. */
double herd_apportion(const herd_problem_t *problem, const double *need, uint32_t count, uint32_t *size);

#endif
