/* How much of what is idle is spent, and how far bunches are kept together. */
#include "sched/room.h"

#include <criterion/criterion.h>

enum { COUNT = 2 };

/* Latency b + beta. growth: so many times as much waiting brings as it would at random. */
static fluid_model_t model_of(double rate, double slo, double beta, double growth)
{
    fluid_model_t model = {
        .rate = rate, .growth = growth * rate, .least = 1, .slo = slo, .alpha = 1, .beta = beta, .guard = 1};

    model.slack = slo - model.alpha - beta;
    model.most = slo - beta;
    return model;
}

static fluid_models_t all_of(fluid_model_t *models, uint32_t count)
{
    return (fluid_models_t){.first = models, .count = count, .stride = sizeof *models};
}

static double kept_together(fluid_model_t model, uint32_t gpus, double early)
{
    const room_t room = {.chance = 0.008, .dispersion = 5, .worst = 1};
    const fluid_models_t all = all_of(&model, 1);
    const fluid_state_t held = fluid_state(&all, 0);

    return room_keep_together(&room, &all, gpus, &held, early);
}

/* A batch of one takes 7 ms, longer than anybody can wait: 4.2 ms. */
Test(room, bunches_are_kept_together_where_gpus_are_few)
{
    const fluid_model_t tight = model_of(0.35, 11.2, 6, 3), at_random = model_of(0.35, 11.2, 6, 1);

    cr_expect_eq(kept_together(tight, 8, 1), 1);
    cr_expect_lt(kept_together(tight, 64, 1), 1e-3, "there is one for each");
    cr_expect_lt(kept_together(at_random, 16, 1), 1e-3, "these are none");
}

Test(room, bunches_are_split_where_batches_of_one_end_in_time)
{
    const fluid_model_t patient = model_of(0.35, 35, 6, 3); /* a slack of four of them */

    cr_expect_eq(kept_together(patient, 8, 1), 0);
}

Test(room, bunches_are_kept_together_where_batches_are_held)
{
    const fluid_model_t patient = model_of(0.35, 35, 6, 3);

    cr_expect_eq(kept_together(patient, 8, 0), 1);
    cr_expect_eq(kept_together(patient, 8, 0.9), 1);
    cr_expect_float_eq(kept_together(patient, 8, 0.98), 0.4, 1e-9);
}

/* Two models, and all of them held. */
typedef struct {
    fluid_model_t models[COUNT];
    fluid_models_t all;
    fluid_state_t held;
    room_t room;
} pair_t;

static void set_pair(pair_t *pair, fluid_model_t one, fluid_model_t other, double worst)
{
    *pair = (pair_t){.models = {one, other}, .room = {.chance = 0.008, .dispersion = 1, .worst = worst}};
    pair->all = all_of(pair->models, COUNT);
    pair->held = fluid_state(&pair->all, 0);
}

/* GPUs that may be busy, with an SLO of 20 ms beside one of 400. */
static double spent(fluid_model_t other, uint32_t gpus, double worst)
{
    pair_t pair;
    set_pair(&pair, model_of(0.2, 20, 4, 1), other, worst);
    return room_spend(&pair.room, &pair.all, gpus, &pair.held, 0);
}

Test(room, what_bursts_want_is_left_to_them)
{
    const fluid_model_t other = model_of(0.2, 400, 4, 1);
    double quiet = spent(other, 4, 0), some = spent(other, 4, 0.9), many = spent(other, 4, 2.8);

    cr_expect_gt(quiet, 0);
    cr_expect_leq(some, quiet);
    cr_expect_lt(many, some);
}

/* Batches of 60 ms beside a slack of 15. By chance alone 1.44 of the 3 GPUs might be busy. */
Test(room, in_bursts_fewer_are_spent_where_longer_batches_shut_out)
{
    cr_expect_lt(spent(model_of(0.034, 400, 59, 1), 3, 0.2), 1.3);
}

/* None has started early yet. */
static room_reserve_t reserved(fluid_model_t one, fluid_model_t other, uint32_t gpus, double worst)
{
    pair_t pair;
    set_pair(&pair, one, other, worst);
    return room_reserve(&pair.room, &pair.all, gpus, &pair.held, 0);
}

/* Batches of 30 ms beside a slack of 15, on 4 GPUs: all start at once but on the last one. With four times as many of the long more must
 * stay free, or they start later; when all are needed none is left. */
Test(room, gpus_are_left_to_whoever_cannot_wait)
{
    const fluid_model_t tight = model_of(0.01, 20, 4, 1);
    room_reserve_t few = reserved(tight, model_of(0.03, 130, 29, 1), 4, 0),
                   more = reserved(tight, model_of(0.12, 130, 29, 1), 4, 0),
                   full = reserved(tight, model_of(2.5, 130, 29, 1), 4, 0);

    cr_expect_eq(few.idle, 2);
    cr_expect_eq(few.early, 1);
    cr_expect_gt(few.use, 0.7, "the long take .9 of a GPU if all go at once");
    cr_expect_lt(few.use, 0.96);
    cr_expect_gt(more.idle, 0);
    cr_expect(more.idle > few.idle || more.early < 1);
    cr_expect_eq(full.idle, 0);
}

/* 1.6 of the two would be busy, more than one of them bears, and hardly more is lost then than may be: with one left it is half of that. */
Test(room, one_gpu_is_left_where_the_others_are_not_enough)
{
    room_reserve_t reserve = reserved(model_of(0.085, 32, 12, 1), model_of(0.02, 63, 22, 1), 2, 0);

    cr_expect_eq(reserve.idle, 2);
    cr_expect_eq(reserve.early, 1);
    cr_expect_not(reserve.strictly, "large batches may take it, too");
}

Test(room, none_are_left_in_bursts)
{
    const fluid_model_t tight = model_of(0.01, 20, 4, 1), other = model_of(0.03, 130, 29, 1);

    cr_expect_eq(reserved(tight, other, 4, 0.5).idle, 0);
}

Test(room, one_gpu_has_none_to_leave)
{
    const fluid_model_t tight = model_of(0.001, 20, 4, 1), other = model_of(0.001, 130, 29, 1);

    cr_expect_eq(reserved(tight, other, 1, 0).idle, 0);
    cr_expect_eq(reserved(tight, other, 2, 0).idle, 2);
}

/* Everybody who waits is of that model. */
Test(room, one_model_alone_leaves_none)
{
    const fluid_model_t tight = model_of(0.01, 20, 4, 1), other = model_of(0.12, 130, 29, 1), none = {0};

    cr_expect_gt(reserved(tight, other, 4, 0).idle, 0);
    cr_expect_eq(reserved(none, model_of(0.2, 42, 29, 1), 4, 0).idle, 0);
}

/* GPUs that may be busy with one model alone. */
static double spent_alone(fluid_model_t model, uint32_t gpus, double worst)
{
    const room_t room = {.chance = 0.008, .dispersion = 1, .worst = worst};
    const fluid_models_t all = all_of(&model, 1);
    const fluid_state_t held = fluid_state(&all, 0);

    return room_spend(&room, &all, gpus, &held, 0);
}

/* On 16 GPUs, with a slack of 4.2 ms or of 28 for batches of 7: held, 8.4 of them would be busy with the former, but a backlog has no time for
 * such batches. */
Test(room, one_model_alone_is_held_where_its_backlogs_find_no_time_to_grow)
{
    cr_expect_lt(spent_alone(model_of(3.5, 11.2, 6, 1), 16, 0), 9.5);
    cr_expect_gt(spent_alone(model_of(3.5, 35, 6, 1), 16, 0), 15);
    cr_expect_gt(spent_alone(model_of(2, 11.2, 6, 1), 16, 0), 13.9, "all may start at once");
}

/* Batches of one take 20 ms beside a slack of 19, and eight come together. They are no bursts where as many come in each interval. */
Test(room, one_model_alone_is_held_where_its_bunches_would_be_split_in_vain)
{
    cr_expect_gt(spent_alone(model_of(0.08, 39, 19, 1), 4, 0), 1.5, "at random");
    cr_expect_lt(spent_alone(model_of(0.08, 39, 19, 4), 4, 0), 0.4, "as many as while all are held");
    cr_expect_gt(spent_alone(model_of(0.08, 39, 19, 4), 64, 0), 1.5, "there is one for each");
}

/* A batch of one takes 7 ms, and a request can wait for 4.2. */
Test(room, who_comes_evenly_to_one_gpu_starts_at_once)
{
    const fluid_model_t at_random = model_of(0.1, 11.2, 6, 1), evenly = model_of(0.1, 11.2, 6, 0.5);
    fluid_model_t waits = evenly;

    waits.least = 2; /* clients that wait for their answers, two of them */
    cr_expect_lt(spent_alone(at_random, 1, 0), 0.6);
    cr_expect_float_eq(spent_alone(evenly, 1, 0), 0.7, 1e-9);
    cr_expect_leq(spent_alone(evenly, 1, 0.1), 0.6 + 1e-9, "not in bursts");
    cr_expect_leq(spent_alone(waits, 1, 0), 0.4 + 1e-9);
    cr_expect_lt(spent_alone(model_of(0.15, 11.2, 6, 0.5), 1, 0), 0.98 + 1e-9, "as far as there is time");
}
