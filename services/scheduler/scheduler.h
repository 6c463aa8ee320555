/*
 * The scheduler service as one object on a loop: control streams and admin calls on its gRPC port, metrics
 * and state on its HTTP port, and between them the control plane (control/control.h), which is all of it that decides.
 * Everything happens on the loop's thread, but for plans, and for the decisions, when they have threads of their own.
 *
 *   streams.c   messages of gateways and workers, to the control plane and back      solver.c   plans, on a thread
 *   shell.c     the turn of the loop: what happened, then what follows               admin/     what people ask for and see
 */
#ifndef SCHEDULER_SCHEDULER_H
#define SCHEDULER_SCHEDULER_H

#include "base/status.h"
#include "control/options.h"
#include "loop/loop.h"
#include "rpc/server.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct scheduler scheduler_t;

typedef struct {
    /* "host:port", port 0 = a free one; NULL: nobody is listened to but the peers of `hub`; then others must
     * bring the admin calls */
    const char *grpc_address;
    struct link_hub *hub;    /* where gateway and worker of this process dial; NULL: there are none */
    struct metrics *metrics; /* shared with others of this process, and outlives it; NULL: its own */
    const char *http_address;
    /* A server's that wants certificates of the cluster, at both ports: each call is of a role then. Outlives it; NULL: plain. */
    struct tls_context *tls;
    control_options_t control; /* epoch 0: wall-clock milliseconds now, which grows over restarts */
    /* Threads that hold the queues of each sub-cluster, beside one that matches; 0: the loop's thread decides. */
    uint32_t shards;
} scheduler_options_t;

/* The defaults; addresses are left NULL. */
void scheduler_options_init(scheduler_options_t *options);

/* Listens on both ports when it returns. */
status_t scheduler_create(loop_t *loop, const scheduler_options_t *options, scheduler_t **scheduler,
                          err_t *err);

/* The admin calls, a path of NULL at the end. Their arg is the scheduler; on its loop. For whoever has a gRPC port where it has none. */
extern const rpc_unary_method_t scheduler_admin_calls[];

const char *scheduler_grpc_address(const scheduler_t *scheduler);
const char *scheduler_http_address(const scheduler_t *scheduler);

/* Closes the listeners and streams; on_stopped comes on the loop, then scheduler_destroy. */
void scheduler_stop(scheduler_t *scheduler, void (*on_stopped)(void *arg), void *arg);
void scheduler_destroy(scheduler_t *scheduler);

#endif
