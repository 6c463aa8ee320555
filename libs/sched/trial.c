#include "sched/trial.h"

#include <math.h>

/* What is lost counts from so long on after a change: clients need some rounds to find their places. Before a trial at least so long. */
static const double SETTLE_MS = 2000, HELD_LEAST_MS = 1000;
/* They are remembered for so long, and for so many requests. */
static const double MEMORY_MS = 20000, MEMORY_REQUESTS = 3000;
/* So large a part of the requests may be lost besides. More may be chance, by up to so many standard deviations. */
static const double MARGIN = 0.002, SURELY = 3;
/* Between two trials: at first, and at most. */
static const double WAIT_MS = 300e3, WAIT_MOST_MS = 3600e3;
/* If there was nothing to find out for so long others come now. Longer than those are remembered that were taken apart. */
static const double OTHERS_MS = 60e3;

void trial_count(const trial_t *trial, trial_model_t *model, double came, double lost, double ms)
{
    trial_losses_t *losses = trial->at_once ? &model->at_once : &model->held;
    if (trial->ms == 0)
        *losses = (trial_losses_t){0};
    if (trial->ms + ms <= SETTLE_MS)
        return;
    double keep = exp(-fmin(ms / MEMORY_MS, came / MEMORY_REQUESTS));
    losses->came = losses->came * keep + came;
    losses->lost = losses->lost * keep + lost;
}

/* part: of the requests, known to its variance. */
static bool surely_more(const trial_losses_t *losses, double part, double variance)
{
    double doubt = sqrt(losses->lost + losses->came * losses->came * variance);
    return losses->lost - losses->came * (part + MARGIN) > SURELY * doubt;
}

bool trial_loses_more(const trial_model_t *model)
{
    const trial_losses_t *held = &model->held;
    if (!(held->came > 0))
        return trial_loses(model);
    return surely_more(&model->at_once, held->lost / held->came, held->lost / (held->came * held->came));
}

bool trial_loses(const trial_model_t *model)
{
    return surely_more(&model->at_once, 0, 0);
}

static void change(trial_t *trial, bool at_once, double wait_ms)
{
    trial->at_once = at_once;
    trial->ms = 0;
    trial->wait_ms = wait_ms;
}

static void step_held(trial_t *trial, const trial_look_t *look)
{
    if (!look->possible) {
        trial->ms = 0;
        return;
    }
    trial->undoubtful_ms = look->doubtful ? 0 : trial->undoubtful_ms + look->ms;
    if (trial->undoubtful_ms > OTHERS_MS)
        trial->wait_ms = 0;
    if (look->doubtful && trial->ms >= fmax(trial->wait_ms, SETTLE_MS + HELD_LEAST_MS))
        change(trial, true, trial->wait_ms);
}

/* Where some are lost all the same holding may lose fewer by now, or has never been looked at. */
static void step_at_once(trial_t *trial, const trial_look_t *look)
{
    if (!look->possible)
        change(trial, false, fmax(WAIT_MS, trial->wait_ms));
    else if (look->more)
        change(trial, false, fmin(fmax(WAIT_MS, 2 * trial->wait_ms), WAIT_MOST_MS));
    else if (trial->ms > WAIT_MS && look->some)
        change(trial, false, 0);
}

bool trial_step(trial_t *trial, const trial_look_t *look)
{
    trial->ms += look->ms;
    if (trial->at_once)
        step_at_once(trial, look);
    else
        step_held(trial, look);
    return trial->at_once;
}
