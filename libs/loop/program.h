/*
 * What the program of each service has around its service: a loop, a clean stop on signals, a watch on the wall clock, and word to the service
 * manager of how it is (base/notify.h). Also lifts the limit of descriptors, tells each second of log lines that were left out, and has the heap keep what was
 * freed for the next message, though not for ever (trim.h).
 */
#ifndef LOOP_PROGRAM_H
#define LOOP_PROGRAM_H

#include "loop/clock_watch.h"
#include "loop/signals.h"
#include "loop/timer.h"
#include "loop/trim.h"

typedef struct {
    loop_t *loop;
    loop_signals_t *signals;
    clock_watch_t *clock_watch;
    trim_t *trim;
    loop_timer_t watchdog, log_lines;
    int64_t watchdog_ns; /* 0: nobody waits for it */
    loop_signal_fn_t on_stop, on_hangup;
    void *arg;
} loop_program_t;

/* Before the service is made; program stays where it is. on_stop comes from the loop's turns only. What a failure leaves is for
 * loop_program_close, too. */
status_t loop_program_open(loop_program_t *program, loop_signal_fn_t on_stop, void *arg, err_t *err);
/* On SIGHUP, with the arg of on_stop: reads again what it reads, before it returns. */
void loop_program_on_hangup(loop_program_t *program, loop_signal_fn_t on_hangup);
/* It serves. */
void loop_program_ready(loop_program_t *program);
/* After the service is destroyed. One that was never opened, all zero, is fine. */
void loop_program_close(loop_program_t *program);

#endif
