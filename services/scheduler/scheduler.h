/*
 * The scheduler service as one object on a loop: control streams and admin calls on its gRPC port, metrics
 * and state on its HTTP port, sub-clusters with a scheduling core each in the middle. Everything happens on
 * the loop's thread, but for the decisions, when they have threads of their own.
 *
 *   gateways.c --tasks--> submit.c --subcluster.c--> driver.c --grants--> workers.c
 *        ^                                            |
 *        +------------------- drops ------------------+
 *   catalogue.c: which models there are, from the workers' reports     registry.c: who is connected
 */
#ifndef SCHEDULER_SCHEDULER_H
#define SCHEDULER_SCHEDULER_H

#include "base/status.h"
#include "loop/loop.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct scheduler scheduler_t;

typedef struct {
    const char *grpc_address; /* "host:port", port 0 = a free one */
    const char *http_address;
    const char *policy;        /* a name of libs/sched */
    const char *policy_params; /* "key=value,…", or NULL */
    /* "NAME=CLASS[:SHARE[:POLICY]]": sub-clusters of a class of devices, which come to them in proportion to their
     * shares. A class without any gets one of its name. */
    const char *const *subclusters;
    uint32_t subcluster_count;
    const char *const *placements; /* "MODEL=SUBCLUSTER": served there, where it can be */
    uint32_t placement_count;
    /* Threads that hold the queues of each sub-cluster, beside one that matches; 0: the loop's thread decides. */
    uint32_t shards;
    int64_t autoscale_window_ns; /* of the advice on the number of devices */
    int64_t plan_interval_ns;    /* between two plans; 0: only when asked */
    int64_t plan_limit_ns;       /* that a plan may take */
    const char *plan_solver;     /* program that plans further (plan/partition_apart.h); NULL: search alone */
    uint32_t plan_moves_max;     /* models that one plan may move */
    uint64_t epoch;              /* 0 = wall-clock milliseconds now, which grows over restarts */
    uint32_t tasks_max;          /* queued and in flight together */
    uint32_t models_max;         /* (name, version) pairs seen in one epoch */
    uint32_t devices_max;
    uint32_t batch_max;
    uint32_t device_inflight_max; /* batches granted to a device and not done; 0 = 2. A worker may say more */
    int64_t ping_interval_ns;
    int64_t peer_timeout_ns;  /* silence after which a peer counts as lost */
    int64_t worker_grace_ns;  /* how long the tasks of a model wait for a worker when the last one has gone */
    int64_t initial_delay_ns; /* bound of the network delay until it has been measured */
} scheduler_options_t;

/* The defaults; addresses are left NULL. */
void scheduler_options_init(scheduler_options_t *options);

/* Listens on both ports when it returns. */
status_t scheduler_create(loop_t *loop, const scheduler_options_t *options, scheduler_t **scheduler,
                          err_t *err);

const char *scheduler_grpc_address(const scheduler_t *scheduler);
const char *scheduler_http_address(const scheduler_t *scheduler);

/* Closes the listeners and streams; on_stopped comes on the loop, then scheduler_destroy. */
void scheduler_stop(scheduler_t *scheduler, void (*on_stopped)(void *arg), void *arg);
void scheduler_destroy(scheduler_t *scheduler);

#endif
