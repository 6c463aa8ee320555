/*
 * What the control plane asks of whoever runs it: the service over gRPC on an event loop, the simulator over a virtual
 * network. The machine itself has no clock, socket, thread or log.
 *
 * All of these are called from within the machine's functions (control/control.h), on the caller's thread, and must not call
 * back into it. A link is the world's own word for the connection of a peer, given when the peer was opened.
 */
#ifndef CONTROL_CLUSTER_WORLD_H
#define CONTROL_CLUSTER_WORLD_H

#include "base/log.h"
#include "plan/partition.h"
#include "sched/core_ops.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Why a peer is shown the door. */
typedef enum {
    CLOSE_STOPPING,  /* or what it was part of has ended: it may come again */
    CLOSE_VERSION,   /* no version of the protocol in common */
    CLOSE_INVALID,   /* it makes no sense */
    CLOSE_EXHAUSTED, /* a limit or memory */
    CLOSE_SILENT,    /* no hello came */
} close_reason_t;

/* A plan that is to be made of one class of devices. The machine's, which does not touch it while it is being solved. */
typedef struct {
    partition_problem_t problem;
    const char *solver; /* NULL: search alone */
    partition_t plan;   /* the answer, with its status; the machine disposes of it */
    status_t status;
    err_t err; /* with OK: why the solver did not help; "" otherwise */
} plan_job_t;

/* A scheduling core that is to decide on threads of its own. */
typedef struct {
    sched_limits_t limits;
    const char *policy, *params;
    sched_delays_t delays;
    /* They have decided something: told on the machine's thread, between its functions. */
    void (*on_news)(void *arg);
    void *news_arg;
} thread_core_t;

typedef struct {
    /* One event, as for log_write. */
    void (*note)(void *arg, log_level_t level, const char *event, const log_field_t *fields);

    /* Takes the frame at once; it lives during the call. False: the peer does not take its messages any more, and too many
     * wait. */
    bool (*send)(void *link, const ProtobufCMessage *frame);
    /* Whether a frame of megabytes may be sent now: none waits. */
    bool (*takes_large)(void *link);
    /* Ends it after what was sent, with a reason; or at once. Either way the machine is told when it has ended. */
    void (*close)(void *link, close_reason_t why, const char *text);
    void (*cancel)(void *link);

    /* Has all of them solved, and says so later by control_planned. UNAVAILABLE: not now. */
    status_t (*solve)(void *arg, plan_job_t *jobs, uint32_t count);

    /* Makes a core on threads, which is destroyed by its own operation, and then released. UNSUPPORTED: they cannot run the
     * policy. Both NULL: all cores decide on the machine's thread, and every grant follows from what was told. */
    status_t (*make_threads)(void *arg, const thread_core_t *wish, core_t **core, void **threads, err_t *err);
    void (*release_threads)(void *threads);
} world_t;

#endif
