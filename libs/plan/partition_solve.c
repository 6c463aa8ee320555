/* Both solvers, one after the other. */
#include "base/clock.h"
#include "plan/partition.h"

static status_t solve_here(void *ctx, const partition_problem_t *problem, const partition_t *start,
                           partition_t *plan, err_t *err)
{
    (void)ctx;
    return partition_milp(problem, start, plan, err);
}

status_t partition_solve(const partition_problem_t *problem, partition_t *plan, err_t *err)
{
    return partition_solve_by(problem, solve_here, NULL, plan, err);
}

status_t partition_solve_by(const partition_problem_t *problem, partition_milp_fn milp, void *ctx,
                            partition_t *plan, err_t *err)
{
    int64_t start_ns = clock_now_ns();
    bool small = (uint64_t)problem->model_count * problem->cluster_count <= PARTITION_MILP_CELLS_MAX;
    partition_problem_t half = *problem;
    if (small)
        half.seconds = problem->seconds / 4; /* where CBC can prove something it gets most of the time */
    partition_t found;
    status_t status = partition_search(&half, &found, err);
    if (!small || (status != STATUS_OK && status != STATUS_NOT_FOUND))
        goto out;
    half.seconds = problem->seconds - (double)(clock_now_ns() - start_ns) / 1e9;
    partition_t proved;
    if (half.seconds <= 0 || partition_is_stopped(problem))
        goto out;
    if (milp(ctx, &half, status == STATUS_OK ? &found : NULL, &proved, err) != STATUS_OK)
        goto out;
    partition_relabel(problem, &proved);
    if (status == STATUS_OK && found.objective <= proved.objective) {
        found.bound = proved.bound;
        partition_dispose(&proved);
    } else {
        if (status == STATUS_OK)
            partition_dispose(&found);
        found = proved;
        status = STATUS_OK;
    }
out:
    if (status == STATUS_OK)
        *plan = found;
    return status;
}
