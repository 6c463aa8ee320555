/*
 * The thread that loads models one after the other while the ones already loaded serve.
 */
#ifndef WORKER_LOADER_H
#define WORKER_LOADER_H

#include "repository.h"

typedef struct loader loader_t;

/* On the loop, once for each model that was LOADING: its state is now READY or FAILED. */
typedef void (*loader_done_fn)(void *ctx, model_t *model);

status_t loader_start(loop_t *loop, repository_t *repository, const model_load_options_t *options,
                      loader_done_fn done, void *ctx, loader_t **loader, err_t *err);

/* Stops at the next model or measurement and joins the thread; no done comes after this. */
void loader_destroy(loader_t *loader);

#endif
