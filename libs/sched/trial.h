/*
 * Whether starting at once loses more than holding does, found out by trying. For what nothing that is measured tells: requests that come
 * together again and again, and as many over any longer time, are those of cameras in step, most of which are lost if the first ones
 * take the GPUs; or of clients that were answered together, who come back together for as long as they are held, and one by one once they
 * have been taken apart.
 *
 * Each of the two is judged by what any model loses by it, after some time in which clients find their places. Where starting at once has
 * lost more the next trial waits for twice as long each time. Pure; zero it to start.
 */
#ifndef SCHED_TRIAL_H
#define SCHED_TRIAL_H

#include <stdbool.h>

typedef struct {
    bool at_once;         /* all start at once; else they are held */
    double ms;            /* it has been so for so long, and possible */
    double wait_ms;       /* is held for at least so long before it is tried; 0: none has failed lately */
    double undoubtful_ms; /* there has been nothing to find out for so long */
} trial_t;

/* Requests; decaying sums. */
typedef struct {
    double came, lost;
} trial_losses_t;

/* Of one model, of the last time of each. */
typedef struct {
    trial_losses_t held, at_once;
} trial_model_t;

/* Of one model so many came in the last `ms`, and so many were lost. Before trial_step(). */
void trial_count(const trial_t *trial, trial_model_t *model, double came, double lost, double ms);

/* Whether it surely loses more by starting at once than it did while it was held; and whether it loses some by that at all. */
bool trial_loses_more(const trial_model_t *model);
bool trial_loses(const trial_model_t *model);

/* The last interval. */
typedef struct {
    bool doubtful; /* bunches are held that may be of either kind */
    bool possible; /* all may start at once; else no trial runs, and what is lost says nothing */
    bool more;     /* a model loses more by that, */
    bool some;     /* or some */
    double ms;     /* its length */
} trial_look_t;

/* Returns whether all are to start at once in the next one. */
bool trial_step(trial_t *trial, const trial_look_t *look);

#endif
