/*
 * A whole cluster in one thread and no time: the control plane that the service runs, with virtual gateways and workers on a
 * virtual network, fed with requests and faults at given times. Same options and same lists, same run.
 *
 * What it watches over: each task ends once, no batch runs twice, no device is granted more than it may have under way, and when
 * all is quiet nothing is left in the control plane.
 */
#ifndef VIRTUAL_CLUSTER_H
#define VIRTUAL_CLUSTER_H

#include "virtual/worker.h"

typedef struct virtual_cluster virtual_cluster_t;

typedef struct {
    int64_t at_ns;
    uint32_t gateway, model;
    int64_t budget_ns;
    uint32_t priority;
} virtual_request_t;

typedef enum {
    FAULT_GATEWAY_LINK, /* index: of the gateway */
    FAULT_GATEWAY_CRASH,
    FAULT_GATEWAY_CANCEL, /* the client of one of its open tasks goes */
    FAULT_WORKER_LINK,    /* index: of the worker */
    FAULT_WORKER_CRASH,
    FAULT_WORKER_DRAIN,
    FAULT_WORKER_UNDRAIN,
    FAULT_WORKER_LEAVE, /* drained, and another process in its place */
    FAULT_SCHEDULER,    /* killed, and started anew */
    FAULT_LOAD,         /* index: of the model, asked for through the first gateway */
    FAULT_UNLOAD,
    FAULT_PLAN,   /* which sub-cluster is to serve which model: made and carried out */
    FAULT_POLICY, /* index: of the policy, by the order of libs/sched, from now on */
    FAULTS,
} virtual_fault_kind_t;

typedef struct {
    int64_t at_ns;
    virtual_fault_kind_t kind;
    uint32_t index;
} virtual_fault_t;

typedef struct {
    network_options_t network;
    control_options_t control;
    uint32_t gateways, workers, devices; /* devices: of each worker */
    const virtual_model_t *models;       /* on each worker */
    uint32_t model_count;
    const char *const *classes; /* of the workers' devices, in turn; NULL: all alike */
    uint32_t class_count;
    int64_t fetch_ns;
    double jitter, failures;     /* of workers */
    const virtual_vice_t *vices; /* of each worker; NULL: all are honest */
    int64_t vice_from_ns, vice_until_ns;
    uint32_t deaf_gateways;                               /* the first ones */
    uint32_t heedless_gateways;                           /* the first ones, too */
    void (*ran)(void *ctx, const virtual_batch_t *batch); /* optional */
    void *ctx;
} virtual_cluster_options_t;

typedef struct {
    uint64_t ends[TASK_ENDS];        /* TASK_OPEN: have not ended */
    uint64_t batches, rows;          /* that ran to their end */
    uint64_t tasks_sent, bytes_sent; /* by gateways, to the scheduler */
    uint64_t strikes;        /* workers shunned for what they did, since the scheduler has started last */
    uint64_t device_strikes; /* likewise, single devices of theirs */
    uint64_t measures;       /* times that a worker was asked to measure a model anew */
    uint32_t outliers;       /* profiles of workers that count for nothing now */
    uint64_t digest;         /* of the whole run */
    const char *violation;   /* the first, or NULL */
    int64_t violation_ns;
} virtual_tally_t;

/* requests, faults: by time; theirs as long as the cluster. INVALID_ARGUMENT as control_create. */
status_t virtual_cluster_create(const virtual_cluster_options_t *options, const virtual_request_t *requests,
                                uint64_t request_count, const virtual_fault_t *faults, uint32_t fault_count,
                                virtual_cluster_t **cluster, err_t *err);
void virtual_cluster_destroy(virtual_cluster_t *cluster); /* NULL is fine */

void virtual_cluster_run(virtual_cluster_t *cluster, int64_t until_ns);
/* What became of it so far. */
const virtual_tally_t *virtual_cluster_tally(virtual_cluster_t *cluster);
/* Its scheduler's, as it is now; another one after FAULT_SCHEDULER. */
control_t *virtual_cluster_control(const virtual_cluster_t *cluster);
/* How that request, by its place in the list, has ended so far. */
task_end_t virtual_cluster_end(const virtual_cluster_t *cluster, uint64_t request);
/* When requests and faults are over and the last deadline has passed: NULL, or what is left that should not be. */
const char *virtual_cluster_leftover(const virtual_cluster_t *cluster);

#endif
