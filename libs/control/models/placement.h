/*
 * Which sub-cluster serves a model: one at a time, its home. And on which devices of it the model runs, with
 * what latency.
 */
#ifndef CONTROL_MODELS_PLACEMENT_H
#define CONTROL_MODELS_PLACEMENT_H

#include "control/models/model.h"

/* ---- The home ---- */

void placement_settle(models_t *models, model_t *model); /* after its instances have changed */
void placement_devices_changed(models_t *models,
                               const worker_t *worker); /* some began or ceased to take grants */
void placement_leave(models_t *models, model_t *model); /* nobody has it any more */
/* The plan's wish. False: it cannot be served there. */
bool placement_move(models_t *models, model_t *model, subcluster_t *to);
bool placement_is_configured(const models_t *models,
                             const model_t *model);                     /* its place is not the planner's */
void placement_stats(const model_t *model, sched_model_stats_t *stats); /* zero when nobody serves it */
/* Of its shapes that of the one that scatters most; 1 and 1 when nobody serves it. */
void placement_scatter(const model_t *model, sched_scatter_t *scatter);

/* ---- What the home is told ---- */

/* Whether the model runs on this device of it. */
void placement_allow(const model_t *model, const device_t *device);
/* For a while the model is not run there, if another worker of its sub-cluster has it. */
void placement_shun(models_t *models, model_t *model, const worker_t *worker, int64_t until_ns);
void placement_tick(models_t *models); /* ends what is over */

#endif
