/* What a launch may cost, and how large a batch is worth it. */
#include "sched/fluid.h"

#include <criterion/criterion.h>
#include <math.h>

enum { COUNT = 3 };

static fluid_model_t model_of(double rate, double slo, double beta)
{
    fluid_model_t model = {
        .rate = rate, .growth = rate, .least = 1, .slo = slo, .alpha = 1, .beta = beta, .guard = 1};

    model.slack = slo - model.alpha - beta;
    model.most = slo - beta;
    return model;
}

static fluid_models_t all_of(fluid_model_t models[COUNT])
{
    return (fluid_models_t){.first = models, .count = COUNT, .stride = sizeof *models};
}

Test(fluid, a_launch_costs_what_keeps_as_many_gpus_busy_as_there_are)
{
    fluid_model_t models[COUNT] = {model_of(1, 25, 5), model_of(0.5, 200, 5), model_of(0.2, 200, 20)};
    const fluid_models_t all = all_of(models);
    double alone = 0, held = fluid_state(&all, 0).use;

    for (int i = 0; i < COUNT; i++)
        alone += fluid_use(&models[i], 1);
    for (double gpus = held + 0.5; gpus < alone; gpus += 0.5) {
        double price = fluid_price(&all, gpus), use = 0;
        for (int i = 0; i < COUNT; i++)
            use += fluid_use(&models[i],
                             fmin(fmax(1, fluid_batch_for(&models[i], price)), fluid_batch(&models[i], 0)));
        cr_expect_float_eq(use, gpus, 1e-3);
    }
    cr_expect_eq(fluid_price(&all, alone), INFINITY, "all may start at once");
}

Test(fluid, who_can_wait_four_times_as_long_waits_for_twice_the_batch)
{
    const fluid_model_t urgent = model_of(1, 16, 5),
                        patient = model_of(1, 46, 5); /* slacks of 10 and 40 ms */

    cr_expect_float_eq(fluid_batch_for(&patient, 3) / fluid_batch_for(&urgent, 3), 2, 1e-9);
}

Test(fluid, a_launch_that_takes_longer_waits_for_as_many_times_more)
{
    const fluid_model_t light = model_of(1, 16, 5), heavy = model_of(1, 26, 15); /* both of 10 ms */

    cr_expect_float_eq(fluid_batch_for(&heavy, 3) / fluid_batch_for(&light, 3), 3, 1e-9);
}

Test(fluid, who_is_asked_more_often_waits_for_more_but_not_as_many_times_more)
{
    const fluid_model_t seldom = model_of(0.1, 16, 5), often = model_of(1.6, 16, 5);

    cr_expect_float_eq(fluid_batch_for(&often, 3) / fluid_batch_for(&seldom, 3), 8, 1e-9);
}

static fluid_models_t pair_of(fluid_model_t models[2])
{
    return (fluid_models_t){.first = models, .count = 2, .stride = sizeof *models};
}

Test(fluid, who_starts_at_once_does_so_whenever_the_others_do)
{
    fluid_model_t models[2] = {model_of(0.1, 25, 4), model_of(0.1, 200, 9)};
    const fluid_models_t all = pair_of(models);
    double alone = fluid_use(&models[0], 1), held = fluid_use(&models[1], fluid_batch(&models[1], 0));

    models[0].at_once = true;
    cr_expect_float_eq(fluid_batch(&models[0], 0), 1, 1e-9);
    cr_expect_float_eq(fluid_lead(&models[0], 0.5), models[0].slack, 1e-9);
    cr_expect_float_eq(fluid_state(&all, 0).use, alone + held, 1e-9);
    cr_expect_float_eq(fluid_early(&all, alone + held), 0, 1e-6, "nothing is left to the other");
}

/* On however many GPUs: each may have just begun one. */
Test(fluid, all_have_turns_only_where_nobody_waits_too_long_for_what_has_begun)
{
    fluid_model_t short_enough[2] = {model_of(1e-6, 16, 5), model_of(1e-6, 200, 8)},
                  too_long[2] = {model_of(1e-6, 16, 5), model_of(1e-6, 200, 10)}; /* 9 and 11 ms, for 10 */
    const fluid_models_t some = pair_of(short_enough), others = pair_of(too_long);

    cr_expect(fluid_all_have_turns(&some, 1, 1, 0));
    cr_expect_not(fluid_all_have_turns(&others, 1, 1, 0));
    cr_expect_not(fluid_all_have_turns(&others, 100, 1, 0));
    cr_expect(fluid_all_have_turns(&others, 1, 1, 10), "but for what has begun they have");
}

/* It has a batch of 5 ms before it, one that has begun of 10 ms, and what the urgent use in the rest of its slack. */
Test(fluid, all_have_turns_only_where_the_urgent_leave_time_to_the_others)
{
    for (int slack = 60; slack <= 100; slack++) {
        fluid_model_t models[2] = {model_of(0.16, 25, 4),
                                   model_of(1e-6, slack + 10, 9)}; /* .8 of a GPU, a slack of 20 ms */
        const fluid_models_t all = pair_of(models);
        cr_expect_eq(fluid_all_have_turns(&all, 1, 1, 0), 10 + 5 + 0.8 * (slack - 20) <= slack, "%d ms",
                     slack);
        cr_expect_eq(fluid_all_have_turns(&all, 2, 1, 0), 10 + (5 + 0.8 * (slack - 20)) / 2 <= slack, "%d ms",
                     slack);
    }
}

/* Holding makes the batches long that others wait for. */
Test(fluid, all_have_turns_sooner_where_batches_start_early)
{
    fluid_model_t models[2] = {model_of(0.01, 25, 4), model_of(0.1, 400, 9)};
    const fluid_models_t all = pair_of(models);

    cr_expect(fluid_all_have_turns(&all, 4, 1, 0));
    cr_expect_not(fluid_all_have_turns(&all, 4, 0, 0));
}

/* While the one that has begun runs each GPU begins another. */
Test(fluid, all_have_turns_where_there_are_as_many_gpus_as_models)
{
    fluid_model_t models[2] = {model_of(1e-6, 42, 10),
                               model_of(1e-6, 56, 25)}; /* 11 and 26 ms, slacks of 31 and 30 */
    const fluid_models_t all = pair_of(models);

    cr_expect_not(fluid_all_have_turns(&all, 1, 1, 0));
    cr_expect(fluid_all_have_turns(&all, 2, 1, 0));
}

/* Of three coins. */
Test(fluid, fewer_of_many)
{
    cr_expect_eq(fluid_fewer(3, 0.5, 0), 0);
    cr_expect_float_eq(fluid_fewer(3, 0.5, 1), 1.0 / 8, 1e-12);
    cr_expect_float_eq(fluid_fewer(3, 0.5, 2), 4.0 / 8, 1e-12);
    cr_expect_float_eq(fluid_fewer(3, 0.5, 3), 7.0 / 8, 1e-12);
    cr_expect_eq(fluid_fewer(3, 0.5, 4), 1);
    cr_expect_eq(fluid_fewer(3, 1, 3), 0);
    cr_expect_eq(fluid_fewer(3, 0, 1), 1);
    cr_expect_float_eq(fluid_fewer(1000, 0.001, 1), 0.3677, 1e-4);
    cr_expect_float_eq(fluid_fewer(3, 0.5, 1.25), (0.75 * 1 + 0.25 * 4) / 8, 1e-12);
    cr_expect_float_eq(fluid_fewer(3, 0.5, 3.5), (7.0 / 8 + 1) / 2, 1e-12);
}

static double rivals_on(const fluid_models_t *all, uint32_t gpus)
{
    const fluid_state_t at = fluid_state(all, 1);
    return fluid_rivals(all, gpus, &at);
}

/* A model is in the way of one that can wait no longer if it is asked meanwhile: for 20 ms, if turns take longer than twice that. */
Test(fluid, who_is_asked_seldom_is_in_nobodys_way)
{
    fluid_model_t models[COUNT] = {model_of(0.1, 61, 40), model_of(0.1, 61, 40), model_of(0.1, 71, 40)};
    const fluid_models_t all = all_of(models);
    double asked = 1 - exp(-0.1 * 20); /* slacks of 20, 20 and 30 ms */

    cr_expect_float_eq(rivals_on(&all, 1), asked + asked / 2, 1e-9);
    models[1].rate = 1e-9;
    cr_expect_float_eq(rivals_on(&all, 1), asked + asked / 2, 1e-6,
                       "the one that is asked seldom has the other before it");
    models[2].rate = models[0].rate = 1e-9;
    cr_expect_lt(rivals_on(&all, 1), 1e-6);
}

/* On 64 GPUs a batch of 41 ms ends every 0.64 ms: who was asked before that has had its turn. */
Test(fluid, who_was_asked_before_the_last_turn_is_in_nobodys_way)
{
    fluid_model_t models[COUNT] = {model_of(0.1, 61, 40), model_of(0.1, 61, 40), model_of(0.1, 61, 40)};
    const fluid_models_t all = all_of(models);
    double few = rivals_on(&all, 64);

    cr_expect_gt(few, 2 * (1 - exp(-0.1 * 0.32)));
    cr_expect_lt(few, 2 * (1 - exp(-0.1 * 0.4)));
    cr_expect_lt(few, rivals_on(&all, 8));
    cr_expect_lt(rivals_on(&all, 8), rivals_on(&all, 1));
}

/* Of the first six follow where two would at random, of the second hardly more than at random, of the third fewer. */
Test(fluid, who_comes_together_is_a_bunch)
{
    fluid_model_t models[COUNT] = {model_of(0.1, 40, 19), model_of(0.1, 40, 19), model_of(0.2, 40, 19)};
    const fluid_models_t all = all_of(models);

    cr_expect_eq(fluid_bunch(&all), 1);
    models[0].growth = 0.3;
    models[1].growth = 0.105;
    models[2].growth = 0.1;
    cr_expect_float_eq(fluid_bunch(&all), 1 + 0.25 * 0.19 * 20, 1e-9);
    for (int i = 0; i < COUNT; i++)
        models[i].rate = 0;
    cr_expect_eq(fluid_bunch(&all), 1, "nobody comes");
}

/* One keeps .1 · (1 + 5/b) GPUs busy, the other .2 · (1 + 20/b). */
Test(fluid, the_smallest_batch_by_which_the_gpus_are_enough)
{
    fluid_model_t models[COUNT] = {model_of(0.1, 100, 5),
                                   model_of(0.2, 100, 20)}; /* the third is never asked */
    const fluid_models_t all = all_of(models);

    cr_expect_float_eq(fluid_use_alike(&all, 1), 0.6 + 4.2, 1e-9);
    cr_expect_float_eq(fluid_use_alike(&all, 10), 0.15 + 0.6, 1e-9);
    cr_expect_eq(fluid_smallest_batch(&all, 5), 1);
    cr_expect_eq(fluid_smallest_batch(&all, 2.6), 2, "2.55 GPUs");
    cr_expect_eq(fluid_smallest_batch(&all, 2.5), 3);
    cr_expect_eq(fluid_smallest_batch(&all, 0.76), 10);
    cr_expect_eq(fluid_smallest_batch(&all, 0.74), 11);
    cr_expect_eq(fluid_smallest_batch(&all, 0.3), 95, "not even the rows have room");
}

/* A batch of b keeps the part .1 + .05 · b of a GPU busy. */
Test(fluid, the_smallest_batch_on_shared_gpus_though_larger_ones_take_more)
{
    fluid_model_t models[COUNT] = {model_of(1, 100, 20)};
    const fluid_models_t all = all_of(models);

    models[0].alpha = 5;
    models[0].busy_fixed = 0.1;
    models[0].busy_row = 0.05;
    cr_expect_float_eq(fluid_use_alike(&all, 2), 3, 1e-9);
    cr_expect_eq(fluid_smallest_batch(&all, 3.2), 2);
    cr_expect_gt(fluid_use_alike(&all, 50), 3.2);
}

/* Erlang's own: two lines and two calls, and what waits where it may. */
Test(fluid, erlang)
{
    cr_expect_float_eq(fluid_erlang_b(1, 1), 0.5, 1e-12);
    cr_expect_float_eq(fluid_erlang_b(2, 2), 0.4, 1e-12);
    cr_expect_float_eq(fluid_erlang_c(2, 1), 1.0 / 3, 1e-12);
    cr_expect_eq(fluid_erlang_b(0, 1), 1);
    cr_expect_eq(fluid_erlang_b(3, 0), 0);
}

/* 10 ms of slack, of which a request more takes one. All come at once, so nothing but the time limits a batch. */
Test(fluid, batches_of_a_backlog_are_what_still_fits)
{
    fluid_model_t models[COUNT] = {model_of(1, 16, 5)};
    const fluid_models_t all = all_of(models);
    double held = fluid_use(&models[0], fluid_batch(&models[0], 0));

    cr_expect_float_eq(fluid_use_waited(&all, 0), held, 1e-9, "no more than when they are held");
    cr_expect_float_eq(fluid_use_waited(&all, 0.8), fluid_use(&models[0], 3), 1e-9);
    cr_expect_float_eq(fluid_use_waited(&all, 1), fluid_use(&models[0], 1), 1e-9);
    models[0].guard = 2;
    cr_expect_float_eq(fluid_use_waited(&all, 0.8), fluid_use(&models[0], 2), 1e-9, "each takes two by then");
}
