#include "sched/steady.h"

#include "sched/fluid.h"

#include <math.h>

/* The shortest is too near to one look: it says only how soon those come again of whom a longer one tells. Of the others each tells of
 * rounds of which its neighbours have now one more, now one less. */
static const double SPANS_MS[STEADY_SPANS] = {200, 500, 800, 1000};
/* Remembered for so many of them; the shortest as long as the longest, which it is compared with. */
static const double MEMORY_SPANS = 40;
/* There are always as many where their dispersion is so small a part of what it would be if bunches came at random; or of that of the
 * shortest, which shows crowds in which bunches come, and would be as large over any time. Less that by which it is smaller by chance among
 * few intervals. */
static const double STEADY = 0.5, STEADY_CROWDS = 0.4, PAIRS_DOUBT = 2.2;

static double keep(int span, double ms)
{
    return exp(-ms / (MEMORY_SPANS * SPANS_MS[span > 0 ? span : STEADY_SPANS - 1]));
}

double steady_half_keep(double ms)
{
    return keep(STEADY_HALF, ms);
}

double steady_count(steady_t *steady, double came, double ms)
{
    double half = -1;
    for (int i = 0; i < STEADY_SPANS; i++) {
        steady_span_t *span = &steady->spans[i];
        double kept = keep(i, ms);
        dispersion_fade(&span->scatter, kept);
        span->pairs *= kept;
        double apart = dispersion_count(&span->scatter, &span->series, came, ms, SPANS_MS[i]);
        span->pairs += apart >= 0;
        if (i == STEADY_HALF)
            half = apart;
    }
    return half;
}

void steady_add(steady_t *all, const steady_t *model)
{
    for (int i = 0; i < STEADY_SPANS; i++) {
        steady_span_t *sum = &all->spans[i];
        const steady_span_t *span = &model->spans[i];
        double counted = sum->scatter.counted + span->scatter.counted;
        if (counted > 0)
            sum->pairs += (span->pairs - sum->pairs) * span->scatter.counted / counted;
        sum->scatter.apart += span->scatter.apart;
        sum->scatter.counted = counted;
    }
}

steady_found_t steady_find(const steady_t *all, double bunch)
{
    steady_found_t found = {0};
    double most = fmax(STEADY * bunch, STEADY_CROWDS * dispersion_of(&all->spans[0].scatter));
    bool round_sure = false;
    if (bunch <= FLUID_BUNCH_LEAST)
        return found;
    for (int i = 0; i < STEADY_SPANS; i++) {
        const steady_span_t *span = &all->spans[i];
        double doubt = PAIRS_DOUBT / sqrt(fmax(span->pairs, 1)), part = dispersion_of(&span->scatter) / most;
        bool bunched = doubt < 1 && part < 1, sure = part < 1 - doubt;
        if ((bunched && found.round_ms == 0) || (sure && !round_sure))
            found.round_ms = SPANS_MS[i];
        round_sure |= sure;
        found.bunched |= bunched && i >= STEADY_HALF;
        found.sure |= sure && i >= STEADY_HALF;
    }
    return found;
}
