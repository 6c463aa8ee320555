/*
 * The autoscaling advice under a closed loop: an operator follows it, GPUs come late, and what is seeded at
 * random is the load, the GPUs at the start and how late they come. On a constant load the number of GPUs
 * settles and stays; it follows a ramp up and down.
 */
#include "base/prng.h"
#include "sim/bound.h"
#include "sim/simulation.h"
#include "support/cases.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MODELS = 3, GPUS = 40, SECONDS = 300, SETTLED = 150, TOP_GPUS = 25, SEEDS = CASES(6) };

typedef struct {
    const char *name, *params;
} loop_policy_t;

/* Flat-topped ones: plain deferral, once overloaded, does not come back even with twice the GPUs that it needs. */
static const loop_policy_t policies[] = {{"fermata", NULL}, {"deferred", "drop=window"}};
enum { POLICIES = sizeof(policies) / sizeof(policies[0]) };

typedef struct {
    profile_entry_t models[MODELS];
    workload_t workload;
    simulation_config_t config;
    simulation_second_t seconds[SECONDS + 1];
    uint32_t count;
    char name[64]; /* for messages */
} world_t;

static void on_second(void *ctx, const simulation_second_t *second)
{
    world_t *world = ctx;
    if (world->count <= SECONDS)
        world->seconds[world->count++] = *second;
}

/* load: GPUs that the fluid view asks for. */
static void start(world_t *world, const loop_policy_t *policy, prng_t *prng, double load, uint64_t seed)
{
    err_t err;
    memset(world, 0, sizeof(*world));
    for (int m = 0; m < MODELS; m++) {
        int64_t alpha_ns = prng_range(prng, 2000000, 6000000), beta_ns = prng_range(prng, 10000000, 40000000);
        world->models[m].weight = 1;
        world->models[m].slo_ns = 2 * (8 * alpha_ns + beta_ns) + 20000000;
        cr_assert_eq(profile_from_line(&world->models[m].profile, alpha_ns, beta_ns, 256, &err), STATUS_OK);
    }
    cr_assert_eq(workload_init(&world->workload, world->models, MODELS, NULL, &err), STATUS_OK);
    world->workload.rate_rps = bound_rate_rps(&world->workload, GPUS) * load / GPUS;
    world->config = (simulation_config_t){.workload = &world->workload,
                                          .gpus = GPUS,
                                          .policy = policy->name,
                                          .params = policy->params,
                                          .seconds = SECONDS,
                                          .seed = seed,
                                          .autoscale = &autoscale_defaults,
                                          .start_gpus = 1 + (uint32_t)prng_below(prng, GPUS),
                                          .provision_s = (double)prng_below(prng, 15),
                                          .on_second = on_second,
                                          .ctx = world};
    snprintf(world->name, sizeof(world->name), "%s, seed %llu, %.1f GPUs of load, %u at first", policy->name,
             (unsigned long long)seed, load, world->config.start_gpus);
}

static void run(world_t *world)
{
    simulation_result_t *result;
    err_t err;
    cr_assert_eq(simulation_run(&world->config, &result, &err), STATUS_OK, "%s: %s", world->name, err.text);
    simulation_result_dispose(result);
    workload_dispose(&world->workload);
    cr_assert_geq(world->count, SECONDS, "%s: %u seconds", world->name, world->count);
}

static double bad_rate(const world_t *world, uint32_t from, uint32_t to)
{
    double arrived = 0, bad = 0;
    for (uint32_t s = from; s < to; s++) {
        arrived += (double)world->seconds[s].arrived;
        bad += (double)world->seconds[s].bad;
    }
    return bad / arrived;
}

/* How often the number of GPUs changes its direction. */
static unsigned turns(const world_t *world, uint32_t from, uint32_t to)
{
    unsigned count = 0;
    int direction = 0;
    for (uint32_t s = from + 1; s < to; s++) {
        uint32_t before = world->seconds[s - 1].gpus, now = world->seconds[s].gpus;
        int this = now > before ? 1 : now < before ? -1 : direction;
        count += direction && this != direction;
        direction = this;
    }
    return count;
}

Test(loop, settles_on_a_constant_load, .timeout = 300)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        for (unsigned p = 0; p < POLICIES; p++) {
            static world_t world;
            prng_t prng;
            prng_init(&prng, seed);
            double load = 4 + 24 * prng_uniform(&prng);
            start(&world, &policies[p], &prng, load, seed);
            run(&world);
            double last = world.seconds[SECONDS - 1].gpus;
            cr_assert_leq(turns(&world, 0, SECONDS), 2, "%s: the GPUs oscillate", world.name);
            cr_assert_eq(turns(&world, SETTLED, SECONDS), 0, "%s: and go on to", world.name);
            cr_assert_leq(fabs(last - world.seconds[SETTLED].gpus), fmax(1, 0.1 * last),
                          "%s: at %u, then at %.0f", world.name, world.seconds[SETTLED].gpus, last);
            cr_assert_geq(last, load, "%s: %.0f GPUs", world.name, last);
            cr_assert_leq(last, 1.45 * load + 1, "%s: %.0f GPUs", world.name, last);
            cr_assert_leq(bad_rate(&world, SETTLED, SECONDS), 0.01, "%s: %.4f lost", world.name,
                          bad_rate(&world, SETTLED, SECONDS));
        }
    }
}

/* The load is a fifth, rises fivefold from 40 to 140 s, and falls again from 180 to 200 s. */
static void ramp(world_t *world, rate_step_t *steps)
{
    for (uint32_t s = 0; s < SECONDS; s++) {
        double part = s < 140 ? 0.2 + 0.008 * fmax(s - 40.0, 0) : fmax(1 - 0.04 * fmax(s - 180.0, 0), 0.2);
        steps[s] = (rate_step_t){.at_s = s, .model = RATE_STEP_ALL, .factor = part};
    }
    world->workload.steps = steps;
    world->workload.step_count = SECONDS;
}

Test(loop, follows_a_ramp_up_and_down, .timeout = 300)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        for (unsigned p = 0; p < POLICIES; p++) {
            static world_t world;
            static rate_step_t steps[SECONDS];
            prng_t prng;
            prng_init(&prng, seed);
            start(&world, &policies[p], &prng, TOP_GPUS, seed);
            ramp(&world, steps);
            run(&world);
            uint32_t top = world.seconds[179].gpus, last = world.seconds[SECONDS - 1].gpus;
            cr_assert(top >= TOP_GPUS && top <= 1.3 * TOP_GPUS, "%s: %u GPUs at the top", world.name, top);
            cr_assert_leq(last, 0.45 * TOP_GPUS, "%s: %u GPUs at the end", world.name, last);
            cr_assert_leq(bad_rate(&world, 40, 140), 0.25, "%s: %.4f lost on the way up", world.name,
                          bad_rate(&world, 40, 140));
            cr_assert_leq(bad_rate(&world, 160, 180), 0.015, "%s: %.4f lost at the top", world.name,
                          bad_rate(&world, 160, 180));
            cr_assert_leq(bad_rate(&world, 220, SECONDS), 0.01, "%s: %.4f lost at the end", world.name,
                          bad_rate(&world, 220, SECONDS));
        }
    }
}
