/*
 * shards_t as one event loop sees it: told and asked like a sched_t, while the shards' threads decide.
 *
 *   loop: front_submit, front_batch_done, … ─▶ inboxes of the shards
 *   loop: front_run ─▶ sink  ◀─ outbox per shard ◀─ grants and drops          (wake: front_run is due)
 *
 * What differs from sched_t:
 *   - What is told takes effect with the next front_run or a little later, and what is told in one turn of the loop together as a
 *     rule. A task that is cancelled comes out all the same: in a drop, CANCELLED, or in
 *     what was decided before.
 *   - What is decided for a GPU that is drained or removed, or for a model that is removed, and has not come out by then, does
 *     not: its tasks are queued again, or dropped with the model.
 *   - The rare changes (models, GPUs, policies) bring the threads to a stand until the next front_run, so that many in a row
 *     cost it once: call front_run soon after them.
 *
 * All functions are for the loop's thread; only `wake` is called from others.
 */
#ifndef SHARDS_FRONT_H
#define SHARDS_FRONT_H

#include "shards/shards.h"

typedef struct front front_t;

typedef struct {
    sched_limits_t limits; /* tasks_max: the caller never has more in here */
    uint32_t shard_count;
    uint32_t tags_max; /* see shards_options_t */
    const char *policy, *params;
    sched_delays_t delays;
    bool pin;
    int64_t balance_ns;
    void (*wake)(void *ctx); /* any thread: call front_run soon; not again before that */
    void *ctx;
} front_options_t;

/* Its threads run from then on. */
status_t front_create(const front_options_t *options, front_t **out, err_t *err);
void front_destroy(front_t *front); /* NULL is allowed */

/* ---- Rare. As in sched.h. ---- */

status_t front_add_model(front_t *front, uint32_t model, const profile_t *profile,
                         const sched_model_opts_t *opts, err_t *err);
status_t front_remove_model(front_t *front, uint32_t model);
status_t front_update_profile(front_t *front, uint32_t model, const profile_t *profile);
status_t front_add_gpu(front_t *front, uint32_t gpu, int64_t free_at_ns);
status_t front_drain_gpu(front_t *front, uint32_t gpu);
status_t front_remove_gpu(front_t *front, uint32_t gpu); /* after its batches were said to have ended */
status_t front_allow(front_t *front, uint32_t model, uint32_t gpu, bool allowed);
status_t front_set_policy(front_t *front, const char *name, const char *params, err_t *err);

/* ---- All the time; none of these waits for a thread. ---- */

status_t front_submit(front_t *front, uint32_t model, const sched_task_t *task);
void front_cancel(front_t *front, uint32_t model, uint64_t tag);
/* As sched_batch_ran, before front_batch_done; at its best: what finds no room is lost. */
void front_batch_ran(front_t *front, uint64_t batch_id, int64_t started_ns, int64_t ended_ns);
/* Well or badly: what is to be tried again is submitted again. */
void front_batch_done(front_t *front, uint64_t batch_id, int64_t free_at_ns);
void front_gpu_free(front_t *front, uint32_t gpu, int64_t free_at_ns);
void front_set_delays(front_t *front, const sched_delays_t *delays);

/* Gives the sink all that has been decided; it may call the functions of the part above, and no other.
 * Returns when to be called again at the latest, besides wake (SCHED_NEVER). */
int64_t front_run(front_t *front, int64_t now_ns, sched_sink_fn sink, void *ctx);

/* As sched_needed. */
double front_needed(const front_t *front);
/* As the caller has heard it since the model came; one that comes back is counted anew. False: no such model. */
bool front_model_stats(const front_t *front, uint32_t model, sched_model_stats_t *stats);

/* As sched_model_scatter, as of the last grant of the model that came out. */
bool front_model_scatter(const front_t *front, uint32_t model, sched_scatter_t *scatter);

/* How late at most a grant came out after it could have been given, since the last call; what
 * sched_delays_t.wake_ns is to cover. False: none came out. */
bool front_take_lateness(front_t *front, int64_t *lateness_ns);

#endif
