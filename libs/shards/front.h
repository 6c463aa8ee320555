/*
 * shards_t as one event loop sees it: a core (sched/core_ops.h) whose decisions threads make.
 *
 *   loop: submit, batch_ended, … ─▶ inboxes of the shards
 *   loop: run ─▶ sink  ◀─ outbox per shard ◀─ grants and drops          (wake: run is due)
 *
 * What differs from a sched_t:
 *   - What is told takes effect with the next run or a little later, and what is told in one turn of the loop together as a
 *     rule. A task that is cancelled comes out all the same: in a drop, CANCELLED, or in
 *     what was decided before.
 *   - What is decided for a GPU that is drained or removed, or for a model that is removed, and has not come out by then, does
 *     not: its tasks are queued again, or dropped with the model.
 *   - The rare changes (models, GPUs, policies) bring the threads to a stand until the next run, so that many in a row
 *     cost it once: call run soon after them. Nothing else waits for a thread.
 *   - needed, model_stats and model_scatter are as the caller has heard it: of a model since it came, its scatter as of its
 *     last grant that came out.
 *   - backlog says nothing, and note_refused does nothing.
 *   - UNSUPPORTED: policies nexus and shepherd; GPUs of another mode than `whole`. Running batches are never stopped.
 *
 * All operations are for the loop's thread; only `wake` is called from others.
 */
#ifndef SHARDS_FRONT_H
#define SHARDS_FRONT_H

#include "sched/core_ops.h"

typedef struct {
    sched_limits_t limits; /* tasks_max: the caller never has more in here */
    uint32_t shard_count;
    const char *policy, *params;
    sched_delays_t delays;
    bool pin;
    int64_t balance_ns;      /* see shards_options_t */
    void (*wake)(void *ctx); /* any thread: call run soon; not again before that */
    void *ctx;
} front_options_t;

/* Its threads run from then on. UNSUPPORTED, INVALID_ARGUMENT: the policy; NO_MEMORY. */
status_t front_create(const front_options_t *options, core_t **core, err_t *err);

#endif
