/*
 * Hot path. What the candidates of most policies have in common: gathering a batch from the head of the
 * queue, and the times that follow from it.
 */
#ifndef SCHED_GATHER_H
#define SCHED_GATHER_H

#include "sched/shard.h"

typedef struct {
    uint32_t batch;                  /* 0: the queue is empty */
    uint32_t feasible;               /* the largest batch that meets the head's deadline, queue or not */
    bool closed;                     /* see candidate_t */
    int64_t deadline_ns, arrival_ns; /* of the head */
} gathered_t;

/* The largest batch that meets the head's deadline (Symphony's GetBatch). Heads that cannot make it even
 * alone are given up (EXPIRED); then heads that would keep the batch below `target` while as many wait
 * (WINDOW). target 0 or 1: none. */
gathered_t gather(shard_t *shard, int64_t now_ns, int64_t gpu_free_ns, uint32_t target);

/* When waiting for one more would gain nothing (Symphony 3.1): d - latency(b + 1); at once if the batch
 * cannot grow. */
int64_t gather_frontrun_ns(const shard_t *shard, const gathered_t *gathered);

/* Completes the candidate: never ready before the GPU and the inputs can be there. */
void gather_candidate(const shard_t *shard, const gathered_t *gathered, int64_t now_ns, int64_t gpu_free_ns,
                      int64_t ready_ns, candidate_t *candidate);

#endif
