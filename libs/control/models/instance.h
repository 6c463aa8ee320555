/*
 * What the copies of a model are good for, and what a sub-cluster finds in them.
 */
#ifndef CONTROL_MODELS_INSTANCE_H
#define CONTROL_MODELS_INSTANCE_H

#include "control/models/model.h"

/* NULL: the worker has not reported the model. */
instance_t *instance_of(const model_t *model, const worker_t *worker);
bool instance_is_ready(const instance_t *instance);
/* About to be unloaded, and still able to run what waits. */
bool instance_is_draining(const instance_t *instance);
/* It is granted batches, as far as what it did goes. */
bool instance_is_believed(const instance_t *instance);
bool model_any(const model_t *model, bool (*is)(const instance_t *instance));
/* Counts as ready: gateways send it requests. */
bool instance_is_usable(const model_t *model, const instance_t *instance);
/* Whether any device of the worker that holds the model is in the sub-cluster; serving: and takes grants. */
bool instance_reaches(const instance_t *instance, const subcluster_t *sub, bool serving);
/* Looks anew at which profiles are outliers (instance_t.outlier), and calls `found` for each that has become one. One that
 * cannot meet the SLO with a single row, where another can; and of three or more one that is OUTLIER_TIMES as slow as the median. */
enum { OUTLIER_TIMES = 8 };
void model_mark_outliers(model_t *model, void (*found)(const model_t *model, const instance_t *instance));
/* Whether what this instance reports counts for the model in this sub-cluster. */
bool instance_counts(const instance_t *instance, const subcluster_t *sub);

bool model_runs_on(const model_t *model, const device_t *device);
bool model_is_served_at(const model_t *model, const subcluster_t *sub);
/* The slowest that was reported there: devices of one class differ little. False: nobody has it there. */
bool model_profile_at(const model_t *model, const subcluster_t *sub, profile_t *profile);
/* Tells the model's home what batches of it, under this number there, do inside a device; whole, where the mode does not
 * suit. */
void model_tell_inside(const model_t *model, uint32_t core_id, bool suits_mode);

#endif
