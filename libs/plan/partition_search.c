/*
 * Greedy start, then local search over moves and swaps, restarted by small shakes until the time is over.
 *
 * The search descends on the sum of squared relative deviations, which says of every sub-cluster how to get
 * better, and keeps the plan with the best real objective (largest deviation). A plan within GOOD_ENOUGH of
 * perfect ends it early: an epoch is minutes long, and its rates are estimates.
 */
#include "base/clock.h"
#include "base/prng.h"
#include "plan/partition_load.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GOOD_ENOUGH 1e-4
#define LEAST_GAIN 1e-15

enum {
    TRIES_PER_CHECK = 512,  /* between two looks at the clock */
    STALE_TRIES_FACTOR = 64 /* tries per model without a gain: the local optimum is reached */
};

typedef struct {
    partition_load_t load;
    prng_t prng;
    int64_t end_ns;
    partition_t best;
} search_t;

static double model_size(const partition_load_t *load, uint32_t i)
{
    const partition_model_t *model = &load->problem->models[i];
    return fmax(model->rate / load->rate_mean, model->static_bytes / load->static_mean);
}

typedef struct {
    double size;
    uint32_t model;
} sized_t;

static int larger_first(const void *a, const void *b)
{
    const sized_t *x = a, *y = b;
    if (x->size != y->size)
        return x->size < y->size ? 1 : -1;
    return x->model < y->model ? -1 : 1;
}

/* The sub-cluster on which the model adds least energy, among those where it fits and the cost allows. */
static uint32_t best_place(const partition_load_t *load, uint32_t i)
{
    const partition_problem_t *problem = load->problem;
    const partition_model_t *model = &problem->models[i];
    uint32_t best = PARTITION_NOWHERE;
    double least = INFINITY;
    for (uint32_t j = 0; j < problem->cluster_count; j++) {
        const cluster_load_t *at = &load->load[j];
        double added =
            partition_load_energy(load, j, at->rate + model->rate, at->static_bytes + model->static_bytes) -
            partition_load_energy(load, j, at->rate, at->static_bytes);
        if (added >= least || load->cost + partition_move_cost(problem, i, j) > problem->cost_max)
            continue;
        if (!partition_load_fits(load, j, i, PARTITION_NOWHERE))
            continue;
        least = added;
        best = j;
    }
    return best;
}

/* What is loaded stays where it is; the rest, largest first, goes where it hurts least. */
static status_t greedy(search_t *search, err_t *err)
{
    partition_load_t *load = &search->load;
    const partition_problem_t *problem = load->problem;
    sized_t *order = malloc(problem->model_count * sizeof *order);
    if (!order)
        return err_set(err, STATUS_NO_MEMORY, "no memory to plan %u models", problem->model_count);
    status_t status = STATUS_OK;
    uint32_t count = 0;
    for (uint32_t i = 0; i < problem->model_count && status == STATUS_OK; i++) {
        uint32_t now = problem->current ? problem->current[i] : PARTITION_NOWHERE;
        if (now != PARTITION_NOWHERE && partition_load_fits(load, now, i, PARTITION_NOWHERE))
            status = partition_load_put(load, i, now);
        else
            order[count++] = (sized_t){model_size(load, i), i};
    }
    qsort(order, count, sizeof *order, larger_first);
    for (uint32_t k = 0; k < count && status == STATUS_OK; k++) {
        uint32_t j = best_place(load, order[k].model);
        if (j == PARTITION_NOWHERE)
            status =
                err_set(err, STATUS_NOT_FOUND, "model %u: no sub-cluster has room for it", order[k].model);
        else
            status = partition_load_put(load, order[k].model, j);
    }
    free(order);
    return status;
}

static double pair_energy(const partition_load_t *load, uint32_t a, uint32_t b, double rate, double bytes)
{
    const cluster_load_t *x = &load->load[a], *y = &load->load[b];
    return partition_load_energy(load, a, x->rate + rate, x->static_bytes + bytes) +
           partition_load_energy(load, b, y->rate - rate, y->static_bytes - bytes);
}

/* Moves i to sub-cluster j, and k (or nothing) back; only when all bounds hold after it. */
static bool exchange(partition_load_t *load, uint32_t i, uint32_t j, uint32_t k)
{
    const partition_problem_t *problem = load->problem;
    uint32_t from = load->cluster[i];
    double cost = load->cost - partition_move_cost(problem, i, from) + partition_move_cost(problem, i, j);
    if (k != PARTITION_NOWHERE)
        cost += partition_move_cost(problem, k, from) - partition_move_cost(problem, k, j);
    if (cost > problem->cost_max || !partition_load_fits(load, j, i, k) ||
        !partition_load_fits(load, from, k, i))
        return false;
    partition_load_take(load, i);
    if (k != PARTITION_NOWHERE)
        partition_load_take(load, k);
    bool put =
        partition_load_put(load, i, j) == STATUS_OK; /* cannot fail but for memory: one went, one comes */
    return put && (k == PARTITION_NOWHERE || partition_load_put(load, k, from) == STATUS_OK);
}

/* One random move or swap, taken when it lowers the energy. */
static bool try_one(search_t *search)
{
    partition_load_t *load = &search->load;
    const partition_problem_t *problem = load->problem;
    uint32_t i = (uint32_t)prng_below(&search->prng, problem->model_count);
    uint32_t from = load->cluster[i];
    uint32_t k = PARTITION_NOWHERE, j;
    if (prng_below(&search->prng, 4) == 0) {
        j = (uint32_t)prng_below(&search->prng, problem->cluster_count);
    } else {
        k = (uint32_t)prng_below(&search->prng, problem->model_count);
        j = load->cluster[k];
    }
    if (j == from)
        return false;
    const partition_model_t *out = &problem->models[i];
    double rate = -out->rate, bytes = -out->static_bytes;
    if (k != PARTITION_NOWHERE) {
        rate += problem->models[k].rate;
        bytes += problem->models[k].static_bytes;
    }
    double gain = pair_energy(load, from, j, 0, 0) - pair_energy(load, from, j, rate, bytes);
    return gain > LEAST_GAIN && exchange(load, i, j, k);
}

static void descend(search_t *search)
{
    uint64_t stale = 0, patience = (uint64_t)search->load.problem->model_count * STALE_TRIES_FACTOR;
    for (uint64_t tries = 1; stale < patience; tries++) {
        stale = try_one(search) ? 0 : stale + 1;
        if (tries % TRIES_PER_CHECK == 0 &&
            (clock_now_ns() >= search->end_ns || partition_is_stopped(search->load.problem)))
            return;
    }
}

static void shake(search_t *search)
{
    partition_load_t *load = &search->load;
    const partition_problem_t *problem = load->problem;
    uint32_t count = 2 + (uint32_t)prng_below(&search->prng, 1 + problem->model_count / 32);
    for (uint32_t n = 0; n < count; n++) {
        uint32_t i = (uint32_t)prng_below(&search->prng, problem->model_count);
        uint32_t j = (uint32_t)prng_below(&search->prng, problem->cluster_count);
        if (j != load->cluster[i])
            exchange(load, i, j, PARTITION_NOWHERE);
    }
}

static void keep_if_better(search_t *search)
{
    const partition_problem_t *problem = search->load.problem;
    partition_t now = {.cluster = search->load.cluster};
    if (!partition_evaluate(problem, &now) || now.objective >= search->best.objective)
        return;
    now.cluster = search->best.cluster;
    memcpy(now.cluster, search->load.cluster, problem->model_count * sizeof *now.cluster);
    search->best = now;
}

static void restore_best(search_t *search)
{
    partition_load_t *load = &search->load;
    for (uint32_t i = 0; i < load->problem->model_count; i++) {
        if (load->cluster[i] == search->best.cluster[i])
            continue;
        partition_load_take(load, i);
        partition_load_put(load, i, search->best.cluster[i]); /* has room: it was there before */
    }
}

/* The plan that runs, when it is complete and valid: nothing worse is ever returned. */
static void start_from_current(search_t *search)
{
    const partition_problem_t *problem = search->load.problem;
    if (!problem->current)
        return;
    partition_t now = search->best;
    memcpy(now.cluster, problem->current, problem->model_count * sizeof *now.cluster);
    if (partition_evaluate(problem, &now)) {
        now.kept = true;
        search->best = now;
    }
}

static status_t run(search_t *search, err_t *err)
{
    status_t status = greedy(search, err);
    if (status != STATUS_OK)
        return search->best.kept ? STATUS_OK : status;
    keep_if_better(search);
    while (search->best.objective > GOOD_ENOUGH && search->load.problem->cluster_count > 1) {
        descend(search);
        keep_if_better(search);
        if (clock_now_ns() >= search->end_ns || partition_is_stopped(search->load.problem))
            break;
        if (!isinf(search->best.objective))
            restore_best(search);
        shake(search);
    }
    if (isinf(search->best.objective))
        return err_set(err, STATUS_NOT_FOUND, "no plan within the bounds was found");
    return STATUS_OK;
}

status_t partition_search(const partition_problem_t *problem, partition_t *plan, err_t *err)
{
    status_t status = partition_check(problem, err);
    if (status != STATUS_OK)
        return status;
    search_t search = {.best = {.objective = INFINITY}};
    status = partition_load_init(&search.load, problem, err);
    if (status != STATUS_OK)
        return status;
    search.best.cluster = malloc(problem->model_count * sizeof *search.best.cluster);
    if (!search.best.cluster) {
        status = err_set(err, STATUS_NO_MEMORY, "no memory to plan %u models", problem->model_count);
    } else {
        prng_init(&search.prng, problem->seed);
        search.end_ns = clock_now_ns() + (int64_t)(problem->seconds * 1e9);
        start_from_current(&search);
        status = run(&search, err);
    }
    partition_load_dispose(&search.load);
    if (status == STATUS_OK)
        partition_relabel(problem, &search.best);
    if (status == STATUS_OK)
        *plan = search.best;
    else
        partition_dispose(&search.best);
    return status;
}
