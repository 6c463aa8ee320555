#include "plan/nexus_pack.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

enum { MS = 1000000 };

static profile_t line(int64_t alpha_ms, int64_t beta_ms)
{
    profile_t profile;
    cr_assert_eq(profile_from_line(&profile, alpha_ms * MS, beta_ms * MS, 64, NULL), STATUS_OK);
    return profile;
}

/* l(b) = b + 4, SLO 40: the largest b with 2 l(b) <= 40 is 16, in 20 ms: 800/s on a GPU. 2,000/s: two
 * whole GPUs and 400/s left over. */
Test(nexus_pack, whole_gpus_then_the_residual)
{
    profile_t profile = line(1, 4);
    nexus_model_t models[] = {{.profile = &profile, .rate = 2000, .slo_ns = 40 * MS}};
    nexus_plan_t plan;
    cr_assert_eq(nexus_pack(models, 1, 10, &plan, NULL), STATUS_OK);
    cr_expect_eq(plan.gpus, 3);
    cr_assert_eq(plan.node_count, 2);
    cr_assert_eq(plan.place_count, 2);
    cr_expect_eq(plan.nodes[1].gpus, 2);
    cr_expect_eq(plan.places[1].batch, 16);
    cr_expect_float_eq(plan.places[1].rate, 800, 1e-6);
    cr_expect_float_eq(plan.places[0].rate, 400, 1e-6);
    /* The residual: l(b) + b / 0.4 <= 40 gives b = 10, every 25 ms. */
    cr_expect_eq(plan.places[0].batch, 10);
    cr_expect_float_eq(plan.nodes[0].duty_ms, 25, 1e-6);
    nexus_plan_dispose(&plan);
}

Test(nexus_pack, residuals_share_a_gpu_and_leave_out_who_has_no_rate)
{
    profile_t profile = line(1, 4);
    nexus_model_t models[] = {{.profile = &profile, .rate = 100, .slo_ns = 60 * MS},
                              {.profile = &profile, .rate = 0, .slo_ns = 60 * MS},
                              {.profile = &profile, .rate = 100, .slo_ns = 60 * MS}};
    nexus_plan_t plan;
    cr_assert_eq(nexus_pack(models, 3, 10, &plan, NULL), STATUS_OK);
    cr_expect_eq(plan.gpus, 1);
    cr_assert_eq(plan.place_count, 2);
    for (uint32_t i = 0; i < plan.place_count; i++)
        cr_expect_neq(plan.places[i].model, 1);
    cr_expect_leq(plan.nodes[0].occupancy, 1);
    nexus_plan_dispose(&plan);
}

Test(nexus_pack, bad_input_is_named)
{
    profile_t profile = line(1, 4);
    nexus_model_t models[] = {{.profile = &profile, .rate = 5000, .slo_ns = 40 * MS},
                              {.profile = &profile, .rate = 10, .slo_ns = 9 * MS}};
    nexus_plan_t plan;
    err_t err;
    cr_expect_eq(nexus_pack(models, 2, 10, &plan, &err), STATUS_NOT_FOUND);
    cr_expect(strstr(err.text, "model 1") != NULL, "%s", err.text);
    cr_expect_eq(nexus_pack(models, 1, 3, &plan, &err), STATUS_NOT_FOUND);
    cr_expect(strstr(err.text, "3 GPUs") != NULL, "%s", err.text);
    models[0].rate = NAN;
    cr_expect_eq(nexus_pack(models, 1, 10, &plan, &err), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(nexus_pack(models, 0, 10, &plan, &err), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(nexus_pack(models, 1, 0, &plan, &err), STATUS_INVALID_ARGUMENT);
}
