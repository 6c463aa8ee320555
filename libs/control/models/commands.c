#include "control/models/commands.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

/* A model of gigabytes that is read over a network and measured takes minutes; longer than this it does not come. */
static const int64_t PATIENCE_NS = 600 * NS_PER_S;

struct command {
    command_t *next;
    Control__ModelCommand message; /* its name is the memory behind this structure */
    bool sent;
    int64_t until_ns;
    command_done_fn done;
    void *ctx;
};

static const char *action_name(Control__ModelAction action)
{
    static const char *const names[] = {[CONTROL__MODEL_ACTION__MODEL_ACTION_LOAD] = "load",
                                        [CONTROL__MODEL_ACTION__MODEL_ACTION_UNLOAD] = "unload",
                                        [CONTROL__MODEL_ACTION__MODEL_ACTION_MEASURE] = "measure"};
    return names[action];
}

static command_t *command_make(worker_t *worker, Control__ModelAction action, const char *name,
                               int64_t version)
{
    size_t name_bytes = strlen(name) + 1;
    command_t *command = calloc(1, sizeof *command + name_bytes);
    if (!command)
        return NULL;
    control__model_command__init(&command->message);
    command->message.id = ++worker->commands_made;
    command->message.action = action;
    command->message.name = memcpy(command + 1, name, name_bytes);
    command->message.version = version;
    command->until_ns = worker->peer.turn->now_ns + PATIENCE_NS;
    command_t **link = &worker->commands;
    while (*link)
        link = &(*link)->next;
    *link = command;
    worker->command_count++;
    turn_touch(worker->peer.turn);
    return command;
}

static status_t command_give(worker_t *worker, Control__ModelAction action, const char *name, int64_t version,
                             bool planned, command_done_fn done, void *ctx)
{
    if (worker->peer.closing || worker->command_count >= COMMANDS_PER_WORKER_MAX)
        return STATUS_UNAVAILABLE;
    command_t *command = command_make(worker, action, name, version);
    if (!command)
        return STATUS_NO_MEMORY;
    command->message.planned = planned;
    command->done = done;
    command->ctx = ctx;
    note_info(worker->peer.turn, "model_command", LOG_STR("worker", worker->peer.name),
              LOG_STR("action", action_name(action)), LOG_STR("model", name), LOG_I64("version", version),
              LOG_U64("id", command->message.id));
    return STATUS_OK;
}

status_t worker_load_model(worker_t *worker, const char *name, int64_t version, bool planned,
                           command_done_fn done, void *ctx)
{
    return command_give(worker, CONTROL__MODEL_ACTION__MODEL_ACTION_LOAD, name, version, planned, done, ctx);
}

status_t worker_unload_model(worker_t *worker, const char *name, int64_t version, bool planned,
                             command_done_fn done, void *ctx)
{
    return command_give(worker, CONTROL__MODEL_ACTION__MODEL_ACTION_UNLOAD, name, version, planned, done,
                        ctx);
}

status_t worker_measure_model(worker_t *worker, const model_t *model)
{
    return command_give(worker, CONTROL__MODEL_ACTION__MODEL_ACTION_MEASURE, model->name, model->version,
                        true, NULL, NULL);
}

/* Not counted against the limit: there is at most one for each model of the worker. Without memory the worker loses
 * patience instead. */
void worker_release_model(worker_t *worker, const model_t *model)
{
    (void)command_make(worker, CONTROL__MODEL_ACTION__MODEL_ACTION_RELEASE, model->name, model->version);
}

/* Out of the list before done, which may give new ones. */
static void command_end(worker_t *worker, command_t *command, status_t status, const char *reason)
{
    for (command_t **link = &worker->commands; *link; link = &(*link)->next)
        if (*link == command) {
            *link = command->next;
            break;
        }
    worker->command_count--;
    if (command->done)
        command->done(command->ctx, worker, status, reason);
    free(command);
    turn_touch(worker->peer.turn);
}

void command_answered(worker_t *worker, const Control__CommandDone *done)
{
    command_t *command = worker->commands;
    while (command && (command->message.id != done->id || !command->sent))
        command = command->next;
    if (!command) {
        peer_complain(&worker->peer, NONSENSE_MODEL, "an answer to a command that was not given");
        return;
    }
    status_t status = done->status <= STATUS_INTERNAL ? (status_t)done->status : STATUS_INTERNAL;
    note_info(worker->peer.turn, "model_command_done", LOG_STR("worker", worker->peer.name),
              LOG_U64("id", done->id), LOG_STR("status", status_name(status)),
              LOG_STR("reason", done->reason));
    command_end(worker, command, status, done->reason);
}

void commands_worker_gone(worker_t *worker)
{
    while (worker->commands)
        command_end(worker, worker->commands, STATUS_UNAVAILABLE, "the worker went away");
}

/* The oldest are first. */
void commands_tick(worker_t *worker, int64_t now_ns)
{
    while (worker->commands && worker->commands->until_ns <= now_ns)
        command_end(worker, worker->commands, STATUS_DEADLINE_EXCEEDED, "no answer in ten minutes");
}

static bool is_release(const command_t *command)
{
    return command->message.action == CONTROL__MODEL_ACTION__MODEL_ACTION_RELEASE;
}

/* Releases are not answered: their place is free once the frame of the turn before has left. */
static void drop_sent_releases(worker_t *worker)
{
    for (command_t *command = worker->commands, *next; command; command = next) {
        next = command->next;
        if (command->sent && is_release(command))
            command_end(worker, command, STATUS_OK, "");
    }
}

void commands_put(worker_t *worker, Control__SchedulerToWorker *frame)
{
    if (!worker->commands)
        return;
    drop_sent_releases(worker);
    frame->commands =
        pb_arena_alloc(&worker->peer.turn->scratch, (worker->command_count + 1) * sizeof *frame->commands);
    for (command_t *command = worker->commands; command && frame->commands; command = command->next) {
        if (command->sent)
            continue;
        command->sent = true;
        frame->commands[frame->n_commands++] = &command->message;
    }
}
