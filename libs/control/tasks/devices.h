/*
 * Devices of workers in their sub-clusters: joining, failing, draining, leaving. A device belongs to its worker.
 */
#ifndef CONTROL_TASKS_DEVICES_H
#define CONTROL_TASKS_DEVICES_H

#include "control/tasks/task.h"

/* Those that Hello names, each in a sub-cluster of its class. Not OK: some may have joined all the same. */
status_t devices_add(tasks_t *tasks, worker_t *worker, const Control__Hello *hello, err_t *err);
void devices_remove(tasks_t *tasks, worker_t *worker);
void device_state(tasks_t *tasks, worker_t *worker, const Control__DeviceState *state);
void device_settle(tasks_t *tasks, device_t *device); /* after a batch ended: finish a drain or its end */
void device_sync(tasks_t *tasks,
                 device_t *device); /* brings the sub-cluster in line with the device's flags */

#endif
