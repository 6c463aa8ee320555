/*
 * The models of the cluster, merged from the workers' reports by (name, version). A model keeps its id and its place
 * for the whole epoch, also when nobody has it any more.
 *
 * A model is ready while at least one worker has it ready. All of them must describe the same interface; a worker that
 * differs from what gateways already see is left out, with a log line and a reason. Which sub-cluster serves it, and
 * with which latency, is placement.h's.
 */
#ifndef SCHEDULER_CATALOGUE_H
#define SCHEDULER_CATALOGUE_H

#include "control.pb-c.h"
#include "metrics/metrics.h"
#include "profile/family.h"
#include "profile/profile.h"
#include "rpc/pb.h"
#include "sched/sched.h"
#include "scheduler/devices.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct scheduler scheduler_t;
typedef struct worker worker_t;
typedef struct subcluster subcluster_t;
typedef struct shape shape_t;

enum {
    REASON_BYTES = 192,
    CATALOGUE_BYTES_MAX = 32 << 20, /* of a message; a gateway takes 64 MiB, and twice that unpacked */
};

/* A model as one worker has it. */
typedef struct instance {
    struct instance *next;
    worker_t *worker;
    Control__ModelState state;
    bool conflict; /* another worker serves a model of this name with another interface */
    bool released; /* UNLOADING, and told that nothing waits for it */
    uint64_t signature;
    uint64_t devices[DEVICES_PER_WORKER_MAX / 64]; /* bit i: device i of the worker holds it */
    char reason[REASON_BYTES];
    Control__ModelReport *report;
    profile_t profile;
    int64_t shunned_until_ns; /* a batch failed here, and is to be tried elsewhere; 0: no */
    family_t *family;         /* NULL: none of its dimensions varies but the batch */
} instance_t;

typedef struct model {
    uint32_t id;
    char *name;
    int64_t version;
    instance_t *instances;
    instance_t *canonical; /* whose description gateways see; NULL when no worker has it */
    bool ready;
    bool rising;           /* some worker is loading it */
    bool staying;          /* some worker is loading another version: UNLOADING ones serve until then */
    subcluster_t *home;    /* where its tasks go; NULL: nowhere */
    subcluster_t *planned; /* where the last plan that moved it wants it */
    uint32_t ready_workers;
    int64_t unready_since_ns;
    uint64_t unready_version; /* of the catalogue that said so */
    char reason[REASON_BYTES];
    profile_t profile; /* at its home: the slowest of those that are ready there */
    int64_t slo_ns;
    double
        quicker; /* what a row takes lately in parts of its profile, 1 at most; 0: nothing was looked at yet */
    shape_t *shapes;
    uint32_t shape_count;
    sched_model_stats_t past; /* of shapes that are no more */
    uint64_t done, dropped;
    uint64_t infeasible; /* refused for it (scheduler/deadline.h), and in no other count */
    int64_t granted_ns;  /* when a batch of it was granted last, or one tried that looked infeasible */
    struct {
        uint64_t requests, rows; /* that came; that ran */
        uint64_t busy_ns;        /* of devices, for those rows; wraps as in sched.h */
    } ran, planned_from;         /* since the start; at the last plan that was carried out */
    struct {
        metric_t *granted, *dropped, *cancelled, *retried, *infeasible, *queue, *queue_seconds, *batches,
            *batch_size;
        metric_t *stretches, *revoked_stopped, *revoked_late, *wasted, *took_mean, *took_guard;
    } metrics;
} model_t;

void catalogue_report(worker_t *worker, const Control__ModelReport *report);
void catalogue_worker_gone(worker_t *worker);
void catalogue_tick(scheduler_t *s); /* gives up models that no worker came back for */
model_t *catalogue_model(const scheduler_t *s, uint32_t id); /* NULL: no such id */
/* Models that find no room in CATALOGUE_BYTES_MAX are in it without a description, not ready, and the reason says
 * so. NULL without memory. */
Control__Catalogue *catalogue_message(scheduler_t *s, rpc_arena_t *arena);
void catalogue_dispose(scheduler_t *s);

#endif
