#include "scheduler/solver.h"

#include "base/container.h"
#include "plan/partition_apart.h"
#include "scheduler/shell.h"

static status_t solve_apart(void *ctx, const partition_problem_t *problem, const partition_t *start,
                            partition_t *plan, err_t *err)
{
    return partition_milp_apart(ctx, problem, start, plan, err);
}

/* A fault in a foreign solver must not take the scheduler along: CBC runs in a process of its own, or not at all. */
static status_t solve(plan_job_t *job)
{
    job->err = (err_t){0};
    if (!job->solver)
        return partition_search(&job->problem, &job->plan, &job->err);
    return partition_solve_by(&job->problem, solve_apart, (void *)(uintptr_t)job->solver, &job->plan,
                              &job->err);
}

/* On the thread: it sees the jobs, which the loop leaves alone meanwhile. */
static void on_solve(work_t *work)
{
    const scheduler_t *s = CONTAINER_OF(work, scheduler_t, solve);
    for (uint32_t i = 0; i < s->job_count; i++)
        s->jobs[i].status = solve(&s->jobs[i]);
}

static void on_solved(work_t *work, bool cancelled)
{
    scheduler_t *s = CONTAINER_OF(work, scheduler_t, solve);
    control_planned(s->control, loop_now_ns(), cancelled);
}

status_t solver_solve(void *scheduler, plan_job_t *jobs, uint32_t count)
{
    scheduler_t *s = scheduler;
    if (!s->solver)
        return STATUS_UNAVAILABLE;
    s->jobs = jobs;
    s->job_count = count;
    s->solve = (work_t){.run = on_solve, .done = on_solved};
    return workpool_submit(s->solver, &s->solve);
}

status_t solver_start(scheduler_t *s, err_t *err)
{
    return workpool_create(&(workpool_options_t){.threads = 1, .capacity = 1}, s->loop, &s->solver, err);
}

void solver_stop(scheduler_t *s)
{
    workpool_t *pool = s->solver;
    s->solver = NULL;
    if (pool)
        workpool_destroy(pool);
}
