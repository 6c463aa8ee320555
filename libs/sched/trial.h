/*
 * Whether starting at once loses more than holding does, found out by trying. For what nothing that is measured tells: requests that come
 * together again and again, and as many over any longer time, are those of cameras in step, most of which are lost if the first ones
 * take the GPUs; or of clients that were answered together, who come back together for as long as they are held, and one by one once they
 * have been taken apart.
 *
 * Each of the two is judged by what is lost by it, after some time in which clients find their places. Where starting at once has lost more
 * it is not tried again for longer each time. Pure; zero it to start.
 */
#ifndef SCHED_TRIAL_H
#define SCHED_TRIAL_H

#include <stdbool.h>

/* Requests; decaying sums. */
typedef struct {
    double came, lost;
} trial_losses_t;

typedef struct {
    bool at_once;         /* all start at once; else they are held */
    double ms;            /* it has been so for so long */
    double wait_ms;       /* is held for at least so long before it is tried */
    double undoubtful_ms; /* there has been nothing to find out for so long */
    trial_losses_t held, early;
} trial_t;

/* The last interval. */
typedef struct {
    bool doubtful;     /* bunches are held that may be of either kind */
    bool possible;     /* all may start at once; else no trial runs */
    double came, lost; /* requests */
    double ms;         /* its length */
} trial_look_t;

/* Returns whether all are to start at once in the next one. */
bool trial_step(trial_t *trial, const trial_look_t *look);

#endif
