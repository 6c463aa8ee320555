/*
 * By how much the GPU time that is wanted differs from what the rates foretell: standard deviations over the intervals of a slow loop,
 * in GPUs. A plan that is right for the mean is wrong in each burst, when all that it left idle is wanted at once.
 *
 * Of all models together, so that bursts that come in step count for more than those that do not. Pure; zero it to start.
 */
#ifndef SCHED_SWING_H
#define SCHED_SWING_H

typedef struct {
    /* Of the interval that is being added up: GPUs beyond what was foretold, and their variance by chance. */
    double off, chance;
    double before; /* off of the last one */
    /* Decaying sums over the intervals: of off squared, of off times before, of chance, of 1. */
    double squares, products, chances, intervals;
} swing_t;

/* Of one model in the interval: requests that came, those that its rate foretold, and the GPU time of each, ms. */
void swing_add(swing_t *swing, double came, double foretold, double each_ms, double interval_ms);

/* The interval is over. keep: what the sums so far are worth now. */
void swing_end(swing_t *swing, double keep);

/* All of it; what is clearly more than random arrivals make; and of that, what lasts from one interval to the next. */
double swing_all(const swing_t *swing);
double swing_bursts(const swing_t *swing);
double swing_lasting(const swing_t *swing);

#endif
