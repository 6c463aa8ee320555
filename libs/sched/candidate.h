/*
 * The first of the three messages between the two halves (Symphony Figure 18): the batch a model would run
 * next. Only the latest candidate of a model counts.
 *
 *      now        ready                latest
 *   ────┼───────────┼────────────────────┼────▶ start of the batch
 *       └─ waiting ─┴─ ready for a GPU ──┴─ would miss the head's deadline
 *
 * While enough GPUs are free a candidate may go before it is ready, and leaves the others to those that are. That is trunk
 * reservation, as telephone networks keep lines for the calls that have no other way.
 *
 * The grant leaves `lead_ns` before the start, for the way to the worker and the fetching of inputs.
 *
 * A policy whose candidates are dear to find may leave one vague until there is a GPU to be had: it is then
 * ready at once and before all others, and is made anew, for that GPU, when its turn comes.
 */
#ifndef SCHED_CANDIDATE_H
#define SCHED_CANDIDATE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    uint32_t batch; /* 0: the model has nothing to run */
    uint32_t part;  /* GPUs that are free may share it, each with at least so many; 0: it goes as one */
    uint32_t skip;  /* heads that it leaves in the queue: they are too urgent for it (policy `clockwork`) */
    bool closed;    /* a task that arrives behind the queue's end changes nothing here */
    bool vague;     /* see above; latest_ns is the head's alone */
    /* It goes from early_ns on while at least so many GPUs are free, with the one that it takes; 0: not before it is ready. */
    uint32_t idle;
    int64_t early_ns;
    int64_t ready_ns;
    int64_t latest_ns;
    int64_t key; /* among ready candidates the least goes first */
    int64_t lead_ns;
    /* a busy GPU may be granted so long before it is free, when no other is (policy `clockwork`) */
    int64_t ahead_ns;
} candidate_t;

/* How many of the batch go to one of so many GPUs that are free for it; the rest is the model's next candidate. */
static inline uint32_t candidate_share(const candidate_t *candidate, uint32_t gpus)
{
    if (candidate->part == 0 || gpus <= 1)
        return candidate->batch;
    uint32_t even = (candidate->batch + gpus - 1) / gpus,
             share = even > candidate->part ? even : candidate->part;
    return share < candidate->batch ? share : candidate->batch;
}

#endif
