/*
 * Rows that workers reported done in time, lately: a gateway that never got the result of one tells of it when the answer was
 * due, and by then the task is forgotten. Bounded: of more than HANDED_ROWS the older ones are believed to have arrived.
 */
#ifndef CONTROL_TASKS_HANDED_H
#define CONTROL_TASKS_HANDED_H

#include "control/tasks/task.h"

enum { HANDED_ROWS = 16384 }; /* of half a second, at 32,000 rows/s: 640 KB */

struct handed {
    uint64_t gateway, task, worker; /* of processes: instance ids; gateway 0: none here */
    uint32_t model, worker_index;
};

status_t handed_init(tasks_t *tasks, err_t *err);
void handed_dispose(tasks_t *tasks);
/* Hot. */
void handed_note(tasks_t *tasks, const task_t *task, const worker_t *worker);
/* Whether what it says of workers counts: not while it misses much, and other gateways do not. */
bool handed_believes(const tasks_t *tasks, gateway_t *gateway);
/* It never arrived: that counts against the worker. Nothing where nothing is known of the task. */
void handed_missed(tasks_t *tasks, gateway_t *gateway, uint64_t task);

#endif
