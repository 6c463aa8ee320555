#include "sched/trial.h"

#include <math.h>

/* What is lost counts from so long on after a change: clients need some rounds to find their places. Before a trial at least so long. */
static const double SETTLE_MS = 2000, HELD_LEAST_MS = 1000;
static const double MEMORY_MS = 20000;
/* So large a part of the requests may be lost besides. More are by chance where it is less than so many standard deviations. */
static const double MARGIN = 0.002, SURELY = 2;
/* Between two trials: at first, and at most. */
static const double WAIT_MS = 300e3, WAIT_MOST_MS = 3600e3;
/* If there was nothing to find out for so long others come now. */
static const double OTHERS_MS = 10e3;

static void change(trial_t *trial, bool at_once, double wait_ms)
{
    trial->at_once = at_once;
    trial->ms = 0;
    trial->wait_ms = wait_ms;
    *(at_once ? &trial->early : &trial->held) = (trial_losses_t){0};
}

static void count(trial_losses_t *losses, const trial_look_t *look)
{
    double keep = exp(-look->ms / MEMORY_MS);
    losses->came = losses->came * keep + look->came;
    losses->lost = losses->lost * keep + look->lost;
}

static bool surely_more(const trial_losses_t *losses, double part)
{
    return losses->lost - losses->came * (part + MARGIN) > SURELY * sqrt(losses->lost);
}

static void step_held(trial_t *trial, const trial_look_t *look)
{
    trial->undoubtful_ms = look->doubtful ? 0 : trial->undoubtful_ms + look->ms;
    if (trial->undoubtful_ms > OTHERS_MS)
        trial->wait_ms = 0;
    if (look->doubtful && look->possible && trial->ms >= fmax(trial->wait_ms, SETTLE_MS + HELD_LEAST_MS))
        change(trial, true, trial->wait_ms);
}

/* Where some are lost all the same holding may have become better, or never was tried by itself. */
static void step_at_once(trial_t *trial, const trial_look_t *look)
{
    double before = trial->held.came > 0 ? trial->held.lost / trial->held.came : 0;
    if (!look->possible)
        change(trial, false, WAIT_MS);
    else if (surely_more(&trial->early, before))
        change(trial, false, fmin(fmax(WAIT_MS, 2 * trial->wait_ms), WAIT_MOST_MS));
    else if (trial->ms > WAIT_MS && surely_more(&trial->early, 0))
        change(trial, false, 0);
}

bool trial_step(trial_t *trial, const trial_look_t *look)
{
    trial->ms += look->ms;
    if (trial->ms > SETTLE_MS)
        count(trial->at_once ? &trial->early : &trial->held, look);
    if (trial->at_once)
        step_at_once(trial, look);
    else
        step_held(trial, look);
    return trial->at_once;
}
