/* The models of the worker, in no order. Loop thread. */
#ifndef WORKER_SERVED_H
#define WORKER_SERVED_H

#include "model/repository.h"
#include "worker/state/serving.h"

/* One for each (name, version); and those that have lost their
 * place to another and whose last batches are still under way. */
typedef struct served {
    model_t **models;
    uint32_t count, capacity;
    model_t *retired;
} served_t;

status_t served_add(served_t *served, model_t *model, err_t *err);
/* Takes all models of a reading; one that could not be read becomes a FAILED model of version 0. */
status_t served_take(served_t *served, repository_reading_t *reading, err_t *err);
/* Takes all that the source has. Fails as repository_read_all. */
status_t served_fill(served_t *served, const repository_source_t *source, err_t *err);
/* The caller destroys it. */
void served_remove(served_t *served, const model_t *model);
/* Puts one in the place of another. */
void served_replace(served_t *served, const model_t *old, model_t *model);

void served_retire(served_t *served, model_t *model);
void served_unretire(served_t *served, model_t *model);
/* Every load under way ends early. */
void served_stop_loads(served_t *served);

model_t *served_find(const served_t *served, const char *name); /* some version of it */
model_t *served_find_version(const served_t *served, const char *name, int64_t version);
void served_dispose(served_t *served, const model_devices_t *devices);

#endif
