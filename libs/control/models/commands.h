/*
 * Loads, unloads and what is to be measured anew, that workers are told of: each is sent once, with the worker's next frame, and ends once. Cold.
 */
#ifndef CONTROL_MODELS_COMMANDS_H
#define CONTROL_MODELS_COMMANDS_H

#include "control/models/model.h"

enum { COMMANDS_PER_WORKER_MAX = 64 };

/* How it went; the reason is "" when it went well. Once, never from within the call that gave
 * the command. */
typedef void (*command_done_fn)(void *ctx, worker_t *worker, status_t status, const char *reason);

/*
 * Tells a worker to load a model (version 0: the versions that the policy in the model's config names; others
 * of it are unloaded once those serve) or to unload it (0: all versions). Loading what is loaded, unloading
 * what is not: OK. planned: carried out whatever the worker's model control mode. done NULL: nobody cares.
 * done's status: as the worker says; UNAVAILABLE when it went away; DEADLINE_EXCEEDED when it says nothing
 * for ten minutes. Returns UNAVAILABLE (too many under way there) or NO_MEMORY: done does not come.
 */
status_t worker_load_model(worker_t *worker, const char *name, int64_t version, bool planned,
                           command_done_fn done, void *ctx);
status_t worker_unload_model(worker_t *worker, const char *name, int64_t version, bool planned,
                             command_done_fn done, void *ctx);
/* Its profile of the model cannot be: it is to measure it anew. Returns likewise. */
status_t worker_measure_model(worker_t *worker, const model_t *model);
/* A version that it reported UNLOADING has no task left here. */
void worker_release_model(worker_t *worker, const model_t *model);

void command_answered(worker_t *worker, const Control__CommandDone *done);
void commands_worker_gone(worker_t *worker);
void commands_tick(worker_t *worker, int64_t now_ns);
/* What has not been sent, into the frame. */
void commands_put(worker_t *worker, Control__SchedulerToWorker *frame);

#endif
