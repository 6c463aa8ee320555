/* When starting at once is tried, and what comes of it. */
#include "sched/trial.h"

#include <criterion/criterion.h>

static const double LOOK_MS = 100, MINUTE = 60e3;

typedef struct {
    trial_t trial;
    trial_model_t model;
} state_t;

/* So long 100 requests/s come. Returns for how much of it all start at once, in ms. */
static double go_on(state_t *state, double ms, bool doubtful, bool possible, double lost_held,
                    double lost_at_once)
{
    trial_t *trial = &state->trial;
    double at_once_ms = 0;

    for (double past = 0; past < ms; past += LOOK_MS) {
        trial_count(trial, &state->model, 10, 10 * (trial->at_once ? lost_at_once : lost_held), LOOK_MS);
        const trial_look_t look = {.doubtful = doubtful && !trial->at_once,
                                   .possible = possible,
                                   .more = trial_loses_more(&state->model),
                                   .some = trial_loses(&state->model),
                                   .ms = LOOK_MS};
        at_once_ms += trial_step(trial, &look) ? LOOK_MS : 0;
    }
    return at_once_ms;
}

Test(trial, none_without_doubt)
{
    state_t state = {0};

    cr_expect_eq(go_on(&state, 10 * MINUTE, false, true, 0.1, 0), 0);
}

Test(trial, none_where_all_cannot_start_at_once)
{
    state_t state = {0};

    cr_expect_eq(go_on(&state, 10 * MINUTE, true, false, 0.1, 0), 0);
}

/* Those who have been taken apart leave no doubt. */
Test(trial, who_loses_nothing_by_it_starts_at_once_from_then_on)
{
    state_t state = {0};

    cr_expect_gt(go_on(&state, 10 * MINUTE, true, true, 0, 0), 10 * MINUTE - 5000);
    cr_expect(state.trial.at_once);
}

Test(trial, holding_is_looked_at_first)
{
    state_t state = {0};

    cr_expect_eq(go_on(&state, 2500, true, true, 0.5, 0), 0);
    cr_expect_gt(go_on(&state, 1000, true, true, 0.5, 0), 0);
}

/* Half of them, each time for less than four seconds. */
Test(trial, who_loses_by_it_is_left_alone_for_longer_each_time)
{
    state_t state = {0};
    double first_ms = go_on(&state, 4 * MINUTE, true, true, 0, 0.5);

    cr_expect(0 < first_ms && first_ms < 4000, "%.0f ms", first_ms);
    cr_expect_eq(go_on(&state, MINUTE, true, true, 0, 0.5), 0);
    double second_ms = go_on(&state, 10 * MINUTE, true, true, 0, 0.5);
    cr_expect_leq(second_ms, first_ms);
    cr_expect_gt(second_ms, 0);
    double more = go_on(&state, 600 * MINUTE, true, true, 0, 0.5) / first_ms;
    cr_expect(9 < more && more < 15, "%.0f, once an hour at last", more);
}

/* .4 % of what comes in ten seconds may be chance, 2 % is none. */
Test(trial, a_few_that_are_lost_by_chance_do_not_end_it)
{
    state_t state = {0};

    go_on(&state, 3100, true, true, 0, 0);
    go_on(&state, 12e3, true, true, 0, 0.004);
    cr_expect(state.trial.at_once);
    go_on(&state, 10e3, true, true, 0, 0.02);
    cr_expect_not(state.trial.at_once);
}

/* One that is asked ten thousand times a second, and one five times. Of both together .025 % are lost. */
Test(trial, one_model_that_loses_by_it_ends_it)
{
    state_t many = {0};
    trial_model_t few = {0};
    bool at_once = false;

    go_on(&many, 3100, true, true, 0, 0);
    cr_assert(many.trial.at_once);
    for (double past = 0; past < 10e3; past += LOOK_MS) {
        trial_count(&many.trial, &many.model, 1000, 0, LOOK_MS);
        trial_count(&many.trial, &few, 0.5, 0.25, LOOK_MS);
        const trial_look_t look = {.possible = true, .more = trial_loses_more(&few), .ms = LOOK_MS};
        cr_assert_not(trial_loses_more(&many.model));
        at_once = trial_step(&many.trial, &look);
    }
    cr_expect_not(at_once);
}

/* Clients lose some until they have found their places. */
Test(trial, what_is_lost_at_first_does_not_count)
{
    state_t state = {0};

    go_on(&state, 3100, true, true, 0, 0);
    cr_assert(state.trial.at_once);
    go_on(&state, 1900, true, true, 0, 0.5);
    go_on(&state, MINUTE, true, true, 0, 0);
    cr_expect(state.trial.at_once);
}

/* What holding loses as well is no reason to hold. */
Test(trial, who_loses_as_much_either_way_starts_at_once)
{
    state_t state = {0};

    cr_expect_gt(go_on(&state, 4 * MINUTE, true, true, 0.1, 0.1), 4 * MINUTE - 5000);
    cr_expect_lt(go_on(&(state_t){0}, 4 * MINUTE, true, true, 0.1, 0.3), 30e3);
}

/* Holding lost a tenth when it was last looked at. Others have come since, that lose nothing by it. */
Test(trial, holding_is_looked_at_again_where_some_are_lost)
{
    state_t state = {0};

    go_on(&state, 4 * MINUTE, true, true, 0.1, 0.05);
    cr_assert(state.trial.at_once);
    double at_once_ms = go_on(&state, 10 * MINUTE, true, true, 0, 0.05);
    cr_expect_lt(at_once_ms, 3 * MINUTE, "%.0f ms", at_once_ms);
    cr_expect_not(state.trial.at_once);
}

Test(trial, it_ends_where_all_cannot_start_at_once_any_more)
{
    state_t state = {0};

    go_on(&state, MINUTE, true, true, 0, 0);
    cr_assert(state.trial.at_once);
    cr_expect_eq(go_on(&state, MINUTE, true, false, 0, 0), 0);
    cr_expect_eq(go_on(&state, 3 * MINUTE, true, true, 0, 0), 0, "not from one moment to the next");
    cr_expect_gt(go_on(&state, 2 * MINUTE, true, true, 0, 0), 0);
}

/* No GPUs are there for a while, and all is lost. */
Test(trial, what_is_lost_where_nothing_is_possible_does_not_count)
{
    state_t state = {0};

    go_on(&state, 20e3, true, false, 1, 0);
    cr_expect_eq(go_on(&state, 2500, true, true, 0, 0.5), 0, "holding is looked at first");
    cr_expect_lt(go_on(&state, 4 * MINUTE, true, true, 0, 0.5), 4000);
}

/* Ten a second, one of fifty of which is lost; and as many as are lost when they are held, of which 300 are known. */
Test(trial, few_requests_are_remembered_for_longer)
{
    const trial_t trial = {.at_once = true, .ms = 10e3};
    trial_model_t some = {.held.came = 300}, as_many = {.held = {.came = 300, .lost = 6}};

    for (double past = 0; past < 5 * MINUTE; past += LOOK_MS) {
        trial_count(&trial, &some, 1, 0.02, LOOK_MS);
        trial_count(&trial, &as_many, 1, 0.025, LOOK_MS);
    }
    cr_expect(trial_loses(&some));
    cr_expect(trial_loses_more(&some));
    cr_expect(trial_loses(&as_many));
    cr_expect_not(trial_loses_more(&as_many));
}

/* A tenth was lost while they were held, of a hundred or of ten thousand; now it is 15 %. */
Test(trial, what_few_requests_say_of_holding_is_doubted)
{
    const trial_losses_t now = {.came = 1000, .lost = 150};
    const trial_model_t few = {.held = {.came = 100, .lost = 10}, .at_once = now},
                        many = {.held = {.came = 10000, .lost = 1000}, .at_once = now};

    cr_expect_not(trial_loses_more(&few));
    cr_expect(trial_loses_more(&many));
}

Test(trial, a_longer_wait_is_kept_where_nothing_is_possible)
{
    trial_t trial = {.at_once = true, .ms = 5000, .wait_ms = 40 * MINUTE};
    const trial_look_t look = {.possible = false, .ms = LOOK_MS};

    cr_expect_not(trial_step(&trial, &look));
    cr_expect_eq(trial.wait_ms, 40 * MINUTE);
}

Test(trial, others_are_tried_without_delay)
{
    state_t state = {0};

    go_on(&state, MINUTE, true, true, 0, 0.5);
    cr_assert_not(state.trial.at_once);
    go_on(&state, 50e3, false, true, 0, 0);
    cr_expect_eq(go_on(&state, 4000, true, true, 0, 0), 0, "they may be the same");
    go_on(&state, 61e3, false, true, 0, 0);
    cr_expect_gt(go_on(&state, 4000, true, true, 0, 0), 0);
}
