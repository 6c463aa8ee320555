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
/* Where there is room for no further sub-cluster, those go that have neither devices nor models and were not declared; else a minute later. */
void placement_make_room(models_t *models);
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
/* Some other worker serves the model in its home, if not at this moment: it may have been left out for a while (placement_shun). */
bool placement_has_another(const model_t *model, const worker_t *worker);
/* For a moment the model is not run there, if another worker of its sub-cluster has it: what failed is to be tried elsewhere. */
void placement_shun(models_t *models, model_t *model, const worker_t *worker, int64_t until_ns);
void placement_tick(models_t *models); /* ends what is over */

/* ---- Who is believed (standing.h) ---- */

/* Rows of the model ran there, as far as is known. Hot. */
void placement_did_well(const models_t *models, const model_t *model, device_t *device, uint32_t rows);
/* A batch failed there: the device's fault, if others of its worker do better, else the worker's with this model. */
void placement_did_fail(models_t *models, model_t *model, device_t *device, uint32_t rows);
/* Or they did not. Enough of it, while others who have the model do better, and the worker is shunned. */
void placement_did_ill(models_t *models, model_t *model, const worker_t *worker, ill_t kind, uint32_t rows);
/* Of the model's rows at the worker it is to be shown that they arrived (tasks/prove.h), since somebody else could do them. Hot. */
bool placement_wants_proof(const model_t *model, const worker_t *worker);
void placement_did_prove(const models_t *models, const model_t *model, const worker_t *worker); /* one has */
/* The worker with the model, or the device. Hot. */
bool placement_is_on_trial(const model_t *model, const device_t *device);
/* A batch is granted to one on trial; by judged_ns it is known what became of it. */
void placement_granted(models_t *models, const model_t *model, device_t *device, int64_t judged_ns);
/* When all is decided: who got a batch on trial gets no other before that has been judged. */
void placement_close_trials(models_t *models);

#endif
