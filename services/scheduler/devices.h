/*
 * Devices of workers in their sub-clusters: joining, failing, draining, leaving. A device belongs to its worker.
 */
#ifndef SCHEDULER_DEVICES_H
#define SCHEDULER_DEVICES_H

#include "base/status.h"
#include "control.pb-c.h"
#include "sched/sched.h"
#include "scheduler/registry.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct worker worker_t;
typedef struct subcluster subcluster_t;
typedef struct batch batch_t;
typedef struct revoked revoked_t;

enum { DEVICES_PER_WORKER_MAX = 1024 }; /* emulated ones; a host has 16 real ones at most */

typedef struct device {
    worker_t *worker;
    subcluster_t *subcluster;
    uint32_t index;              /* in the worker */
    uint32_t gpu;                /* its seat in the sub-cluster */
    bool open, failed, draining; /* open: the sub-cluster knows of it */
    sched_gpu_mode_t mode;
    char name[PEER_NAME_BYTES];
    char kind[16];
    uint64_t memory_bytes;
    batch_t *batches;
    uint32_t inflight;
    revoked_t *revoked; /* told to stop, and not heard of since */
} device_t;

/* Those that Hello names, each in a sub-cluster of its class. Not OK: some may have joined all the same. */
status_t devices_add(worker_t *worker, const Control__Hello *hello, err_t *err);
void devices_remove(worker_t *worker);
void device_state(worker_t *worker, const Control__DeviceState *state);
bool device_serves(const device_t *device); /* takes grants */
void device_settle(device_t *device);       /* after a batch ended: finish a drain or its end */
void device_sync(device_t *device);         /* brings the sub-cluster in line with the device's flags */

#endif
