/*
 * Hot path. What a batch does inside a GPU that does more than run one batch after the other
 * (sched_set_gpu_mode, sched_set_inside): what the core decides by, and the one place where policies see the
 * modes.
 */
#ifndef SCHED_INSIDE_H
#define SCHED_INSIDE_H

#include "sched/shard.h"

enum {
    /* Beside what keeps this part of a GPU busy another batch gains nothing: both would only be slowed, and what
     * waits becomes a larger batch. */
    INSIDE_ROOM_LEAST = SCHED_WHOLE * 3 / 4,
    /* Nor are batches put together that would want more than this: a smaller one may fit where this one would fill. */
    INSIDE_FILLED_MOST = SCHED_WHOLE * 5 / 4,
    /* Batches are busier at some times than at others, so a prediction of several is not exact: of what is
     * predicted this part is kept back (Abacus adds about as much to each). */
    INSIDE_KEPT_BACK = 16,
};

/* Part of a GPU that a batch of so many keeps busy, per mille. */
static inline uint32_t inside_busy(const shard_t *shard, uint32_t batch)
{
    uint64_t busy = shard->inside.busy_fixed + (uint64_t)shard->inside.busy_row * batch;
    return busy == 0 || busy > SCHED_WHOLE ? SCHED_WHOLE : (uint32_t)busy;
}

/* part: per mille. */
static inline int64_t inside_part_ns(int64_t latency_ns, uint32_t part)
{
    return latency_ns / SCHED_WHOLE * part + latency_ns % SCHED_WHOLE * part / SCHED_WHOLE;
}

/* Rows that join a batch at a border which `part` of the latency lies before (stretch.c): the fewest that pay
 * for the launch that catching up costs, */
static inline uint32_t inside_least_joining(uint32_t rows, uint32_t part)
{
    return (rows * part + SCHED_WHOLE - 1) / SCHED_WHOLE;
}

/* how long they take to catch up, */
static inline int64_t inside_catch_up_ns(const shard_t *shard, uint32_t part, uint32_t joining)
{
    return inside_part_ns(shard_expected_ns(shard, joining), part) + 1;
}

/* and how long all rows together take from then on. */
static inline int64_t inside_rest_ns(const shard_t *shard, uint32_t part, uint32_t rows)
{
    int64_t latency_ns = shard_expected_ns(shard, rows);
    return latency_ns - inside_part_ns(latency_ns, part);
}

/* A batch that others may join, all times from any one moment on. */
typedef struct {
    const sched_inside_t *inside; /* of its model */
    uint32_t rows, part;         /* rows that it has; part of its latency before the border where they join */
    int64_t age_ns;              /* for how long it has run when they are there */
    int64_t border_ns, alone_ns; /* when it is at the border, and when it ends if none join */
} inside_join_t;

/* Of `count` that join: when they have caught up, */
static inline int64_t inside_joined_ns(const shard_t *shard, const inside_join_t *join, uint32_t count)
{
    return join->border_ns + inside_catch_up_ns(shard, join->part, count);
}

/* and when all end. */
static inline int64_t inside_together_ns(const shard_t *shard, const inside_join_t *join, uint32_t count)
{
    return inside_joined_ns(shard, join, count) + inside_rest_ns(shard, join->part, join->rows + count);
}

/*
 * Whether so many are worth it, the first of them due at deadline_ns: they pay for the launch, the batch is young enough, and
 * the first would be too late in the next batch or the mean gets better: all that join gain more against
 * being that batch than those that run lose (as exec/staged_policy.c decides for stages). With slots, too: the next batch
 * could run beside it there, so those that join gain less than is reckoned here, not more.
 */
bool inside_may_join(const shard_t *shard, const inside_join_t *join, uint32_t count, int64_t deadline_ns);

/* inside_hold_ns where GPUs have modes. Cold: the fast path is that none has. */
__attribute__((cold)) int64_t inside_hold_with_modes_ns(const shard_t *shard, uint32_t batch);

/*
 * How long before its head's deadline a batch need not be held any more; frontrun is the deadline less this.
 *
 *     held, for more requests ──▶ frontrun                    deadline
 *                                 ├─────────── l(b + 1) ──────────┤  GPUs that run one batch after the other
 *                       ├── l(b + 1), slowed by a neighbour ──────┤  slots
 *                    ├── l(b), and what a stretch adds to it ─────┤  stretches, where rows may join at all
 *
 * The first is Symphony's (3.1): what comes later could not be added any more. A batch that was held so long
 * has no slack left when it starts, so it fits beside no other, no other fits beside it, and no rows can join
 * it. Where GPUs can do that it is let go as much earlier as one of them costs, the more if they can do both.
 * batch is below the shard's limit.
 */
static inline int64_t inside_hold_ns(const shard_t *shard, uint32_t batch)
{
    return shard->gpus ? inside_hold_with_modes_ns(shard, batch)
                       : profile_latency_ns(shard->guard, batch + 1);
}

#endif
