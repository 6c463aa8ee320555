/* What is a sound problem, and what a plan is worth. */
#include "plan/partition.h"

#include "plan/partition_load.h"

#include <math.h>
#include <stdlib.h>

static bool sound(double value)
{
    return isfinite(value) && value >= 0;
}

static status_t check_model(const partition_problem_t *problem, uint32_t i, err_t *err)
{
    const partition_model_t *model = &problem->models[i];
    if (!sound(model->rate) || !sound(model->static_bytes) || !sound(model->dynamic_bytes) ||
        !sound(model->move_cost))
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "model %u: rate, memory or cost is negative or not finite", i);
    if (problem->current && problem->current[i] != PARTITION_NOWHERE &&
        problem->current[i] >= problem->cluster_count)
        return err_set(err, STATUS_INVALID_ARGUMENT, "model %u: is on sub-cluster %u of %u", i,
                       problem->current[i], problem->cluster_count);
    if (problem->memory_max > 0 && model->static_bytes + model->dynamic_bytes > problem->memory_max)
        return err_set(err, STATUS_NOT_FOUND, "model %u: needs %.0f bytes, a backend has %.0f", i,
                       model->static_bytes + model->dynamic_bytes, problem->memory_max);
    if (problem->rate_max > 0 && model->rate > problem->rate_max)
        return err_set(err, STATUS_NOT_FOUND, "model %u: %.0f requests/s, a sub-cluster takes %.0f", i,
                       model->rate, problem->rate_max);
    return STATUS_OK;
}

status_t partition_check(const partition_problem_t *problem, err_t *err)
{
    if (problem->model_count == 0 || problem->model_count > PARTITION_MODELS_MAX)
        return err_set(err, STATUS_INVALID_ARGUMENT, "models: %u, not in 1..%d", problem->model_count,
                       PARTITION_MODELS_MAX);
    if (problem->cluster_count == 0 || problem->cluster_count > PARTITION_CLUSTERS_MAX)
        return err_set(err, STATUS_INVALID_ARGUMENT, "sub-clusters: %u, not in 1..%d", problem->cluster_count,
                       PARTITION_CLUSTERS_MAX);
    if (!sound(problem->rate_max) || !sound(problem->memory_max) || !sound(problem->memory_weight) ||
        !sound(problem->seconds) || !(problem->cost_max >= 0))
        return err_set(err, STATUS_INVALID_ARGUMENT, "a bound, the weight or the time limit is negative");
    for (uint32_t j = 0; problem->shares && j < problem->cluster_count; j++)
        if (!sound(problem->shares[j]) || problem->shares[j] == 0)
            return err_set(err, STATUS_INVALID_ARGUMENT, "sub-cluster %u: its share is not above 0", j);
    for (uint32_t i = 0; i < problem->model_count; i++) {
        status_t status = check_model(problem, i, err);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

static void measure(const partition_problem_t *problem, const partition_load_t *load, partition_t *plan)
{
    double rate_lo = INFINITY, rate_hi = 0, bytes_lo = INFINITY, bytes_hi = 0, rate_off = 0, bytes_off = 0;
    for (uint32_t j = 0; j < problem->cluster_count; j++) {
        double rate = load->load[j].rate / partition_load_due(load, j),
               bytes = load->load[j].static_bytes / load->static_mean;
        rate_lo = fmin(rate_lo, rate);
        rate_hi = fmax(rate_hi, rate);
        bytes_lo = fmin(bytes_lo, bytes);
        bytes_hi = fmax(bytes_hi, bytes);
        rate_off = rate_hi > 0 ? fmax(rate_off, fabs(rate - 1)) : 0;
        bytes_off = bytes_hi > 0 ? fmax(bytes_off, fabs(bytes - 1)) : 0;
    }
    plan->rate_imbalance = rate_hi - rate_lo;
    plan->memory_imbalance = bytes_hi - bytes_lo;
    plan->objective = rate_off + problem->memory_weight * bytes_off;
    plan->cost = load->cost;
    plan->moved = 0;
    for (uint32_t i = 0; problem->current && i < problem->model_count; i++)
        plan->moved += plan->cluster[i] != problem->current[i];
}

bool partition_evaluate(const partition_problem_t *problem, partition_t *plan)
{
    partition_load_t load;
    if (partition_load_init(&load, problem, NULL) != STATUS_OK)
        return false;
    bool valid = true;
    for (uint32_t i = 0; i < problem->model_count && valid; i++)
        valid = plan->cluster[i] < problem->cluster_count &&
                partition_load_put(&load, i, plan->cluster[i]) == STATUS_OK;
    if (valid)
        measure(problem, &load, plan);
    for (uint32_t j = 0; j < problem->cluster_count && valid; j++)
        valid = partition_load_fits(&load, j, PARTITION_NOWHERE, PARTITION_NOWHERE);
    valid = valid && load.cost <= problem->cost_max;
    partition_load_dispose(&load);
    return valid;
}

void partition_dispose(partition_t *plan)
{
    free(plan->cluster);
    plan->cluster = NULL;
}
