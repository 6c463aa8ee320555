/*
 * Fermata's own policy: deferral with a feed-forward margin (docs/policies/fermata.md).
 *
 * Pure deferral leaves GPUs idle when many models contend, pure eagerness breaks batches up. Here a slow loop
 * works out from the measured rates how much of the idle capacity may be spent on starting early, and turns
 * it into a part of each model's slack (ready so much before frontrun) and a batch per model that is large
 * enough to start at once. Heads that would keep a batch far below the planned one are given up. Two
 * feedbacks: when someone starves who can be helped by it, start earlier; who loses more than the others gets
 * more urgency and gives up fewer heads.
 *
 * What of the idle capacity is left after that goes where `spare` says: to answering early, as far as everybody
 * can still wait for a GPU (latency), or to whoever takes idle GPUs back (release). Whether bunches are clients
 * that come together only because they are held is tried (sched/trial.h).
 */
#include "sched/fermata.h"
#include "sched/gather.h"
#include "sched/within.h"

#include <math.h>

static const char *const overload_words[] = {"fair", "total", NULL};
static const char *const spare_words[] = {"latency", "release", NULL};

/* Nothing has come for so much of the mean distance in a bunch: it is over. */
static const double QUIET = 0.1;
/* So far beyond what the GPUs can do some must be given up, so what a batch was planned to have is there. Not quite for sure: gateways
 * that answer ahead what would come too late let less of it wait. */
static const double OVERLOAD_SURE = 0.3, SURE_MOST = 0.9;
/* GPUs that are wanted beyond the rates in the worst moments: so many standard deviations. */
static const double SWINGS = 3;

/* ---- Fast path ---- */

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

/* When it is ready that need not be held from frontrun_ns on. Not amidst a bunch, which would be split. */
static int64_t early_ns(const shard_t *shard, int64_t frontrun_ns, int64_t margin_ns)
{
    int64_t ready_ns = frontrun_ns - margin_ns;
    if (shard->plan.quiet_ns == 0)
        return ready_ns;
    int64_t quiet_ns = shard_last_arrival_ns(shard) + shard->plan.quiet_ns;
    if (quiet_ns > frontrun_ns)
        return frontrun_ns;
    return quiet_ns > ready_ns ? quiet_ns : ready_ns;
}

/* Those that are there together leave other GPUs idle as one batch: clients that wait, and have all asked, for ever, however large a batch
 * would pay if others came. Where others do they may not find them idle then. */
static uint32_t least_part(const shard_t *shard)
{
    const shard_plan_t *plan = &shard->plan;
    if (plan->spread == 0 || !(plan->spread_streams || shard_is_complete(shard)))
        return 0;
    return (shard_there(shard) + plan->spread - 1) / plan->spread;
}

static void fermata_candidate(policy_t *policy, shard_t *shard, int64_t now_ns, int64_t gpu_free_ns,
                              candidate_t *candidate)
{
    (void)policy;
    const shard_plan_t *plan = &shard->plan;
    if (plan->refuse > 0)
        refuse(shard);
    gathered_t gathered = gather(shard, now_ns, gpu_free_ns, plan->target_batch);
    int64_t frontrun_ns = gather_frontrun_ns(shard, &gathered), ready_ns = INT64_MIN;
    bool holds = frontrun_ns != INT64_MIN && gathered.batch < plan->min_batch && !shard_is_complete(shard);
    if (holds)
        ready_ns = early_ns(shard, frontrun_ns, plan->margin_ns);
    gather_candidate(shard, &gathered, now_ns, gpu_free_ns, ready_ns, candidate);
    if (holds && plan->idle_margin_ns > plan->margin_ns) {
        candidate->idle = plan->idle;
        candidate->early_ns = early_ns(shard, frontrun_ns, plan->idle_margin_ns);
    }
    candidate->part = least_part(shard);
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
    *free_ns = policy_exit_ns(running, exits, now_ns + running_shard->measured.ctrl_ns);
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

/* ---- Slow loop ---- */

static uint32_t whole_batch(double batch)
{
    return batch >= PROFILE_BATCH_MAX ? PROFILE_BATCH_MAX : batch > 1 ? (uint32_t)ceil(batch - 1e-6) : 1;
}

/* How many times as much waiting brings as it would if requests came at random, at least 1; as far as bunches are kept together. */
static double bunched(const fluid_model_t *fluid, double together)
{
    return fluid->growth > fluid->rate ? 1 + together * (fluid->growth / fluid->rate - 1) : 1;
}

/*
 * A batch that has become large enough is started before its time. Where requests come in bunches it must be as many times
 * larger as waiting brings more of them: the price tells what starting early costs in the mean, but a bunch that is split
 * takes its GPUs all at one moment, just when the next of its requests need one.
 */
static uint32_t least_batch(const fluid_model_t *fluid, double price, double together)
{
    return price > 0 ? whole_batch(fmax(1, fluid_batch_for(fluid, price)) * bunched(fluid, together))
                     : PROFILE_BATCH_MAX;
}

/*
 * How long nothing must have come before a batch starts early. Starting the first of a bunch alone takes a GPU that the next, a
 * moment later, must find free as well. A bunch is over when nothing has come for a part of the mean distance in it, since
 * most are much shorter; and the less it differs from random arrivals, the less there is to wait for.
 */
static int64_t quiet_ns(const fluid_model_t *fluid, double together)
{
    double excess = bunched(fluid, together) - FLUID_BUNCHED_BY_CHANCE;
    return excess > 0 ? (int64_t)(QUIET * excess / (1 + excess) / fluid->growth * 1e6) : 0;
}

/* A part that allows for batches that do not become what they were planned to be. */
static double surely(double part, double sure)
{
    return part + (1 - part) * sure;
}

static void set_plan(const fermata_t *state, shard_t *shard, const fermata_model_t *model,
                     fermata_plan_t common, double bad)
{
    const fluid_model_t *fluid = &model->fluid;
    const rates_t *rates = &model->rates;
    double own_bad = rates->requests > 0 ? rates->dropped / rates->requests : bad;
    double unfair = within((own_bad - bad) / 0.01, -1, 1);
    double sure = fmax(fermata_evenness(state), SURE_MOST * fermata_overloaded(state, OVERLOAD_SURE));
    double kappa = surely(state->kappa, sure) * (1 - state->fairness * unfair);
    double batch = fluid_batch(fluid, common.early);
    double efficiency = surely(state->efficiency, sure) * batch / fluid_length(fluid, batch);
    double target = kappa * state->scarcity * batch;
    if (efficiency * fluid->alpha < 1)
        target = fmin(target, efficiency * fluid->beta / (1 - efficiency * fluid->alpha));
    shard->plan.max_batch = common.max_batch;
    if (common.max_batch > 0)
        target = fmin(target, common.max_batch);
    shard->plan.target_batch = target > 1 ? (uint32_t)target : 1;
    shard->plan.min_batch = least_batch(fluid, fluid->at_once ? INFINITY : common.price, common.together);
    shard->plan.quiet_ns = quiet_ns(fluid, common.together);
    shard->plan.spread = common.spread;
    bool at_once = shard->plan.min_batch == 1 && shard->plan.quiet_ns == 0;
    shard->plan.spread_streams = at_once && (!common.bursts || fermata_scatters_less(state, model));
    shard->plan.idle = common.reserve.idle;
    shard->plan.idle_margin_ns = (int64_t)(fluid_lead(fluid, common.reserve.early) * 1e6);
    shard->plan.rate_per_ns = rates_per_ms(rates) / 1e6;
    shard->plan.margin_ns = (int64_t)(fluid_lead(fluid, common.early) * 1e6);
    shard->plan.spell_ns = (int64_t)(fluid->slack * 1e6);
    if (!(shard->plan.refuse > 0)) /* what came before is not to be made up for */
        shard->plan.refuse_seen = shard->counts->stats.submitted;
    shard->plan.refuse = model->refuse;
    shard->plan.bias_ns = (int64_t)(state->urgency * unfair * fluid->slack * 1e6);
}

/* Bursts leave GPUs idle that the fluid view believes busy, so what starvation may claim goes beyond the
 * idle capacity as long as GPUs are seen to be idle. Where starting earlier does not help it claims nothing, and while
 * those whom it hurts starve the most less is spent, until all starve alike. */
static void adapt_starve(fermata_t *state, const fermata_losses_t *losses, double busy, double dt_ms)
{
    double limit = state->starve_limit, step = state->starve_gain * dt_ms / 1e3;
    double hunger = (losses->worst_other - losses->worst_hurt) / limit;
    if (fmax(losses->worst_hurt, losses->worst_other) <= limit) /* back to 0, from either side */
        hunger = state->starve > 0   ? losses->worst_other / limit - 1
                 : state->starve < 0 ? 1 - losses->worst_hurt / limit
                                     : 0;
    hunger = within(hunger, -1, 1);
    if (state->starve < 0 || (state->starve == 0 && hunger < 0))
        state->starve = within(state->starve + step * hunger, -1, 0);
    else if (!state->helped_early)
        state->starve = 0;
    else if (busy < state->busy_limit)
        state->starve = within(state->starve + step * hunger, 0, state->starve_most);
    else if (state->starve <= 1)
        state->starve = within(state->starve + step * hunger, 0, 1);
    else
        state->starve = fmax(1, state->starve - step);
}

/* Larger batches save GPU time, which is worth nothing while GPUs stand idle for all models, and it is the worst moments that
 * requests are lost in. A model alone leaves them idle in step with its own batches, and needs them again before long. */
static double scarcity(const fermata_t *state, uint32_t gpus, double busy, double contending)
{
    double wanted = fmin(gpus, busy * gpus + SWINGS * swing_all(&state->swing));
    double scarce = fmin(1, state->scarce * fluid_erlang_c(gpus, wanted));
    return scarce + (1 - scarce) / contending;
}

static int64_t fermata_tick(policy_t *policy, int64_t now_ns)
{
    fermata_t *state = policy->state;
    if (!state->begun) {
        state->begun = true;
        state->begun_ns = now_ns;
        state->last_ns = now_ns;
        busy_init(&state->busy, now_ns);
    }
    double dt_ms = (double)(now_ns - state->last_ns) / 1e6;
    fermata_losses_t losses = fermata_measure(policy, dt_ms);
    double busy = fermata_measure_busy(policy, state->last_ns, now_ns);
    state->last_ns = now_ns;
    if (!trial_explains(&state->trial, state->loss_tau_ms)) /* else starting early does not cure it */
        adapt_starve(state, &losses, busy, dt_ms);
    fluid_models_t models = {.first = policy->model_state,
                             .count = policy->models_max,
                             .stride = (uint32_t)policy->ops->model_bytes};
    fermata_try_other_ways(state, &models, policy->gpus, dt_ms);
    fermata_plan_t common = fermata_plan(state, &models, policy->gpus);
    policy->needed = common.needed;
    state->scarcity = scarcity(state, policy->gpus, busy, common.contending);
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

static const sched_param_t fermata_params[] = {
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
    {.name = "spare",
     .offset = offsetof(fermata_t, spare),
     .choices = spare_words,
     .help = "what idle GPUs are for: answers come early, or somebody takes them back"},
    {.name = "room",
     .offset = offsetof(fermata_t, room),
     .least = 1e-9,
     .most = 0.5,
     .preset = 0.008,
     .help = "chance that a request finds no GPU in time by which idle ones are spent on latency, times "
             "the part of them that is left",
     .only_with = "spare",
     .only_with_choice = "latency"},
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
     .help = "beyond the peak all models lose alike, or the dearest requests go first"},
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
