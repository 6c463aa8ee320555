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
#include "sched/busy.h"
#include "sched/dispersion.h"
#include "sched/fluid.h"
#include "sched/gather.h"
#include "sched/policy.h"
#include "sched/rates.h"
#include "sched/room.h"
#include "sched/steady.h"
#include "sched/swing.h"
#include "sched/trial.h"

#include <math.h>

typedef struct {
    /* parameters */
    double rate_tau_ms, loss_tau_ms;
    double kappa, fairness, urgency, efficiency;
    double starve_limit, starve_gain, starve_most, busy_limit;
    double overload, reach, silence_limit;
    double spare, room;
    double scarce;
    double preempt;
    /* state */
    busy_t busy;
    double busy_ms, busy_weight; /* decaying sums: GPUs' time taken, and the time itself */
    double scarcity;             /* of GPU time: part of the planned batches that heads are given up for */
    /* Part of the idle capacity that starvation has claimed. Below 0: of what is spent on chance's account and on leads so much
     * is left idle, for those that starting early hurts. */
    double starve;
    bool helped_early;    /* whether starting earlier helps whoever starves */
    bool alone;           /* one model has nearly all of the use */
    double early;         /* part of the slacks by which all start early */
    double load;          /* GPUs that it takes at the least to serve all, over those that there are */
    double hurt_ms;       /* starting still earlier hurts models of less slack than this */
    dispersion_t scatter; /* of all arrivals */
    swing_t swing;
    trial_t trial;      /* whether to start at once all the same, or to hold, where bunches come */
    bool holds, starts; /* what is planned: some are held, or their bunches kept together; some start early */
    double at_once_use; /* GPUs that are busy if each runs alone; INFINITY: all must be held */
    int64_t begun_ns, last_ns;
    bool begun;
} fermata_t;

typedef struct {
    fluid_model_t fluid; /* first: see fluid_models_t */
    double refuse;
    rates_t rates;
    steady_t steady; /* of its arrivals */
    trial_model_t trial;
    double beyond; /* decaying sum: of its half seconds in a row those that differ as clients cannot */
} fermata_model_t;

enum { OVERLOAD_FAIR, OVERLOAD_TOTAL };

static const char *const overload_words[] = {"fair", "total", NULL};

enum { SPARE_LATENCY, SPARE_RELEASE };

static const char *const spare_words[] = {"latency", "release", NULL};

/* To start all at once is tried where it asks for at most so many times the GPUs, of one model alone the second: what waits for one grows,
 * and there is nobody else to wait for it. */
static const double TRIED_MOST = 2, TRIED_ALONE = 3;
/* Clients are taken apart into batches by which so much of the GPUs is busy: the smaller they are the sooner all are answered, and the
 * more often they meet again. */
static const double APART_BUSY = 0.7;
/* Where hardly a GPU is busy holding saves nothing, unless it saves more than so much of what they are busy for, as it does where requests
 * come in bunches. */
static const double FREE_GROWTH = 1.03;
/* A rate is known by so many arrivals, or bunches of them. Where fewer are remembered they are remembered longer, up to so many times. */
static const double ARRIVALS_ENOUGH = 20, MEMORY_MOST = 10;
/* Requests bunch where more follow others than at random, by more than so many standard deviations and one: one more is no bunch. Likewise
 * they come evenly where fewer do. How much is measured as if so many others had come at random before. */
static const double BUNCHED_SURELY = 3, BUNCHING_PRIOR = 20;
/* Nothing has come for so much of the mean distance in a bunch: it is over. */
static const double QUIET = 0.1;
/* Of a model's requests so many may find no GPU in time. */
static const double MISSED_MOST = 0.001;
/* For that so large a part of what is spent on starting early, or so much of the use, is spent again, on those who need it most. */
static const double LEAD_SPEND = 0.5, LEAD_GROWTH = 0.1;
/* A model that has so much of the use waits for its own batches; their distances are not by chance. */
static const double OWN_USE = 0.35;
/* One model alone is held in step by its own batches: its next one is ready when it has come together, not by chance.
 * Of the chance that all GPUs are busy at a random moment so much is taken off, over the models that contend;
 * and all of it where such a model cannot wait for its own batches (room_blocked()). */
static const double IN_STEP = 0.5;
/* Starting earlier cures starvation where so many batches are expected to end within the shortest slack, all GPUs being
 * busy: not one of them does with a chance of e^-4, 2 %. Where fewer do, more batches only take the GPUs away. But where more models
 * contend than there are GPUs others starve as well, that can wait longer, and those it helps: then so many times GPUs over models do. A
 * model alone starves for want of larger batches. */
static const double ENDS_LEAST = 4, ENDS_CONTENDED = 3;
/* Whom a step of so much of the slacks would hurt tells whom starting early hurts. */
static const double EARLY_STEP = 0.1;
/* Arrivals of less dispersion are even, none at all quite so: what a batch was planned to have comes for sure. */
static const double EVEN = 0.5;
/* So far beyond what the GPUs can do some must be given up, so what a batch was planned to have is there. Not quite for sure: gateways
 * that answer ahead what would come too late let less of it wait. */
static const double OVERLOAD_SURE = 0.3, SURE_MOST = 0.9;
/* So far beyond it those that come are no clients that wait. What is found of silence is then of the few batches that take all that is
 * there, before which little came. */
static const double OVERLOAD_NO_CLIENTS = 0.1;
static const double DISPERSION_TAU_MS = 5000;
static const double INTERVAL_LEAST_MS = 50;
/* They are no clients that wait if such a part of half seconds differ as those cannot, of so many more that did not. */
static const double BEYOND_OFTEN = 0.25, BEYOND_PRIOR = 4;
/* What is wanted beyond the rates in the worst moments is so many standard deviations. For those who start early so many of what lasts, and
 * of what has passed by the next look. */
static const double SWINGS = 3, LASTING_SWINGS = 3.5, PASSING_SWINGS = 1;
/* What is started early because of losses yields to bursts: it is divided by 1 and so many times the part by which the use swings. */
static const double YIELDS = 8;
/* Bursts that last need those GPUs that are back soon as well: they suffer at least so much (room_blocked()). */
static const double BLOCKED_LEAST = 0.3;
/* Who starts early by less than so much of the slack is held. The batches of a model alone are, however large they are before, in bursts
 * and where they suffer so much from what was started (room_blocked()): those that come next would find one GPU less. */
static const double HELD_NEARLY = 0.1, BLOCKED_MUCH = 0.5;
/* Batches that take less of the time over which the GPUs are measured are even enough as they are granted, and a burst shows
 * the sooner, as does the first load. */
static const double SHORT_PART = 0.25;
/* Losses come in lumps, an SLO after the requests that they are of: who loses more than others shows over a few. */
static const double LOSS_SLOS = 4;
/* A model that had its last request three time constants ago, or whose requests cannot be served, says nothing of the cluster. */
static const double ARRIVALS_LEAST = 0.05;
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

/* How far into an overload, 0 to 1 at so much beyond what the GPUs can do. */
static double overloaded(const fermata_t *state, double most)
{
    return clip((state->load - 1) / most, 0, 1);
}

/* Whether requests come as those of clients cannot that wait for their answers. */
static bool is_stream(const fermata_model_t *model)
{
    return model->beyond > BEYOND_OFTEN * (steady_half(&model->steady)->pairs + BEYOND_PRIOR);
}

/* Whether they come more evenly than at random over some time: clients that wait and think do, also in bunches. */
static bool scatters_less(const fermata_t *state, const fermata_model_t *model)
{
    return fmin(dispersion_of(&state->scatter), dispersion_of(&steady_half(&model->steady)->scatter)) < 1;
}

/* Random arrivals make a silence of 1. More, and clients wait for their answers: holding their requests brings no others, and their
 * batches are what comes together anyway. Or they come in bursts. */
static void set_growth(const fermata_t *state, fermata_model_t *model)
{
    double excess = (rates_silence(&model->rates) - 1) * (1 - overloaded(state, OVERLOAD_NO_CLIENTS));
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
    return state->rate_tau_ms * clip(enough / model->rates.arrivals, 1, MEMORY_MOST);
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
    fluid->most = clip(most, 1, shard->limit);
    fluid->slack = fmax(fluid->slo - fluid_length(fluid, 1) * fluid->guard, 0);
    if (model->rates.arrivals < ARRIVALS_LEAST || !(fluid->slack > 0)) /* it takes no GPU to speak of */
        fluid->rate = fluid->growth = 0;
    fluid->lead = 0;
    fluid->at_once = false;
    set_growth(state, model);
    fluid->busy_fixed = shares ? (double)shard->inside.busy_fixed / SCHED_WHOLE : 0;
    fluid->busy_row = shares ? (double)shard->inside.busy_row / SCHED_WHOLE : 0;
}

typedef struct {
    double bad; /* pooled bad rate */
    /* Highest part of a model's requests that starved: of models that starting early hurts, and of the others. */
    double worst_hurt, worst_other;
} losses_t;

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

/* How even arrivals are, from 0 (at random, or in bursts) to 1. */
static double evenness(const fermata_t *state)
{
    return clip(1 - dispersion_of(&state->scatter) / EVEN, 0, 1);
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

static losses_t measure_all(policy_t *policy, double dt_ms)
{
    fermata_t *state = policy->state;
    losses_t losses = {0};
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

typedef struct {
    double early;  /* part of each model's slack that it starts before frontrun */
    double price;  /* 0: no batch is large enough to start before its time */
    double needed; /* of the GPU time that this takes, what would be taken if no GPU were spent on latency */
    double contending;  /* models, by their use; see fluid_state_t */
    double together;    /* how far bunches are kept together, 0 to 1 */
    uint32_t max_batch; /* see shard_plan_t */
    uint32_t spread;    /* GPUs over which requests of clients that wait are spread; 0: of none */
    bool bursts;        /* the rest of a burst wants the GPUs that are idle */
    room_reserve_t reserve;
} plan_t;

static fermata_model_t *model_at(const fluid_models_t *models, uint32_t m)
{
    return (fermata_model_t *)(void *)fluid_model(models, m);
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

/*
 * Starting earlier gives a model more time in which a GPU may come free, and takes GPUs that it may then not find free:
 * its chance to starve goes as ErlangC(G, use) · exp(-ends · slack · early). Where the first grows faster than the
 * second falls the model is better off if all start later. Returns the slack, in ms, at which the two are even.
 */
static double hurt_below(const fluid_models_t *models, uint32_t gpus, double early)
{
    double from = fmin(early, 1 - EARLY_STEP);
    fluid_state_t now = fluid_state(models, from), earlier = fluid_state(models, from + EARLY_STEP);
    double chance = fluid_erlang_c(gpus, now.use);
    if (!(now.use > 0 && chance > 0))
        return 0;
    return log(fluid_erlang_c(gpus, earlier.use) / chance) / (fluid_ends_when_full(&now, gpus) * EARLY_STEP);
}

/*
 * A GPU must come free within the time by which a model starts before frontrun. In parts of the slacks a model of little
 * slack has next to none, and starves first: each is to have as long, in ms, as makes the chance small that none does. A model that
 * has much of the use waits for its own batches, which come at distances, and more of them would only be in its way.
 */
static void set_leads(const fluid_models_t *models, double lead, double use)
{
    for (uint32_t m = 0; m < models->count; m++) {
        fluid_model_t *fluid = fluid_model(models, m);
        if (!(fluid->rate > 0))
            continue;
        fluid->lead = 0;
        double own = fluid_use(fluid, fluid_batch(fluid, 0)) / use;
        fluid->lead = fmin(fluid->slack, lead * fmax(0, 1 - own / OWN_USE));
    }
}

/* How long that is, when all start so early. */
static double lead_needed(const fluid_models_t *models, uint32_t gpus, double early)
{
    fluid_state_t at = fluid_state(models, early);
    double chance = fluid_erlang_c(gpus, at.use);
    return chance > MISSED_MOST ? log(chance / MISSED_MOST) / fluid_ends_when_full(&at, gpus) : 0;
}

/* Gives all as much of it as `most` GPUs are enough for. */
static void lead(const fluid_models_t *models, double needed, double use, double most)
{
    enum { HALVINGS = 20 };
    set_leads(models, needed, use);
    if (!(needed > 0) || fluid_state(models, 0).use <= most)
        return;
    double low = 0, high = needed;
    for (int i = 0; i < HALVINGS; i++) {
        double middle = (low + high) / 2;
        set_leads(models, middle, use);
        if (fluid_state(models, 0).use <= most)
            low = middle;
        else
            high = middle;
    }
    set_leads(models, low, use);
}

static plan_t plan_overload(fermata_t *state, const fluid_models_t *models, uint32_t gpus, double contending)
{
    state->early = state->hurt_ms = 0;
    state->helped_early = false;
    state->starve = 0;
    if ((int)state->overload == OVERLOAD_TOTAL)
        admit_cheapest(models, state->reach * gpus);
    else
        fluid_scale_to(models, gpus);
    return (plan_t){.needed = 1, .contending = contending, .together = 1};
}

/* The part of what may be spent on starting early that is spent: less while those whom that hurts starve the most. */
static double helping(const fermata_t *state)
{
    return fmin(1, 1 + state->starve);
}

/* How far batches are in step, so that chance does not tell when GPUs are busy: 0 with many models. */
static double in_step(double contending, double suffers)
{
    return IN_STEP / contending + suffers * room_alone(contending);
}

/* GPUs that may be busy because of what was lost or is about to be. Bursts take away from what chance's account is given; those that
 * last, from what losses have claimed as well. */
static double spend_needed(const fermata_t *state, const fluid_models_t *models, const fluid_state_t *held,
                           uint32_t gpus)
{
    double load = held->use / gpus;
    double suffers = room_blocked(models, held->slack), yields = held->use > 0 ? YIELDS / held->use : 0;
    double wait = fmin(load * load * load * load, fluid_erlang_c(gpus, held->use));
    double by_chance = clip(1 - in_step(held->models, suffers) / dispersion_of(&state->scatter), 0, 1);
    double due = wait * by_chance * helping(state) / (1 + yields * suffers * swing_bursts(&state->swing));
    double spend = fmax(state->starve, fmin(1, fmax(state->starve, 0) + due));
    double most = fmax(load, 1 / (1 + yields * fmax(suffers, BLOCKED_LEAST) * swing_lasting(&state->swing)));
    return fmax(load + (most - load) * spend, fmin(ROOM_FREE_USE, load * FREE_GROWTH)) * gpus;
}

/* On top of the budget: others that started later for it would have the longer batches to wait for. Returns the GPUs that it takes. */
static double spend_on_leads(const fermata_t *state, const fluid_models_t *models, uint32_t gpus, double held,
                             double budget)
{
    double most = fmax(LEAD_SPEND * (budget - held), LEAD_GROWTH * held) * helping(state);
    lead(models, lead_needed(models, gpus, state->early), held, fmin(held + most, gpus));
    return fmax(0, fluid_state(models, state->early).use - budget);
}

/* What bursts want beyond the rates in the worst moments, GPUs. Those that have passed by the next look meet what ends meanwhile. */
static double worst_swing(const fermata_t *state)
{
    double bursts = swing_bursts(&state->swing), lasting = fmin(bursts, swing_lasting(&state->swing));
    double passing = sqrt(bursts * bursts - lasting * lasting);
    return hypot(LASTING_SWINGS * lasting, PASSING_SWINGS * passing);
}

/* Whatever is known of those that come. What is there of one of n models is spread over 1/n of the GPUs: on all of them it would be in the
 * way of what comes next of the others, as would small batches, one after another. Where each alone would take more GPUs than there are,
 * over as many times fewer. */
static void start_at_once(const fermata_t *state, plan_t *plan, const fluid_models_t *models, uint32_t gpus)
{
    double share = ceil(gpus / fmax(plan->contending, 1) - 1e-6);
    plan->spread = (uint32_t)fmax(1, round(share * fmin(1, gpus / state->at_once_use)));
    if (share >= gpus && trial_takes_apart(&state->trial))
        plan->max_batch = fluid_smallest_batch(models, APART_BUSY * gpus);
    plan->price = INFINITY;
    plan->early = 1;
    plan->together = 0;
    plan->bursts = false;
    plan->reserve = (room_reserve_t){0};
}

static bool some_start_early(const plan_t *plan, const fluid_models_t *models)
{
    for (uint32_t m = 0; m < models->count; m++)
        if (fluid_model(models, m)->rate > 0 && fluid_model(models, m)->at_once)
            return true;
    return plan->early >= HELD_NEARLY;
}

/* Whatever room there is. Leads they have all the same. */
static void hold(plan_t *plan, const fluid_models_t *models)
{
    for (uint32_t m = 0; m < models->count; m++)
        fluid_model(models, m)->at_once = false;
    plan->spread = 0;
    plan->price = plan->early = 0;
    plan->together = 1;
    plan->reserve = (room_reserve_t){0};
}

static plan_t plan(fermata_t *state, const fluid_models_t *models, uint32_t gpus)
{
    fluid_state_t held = fluid_state(models, 0);
    state->holds = state->starts = false;
    state->at_once_use = INFINITY;
    state->load = gpus ? held.use / gpus : INFINITY;
    state->alone = room_alone(held.models) > 0;
    if (state->load > 1)
        return plan_overload(state, models, gpus, held.models);
    state->at_once_use = fluid_use_alike(models, 1);
    state->hurt_ms = hurt_below(models, gpus, state->early);
    double ends = fmin(ENDS_LEAST, ENDS_CONTENDED * gpus / held.models);
    state->helped_early = held.use > 0 && held.slack * gpus >= ends * held.length && !state->alone;
    double needed = spend_needed(state, models, &held, gpus), budget = needed;
    room_t room = {
        .chance = state->room, .dispersion = dispersion_of(&state->scatter), .worst = worst_swing(state)};
    bool spends = (int)state->spare == SPARE_LATENCY && held.use > 0;
    if (spends)
        budget = room_spend(&room, models, gpus, &held, needed);
    plan_t all = {.price = fluid_price(models, budget),
                  .early = fluid_early(models, budget),
                  .needed = 1,
                  .contending = held.models,
                  .together = 1};
    bool spares_gpus = room.worst > 0 || room_blocked(models, held.slack) > BLOCKED_MUCH;
    if (state->alone && spares_gpus && all.early < HELD_NEARLY)
        all.price = 0;
    if (spends) {
        all.together = room_keep_together(&room, models, gpus, &held, all.early);
        all.spread = (uint32_t)(gpus * fmin(1, room_alone(held.models)));
        all.bursts = room.worst > 0;
        all.reserve = room_reserve(&room, models, gpus, &held, all.early);
        if (all.reserve.strictly)
            all.price = 0;
        state->holds = all.early < 1 || all.together > 0;
        state->starts = some_start_early(&all, models);
        if (state->trial.way == TRIAL_AT_ONCE) {
            budget = state->at_once_use;
            start_at_once(state, &all, models, gpus);
        } else if (state->trial.way == TRIAL_HELD) {
            budget = needed;
            hold(&all, models);
        }
    }
    state->early = all.early;
    if (held.use > 0) {
        double leads = spend_on_leads(state, models, gpus, held.use, budget);
        all.needed = fmin(1, (needed + leads) / fmin(fmax(budget, all.reserve.use) + leads, gpus));
    }
    return all;
}

/* Whether most batches are granted when all clients are there. */
static bool are_known_to_wait(const fluid_models_t *models)
{
    double batches = 0, complete = 0;
    for (uint32_t m = 0; m < models->count; m++) {
        const fermata_model_t *model = model_at(models, m);
        if (!(model->fluid.rate > 0))
            continue;
        batches += model->rates.batches;
        complete += model->rates.complete;
    }
    return 2 * complete > batches;
}

static steady_found_t find_steady(const fluid_models_t *models)
{
    steady_t all = {0};
    for (uint32_t m = 0; m < models->count; m++)
        if (fluid_model(models, m)->rate > 0)
            steady_add(&all, &model_at(models, m)->steady);
    return steady_find(&all, fluid_bunch(models));
}

/* Where always as many come in bunches only trying tells whether they are clients that were answered together, or who had better be held.
 * Not clients that are known to wait: those are there or not. */
static void try_other_ways(fermata_t *state, const fluid_models_t *models, uint32_t gpus, double dt_ms)
{
    steady_found_t found = find_steady(models);
    trial_look_t look = {.holds = state->holds,
                         .starts = state->starts,
                         .bunched = found.bunched,
                         .doubtful = found.sure,
                         .round_ms = found.round_ms,
                         .known = are_known_to_wait(models),
                         .possible = state->at_once_use <= (state->alone ? TRIED_ALONE : TRIED_MOST) * gpus,
                         .ms = dt_ms};
    trial_step(&state->trial, &look);
}

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

static void set_plan(const fermata_t *state, shard_t *shard, const fermata_model_t *model, plan_t common,
                     double bad)
{
    const fluid_model_t *fluid = &model->fluid;
    const rates_t *rates = &model->rates;
    double own_bad = rates->requests > 0 ? rates->dropped / rates->requests : bad;
    double unfair = clip((own_bad - bad) / 0.01, -1, 1);
    double sure = fmax(evenness(state), SURE_MOST * overloaded(state, OVERLOAD_SURE));
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
    shard->plan.spread_streams = at_once && (!common.bursts || scatters_less(state, model));
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

/* The part of the GPUs' time that was taken lately, 1 before anything is known. */
static double measure_busy(policy_t *policy, int64_t from_ns, int64_t now_ns)
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

/* Bursts leave GPUs idle that the fluid view believes busy, so what starvation may claim goes beyond the
 * idle capacity as long as GPUs are seen to be idle. Where starting earlier does not help it claims nothing, and while
 * those whom it hurts starve the most less is spent, until all starve alike. */
static void adapt_starve(fermata_t *state, const losses_t *losses, double busy, double dt_ms)
{
    double limit = state->starve_limit, step = state->starve_gain * dt_ms / 1e3;
    double hunger = (losses->worst_other - losses->worst_hurt) / limit;
    if (fmax(losses->worst_hurt, losses->worst_other) <= limit) /* back to 0, from either side */
        hunger = state->starve > 0   ? losses->worst_other / limit - 1
                 : state->starve < 0 ? 1 - losses->worst_hurt / limit
                                     : 0;
    hunger = clip(hunger, -1, 1);
    if (state->starve < 0 || (state->starve == 0 && hunger < 0))
        state->starve = clip(state->starve + step * hunger, -1, 0);
    else if (!state->helped_early)
        state->starve = 0;
    else if (busy < state->busy_limit)
        state->starve = clip(state->starve + step * hunger, 0, state->starve_most);
    else if (state->starve <= 1)
        state->starve = clip(state->starve + step * hunger, 0, 1);
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
    losses_t losses = measure_all(policy, dt_ms);
    double busy = measure_busy(policy, state->last_ns, now_ns);
    state->last_ns = now_ns;
    if (!trial_explains(&state->trial, state->loss_tau_ms)) /* else starting early does not cure it */
        adapt_starve(state, &losses, busy, dt_ms);
    fluid_models_t models = {.first = policy->model_state,
                             .count = policy->models_max,
                             .stride = (uint32_t)policy->ops->model_bytes};
    try_other_ways(state, &models, policy->gpus, dt_ms);
    plan_t common = plan(state, &models, policy->gpus);
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
