/*
 * The threads that do what would hold up the loop, at the lowest priority, so that the models that serve hardly notice.
 *
 *   one      reads the repository, measures, takes models off the devices, one thing after the other: two that are
 *            measured at once would measure each other
 *   beside   as many as the host has CPUs that no device uses: they read and compile models, several at once, each of
 *            which the one then makes ready. None: it does that, too, one model ready before the next is
 *            read, so that nobody waits for a model that takes long
 *
 * Loop thread; each call is answered by its done, on the loop, exactly once unless the loader is destroyed before.
 */
#ifndef WORKER_LOADER_H
#define WORKER_LOADER_H

#include "loop/loop.h"
#include "model/repository.h"

typedef struct loader loader_t;

enum {
    LOADER_QUEUE_MAX = 8192, /* a load and a release for each model version of a large repository */
    LOADER_BESIDE_MAX = 8,   /* each holds the file that it reads beside what it makes of it */
};

typedef struct {
    /* The model's load_status and load_err say how it went. */
    void (*loaded)(void *ctx, model_t *model, int64_t took_ns);
    /* One of its profiles has been measured once more while it serves; NULL: nothing better came of it. */
    void (*measured)(void *ctx, model_t *model, uint32_t which, const profile_t *profile);
    /* It is off the devices. */
    void (*unloaded)(void *ctx, model_t *model);
    /* What there is of one model; user is the caller's. The models may be taken out; the rest is destroyed after. */
    void (*read)(void *ctx, repository_reading_t *reading, uint64_t user);
    /* The whole repository, or why it cannot be listed (count 0). */
    void (*read_all)(void *ctx, repository_reading_t *readings, uint32_t count, const err_t *err);
} loader_ops_t;

status_t loader_create(loop_t *loop, const repository_source_t *source, const model_load_options_t *options,
                       uint32_t beside, const loader_ops_t *ops, void *ctx, loader_t **loader, err_t *err);

/* Drops what waits, stops loads at their next step, joins the threads; no answer comes after this, and the models
 * are the caller's again. NULL is fine. */
void loader_destroy(loader_t *loader);

/* Each fails only without memory or with LOADER_QUEUE_MAX things waiting. */
status_t loader_load(loader_t *loader, model_t *model);
/* afresh: as if it had no profile. */
status_t loader_measure(loader_t *loader, model_t *model, uint32_t which, bool afresh);
status_t loader_unload(loader_t *loader, model_t *model);
status_t loader_read(loader_t *loader, const char *name, int64_t version, uint64_t user);
status_t loader_read_all(loader_t *loader);

#endif
