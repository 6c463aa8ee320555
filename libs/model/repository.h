/*
 * The model repository on disk, DIR/MODEL/VERSION/model.onnx and DIR/MODEL/config.yaml or
 * config.pbtxt (docs/model-repository.md). The source never changes after it was opened: any thread may read it.
 */
#ifndef MODEL_REPOSITORY_H
#define MODEL_REPOSITORY_H

#include "model/model.h"
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

#endif
