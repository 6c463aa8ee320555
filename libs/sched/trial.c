#include "sched/trial.h"

#include <math.h>

/* What is lost counts from so long on after a change: clients need some rounds to find their places. It is looked at for at least so long. */
static const double SETTLE_MS = 2000, LOOK_LEAST_MS = 1000;
/* In so long clients that were taken apart have found theirs, and it shows whether holding is better. */
static const double SETTLED_MS = 10e3;
/* Losses are remembered for so long, and for so many requests. */
static const double MEMORY_MS = 20000, MEMORY_REQUESTS = 3000;
/* So large a part of the requests may be lost besides. More may be chance, by up to so many standard deviations. */
static const double MARGIN = 0.002, SURELY = 3;
/* What was planned is looked at for a moment only before all are held; in vain they are held for a while. */
static const double HOLD_SURELY = 2;
/* A model may lose so large a part. */
static const double LOST_MOST = 0.01;
/* Between two trials: at first, and at most. */
static const double WAIT_MS = 300e3, WAIT_MOST_MS = 3600e3;
/* If there was nothing to find out for so long others come now. Longer than those are remembered that were taken apart. */
static const double OTHERS_MS = 60e3;

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

static bool surely_more_than(const trial_losses_t *losses, const trial_losses_t *others, double surely)
{
    double variance = others->came > 0 ? part(others) / others->came : 0;
    return surely_more(losses, part(others) + MARGIN, variance, surely);
}

static void add(const trial_t *trial, trial_model_t *model, double came, double lost, double ms)
{
    trial_losses_t *losses = &model->by[trial->way];
    if (trial->ms == 0)
        *losses = (trial_losses_t){0};
    if (trial->ms + ms <= SETTLE_MS)
        return;
    double keep = exp(-fmin(ms / MEMORY_MS, came / MEMORY_REQUESTS));
    losses->came = losses->came * keep + came;
    losses->lost = losses->lost * keep + lost;
}

void trial_count(trial_t *trial, trial_model_t *model, double came, double lost, double ms)
{
    const trial_losses_t *now = &model->by[trial->way];
    add(trial, model, came, lost, ms);
    trial->last.came += came;
    trial->last.lost += lost;
    trial->some |= surely_more(now, MARGIN, 0, SURELY);
    trial->much |= surely_more(now, LOST_MOST, 0, SURELY);
    trial->more |= surely_more_than(now, &model->by[TRIAL_PLANNED], SURELY);
}

/* Of all together: who can wait for less loses more by it. */
static bool holding_is_no_better(const trial_t *trial)
{
    const trial_losses_t *held = &trial->all.by[TRIAL_HELD], *instead = &trial->all.by[trial->instead];
    if (trial->ms < SETTLE_MS + LOOK_LEAST_MS)
        return false;
    return trial->ms < SETTLED_MS ? part(held) >= part(instead)
                                  : !surely_more_than(instead, held, HOLD_SURELY);
}

/* ---- What comes of it ---- */

static void change(trial_t *trial, trial_way_t way)
{
    trial->way = way;
    trial->ms = 0;
}

static void put_off(trial_t *trial, trial_way_t way)
{
    trial->wait_ms[way] = fmin(fmax(WAIT_MS, 2 * trial->wait_ms[way]), WAIT_MOST_MS);
}

static bool lasts(const trial_t *trial, double ms)
{
    return trial->ms >= fmax(ms, SETTLE_MS + LOOK_LEAST_MS);
}

/* Where too many are lost. What it was better than before need not lose them for long again. */
static void try_to_hold(trial_t *trial, const trial_look_t *look, double least_ms)
{
    double wait_ms = trial->anew ? 0 : trial->wait_ms[TRIAL_HELD];
    if (!look->bunched || !trial->much || !lasts(trial, fmax(wait_ms, least_ms)))
        return;
    if (trial->anew)
        put_off(trial, TRIAL_HELD);
    trial->anew = false;
    trial->instead = trial->way;
    change(trial, TRIAL_HELD);
}

static void forget(trial_t *trial)
{
    trial->wait_ms[TRIAL_AT_ONCE] = trial->wait_ms[TRIAL_HELD] = 0;
    trial->anew = false;
}

static void step_planned(trial_t *trial, const trial_look_t *look)
{
    bool may_start = look->holds && look->doubtful, may_hold = look->starts && look->bunched;
    if (!look->possible) {
        trial->ms = 0;
        return;
    }
    trial->quiet_ms = may_start || (may_hold && trial->much) ? 0 : trial->quiet_ms + look->ms;
    if (trial->quiet_ms > OTHERS_MS)
        forget(trial);
    if (may_start && lasts(trial, trial->wait_ms[TRIAL_AT_ONCE]))
        change(trial, TRIAL_AT_ONCE);
    else if (may_hold && (!look->holds || trial->wait_ms[TRIAL_AT_ONCE] > 0))
        try_to_hold(trial, look, 0);
}

/* Where some are lost all the same what is planned may lose fewer by now, or has never been looked at. */
static void step_at_once(trial_t *trial, const trial_look_t *look)
{
    double *wait_ms = &trial->wait_ms[TRIAL_AT_ONCE];
    bool over = true;
    if (!look->possible)
        *wait_ms = fmax(WAIT_MS, *wait_ms);
    else if (trial->more)
        put_off(trial, TRIAL_AT_ONCE);
    else if (trial->ms > WAIT_MS && trial->some)
        *wait_ms = 0;
    else
        over = false;
    if (over)
        change(trial, TRIAL_PLANNED);
    else
        try_to_hold(trial, look, SETTLED_MS);
}

static void step_held(trial_t *trial, const trial_look_t *look)
{
    if (!look->possible) {
        change(trial, TRIAL_PLANNED);
    } else if (holding_is_no_better(trial)) {
        put_off(trial, TRIAL_HELD);
        change(trial, trial->instead);
    } else if (lasts(trial, fmax(WAIT_MS, trial->wait_ms[TRIAL_HELD]))) {
        trial->anew = true;
        change(trial, trial->instead);
    }
}

trial_way_t trial_step(trial_t *trial, const trial_look_t *look)
{
    add(trial, &trial->all, trial->last.came, trial->last.lost, look->ms);
    trial->ms += look->ms;
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

bool trial_explains(const trial_t *trial, double ms)
{
    bool failed = trial->wait_ms[TRIAL_AT_ONCE] > 0 || trial->wait_ms[TRIAL_HELD] > 0;
    return trial->way != TRIAL_PLANNED || (failed && trial->ms < ms);
}
