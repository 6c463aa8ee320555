/*
 * The model repository on disk: DIR/MODEL/VERSION/model.onnx and DIR/MODEL/config.yaml (docs/model-repository.md).
 */
#ifndef WORKER_REPOSITORY_H
#define WORKER_REPOSITORY_H

#include "model.h"

typedef struct {
    model_t **models; /* by name */
    uint32_t count, capacity;
} repository_t;

/*
 * Adds one model for each folder: its config is read, its version chosen. A folder that is not a model (no version with
 * a model.onnx, a bad name, a bad config) is added as FAILED with the reason. NOT_FOUND or IO: DIR itself.
 */
status_t repository_scan(repository_t *repository, const char *dir, err_t *err);

/* One model by its folder (the last part of whose path is its name) or by its ONNX file (which has no config). The caller
 * destroys it. NOT_FOUND, IO or INVALID_ARGUMENT: what repository_scan would fail it for. */
status_t repository_open_model(const char *path, model_t **model, err_t *err);

/* Adds one emulated model for each line of a CSV file (profile/profile_csv.h). A line whose name is already there as
 * a folder gives that model its profile instead. */
status_t repository_add_profiles(repository_t *repository, const char *csv, uint32_t elements,
                                 uint32_t max_batch, err_t *err);

model_t *repository_find(const repository_t *repository, const char *name);
void repository_dispose(repository_t *repository, const worker_devices_t *devices);

#endif
