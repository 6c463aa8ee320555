/* What surrounds the control plane in the service. One thread: the loop's. */
#ifndef SCHEDULER_SHELL_H
#define SCHEDULER_SHELL_H

#include "control/control.h"
#include "http/server.h"
#include "link/link.h"
#include "loop/timer.h"
#include "loop/workpool.h"
#include "rpc/server.h"
#include "scheduler/scheduler.h"

struct scheduler {
    loop_t *loop;
    scheduler_options_t options;
    control_t *control;
    rpc_runtime_t *runtime; /* NULL: all peers are within this process */
    rpc_server_t *server;
    http_server_t *http;
    metrics_t *metrics;
    struct {
        link_kind_t gateway, worker;
    } kinds;
    pb_arena_t arena; /* of the message being read */
    uv_check_t *turn; /* its own allocation, as it outlives the scheduler until closed */
    loop_timer_t wake;
    bool due; /* the timer fired */
    bool stopping, grpc_stopped, http_stopped;
    void (*on_stopped)(void *arg);
    void *on_stopped_arg;
    workpool_t *solver; /* NULL: stopped */
    work_t solve;
    plan_job_t *jobs; /* that the solver has */
    uint32_t job_count;
    struct {
        metric_t *decision, *gateways, *workers;
    } metric;
};

#endif
