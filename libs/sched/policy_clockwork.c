/*
 * Clockwork's order, as Symphony 2.2 tells it: every model has a candidate of every batch size, a free GPU takes the one
 * whose latest start is the earliest, and what it takes invalidates the others.
 *
 * Of one model's candidates the largest that is feasible has the earliest latest start, so it stands for all; when its
 * latest start passes, the next smaller one takes its place. sizes=pow2 offers powers of two only, as Clockwork's engine
 * does. What Clockwork loses in the papers beyond this order (actions queued 5 ms ahead, the time to search) is not here.
 */
#include "sched/gather.h"
#include "sched/policy.h"

typedef struct {
    double sizes;
} clockwork_t;

enum { SIZES_ANY, SIZES_POW2 };

static const char *const size_words[] = {"any", "pow2", NULL};

static uint32_t power_of_two(uint32_t batch)
{
    while (batch & (batch - 1))
        batch &= batch - 1;
    return batch;
}

static void clockwork_candidate(policy_t *policy, shard_t *shard, int64_t now_ns, int64_t gpu_free_ns,
                                candidate_t *candidate)
{
    const clockwork_t *state = policy->state;
    gathered_t gathered = gather(shard, now_ns, gpu_free_ns, 0);
    if ((int)state->sizes == SIZES_POW2)
        gathered.batch = power_of_two(gathered.batch);
    gather_candidate(shard, &gathered, now_ns, gpu_free_ns, INT64_MIN, candidate);
}

static const policy_param_t clockwork_params[] = {
    {.name = "sizes",
     .offset = offsetof(clockwork_t, sizes),
     .choices = size_words,
     .help = "batch sizes offered"},
    {0},
};

const policy_ops_t policy_clockwork_ops = {
    .name = "clockwork",
    .help = "a candidate of every batch size, the earliest latest start first",
    .params = clockwork_params,
    .state_bytes = sizeof(clockwork_t),
    .candidate = clockwork_candidate,
};
