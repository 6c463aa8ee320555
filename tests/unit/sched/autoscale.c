#include "sched/autoscale.h"

#include <criterion/criterion.h>

typedef struct {
    autoscale_t autoscale;
    autoscale_sums_t sums;
    int64_t now_ns;
    uint32_t gpus;
} world_t;

static void start(world_t *world, uint32_t gpus)
{
    *world = (world_t){.gpus = gpus};
    autoscale_init(&world->autoscale, &autoscale_defaults);
    autoscale_observe(&world->autoscale, 0, gpus, &world->sums);
}

/* One second at a bad rate and with a part of the GPUs busy. */
static int32_t second(world_t *world, double bad, double busy)
{
    world->now_ns += 1000000000;
    world->sums.requests += 1000;
    world->sums.bad += (uint64_t)(1000 * bad + 0.5);
    world->sums.busy_ns += (uint64_t)(1e9 * busy * world->gpus);
    return autoscale_observe(&world->autoscale, world->now_ns, world->gpus, &world->sums);
}

static int32_t seconds(world_t *world, int count, double bad, double busy)
{
    int32_t advice = 0;
    for (int i = 0; i < count; i++)
        advice = second(world, bad, busy);
    return advice;
}

/* A thousand GPUs that are busy all the time fill 64 bits of nanoseconds in 213 days. */
Test(autoscale, sums_that_wrap_change_nothing)
{
    world_t world;
    start(&world, 40);
    world.sums.busy_ns = UINT64_MAX - UINT64_C(20000000000);
    world.sums.requests = UINT64_MAX - 1500;
    world.gpus = 39; /* another number of GPUs begins a new window */
    (void)second(&world, 0, 0.5);
    for (int i = 0; i < 5; i++)
        (void)second(&world, 0.02, 0.5);
    cr_assert_float_eq(world.autoscale.idle_fraction, 0.5, 1e-6);
    cr_assert_float_eq(world.autoscale.bad_rate, 0.02, 1e-6);
}

/* At an offered load o over the peak p a flat top loses (o - p)/o; with N·r/(1 - r) more GPUs the peak is o. */
Test(autoscale, adds_what_the_bad_rate_says_is_missing)
{
    for (double over = 1.05; over < 3; over += 0.1) {
        world_t world;
        start(&world, 40);
        double bad = (over - 1) / over;
        cr_assert_eq(seconds(&world, 4, bad, 1), 0, "not before the window ends");
        int32_t advice = second(&world, bad, 1);
        cr_assert_float_eq(advice, 40 * (over - 1), 1.5, "%.2f times the peak: %d", over, advice);
        world.gpus += (uint32_t)advice;
        cr_assert_eq(seconds(&world, 10, 0.005, 0.95), 0, "and then it is content");
    }
}

Test(autoscale, releases_what_was_idle_all_the_time_less_a_reserve)
{
    world_t world;
    start(&world, 40);
    cr_assert_eq(seconds(&world, 29, 0, 0.4), 0);
    cr_assert_eq(second(&world, 0, 0.4), -20, "60 %% idle, 10 %% of reserve");
    world.gpus = 20;
    cr_assert_eq(seconds(&world, 31, 0, 0.8), -2, "a second to see the change, then six windows");
    world.gpus = 18;
    cr_assert_eq(seconds(&world, 60, 0, 0.9), 0, "what is left is the reserve");
}

Test(autoscale, a_short_lull_releases_nothing)
{
    world_t world;
    start(&world, 40);
    for (int i = 0; i < 20; i++) {
        cr_assert_eq(seconds(&world, 20, 0, 0.2), 0);
        cr_assert_eq(seconds(&world, 10, 0, 0.95), 0);
    }
}

Test(autoscale, bad_requests_put_off_a_release)
{
    world_t world;
    start(&world, 40);
    seconds(&world, 25, 0, 0.5);
    cr_assert_gt(seconds(&world, 5, 0.05, 0.5), 0);
    cr_assert_eq(seconds(&world, 25, 0, 0.5), 0);
    cr_assert_lt(seconds(&world, 5, 0, 0.5), 0);
}

Test(autoscale, keeps_one_gpu_and_asks_for_one_when_there_is_none)
{
    world_t world;
    start(&world, 1);
    cr_assert_eq(seconds(&world, 100, 0, 0), 0);
    start(&world, 3);
    cr_assert_eq(seconds(&world, 30, 0, 0), -2);
    cr_assert_eq(autoscale_observe(&world.autoscale, world.now_ns, 0, &world.sums), 1);
    start(&world, 2);
    cr_assert_eq(seconds(&world, 5, 1, 1), 18, "all lost: tenfold at most");
}
