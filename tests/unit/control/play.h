/*
 * A control plane alone, and four peers that a test plays by decoded messages, at times that it says: an honest gateway and worker,
 * and a gateway and worker to be put into any state. No loop, socket or clock: a play takes microseconds.
 *
 * What a message comes to is told in words ("granted", "noted", "closed"), so that a whole table of states and messages is a text.
 */
#ifndef TEST_CONTROL_PLAY_H
#define TEST_CONTROL_PLAY_H

#include "control/control.h"

#include "base/status.h"

enum { PLAY_GRANTS = 32, PLAY_EPOCH = 10, PLAY_CELL_BYTES = 96 };

typedef struct play play_t;

typedef struct {
    play_t *play;
    uint64_t instance_id, instance_key;
    uint64_t epoch;           /* that it puts into its messages; 0: the scheduler's */
    uint32_t devices;         /* of a worker; 0: a gateway */
    int64_t slo_ns;           /* of the models that it reports; 0: none */
    const char *device_class; /* NULL: none is told */
    const char *address;      /* NULL: all are of one host */
    gateway_t *gateway;
    worker_t *worker;             /* one of the two, while its stream is open */
    bool ending;                  /* the control plane ends it: play_ends tells that it has */
    uint64_t grants[PLAY_GRANTS]; /* ids of batches */
    uint32_t grant_count, drop_count;
    status_t dropped;   /* how the last one was */
    const char *listed; /* model "m" in the newest catalogue: "ready", "not ready", "absent" */
    uint64_t catalogue; /* its version */
    uint32_t estimates; /* that it got; of the newest: */
    size_t estimated;   /* models in it, and of the first one: */
    int64_t least_ns;
    double refuse[16];  /* all 0 where it has no parts */
    int64_t backlog_ns; /* -1 where it tells of none, as are the next two */
    int64_t row_ns, behind_ns;
    uint32_t backlog_priority;
    uint64_t command; /* the last that a worker was given */
} actor_t;

struct play {
    control_t *control;
    metrics_t *metrics;
    int64_t now_ns;
    actor_t gateway, worker;         /* have joined, and the worker has model 0, "good" */
    actor_t odd_gateway, odd_worker; /* not connected */
    char seen[PLAY_CELL_BYTES];      /* since play_watch */
    uint32_t tasks, batches;         /* at play_watch */
};

void play_init(play_t *play, const char *policy);
/* All leave. False: something was kept of tasks, batches or streams that are no more. */
bool play_dispose(play_t *play);

/* From now on what happens is noted; play_seen has it, "-" for nothing:
 *   welcome pong granted revoked catalogue command answer drain   the control plane sent such a message, to whomever
 *   doubted                                                       a gateway was asked whether a result is there
 *   dropped-STATUS                                                a gateway was told so of a task
 *   noted                                                         the message was complained of
 *   closed, no-version, full, away                                a stream is being ended, with that reason
 *   others-away                                                   those of the honest, for a newer epoch
 *   solve                                                         a plan was given to the solver
 *   ended                                                         fewer tasks are known than before
 *   queued                                                        as many, and fewer batches are in flight
 *   HARM                                                          an honest peer is shown the door for anything else
 */
void play_watch(play_t *play);
const char *play_seen(play_t *play);

/* Time passes, with all that falls due meanwhile. */
void play_pass(play_t *play, int64_t duration_ns);
/* Streams that are being ended have ended. */
void play_ends(play_t *play);
/* A task of the honest gateway runs on the honest worker; behind a newer epoch they join again first. */
bool play_honest_are_served(play_t *play);

void actor_open(actor_t *actor);
void actor_leave(actor_t *actor); /* its stream ends */

/* What each says; at the end of each the control plane decides and sends. */
void say(actor_t *actor, ProtobufCMessage *frame); /* GatewayToScheduler or WorkerToScheduler */
void say_hello(actor_t *actor);
void say_garbage(actor_t *actor);
void say_task(actor_t *actor, uint32_t model, uint64_t id);
void say_cancel(actor_t *actor, uint64_t id);
void say_arrived(actor_t *actor, uint64_t id);
void say_request(actor_t *actor, Control__ModelAction action, const char *name);
void say_seen(actor_t *actor, uint64_t catalogue);
void say_command_done(actor_t *actor, status_t status); /* of the last that it was given */
void say_report(actor_t *actor, const char *name, Control__ModelState state, int64_t row_ns);
void say_device(actor_t *actor, uint32_t device, Control__DeviceStatus status);
void say_done(actor_t *actor, uint64_t batch, uint32_t device, uint32_t status);

/* ---- Tables ---- */

typedef struct {
    const char *const *states, *const *messages; /* NULL-terminated */
    /* In a new play: into this state, this message, and what it came to, into word. */
    void (*cell)(uint32_t state, uint32_t message, char word[PLAY_CELL_BYTES]);
} table_t;

/* One line for each message, one column for each state: as below "## title" in the file. */
void table_check(const table_t *table, const char *path, const char *title);

#endif
