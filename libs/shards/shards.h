/*
 * The scheduling core on many cores: shard threads around libs/sched's model half, one thread around its GPU
 * half, and the mailboxes between them (docs/protocols.md, "Inside the scheduler"; Symphony §4.2).
 *
 *   submit, done ──▶ inbox ─▶ shard 0 ─ candidates (latest only), answers ─▶ matcher ◀─ GPUs join, drain, leave
 *                    inbox ─▶ shard 1 ◀──────────── orders ────────────────┘
 *   planner: the policy's slow loop, on sums of what the shards have counted
 *
 * Either shards_start runs all of it on threads of its own, in real time; or nothing is started and
 * shards_step does what is due on the caller's thread, at the caller's time: then the decisions are those of
 * sched_t.
 *
 * What happens all the time (tasks, batches, GPUs that come and go) is told from any thread. What changes
 * rarely (models, profiles, the policy) is told between shards_hold and shards_release, while all threads
 * stand still, or before the start.
 *
 * Policies that route (nexus) or stop any batch (shepherd) need to see GPUs and queues at once: UNSUPPORTED here,
 * sched_t runs them. Nothing is stopped here for its exit points (fermata).
 */
#ifndef SHARDS_SHARDS_H
#define SHARDS_SHARDS_H

#include "sched/sched.h"

enum { SHARDS_MAX = 64 };

typedef struct shards shards_t;

/* Grants and drops of one shard, on its thread. It may call shards_submit_here, and nothing else of this shard. */
typedef void (*shards_sink_fn)(void *ctx, uint32_t shard, const sched_action_t *action);

/* Optional, on the shard's thread in every turn: takes in what has come. True: there was something. */
typedef bool (*shards_turn_fn)(void *ctx, uint32_t shard, int64_t now_ns);

/* Optional, on the shard's thread: false leaves what waits in its inbox for a later turn. */
typedef bool (*shards_may_take_fn)(void *ctx, uint32_t shard);

typedef struct {
    sched_limits_t limits; /* tasks_max is of each shard */
    uint32_t shard_count;
    uint32_t inbox_len; /* messages that may wait for a shard; 0: 65,536 */
    const char *policy; /* NULL: the first */
    const char *params;
    sched_delays_t delays;
    bool pin; /* shard i to CPU i, the matcher to the one behind the last, modulo those that there are */
    int64_t balance_ns; /* between two looks at whether models should move; 0: never */
    /* 0: no task can be cancelled. Else the low halves of the tags are below this, and no two tasks that
     * are here at a time share one: by it a task is found again. */
    uint32_t tags_max;
    /* tasks and batches that are told wake nobody before shards_wake: what is told together is seen together */
    bool quiet;
    shards_sink_fn sink;
    shards_turn_fn turn;
    shards_may_take_fn may_take;
    void *ctx;
} shards_options_t;

status_t shards_create(const shards_options_t *options, shards_t **out, err_t *err);
void shards_destroy(shards_t *shards); /* stops first; NULL is allowed */

status_t shards_start(shards_t *shards, err_t *err);
/* Ends all threads; what waits stays where it is. */
void shards_stop(shards_t *shards);

/* Instead of shards_start. Returns when to be called again at the latest. */
int64_t shards_step(shards_t *shards, int64_t now_ns);

/* ---- What happens: any thread ---- */

/* NOT_FOUND: no such model; UNAVAILABLE: the inbox is full. A task that finds its shard's tasks_max
 * reached later comes back as a drop, NO_ROOM; one whose model has left meanwhile, MODEL_REMOVED. */
status_t shards_submit(shards_t *shards, uint32_t model, const sched_task_t *task);
/* Takes out a task that waits: it comes back as a drop, CANCELLED. If it was granted or dropped before,
 * nothing happens, for its action is on its way. NOT_FOUND, UNAVAILABLE: as above. */
status_t shards_cancel(shards_t *shards, uint32_t model, uint64_t tag);
/* As sched_batch_ran, and before shards_batch_done. False: the shard's inbox is full, and nothing is learned from this batch. */
bool shards_batch_ran(shards_t *shards, uint64_t batch_id, int64_t started_ns, int64_t ended_ns);
/* As sched_needed; any thread. */
double shards_needed(const shards_t *shards);
/* As sched_batch_done; an unknown batch is ignored. False: the shard's inbox is full, try again. */
bool shards_batch_done(shards_t *shards, uint64_t batch_id, int64_t free_at_ns);
/* The same of a batch that nobody was told of: its tasks are queued again. */
bool shards_batch_undone(shards_t *shards, uint64_t batch_id, int64_t free_at_ns);
void shards_set_delays(shards_t *shards, const sched_delays_t *delays);
void shards_wake(shards_t *shards); /* see `quiet` */

/* On the shard's own thread, from its turn or sink. UNAVAILABLE: tasks_max. The batch is one that its sink saw. */
status_t shards_submit_here(shards_t *shards, uint32_t shard, int64_t now_ns, uint32_t model,
                            const sched_task_t *task);
void shards_batch_done_here(shards_t *shards, uint32_t shard, uint64_t batch_id, int64_t free_at_ns);

/* UNAVAILABLE: too many such messages wait; try again. What makes no sense when its turn comes (a GPU that
 * is not there) has no effect. Between hold and release they act at once. */
status_t shards_add_gpu(shards_t *shards, uint32_t gpu, int64_t free_at_ns);
status_t shards_remove_gpu(shards_t *shards, uint32_t gpu); /* its tasks are queued again */
status_t shards_drain_gpu(shards_t *shards, uint32_t gpu);
status_t shards_gpu_free(shards_t *shards, uint32_t gpu, int64_t free_at_ns);
status_t shards_move_model(shards_t *shards, uint32_t model,
                           uint32_t to); /* no effect while it is on its way already */

uint32_t shards_owner(const shards_t *shards, uint32_t model); /* UINT32_MAX: no such model */

/* ---- What changes rarely ---- */

/* Brings all threads to a stand and works off on this one what is under way between them: sinks are called
 * from here. It takes as long as the longest turn, some 100 µs. shards_release decides what the changes
 * have made due, here, and lets the threads go. Any thread, but no sink; nothing is lost when nothing was
 * started. */
void shards_hold(shards_t *shards);
void shards_release(shards_t *shards);

/* As sched_…: held, or not started; drops come with the release or the next step. now_ns counts only when
 * not started. */
status_t shards_add_model(shards_t *shards, int64_t now_ns, uint32_t model, const profile_t *profile,
                          const sched_model_opts_t *opts, err_t *err); /* to the shard with the fewest */
status_t shards_remove_model(shards_t *shards, int64_t now_ns, uint32_t model);
status_t shards_update_profile(shards_t *shards, int64_t now_ns, uint32_t model, const profile_t *profile);
status_t shards_allow(shards_t *shards, int64_t now_ns, uint32_t model, uint32_t gpu, bool allowed);
/* UNSUPPORTED: nexus, shepherd. */
status_t shards_set_policy(shards_t *shards, int64_t now_ns, const char *name, const char *params,
                           err_t *err);

/* Held, or stopped. */
bool shards_model_stats(shards_t *shards, uint32_t model, sched_model_stats_t *stats);

/* Sums over all shards; exact while held or stopped. */
typedef struct {
    sched_model_stats_t all;
    uint64_t candidates; /* that the matcher has taken in */
    uint64_t stale;      /* of those, made before their shard knew of an order */
    uint64_t unused;     /* grants that came too late for their batch, or too early for what it had become */
    uint64_t requeued;   /* tasks whose GPU went away under them */
    uint64_t moves;
} shards_stats_t;
void shards_stats(shards_t *shards, shards_stats_t *stats);

#endif
