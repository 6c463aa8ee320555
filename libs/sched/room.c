#include "sched/room.h"

#include <math.h>

/* How fast a backlog goes: batches end evenly, so twice as fast as if they ended at random. */
static const double DRAIN = 2;
/* Where one model is alone with its own batches, which are in step, no more of the GPUs may be busy because all have their turns in time. */
static const double TURNS_ALONE = 0.9;
/* A backlog goes by batches whose heads have waited for so much of their slack, the larger the less. */
static const double WAITED = 0.75;
/* Where so many models alike contend none is alone. From so far on (room_alone()) there is nobody to leave a GPU to. */
static const double ALONE_MOST = 2, ALONE = 0.9;
/* A burst that finds the GPUs busy has to wait for batches of one, which starting early makes all of them. That costs nothing where
 * they take less than the shortest slack over this, and all where they take much longer. */
static const double BLOCKED = 1.2;
/* Chance tells less of when GPUs are busy where requests come in bursts: so large a part of what it is given else. */
static const double BURSTS_ROOM = 0.1;
/* Of bunches fewer are so large than if they ended at random. */
static const double SPLIT_IN_VAIN = 0.3;
/* Whose batches are held by so much of the slack for want of GPUs had better hold the bunches first. */
static const double HELD_TOGETHER = 0.05;
/* Starting early is worth it where requests of the shortest slack are shut out so many times as often as while all are held; half of that
 * where it takes more than may be busy, since then batches grow back while they wait. If that is more than so often while all are held. */
static const double SHUT_OUT_LESS = 0.7, SHUT_OUT_LESS_GROWN = 0.35, SHUT_OUT_LEAST = 0.0003;
/* Where hardly a GPU is busy it is, if no more than so many times as many are lost by it as while all are held. */
static const double FREE_LOSSES = 1.1;
/* Rates are never known exactly: so much of the GPUs, less what bursts want in the worst moments, is all that may be busy. */
static const double FULL = 0.98;
/* But a plan knows of no batch that waits for a GPU and grows meanwhile, at last to what it is at frontrun: where waiting does no harm it
 * may want so large a part of what is left then besides. */
static const double GROWN = 0.7;
/* One GPU that is left to those whose time has come halves what is lost, at least. */
static const double LEFT_ONE = 0.5;
enum { ROOM_STEPS = 40 };

/*
 * The chance that none comes free within the slack, all GPUs being busy. While requests wait batches grow, at last to what they are at
 * frontrun; `over` is the part of the GPUs that is left then, in the worst moments, which is what a backlog goes away by.
 */
static double none_ends(const fluid_state_t *at, uint32_t gpus, double over, double slack)
{
    return exp(-DRAIN * over * fluid_ends_when_full(at, gpus) * slack);
}

/*
 * As none_ends(), since batches do not end by chance but as their lengths say. Of those ends such a part as makes none_ends() of many is
 * for what waits. So few models seldom wait for long, and of many one end is not enough.
 */
static double too_few_end(const fluid_models_t *models, const fluid_state_t *at, const fluid_course_t *course,
                          uint32_t gpus, double over)
{
    return fluid_fewer(gpus, course->ends * fmin(1, DRAIN * over), 1 + fluid_rivals(models, gpus, at));
}

/*
 * The chance that all are busy for longer than the shortest slack with batches of others. A request of that slack is first on whichever
 * ends, so what else waits does not count. Whose own batches shut it out has more of them, and not fewer, if they start early.
 */
static double shut_out(const fluid_course_t *course, uint32_t gpus)
{
    return pow(course->longer, gpus);
}

/* What a request of the shortest slack has to fear, as chances: it finds all GPUs busy (Erlang C) and none comes free in time, or they are
 * busy for too long with batches of others. In bursts more of them wait for each end, so how few end says too little there. */
typedef struct {
    double missed, out;
} fears_t;

static double worse(fears_t fears)
{
    return fmax(fears.missed, fears.out);
}

static double all_busy(const room_t *room, uint32_t gpus, double use)
{
    return fluid_erlang_c_peaked(gpus, use, fmax(room->dispersion, 1));
}

static fears_t fears(const room_t *room, const fluid_models_t *models, uint32_t gpus, const fluid_state_t *at,
                     double early, double over)
{
    fluid_course_t course = fluid_course(models, at, early);
    double busy = all_busy(room, gpus, at->use);
    double late = none_ends(at, gpus, over, at->slack);
    if (room->worst == 0)
        late = fmin(late, too_few_end(models, at, &course, gpus, over));
    return (fears_t){.missed = busy * late, .out = busy * shut_out(&course, gpus)};
}

double room_blocked(const fluid_models_t *models, double slack)
{
    double longest = 0;
    for (uint32_t m = 0; m < models->count; m++) {
        const fluid_model_t *fluid = fluid_model(models, m);
        if (fluid->rate > 0)
            longest = fmax(longest, fluid_length(fluid, 1));
    }
    return longest > 0 ? fmin(fmax(BLOCKED - slack / longest, 0), 1) : 0;
}

/* The chance that a bunch whose requests start one by one finds too few GPUs for all of them, and that no batch ends in time for the rest.
 * It has as many more than at random as come while its first one runs, or while that could have waited; if it ended at random one bunch in
 * e^n would be n times as large. */
static double split_in_vain(const fluid_models_t *models, uint32_t gpus, const fluid_state_t *at)
{
    double idle = fmax(0, gpus - at->use), short_of = 0, rate = 0;
    for (uint32_t m = 0; m < models->count; m++) {
        const fluid_model_t *fluid = fluid_model(models, m);
        double more = fmax(0, fluid->growth - fluid->rate);
        if (!(fluid->rate > 0))
            continue;
        rate += fluid->rate;
        short_of += fluid->rate * exp(-idle / (1 + more * fmin(fluid->slack, fluid_length(fluid, 1))));
    }
    return SPLIT_IN_VAIN * room_blocked(models, at->slack) * (rate > 0 ? short_of / rate : 0);
}

/* How many GPUs may be busy so that bursts find the rest. */
static double full_use(const room_t *room, uint32_t gpus)
{
    return FULL * gpus - room->worst;
}

double room_alone(double contending)
{
    return fmax(0, (ALONE_MOST / contending - 1) / (ALONE_MOST - 1));
}

/* How many GPUs may be planned to be busy where waiting does no harm: the batches of one model alone are in step, and do not wait for
 * each other. */
static double planned_use(const room_t *room, uint32_t gpus, const fluid_state_t *held)
{
    double full = full_use(room, gpus);
    return full + GROWN * fmax(0, full - held->use) * (1 - room_alone(held->models));
}

/* How many of them where nothing but their turns lets all be in time. One alone needs some of them idle besides. */
static double turns_use(const room_t *room, uint32_t gpus, const fluid_state_t *held)
{
    return planned_use(room, gpus, held) - (FULL - TURNS_ALONE) * gpus * room_alone(held->models);
}

/* Who is held finds no GPU just then, and is lost as well: so many times as many may be lost as while all are held. Chance does not
 * foretell what bursts lose, nor how batches of one model that is nearly alone keep in step. */
static double no_more(const room_t *room, uint32_t gpus, const fluid_state_t *held, double use)
{
    if (room->worst > 0)
        return 0;
    if (use <= ROOM_FREE_USE * gpus)
        return FREE_LOSSES;
    return room_alone(held->models) > 0 ? 0 : 1;
}

/* The part of the GPUs by which a backlog goes away, in the worst moments. One model alone has all of it, so its batches become no larger
 * than leaves time to run them. */
static double left_over(const room_t *room, const fluid_models_t *models, uint32_t gpus,
                        const fluid_state_t *held)
{
    double grown_less = fluid_use_waited(models, WAITED) - held->use;
    double use = held->use + room_alone(held->models) * grown_less;
    return fmax(0, 1 - (use + room->worst) / gpus);
}

/* From one step to the next, and not past `full_early`. */
static double step_down(double early, double full_early)
{
    double next = (ceil(early * ROOM_STEPS - 1e-6) - 1) / ROOM_STEPS;
    return early > full_early && next < full_early ? full_early : next;
}

/*
 * Whether fewer requests follow one another than at random. On one GPU a model alone had better start them at once. It loses what comes
 * while it could not wait for the batch that runs: sooner after the request before than the batch less the slack; or if that was held, as
 * much later as the slack. Both times are as long, but what comes evenly seldom comes so soon.
 */
static bool come_evenly(const fluid_models_t *models)
{
    for (uint32_t m = 0; m < models->count; m++) {
        const fluid_model_t *fluid = fluid_model(models, m);
        if (fluid->rate > 0 && (fluid->growth >= fluid->rate || fluid->least > 1))
            return false;
    }
    return true;
}

/*
 * How many GPUs may be busy so that everybody can still wait for one: the most at which all have their turns, or, if no more are than
 * may be, one of the shortest slack finds none in time with a chance of at most `chance`, times the part of the GPUs that is left while all
 * are held, in bursts a tenth of that; or no more often than it does then; or it is evenly that one model comes to one GPU. Or, without
 * bursts, which are together anyway and find the GPUs that others leave, at which it is shut out clearly less often than then, if that
 * happens at all, and misses them no more often, or all have their turns but for that: there holding frees no GPU for it, but makes those
 * batches long that it finds the GPUs busy with. For a chance to count, one model alone must not split its own bunches in vain either,
 * whether they are bursts or come as evenly as those of cameras in step.
 */
static double most_busy(const room_t *room, const fluid_models_t *models, uint32_t gpus,
                        const fluid_state_t *held)
{
    bool bunches = room->worst > 0 || fluid_bunch(models) > FLUID_BUNCH_LEAST;
    double turns = turns_use(room, gpus, held), own_bunches = bunches ? room_alone(held->models) : 0;
    double idle = fmax(0, 1 - (held->use + room->worst) / gpus), over = left_over(room, models, gpus, held);
    double given = room->chance * idle, chance = given * (room->worst > 0 ? BURSTS_ROOM : 1);
    bool evenly = gpus == 1 && room->worst == 0 && room_alone(held->models) > 0 && come_evenly(models);
    fears_t before = fears(room, models, gpus, held, 0, over);
    double lost_before = worse(before);
    double full_early = fluid_early(models, full_use(room, gpus));
    for (double early = fluid_early(models, planned_use(room, gpus, held)); early > 0;
         early = step_down(early, full_early)) {
        fluid_state_t at = fluid_state(models, early);
        fears_t now = fears(room, models, gpus, &at, early, over);
        bool grown = early > full_early;
        double less = grown ? SHUT_OUT_LESS_GROWN : SHUT_OUT_LESS;
        bool shut_out_less = room->worst == 0 && before.out > SHUT_OUT_LEAST &&
                             now.out <= less * before.out &&
                             (now.missed <= before.missed ||
                              (at.use <= turns && fluid_all_have_turns(models, gpus, early, at.slack)));
        bool splits = own_bunches > 0 && own_bunches * split_in_vain(models, gpus, &at) > given;
        double bearable = fmax(chance, no_more(room, gpus, held, at.use) * lost_before);
        if ((!grown && ((!splits && worse(now) <= bearable) || evenly)) || shut_out_less ||
            (at.use <= turns && fluid_all_have_turns(models, gpus, early, 0)))
            return at.use;
    }
    return 0;
}

static void set_at_once(const fluid_models_t *models, double longest)
{
    for (uint32_t m = 0; m < models->count; m++) {
        fluid_model_t *fluid = fluid_model(models, m);
        fluid->at_once = fluid->rate > 0 && fluid_length(fluid, fluid_batch(fluid, 1)) <= longest;
    }
}

/* What is idle is spent on answering early as far as there is room. Where all have their turns but for what has begun, requests of the
 * shortest slack have nothing to fear but batches longer than that. Who has none of those shuts nobody out, so it starts at once, however
 * long the others are held. */
double room_spend(const room_t *room, const fluid_models_t *models, uint32_t gpus, const fluid_state_t *held,
                  double needed)
{
    double budget = fmax(needed, most_busy(room, models, gpus, held));
    double early = fluid_early(models, budget);
    set_at_once(models, held->slack);
    double use = fluid_state(models, early).use;
    if (use <= turns_use(room, gpus, held) && fluid_all_have_turns(models, gpus, early, held->slack))
        return fmax(budget, use);
    set_at_once(models, 0);
    return budget;
}

double room_keep_together(const room_t *room, const fluid_models_t *models, uint32_t gpus,
                          const fluid_state_t *held, double early)
{
    fluid_state_t at = fluid_state(models, early);
    double chance = room->chance * (1 - held->use / gpus);
    return fmin(1, fmax(split_in_vain(models, gpus, &at) / chance, (1 - early) / HELD_TOGETHER));
}

/* What comes to the GPUs that are left while all others are busy, in GPUs: that for which none of those ends within what it is held. */
static double overflow(const fluid_models_t *models, uint32_t others, const fluid_state_t *at, double early,
                       double held, double over)
{
    double load = 0, ends = fmin(1, DRAIN * over) * fluid_ends_when_full(at, others);
    for (uint32_t m = 0; m < models->count; m++) {
        const fluid_model_t *fluid = fluid_model(models, m);
        if (fluid->rate > 0)
            load += fluid_use(fluid, fluid_batch(fluid, early)) * exp(-ends * (1 - held) * fluid->slack);
    }
    return load;
}

/* So many are busy when those who find one of the others free start early, and else as many as before. */
static room_reserve_t leave(const room_t *room, const fluid_models_t *models, uint32_t gpus, uint32_t left,
                            double early, double early_before)
{
    double use = fluid_state(models, early).use, before = fluid_state(models, early_before).use;
    double found = 1 - all_busy(room, gpus - left, use);
    return (room_reserve_t){.idle = left + 1, .early = early, .use = before + found * fmax(0, use - before)};
}

room_reserve_t room_reserve(const room_t *room, const fluid_models_t *models, uint32_t gpus,
                            const fluid_state_t *held, double early)
{
    double idle = 1 - held->use / gpus;
    if (room->worst > 0 || gpus < 2 || idle <= 0 || room_alone(held->models) > ALONE)
        return (room_reserve_t){0};
    double chance = room->chance * sqrt(idle), on_all = fluid_early(models, full_use(room, gpus));
    if (on_all <= early)
        return (room_reserve_t){0};
    fluid_state_t all = fluid_state(models, on_all);
    if (LEFT_ONE * worse(fears(room, models, gpus, &all, on_all, idle)) <= chance)
        return leave(room, models, gpus, 1, on_all, early);
    for (uint32_t left = 1; left < gpus; left *= 2) {
        uint32_t others = gpus - left;
        double over = 1 - held->use / others, on_others = fluid_early(models, full_use(room, others));
        if (over <= 0 || on_others <= early)
            break;
        fluid_state_t at = fluid_state(models, on_others);
        double load = overflow(models, others, &at, on_others, early, over);
        double late = worse(fears(room, models, others, &at, on_others, over));
        if (late * fluid_erlang_b(left, load) <= chance) {
            room_reserve_t reserve = leave(room, models, gpus, left, on_others, early);
            reserve.strictly = true;
            return reserve;
        }
    }
    return (room_reserve_t){0};
}
