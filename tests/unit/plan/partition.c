#include "oracles.h"

#include "base/prng.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 200 };

static partition_model_t many[MANY];

static partition_problem_t random_problem(uint32_t models, uint32_t clusters, uint64_t seed)
{
    prng_t prng;
    prng_init(&prng, seed);
    for (uint32_t i = 0; i < models; i++)
        many[i] = (partition_model_t){.rate = prng_exponential(&prng, 100),
                                      .static_bytes = 1e6 + 4e8 * prng_uniform(&prng),
                                      .dynamic_bytes = 1e8 * prng_uniform(&prng),
                                      .move_cost = 1};
    return (partition_problem_t){.models = many,
                                 .model_count = models,
                                 .cluster_count = clusters,
                                 .memory_weight = 1,
                                 .cost_max = INFINITY,
                                 .seconds = 0.2,
                                 .seed = seed};
}

Test(partition, search_spreads_both_dimensions)
{
    partition_problem_t problem = random_problem(MANY, 8, 1);
    partition_t plan;
    err_t err;
    cr_assert_eq(partition_search(&problem, &plan, &err), STATUS_OK);
    cr_expect_lt(plan.rate_imbalance, 0.01);
    cr_expect_lt(plan.memory_imbalance, 0.01);
    cr_expect(partition_evaluate(&problem, &plan));
    partition_dispose(&plan);
}

Test(partition, random_baseline_is_valid_and_worse)
{
    partition_problem_t problem = random_problem(MANY, 8, 2);
    partition_t ours, theirs;
    cr_assert_eq(partition_search(&problem, &ours, NULL), STATUS_OK);
    cr_assert_eq(partition_random(&problem, &theirs, NULL), STATUS_OK);
    cr_expect_lt(ours.rate_imbalance, theirs.rate_imbalance / 2);
    cr_expect_lt(ours.memory_imbalance, theirs.memory_imbalance / 2);
    partition_dispose(&ours);
    partition_dispose(&theirs);
}

/* {8, 7, 6, 5, 4} over two: a perfect 15 / 15 exists (8+7, 6+5+4), greedy alone gives 17 / 13. */
Test(partition, milp_proves_the_optimum_of_a_small_case)
{
    partition_model_t models[] = {{.rate = 8}, {.rate = 7}, {.rate = 6}, {.rate = 5}, {.rate = 4}};
    partition_problem_t problem = {.models = models,
                                   .model_count = 5,
                                   .cluster_count = 2,
                                   .memory_weight = 1,
                                   .cost_max = INFINITY,
                                   .seconds = 5};
    partition_t plan;
    err_t err;
    cr_assert_eq(partition_milp(&problem, NULL, &plan, &err), STATUS_OK, "%s", err.text);
    cr_expect_float_eq(plan.objective, 0, 1e-9);
    cr_expect_eq(plan.cluster[0], plan.cluster[1]);
    cr_expect_eq(plan.cluster[2], plan.cluster[3]);
    cr_expect_neq(plan.cluster[0], plan.cluster[2]);
    partition_dispose(&plan);
}

Test(partition, search_and_milp_agree_on_small_cases)
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        partition_problem_t problem = random_problem(9, 3, seed);
        problem.seconds = 10;
        partition_t proved, found;
        cr_assert_eq(partition_milp(&problem, NULL, &proved, NULL), STATUS_OK);
        problem.seconds = 0.3;
        cr_assert_eq(partition_search(&problem, &found, NULL), STATUS_OK);
        cr_expect_geq(found.objective, proved.objective - 1e-6, "seed %lu", seed);
        cr_expect_leq(found.objective, proved.objective * 1.25 + 1e-6, "seed %lu: %f over %f", seed,
                      found.objective, proved.objective);
        partition_dispose(&proved);
        partition_dispose(&found);
    }
}

/* Twice the GPUs, twice the rate: 20 and 10, which the search and the MILP both find; the memory of a GPU
 * knows no shares. */
Test(partition, sub_clusters_of_unequal_size_get_their_share)
{
    partition_model_t models[] = {{.rate = 8}, {.rate = 7}, {.rate = 6}, {.rate = 5}, {.rate = 4}};
    const double shares[] = {4, 2};
    partition_problem_t problem = {.models = models,
                                   .model_count = 5,
                                   .cluster_count = 2,
                                   .shares = shares,
                                   .cost_max = INFINITY,
                                   .seconds = 0.5,
                                   .seed = 1};
    status_t (*solvers[])(const partition_problem_t *, partition_t *, err_t *) = {partition_search,
                                                                                  partition_solve};
    for (int s = 0; s < 2; s++) {
        partition_t plan;
        double rate[2] = {0};
        cr_assert_eq(solvers[s](&problem, &plan, NULL), STATUS_OK);
        for (int i = 0; i < 5; i++)
            rate[plan.cluster[i]] += models[i].rate;
        cr_expect_float_eq(rate[0], 20, 1e-9, "%g", rate[0]);
        cr_expect_float_eq(plan.rate_imbalance, 0, 1e-9);
        partition_dispose(&plan);
    }
    problem.shares = (const double[]){1, 0};
    partition_t plan;
    cr_expect_eq(partition_search(&problem, &plan, NULL), STATUS_INVALID_ARGUMENT);
}

Test(partition, memory_bound_counts_the_largest_work_space)
{
    /* 6 + 3 and its work space 4 do not fit into 12; 6 + 2 (work space 1) does. */
    partition_model_t models[] = {{.rate = 1, .static_bytes = 6, .dynamic_bytes = 1},
                                  {.rate = 1, .static_bytes = 3, .dynamic_bytes = 4},
                                  {.rate = 1, .static_bytes = 2, .dynamic_bytes = 1}};
    partition_problem_t problem = {.models = models,
                                   .model_count = 3,
                                   .cluster_count = 2,
                                   .memory_max = 12,
                                   .memory_weight = 0,
                                   .cost_max = INFINITY,
                                   .seconds = 1};
    partition_t plan;
    cr_assert_eq(partition_solve(&problem, &plan, NULL), STATUS_OK);
    cr_expect_neq(plan.cluster[0], plan.cluster[1]);
    partition_dispose(&plan);
}

Test(partition, disruption_is_bounded)
{
    partition_problem_t problem = random_problem(MANY, 8, 3);
    uint32_t current[MANY];
    for (uint32_t i = 0; i < MANY; i++)
        current[i] = i < MANY - 10 ? i % 4 : PARTITION_NOWHERE; /* half of the sub-clusters stand empty */
    problem.current = current;
    problem.cost_max = 40; /* 20 models, loaded there and unloaded here */
    partition_t plan;
    cr_assert_eq(partition_solve(&problem, &plan, NULL), STATUS_OK);
    cr_expect_leq(plan.cost, 40);
    uint32_t moved = 0;
    for (uint32_t i = 0; i < MANY - 10; i++)
        moved += plan.cluster[i] != current[i];
    cr_expect_leq(moved, 20);
    cr_expect_gt(moved, 0);
    partition_dispose(&plan);
}

Test(partition, never_worse_than_the_plan_that_runs)
{
    partition_problem_t problem = random_problem(MANY, 8, 4);
    partition_t good, again;
    cr_assert_eq(partition_search(&problem, &good, NULL), STATUS_OK);
    problem.current = good.cluster;
    problem.cost_max = 0;
    problem.seconds = 0.01;
    cr_assert_eq(partition_solve(&problem, &again, NULL), STATUS_OK);
    cr_expect(again.kept);
    cr_expect_eq(memcmp(again.cluster, good.cluster, sizeof(uint32_t) * MANY), 0);
    partition_dispose(&good);
    partition_dispose(&again);
}

Test(partition, bad_input_names_the_model)
{
    partition_model_t models[] = {{.rate = 1, .static_bytes = 5}, {.rate = 2, .static_bytes = 50}};
    partition_problem_t problem = {.models = models,
                                   .model_count = 2,
                                   .cluster_count = 2,
                                   .memory_max = 20,
                                   .cost_max = INFINITY,
                                   .seconds = 0.1};
    partition_t plan;
    err_t err;
    cr_expect_eq(partition_solve(&problem, &plan, &err), STATUS_NOT_FOUND);
    cr_expect(strstr(err.text, "model 1") != NULL, "%s", err.text);
    models[1].static_bytes = NAN;
    cr_expect_eq(partition_solve(&problem, &plan, &err), STATUS_INVALID_ARGUMENT);
    models[1].static_bytes = 1;
    uint32_t current[] = {0, 7};
    problem.current = current;
    cr_expect_eq(partition_solve(&problem, &plan, &err), STATUS_INVALID_ARGUMENT);
    problem.current = NULL;
    problem.cluster_count = 0;
    cr_expect_eq(partition_solve(&problem, &plan, &err), STATUS_INVALID_ARGUMENT);
}

Test(partition, infeasible_together_is_said)
{
    partition_model_t models[] = {{.rate = 6}, {.rate = 6}, {.rate = 6}};
    partition_problem_t problem = {.models = models,
                                   .model_count = 3,
                                   .cluster_count = 2,
                                   .rate_max = 10,
                                   .cost_max = INFINITY,
                                   .seconds = 1};
    partition_t plan;
    err_t err;
    cr_expect_eq(partition_solve(&problem, &plan, &err), STATUS_NOT_FOUND);
    cr_expect_eq(partition_milp(&problem, NULL, &plan, &err), STATUS_NOT_FOUND);
}
