/*
 * Clockwork, as Symphony 2.2 tells it: a model has a candidate of every batch size, a free GPU takes at once the candidate
 * whose latest start is the earliest, and what it takes, or what expires, invalidates the others.
 *
 * The candidate of size b begins at the first request that can still wait for a batch of b, and needs b requests from there
 * on. So the sizes of one model need not begin at the same request:
 *
 *     queue, by deadline:   r1   r2   r3   r4   r5   r6
 *     size 1 and 2:         ^ latest start d1 - l(1), d1 - l(2)
 *     size 3 and 4:              ^ r1 is too urgent for them: d2 - l(3), d2 - l(4)
 *     size 5:               only r3 .. r6 can still wait for it: not enough, no candidate
 *
 * What a candidate leaves in front of it stays in the queue, with smaller candidates of its own, until it expires.
 * take=largest does what Clockwork's published controller does in this place: the earliest latest start says which model
 * goes first, but the batch is the model's largest candidate.
 *
 * O(queue) per candidate, where the other policies have O(1): the papers name that cost as Clockwork's limit too.
 */
#include "sched/gather.h"
#include "sched/policy.h"

typedef struct {
    double sizes, take;
} clockwork_t;

enum { SIZES_ANY, SIZES_POW2 };
enum { TAKE_EARLIEST, TAKE_LARGEST };

static const char *const size_words[] = {"any", "pow2", NULL};
static const char *const take_words[] = {"earliest", "largest", NULL};

typedef struct {
    uint32_t batch, skip;
    int64_t deadline_ns, latest_ns;
} choice_t;

/* *first_ns: the earliest latest start of them all. Larger sizes skip at least as much, so one walk along the queue sees all
 * of them, and the first that finds too few requests ends it. */
static choice_t choose(const clockwork_t *state, const shard_t *shard, int64_t now_ns, int64_t gpu_free_ns,
                       int64_t *first_ns)
{
    choice_t choice = {.latest_ns = INT64_MAX};
    uint32_t at = shard->queue.head, skip = 0;
    *first_ns = INT64_MAX;
    for (uint32_t b = 1; b <= shard->limit; b = (int)state->sizes == SIZES_POW2 ? 2 * b : b + 1) {
        int64_t latency_ns = profile_latency_ns(shard->profile, b);
        int64_t end_ns = shard_earliest_ns(shard, now_ns, gpu_free_ns, b) + latency_ns;
        for (; at != TASK_NONE && shard_task(shard, at)->deadline_ns < end_ns; skip++)
            at = shard->pool->slots[at].next;
        if (shard->queue.len - skip < b)
            break;
        int64_t deadline_ns = shard_task(shard, at)->deadline_ns;
        choice_t this = {
            .batch = b, .skip = skip, .deadline_ns = deadline_ns, .latest_ns = deadline_ns - latency_ns};
        *first_ns = this.latest_ns < *first_ns ? this.latest_ns : *first_ns;
        if (this.latest_ns <= choice.latest_ns || (int)state->take == TAKE_LARGEST)
            choice = this;
    }
    return choice;
}

static void clockwork_candidate(policy_t *policy, shard_t *shard, int64_t now_ns, int64_t gpu_free_ns,
                                candidate_t *candidate)
{
    int64_t first_ns;
    gathered_t gathered = gather(shard, now_ns, gpu_free_ns, 0); /* gives up the expired */
    model_queue_line_up(&shard->queue, shard->pool);
    choice_t choice = choose(policy->state, shard, now_ns, gpu_free_ns, &first_ns);
    gathered.batch = choice.batch;
    gathered.deadline_ns = choice.deadline_ns;
    gathered.closed = false;
    gather_candidate(shard, &gathered, now_ns, gpu_free_ns, INT64_MIN, candidate);
    candidate->skip = choice.skip;
    candidate->key = first_ns;
}

static const policy_param_t clockwork_params[] = {
    {.name = "sizes",
     .offset = offsetof(clockwork_t, sizes),
     .choices = size_words,
     .help = "batch sizes offered"},
    {.name = "take",
     .offset = offsetof(clockwork_t, take),
     .choices = take_words,
     .help = "the candidate itself, or its model's largest"},
    {0},
};

const policy_ops_t policy_clockwork_ops = {
    .name = "clockwork",
    .help = "a candidate of every batch size, the earliest latest start first",
    .params = clockwork_params,
    .state_bytes = sizeof(clockwork_t),
    .candidate = clockwork_candidate,
};
