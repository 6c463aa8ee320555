/*
 * What the files of the lifecycle share. A command is a slot of a table, and the set of commands that wait
 * for a model is a word in the model.
 *
 *   lifecycle.c ──▶ lifecycle_look.c ──▶ lifecycle_load.c ──▶ lifecycle_measure.c ──▶ lifecycle_unload.c, with the commands
 */
#ifndef WORKER_LIFECYCLE_PRIVATE_H
#define WORKER_LIFECYCLE_PRIVATE_H

#include "loop/timer.h"
#include "worker/models/lifecycle.h"

/* Commands under way; a set of them is a word in a model. The scheduler sends a few at a time. */
enum { COMMANDS_MAX = 64 };

typedef struct {
    bool used, told; /* told: somebody waits for the answer */
    bool supersedes; /* once all is loaded, versions that were not read are unloaded */
    uint64_t id;
    uint32_t waiting; /* models */
    status_t status;
    err_t err;
    char name[MODEL_NAME_BYTES];
    int64_t keep[MODEL_VERSIONS_MAX]; /* versions that were read */
    uint32_t keep_count;
} command_t;

struct lifecycle {
    lifecycle_options_t options;
    loader_t *loader;
    loop_timer_t poll, patience, measure;
    bool timers_ready, reading, online;
    bool measuring;                /* some model is measured once more */
    _Atomic(int64_t) step_most_ns; /* for the loader: how long measuring may keep those waiting that serve */
    command_t commands[COMMANDS_MAX];
};

/* ---- lifecycle_unload.c: commands ---- */

command_t *command_take(lifecycle_t *l, const char *name); /* NULL: all are in use */
/* The command ends no sooner than the model comes to rest. */
void command_wait(lifecycle_t *l, command_t *command, model_t *model);
/* Answers it and gives it back when it waits for nothing more. */
void command_settle(lifecycle_t *l, command_t *command);
/* The model has come to rest: those who waited for it hear how. */
void command_settle_model(lifecycle_t *l, model_t *model, status_t status, const char *text);

/* The first failure is the one that is told. */
#define command_fail(command, code, ...)                                     \
    do {                                                                     \
        if ((command)->status == STATUS_OK)                                  \
            (command)->status = err_set(&(command)->err, code, __VA_ARGS__); \
    } while (0)

/* How long measuring may keep those waiting that serve. */
void lifecycle_limit_measuring(lifecycle_t *l);
void lifecycle_tell(lifecycle_t *l, const model_t *model, const model_t *old);
/* It is no longer in the repository: out of the list and destroyed. */
void lifecycle_forget(lifecycle_t *l, model_t *model);

/* ---- lifecycle_unload.c: off the devices ---- */

void unload_begin(lifecycle_t *l, model_t *model);
void unload_command(lifecycle_t *l, command_t *command, int64_t version);
/* Off the devices, if nothing can come any more. */
void unload_when_idle(lifecycle_t *l, model_t *model);
/* model has the place of old from now on. */
void unload_put_in_place(lifecycle_t *l, model_t *old, model_t *model);
void unload_done(void *ctx, model_t *model); /* of loader_ops_t */
void unload_on_patience(loop_timer_t *timer, void *arg);

/* ---- lifecycle_load.c ---- */

void load_start(lifecycle_t *l, model_t *model);
/* It is not wanted any more. */
void load_abandon(lifecycle_t *l, model_t *model);
/* Adopts all versions of a reading; the command waits for what that takes. */
void load_reading(lifecycle_t *l, command_t *command, repository_reading_t *reading);
void load_log(const model_t *model, int64_t took_ns);
void load_done(void *ctx, model_t *model, int64_t took_ns);                 /* of loader_ops_t */
void load_on_read(void *ctx, repository_reading_t *reading, uint64_t user); /* of loader_ops_t */

/* ---- lifecycle_measure.c ---- */

/* It has been loaded: measured once more when the device is quiet, where that can tell more of it. */
void measure_later(lifecycle_t *l, model_t *model);
void measure_on_timer(loop_timer_t *timer, void *arg);
void measure_done(void *ctx, model_t *model, uint32_t which, const profile_t *profile); /* of loader_ops_t */

/* ---- lifecycle_look.c ---- */

void look_on_read_all(void *ctx, repository_reading_t *readings, uint32_t count, const err_t *err);
void look_on_poll(loop_timer_t *timer, void *arg);

#endif
