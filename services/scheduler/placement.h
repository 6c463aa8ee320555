/*
 * Which sub-cluster serves a model: one at a time, its home. And on which devices of it the model runs, with
 * what latency.
 */
#ifndef SCHEDULER_PLACEMENT_H
#define SCHEDULER_PLACEMENT_H

#include "sched/sched.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct scheduler scheduler_t;
typedef struct model model_t;
typedef struct instance instance_t;
typedef struct worker worker_t;
typedef struct device device_t;
typedef struct subcluster subcluster_t;

/* ---- What an instance is good for ---- */

bool placement_ready(const instance_t *instance);
/* About to be unloaded, and still able to run what waits. */
bool placement_draining(const instance_t *instance);
bool placement_any(const model_t *model, bool (*is)(const instance_t *instance));
/* Counts as ready: gateways send it requests. */
bool placement_usable(const model_t *model, const instance_t *instance);
/* Whether what this instance reports counts for the model in this sub-cluster. */
bool placement_counts(const instance_t *instance, const subcluster_t *sub);
bool placement_runs_on(const model_t *model, const device_t *device);

/* ---- The home ---- */

void placement_settle(scheduler_t *s, model_t *model); /* after its instances have changed */
void placement_devices_changed(worker_t *worker);      /* some began or ceased to take grants */
void placement_leave(scheduler_t *s, model_t *model);  /* nobody has it any more */
/* The plan's wish. False: it cannot be served there. */
bool placement_move(scheduler_t *s, model_t *model, subcluster_t *to);
bool placement_is_configured(const scheduler_t *s, const model_t *model); /* its place is not the planner's */
void placement_stats(const model_t *model, sched_model_stats_t *stats);   /* zero when nobody serves it */
/* Of its shapes that of the one that scatters most; 1 and 1 when nobody serves it. */
void placement_scatter(const model_t *model, sched_scatter_t *scatter);

/* ---- What the home is told ---- */

/* Whether the model runs on this device of it. */
void placement_allow(const model_t *model, const device_t *device);
/* What batches of the model, under this number there, do inside a device; whole, where the mode does not suit. */
void placement_follow_inside(const model_t *model, uint32_t core_id, bool suits_mode);
/* For a while the model is not run there, if another worker of its sub-cluster has it. */
void placement_shun(scheduler_t *s, model_t *model, const worker_t *worker, int64_t until_ns);
void placement_tick(scheduler_t *s); /* ends what is over */

#endif
