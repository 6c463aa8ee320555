/*
 * What the program of each service has around its service: a loop, a clean stop on signals, a watch on the wall clock.
 * Also lifts the limit of descriptors.
 */
#ifndef LOOP_PROGRAM_H
#define LOOP_PROGRAM_H

#include "loop/clock_watch.h"
#include "loop/signals.h"

typedef struct {
    loop_t *loop;
    loop_signals_t *signals;
    clock_watch_t *clock_watch;
} loop_program_t;

/* Before the service is made. on_stop comes from the loop's turns only. What a failure leaves is for loop_program_close, too. */
status_t loop_program_open(loop_program_t *program, loop_signal_fn_t on_stop, void *arg, err_t *err);
/* After the service is destroyed. One that was never opened, all zero, is fine. */
void loop_program_close(loop_program_t *program);

#endif
