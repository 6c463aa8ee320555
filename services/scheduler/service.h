/*
 * The scheduler's state. One thread: the loop's. Each part is kept by one module, whose header says what it means.
 */
#ifndef SCHEDULER_SERVICE_H
#define SCHEDULER_SERVICE_H

#include "base/map.h"
#include "base/pool.h"
#include "http/server.h"
#include "loop/timer.h"
#include "metrics/metrics.h"
#include "rpc/pb.h"
#include "rpc/server.h"
#include "scheduler/delay.h"
#include "scheduler/registry.h"
#include "scheduler/scheduler.h"
#include "scheduler/subcluster.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gateway gateway_t;
typedef struct worker worker_t;
typedef struct model model_t;
typedef struct shape shape_t;
typedef struct model_request model_request_t;
typedef struct planner planner_t;

struct scheduler {
    loop_t *loop;
    scheduler_options_t options;
    uint64_t epoch, scheduler_id;
    int64_t started_ns;
    rpc_runtime_t *runtime;
    rpc_server_t *server;
    http_server_t *http;
    metrics_t *metrics;
    rpc_arena_t arena;   /* of the message being read */
    rpc_arena_t scratch; /* of what is sent in this turn */
    uv_check_t *turn;    /* its own allocation, as it outlives the scheduler until closed */
    loop_timer_t wake, ping;
    int64_t wake_ns; /* what the sub-clusters asked for */
    bool dirty;      /* something happened in this turn: there may be something to decide or to send */
    bool stopping, grpc_stopped, http_stopped;
    void (*on_stopped)(void *arg);
    void *on_stopped_arg;

    /* registry.h */
    gateway_t *gateways[PEERS_MAX];
    worker_t *workers[PEERS_MAX];
    uint32_t streams;  /* open, joined or not */
    peer_t *strangers; /* open and not joined */
    int64_t ticked_ns; /* when registry_tick ran last; 0: never */

    /* subclusters.h */
    subcluster_t *subclusters[SUBCLUSTERS_MAX]; /* the first subcluster_count of them */
    uint32_t subcluster_count, device_count;
    char policy[SUBCLUSTER_NAME_BYTES],
        policy_params[POLICY_PARAMS_BYTES]; /* of those that are still to come */

    /* tasks.h, batches.h */
    pool_t tasks, batches;
    idmap_t batches_by_id;
    uint64_t batches_made;

    /* shapes.h */
    shape_t *shapes;
    shape_t *free_shapes;
    uint64_t shapes_used;

    /* catalogue.h */
    model_t **models; /* [models_max] */
    uint32_t model_count;
    uint64_t catalogue_version;
    bool catalogue_changed, catalogue_full;

    /* requests.h, commands.h */
    model_request_t *requests;
    uint32_t request_count;
    uint64_t command_id; /* the last one given */

    planner_t *planner;
    delay_window_t lateness; /* how late the loop came to what was due */
    struct {
        metric_t *decision, *gateways, *workers;
    } metric;
};

/* There is something to decide or to send at the end of this turn. */
static inline void scheduler_touch(scheduler_t *s)
{
    s->dirty = true;
}

#endif
