/*
 * Which models this worker holds, and how that changes while it serves: what the scheduler tells it, what a look at the
 * repository finds, loads that end, batches that end. Loop thread; the work itself is the loader's.
 *
 *   load      read the repository ─▶ a model for each version wanted ─▶ LOADING ─▶ READY or FAILED
 *             a version whose files have changed is loaded beside the one that serves and takes its place when ready
 *             (its `successor`); the old one goes when its last batch has ended
 *   unload    READY ─▶ UNLOADING: still takes grants, until the scheduler says that nothing waits for it (or is gone, or
 *             says nothing for a while); when its last batch has ended ─▶ UNLOADED
 *
 * Each command is answered once, when all models that it touches have come to rest.
 */
#ifndef WORKER_LIFECYCLE_H
#define WORKER_LIFECYCLE_H

#include "loop/loop.h"
#include "worker/models/loader.h"
#include "worker/state/served.h"

typedef struct lifecycle lifecycle_t;

typedef enum {
    MODEL_CONTROL_NONE,     /* what is there at the start is loaded, and that is it */
    MODEL_CONTROL_EXPLICIT, /* loaded and unloaded on demand */
    MODEL_CONTROL_POLL,     /* the repository is read again and again */
} model_control_t;

/* Told on the loop, from within calls below or later. */
typedef struct {
    /* A model came to be or has another state; old (or NULL) has left its place to it and takes no grant any more. */
    void (*changed)(void *ctx, const model_t *model, const model_t *old);
    /* No batch of it is left and it is about to leave its devices; may be NULL. */
    void (*leaves)(void *ctx, const model_t *model);
    /* It is no longer in the repository and is destroyed after the call. */
    void (*gone)(void *ctx, const model_t *model);
    /* A command has ended. reason "" when OK. */
    void (*answer)(void *ctx, uint64_t command, status_t status, const char *reason);
} lifecycle_ops_t;

typedef struct {
    loop_t *loop;
    served_t *served;
    const repository_source_t *source;
    metrics_t *metrics;
    model_load_options_t load;
    uint32_t loaders; /* threads beside the one (loader.h) */
    model_control_t control;
    const char *const *at_start; /* EXPLICIT: names to load; "*" = all */
    size_t at_start_count;
    int64_t poll_interval_ns; /* POLL */
    const lifecycle_ops_t *ops;
    void *ctx;
} lifecycle_options_t;

/* Begins to load what the repository has been filled with. */
status_t lifecycle_create(const lifecycle_options_t *options, lifecycle_t **lifecycle, err_t *err);
/* Stops loading; all models stay in the repository, for served_dispose. After run_destroy. NULL is fine. */
void lifecycle_destroy(lifecycle_t *lifecycle);

typedef struct {
    uint64_t id; /* for the answer */
    const char *name;
    int64_t version; /* 0: load what the version policy names and unload other versions; unload all */
    bool unload;
    bool planned; /* not a client's wish: the control mode does not matter */
} lifecycle_command_t;

void lifecycle_command(lifecycle_t *lifecycle, const lifecycle_command_t *command);
/* Reads the repository once, as POLL does again and again. EXPLICIT: of what is loaded alone, and nothing is unloaded. */
void lifecycle_reread(lifecycle_t *lifecycle);
/* Its profile is not believed: it is measured as if it had none, when the device has time. Answered at once. */
void lifecycle_measure(lifecycle_t *lifecycle, uint64_t id, const char *name, int64_t version);
/* The scheduler has nothing left for a version that is UNLOADING. */
void lifecycle_release(lifecycle_t *lifecycle, const char *name, int64_t version);
/* The scheduler came or went. Without one whatever is UNLOADING waits for none; nobody waits for earlier answers. */
void lifecycle_online(lifecycle_t *lifecycle, bool online);
/* The last batch of the model has ended. */
void lifecycle_idle(lifecycle_t *lifecycle, model_t *model);

#endif
