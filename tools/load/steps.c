#include "load/steps.h"

#include "base/clock.h"

int64_t step_at_ns(const rate_step_t *step)
{
    return (int64_t)(step->at_s * (double)NS_PER_S);
}

void step_apply(const rate_step_t *step, flow_t *flows, uint32_t flow_count)
{
    for (uint32_t i = 0; i < flow_count; i++)
        if (step->model == RATE_STEP_ALL || step->model == i)
            arrivals_set_rate(&flows[i].arrivals, step_at_ns(step), flows[i].rate_per_s * step->factor);
}
