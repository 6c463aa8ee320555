/* Whom the scheduler does not believe now, and why: a row for each worker and model, for each device, and for each gateway. For people. */
#ifndef SCHEDULER_ADMIN_DOUBTS_H
#define SCHEDULER_ADMIN_DOUBTS_H

#include "control/control.h"

typedef struct {
    const char *peer, *model; /* model: "" for a gateway and a device */
    const char *device;       /* "" where it is not of one */
    const char *state;        /* "shunned", "tried" (standing.h); of a gateway "disbelieved" */
    const char *reason;
    uint32_t strikes;
    int64_t for_ns; /* shunned: for so long still */
} doubt_t;

enum { DOUBTS_MAX = 1024 }; /* more are not shown */

/* How many there are, into rows[DOUBTS_MAX]; they hold until the control plane is told something. */
uint32_t doubts_list(const control_t *control, int64_t now_ns, doubt_t *rows);

#endif
