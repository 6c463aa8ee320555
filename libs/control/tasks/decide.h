/*
 * Lets the sub-clusters decide, and puts what they have decided where it is sent from: grants, drops and stops. Hot.
 *
 * Whatever happens in one turn (many messages) is told to the sub-clusters first; each then decides once.
 */
#ifndef CONTROL_TASKS_DECIDE_H
#define CONTROL_TASKS_DECIDE_H

#include "control/tasks/task.h"

/* Those that have something to decide. Returns when the next of them is due. */
int64_t decide(tasks_t *tasks);
/* Those that asked to be looked at again by now. */
void decide_due(tasks_t *tasks);

#endif
