/* What the policy `fermata` plans in its slow loop: how much of the idle capacity goes to starting early, and to whom. */
#include "sched/fermata.h"
#include "sched/within.h"

#include <math.h>

/* To start all at once is tried where it asks for at most so many times the GPUs, of one model alone the second: what waits for one grows,
 * and there is nobody else to wait for it. */
static const double TRIED_MOST = 2, TRIED_ALONE = 3;
/* Clients are taken apart into batches by which so much of the GPUs is busy: the smaller they are the sooner all are answered, and the
 * more often they meet again. */
static const double APART_BUSY = 0.7;
/* Where hardly a GPU is busy holding saves nothing, unless it saves more than so much of what they are busy for, as it does where requests
 * come in bunches. */
static const double FREE_GROWTH = 1.03;
/* Of a model's requests so many may find no GPU in time. */
static const double MISSED_MOST = 0.001;
/* For that so large a part of what is spent on starting early is spent again, on those who need it most; or so much of the use, as far as
 * the others can wait for longer. */
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
/* What bursts want beyond the rates in the worst moments is so many standard deviations of what lasts, and of what has passed by the next
 * look. */
static const double LASTING_SWINGS = 3.5, PASSING_SWINGS = 1;
/* What is started early because of losses yields to bursts: it is divided by 1 and so many times the part by which the use swings. */
static const double YIELDS = 8;
/* Bursts that last need those GPUs that are back soon as well: they suffer at least so much (room_blocked()). */
static const double BLOCKED_LEAST = 0.3;
/* Who starts early by less than so much of the slack is held. The batches of a model alone are, however large they are before, in bursts
 * and where they suffer so much from what was started (room_blocked()): those that come next would find one GPU less. */
static const double HELD_NEARLY = 0.1, BLOCKED_MUCH = 0.5;

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

static fermata_plan_t plan_overload(fermata_t *state, const fluid_models_t *models, uint32_t gpus,
                                    double contending)
{
    state->early = state->hurt_ms = 0;
    state->helped_early = false;
    state->starve = 0;
    if ((int)state->overload == OVERLOAD_TOTAL)
        admit_cheapest(models, state->reach * gpus);
    else
        fluid_scale_to(models, gpus);
    return (fermata_plan_t){.needed = 1, .contending = contending, .together = 1};
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
    double by_chance = within(1 - in_step(held->models, suffers) / dispersion_of(&state->scatter), 0, 1);
    double due = wait * by_chance * helping(state) / (1 + yields * suffers * swing_bursts(&state->swing));
    double spend = fmax(state->starve, fmin(1, fmax(state->starve, 0) + due));
    double most = fmax(load, 1 / (1 + yields * fmax(suffers, BLOCKED_LEAST) * swing_lasting(&state->swing)));
    return fmax(load + (most - load) * spend, fmin(ROOM_FREE_USE, load * FREE_GROWTH)) * gpus;
}

/* How far some can wait for longer than the most urgent, 0 to 1 for twice as long. Where all can wait alike it helps nobody that they are
 * early together. */
static double slacks_apart(const fluid_models_t *models, const fluid_state_t *held)
{
    double longest = 0;
    for (uint32_t m = 0; m < models->count; m++)
        if (fluid_model(models, m)->rate > 0)
            longest = fmax(longest, fluid_model(models, m)->slack);
    return within(longest / held->slack - 1, 0, 1);
}

/* On top of the budget: others that started later for it would have the longer batches to wait for. Returns the GPUs that it takes. */
static double spend_on_leads(const fermata_t *state, const fluid_models_t *models, uint32_t gpus,
                             const fluid_state_t *held, double budget)
{
    double growth = LEAD_GROWTH * slacks_apart(models, held) * held->use;
    double most = fmax(LEAD_SPEND * (budget - held->use), growth) * helping(state);
    lead(models, lead_needed(models, gpus, state->early), held->use, fmin(held->use + most, gpus));
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
static void start_at_once(const fermata_t *state, fermata_plan_t *plan, const fluid_models_t *models,
                          uint32_t gpus)
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

static bool some_start_early(const fermata_plan_t *plan, const fluid_models_t *models)
{
    for (uint32_t m = 0; m < models->count; m++)
        if (fluid_model(models, m)->rate > 0 && fluid_model(models, m)->at_once)
            return true;
    return plan->early >= HELD_NEARLY;
}

/* Whatever room there is. Leads they have all the same. */
static void hold(fermata_plan_t *plan, const fluid_models_t *models)
{
    for (uint32_t m = 0; m < models->count; m++)
        fluid_model(models, m)->at_once = false;
    plan->spread = 0;
    plan->price = plan->early = 0;
    plan->together = 1;
    plan->reserve = (room_reserve_t){0};
}

fermata_plan_t fermata_plan(fermata_t *state, const fluid_models_t *models, uint32_t gpus)
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
    fermata_plan_t all = {.price = fluid_price(models, budget),
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
        double leads = spend_on_leads(state, models, gpus, &held, budget);
        all.needed = fmin(1, (needed + leads) / fmin(fmax(budget, all.reserve.use) + leads, gpus));
    }
    return all;
}

/* ---- Which way ---- */

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
void fermata_try_other_ways(fermata_t *state, const fluid_models_t *models, uint32_t gpus, double dt_ms)
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
