/*
 * Clean stop on SIGINT and SIGTERM: the first calls on_stop on the loop, a second one ends the process at
 * once with 128 + signal (someone is impatient). SIGPIPE is ignored: writes report EPIPE instead.
 */
#ifndef LOOP_SIGNALS_H
#define LOOP_SIGNALS_H

#include "loop/loop.h"

typedef struct loop_signals loop_signals_t;
typedef void (*loop_signal_fn_t)(void *arg, int signum);

status_t loop_signals_create(loop_signals_t **out, loop_t *loop, loop_signal_fn_t on_stop, void *arg,
                             err_t *err);
void loop_signals_destroy(loop_signals_t *signals);

#endif
