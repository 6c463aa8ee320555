/* A worker as the rooms below its stream see it: its devices, and what it is to be told at the end of the turn. */
#ifndef CONTROL_CLUSTER_WORKER_H
#define CONTROL_CLUSTER_WORKER_H

#include "control.pb-c.h"
#include "control/cluster/peer.h"
#include "control/cluster/standing.h"
#include "sched/sched.h"

typedef struct subcluster subcluster_t;
typedef struct batch batch_t;
typedef struct revoked revoked_t;
typedef struct command command_t;
typedef struct worker worker_t;
typedef struct instance instance_t;

enum { DEVICES_PER_WORKER_MAX = 1024 }; /* emulated ones; a host has 16 real ones at most */

typedef struct device {
    worker_t *worker;
    subcluster_t *subcluster;
    uint32_t index;              /* in the worker */
    uint32_t gpu;                /* its seat in the sub-cluster */
    bool open, failed, draining; /* open: the sub-cluster knows of it */
    bool ceased;                 /* open, and the sub-cluster was told to grant it no more */
    sched_gpu_mode_t mode;
    char name[PEER_NAME_BYTES];
    char kind[16];
    uint64_t memory_bytes;
    batch_t *batches;
    uint32_t inflight;
    revoked_t *revoked;  /* told to stop, and not heard of since */
    standing_t standing; /* ill: batches of any model that failed there */
} device_t;

typedef struct grant_node {
    Control__Grant grant;
    struct grant_node *next;
} grant_node_t;

struct worker {
    peer_t peer; /* first */
    device_t *devices;
    uint32_t device_count;
    bool draining, leaving, drain_due, model_ids_due, peers_due; /* leaving: it ends when it is drained */
    uint64_t batches_total;
    uint32_t data_tcp, data_shm, data_rdma; /* its connections to gateways, by transport; as it last said */
    uint32_t inputs_land;                   /* likewise: inputs_land.h */
    grant_node_t *grants, **grants_tail;    /* of this turn, in the scratch arena */
    uint32_t grant_count;
    uint64_t revoked[64]; /* of this turn */
    uint32_t revoked_count;
    command_t *commands; /* loads and unloads that it has not answered, oldest first */
    uint32_t command_count;
    uint64_t commands_made;
    uint32_t instance_count;
    instance_t **instances; /* by model, [models_max]: models/catalogue.c's; NULL: it has reported none */
};

/* Whether it takes grants. */
static inline bool device_serves(const device_t *device)
{
    return device->open && !device->draining && !device->worker->draining;
}

#endif
