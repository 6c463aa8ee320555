/*
 * The model repository on disk, DIR/MODEL/VERSION/model.onnx and DIR/MODEL/config.yaml
 * (docs/model-repository.md), and the models that the worker has made of it.
 *
 * Reading the disk needs nothing but the source, which never changes after it was opened: any thread may do
 * it. The list of models is the loop's.
 */
#ifndef WORKER_REPOSITORY_H
#define WORKER_REPOSITORY_H

#include "model.h"
#include "profile/profile_csv.h"

/* Where models come from: a folder, and a file of emulated ones. */
typedef struct {
    char root[PATH_MAX];      /* "" = no folder */
    profile_entry_t *entries; /* each a model of its own, or the profile of the folder of its name */
    uint32_t entry_count;
    uint32_t elements, max_batch; /* of a model without a folder */
} repository_source_t;

/* root and csv may be NULL. NOT_FOUND, IO or INVALID_ARGUMENT: what is wrong with them. */
status_t repository_source_open(repository_source_t *source, const char *root, const char *csv,
                                uint32_t elements, uint32_t max_batch, err_t *err);
void repository_source_close(repository_source_t *source);

/* What the source has of one model now: its versions, not loaded, or why there is none. */
typedef struct {
    char name[MODEL_NAME_BYTES];
    status_t status;
    err_t err;
    model_t *versions[MODEL_VERSIONS_MAX]; /* NULL where somebody has taken it */
    uint32_t count;
} repository_reading_t;

/* version 0: those that the model's policy names; else that one. NOT_FOUND in the reading: no such model or version. */
void repository_read(const repository_source_t *source, const char *name, int64_t version,
                     repository_reading_t *reading);
/* All of it, by name. The caller disposes each reading and frees the array. Fails when the folder cannot be listed. */
status_t repository_read_all(const repository_source_t *source, repository_reading_t **readings,
                             uint32_t *count, err_t *err);
/* Destroys the models that nobody has taken. */
void repository_reading_dispose(repository_reading_t *reading);

/* One model by its folder (the last part of whose path is its name) or by its ONNX file (which has no
 * config). The caller destroys it. NOT_FOUND, IO or INVALID_ARGUMENT: what a reading would say of it. */
status_t repository_open_model(const char *path, model_t **model, err_t *err);

/* The models of the worker, one for each (name, version), in no order; and those that have lost their
 * place to another and whose last batches are still under way. */
typedef struct {
    model_t **models;
    uint32_t count, capacity;
    model_t *retired;
} repository_t;

status_t repository_add(repository_t *repository, model_t *model, err_t *err);
/* Takes all models of a reading; one that could not be read becomes a FAILED model of version 0. */
status_t repository_take(repository_t *repository, repository_reading_t *reading, err_t *err);
/* Takes all that the source has. Fails as repository_read_all. */
status_t repository_fill(repository_t *repository, const repository_source_t *source, err_t *err);
/* The caller destroys it. */
void repository_remove(repository_t *repository, const model_t *model);
/* Puts one in the place of another. */
void repository_replace(repository_t *repository, const model_t *old, model_t *model);

void repository_retire(repository_t *repository, model_t *model);
void repository_unretire(repository_t *repository, model_t *model);
/* Every load under way ends early. */
void repository_stop_loads(repository_t *repository);

model_t *repository_find(const repository_t *repository, const char *name); /* some version of it */
model_t *repository_find_version(const repository_t *repository, const char *name, int64_t version);
void repository_dispose(repository_t *repository, const worker_devices_t *devices);

#endif
