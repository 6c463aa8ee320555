#include "sched/squishy.h"

#include <criterion/criterion.h>

enum { NODES = 8 };

static squishy_model_t model(profile_t *profile, double alpha, double beta, double slo, double rate)
{
    err_t err;
    cr_assert_eq(profile_from_line(profile, (int64_t)(alpha * 1e6), (int64_t)(beta * 1e6), 256, &err),
                 STATUS_OK);
    return (squishy_model_t){.profile = profile, .limit = 256, .rate = rate, .slo = slo};
}

/* 2·l(B) <= 24 with l(b) = b + 5: B = 7, 7/12 requests/ms per GPU. */
Test(squishy, a_busy_model_gets_whole_gpus)
{
    profile_t profile;
    squishy_node_t nodes[NODES];
    uint32_t shared;
    squishy_model_t models[] = {model(&profile, 1, 5, 24, 2 * 7.0 / 12 + 0.1)};
    cr_assert_eq(squishy_pack(models, 1, sizeof(models[0]), 1, nodes, NODES, &shared), 3);
    cr_assert_eq(models[0].whole, 2);
    cr_assert_eq(models[0].whole_batch, 7);
    cr_assert_eq(shared, 1);
    /* the rest: the largest b with b + 5 + b/0.1 <= 24 is 1 */
    cr_assert_eq(models[0].batch, 1);
    cr_assert_float_eq(models[0].cycle, 10, 1e-6);
}

/* A alone would run 4 every 40 ms (9 of 40), B 2 every 20 (7 of 20). Together every 20: A in twos, 7 + 7 of 20. */
Test(squishy, residuals_share_and_shrink_to_the_shortest_cycle)
{
    profile_t profiles[2];
    squishy_node_t nodes[NODES];
    uint32_t shared;
    squishy_model_t models[] = {model(&profiles[0], 1, 5, 49.5, 0.1), model(&profiles[1], 1, 5, 27.5, 0.1)};
    cr_assert_eq(squishy_pack(models, 2, sizeof(models[0]), 1, nodes, NODES, &shared), 1);
    cr_assert_eq(models[0].node, models[1].node);
    cr_assert_eq(models[0].batch, 2);
    cr_assert_eq(models[1].batch, 2);
    cr_assert_float_eq(models[0].cycle, 20, 1e-6);
    cr_assert_float_eq(nodes[0].occupancy, 14.0 / 20, 1e-6);
}

Test(squishy, what_does_not_fit_opens_another_node)
{
    profile_t profiles[3];
    squishy_node_t nodes[NODES];
    uint32_t shared;
    squishy_model_t models[3];
    for (int i = 0; i < 3; i++)
        models[i] = model(&profiles[i], 1, 5, 27.5, 0.1); /* 7 of 20 each: two fit */
    cr_assert_eq(squishy_pack(models, 3, sizeof(models[0]), 1, nodes, NODES, &shared), 2);
    cr_assert_eq(squishy_pack(models, 3, sizeof(models[0]), 1, nodes, 1, &shared), UINT32_MAX,
                 "more than there are");
}

Test(squishy, a_model_that_is_not_there_costs_nothing)
{
    squishy_node_t nodes[NODES];
    uint32_t shared;
    squishy_model_t models[2] = {{0}};
    cr_assert_eq(squishy_pack(models, 2, sizeof(models[0]), 1, nodes, NODES, &shared), 0);
}
