/*
 * Clean stop on SIGINT and SIGTERM: the first calls on_stop on the loop, a second one ends the process at
 * once with 128 + signal (someone is impatient). SIGPIPE is ignored: writes report EPIPE instead. SIGHUP never ends it
 * at once: it is a call of on_hangup, or where there is none another way to ask for a clean stop (a terminal that closes).
 * What was started with SIGHUP ignored (nohup) goes on to ignore it.
 */
#ifndef LOOP_SIGNALS_H
#define LOOP_SIGNALS_H

#include "loop/loop.h"

typedef struct loop_signals loop_signals_t;
typedef void (*loop_signal_fn_t)(void *arg, int signum);

status_t loop_signals_create(loop_signals_t **out, loop_t *loop, loop_signal_fn_t on_stop, void *arg,
                             err_t *err);
/* Called on the loop, with the arg of on_stop. */
void loop_signals_on_hangup(loop_signals_t *signals, loop_signal_fn_t on_hangup);
void loop_signals_destroy(loop_signals_t *signals);

#endif
