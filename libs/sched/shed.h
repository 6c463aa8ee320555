/*
 * Whose requests are refused when not all can be served: those of lowest priority, as they come.
 *
 * A policy gives up the requests that cost the others most, whoever sent them. That is right among equals,
 * and it stays the policy's as long as all are equal. When requests of several priorities meet in overload,
 * this works out from window to window which part of all must be refused at the door for the policy to lose
 * (nearly) none, and takes it from the lowest priorities up. The highest that is there is never refused: what
 * it overloads by itself is the policy's again.
 *
 * Pure; embedded in its owner; nothing to dispose.
 */
#ifndef SCHED_SHED_H
#define SCHED_SHED_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SHED_LEVELS = 16,         /* priorities from 15 up are one */
    SHED_RETRY_AFTER_MS = 50, /* what a client is told to wait before it tries again */
};

typedef struct {
    int64_t window_ns, begun_ns;
    uint64_t seen[SHED_LEVELS]; /* in this window, refused ones included */
    uint64_t admitted, bad;     /* in this window; bad: given up by the policy, or late */
    uint64_t busy_seen_ns;      /* when it began */
    double part;                /* of all that is to be refused */
    double refuse[SHED_LEVELS]; /* of each level */
    double debt[SHED_LEVELS];   /* what is still to be refused of it */
} shed_t;

void shed_init(shed_t *shed, int64_t window_ns);

static inline uint32_t shed_level(uint32_t priority)
{
    return priority < SHED_LEVELS ? priority : SHED_LEVELS - 1;
}

/* The rule by which a part of what comes is refused: evenly, and none at random. True: refuse this one. debt: the caller's, between the
 * calls for one stream; 0 at first. */
static inline bool shed_refuses(double *debt, double part)
{
    *debt += part;
    if (*debt < 1)
        return false;
    *debt -= 1;
    return true;
}

/* One request comes. False: refuse it. O(1). */
bool shed_admits(shed_t *shed, uint32_t priority);

/* Requests came that somebody else has judged, by what was told of `refuse` (estimate.h). */
void shed_note_judged(shed_t *shed, uint32_t priority, uint32_t admitted, uint32_t refused);

/* Whether any part of any level is refused. */
bool shed_is_closing(const shed_t *shed);

/* One that was admitted came to nothing. */
static inline void shed_note_bad(shed_t *shed)
{
    shed->bad++;
}

/* What is bad while the devices stand idle for half of their time is not bad for want of devices: a host that stood still,
 * tight deadlines, devices that fail. To refuse others would cure none of it. */
#define SHED_BUSY_LEAST 0.5

/* To be called often; decides anew at the end of each window. busy_ns: of all devices since some start, modulo 2^64. */
void shed_tick(shed_t *shed, int64_t now_ns, uint32_t devices, uint64_t busy_ns);

#endif
