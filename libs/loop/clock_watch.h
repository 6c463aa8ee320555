/*
 * Says in the log when the wall clock of the host has jumped (`clock_jumped`): it was set, or the host was suspended, for
 * which the monotonic clock stands still. Only stamps are of the wall clock, so nothing else follows; but who reads the log
 * or compares it with that of another host ought to know. Loop thread.
 */
#ifndef LOOP_CLOCK_WATCH_H
#define LOOP_CLOCK_WATCH_H

#include "base/status.h"
#include "loop/loop.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct clock_watch clock_watch_t;

status_t clock_watch_create(clock_watch_t **watch, loop_t *loop, err_t *err);
void clock_watch_destroy(clock_watch_t *watch); /* NULL is fine */

/* What it goes by. Pure. Begins with zeros. */
typedef struct {
    bool known;
    int64_t apart_ns; /* the wall clock from the monotonic one, when last looked at */
} clock_gap_t;

/* By how much the wall clock has moved against the monotonic one since the last look: told once, and 0 below a second, as
 * a clock that is kept in step does. */
int64_t clock_gap_look(clock_gap_t *gap, int64_t wall_ns, int64_t monotonic_ns);

#endif
