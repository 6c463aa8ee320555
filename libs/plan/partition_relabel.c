#include "plan/partition.h"

#include <stdlib.h>

enum {
    RELABEL_CLUSTERS_MAX = 256
}; /* 512 KB of sums; more sub-clusters than that are of no use to relabel pairwise */

/* stays[k · l + j]: cost of moving that is saved when those that the plan has on k are on j. */
static void sum_stays(const partition_problem_t *problem, const partition_t *plan, double *stays)
{
    for (uint32_t i = 0; i < problem->model_count; i++)
        if (problem->current[i] != PARTITION_NOWHERE)
            stays[plan->cluster[i] * problem->cluster_count + problem->current[i]] +=
                problem->models[i].move_cost;
}

static bool alike(const partition_problem_t *problem, uint32_t a, uint32_t b)
{
    return !problem->shares || problem->shares[a] == problem->shares[b];
}

/* Exchanges names as long as an exchange saves something; each saves more than nothing of a sum that is bounded. */
static void exchange_names(const partition_problem_t *problem, const double *stays, uint32_t *name)
{
    const uint32_t l = problem->cluster_count;
    for (bool again = true; again;) {
        again = false;
        for (uint32_t a = 0; a < l; a++) {
            for (uint32_t b = a + 1; b < l; b++) {
                double now = stays[a * l + name[a]] + stays[b * l + name[b]];
                double then = stays[a * l + name[b]] + stays[b * l + name[a]];
                if (!alike(problem, name[a], name[b]) || then <= now * (1 + 1e-9))
                    continue;
                uint32_t kept = name[a];
                name[a] = name[b];
                name[b] = kept;
                again = true;
            }
        }
    }
}

void partition_relabel(const partition_problem_t *problem, partition_t *plan)
{
    const uint32_t l = problem->cluster_count;
    if (!problem->current || l < 2 || l > RELABEL_CLUSTERS_MAX)
        return;
    double *stays = calloc((size_t)l * l, sizeof *stays);
    uint32_t *name = malloc(l * sizeof *name);
    double bound = plan->bound;
    if (stays && name) {
        for (uint32_t j = 0; j < l; j++)
            name[j] = j;
        sum_stays(problem, plan, stays);
        exchange_names(problem, stays, name);
        for (uint32_t i = 0; i < problem->model_count; i++)
            plan->cluster[i] = name[plan->cluster[i]];
        (void)partition_evaluate(problem, plan);
        plan->bound = bound;
    }
    free(stays);
    free(name);
}
