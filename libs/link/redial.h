/* When a dialling end within a process tries again: after growing pauses of 20 ms to a second. On the loop of that end. */
#ifndef LINK_REDIAL_H
#define LINK_REDIAL_H

#include "link/link_private.h"
#include "loop/timer.h"

typedef struct {
    loop_timer_t again;
    int64_t pause_ns, opened_ns; /* opened_ns: of the last link; 0: it did not open */
    const link_kind_t *kind;
    bool (*attempt)(void *dial); /* false: nobody accepts */
    void *dial;
    void (*on_closed)(void *arg); /* it is being closed */
    void *on_closed_arg;
} redial_t;

/* The first attempt comes in the next turn of the loop. */
status_t redial_start(redial_t *redial, loop_t *loop, err_t *err);
void redial_opened(redial_t *redial);
/* Its link has ended, or never opened: tells of it and tries again, or has closed. */
void redial_ended(redial_t *redial);
/* under_way: there is a link still; redial_ended is to come. */
void redial_close(redial_t *redial, bool under_way, void (*on_closed)(void *arg), void *arg);

#endif
