/*
 * Nexus (Symphony 2.2): every epoch, squishy bin packing (squishy.h) says which models run on which GPUs and
 * in what batches; requests are routed to one of their model's GPUs as they come; a GPU runs its models in
 * turn, and gives up heads that would keep a batch below the planned one (early drop).
 *
 * The plan is scaled so that it uses all GPUs: what is over is headroom, what is missing is dropped. One
 * frontend deals all requests of a model to its GPUs in the planned proportions; of several, each deals what
 * comes to it without knowing what the others send, so that a GPU's requests come less evenly (Symphony 5.1).
 */
#include "sched/gather.h"
#include "sched/policy.h"
#include "sched/rates.h"
#include "sched/squishy.h"

typedef struct {
    double epoch_s, frontends;
    int64_t last_ns, planned_ns;
    bool begun;
} nexus_t;

typedef struct {
    squishy_model_t squishy; /* first */
    rates_t rates;
} nexus_model_t;

typedef struct {
    squishy_node_t node; /* scratch of the packing */
    uint32_t id;
} nexus_gpu_t;

static void nexus_candidate(policy_t *policy, shard_t *shard, int64_t now_ns, int64_t gpu_free_ns,
                            candidate_t *candidate)
{
    (void)policy;
    uint32_t planned = shard->index == shard->model ? 0 : shard->lane.batch; /* not yet planned: eager */
    gathered_t gathered = gather(shard, now_ns, gpu_free_ns, planned);
    if (planned && gathered.batch > planned)
        gathered.batch = planned;
    /* its turn comes once in a duty cycle, or when its batch is full */
    int64_t ready_ns =
        planned && gathered.batch < planned ? shard->lane.turn_ns + shard->lane.duty_ns : INT64_MIN;
    int64_t latest_ns = gathered.deadline_ns -
                        profile_latency_ns(shard->guard, gathered.batch ? gathered.batch : 1) -
                        shard->delays.wake_ns;
    gather_candidate(shard, &gathered, now_ns, gpu_free_ns, ready_ns < latest_ns ? ready_ns : latest_ns,
                     candidate);
    candidate->key = shard->lane.turn_ns;
}

static void measure(policy_t *policy, double dt_ms)
{
    for (uint32_t m = 0; m < policy->models_max; m++) {
        const shard_t *shard = &policy->shards[m];
        nexus_model_t *model = policy_model(policy, m);
        squishy_model_t *squishy = &model->squishy;
        squishy->profile = shard->present ? shard->profile : NULL;
        if (!shard->present)
            continue;
        rates_update(&model->rates, shard, dt_ms, 5000, 10000);
        double rate = rates_per_ms(&model->rates), hint = shard->opts.rate_hint / 1e3;
        double budget_ms =
            model->rates.budget_ms > 0 ? model->rates.budget_ms : (double)shard->opts.slo_ns / 1e6;
        squishy->limit = shard->limit;
        squishy->rate = rate > 0 ? rate : hint > 0 ? hint : 1e-3;
        squishy->slo = budget_ms - (double)shard_lead_ns(shard, 1) / 1e6;
    }
}

/* The nodes lie in the GPUs' scratch one behind the other, ids behind them. */
static uint32_t pack(policy_t *policy, double scale, uint32_t *shared)
{
    return squishy_pack(policy->model_state, policy->models_max, (uint32_t)policy->ops->model_bytes, scale,
                        (squishy_node_t *)(void *)policy->gpu_state, policy->gpus, shared);
}

/* The largest scale that fits, by doubling and halving. */
static double largest_scale(policy_t *policy)
{
    double low = 0, high = 1;
    uint32_t shared;
    while (high < 1e6 && pack(policy, high, &shared) != UINT32_MAX) {
        low = high;
        high *= 2;
    }
    for (int i = 0; i < 12; i++) {
        double middle = (low + high) / 2;
        if (pack(policy, middle, &shared) != UINT32_MAX)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void open_lanes(policy_t *policy, const uint32_t *ids, uint32_t shared)
{
    uint32_t next = shared;
    for (uint32_t m = 0; m < policy->models_max; m++) {
        const squishy_model_t *model = &((nexus_model_t *)policy_model(policy, m))->squishy;
        if (!model->profile)
            continue;
        if (model->node != UINT32_MAX && model->residual > 0)
            policy_open_lane(policy, m, ids[model->node], model->batch, model->residual,
                             (int64_t)(model->cycle * 1e6));
        for (uint32_t w = 0; w < model->whole && next < policy->gpus; w++)
            policy_open_lane(policy, m, ids[next++], model->whole_batch, model->whole_rate, 0);
    }
}

static void plan(policy_t *policy, int64_t now_ns)
{
    uint32_t shared = 0;
    policy_close_lanes(policy, now_ns);
    if (policy->gpus == 0)
        return;
    double scale = largest_scale(policy);
    if (!(scale > 0) || pack(policy, scale, &shared) == UINT32_MAX)
        return; /* more models than GPUs can hold at any rate: all share all GPUs, eagerly */
    uint32_t *ids = (uint32_t *)(void *)policy->gpu_state; /* the nodes have served */
    policy_gpu_ids(policy, ids, policy->gpus);
    open_lanes(policy, ids, shared);
    policy->frontends = (uint32_t)((nexus_t *)policy->state)->frontends;
    policy_fill_lanes(policy);
}

static int64_t nexus_tick(policy_t *policy, int64_t now_ns)
{
    nexus_t *state = policy->state;
    double dt_ms = state->begun ? (double)(now_ns - state->last_ns) / 1e6 : 0;
    int64_t epoch_ns = (int64_t)(state->epoch_s * 1e9);
    measure(policy, dt_ms);
    if (policy->lanes == 0 || now_ns - state->planned_ns >= epoch_ns) {
        plan(policy, now_ns);
        state->planned_ns = now_ns;
    }
    state->begun = true;
    state->last_ns = now_ns;
    return now_ns + (epoch_ns < 1000000000 ? epoch_ns : 1000000000);
}

static const sched_param_t nexus_params[] = {
    {.name = "epoch_s",
     .offset = offsetof(nexus_t, epoch_s),
     .least = 0.01,
     .most = 1e5,
     .preset = 10,
     .help = "time between two plans"},
    {.name = "frontends",
     .offset = offsetof(nexus_t, frontends),
     .least = 1,
     .most = LANE_FRONTENDS_MAX,
     .preset = 1,
     .help = "that deal requests to GPUs, each for itself"},
    {0},
};

const policy_ops_t policy_nexus_ops = {
    .name = "nexus",
    .help = "squishy bin packing every epoch, requests routed as they come, models in turn on each GPU",
    .params = nexus_params,
    .state_bytes = sizeof(nexus_t),
    .model_bytes = sizeof(nexus_model_t),
    .gpu_bytes = sizeof(nexus_gpu_t),
    .routes = true,
    .candidate = nexus_candidate,
    .tick = nexus_tick,
};
