/*
 * Symphony's deferred batch scheduling (3.2, Figure 18): a batch is ready at frontrun, the moment from which
 * waiting for one more request would gain nothing, and until then its GPU is better left to others.
 *
 * drop=head gives up only what cannot make it even alone. drop=window also gives up heads that would keep the
 * batch below the size that the cluster can sustain: the largest b with latency(b)·(1 + 1/N) <= SLO, the
 * staggered schedule of 3.3, with N the GPUs that the model's share of the load can count on (3.2 names
 * Nexus' window drop as one of the two ways to gather).
 */
#include "sched/gather.h"
#include "sched/policy.h"

#include <math.h>

typedef struct {
    double drop;
} deferred_t;

enum { DROP_HEAD, DROP_WINDOW };

static const char *const drop_words[] = {"head", "window", NULL};

static void deferred_candidate(policy_t *policy, shard_t *shard, int64_t now_ns, int64_t gpu_free_ns,
                               candidate_t *candidate)
{
    (void)policy;
    gathered_t gathered = gather(shard, now_ns, gpu_free_ns, shard->plan.target_batch);
    int64_t ready_ns = gather_frontrun_ns(shard, &gathered);
    gather_candidate(shard, &gathered, now_ns, gpu_free_ns, ready_ns, candidate);
}

static const policy_param_t deferred_params[] = {
    {.name = "drop", .offset = offsetof(deferred_t, drop), .choices = drop_words, .help = "heads to give up"},
    {0},
};

const policy_ops_t policy_deferred_ops = {
    .name = "deferred",
    .help = "Symphony: a batch is ready when waiting for one more request would gain nothing",
    .params = deferred_params,
    .state_bytes = sizeof(deferred_t),
    .candidate = deferred_candidate,
};
