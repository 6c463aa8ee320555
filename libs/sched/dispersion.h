/*
 * How much arrivals scatter: the variance of what comes in an interval over its mean. 1 at random, 0 when they come evenly, more in bursts.
 *
 * From what each interval differs by from the one before it, so that a rate that changes slowly does not count; of several series
 * together. Pure; zero it to start.
 */
#ifndef SCHED_DISPERSION_H
#define SCHED_DISPERSION_H

typedef struct {
    /* Decaying sums: squares of what two intervals in a row differ by, and what came in them. */
    double apart, counted;
} dispersion_t;

/* A series that is counted over longer intervals than it is heard of. */
typedef struct {
    double came, ms;               /* in the interval that runs, and how long it does */
    double before_came, before_ms; /* in the last one; 0 ms: there was none */
} dispersion_series_t;

/* Two intervals of a series in a row, in requests and ms; those of different length are brought to the same. Returns by how many requests they
 * differ. By clients that wait for their answers that is no more than those are, however long the intervals. */
double dispersion_add(dispersion_t *dispersion, double came, double ms, double before_came, double before_ms);

/* Likewise of a series whose intervals are at least `interval_ms` long: so many have come in the last `ms`. Returns below 0
 * where none has ended, or the first. */
double dispersion_count(dispersion_t *dispersion, dispersion_series_t *series, double came, double ms,
                        double interval_ms);

/* keep: what the sums so far are worth now. */
void dispersion_fade(dispersion_t *dispersion, double keep);

/* 1 as long as little has come. */
double dispersion_of(const dispersion_t *dispersion);

#endif
