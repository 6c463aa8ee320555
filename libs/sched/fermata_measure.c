/* What the slow loop of the policy `fermata` measures, and what that tells of those who come. */
#include "sched/fermata.h"
#include "sched/within.h"

#include <math.h>

/* A rate is known by so many arrivals, or bunches of them. Where fewer are remembered they are remembered longer, up to so many times. */
static const double ARRIVALS_ENOUGH = 20, MEMORY_MOST = 10;
/* Requests bunch where more follow others than at random, by more than so many standard deviations and one: one more is no bunch. Likewise
 * they come evenly where fewer do. How much is measured as if so many others had come at random before. */
static const double BUNCHED_SURELY = 3, BUNCHING_PRIOR = 20;
/* Arrivals of less dispersion are even, none at all quite so: what a batch was planned to have comes for sure. */
static const double EVEN = 0.5;
/* So far beyond it those that come are no clients that wait. What is found of silence is then of the few batches that take all that is
 * there, before which little came. */
static const double OVERLOAD_NO_CLIENTS = 0.1;
static const double DISPERSION_TAU_MS = 5000;
static const double INTERVAL_LEAST_MS = 50;
/* They are no clients that wait if such a part of half seconds differ as those cannot, of so many more that did not. */
static const double BEYOND_OFTEN = 0.25, BEYOND_PRIOR = 4;
/* Batches that take less of the time over which the GPUs are measured are even enough as they are granted, and a burst shows
 * the sooner, as does the first load. */
static const double SHORT_PART = 0.25;
/* Losses come in lumps, an SLO after the requests that they are of: who loses more than others shows over a few. */
static const double LOSS_SLOS = 4;
/* A model that had its last request three time constants ago, or whose requests cannot be served, says nothing of the cluster. */
static const double ARRIVALS_LEAST = 0.05;

/* How many requests follow one within its slack, over how many would if they came at random: more in bunches, fewer when they come
 * evenly. Holding a batch brings so many times as much. */
static double bunching(const fermata_t *state, const fluid_model_t *fluid, const rates_t *rates)
{
    double expected = fluid->rate * fluid->slack;
    if (!(expected > 0))
        return 1;
    double by_chance = rates->spells * expected, prior = BUNCHING_PRIOR * expected;
    bool fewer = rates->followers < by_chance, evenly = dispersion_of(&state->scatter) < 1;
    if (fabs(rates->followers - by_chance) <= BUNCHED_SURELY * sqrt(by_chance) + 1 || (fewer && !evenly))
        return 1;
    return (rates->followers + prior) / (by_chance + prior);
}

double fermata_overloaded(const fermata_t *state, double most)
{
    return within((state->load - 1) / most, 0, 1);
}

/* Whether requests come as those of clients cannot that wait for their answers. */
static bool is_stream(const fermata_model_t *model)
{
    return model->beyond > BEYOND_OFTEN * (steady_half(&model->steady)->pairs + BEYOND_PRIOR);
}

bool fermata_scatters_less(const fermata_t *state, const fermata_model_t *model)
{
    return fmin(dispersion_of(&state->scatter), dispersion_of(&steady_half(&model->steady)->scatter)) < 1;
}

/* Random arrivals make a silence of 1. More, and clients wait for their answers: holding their requests brings no others, and their
 * batches are what comes together anyway. Or they come in bursts. */
static void set_growth(const fermata_t *state, fermata_model_t *model)
{
    double excess = (rates_silence(&model->rates) - 1) * (1 - fermata_overloaded(state, OVERLOAD_NO_CLIENTS));
    double silence = 1 + excess - state->silence_limit;
    fluid_model_t *fluid = &model->fluid;
    fluid->growth = fluid->rate * bunching(state, fluid, &model->rates);
    fluid->least = 1;
    if (silence <= 0 || (state->alone && is_stream(model)))
        return;
    fluid->growth /= 1 + 10 * silence;
    if (model->rates.batches > 0)
        fluid->least = fmax(1, model->rates.granted / model->rates.batches);
}

static double rate_memory_ms(const fermata_t *state, const fermata_model_t *model)
{
    double enough = ARRIVALS_ENOUGH * bunching(state, &model->fluid, &model->rates);
    return state->rate_tau_ms * within(enough / model->rates.arrivals, 1, MEMORY_MOST);
}

static void measure(const fermata_t *state, const shard_t *shard, fermata_model_t *model, double dt_ms)
{
    bool shares = shard->gpus & SHARD_GPUS_SHARE;
    double slo_ms = (double)shard->opts.slo_ns / 1e6;
    rates_update(&model->rates, shard, dt_ms, rate_memory_ms(state, model),
                 fmax(state->loss_tau_ms, LOSS_SLOS * slo_ms));
    double budget_ms = model->rates.budget_ms > 0 ? model->rates.budget_ms : slo_ms;
    fluid_model_t *fluid = &model->fluid;
    fluid->rate = rates_per_ms(&model->rates);
    model->refuse = 0;
    fluid->slo = budget_ms - (double)(shard->delays.ctrl_ns + shard->delays.fixed_ns) / 1e6;
    double mean = shard_mean_factor(shard);
    fluid->alpha = (mean * (double)shard->profile->alpha_ns + (double)shard->delays.data_ns) / 1e6;
    fluid->beta = mean * (double)shard->profile->beta_ns / 1e6;
    fluid->guard = shard_guard_factor(shard) / mean;
    /* from the profile itself: a fit that is too kind at large batches would ask for what cannot be */
    uint32_t most = profile_largest_batch_sloped(
        shard->profile, (int64_t)(fluid->slo * 1e6 / shard_guard_factor(shard)), shard->delays.data_ns);
    fluid->most = within(most, 1, shard->limit);
    fluid->slack = fmax(fluid->slo - fluid_length(fluid, 1) * fluid->guard, 0);
    if (model->rates.arrivals < ARRIVALS_LEAST || !(fluid->slack > 0)) /* it takes no GPU to speak of */
        fluid->rate = fluid->growth = 0;
    fluid->lead = 0;
    fluid->at_once = false;
    set_growth(state, model);
    fluid->busy_fixed = shares ? (double)shard->inside.busy_fixed / SCHED_WHOLE : 0;
    fluid->busy_row = shares ? (double)shard->inside.busy_row / SCHED_WHOLE : 0;
}

/* Clients that wait are at most as many as batches on all GPUs take, and one time differs from the next by no more than they are. */
static void count_over_long(fermata_model_t *model, uint32_t gpus)
{
    const rates_t *rates = &model->rates;
    double apart = steady_count(&model->steady, rates->last, rates->last_ms);
    model->beyond *= steady_half_keep(rates->last_ms);
    model->beyond += rates->batches > 0 && apart > gpus * rates->granted / rates->batches;
}

/* Short intervals do not show what bursts do to batches. */
static void count_scatter(fermata_t *state, fermata_model_t *model, uint32_t gpus)
{
    const rates_t *rates = &model->rates;
    if (rates->last_ms >= INTERVAL_LEAST_MS && rates->before_last_ms >= INTERVAL_LEAST_MS)
        dispersion_add(&state->scatter, rates->last, rates->last_ms, rates->before_last,
                       rates->before_last_ms);
    count_over_long(model, gpus);
}

double fermata_evenness(const fermata_t *state)
{
    return within(1 - dispersion_of(&state->scatter) / EVEN, 0, 1);
}

/* Against the rate as it was before. */
static void count_swing(fermata_t *state, const fermata_model_t *model)
{
    const fluid_model_t *fluid = &model->fluid;
    const rates_t *rates = &model->rates;
    double before_ms = rates->time_ms - rates->last_ms;
    if (!(rates->last_ms > 0) || !(before_ms > 0) || !(fluid->rate > 0))
        return;
    double foretold = (rates->arrivals - rates->last) / before_ms * rates->last_ms;
    double each_ms = fluid_use(fluid, fluid_batch(fluid, 0)) / fluid->rate;
    swing_add(&state->swing, rates->last, foretold, each_ms, rates->last_ms);
}

fermata_losses_t fermata_measure(policy_t *policy, double dt_ms)
{
    fermata_t *state = policy->state;
    fermata_losses_t losses = {0};
    double requests = 0, dropped = 0, keep = exp(-dt_ms / DISPERSION_TAU_MS);
    dispersion_fade(&state->scatter, keep);
    for (uint32_t m = 0; m < policy->models_max; m++) {
        fermata_model_t *model = policy_model(policy, m);
        if (!policy->shards[m].present) {
            model->fluid.rate = 0;
            continue;
        }
        measure(state, &policy->shards[m], model, dt_ms);
        count_scatter(state, model, policy->gpus);
        count_swing(state, model);
        requests += model->rates.requests;
        dropped += model->rates.dropped;
        trial_count(&state->trial, &model->trial, model->rates.last, model->rates.last_dropped, dt_ms);
        if (!(model->rates.requests > 0))
            continue;
        double *worst = model->fluid.slack < state->hurt_ms ? &losses.worst_hurt : &losses.worst_other;
        *worst = fmax(*worst, model->rates.expired / model->rates.requests);
    }
    swing_end(&state->swing, keep);
    losses.bad = requests > 0 ? dropped / requests : 0;
    return losses;
}

double fermata_measure_busy(policy_t *policy, int64_t from_ns, int64_t now_ns)
{
    fermata_t *state = policy->state;
    for (uint32_t m = 0; m < policy->models_max; m++) {
        const rates_t *rates = &((const fermata_model_t *)policy_model(policy, m))->rates;
        if (!policy->shards[m].present)
            continue;
        double length_ns = rates->last_batches > 0 ? rates->last_work_ns / rates->last_batches : 0;
        bool at_once = length_ns < SHORT_PART * state->rate_tau_ms * 1e6;
        busy_add(&state->busy, from_ns, at_once ? 0 : (int64_t)length_ns, rates->last_work_ns);
    }
    double taken_ms = busy_take(&state->busy, now_ns) / 1e6, dt_ms = (double)(now_ns - from_ns) / 1e6;
    double keep = exp(-dt_ms / state->rate_tau_ms);
    if (dt_ms > 0 && policy->gpus) {
        state->busy_ms = state->busy_ms * keep + fmax(taken_ms, 0) / policy->gpus;
        state->busy_weight = state->busy_weight * keep + dt_ms;
    }
    return state->busy_weight > 0 ? state->busy_ms / state->busy_weight : 1;
}
