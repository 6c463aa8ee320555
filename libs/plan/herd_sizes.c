#include "plan/herd_sizes.h"

#include <math.h>

/* The group with the least tolerance; count if none needs anything. */
static uint32_t least(const double *need, const uint32_t *size, uint32_t count, double *tolerance)
{
    uint32_t at = count;
    *tolerance = INFINITY;
    for (uint32_t j = 0; j < count; j++) {
        if (need[j] > 0 && size[j] / need[j] < *tolerance) {
            *tolerance = size[j] / need[j];
            at = j;
        }
    }
    return at;
}

/*
 * Giving one GPU after the other to the group that tolerates least is optimal. The first ones need not be
 * given singly: a tolerance of (N - count) / Σ need is reached in any case, so every group gets floor(that ·
 * need) of them.
 */
double herd_apportion(const herd_problem_t *problem, const double *need, uint32_t count, uint32_t *size)
{
    double sum = 0, most = 0, tolerance;
    uint32_t given = 0, cap = herd_cap(problem);
    for (uint32_t j = 0; j < count; j++) {
        sum += need[j];
        most = fmax(most, need[j]);
    }
    double sure = sum > 0 && problem->gpu_count > count ? (problem->gpu_count - count) / sum : 0;
    if (most > 0)
        sure = fmin(sure, cap / most);
    for (uint32_t j = 0; j < count; j++) {
        size[j] = (uint32_t)(sure * need[j] * (1 - 1e-12));
        given += size[j];
    }
    for (;;) {
        uint32_t j = least(need, size, count, &tolerance);
        if (j == count || given == problem->gpu_count || size[j] == cap)
            return tolerance;
        size[j]++;
        given++;
    }
}
