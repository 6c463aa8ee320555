#include "sched/trial.h"

#include <math.h>

/* The times below are of rounds of so long, or less. Where they are longer as many are waited for. */
static const double ROUND_MS = 500;
/* A round takes at most so many times as long as it is found to. */
static const double ROUND_MOST = 1.5;
/* So many, however long they are, clients look for their places at most where all start at once by a trial: with twenty who thinks for half
 * a second or longer had nearly found them. Fewer where nobody is held as it is planned, as cameras, which find none, lose much meanwhile;
 * they are looked at for some more. */
static const double FINDING_ROUNDS = 60, PLANNED_ROUNDS = 20, LOOK_ROUNDS = 2;
/* What is lost counts from so long on after a change: clients need some rounds to find their places. It is looked at for at least so long. */
static const double SETTLE_MS = 2000, LOOK_LEAST_MS = 1000;
/* In so long it shows whether another way is better. */
static const double SETTLED_MS = 10e3;
/* While clients that are taken apart look for their places so much more may be lost, where hardly anything is by what was planned. When the
 * first have found theirs clients lose less than that, cameras that lost many as it was planned more. */
static const double FINDING_MORE = 0.1;
/* All start at once, though for so long it seemed impossible. */
static const double IMPOSSIBLE_MS = 2000;
/* Losses are remembered for so long, and for so many requests. */
static const double MEMORY_MS = 20000, MEMORY_REQUESTS = 3000;
/* What holding is better than is lost of late: it is remembered for so small a part of that. */
static const double OF_LATE = 0.15;
/* So large a part of the requests may be lost besides. More may be chance, by up to so many standard deviations. */
static const double MARGIN = 0.002, SURELY = 3;
/* Less has to be known of what is looked at for a moment only: what was planned, and what was there before all are held. */
static const double BRIEFLY_SURELY = 2;
/* A model may lose so large a part. */
static const double LOST_MOST = 0.01;
/* Between two trials: at first, and at most. */
static const double WAIT_MS = 300e3, WAIT_MOST_MS = 3600e3;
/* All are held first where starting them at once was not tried for so long. */
static const double UNTRIED_MS = 60e3;
/* If there was nothing to find out for so long others come now. Longer than those are remembered that were taken apart. */
static const double OTHERS_MS = 60e3;

/* As many rounds as are in `ms` where they are of ROUND_MS, or that time where they are shorter. */
static double in_rounds(const trial_t *trial, double ms)
{
    return ms * fmax(1, trial->round_ms / ROUND_MS);
}

/* ---- What is lost ---- */

static double part(const trial_losses_t *losses)
{
    return losses->came > 0 ? losses->lost / losses->came : 0;
}

/* than: known to its variance. */
static bool surely_more(const trial_losses_t *losses, double than, double variance, double surely)
{
    double doubt = sqrt(losses->lost + losses->came * losses->came * variance);
    return losses->lost - losses->came * than > surely * doubt;
}

static bool surely_more_than(const trial_losses_t *losses, const trial_losses_t *others, double margin,
                             double surely)
{
    double variance = others->came > 0 ? part(others) / others->came : 0;
    return surely_more(losses, part(others) + margin, variance, surely);
}

/* Where all start at once nobody looks for a place any more from then on. */
static double all_found_ms(const trial_t *trial)
{
    return FINDING_ROUNDS * trial->round_ms;
}

/* How long clients that are not held look for their places, if they may be some: what they lose by it is then forgotten. Those who lose by
 * holding as well are none. */
static double finding_ms(const trial_t *trial, const trial_model_t *model)
{
    if (trial->way == TRIAL_AT_ONCE && !surely_more(&model->by[TRIAL_PLANNED], LOST_MOST, 0, BRIEFLY_SURELY))
        return all_found_ms(trial);
    return trial->way == TRIAL_PLANNED && !trial->holds ? PLANNED_ROUNDS * trial->round_ms : 0;
}

/* Some may still look for them, whatever holding lost. */
static bool may_find(const trial_t *trial)
{
    return trial->way == TRIAL_AT_ONCE && trial->ms < all_found_ms(trial);
}

static bool ends(const trial_t *trial, double ms, double until_ms)
{
    return trial->ms < until_ms && trial->ms + ms >= until_ms;
}

static void add(const trial_t *trial, trial_model_t *model, double came, double lost, double ms,
                double memory, double until_ms)
{
    trial_losses_t *losses = &model->by[trial->way];
    bool first_found = may_find(trial) && ends(trial, ms, in_rounds(trial, SETTLED_MS)),
         found = first_found || ends(trial, ms, until_ms);
    if (trial->ms == 0 || found)
        *losses = (trial_losses_t){0};
    if (trial->ms + ms <= in_rounds(trial, SETTLE_MS) || found || trial->impossible_ms > 0)
        return;
    double keep = exp(-fmin(ms / MEMORY_MS, came / MEMORY_REQUESTS) / memory);
    losses->came = losses->came * keep + came;
    losses->lost = losses->lost * keep + lost;
}

void trial_count(trial_t *trial, trial_model_t *model, double came, double lost, double ms)
{
    const trial_losses_t *now = &model->by[trial->way];
    double until_ms = finding_ms(trial, model), most = may_find(trial) ? FINDING_MORE : LOST_MOST;
    add(trial, model, came, lost, ms, 1, until_ms);
    double margin = trial->ms < until_ms ? MARGIN + FINDING_MORE : MARGIN;
    trial->last.came += came;
    trial->last.lost += lost;
    trial->some |= surely_more(now, MARGIN, 0, SURELY);
    trial->much |= lost > 0 && surely_more(now, most, 0, SURELY); /* and still does */
    trial->more |= surely_more_than(now, &model->by[TRIAL_PLANNED], margin, SURELY);
}

/* Of all together, what was planned as it is of late, so there is nothing to forget of it. */
static void add_to_all(trial_t *trial, double ms)
{
    double memory = trial->way == TRIAL_HELD ? 1 : OF_LATE,
           until_ms = trial->way == TRIAL_PLANNED ? 0 : finding_ms(trial, &trial->all);
    add(trial, &trial->all, trial->last.came, trial->last.lost, ms, memory, until_ms);
}

/* Of all together: who can wait for less loses more by it. */
static bool holding_is_better(const trial_t *trial)
{
    const trial_losses_t *held = &trial->all.by[TRIAL_HELD], *instead = &trial->all.by[trial->instead];
    return trial->ms < in_rounds(trial, SETTLED_MS) ? part(held) < part(instead)
                                                    : surely_more_than(instead, held, 0, BRIEFLY_SURELY);
}

/* ---- What comes of it ---- */

static void change(trial_t *trial, trial_way_t way)
{
    trial->way = way;
    trial->ms = trial->past_ms = 0;
    trial->tried = true;
}

static double longer(double ms)
{
    return fmin(fmax(WAIT_MS, 2 * ms), WAIT_MOST_MS);
}

static void put_off(trial_t *trial, trial_way_t way, double wait_ms)
{
    trial->wait_ms[way] = wait_ms;
    trial->since_ms[way] = 0;
}

static bool is_due(const trial_t *trial, trial_way_t way)
{
    return trial->since_ms[way] >= trial->wait_ms[way];
}

static bool lasts(const trial_t *trial, double ms)
{
    return trial->ms >= fmax(ms, in_rounds(trial, SETTLE_MS + LOOK_LEAST_MS));
}

/* Others come. */
static void forget(trial_t *trial)
{
    trial->wait_ms[TRIAL_AT_ONCE] = trial->wait_ms[TRIAL_HELD] = trial->hold_ms = trial->round_ms = 0;
    trial->tried = false;
}

/* Where they may be cameras, and too many are lost. */
static void try_to_hold(trial_t *trial, double least_ms)
{
    if (!trial->much || !lasts(trial, least_ms) || !is_due(trial, TRIAL_HELD))
        return;
    trial->better = false;
    trial->instead = trial->way;
    change(trial, TRIAL_HELD);
}

static void step_planned(trial_t *trial, const trial_look_t *look)
{
    bool may_start = look->holds && look->doubtful && !look->known,
         may_hold = look->starts && look->bunched && !look->known;
    trial->holds = look->holds;
    if (look->bunched)
        trial->round_ms = look->round_ms;
    if (!look->possible) {
        trial->ms = 0;
        return;
    }
    if (may_start || (may_hold && trial->much))
        trial->quiet_ms = 0;
    else if (!look->known) /* as held clients are that may be others than they seem */
        trial->quiet_ms += look->ms;
    if (trial->quiet_ms > OTHERS_MS)
        forget(trial);
    if (may_start && lasts(trial, 0) && is_due(trial, TRIAL_AT_ONCE))
        change(trial, TRIAL_AT_ONCE);
    else if (may_hold && !look->holds)
        try_to_hold(trial, (PLANNED_ROUNDS + LOOK_ROUNDS) * trial->round_ms);
    else if (may_hold)
        try_to_hold(trial, trial->wait_ms[TRIAL_AT_ONCE] > 0 ? in_rounds(trial, SETTLED_MS) : UNTRIED_MS);
}

/* Where some are lost all the same what is planned may lose fewer by now, or has never been looked at. */
static void step_at_once(trial_t *trial, const trial_look_t *look)
{
    double wait_ms = trial->wait_ms[TRIAL_AT_ONCE];
    bool over = true;
    if (trial->impossible_ms > IMPOSSIBLE_MS)
        put_off(trial, TRIAL_AT_ONCE, fmax(WAIT_MS, wait_ms));
    else if (trial->more)
        put_off(trial, TRIAL_AT_ONCE, longer(wait_ms));
    else if (trial->ms > WAIT_MS && trial->some)
        put_off(trial, TRIAL_AT_ONCE, 0);
    else
        over = false;
    if (over)
        change(trial, TRIAL_PLANNED);
    else if (look->bunched && !look->known)
        try_to_hold(trial, (may_find(trial) ? in_rounds(trial, SETTLED_MS) : all_found_ms(trial)) +
                               in_rounds(trial, LOOK_LEAST_MS));
}

/* What it is better than was looked at long ago: if it is no better any more that is looked at anew, and it may be tried again at once.
 * Who is held comes as a whole, so that cameras are taken for clients that wait. */
static void step_held(trial_t *trial, const trial_look_t *look)
{
    bool better = holding_is_better(trial);
    trial->quiet_ms = look->bunched ? 0 : trial->quiet_ms + look->ms;
    if (better && trial->ms >= in_rounds(trial, SETTLED_MS)) {
        trial->better = true;
        trial->wait_ms[TRIAL_HELD] = 0;
    }
    if (trial->quiet_ms > OTHERS_MS) {
        change(trial, TRIAL_PLANNED);
        forget(trial);
    } else if (trial->impossible_ms > SETTLED_MS) {
        change(trial, TRIAL_PLANNED);
    } else if (!look->possible) {
        trial->ms = 0;
    } else if (lasts(trial, 0) && !better) {
        if (!trial->better)
            put_off(trial, TRIAL_HELD, longer(trial->wait_ms[TRIAL_HELD]));
        change(trial, trial->instead);
    } else if (lasts(trial, fmax(WAIT_MS, trial->hold_ms))) {
        trial->hold_ms = longer(fmax(WAIT_MS, trial->hold_ms));
        change(trial, trial->instead);
    }
}

trial_way_t trial_step(trial_t *trial, const trial_look_t *look)
{
    add_to_all(trial, look->ms);
    trial->ms += look->ms;
    trial->past_ms += look->ms;
    trial->impossible_ms = look->possible ? 0 : trial->impossible_ms + look->ms;
    for (int way = 0; way < TRIAL_WAYS; way++)
        trial->since_ms[way] += look->ms;
    if (trial->way == TRIAL_PLANNED)
        step_planned(trial, look);
    else if (trial->way == TRIAL_AT_ONCE)
        step_at_once(trial, look);
    else
        step_held(trial, look);
    trial->last = (trial_losses_t){0};
    trial->some = trial->much = trial->more = false;
    return trial->way;
}

bool trial_takes_apart(const trial_t *trial)
{
    return trial->way == TRIAL_AT_ONCE && trial->ms < fmax(ROUND_MS, ROUND_MOST * trial->round_ms);
}

bool trial_explains(const trial_t *trial, double ms)
{
    return trial->way != TRIAL_PLANNED || (trial->tried && trial->past_ms < ms);
}
