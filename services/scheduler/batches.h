/*
 * Batches that were granted, until they end: well, badly, or with the device that ran them. Pool slots. Hot.
 */
#ifndef SCHEDULER_BATCHES_H
#define SCHEDULER_BATCHES_H

#include "control.pb-c.h"
#include "sched/sched.h"

#include <stdint.h>

typedef struct scheduler scheduler_t;
typedef struct worker worker_t;
typedef struct device device_t;
typedef struct task task_t;

typedef struct batch {
    uint64_t id;      /* on the wire: unique in the epoch */
    uint64_t core_id; /* in its sub-cluster */
    device_t *device;
    struct batch *prev, *next; /* of the same device */
    task_t *first;
    uint32_t model, count;
    int64_t granted_ns;
} batch_t;

batch_t *batch_make(scheduler_t *s, device_t *device, const sched_action_t *action); /* NULL without memory */
void batch_give(scheduler_t *s, batch_t *batch);             /* its tasks must have been taken care of */
batch_t *batch_of(const device_t *device, uint64_t core_id); /* that runs there; NULL: no such */
void batch_done(worker_t *worker, const Control__BatchDone *done);
void batches_device_lost(device_t *device); /* their tasks are tried again elsewhere */

#endif
