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
#include "sched/rates.h"

enum { DROP_HEAD, DROP_WINDOW };

static const char *const drop_words[] = {"head", "window", NULL};

typedef struct {
    double drop;
    int64_t last_ns; /* 0: not yet */
} deferred_t;

typedef struct {
    rates_t rates;
} deferred_model_t;

static void deferred_candidate(policy_t *policy, shard_t *shard, int64_t now_ns, int64_t gpu_free_ns,
                               candidate_t *candidate)
{
    (void)policy;
    gathered_t gathered = gather(shard, now_ns, gpu_free_ns, shard->plan.target_batch);
    int64_t ready_ns = gather_frontrun_ns(shard, &gathered);
    gather_candidate(shard, &gathered, now_ns, gpu_free_ns, ready_ns, candidate);
}

/* The batch of the staggered schedule on the GPUs that this rate keeps busy. The two hang on each other: from all GPUs
 * down, a few rounds settle it. */
static uint32_t staggered_batch(const shard_t *shard, double rate_per_ms, double budget_ms, uint32_t gpus)
{
    double share = gpus;
    uint32_t batch = 0;
    budget_ms /= shard_guard_factor(shard);
    for (int round = 0; round < 4; round++) {
        batch = profile_largest_batch(shard->profile, (int64_t)(budget_ms * 1e6 * share / (share + 1)));
        if (batch == 0)
            return 0;
        double needed = rate_per_ms * shard_mean_factor(shard) *
                        (double)profile_latency_ns(shard->profile, batch) / 1e6 / batch;
        share = needed < gpus ? needed : gpus;
    }
    return batch < shard->limit ? batch : shard->limit;
}

static int64_t deferred_tick(policy_t *policy, int64_t now_ns)
{
    deferred_t *state = policy->state;
    if ((int)state->drop == DROP_HEAD)
        return SCHED_NEVER;
    double dt_ms = state->last_ns ? (double)(now_ns - state->last_ns) / 1e6 : 0;
    state->last_ns = now_ns;
    for (uint32_t m = 0; m < policy->models_max; m++) {
        shard_t *shard = &policy->shards[m];
        rates_t *rates = &((deferred_model_t *)policy_model(policy, m))->rates;
        if (!shard->present)
            continue;
        rates_update(rates, shard, dt_ms, 1000, 10000);
        double budget_ms = rates->budget_ms - (double)(shard->delays.ctrl_ns + shard->delays.fixed_ns) / 1e6;
        shard->plan.target_batch = staggered_batch(shard, rates_per_ms(rates), budget_ms, policy->gpus);
    }
    return now_ns + INT64_C(100000000);
}

static const sched_param_t deferred_params[] = {
    {.name = "drop", .offset = offsetof(deferred_t, drop), .choices = drop_words, .help = "heads to give up"},
    {0},
};

const policy_ops_t policy_deferred_ops = {
    .name = "deferred",
    .help = "Symphony: a batch is ready when waiting for one more request would gain nothing",
    .params = deferred_params,
    .state_bytes = sizeof(deferred_t),
    .model_bytes = sizeof(deferred_model_t),
    .candidate = deferred_candidate,
    .tick = deferred_tick,
};
