/*
 * Seeded request streams: when the next request of one model comes.
 */
#ifndef SIM_ARRIVALS_H
#define SIM_ARRIVALS_H

#include "base/prng.h"
#include "base/status.h"

#include <stdbool.h>

typedef enum {
    ARRIVALS_POISSON,
    ARRIVALS_UNIFORM,
    ARRIVALS_GAMMA,
    ARRIVALS_MMPP,
    ARRIVALS_BURSTS,
    ARRIVALS_CLOSED
} arrivals_kind_t;

/* poisson | uniform[:PHASE] (when the first comes, in parts of a gap; without it that is drawn) |
 * gamma:SHAPE | mmpp:FACTOR,DWELL_S: two states of equal length in the mean, in which the rate is FACTOR
 * and 2 - FACTOR times the mean (1 < FACTOR <= 2); each lasts an exponential time of mean DWELL_S.
 * closed:N,THINK_MS: no stream, but N clients per model that wait for an answer, and THINK_MS, before they
 * ask again; the rate is what comes of it. bursts:N,PERIOD_MS,START_MS[,GAP_MS]: N at once, or GAP_MS after one another, at START_MS
 * and every PERIOD_MS from there on, whatever the rate; all N within the period. */
typedef struct {
    arrivals_kind_t kind;
    double shape;
    bool phased; /* uniform: the phase is given */
    double phase;
    double factor, dwell_s;
    uint32_t burst; /* bursts: requests in one */
    double period_s, start_s, gap_s;
    uint32_t clients; /* closed: per model; */
    double think_s;   /* closed: from an answer to the client's next request */
} arrivals_spec_t;

status_t arrivals_parse(const char *text, arrivals_spec_t *spec, err_t *err);

/* "A/B/C": one for each of `count` models, streams all. */
status_t arrivals_parse_each(const char *text, arrivals_spec_t *specs, uint32_t count, err_t *err);

typedef struct {
    arrivals_spec_t spec;
    prng_t prng;
    double at_s;
    uint64_t taken;    /* bursts: requests so far */
    bool busy;         /* mmpp: the state */
    double switches_s; /* mmpp: when it ends */
} arrivals_t;

/* stream: a number of its own per model, so that one model's stream does not depend on the others. */
void arrivals_init(arrivals_t *arrivals, const arrivals_spec_t *spec, uint64_t seed, uint64_t stream);

/* The next arrival, in seconds from the start, when the mean rate is rate_rps > 0 from the last arrival on. */
double arrivals_next_s(arrivals_t *arrivals, double rate_rps);

#endif
