/* How a control plane is set up. Texts must outlive it. */
#ifndef CONTROL_OPTIONS_H
#define CONTROL_OPTIONS_H

#include <stdint.h>

typedef struct {
    const char *policy;        /* a name of libs/sched */
    const char *policy_params; /* "key=value,…", or NULL */
    /* "NAME=CLASS[:SHARE[:POLICY]]": sub-clusters of a class of devices, which come to them in proportion to their
     * shares. A class without any gets one of its name. */
    const char *const *subclusters;
    uint32_t subcluster_count;
    const char *const *placements; /* "MODEL=SUBCLUSTER": served there, where it can be */
    uint32_t placement_count;
    int64_t autoscale_window_ns; /* of the advice on the number of devices */
    int64_t plan_interval_ns;    /* between two plans; 0: only when asked */
    int64_t plan_limit_ns;       /* that a plan may take */
    const char *plan_solver;     /* program that plans further (plan/partition_apart.h); NULL: search alone */
    uint32_t plan_moves_max;     /* models that one plan may move */
    uint64_t epoch;              /* larger than that of the scheduler before */
    uint64_t scheduler_id;       /* tells schedulers apart for people */
    uint32_t tasks_max;          /* queued and in flight together */
    uint32_t models_max;         /* (name, version) pairs seen in one epoch */
    uint32_t devices_max;
    uint32_t batch_max;
    uint32_t device_inflight_max; /* batches granted to a device and not done; 0 = 2. A worker may say more */
    int64_t ping_interval_ns;
    int64_t peer_timeout_ns;  /* silence after which a peer counts as lost */
    int64_t worker_grace_ns;  /* how long the tasks of a model wait for a worker when the last one has gone */
    int64_t initial_delay_ns; /* bound of the network delay until it has been measured */
} control_options_t;

/* The defaults. */
void control_options_init(control_options_t *options);

#endif
