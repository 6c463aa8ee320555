#include "sched/dispersion.h"

#include <math.h>

/* Requests in an interval before one says how bursty they are: as if so many had come at random. */
static const double PRIOR = 20;

double dispersion_add(dispersion_t *dispersion, double came, double ms, double before_came, double before_ms)
{
    double longer = ms / before_ms, before = before_came * longer, apart = fabs(came - before);
    dispersion->apart += apart * apart;
    dispersion->counted += came + before * longer;
    return apart;
}

double dispersion_count(dispersion_t *dispersion, dispersion_series_t *series, double came, double ms,
                        double interval_ms)
{
    series->came += came;
    series->ms += ms;
    if (series->ms < interval_ms)
        return -1;
    double apart = -1;
    if (series->before_ms > 0)
        apart = dispersion_add(dispersion, series->came, series->ms, series->before_came, series->before_ms);
    *series = (dispersion_series_t){.before_came = series->came, .before_ms = series->ms};
    return apart;
}

void dispersion_fade(dispersion_t *dispersion, double keep)
{
    dispersion->apart *= keep;
    dispersion->counted *= keep;
}

double dispersion_of(const dispersion_t *dispersion)
{
    return (dispersion->apart + PRIOR) / (dispersion->counted + PRIOR);
}
