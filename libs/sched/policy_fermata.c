/*
 * Fermata's own policy: deferral with a feed-forward margin (docs/policies/fermata.md).
 *
 * Pure deferral leaves GPUs idle when many models contend, pure eagerness breaks batches up. Here a slow loop
 * works out from the measured rates how much of the idle capacity may be spent on starting early, and turns
 * it into a margin S common to all models (ready S before frontrun) and a batch per model that is large
 * enough to start at once. Heads that would keep a batch far below the planned one are given up. Two
 * feedbacks: when someone starves, start earlier; who loses more than the others gets more urgency and gives
 * up fewer heads.
 */
#include "sched/fluid.h"
#include "sched/gather.h"
#include "sched/policy.h"
#include "sched/rates.h"

#include <math.h>

typedef struct {
    /* parameters */
    double rate_tau_ms, loss_tau_ms;
    double kappa, fairness, urgency, efficiency;
    double starve_limit, starve_gain, starve_most, busy_limit;
    double least, overload, reach, silence_limit;
    double scarce;
    double preempt;
    /* state */
    double busy_ms, busy_weight; /* decaying sums: GPUs' time granted, and the time itself */
    uint64_t busy_seen_ns;
    double scarcity; /* of GPU time: part of the planned batches that heads are given up for */
    double starve;   /* part of the idle capacity that starvation has claimed */
    int64_t begun_ns, last_ns;
    bool begun;
} fermata_t;

typedef struct {
    fluid_model_t fluid; /* first: see fluid_models_t */
    double refuse;
    rates_t rates;
} fermata_model_t;

enum { OVERLOAD_FAIR, OVERLOAD_TOTAL };

static const char *const overload_words[] = {"fair", "total", NULL};

/* Fast path */

/* What cannot be served is refused as it comes, so that it holds up nobody. */
static void refuse(shard_t *shard)
{
    shard_plan_t *plan = &shard->plan;
    uint64_t submitted = shard->counts->stats.submitted;
    plan->refuse_debt += plan->refuse * (double)(submitted - plan->refuse_seen);
    plan->refuse_seen = submitted;
    for (; plan->refuse_debt >= 1 && shard->queue.len; plan->refuse_debt -= 1)
        shard_give_up(shard, shard_head(shard), SCHED_DROP_WINDOW);
}

static void fermata_candidate(policy_t *policy, shard_t *shard, int64_t now_ns, int64_t gpu_free_ns,
                              candidate_t *candidate)
{
    (void)policy;
    const shard_plan_t *plan = &shard->plan;
    if (plan->refuse > 0)
        refuse(shard);
    gathered_t gathered = gather(shard, now_ns, gpu_free_ns, plan->target_batch);
    int64_t ready_ns = gather_frontrun_ns(shard, &gathered);
    if (gathered.batch >= plan->min_batch)
        ready_ns = INT64_MIN;
    else if (ready_ns != INT64_MIN)
        ready_ns -= plan->margin_ns;
    gather_candidate(shard, &gathered, now_ns, gpu_free_ns, ready_ns, candidate);
    candidate->key -= plan->bias_ns;
    candidate->closed = candidate->closed && !(plan->refuse > 0);
}

/*
 * A batch is stopped for a candidate when the rows that this saves are `preempt` times what it costs. Saved is what the
 * candidate has in time at the exit point, less what it could have, at best, on the next GPU that is free by itself.
 * Lost are the rows of the stopped batch that would be late if they ran behind the candidate; of the others the part
 * that has been computed.
 */
static bool fermata_preempts(policy_t *policy, const shard_t *shard, const shard_t *running_shard,
                             const policy_running_t *running, int64_t now_ns, int64_t *free_ns)
{
    const fermata_t *state = policy->state;
    uint32_t exits = running_shard->opts.exit_points;
    if (exits == 0)
        return false;
    *free_ns = policy_exit_ns(running, exits, now_ns + running_shard->delays.ctrl_ns);
    if (*free_ns >= running->finish_ns)
        return false;
    uint32_t batch = policy_batch_at(shard, now_ns, *free_ns);
    uint32_t waited = shard_feasible(shard, now_ns, running->otherwise_ns, shard_last_deadline_ns(shard));
    if (batch <= waited)
        return false;
    int64_t again_ns = *free_ns + profile_latency_ns(shard->profile, batch) +
                       profile_latency_ns(running_shard->profile, running->count);
    double lost = policy_rows_due(running, again_ns);
    double ran = (double)(*free_ns - running->start_ns) / (double)(running->finish_ns - running->start_ns);
    return batch - waited >= state->preempt * (lost + (running->count - lost) * ran);
}

/* Slow loop */

static double clip(double value, double least, double most)
{
    return value < least ? least : value > most ? most : value;
}

/* Random arrivals make a silence of 1, bursts of up to 1.5. Above, clients wait for their answers: holding
 * their requests brings no others, and their batches are what comes together anyway. */
static void set_growth(const fermata_t *state, fermata_model_t *model)
{
    double silence = rates_silence(&model->rates) - state->silence_limit;
    fluid_model_t *fluid = &model->fluid;
    fluid->growth = fluid->rate;
    fluid->least = 1;
    if (silence <= 0)
        return;
    fluid->growth = fluid->rate / (1 + 10 * silence);
    if (model->rates.batches > 0)
        fluid->least = fmax(1, model->rates.granted / model->rates.batches);
}

static void measure(const fermata_t *state, const shard_t *shard, fermata_model_t *model, double dt_ms)
{
    bool shares = shard->gpus & SHARD_GPUS_SHARE;
    rates_update(&model->rates, shard, dt_ms, state->rate_tau_ms, state->loss_tau_ms);
    double budget_ms = model->rates.budget_ms > 0 ? model->rates.budget_ms : (double)shard->opts.slo_ns / 1e6;
    fluid_model_t *fluid = &model->fluid;
    fluid->rate = rates_per_ms(&model->rates);
    set_growth(state, model);
    model->refuse = 0;
    fluid->slo = budget_ms - (double)(shard->delays.ctrl_ns + shard->delays.fixed_ns) / 1e6;
    fluid->alpha = (double)(shard->profile->alpha_ns + shard->delays.data_ns) / 1e6;
    fluid->beta = (double)shard->profile->beta_ns / 1e6;
    /* from the profile itself: a fit that is too kind at large batches would ask for what cannot be */
    uint32_t most =
        profile_largest_batch_sloped(shard->profile, (int64_t)(fluid->slo * 1e6), shard->delays.data_ns);
    fluid->most = clip(most, 1, shard->limit);
    fluid->busy_fixed = shares ? (double)shard->inside.busy_fixed / SCHED_WHOLE : 0;
    fluid->busy_row = shares ? (double)shard->inside.busy_row / SCHED_WHOLE : 0;
}

typedef struct {
    double bad, worst_expired; /* pooled bad rate; highest part of a model's requests that starved */
} losses_t;

static losses_t measure_all(policy_t *policy, double dt_ms)
{
    losses_t losses = {0};
    double requests = 0, dropped = 0;
    for (uint32_t m = 0; m < policy->models_max; m++) {
        fermata_model_t *model = policy_model(policy, m);
        if (!policy->shards[m].present) {
            model->fluid.rate = 0;
            continue;
        }
        measure(policy->state, &policy->shards[m], model, dt_ms);
        requests += model->rates.requests;
        dropped += model->rates.dropped;
        if (model->rates.requests > 0)
            losses.worst_expired = fmax(losses.worst_expired, model->rates.expired / model->rates.requests);
    }
    losses.bad = requests > 0 ? dropped / requests : 0;
    return losses;
}

typedef struct {
    double margin; /* ms */
    double price;  /* 0: no batch is large enough to start before its time */
} plan_t;

static fermata_model_t *model_at(const fluid_models_t *models, uint32_t m)
{
    return (fermata_model_t *)(void *)((char *)models->first + (size_t)m * models->stride);
}

/* The models whose requests cost the least GPU time are served whole, the next one in part, the others not
 * at all. Quadratic, in overload only. */
static void admit_cheapest(const fluid_models_t *models, double gpus)
{
    for (uint32_t m = 0; m < models->count; m++)
        model_at(models, m)->refuse = model_at(models, m)->fluid.rate > 0 ? 1 : 0;
    for (double left = gpus; left > 0;) {
        fermata_model_t *cheapest = NULL;
        double least = INFINITY;
        for (uint32_t m = 0; m < models->count; m++) {
            fermata_model_t *model = model_at(models, m);
            if (model->refuse < 1)
                continue;
            double cost = fluid_use(&model->fluid, fluid_batch(&model->fluid, 0)) / model->fluid.rate;
            if (cost < least) {
                least = cost;
                cheapest = model;
            }
        }
        if (!cheapest)
            return;
        double use = least * cheapest->fluid.rate;
        cheapest->refuse = use > left ? 1 - left / use : 0;
        cheapest->fluid.rate *= 1 - cheapest->refuse;
        cheapest->fluid.growth *= 1 - cheapest->refuse;
        left -= use;
        if (cheapest->refuse > 0)
            return;
    }
}

static plan_t plan(const fermata_t *state, const fluid_models_t *models, uint32_t gpus)
{
    double load = gpus ? fluid_use_at_margin(models, 0) / gpus : 2;
    if (load > 1) {
        if ((int)state->overload == OVERLOAD_TOTAL)
            admit_cheapest(models, state->reach * gpus);
        else
            fluid_scale_to(models, gpus);
        return (plan_t){0};
    }
    double wait = fluid_erlang_c(gpus, load * gpus);
    double spend = fmax(state->starve, fmin(1, state->starve + fmin(load * load * load * load, wait)));
    double budget = fmax(load + (1 - load) * spend, state->least) * gpus;
    double longest = 0;
    for (uint32_t m = 0; m < models->count; m++)
        longest = fmax(longest, model_at(models, m)->fluid.slo);
    return (plan_t){.margin = fluid_margin(models, budget, longest), .price = fluid_price(models, budget)};
}

static uint32_t whole_batch(double batch)
{
    return batch >= PROFILE_BATCH_MAX ? PROFILE_BATCH_MAX : batch > 1 ? (uint32_t)ceil(batch - 1e-9) : 1;
}

static void set_plan(const fermata_t *state, shard_t *shard, const fermata_model_t *model, plan_t common,
                     double bad)
{
    const fluid_model_t *fluid = &model->fluid;
    const rates_t *rates = &model->rates;
    double own_bad = rates->requests > 0 ? rates->dropped / rates->requests : bad;
    double unfair = clip((own_bad - bad) / 0.01, -1, 1);
    double kappa = state->kappa * (1 - state->fairness * unfair);
    double batch = fluid_batch(fluid, common.margin);
    double efficiency = state->efficiency * batch / (fluid->alpha * batch + fluid->beta);
    double target = kappa * state->scarcity * batch;
    if (efficiency * fluid->alpha < 1)
        target = fmin(target, efficiency * fluid->beta / (1 - efficiency * fluid->alpha));
    shard->plan.target_batch = target > 1 ? (uint32_t)target : 1;
    shard->plan.min_batch =
        common.price > 0 ? whole_batch(fluid->beta * fluid->rate / common.price) : PROFILE_BATCH_MAX;
    shard->plan.rate_per_ns = rates_per_ms(rates) / 1e6;
    shard->plan.margin_ns = (int64_t)(common.margin * 1e6);
    if (!(shard->plan.refuse > 0)) /* what came before is not to be made up for */
        shard->plan.refuse_seen = shard->counts->stats.submitted;
    shard->plan.refuse = model->refuse;
    double slack = fluid->slo - fluid->alpha - fluid->beta;
    shard->plan.bias_ns = (int64_t)(state->urgency * unfair * fmax(slack, 0) * 1e6);
}

/* The part of the GPUs' time that was granted lately, 1 before anything is known. */
static double measure_busy(policy_t *policy, double dt_ms)
{
    fermata_t *state = policy->state;
    uint64_t busy_ns = 0;
    for (uint32_t m = 0; m < policy->models_max; m++)
        busy_ns += policy->shards[m].own.stats.busy_ns;
    double keep = exp(-dt_ms / state->rate_tau_ms);
    if (dt_ms > 0 && policy->gpus) {
        double granted_ms = (double)(int64_t)(busy_ns - state->busy_seen_ns) /
                            1e6; /* a model that left takes its part along */
        state->busy_ms = state->busy_ms * keep + fmax(granted_ms, 0) / policy->gpus;
        state->busy_weight = state->busy_weight * keep + dt_ms;
    }
    state->busy_seen_ns = busy_ns;
    return state->busy_weight > 0 ? state->busy_ms / state->busy_weight : 1;
}

/* Bursts leave GPUs idle that the fluid view believes busy, so what starvation may claim goes beyond the
 * idle capacity as long as GPUs are seen to be idle. */
static void adapt_starve(fermata_t *state, double worst_expired, double busy, double dt_ms)
{
    double hunger = clip((worst_expired - state->starve_limit) / state->starve_limit, -1, 1);
    double step = state->starve_gain * dt_ms / 1e3;
    if (busy < state->busy_limit)
        state->starve = clip(state->starve + step * hunger, 0, state->starve_most);
    else if (state->starve <= 1)
        state->starve = clip(state->starve + step * hunger, 0, 1);
    else
        state->starve = fmax(1, state->starve - step);
}

static int64_t fermata_tick(policy_t *policy, int64_t now_ns)
{
    fermata_t *state = policy->state;
    if (!state->begun) {
        state->begun = true;
        state->begun_ns = now_ns;
        state->last_ns = now_ns;
    }
    double dt_ms = (double)(now_ns - state->last_ns) / 1e6;
    state->last_ns = now_ns;
    losses_t losses = measure_all(policy, dt_ms);
    double busy = measure_busy(policy, dt_ms);
    adapt_starve(state, losses.worst_expired, busy, dt_ms);
    /* larger batches save GPU time, which is worth nothing while GPUs stand idle */
    state->scarcity = fmin(1, state->scarce * fluid_erlang_c(policy->gpus, busy * policy->gpus));
    fluid_models_t models = {.first = policy->model_state,
                             .count = policy->models_max,
                             .stride = (uint32_t)policy->ops->model_bytes};
    plan_t common = plan(state, &models, policy->gpus);
    for (uint32_t m = 0; m < policy->models_max; m++) {
        if (policy->shards[m].present)
            set_plan(state, &policy->shards[m], policy_model(policy, m), common, losses.bad);
    }
    bool early = now_ns - state->begun_ns < INT64_C(1000000000);
    return now_ns + (early ? 20 : 100) * INT64_C(1000000);
}

#define PARAM(field, low, high, value, text)                                                               \
    {                                                                                                      \
        .name = #field, .offset = offsetof(fermata_t, field), .least = low, .most = high, .preset = value, \
        .help = text                                                                                       \
    }

static const policy_param_t fermata_params[] = {
    PARAM(rate_tau_ms, 10, 1e5, 1000, "time constant of the rates"),
    PARAM(loss_tau_ms, 10, 1e6, 10000, "time constant of the losses"),
    PARAM(kappa, 0, 2, 0.9, "part of the planned batch below which heads are given up"),
    PARAM(fairness, 0, 1, 0.3, "how much less who loses more than others gives up"),
    PARAM(urgency, 0, 1, 0.1, "part of the slack that who loses more than others gains"),
    PARAM(efficiency, 0, 1, 0.985, "part of the planned batch's efficiency below which heads are given up"),
    PARAM(starve_limit, 1e-6, 1, 0.0005, "part of a model's requests that may starve"),
    PARAM(starve_gain, 0, 100, 0.2, "how fast starvation claims idle capacity, per second"),
    PARAM(starve_most, 1, 100, 10, "how much of it starvation may claim while GPUs are idle all the same"),
    PARAM(busy_limit, 0, 1, 0.92,
          "busy fraction of the GPUs from which on it may claim no more than there is"),
    PARAM(least, 0, 1, 0.1, "part of the GPUs that may be busy before anything is held"),
    PARAM(scarce, 1, 1e9, 2,
          "of the chance that all GPUs are busy: how far heads are given up for larger batches"),
    PARAM(silence_limit, 1, 1e9, 2.2,
          "silence before grants, over that of random arrivals, that tells of waiting clients"),
    PARAM(preempt, 0, 1e6, 5,
          "rows saved for a row lost from which on a running batch is stopped; 0: none is"),
    PARAM(reach, 0, 1, 0.92, "part of the fluid bound that overload=total counts on"),
    {.name = "overload",
     .offset = offsetof(fermata_t, overload),
     .choices = overload_words,
     .help = "beyond the peak all models lose alike (fair), or the dearest requests go first (total)"},
    {0},
};

const policy_ops_t policy_fermata_ops = {
    .name = "fermata",
    .help = "holds each batch as long as that pays: deferral, with idle GPUs spent on starting early",
    .params = fermata_params,
    .state_bytes = sizeof(fermata_t),
    .model_bytes = sizeof(fermata_model_t),
    .candidate = fermata_candidate,
    .tick = fermata_tick,
    .stop_param = "preempt",
    .preempts = fermata_preempts,
};
