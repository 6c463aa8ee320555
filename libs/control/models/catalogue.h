/*
 * The models of the cluster, merged from the workers' reports by (name, version). A model keeps its id and its place
 * for the whole epoch, also when nobody has it any more.
 *
 * A model is ready while at least one worker has it ready. All of them must describe the same interface; a worker that
 * differs from what gateways already see is left out, with a note and a reason. Which sub-cluster serves it, and
 * with which latency, is placement.h's.
 */
#ifndef CONTROL_MODELS_CATALOGUE_H
#define CONTROL_MODELS_CATALOGUE_H

#include "control/models/model.h"

status_t catalogue_init(models_t *models, turn_t *turn, const roster_t *roster, subclusters_t *subclusters,
                        err_t *err);
void catalogue_dispose(models_t *models);

void catalogue_report(models_t *models, worker_t *worker, const Control__ModelReport *report);
void catalogue_worker_gone(models_t *models, worker_t *worker);
void catalogue_tick(models_t *models); /* gives up models that no worker came back for */

#endif
