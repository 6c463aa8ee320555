/*
 * The scheduling core on many cores: shard threads around libs/sched's model half, one thread around its GPU half, and the
 * mailboxes between them (docs/protocols.md, "Inside the scheduler"; Symphony §4.2).
 *
 *   submit, done ──▶ inbox ─▶ shard 0 ─ candidates (latest only), answers ─▶ matcher ◀─ GPUs join, drain, leave
 *                    inbox ─▶ shard 1 ◀──────────── orders ────────────────┘
 *   planner: the policy's slow loop, on sums of what the shards have counted
 *
 * Either shards_start runs all of it on threads of its own, in real time; or nothing is started and shards_step does what is
 * due on the caller's thread, at the caller's time: then the decisions are those of sched_t.
 *
 * Policies that route (nexus) or preempt (shepherd) need to see GPUs and queues at once: UNSUPPORTED here, sched_t runs them.
 * Models are added before the start; GPUs come and go, and models move between shards, at any time.
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

typedef struct {
    sched_limits_t limits; /* tasks_max is of each shard */
    uint32_t shard_count;
    uint32_t inbox_len; /* messages that may wait for a shard; 0: 65,536 */
    const char *policy; /* NULL: the first */
    const char *params;
    sched_delays_t delays;
    bool pin; /* shard i to CPU i, the matcher to the one behind the last, modulo those that there are */
    int64_t balance_ns; /* between two looks at whether models should move; 0: never */
    shards_sink_fn sink;
    shards_turn_fn turn;
    void *ctx;
} shards_options_t;

status_t shards_create(const shards_options_t *options, shards_t **out, err_t *err);
void shards_destroy(shards_t *shards); /* stops first; NULL is allowed */

/* Before the start. The model goes to the shard with the fewest. */
status_t shards_add_model(shards_t *shards, uint32_t model, const profile_t *profile,
                          const sched_model_opts_t *opts, err_t *err);

status_t shards_start(shards_t *shards, err_t *err);
/* Ends all threads; what waits stays where it is. The sums of shards_stats are exact from then on. */
void shards_stop(shards_t *shards);

/* Instead of shards_start. Returns when to be called again at the latest. */
int64_t shards_step(shards_t *shards, int64_t now_ns);

/* Any thread. NOT_FOUND: no such model; UNAVAILABLE: the inbox is full. A task that finds its shard's tasks_max reached
 * later comes back as a drop. */
status_t shards_submit(shards_t *shards, uint32_t model, const sched_task_t *task);
/* On the shard's own thread, from its turn or sink. UNAVAILABLE: tasks_max. */
status_t shards_submit_here(shards_t *shards, uint32_t shard, int64_t now_ns, uint32_t model,
                            const sched_task_t *task);
/* Any thread. False: the shard's inbox is full, try again. An unknown batch is ignored. */
bool shards_batch_done(shards_t *shards, uint64_t batch_id, int64_t free_at_ns);
/* On the shard's own thread, for a batch that its sink saw. */
void shards_batch_done_here(shards_t *shards, uint32_t shard, uint64_t batch_id, int64_t free_at_ns);

/* Any thread. UNAVAILABLE: too many such messages wait; try again. What makes no sense when its turn comes (a GPU that is
 * not there) has no effect. */
status_t shards_add_gpu(shards_t *shards, uint32_t gpu, int64_t free_at_ns);
status_t shards_remove_gpu(shards_t *shards, uint32_t gpu); /* its tasks are queued again */
status_t shards_drain_gpu(shards_t *shards, uint32_t gpu);
status_t shards_move_model(shards_t *shards, uint32_t model,
                           uint32_t to); /* no effect while it is on its way already */

uint32_t shards_owner(const shards_t *shards, uint32_t model);

/* Sums over all shards. */
typedef struct {
    sched_model_stats_t all;
    uint64_t candidates; /* that the matcher has taken in */
    uint64_t stale;      /* of those, made before their shard knew of an order */
    uint64_t unused;     /* grants that came too late for their batch */
    uint64_t requeued;   /* tasks whose GPU went away under them */
    uint64_t moves;
} shards_stats_t;
void shards_stats(shards_t *shards, shards_stats_t *stats);

#endif
