/*
 * Shepherd's eq. 2 with its two products made linear, on CBC. Columns: x_ij (model i in group j), p_ij = size_j · x_ij,
 * y_cj (affinity set c has group j), size_j, and the least tolerance t.
 *
 *   p_ij <= size_j, p_ij <= G x_ij      p is the product, for it is only ever wished larger
 *   t <= Σ_j p_ij / n_i                 t is the least, for it is what is made largest
 */
#include "oracles.h"
#include "plan/herd_sizes.h"

#include <coin/Cbc_C_Interface.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    const herd_problem_t *problem;
    uint32_t *set;
    uint32_t sets;
    Cbc_Model *cbc;
    int *column;
    double *value;
} ilp_t;

static int cells(const ilp_t *ilp)
{
    return (int)(ilp->problem->model_count * ilp->problem->group_count);
}

static int x_at(const ilp_t *ilp, uint32_t i, uint32_t j)
{
    return (int)(i * ilp->problem->group_count + j);
}

static int p_at(const ilp_t *ilp, uint32_t i, uint32_t j)
{
    return cells(ilp) + x_at(ilp, i, j);
}

static int y_at(const ilp_t *ilp, uint32_t c, uint32_t j)
{
    return 2 * cells(ilp) + (int)(c * ilp->problem->group_count + j);
}

static int size_at(const ilp_t *ilp, uint32_t j)
{
    return y_at(ilp, ilp->sets, j);
}

static void add_columns(ilp_t *ilp)
{
    const herd_problem_t *problem = ilp->problem;
    double cap = herd_cap(problem);
    for (int k = 0; k < cells(ilp); k++)
        Cbc_addCol(ilp->cbc, "", 0, 1, 0, 1, 0, NULL, NULL);
    for (int k = 0; k < cells(ilp); k++)
        Cbc_addCol(ilp->cbc, "", 0, cap, 0, 0, 0, NULL, NULL);
    for (uint32_t k = 0; k < ilp->sets * problem->group_count; k++)
        Cbc_addCol(ilp->cbc, "", 0, 1, 0, 1, 0, NULL, NULL);
    for (uint32_t j = 0; j < problem->group_count; j++)
        Cbc_addCol(ilp->cbc, "", 0, cap, 0, 1, 0, NULL, NULL);
    Cbc_addCol(ilp->cbc, "", 0, INFINITY, -1, 0, 0, NULL, NULL); /* CBC minimises */
}

static void add_row(ilp_t *ilp, int n, char sense, double right)
{
    Cbc_addRow(ilp->cbc, "", n, ilp->column, ilp->value, sense, right);
}

static void put(ilp_t *ilp, int *n, int column, double value)
{
    ilp->column[*n] = column;
    ilp->value[(*n)++] = value;
}

static void add_model(ilp_t *ilp, uint32_t i)
{
    const herd_problem_t *problem = ilp->problem;
    int n = 0, t = size_at(ilp, problem->group_count);
    double need = herd_need(&problem->models[i]);
    for (uint32_t j = 0; j < problem->group_count; j++)
        put(ilp, &n, x_at(ilp, i, j), 1);
    add_row(ilp, n, 'E', 1);
    n = 0;
    put(ilp, &n, t, need);
    for (uint32_t j = 0; j < problem->group_count; j++)
        put(ilp, &n, p_at(ilp, i, j), -1);
    if (need > 0)
        add_row(ilp, n, 'L', 0);
    for (uint32_t j = 0; j < problem->group_count; j++) {
        n = 0;
        put(ilp, &n, p_at(ilp, i, j), 1);
        put(ilp, &n, size_at(ilp, j), -1);
        add_row(ilp, n, 'L', 0);
        n = 0;
        put(ilp, &n, p_at(ilp, i, j), 1);
        put(ilp, &n, x_at(ilp, i, j), -(double)herd_cap(problem));
        add_row(ilp, n, 'L', 0);
        n = 0;
        put(ilp, &n, x_at(ilp, i, j), 1);
        put(ilp, &n, y_at(ilp, ilp->set[i], j), -1);
        add_row(ilp, n, 'L', 0);
    }
}

static void add_groups(ilp_t *ilp)
{
    const herd_problem_t *problem = ilp->problem;
    int n = 0;
    for (uint32_t j = 0; j < problem->group_count; j++)
        put(ilp, &n, size_at(ilp, j), 1);
    add_row(ilp, n, 'L', problem->gpu_count);
    for (uint32_t j = 0; j < problem->group_count; j++) {
        n = 0;
        for (uint32_t c = 0; c < ilp->sets; c++)
            put(ilp, &n, y_at(ilp, c, j), 1);
        add_row(ilp, n, 'L', 1);
        n = 0;
        for (uint32_t i = 0; i < problem->model_count; i++)
            put(ilp, &n, x_at(ilp, i, j), problem->models[i].bytes / fmax(problem->memory_bytes, 1));
        if (problem->memory_bytes > 0)
            add_row(ilp, n, 'L', 1);
    }
}

static status_t take_solution(ilp_t *ilp, herd_plan_t *plan, err_t *err)
{
    const herd_problem_t *problem = ilp->problem;
    if (Cbc_isProvenInfeasible(ilp->cbc))
        return err_set(err, STATUS_NOT_FOUND, "no plan keeps all bounds");
    const double *x = Cbc_bestSolution(ilp->cbc);
    if (!x)
        return err_set(err, STATUS_UNAVAILABLE, "no plan was found within %.1f s", problem->seconds);
    herd_plan_t found = {.group = calloc(problem->model_count, sizeof *found.group),
                         .size = calloc(problem->group_count, sizeof *found.size),
                         .sets = ilp->sets,
                         .optimal = Cbc_isProvenOptimal(ilp->cbc)};
    status_t status = STATUS_OK;
    if (!found.group || !found.size)
        status = err_set(err, STATUS_NO_MEMORY, "no memory to plan %u models", problem->model_count);
    for (uint32_t i = 0; i < problem->model_count && status == STATUS_OK; i++) {
        for (uint32_t j = 1; j < problem->group_count; j++) {
            if (x[x_at(ilp, i, j)] > x[x_at(ilp, i, found.group[i])])
                found.group[i] = j;
        }
    }
    if (status == STATUS_OK && !herd_evaluate(problem, ilp->set, false, &found))
        status = err_set(err, STATUS_UNAVAILABLE, "the solver's plan breaks a bound by rounding");
    if (status != STATUS_OK) {
        herd_plan_dispose(&found);
        return status;
    }
    found.bound = fmax(found.tolerance, -Cbc_getBestPossibleObjValue(ilp->cbc));
    *plan = found;
    return STATUS_OK;
}

static void solve(ilp_t *ilp)
{
    char seconds[32];
    snprintf(seconds, sizeof seconds, "%.3f", ilp->problem->seconds);
    Cbc_setLogLevel(ilp->cbc, 0);
    Cbc_setParameter(ilp->cbc, "timeMode", "elapsed");
    Cbc_setParameter(ilp->cbc, "seconds", seconds);
    add_columns(ilp);
    for (uint32_t i = 0; i < ilp->problem->model_count; i++)
        add_model(ilp, i);
    add_groups(ilp);
    Cbc_solve(ilp->cbc);
}

status_t herd_ilp(const herd_problem_t *problem, herd_plan_t *plan, err_t *err)
{
    status_t status = herd_check(problem, err);
    if (status != STATUS_OK)
        return status;
    size_t room = (size_t)problem->model_count + problem->group_count + 2;
    ilp_t ilp = {.problem = problem};
    ilp.set = malloc(problem->model_count * sizeof *ilp.set);
    if (ilp.set)
        ilp.sets = herd_affinity_sets(problem, ilp.set);
    room += ilp.sets;
    ilp.column = malloc(room * sizeof *ilp.column);
    ilp.value = malloc(room * sizeof *ilp.value);
    ilp.cbc = Cbc_newModel();
    if (!ilp.set || !ilp.column || !ilp.value || !ilp.cbc) {
        status = err_set(err, STATUS_NO_MEMORY, "no memory to plan %u models", problem->model_count);
    } else {
        solve(&ilp);
        status = take_solution(&ilp, plan, err);
    }
    if (ilp.cbc)
        Cbc_deleteModel(ilp.cbc);
    free(ilp.set);
    free(ilp.column);
    free(ilp.value);
    return status;
}
