/*
 * Whether as many requests come over any longer time, though they come in bunches, as clients do that wait for their answers, and cameras in
 * step. Bunches that come at random scatter as much as they are large, over any time; these scatter less over a time in which nearly all of
 * them come once, or more often. Which time that is nobody tells, so half a second, four fifths and a second are looked at; and a fifth of a
 * second, which alone says too little, for how soon they come again, and for how large the crowds are in which bunches come.
 *
 * Pure; zero it to start.
 */
#ifndef SCHED_STEADY_H
#define SCHED_STEADY_H

#include "sched/dispersion.h"

#include <stdbool.h>

enum { STEADY_HALF = 1, STEADY_SPANS = 4 }; /* of half a second is the second; from the shortest on */

typedef struct {
    dispersion_t scatter;
    dispersion_series_t series;
    double pairs; /* decaying sum of intervals in a row; of several models their mean over the requests */
} steady_span_t;

/* Of one model, or of several together. */
typedef struct {
    steady_span_t spans[STEADY_SPANS];
} steady_t;

/* At each look at a model: so many have come in the last `ms`, 0 or more; a look that is longer than a span is one interval of it. Returns by
 * how many requests two half seconds in a row differ, below 0 where none has ended, or the first. */
double steady_count(steady_t *steady, double came, double ms);

/* What was counted of half seconds is worth so much after another `ms`. */
double steady_half_keep(double ms);

/* What is found of a model counts to that of several, which is zero to start; nothing else is counted to it. */
void steady_add(steady_t *all, const steady_t *model);

/* That of half seconds. */
static inline const steady_span_t *steady_half(const steady_t *steady)
{
    return &steady->spans[STEADY_HALF];
}

typedef struct {
    /* Over some time of at least half a second they scatter clearly less than bunches would at random, */
    bool bunched;
    bool sure; /* and not because few times have been looked at */
    /* The shortest time of which that is sure, or else that is so: each comes again about as soon, or in half as long again. 0: there is
     * none. */
    double round_ms;
} steady_found_t;

/* bunch: how many come together within a slack, in the mean; at random it is 1. */
steady_found_t steady_find(const steady_t *all, double bunch);

#endif
