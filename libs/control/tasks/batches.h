/*
 * Batches that were granted, until they end: well, badly, or with the device that ran them. Pool slots. Hot.
 */
#ifndef CONTROL_TASKS_BATCHES_H
#define CONTROL_TASKS_BATCHES_H

#include "control/tasks/task.h"

struct batch {
    uint64_t id;      /* on the wire: unique in the epoch */
    uint64_t core_id; /* in its sub-cluster */
    device_t *device;
    struct batch *prev, *next; /* of the same device */
    task_t *first;
    uint32_t model, count;
    int64_t granted_ns;
};

batch_t *batch_make(tasks_t *tasks, device_t *device, const sched_action_t *action); /* NULL without memory */
void batch_give(tasks_t *tasks, batch_t *batch);             /* its tasks must have been taken care of */
batch_t *batch_of(const device_t *device, uint64_t core_id); /* that runs there; NULL: no such */
int64_t batch_latest_answer_ns(const batch_t *batch);        /* INT64_MIN: it has no tasks */
/* The device that it ran on; NULL: there was no such batch. */
device_t *batch_done(tasks_t *tasks, worker_t *worker, const Control__BatchDone *done);
void batches_device_lost(tasks_t *tasks, device_t *device); /* their tasks are tried again elsewhere */

#endif
