/*
 * The control plane as a pure machine: what a scheduler knows of gateways, workers, models, tasks and batches, and what follows
 * from it. Decoded messages and the time go in; messages and the time of the next wake-up come out. No clock, socket, thread
 * or log is in it, so that the service runs it on an event loop and the simulator under a virtual clock, with the same grants.
 *
 *   peers/    who is connected: streams of gateways and workers, joining, pings, loads that people ask for
 *   plan/     which sub-cluster is to serve which model, and models on the move
 *   tasks/    from a request to its end: admission, queues, decisions, batches, retries; devices
 *   models/   what workers report, merged; where a model is served; commands to workers
 *   core/     sub-clusters: a class of devices with a scheduling core of its own
 *   cluster/  what all of them share: the turn, the world outside, peers as data, bounds of delays
 *
 * A room calls those below it and none above (scripts/check-calls).
 *
 * Every function is given the time, which never runs backwards, and may call the world (control/cluster/world.h). When several
 * things happened, tell them all, then control_decide and control_flush once: each peer gets at most one frame. One thread.
 */
#ifndef CONTROL_CONTROL_H
#define CONTROL_CONTROL_H

#include "control/cluster/roster.h"
#include "control/core/subclusters.h"
#include "control/models/model.h"
#include "control/peers/registry.h"
#include "control/plan/planner.h"
#include "control/tasks/task.h"

/* For reading only, by those that show it. */
typedef struct control {
    turn_t turn;
    roster_t roster;
    subclusters_t subclusters;
    models_t models;
    tasks_t tasks;
    planner_t *planner;
    peers_t peers;
    int64_t started_ns;
    int64_t wake_ns;         /* what the cores asked for */
    int64_t tick_ns;         /* when upkeep is due */
    delay_window_t lateness; /* of being run, behind wake_ns */
} control_t;

status_t control_create(const control_options_t *options, const world_t *world, void *arg, metrics_t *metrics,
                        int64_t now_ns, control_t **control, err_t *err);
/* After all peers have been said to be closed. NULL is fine. */
void control_destroy(control_t *control);

/* ---- What happens ---- */

/* A stream opened. address: for people, valid as long as the link. NULL: it is being closed by the world, which says nothing
 * more of it; else it ends with control_*_closed. */
gateway_t *control_gateway_opened(control_t *control, int64_t now_ns, void *link, const char *address);
worker_t *control_worker_opened(control_t *control, int64_t now_ns, void *link, const char *address);
/* A message, which lives during the call. */
void control_gateway_said(control_t *control, int64_t now_ns, gateway_t *gateway,
                          const Control__GatewayToScheduler *frame);
void control_worker_said(control_t *control, int64_t now_ns, worker_t *worker,
                         const Control__WorkerToScheduler *frame);
/* Something that is no message. */
void control_unreadable(control_t *control, int64_t now_ns, peer_t *peer);
/* It ended, whoever ended it. code and text: for people. The peer is no more. */
void control_gateway_closed(control_t *control, int64_t now_ns, gateway_t *gateway, const char *code,
                            const char *text);
void control_worker_closed(control_t *control, int64_t now_ns, worker_t *worker, const char *code,
                           const char *text);
/* What the world was given to solve is solved; cancelled: it is not, and will not be. */
void control_planned(control_t *control, int64_t now_ns, bool cancelled);

/* ---- What people ask for ---- */

/* As subclusters_set_policy, planner_ask and worker_drain. */
status_t control_set_policy(control_t *control, int64_t now_ns, const char *subcluster, const char *policy,
                            const char *params, err_t *err);
status_t control_plan(control_t *control, int64_t now_ns, bool apply, plan_done_fn done, void *ctx);
void control_drain(control_t *control, int64_t now_ns, worker_t *worker, bool drain, bool leave);
/* All peers are sent away, and nobody is let in any more. */
void control_stop(control_t *control, int64_t now_ns);

/* ---- What follows ---- */

/* When control_decide is due at the latest; at once after anything that matters happened. */
int64_t control_due_ns(const control_t *control);
/* The cores decide. What they decided is sent with control_flush, which may be given a later time. */
void control_decide(control_t *control, int64_t now_ns);
void control_flush(control_t *control, int64_t now_ns);

#endif
