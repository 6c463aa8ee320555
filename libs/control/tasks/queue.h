/* Into the queues of the core, for the first time and again. */
#ifndef CONTROL_TASKS_QUEUE_H
#define CONTROL_TASKS_QUEUE_H

#include "control/tasks/task.h"

/* To the sub-cluster that serves its model now. NOT_FOUND: none does; UNAVAILABLE: full, or its shape is not taken. */
status_t task_enqueue(tasks_t *tasks, task_t *task);

/* Nobody waits for it any more: what waits is given back at once; what is granted goes on for nobody. */
void task_withdraw(tasks_t *tasks, task_t *task);

#endif
