/* A simulated cluster with a zoo of tests/sim/zoo, for tests. Whatever fails is a failed assertion. */
#ifndef TESTS_UNIT_SIM_WORLD_H
#define TESTS_UNIT_SIM_WORLD_H

#include "sim/simulation.h"

typedef struct {
    profile_entry_t *models;
    uint32_t count;
    workload_t workload;
    simulation_config_t config;
} world_t;

/* Five seconds behind one that does not count, with seed 7; change what else is wanted. From the repository's root, where tests run. */
void world_start(world_t *world, const char *zoo, uint32_t gpus, const char *policy, double rate_rps);
void world_stop(world_t *world);

/* The result is the caller's. */
simulation_result_t *world_run(world_t *world);

#endif
