/*
 * Batches that the core has stopped, until their worker says how that ended. Their tasks wait in the core
 * again; a batch that had ended before the word reached it has answered them all the same.
 */
#ifndef CONTROL_TASKS_REVOKED_H
#define CONTROL_TASKS_REVOKED_H

#include "control/tasks/batches.h"

void revoked_note(const tasks_t *tasks, const batch_t *batch); /* while its tasks are still its own */
/* False: none such. */
bool revoked_done(tasks_t *tasks, worker_t *worker, const Control__BatchDone *done);
void revoked_forget(device_t *device);

#endif
