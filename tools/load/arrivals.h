/*
 * When the requests of one model are meant to be sent: a stream of offsets from the start of the run.
 *
 * Pure. The offsets depend on kind, rates, seed and stream alone, never on how fast answers come, and each is
 * computed from the one before without rounding, so that they do not drift.
 */
#ifndef LOAD_ARRIVALS_H
#define LOAD_ARRIVALS_H

#include "base/prng.h"

#include <stdint.h>

typedef enum { ARRIVALS_POISSON, ARRIVALS_UNIFORM } arrivals_kind_t;

typedef struct {
    arrivals_kind_t kind;
    double period_ns; /* INFINITY: none comes */
    double next_ns;   /* a double holds whole nanoseconds exactly for 104 days */
    double origin_ns; /* uniform: since the rate is what it is */
    uint64_t count;   /* since then */
    double phase;     /* uniform: in periods, so that models of one rate do not fire together */
    double left;      /* while none comes: of a period, until the next */
    prng_t prng;
} arrivals_t;

/* rate_per_s > 0. Streams of one seed are independent of each other. */
void arrivals_init(arrivals_t *arrivals, arrivals_kind_t kind, double rate_per_s, uint64_t seed,
                   uint64_t stream);
int64_t arrivals_next_ns(const arrivals_t *arrivals); /* its offset; INT64_MAX: none comes */
void arrivals_advance(arrivals_t *arrivals);
/* Another rate from at_ns on, which is not after the next arrival; 0: none comes until it changes again.
 * What was left of the wait for the next arrival is stretched or shortened with the period, which keeps
 * Poisson arrivals Poisson. */
void arrivals_set_rate(arrivals_t *arrivals, int64_t at_ns, double rate_per_s);

#endif
