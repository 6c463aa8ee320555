/*
 * Hot path. What the candidates of most policies have in common: gathering a batch from the head of the
 * queue, and the times that follow from it. Inline, because that is most of what a candidate costs.
 */
#ifndef SCHED_GATHER_H
#define SCHED_GATHER_H

#include "sched/inside.h"

typedef struct {
    uint32_t batch;                  /* 0: the queue is empty */
    uint32_t feasible;               /* the largest batch that meets the head's deadline, queue or not */
    bool closed;                     /* see candidate_t */
    int64_t deadline_ns, arrival_ns; /* of the head */
} gathered_t;

/* The largest batch that meets the head's deadline (Symphony's GetBatch). Heads that cannot make it even
 * alone are given up (EXPIRED); then heads that would keep the batch below `target` while as many wait
 * (WINDOW). target 0 or 1: none. */
static inline gathered_t gather(shard_t *shard, int64_t now_ns, int64_t gpu_free_ns, uint32_t target)
{
    uint32_t head;
    while ((head = shard_head(shard)) != TASK_NONE) {
        const sched_task_t *task = shard_task(shard, head);
        uint32_t feasible = shard_feasible(shard, now_ns, gpu_free_ns, task->deadline_ns);
        uint32_t len = shard->queue.len;
        uint32_t wanted = target < len ? target : len;
        if (feasible == 0) {
            if (shard->guard == shard->profile ||
                !shard_doubts(shard, now_ns, gpu_free_ns, task->deadline_ns))
                shard_give_up(shard, head, SCHED_DROP_EXPIRED);
        } else if (feasible < wanted) {
            shard_give_up(shard, head, SCHED_DROP_WINDOW);
        } else {
            return (gathered_t){.batch = feasible < len ? feasible : len,
                                .feasible = feasible,
                                .closed = feasible <= len && feasible >= target,
                                .deadline_ns = task->deadline_ns,
                                .arrival_ns = task->arrival_ns};
        }
    }
    return (gathered_t){0};
}

/* When waiting for one more would gain nothing (Symphony 3.1): d - latency(b + 1), or earlier where GPUs
 * can do more (sched/inside.h); at once if the batch cannot grow. */
static inline int64_t gather_frontrun_ns(const shard_t *shard, const gathered_t *gathered)
{
    if (gathered->batch >= gathered->feasible)
        return INT64_MIN;
    return gathered->deadline_ns - inside_hold_ns(shard, gathered->batch) - shard->delays.wake_ns;
}

/* Completes the candidate: never ready before the GPU and the inputs can be there. */
static inline void gather_candidate(const shard_t *shard, const gathered_t *gathered, int64_t now_ns,
                                    int64_t gpu_free_ns, int64_t ready_ns, candidate_t *candidate)
{
    candidate->batch = gathered->batch;
    candidate->part = candidate->skip = candidate->idle = 0;
    candidate->ahead_ns = 0;
    candidate->vague = false;
    if (gathered->batch == 0) {
        candidate->closed = false;
        return;
    }
    int64_t earliest_ns = shard_earliest_ns(shard, now_ns, gpu_free_ns, gathered->batch);
    candidate->closed = gathered->closed;
    candidate->lead_ns = shard_lead_ns(shard, gathered->batch);
    candidate->ready_ns = ready_ns > earliest_ns ? ready_ns : earliest_ns;
    candidate->latest_ns = gathered->deadline_ns - profile_latency_ns(shard->guard, gathered->batch);
    candidate->key = candidate->latest_ns;
}

#endif
