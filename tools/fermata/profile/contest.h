/*
 * Modes beside each other on the engine.
 *
 * The same requests come to all of them, in slices. In each slice all modes are played, and another one begins, so that
 * what else the machine does meets all alike, and what one mode changes is compared request by request (trial_stats.h).
 */
#ifndef FERMATA_PROFILE_CONTEST_H
#define FERMATA_PROFILE_CONTEST_H

#include "fermata/profile/operators.h"

typedef struct {
    operators_t *o;
    profile_try_t *tries[PROFILE_TRIES_MAX];
    uint32_t count;
    uint32_t slices;
    uint64_t seed;
    double rate_rps; /* 0: all requests of a slice are there from its beginning */
    bool closed;     /* or the next one comes with the answer to the last one */
    double seconds;  /* of all slices; each begins on an idle device */
    /* what came of it */
    /* by try; of all slices, in the order in which the requests came */
    int64_t *latency_ns[PROFILE_TRIES_MAX];
    int64_t took_ns[PROFILE_TRIES_MAX];
    uint32_t queries;
} contest_t;

/* The first members say what is played; the others are zero before. Dispose of it whatever is returned. */
status_t contest_play(contest_t *contest, err_t *err);
/* The requests of a slice: free list. */
status_t contest_draw(const contest_t *contest, uint32_t slice, operators_work_t *work, err_t *err);

/* Fills tries[].result. From then on latencies are in no order, and changes cannot be told any more. */
void contest_sum_up(contest_t *contest);
/* By how much the mean of a try is another than that of `base`, as a part of it. */
double contest_change(const contest_t *contest, uint32_t try, uint32_t base, double *error);

void contest_dispose(contest_t *contest);

#endif
