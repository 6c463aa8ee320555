/*
 * Lets the sub-clusters decide, and sends out what they have decided: grants, drops and stops. Hot.
 *
 * Whatever happens in one turn of the loop (many messages) is told to the sub-clusters first; each then decides once,
 * and each peer gets at most one frame.
 */
#ifndef SCHEDULER_DRIVER_H
#define SCHEDULER_DRIVER_H

#include "base/status.h"

#include <stdint.h>

typedef struct scheduler scheduler_t;

status_t driver_init(scheduler_t *s, err_t *err);
void driver_dispose(scheduler_t *s);
void driver_run(scheduler_t *s);
/* Decides what is due, of those sub-clusters that were asked to be looked at again by now. What comes out
 * is sent with driver_run. */
void driver_decide_due(scheduler_t *s, int64_t now_ns);

#endif
