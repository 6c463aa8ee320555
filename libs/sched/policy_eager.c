/*
 * Eager batching (Symphony 2.2): a GPU that is free takes at once what waits, the most urgent model first.
 */
#include "sched/gather.h"
#include "sched/policy.h"

static void eager_candidate(policy_t *policy, shard_t *shard, int64_t now_ns, int64_t gpu_free_ns,
                            candidate_t *candidate)
{
    (void)policy;
    gathered_t gathered = gather(shard, now_ns, gpu_free_ns, 0);
    gather_candidate(shard, &gathered, now_ns, gpu_free_ns, INT64_MIN, candidate);
}

const policy_ops_t policy_eager_ops = {
    .name = "eager",
    .help = "a free GPU takes at once what waits, the most urgent model first",
    .candidate = eager_candidate,
};
