#include "sched/swing.h"

#include <math.h>

/* Intervals before they say something: as if in so many nothing had been off. */
static const double PRIOR = 20;
/* Of n intervals a variance is known to sqrt(2 / n) of itself, and what two in a row have in common to sqrt(1 / n) of that. So many of
 * these may be chance: random arrivals must not be taken for bursts. */
static const double BURSTS_DOUBT = 3, LASTING_DOUBT = 2;

void swing_add(swing_t *swing, double came, double foretold, double each_ms, double interval_ms)
{
    double each = each_ms / interval_ms;
    swing->off += (came - foretold) * each;
    swing->chance += came * each * each;
}

void swing_end(swing_t *swing, double keep)
{
    swing->squares = swing->squares * keep + swing->off * swing->off;
    swing->products = swing->products * keep + swing->off * swing->before;
    swing->chances = swing->chances * keep + swing->chance;
    swing->intervals = swing->intervals * keep + 1;
    swing->before = swing->off;
    swing->off = swing->chance = 0;
}

static double deviation(const swing_t *swing, double sum)
{
    return sum > 0 ? sqrt(sum / (swing->intervals + PRIOR)) : 0;
}

double swing_all(const swing_t *swing)
{
    return deviation(swing, swing->squares);
}

double swing_bursts(const swing_t *swing)
{
    double most = swing->intervals > 0 ? 1 + BURSTS_DOUBT * sqrt(2 / swing->intervals) : 1;
    return deviation(swing, swing->squares - most * swing->chances);
}

double swing_lasting(const swing_t *swing)
{
    double chance = swing->intervals > 0 ? LASTING_DOUBT * swing->squares / sqrt(swing->intervals) : 0;
    return deviation(swing, swing->products - chance);
}
