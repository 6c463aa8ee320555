/*
 * Timers with nanosecond deadlines on a loop: one timerfd and one heap per loop, so a timer costs no system
 * call unless it becomes the earliest. Late by the kernel's wake-up latency (some 50 µs), never early. Loop
 * thread only.
 */
#ifndef LOOP_TIMER_H
#define LOOP_TIMER_H

#include "base/heap.h"
#include "base/status.h"
#include "loop/loop.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct loop_timer loop_timer_t;
typedef void (*loop_timer_fn_t)(loop_timer_t *timer, void *arg);

struct loop_timer {
    heap_node_t node;
    loop_t *loop;
    loop_timer_fn_t fn;
    void *arg;
    loop_timer_t *due_next; /* while a turn's due timers are called */
    bool due;
};

/* Reserves the timer's place: fails only with STATUS_NO_MEMORY. Starting never fails. */
status_t loop_timer_init(loop_timer_t *timer, loop_t *loop, loop_timer_fn_t fn, void *arg, err_t *err);
void loop_timer_dispose(loop_timer_t *timer);

/* Fires once at or after at_ns (clock_now_ns time); a started timer is moved. May be called from its own
 * callback. */
void loop_timer_start(loop_timer_t *timer, int64_t at_ns);
void loop_timer_start_in(loop_timer_t *timer, int64_t delay_ns);
void loop_timer_stop(
    loop_timer_t *timer); /* after this the callback does not come, even if it was due this turn */
bool loop_timer_active(const loop_timer_t *timer);

#endif
