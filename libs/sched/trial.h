/*
 * Whether starting all at once, or holding all, is better than what is planned, found out by trying. For what nothing that is measured
 * tells: requests that come together again and again, and as many over any longer time, are those of cameras in step, most of which are
 * lost if the first ones take the GPUs; or of clients that were answered together, who come back together for as long as they are held,
 * and one by one once they have been taken apart.
 *
 *   PLANNED --- some are held, and nothing tells why they come together ---> AT ONCE: answers come sooner
 *   PLANNED <-- a model loses more than by what was planned ---------------- AT ONCE, or all of them cannot start at once any more
 *   PLANNED, AT ONCE --- a model loses more than it may -------------------> HELD
 *   PLANNED, AT ONCE <-- no fewer are lost; or now and then, to look ------- HELD; PLANNED where no bunches come any more
 *
 * What is lost counts after some rounds in which clients find their places; where all start at once some more may be for a while after that.
 * What was no better is tried again after twice as long each time.
 * Pure; zero it to start.
 */
#ifndef SCHED_TRIAL_H
#define SCHED_TRIAL_H

#include <stdbool.h>

typedef enum { TRIAL_PLANNED, TRIAL_AT_ONCE, TRIAL_HELD, TRIAL_WAYS } trial_way_t;

/* Requests; decaying sums. */
typedef struct {
    double came, lost;
} trial_losses_t;

/* Of one model, by each way, the last time that all started so. */
typedef struct {
    trial_losses_t by[TRIAL_WAYS];
} trial_model_t;

typedef struct {
    trial_way_t way;
    trial_way_t instead; /* HELD: of this */
    double ms;           /* it has been so for so long; and possible, but for AT_ONCE */
    /* A way is tried when it has been so long since it was no better, or ended for want of GPUs. 0: it has not lately. Not of PLANNED. */
    double wait_ms[TRIAL_WAYS], since_ms[TRIAL_WAYS];
    double hold_ms;       /* HELD goes on for so long, unless that is less than a while */
    double impossible_ms; /* it has not been possible for so long */
    double quiet_ms;      /* there has been nothing to find out for so long */
    double round_ms;      /* look.round_ms, as PLANNED showed it last; 0: it has not */
    bool holds;           /* look.holds, likewise */
    double past_ms;       /* since another way than PLANNED ended, if it is */
    bool tried;           /* there was one lately */
    bool better;          /* HELD: it is known to be */
    trial_model_t all;
    /* Of the interval that the next trial_step() ends. */
    trial_losses_t last;
    /* What a model surely loses by this way. */
    bool some;
    bool much; /* more than it may, and some of that just now */
    bool more; /* than by what was PLANNED */
} trial_t;

/* Of each model before trial_step(): so many came in the interval, and so many were lost. */
void trial_count(trial_t *trial, trial_model_t *model, double came, double lost, double ms);

/* The interval, whose length is `ms`. */
typedef struct {
    bool holds;      /* by what is planned some are held, */
    bool starts;     /* and some not as long as could be */
    bool bunched;    /* bunches come, and as many over any longer time, */
    bool doubtful;   /* which is sure */
    bool known;      /* they are clients that wait: all of them are there, or none */
    bool possible;   /* all may start at once; else no trial begins, or goes on for long */
    double round_ms; /* bunched: about how soon each comes again; see steady_found_t */
    double ms;
} trial_look_t;

/* How all start in the next one. */
trial_way_t trial_step(trial_t *trial, const trial_look_t *look);

/* Whether this is the first round since all start at once, in which clients come as they were answered before: together. If their batches
 * are small now they are taken apart for good, though what is left of each may be too late: that does not count yet. */
bool trial_takes_apart(const trial_t *trial);

/* What was lost in the last `ms` may be what a trial lost. */
bool trial_explains(const trial_t *trial, double ms);

#endif
