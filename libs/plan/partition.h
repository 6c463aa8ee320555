/*
 * Sub-cluster partitioning (Symphony Appendix A): which models live together on which sub-cluster, so that
 * request rate and static memory are spread evenly (eq. 3, 6, 7), no sub-cluster has more than its dispatcher
 * or its GPUs can carry (eq. 4, 5), and what is moved costs no more than C_max (eq. 10).
 *
 * Two solvers share the problem. partition_search is a greedy start and a local search over moves and swaps:
 * with hundreds of models it is within a fraction of a percent of a perfect spread in milliseconds.
 * partition_milp gives the whole MILP to CBC, started from a plan: for small problems it proves the optimum,
 * for large ones its relaxation is trivial (0) and it only rarely finds more. partition_solve uses both. All
 * give plans whose sub-clusters bear the names that move least.
 *
 * Planning runs every few minutes, off the hot path: it allocates, and reads the clock for its time limit. Any
 * thread; nothing is shared between calls (CBC holds no global state that a second call sees).
 */
#ifndef PLAN_PARTITION_H
#define PLAN_PARTITION_H

#include "base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    PARTITION_MODELS_MAX = 65536,
    PARTITION_CLUSTERS_MAX = 4096,
};
#define PARTITION_NOWHERE UINT32_MAX /* a model that is on no sub-cluster yet */

typedef struct {
    double rate;          /* r_i, requests/s */
    double static_bytes;  /* s_i, weights: there as long as the model is loaded */
    double dynamic_bytes; /* d_i, work space: only one model of a GPU runs at a time, so the largest counts */
    double move_cost;     /* c_i, for loading it once or unloading it once, in the unit of cost_max */
} partition_model_t;

typedef struct {
    const partition_model_t *models;
    uint32_t model_count;
    uint32_t cluster_count;
    /* What each sub-cluster is to have of the rate, against the others (its GPUs, say); NULL: all the same. */
    const double *shares;
    double rate_max;      /* R_max; 0: none */
    double memory_max;    /* S_max of one backend, bytes; 0: none */
    double memory_weight; /* w, with both spreads taken relative to their means; 0: memory is only bounded */
    const uint32_t
        *current;    /* sub-cluster of each model now, or PARTITION_NOWHERE; NULL: nothing is loaded */
    double cost_max; /* C_max; INFINITY: move at will. Loading what is nowhere costs nothing */
    double seconds;  /* time limit of a solve */
    uint64_t seed;   /* of the search */
    const _Atomic bool *stop; /* when it becomes true the solve ends as if its time were over; NULL: never */
} partition_problem_t;

static inline bool partition_is_stopped(const partition_problem_t *problem)
{
    return problem->stop && atomic_load_explicit(problem->stop, memory_order_relaxed);
}

typedef struct {
    uint32_t *cluster; /* model_count of them; owned, free with partition_dispose */
    double objective;  /* ΔR / R̄ + w · ΔS / S̄ */
    /* (max - min) / mean over the sub-clusters, Appendix A.2; each against its share */
    double rate_imbalance;
    double memory_imbalance;
    double cost;    /* Σ c_ij y_ij of leaving `current` */
    double bound;   /* no plan has a smaller objective; 0 when nothing better was proved */
    uint32_t moved; /* models whose sub-cluster changed */
    bool kept;      /* it is `current`: nothing better was found */
} partition_t;

/* INVALID_ARGUMENT: a number that is negative or not finite, a share of 0, no models, no sub-clusters, or
 * `current` out of range; the text names the model. Called by the solvers. */
status_t partition_check(const partition_problem_t *problem, err_t *err);

/* NOT_FOUND: some model fits on no sub-cluster by itself (the text names it), or the search found no plan that
 * keeps all bounds. The result is never worse than `current` when that is a valid plan. */
status_t partition_search(const partition_problem_t *problem, partition_t *plan, err_t *err);

/* CBC on eq. 3-10, starting from `start` (may be NULL). UNAVAILABLE: no plan found within the time limit;
 * NOT_FOUND: proved that there is none. */
status_t partition_milp(const partition_problem_t *problem, const partition_t *start, partition_t *plan,
                        err_t *err);

/* Search first, then CBC with the time that is left where that can pay (PARTITION_MILP_CELLS_MAX). */
enum { PARTITION_MILP_CELLS_MAX = 4000 };
status_t partition_solve(const partition_problem_t *problem, partition_t *plan, err_t *err);
/* The same with another way to CBC (plan/partition_apart.h). When that fails it is the search's plan, and
 * err says why it failed. */
typedef status_t (*partition_milp_fn)(void *ctx, const partition_problem_t *problem, const partition_t *start,
                                      partition_t *plan, err_t *err);
status_t partition_solve_by(const partition_problem_t *problem, partition_milp_fn milp, void *ctx,
                            partition_t *plan, err_t *err);

/* Sub-clusters of equal share are alike to all of eq. 3-9: gives them the names under which most of what
 * is loaded stays where it is. Fills the plan's measures anew. O(models + cluster_count³), and nothing for
 * more than a few hundred sub-clusters. */
void partition_relabel(const partition_problem_t *problem, partition_t *plan);

/* Fills the measures of a plan from its `cluster`; false: it breaks a bound. */
bool partition_evaluate(const partition_problem_t *problem, partition_t *plan);

void partition_dispose(partition_t *plan);

#endif
