/* A small cluster and what befalls it, all from one seed. */
#ifndef TEST_VIRTUAL_SCENARIO_H
#define TEST_VIRTUAL_SCENARIO_H

#include "virtual/cluster.h"

enum { SCENARIO_MODELS = 3, SCENARIO_REQUESTS = 300, SCENARIO_FAULTS = 12 };

typedef struct {
    virtual_cluster_options_t options;
    virtual_model_t models[SCENARIO_MODELS];
    virtual_request_t requests[SCENARIO_REQUESTS];
    virtual_fault_t faults[SCENARIO_FAULTS];
    uint32_t fault_count;
    int64_t
        end_ns; /* requests and faults are over, and so are the last deadlines and the healing of the last fault */
} scenario_t;

/* faults: with those that the seed says, else none. */
void scenario_make(scenario_t *scenario, uint64_t seed, bool faults);

#endif
