/* Looks at requests that come and are lost, for the tests of sched/trial.h. */
#ifndef TESTS_UNIT_SCHED_TRIAL_PLAY_H
#define TESTS_UNIT_SCHED_TRIAL_PLAY_H

#include "sched/trial.h"

#include <criterion/criterion.h>

#define LOOK_MS 100.0
#define MINUTE 60e3

typedef struct {
    trial_t trial;
    trial_model_t model;
    double ms[TRIAL_WAYS]; /* for how long each was the way in the last go_on_with() */
} state_t;

/* Lost by each way: nothing. */
extern const double none[TRIAL_WAYS];
/* All are held as it is planned, and bunches come. */
extern const trial_look_t held_bunches;

bool at_once(const state_t *state);

/* So long requests_rps come, of which such a part is lost by each way. */
void go_on_with(state_t *state, double ms, trial_look_t look, double requests_rps,
                const double lost[TRIAL_WAYS]);

#endif
