#include "oracles.h"

#include "base/prng.h"
#include "support/cases.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static herd_model_t model(double need, double bytes)
{
    return (herd_model_t){.rate = need * 100, .goodput = 100, .bytes = bytes, .alpha = 1, .beta = 10};
}

static herd_problem_t problem_of(const herd_model_t *models, uint32_t count, uint32_t gpus, uint32_t groups)
{
    return (herd_problem_t){.models = models,
                            .model_count = count,
                            .gpu_count = gpus,
                            .group_count = groups,
                            .affinity_max = INFINITY,
                            .seconds = 1};
}

static void random_models(herd_model_t *models, uint32_t count, uint64_t seed)
{
    prng_t prng;
    prng_init(&prng, seed);
    for (uint32_t i = 0; i < count; i++)
        models[i] = model(prng_exponential(&prng, 2), 0.05 + prng_uniform(&prng));
}

/* With nothing in the way, everybody shares one group of all GPUs. */
Test(herd, one_group_when_nothing_speaks_against_it)
{
    herd_model_t models[] = {model(4, 1), model(1, 1), model(2, 1)};
    herd_problem_t problem = problem_of(models, 3, 12, 3);
    herd_plan_t plan;
    cr_assert_eq(herd_search(&problem, &plan, NULL), STATUS_OK);
    cr_expect_eq(plan.groups, 1);
    cr_expect_float_eq(plan.tolerance, 3, 1e-12);
    cr_expect(plan.optimal);
    herd_plan_dispose(&plan);
}

/* Two fit a GPU. {4, 3} and {2, 1}: 4 t + 2 t <= 12, so t = 2; any other pairing has 4 t + 3 t. */
Test(herd, memory_puts_the_large_ones_together)
{
    herd_model_t models[] = {model(4, 1), model(2, 1), model(3, 1), model(1, 1)};
    herd_problem_t problem = problem_of(models, 4, 12, 2);
    problem.memory_bytes = 2;
    herd_plan_t plan;
    cr_assert_eq(herd_search(&problem, &plan, NULL), STATUS_OK);
    cr_expect_float_eq(plan.tolerance, 2, 1e-12);
    cr_expect_eq(plan.group[0], plan.group[2]);
    cr_expect_eq(plan.group[1], plan.group[3]);
    cr_expect_eq(plan.size[plan.group[0]], 8);
    cr_expect_eq(plan.size[plan.group[1]], 4);
    herd_plan_dispose(&plan);
}

Test(herd, group_worker_limit_holds)
{
    herd_model_t models[] = {model(4, 1), model(2, 1)};
    herd_problem_t problem = problem_of(models, 2, 100, 4);
    problem.group_gpus_max = 6;
    herd_plan_t plan;
    cr_assert_eq(herd_search(&problem, &plan, NULL), STATUS_OK);
    cr_expect_float_eq(plan.tolerance, 1.5, 1e-12);
    for (uint32_t j = 0; j < 4; j++)
        cr_expect_leq(plan.size[j], 6);
    herd_plan_dispose(&plan);
}

Test(herd, affinity_sets_do_not_mix)
{
    herd_model_t models[] = {model(1, 1), model(1, 1), model(1, 1), model(1, 1)};
    models[1].alpha = models[3].alpha = 50;
    herd_problem_t problem = problem_of(models, 4, 8, 2);
    cr_expect_float_eq(herd_affinity(&models[0], &models[2]), 1, 1e-12);
    cr_expect_gt(herd_affinity(&models[0], &models[1]), 4);
    problem.affinity_max = 4;
    herd_plan_t plan;
    cr_assert_eq(herd_search(&problem, &plan, NULL), STATUS_OK);
    cr_expect_eq(plan.sets, 2);
    cr_expect_eq(plan.group[0], plan.group[2]);
    cr_expect_eq(plan.group[1], plan.group[3]);
    cr_expect_neq(plan.group[0], plan.group[1]);
    herd_plan_dispose(&plan);
    err_t err;
    problem.group_count = 1;
    cr_expect_eq(herd_search(&problem, &plan, &err), STATUS_NOT_FOUND);
    cr_expect(strstr(err.text, "2 affinity sets") != NULL, "%s", err.text);
}

/* The ILP's optimum is ours, on cases with every bound in play. */
Test(herd, search_is_never_below_cbc)
{
    herd_model_t models[9];
    for (uint64_t seed = 1; seed <= CASES(6); seed++) {
        random_models(models, 9, seed);
        models[0].alpha = models[4].alpha = 40;
        herd_problem_t problem = problem_of(models, 9, 20, 4);
        problem.memory_bytes = 2.2;
        problem.group_gpus_max = 12;
        problem.affinity_max = seed % 2 ? INFINITY : 4;
        problem.seconds = 5;
        herd_plan_t ours, theirs;
        status_t mine = herd_search(&problem, &ours, NULL), other = herd_ilp(&problem, &theirs, NULL);
        cr_assert(mine == STATUS_OK || other != STATUS_OK, "seed %d: CBC found a plan and we did not",
                  (int)seed);
        if (mine == STATUS_OK && other == STATUS_OK) {
            cr_expect_geq(ours.tolerance, theirs.tolerance - 1e-9, "seed %d", (int)seed);
            if (ours.optimal && theirs.optimal)
                cr_expect_float_eq(ours.tolerance, theirs.tolerance, 1e-6);
        }
        if (mine == STATUS_OK)
            herd_plan_dispose(&ours);
        if (other == STATUS_OK)
            herd_plan_dispose(&theirs);
    }
}

Test(herd, a_plan_keeps_its_bounds_at_full_size)
{
    enum { MODELS = 1000, GROUPS = 10 };
    static herd_model_t models[MODELS];
    static uint32_t set[MODELS];
    random_models(models, MODELS, 7);
    herd_problem_t problem = problem_of(models, MODELS, 1000, GROUPS);
    problem.memory_bytes = 60;
    problem.group_gpus_max = 200;
    problem.seconds = 0.3;
    herd_plan_t plan;
    cr_assert_eq(herd_search(&problem, &plan, NULL), STATUS_OK);
    herd_plan_t again = plan;
    cr_expect_eq(herd_affinity_sets(&problem, set), 1);
    cr_expect(herd_evaluate(&problem, set, false, &again));
    cr_expect_geq(again.tolerance, plan.tolerance - 1e-9);
    cr_expect_geq(plan.bound, plan.tolerance - 1e-9);
    cr_expect_geq(plan.tolerance, 0.9 * plan.bound);
    herd_plan_dispose(&plan);
}

Test(herd, streams_of_a_model_add_up)
{
    herd_model_t models[] = {model(9, 1), model(9, 1)};
    herd_stream_t streams[] = {{0, 1}, {1, 2}, {0, 3}};
    err_t err;
    cr_expect_eq(herd_add_streams(models, 2, streams, 3, &err), STATUS_OK);
    cr_expect_float_eq(models[0].rate, 4, 1e-9);
    cr_expect_float_eq(models[1].rate, 2, 1e-9);
    streams[2].model = 2;
    cr_expect_eq(herd_add_streams(models, 2, streams, 3, &err), STATUS_INVALID_ARGUMENT);
    cr_expect(strstr(err.text, "stream 2") != NULL, "%s", err.text);
    cr_expect_float_eq(models[0].rate, 4, 1e-9, "a refused list changes nothing");
}

Test(herd, bad_input_is_named)
{
    herd_model_t models[] = {model(1, 1), model(1, 5)};
    herd_problem_t problem = problem_of(models, 2, 4, 2);
    herd_plan_t plan;
    err_t err;
    problem.memory_bytes = 4;
    cr_expect_eq(herd_search(&problem, &plan, &err), STATUS_NOT_FOUND);
    cr_expect(strstr(err.text, "model 1") != NULL, "%s", err.text);
    models[1] = model(1, 4);
    models[0].goodput = 0;
    cr_expect_eq(herd_search(&problem, &plan, &err), STATUS_INVALID_ARGUMENT);
    cr_expect(strstr(err.text, "model 0") != NULL, "%s", err.text);
    models[0] = model(1, 4);
    problem.group_count = 1;
    cr_expect_eq(herd_search(&problem, &plan, &err), STATUS_NOT_FOUND);
    problem.group_count = 2;
    problem.gpu_count = 1;
    cr_expect_eq(herd_search(&problem, &plan, &err), STATUS_NOT_FOUND);
    problem.gpu_count = 0;
    cr_expect_eq(herd_ilp(&problem, &plan, &err), STATUS_INVALID_ARGUMENT);
    problem.gpu_count = 4;
    problem.affinity_max = 0.5;
    cr_expect_eq(herd_search(&problem, &plan, &err), STATUS_INVALID_ARGUMENT);
}
