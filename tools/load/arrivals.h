/*
 * When the requests of one model are meant to be sent: a stream of offsets from the start of the run.
 *
 * Pure. The offsets depend on kind, rate, seed and stream alone, never on how fast answers come, and each is
 * computed from the one before without rounding, so that they do not drift.
 */
#ifndef LOAD_ARRIVALS_H
#define LOAD_ARRIVALS_H

#include "base/prng.h"

#include <stdint.h>

typedef enum { ARRIVALS_POISSON, ARRIVALS_UNIFORM } arrivals_kind_t;

typedef struct {
    arrivals_kind_t kind;
    double period_ns;
    double next_ns; /* a double holds whole nanoseconds exactly for 104 days */
    uint64_t count;
    double phase; /* uniform: in [0, 1) periods, so that models of one rate do not fire together */
    prng_t prng;
} arrivals_t;

/* rate_per_s > 0. Streams of one seed are independent of each other. */
void arrivals_init(arrivals_t *arrivals, arrivals_kind_t kind, double rate_per_s, uint64_t seed,
                   uint64_t stream);
int64_t arrivals_next_ns(const arrivals_t *arrivals); /* the offset of the next arrival */
void arrivals_advance(arrivals_t *arrivals);

#endif
