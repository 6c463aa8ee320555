/*
 * The stream of a worker: models, device states and ended batches in; ids, peers, commands and grants out. Its
 * devices leave with it, and the tasks of its batches are tried elsewhere.
 */
#ifndef SCHEDULER_WORKERS_H
#define SCHEDULER_WORKERS_H

#include "control.pb-c.h"
#include "rpc/stream.h"
#include "scheduler/registry.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct scheduler scheduler_t;
typedef struct device device_t;
typedef struct command command_t;

typedef struct grant_node {
    Control__Grant grant;
    struct grant_node *next;
} grant_node_t;

typedef struct worker {
    peer_t peer; /* first */
    device_t *devices;
    uint32_t device_count;
    bool draining, leaving, drain_due, model_ids_due, peers_due; /* leaving: it ends when it is drained */
    uint64_t batches_total;
    uint32_t data_tcp, data_shm, data_rdma; /* its connections to gateways, by transport; as it last said */
    grant_node_t *grants, **grants_tail;    /* of this turn, in the scratch arena */
    uint32_t grant_count;
    uint64_t revoked[64]; /* of this turn */
    uint32_t revoked_count;
    command_t *commands; /* loads and unloads that it has not answered, oldest first */
    uint32_t command_count;
} worker_t;

extern const rpc_stream_ops_t worker_stream_ops; /* argument: the scheduler */

/* No further grants, or again; leave: it ends once its batches have. */
void worker_drain(worker_t *worker, bool drain, bool leave);
/* What this turn has for each of them. */
void workers_flush(scheduler_t *s);

#endif
