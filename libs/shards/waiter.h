/*
 * How one thread waits for others: it spins a little when it was busy a moment ago, else it sleeps in a futex
 * until it is woken or its time has come.
 *
 *   for (;;) { if (turn()) continue; waiter_prepare(w); if (turn()) { waiter_cancel(w); continue; } waiter_sleep(w, until); }
 *
 * Both sides change the same word in one step each: either the waker comes first, and the second turn sees
 * what it left, or it sees that somebody sleeps.
 */
#ifndef SHARDS_WAITER_H
#define SHARDS_WAITER_H

#include "base/ring.h"

#include <stdint.h>

typedef struct {
    _Alignas(RING_CACHE_LINE) _Atomic uint32_t word; /* bit 0: somebody sleeps; above: wake-ups */
    uint32_t seen;                                   /* the rest is the sleeper's */
    int64_t busy_ns;                                 /* when there was last something to do */
} waiter_t;

/* For a thread whose timers must be good to 50 µs: the kernel's own slack is that much. */
void waiter_use_exact_timers(void);

void waiter_wake(waiter_t *waiter); /* any thread */

void waiter_note_work(waiter_t *waiter, int64_t now_ns);
/* False: it is too early to sleep, look again. */
bool waiter_may_sleep(const waiter_t *waiter, int64_t now_ns);
void waiter_prepare(waiter_t *waiter);
void waiter_cancel(waiter_t *waiter);
/* CLOCK_MONOTONIC; INT64_MAX: until woken. Returns a little before its time, or at once when that is near:
 * call it again. */
void waiter_sleep(waiter_t *waiter, int64_t until_ns);

#endif
