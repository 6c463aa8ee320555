#include "trial_play.h"

const double none[TRIAL_WAYS] = {0};
const trial_look_t held_bunches = {
    .holds = true, .bunched = true, .doubtful = true, .possible = true, .round_ms = 500};

bool at_once(const state_t *state)
{
    return state->trial.way == TRIAL_AT_ONCE;
}

void go_on_with(state_t *state, double ms, trial_look_t look, double requests_rps,
                const double lost[TRIAL_WAYS])
{
    trial_t *trial = &state->trial;
    double came = requests_rps * LOOK_MS / 1e3;

    look.ms = LOOK_MS;
    for (int way = 0; way < TRIAL_WAYS; way++)
        state->ms[way] = 0;
    for (double past = 0; past < ms; past += LOOK_MS) {
        trial_count(trial, &state->model, came, came * lost[trial->way], LOOK_MS);
        state->ms[trial_step(trial, &look)] += LOOK_MS;
    }
}
