/*
 * Clockwork, as Symphony 2.2 tells it: a model has a candidate of every batch size, a free GPU takes at once
 * the candidate whose latest start is the earliest, and what it takes, or what expires, invalidates the
 * others.
 *
 * The candidate of size b begins at the first request that can still wait for a batch of b, and needs b
 * requests from there on. So the sizes of one model need not begin at the same request:
 *
 *     queue, by deadline:   r1   r2   r3   r4   r5   r6
 *     size 1 and 2:         ^ latest start d1 - l(1), d1 - l(2)
 *     size 3 and 4:              ^ r1 is too urgent for them: d2 - l(3), d2 - l(4)
 *     size 5:               only r3 .. r6 can still wait for it: not enough, no candidate
 *
 * What a candidate leaves in front of it stays in the queue, with smaller candidates of its own, until it
 * expires. take=largest does what Clockwork's published controller does in this place: the earliest latest
 * start says which model goes first, but the batch is the model's largest candidate.
 *
 * Finding the candidate is one walk along the queue, so it is left vague (candidate.h) until there is a GPU
 * to be had: a request that comes or expires costs O(1), however long the queue; a GPU that frees costs each
 * model that wants it a walk.
 *
 * Clockwork also keeps a distance from what it cannot know, which costs batching
 * (docs/policies/clockwork.md): it aims at buffer_ms before each deadline, and commits batches to a GPU up to
 * ahead_ms before the GPU is free.
 */
#include "sched/policy.h"

typedef struct {
    double sizes, take, ahead_ms, buffer_ms;
} clockwork_t;

enum { SIZES_ANY, SIZES_POW2 };
enum { TAKE_EARLIEST, TAKE_LARGEST };

static const char *const size_words[] = {"any", "pow2", NULL};
static const char *const take_words[] = {"earliest", "largest", NULL};

/* When the batch that this task is in must have ended. */
static int64_t due_ns(const clockwork_t *state, const shard_t *shard, uint32_t task)
{
    return shard_task(shard, task)->deadline_ns - (int64_t)(state->buffer_ms * 1e6);
}

static int64_t end_ns(const shard_t *shard, int64_t now_ns, int64_t gpu_free_ns, uint32_t batch)
{
    return shard_earliest_ns(shard, now_ns, gpu_free_ns, batch) + profile_latency_ns(shard->guard, batch);
}

/* Returns the head that is left, which can make it at least alone and on a GPU that is free now. */
static uint32_t give_up_expired(const clockwork_t *state, shard_t *shard, int64_t now_ns)
{
    uint32_t head;
    while ((head = shard_head(shard)) != TASK_NONE &&
           due_ns(state, shard, head) < end_ns(shard, now_ns, SHARD_ANY_GPU, 1)) {
        if (shard->guard == shard->profile ||
            !shard_doubts(shard, now_ns, SHARD_ANY_GPU, due_ns(state, shard, head)))
            shard_give_up(shard, head, SCHED_DROP_EXPIRED);
    }
    return head;
}

/* Of all sizes, into batch and skip; latest_ns is the earliest latest start of them all. Larger sizes skip
 * at least as much, so one walk along the queue sees all of them, and the first that finds too few
 * requests ends it. */
static void choose(const clockwork_t *state, shard_t *shard, int64_t now_ns, int64_t gpu_free_ns,
                   candidate_t *candidate)
{
    model_queue_line_up(&shard->queue, shard->pool);
    uint32_t at = shard->queue.head, skip = 0;
    int64_t chosen_ns = INT64_MAX;
    for (uint32_t b = 1; b <= shard->limit; b = (int)state->sizes == SIZES_POW2 ? 2 * b : b + 1) {
        int64_t ends_ns = end_ns(shard, now_ns, gpu_free_ns, b);
        for (; at != TASK_NONE && due_ns(state, shard, at) < ends_ns; skip++)
            at = shard->pool->slots[at].next;
        if (shard->queue.len - skip < b)
            return;
        int64_t latest_ns = due_ns(state, shard, at) - profile_latency_ns(shard->guard, b);
        if (latest_ns <= chosen_ns || (int)state->take == TAKE_LARGEST) {
            candidate->batch = b;
            candidate->skip = skip;
            candidate->lead_ns = shard_lead_ns(shard, b);
        }
        chosen_ns = latest_ns < chosen_ns ? latest_ns : chosen_ns;
        candidate->latest_ns = chosen_ns;
    }
}

/* The head alone is what there is at least; it stands when no size suits the GPU. */
static void clockwork_candidate(policy_t *policy, shard_t *shard, int64_t now_ns, int64_t gpu_free_ns,
                                candidate_t *candidate)
{
    const clockwork_t *state = policy->state;
    uint32_t head = give_up_expired(state, shard, now_ns);
    *candidate = (candidate_t){0};
    if (head == TASK_NONE)
        return;
    candidate->batch = 1;
    candidate->lead_ns = shard_lead_ns(shard, 1);
    candidate->ahead_ns = (int64_t)(state->ahead_ms * 1e6);
    candidate->latest_ns = due_ns(state, shard, head) - profile_latency_ns(shard->guard, 1);
    candidate->vague = candidate->closed = gpu_free_ns == SHARD_LATER_GPU;
    if (!candidate->vague)
        choose(state, shard, now_ns, gpu_free_ns, candidate);
    candidate->key = candidate->vague ? INT64_MIN : candidate->latest_ns;
    candidate->ready_ns = now_ns + candidate->lead_ns;
    if (candidate->latest_ns < candidate->ready_ns) /* the largest needs more lead than the most urgent */
        candidate->latest_ns = candidate->ready_ns;
}

static const sched_param_t clockwork_params[] = {
    {.name = "sizes",
     .offset = offsetof(clockwork_t, sizes),
     .choices = size_words,
     .help = "batch sizes offered"},
    {.name = "take",
     .offset = offsetof(clockwork_t, take),
     .choices = take_words,
     .help = "the candidate itself, or its model's largest"},
    {.name = "ahead_ms",
     .offset = offsetof(clockwork_t, ahead_ms),
     .most = 1000,
     .help = "a GPU is given work so long before it is free"},
    {.name = "buffer_ms",
     .offset = offsetof(clockwork_t, buffer_ms),
     .most = 1000,
     .help = "batches end so long before their deadlines"},
    {0},
};

const policy_ops_t policy_clockwork_ops = {
    .name = "clockwork",
    .help = "a candidate of every batch size, the earliest latest start first",
    .params = clockwork_params,
    .state_bytes = sizeof(clockwork_t),
    .candidate = clockwork_candidate,
};
