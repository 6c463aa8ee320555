/*
 * Timeout batching, as in TensorFlow Serving and Triton (Symphony 2.2, 3.4): a batch is ready when its first
 * request has waited k, when it is full (the model's max_batch, or what the deadline allows), or when it has
 * a preferred size.
 *
 * k is the model's timeout_ns, else k_ms, else `fraction` of its SLO.
 */
#include "sched/gather.h"
#include "sched/policy.h"

typedef struct {
    double k_ms;
    double fraction;
} timeout_t;

static int64_t wait_ns(const timeout_t *state, const shard_t *shard)
{
    if (shard->opts.timeout_ns)
        return shard->opts.timeout_ns;
    if (state->k_ms > 0)
        return (int64_t)(state->k_ms * 1e6);
    return (int64_t)(state->fraction * (double)shard->opts.slo_ns);
}

static bool is_preferred(const shard_t *shard, uint32_t batch)
{
    return batch >= 1 && batch <= 64 && (shard->opts.preferred >> (batch - 1) & 1);
}

static void timeout_candidate(policy_t *policy, shard_t *shard, int64_t now_ns, int64_t gpu_free_ns,
                              candidate_t *candidate)
{
    gathered_t gathered = gather(shard, now_ns, gpu_free_ns, 0);
    int64_t ready_ns = gathered.arrival_ns + wait_ns(policy->state, shard);
    if (gathered.batch >= shard->limit || is_preferred(shard, gathered.batch))
        ready_ns = INT64_MIN;
    int64_t latest_ns = gathered.deadline_ns -
                        profile_latency_ns(shard->guard, gathered.batch ? gathered.batch : 1) -
                        shard->delays.wake_ns;
    gather_candidate(shard, &gathered, now_ns, gpu_free_ns, ready_ns < latest_ns ? ready_ns : latest_ns,
                     candidate);
}

static const sched_param_t timeout_params[] = {
    {.name = "k_ms", .offset = offsetof(timeout_t, k_ms), .most = 1e6, .help = "wait of the first request"},
    {.name = "fraction",
     .offset = offsetof(timeout_t, fraction),
     .most = 1,
     .preset = 0.2,
     .help = "wait as a part of the SLO, when k_ms is 0"},
    {0},
};

const policy_ops_t policy_timeout_ops = {
    .name = "timeout",
    .help = "TensorFlow Serving, Triton: a batch is ready when it is full or its first request has waited k",
    .params = timeout_params,
    .state_bytes = sizeof(timeout_t),
    .candidate = timeout_candidate,
};
