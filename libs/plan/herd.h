/*
 * Serving groups (Shepherd §4, HERD): which models share which group of GPUs, and how large each group is, so
 * that the least burst tolerance is largest. A model that needs n GPUs for its average load tolerates size/n
 * times that load in a group of `size` GPUs.
 *
 *   maximize  min_i size_{group(i)} / n_i
 *   subject to  Σ_j size_j <= N (cluster), size_j <= G (group-worker limit), Σ memory of a group's models <= memory of a
 *               GPU, every model in exactly one group, all models of a group from one affinity set (K <= K_max)
 *
 * Streams of one model are added up beforehand (herd_add_streams). herd_search is our own: with the models in
 * order of falling n, a group's least tolerance is settled by the model that opens it, so a branch and bound
 * over the openings is short, and first fit is its first leaf.
 *
 * Planning runs every few minutes, off the hot path: it allocates, and reads the clock for its time limit. Any thread.
 */
#ifndef PLAN_HERD_H
#define PLAN_HERD_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { HERD_MODELS_MAX = 65536, HERD_GROUPS_MAX = 1024, HERD_GPUS_MAX = 1 << 16 };

typedef struct {
    double rate;    /* requests/s of all its streams */
    double goodput; /* T, requests/s that one GPU carries within the SLO; > 0 */
    double bytes;
    double alpha, beta; /* of its latency, for the affinity; the same unit in all models */
} herd_model_t;

typedef struct {
    const herd_model_t *models;
    uint32_t model_count;
    uint32_t gpu_count;      /* N */
    uint32_t group_count;    /* groups that may be used */
    uint32_t group_gpus_max; /* the group-worker limit; 0: none */
    double memory_bytes;     /* of a GPU, less what running needs; 0: no bound */
    double affinity_max;     /* K between two models of a group; INFINITY: any */
    double seconds;          /* time limit of a solve */
} herd_problem_t;

typedef struct {
    uint32_t *group; /* of each model; owned, as is size */
    uint32_t *size;  /* GPUs of each group, group_count of them; 0: not used */
    double tolerance;
    double bound;     /* no plan has a larger tolerance */
    double load_most; /* largest average load of a group, Σ n / size: above 1 it cannot carry it */
    uint32_t groups;  /* used */
    uint32_t sets;    /* affinity sets */
    bool optimal;     /* proved */
} herd_plan_t;

/* A request stream: many of one model. */
typedef struct {
    uint32_t model;
    float rate;
} herd_stream_t;

/* Sets the models' rates to the sums of their streams. INVALID_ARGUMENT names a stream without a model or rate. */
status_t herd_add_streams(herd_model_t *models, uint32_t model_count, const herd_stream_t *streams,
                          uint32_t count, err_t *err);

/* The larger of A(a, b) and A(b, a) (Shepherd eq. 4): 1 for models alike. */
double herd_affinity(const herd_model_t *a, const herd_model_t *b);

/* Partitions the models into sets with K <= affinity_max inside each; set[i] of each model. Returns their number. */
uint32_t herd_affinity_sets(const herd_problem_t *problem, uint32_t *set);

/* INVALID_ARGUMENT names the model or the bound that makes no sense; NOT_FOUND: a model larger than a GPU's memory. */
status_t herd_check(const herd_problem_t *problem, err_t *err);

/* NOT_FOUND: no plan within the bounds was found (the text says which bound stands in the way). */
status_t herd_search(const herd_problem_t *problem, herd_plan_t *plan, err_t *err);

/* Fills sizes and measures of a plan from its `group`; false: it breaks a bound. Models move between groups where that
 * evens out the average load and costs no tolerance when `spread`. */
bool herd_evaluate(const herd_problem_t *problem, const uint32_t *set, bool spread, herd_plan_t *plan);

void herd_plan_dispose(herd_plan_t *plan);

#endif
