#include "plan/partition_apart.h"

#include "base/clock.h"
#include "base/prng.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MODELS = 12, CLUSTERS = 3 };

static partition_model_t models[MODELS];
static uint32_t current[MODELS];
static const double shares[CLUSTERS] = {1, 1, 2};

static partition_problem_t a_problem(void)
{
    prng_t prng;
    prng_init(&prng, 3);
    for (uint32_t i = 0; i < MODELS; i++) {
        models[i] = (partition_model_t){.rate = 1 + (double)prng_below(&prng, 50),
                                        .static_bytes = 1e8,
                                        .dynamic_bytes = 1e7,
                                        .move_cost = 1};
        current[i] = i % CLUSTERS;
    }
    return (partition_problem_t){.models = models,
                                 .model_count = MODELS,
                                 .cluster_count = CLUSTERS,
                                 .shares = shares,
                                 .memory_max = 2e9,
                                 .memory_weight = 0.1,
                                 .current = current,
                                 .cost_max = 8,
                                 .seconds = 10};
}

static partition_t the_current(const partition_problem_t *problem)
{
    partition_t plan = {.cluster = malloc(sizeof current)};
    memcpy(plan.cluster, current, sizeof current);
    cr_assert(partition_evaluate(problem, &plan));
    return plan;
}

Test(apart, it_says_what_the_solver_says_here)
{
    partition_problem_t problem = a_problem();
    partition_t start = the_current(&problem), here, there;
    err_t err = {0};
    cr_assert_eq(partition_milp(&problem, &start, &here, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(partition_milp_apart(SOLVER, &problem, &start, &there, &err), STATUS_OK, "%s", err.text);
    cr_expect_arr_eq(there.cluster, here.cluster, sizeof current);
    cr_expect_eq(there.objective, here.objective);
    cr_expect_eq(there.bound, here.bound);
    cr_expect_lt(there.objective, start.objective);
    cr_expect_leq(there.cost, problem.cost_max);
    partition_dispose(&start);
    partition_dispose(&here);
    partition_dispose(&there);
}

Test(apart, it_can_do_without_a_start_and_without_a_present)
{
    partition_problem_t problem = a_problem();
    partition_t plan;
    err_t err = {0};
    problem.current = NULL;
    problem.shares = NULL;
    problem.cost_max = INFINITY;
    cr_assert_eq(partition_milp_apart(SOLVER, &problem, NULL, &plan, &err), STATUS_OK, "%s", err.text);
    cr_expect_lt(plan.rate_imbalance, 0.05);
    partition_dispose(&plan);
}

Test(apart, what_cannot_be_planned_is_said)
{
    partition_problem_t problem = a_problem();
    partition_t plan;
    err_t err = {0};
    problem.memory_max = 3e8; /* two models and their work space on each: there are twelve */
    cr_expect_eq(partition_milp_apart(SOLVER, &problem, NULL, &plan, &err), STATUS_NOT_FOUND);
    cr_expect_neq(err.text[0], '\0');
}

static _Atomic bool stopped;

static status_t ask(const char *program, double seconds, int64_t *took_ns)
{
    partition_problem_t problem = a_problem();
    partition_t plan = {0}, start = the_current(&problem);
    err_t err = {0};
    problem.stop = &stopped;
    problem.seconds = seconds;
    int64_t began_ns = clock_now_ns();
    status_t status = partition_milp_apart(program, &problem, &start, &plan, &err);
    *took_ns = clock_now_ns() - began_ns;
    cr_expect_null(plan.cluster);
    cr_expect(strstr(err.text, program) != NULL || status == STATUS_INTERNAL, "%s", err.text);
    partition_dispose(&start);
    return status;
}

Test(apart, a_solver_that_fails_costs_nothing_but_its_time)
{
    int64_t took_ns;
    cr_expect_eq(ask("/no/such/solver", 10, &took_ns), STATUS_NOT_FOUND);
    cr_expect_eq(ask("/bin/false", 10, &took_ns), STATUS_IO);
    cr_expect_eq(ask("/usr/bin/yes", 10, &took_ns), STATUS_INTERNAL);
    cr_expect_eq(ask("/usr/bin/tail", 0.1, &took_ns), STATUS_DEADLINE_EXCEEDED, "it waits for more");
    cr_expect_geq(took_ns, NS_PER_S);
}

Test(apart, a_solve_can_be_stopped)
{
    int64_t took_ns;
    partition_problem_t problem = a_problem();
    partition_t plan;
    stopped = true;
    cr_expect_eq(ask("/usr/bin/tail", 3600, &took_ns), STATUS_CANCELLED);
    problem.seconds = 3600;
    problem.stop = &stopped;
    cr_assert_eq(partition_search(&problem, &plan, NULL), STATUS_OK, "the best so far");
    partition_dispose(&plan);
}

static status_t broken_milp(void *ctx, const partition_problem_t *problem, const partition_t *start,
                            partition_t *plan, err_t *err)
{
    (void)problem;
    (void)plan;
    cr_assert_not_null(start);
    ++*(int *)ctx;
    return err_set(err, STATUS_IO, "it broke");
}

Test(apart, without_the_solver_it_is_the_plan_of_the_search)
{
    partition_problem_t problem = a_problem();
    partition_t plan, start = the_current(&problem);
    err_t err = {0};
    int calls = 0;
    problem.seconds = 0.2;
    cr_assert_eq(partition_solve_by(&problem, broken_milp, &calls, &plan, &err), STATUS_OK);
    cr_expect_eq(calls, 1);
    cr_expect_str_eq(err.text, "it broke");
    cr_expect_lt(plan.objective, start.objective);
    partition_dispose(&plan);
    partition_dispose(&start);
}

/* The same groups under other names; the third sub-cluster is twice as large and keeps its own. */
Test(apart, names_are_those_that_move_least)
{
    partition_problem_t problem = a_problem();
    partition_t plan = the_current(&problem);
    static const uint32_t other[CLUSTERS] = {1, 0, 2};
    for (uint32_t i = 0; i < MODELS; i++)
        plan.cluster[i] = other[plan.cluster[i]];
    plan.cluster[2] = 0;
    plan.bound = 0.01;
    partition_relabel(&problem, &plan);
    cr_expect_eq(plan.moved, 1);
    cr_expect_eq(plan.cost, 2);
    cr_expect_eq(plan.cluster[2], 1, "it went along with the name");
    cr_expect_eq(plan.bound, 0.01);
    partition_dispose(&plan);
}
