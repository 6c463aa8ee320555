/*
 * Eq. 3-10 as they stand, on CBC. Columns: x_ij (i·l + j), then ΔR and ΔS (relative to their means, so that the
 * numbers are near 1), then the largest dynamic memory of each sub-cluster. The change indicator y_ij of eq. 10
 * needs no column: with x' known, |x - x'| is x where x' = 0 and 1 - x where x' = 1.
 */
#include "plan/partition_load.h"

#include <coin/Cbc_C_Interface.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    const partition_problem_t *problem;
    partition_load_t scale; /* only its means */
    Cbc_Model *cbc;
    int *column;
    double *value;
    int delta_rate, delta_static, first_dynamic;
} milp_t;

static int cell(const milp_t *milp, uint32_t i, uint32_t j)
{
    return (int)(i * milp->problem->cluster_count + j);
}

static void add_columns(milp_t *milp)
{
    const partition_problem_t *problem = milp->problem;
    int cells = (int)(problem->model_count * problem->cluster_count);
    for (int c = 0; c < cells; c++)
        Cbc_addCol(milp->cbc, "", 0, 1, 0, 1, 0, NULL, NULL);
    milp->delta_rate = cells;
    milp->delta_static = cells + 1;
    milp->first_dynamic = cells + 2;
    Cbc_addCol(milp->cbc, "", 0, INFINITY, 1, 0, 0, NULL, NULL);
    Cbc_addCol(milp->cbc, "", 0, INFINITY, problem->memory_weight, 0, 0, NULL, NULL);
    for (uint32_t j = 0; j < problem->cluster_count; j++)
        Cbc_addCol(milp->cbc, "", 0, INFINITY, 0, 0, 0, NULL, NULL);
}

/* Σ_i size_i x_ij / what is due there, into column/value; returns how many there are. */
static int weigh(milp_t *milp, uint32_t j, bool rate)
{
    const partition_problem_t *problem = milp->problem;
    double due = partition_load_due(&milp->scale, j);
    for (uint32_t i = 0; i < problem->model_count; i++) {
        milp->column[i] = cell(milp, i, j);
        milp->value[i] =
            rate ? problem->models[i].rate / due : problem->models[i].static_bytes / milp->scale.static_mean;
    }
    return (int)problem->model_count;
}

static void add_spread(milp_t *milp, uint32_t j, bool rate) /* eq. 6, 7 */
{
    int n = weigh(milp, j, rate);
    milp->column[n] = rate ? milp->delta_rate : milp->delta_static;
    milp->value[n] = -1;
    Cbc_addRow(milp->cbc, "", n + 1, milp->column, milp->value, 'L', 1);
    milp->value[n] = 1;
    Cbc_addRow(milp->cbc, "", n + 1, milp->column, milp->value, 'G', 1);
}

static void add_bounds(milp_t *milp, uint32_t j) /* eq. 4, 5 */
{
    const partition_problem_t *problem = milp->problem;
    if (problem->rate_max > 0) {
        int n = weigh(milp, j, true);
        Cbc_addRow(milp->cbc, "", n, milp->column, milp->value, 'L',
                   problem->rate_max / partition_load_due(&milp->scale, j));
    }
    if (problem->memory_max <= 0)
        return;
    int n = weigh(milp, j, false);
    milp->column[n] = milp->first_dynamic + (int)j;
    milp->value[n] = 1;
    Cbc_addRow(milp->cbc, "", n + 1, milp->column, milp->value, 'L',
               problem->memory_max / milp->scale.static_mean);
    for (uint32_t i = 0; i < problem->model_count; i++) {
        int columns[] = {cell(milp, i, j), milp->first_dynamic + (int)j};
        double values[] = {problem->models[i].dynamic_bytes / milp->scale.static_mean, -1};
        Cbc_addRow(milp->cbc, "", 2, columns, values, 'L', 0);
    }
}

static void add_assignment(milp_t *milp) /* eq. 8 */
{
    const partition_problem_t *problem = milp->problem;
    for (uint32_t i = 0; i < problem->model_count; i++) {
        for (uint32_t j = 0; j < problem->cluster_count; j++) {
            milp->column[j] = cell(milp, i, j);
            milp->value[j] = 1;
        }
        Cbc_addRow(milp->cbc, "", (int)problem->cluster_count, milp->column, milp->value, 'E', 1);
    }
}

static void
add_disruption(milp_t *milp) /* eq. 10: a model that stays has x = 1 in its place and costs nothing */
{
    const partition_problem_t *problem = milp->problem;
    if (!problem->current || isinf(problem->cost_max))
        return;
    double constant = 0;
    int n = 0;
    for (uint32_t i = 0; i < problem->model_count; i++) {
        if (problem->current[i] == PARTITION_NOWHERE)
            continue;
        double cost = 2 * problem->models[i].move_cost;
        milp->column[n] = cell(milp, i, problem->current[i]);
        milp->value[n++] = -cost;
        constant += cost;
    }
    Cbc_addRow(milp->cbc, "", n, milp->column, milp->value, 'L', problem->cost_max - constant);
}

static void give_start(milp_t *milp, const partition_t *start)
{
    const partition_problem_t *problem = milp->problem;
    for (uint32_t i = 0; i < problem->model_count; i++) {
        milp->column[i] = cell(milp, i, start->cluster[i]);
        milp->value[i] = 1;
    }
    Cbc_setMIPStartI(milp->cbc, (int)problem->model_count, milp->column, milp->value);
}

static status_t take_solution(milp_t *milp, partition_t *plan, err_t *err)
{
    const partition_problem_t *problem = milp->problem;
    if (Cbc_isProvenInfeasible(milp->cbc))
        return err_set(err, STATUS_NOT_FOUND, "no plan keeps all bounds");
    const double *x = Cbc_bestSolution(milp->cbc);
    if (!x)
        return err_set(err, STATUS_UNAVAILABLE, "no plan was found within %.1f s", problem->seconds);
    partition_t found = {.cluster = malloc(problem->model_count * sizeof *found.cluster)};
    if (!found.cluster)
        return err_set(err, STATUS_NO_MEMORY, "no memory to plan %u models", problem->model_count);
    for (uint32_t i = 0; i < problem->model_count; i++) {
        found.cluster[i] = 0;
        for (uint32_t j = 1; j < problem->cluster_count; j++) {
            if (x[cell(milp, i, j)] > x[cell(milp, i, found.cluster[i])])
                found.cluster[i] = j;
        }
    }
    if (!partition_evaluate(problem, &found)) {
        partition_dispose(&found);
        return err_set(err, STATUS_UNAVAILABLE, "the solver's plan breaks a bound by rounding");
    }
    double bound = Cbc_getBestPossibleObjValue(milp->cbc);
    found.bound = bound > 0 && bound <= found.objective ? bound : 0;
    *plan = found;
    return STATUS_OK;
}

static void solve(milp_t *milp, const partition_t *start)
{
    char seconds[32];
    snprintf(seconds, sizeof seconds, "%.3f", milp->problem->seconds);
    Cbc_setLogLevel(milp->cbc, 0);
    /* CBC 2.10 crashes in CglPreProcess::postProcess when its time ends while it preprocesses. */
    Cbc_setParameter(milp->cbc, "preprocess", "off");
    Cbc_setParameter(milp->cbc, "timeMode", "elapsed");
    Cbc_setParameter(milp->cbc, "seconds", seconds);
    add_columns(milp);
    add_assignment(milp);
    for (uint32_t j = 0; j < milp->problem->cluster_count; j++) {
        add_spread(milp, j, true);
        add_spread(milp, j, false);
        add_bounds(milp, j);
    }
    add_disruption(milp);
    if (start)
        give_start(milp, start);
    Cbc_solve(milp->cbc);
}

status_t partition_milp(const partition_problem_t *problem, const partition_t *start, partition_t *plan,
                        err_t *err)
{
    status_t status = partition_check(problem, err);
    if (status != STATUS_OK)
        return status;
    milp_t milp = {.problem = problem};
    status = partition_load_init(&milp.scale, problem, err);
    if (status != STATUS_OK)
        return status;
    size_t room = (size_t)problem->model_count + problem->cluster_count + 1;
    milp.column = malloc(room * sizeof *milp.column);
    milp.value = malloc(room * sizeof *milp.value);
    milp.cbc = Cbc_newModel();
    if (!milp.column || !milp.value || !milp.cbc) {
        status = err_set(err, STATUS_NO_MEMORY, "no memory to plan %u models", problem->model_count);
    } else {
        solve(&milp, start);
        status = take_solution(&milp, plan, err);
    }
    if (milp.cbc)
        Cbc_deleteModel(milp.cbc);
    free(milp.column);
    free(milp.value);
    partition_load_dispose(&milp.scale);
    return status;
}
