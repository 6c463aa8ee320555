#include "world.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void world_start(world_t *world, const char *zoo, uint32_t gpus, const char *policy, double rate_rps)
{
    char path[128];
    err_t err;
    memset(world, 0, sizeof(*world));
    snprintf(path, sizeof(path), "tests/sim/zoo/%s.csv", zoo);
    cr_assert_eq(profile_csv_read(path, &world->models, &world->count, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(workload_init(&world->workload, world->models, world->count, NULL, &err), STATUS_OK, "%s",
                 err.text);
    world->workload.rate_rps = rate_rps;
    world->config = (simulation_config_t){
        .workload = &world->workload, .gpus = gpus, .policy = policy, .seconds = 5, .warmup_s = 1, .seed = 7};
}

void world_stop(world_t *world)
{
    workload_dispose(&world->workload);
    free(world->models);
}

simulation_result_t *world_run(world_t *world)
{
    simulation_result_t *result;
    err_t err;
    cr_assert_eq(simulation_run(&world->config, &result, &err), STATUS_OK, "%s: %s", world->config.policy,
                 err.text);
    return result;
}
