/* Plans are solved on a thread of their own, CBC in a process of its own. */
#ifndef SCHEDULER_SOLVER_H
#define SCHEDULER_SOLVER_H

#include "base/status.h"
#include "control/cluster/world.h"

typedef struct scheduler scheduler_t;

status_t solver_start(scheduler_t *s, err_t *err);
/* What is being solved ends within a tenth of a second, and the control plane is told. */
void solver_stop(scheduler_t *s);

/* For the world. */
status_t solver_solve(void *scheduler, plan_job_t *jobs, uint32_t count);

#endif
