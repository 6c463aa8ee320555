/*
 * Rates that change during a run (base/rate_steps.h): steps become new rates of flows.
 *
 * Pure. Offsets are from the start of the run, so that the times of the requests still come from the seed alone.
 */
#ifndef LOAD_STEPS_H
#define LOAD_STEPS_H

#include "load/runner.h"

/* When the step is due. */
int64_t step_at_ns(const rate_step_t *step);
/* Gives its flows their new rates from then on. No arrival before that time may be left to take. */
void step_apply(const rate_step_t *step, flow_t *flows, uint32_t flow_count);

#endif
