/* When all are held though that is not what is planned, and what comes of it: sched/trial.h. */
#include "trial_play.h"

/* All start at once as it is planned; some are held, too; or no bunches come. */
static const trial_look_t started = {.starts = true,
                                     .bunched = true,
                                     .doubtful = true,
                                     .possible = true,
                                     .round_ms = 200},
                          partly = {.holds = true,
                                    .starts = true,
                                    .bunched = true,
                                    .doubtful = true,
                                    .possible = true,
                                    .round_ms = 500},
                          single = {.starts = true, .possible = true};
static const double held_better[TRIAL_WAYS] = {[TRIAL_PLANNED] = 0.2, [TRIAL_HELD] = 0.01},
                    held_worse[TRIAL_WAYS] = {[TRIAL_PLANNED] = 0.2, [TRIAL_HELD] = 0.3};

Test(held, who_loses_too_many_is_held_where_that_loses_fewer)
{
    state_t state = {0};

    go_on_with(&state, 4 * MINUTE, started, 100, held_better);
    cr_expect_gt(state.ms[TRIAL_HELD], 4 * MINUTE - 5000);
    cr_expect_eq(state.trial.way, TRIAL_HELD);
}

/* Looks at which no bunches come say nothing of it, though fifths of a second alone may show some. */
Test(held, how_long_rounds_are_is_forgotten_with_those_who_came)
{
    trial_look_t slow = partly, few = single;
    state_t state = {0};

    slow.round_ms = 1000;
    few.round_ms = 200;
    go_on_with(&state, 2000, slow, 100, none);
    go_on_with(&state, 2000, few, 100, none);
    cr_expect_eq(state.trial.round_ms, 1000);
    go_on_with(&state, MINUTE, few, 100, none);
    cr_expect_eq(state.trial.round_ms, 0);
}

/* Nobody is held as it is planned, so they may be clients that look for their places for twenty rounds. */
Test(held, who_is_not_held_may_look_for_a_place_first)
{
    static const struct {
        double round_ms, from_ms;
    } cases[] = {{200, 4400}, {500, 11e3}, {1000, 22e3}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        trial_look_t look = started;
        state_t state = {0};

        look.round_ms = cases[i].round_ms;
        go_on_with(&state, cases[i].from_ms - LOOK_MS, look, 1000, held_better);
        cr_expect_eq(state.ms[TRIAL_HELD], 0, "rounds of %.0f ms", look.round_ms);
        go_on_with(&state, 2 * LOOK_MS, look, 1000, held_better);
        cr_expect_gt(state.ms[TRIAL_HELD], 0, "rounds of %.0f ms", look.round_ms);
    }
}

/* Clients that have found them, but for .5 % lost, no more than a model may. */
Test(held, what_is_lost_by_those_who_look_for_a_place_is_no_reason_to_hold)
{
    static const double most[TRIAL_WAYS] = {0.3}, hardly[TRIAL_WAYS] = {0.005};
    static const double rounds_ms[] = {200, 500, 1000};
    for (int i = 0; i < 3; i++) {
        trial_look_t look = started;
        state_t state = {0};

        look.round_ms = rounds_ms[i];
        go_on_with(&state, 12 * look.round_ms, look, 1000, most);
        go_on_with(&state, MINUTE, look, 1000, hardly);
        cr_expect_eq(state.ms[TRIAL_HELD], 0, "rounds of %.0f ms", look.round_ms);
    }
}

/* Whether it is better is sure after as many rounds as clients need to find their places; what was lost at first is in it. */
Test(held, holding_of_those_who_come_again_later_is_looked_at_for_as_many_rounds)
{
    static const double much[TRIAL_WAYS] = {[TRIAL_PLANNED] = 0.2, [TRIAL_HELD] = 0.19};
    static const struct {
        double round_ms, least_ms, most_ms;
    } cases[] = {{500, 9900, 10100}, {1000, 19900, 20100}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        trial_look_t look = started;
        state_t state = {0};

        look.round_ms = cases[i].round_ms;
        go_on_with(&state, 60e3, look, 100, much);
        cr_expect(cases[i].least_ms <= state.ms[TRIAL_HELD] && state.ms[TRIAL_HELD] <= cases[i].most_ms,
                  "rounds of %.0f ms: %.0f ms", look.round_ms, state.ms[TRIAL_HELD]);
        cr_expect_not(state.trial.better);
    }
}

/* After starting at once was no better, in rounds of a second: twenty of them, not ten. */
Test(held, what_is_planned_has_as_many_rounds_before_all_are_held)
{
    static const double lost[TRIAL_WAYS] = {0.2, 0.5, 0.01};
    trial_look_t slow = partly;
    state_t state = {0};

    slow.round_ms = 1000;
    while (state.trial.wait_ms[TRIAL_AT_ONCE] == 0)
        go_on_with(&state, LOOK_MS, slow, 100, lost);
    cr_assert_eq(state.trial.way, TRIAL_PLANNED);
    go_on_with(&state, 19.8e3, slow, 100, lost);
    cr_expect_eq(state.trial.way, TRIAL_PLANNED);
    go_on_with(&state, 400, slow, 100, lost);
    cr_expect_eq(state.trial.way, TRIAL_HELD);
}

/* .8 % is no more than a model may lose; 3 % is. */
Test(held, who_loses_no_more_than_may_be_is_not_held)
{
    static const double few[TRIAL_WAYS] = {[TRIAL_PLANNED] = 0.008},
                        some[TRIAL_WAYS] = {[TRIAL_PLANNED] = 0.03};
    state_t state = {0};

    go_on_with(&state, 10 * MINUTE, started, 1000, few);
    cr_expect_eq(state.ms[TRIAL_HELD], 0);
    go_on_with(&state, MINUTE, started, 1000, some);
    cr_expect_gt(state.ms[TRIAL_HELD], 0);
}

Test(held, nobody_is_held_who_does_not_come_in_bunches_or_is_already)
{
    trial_look_t held = started, impossible = started, known = started;
    state_t state = {0};

    known.known = true;
    held.starts = false;
    impossible.possible = false;
    go_on_with(&state, MINUTE, single, 100, held_better);
    cr_expect_eq(state.ms[TRIAL_HELD], 0);
    go_on_with(&state, MINUTE, held, 100, held_better);
    cr_expect_eq(state.ms[TRIAL_HELD], 0);
    go_on_with(&state, MINUTE, impossible, 100, held_better);
    cr_expect_eq(state.ms[TRIAL_HELD], 0);
    go_on_with(&state, MINUTE, known, 100, held_better);
    cr_expect_eq(state.ms[TRIAL_HELD], 0);
    known.holds = true;
    go_on_with(&state, MINUTE, known, 100, held_better);
    cr_expect_eq(state.ms[TRIAL_PLANNED], MINUTE);
}

/* Held, cameras come as a whole, as clients do that wait. */
Test(held, who_is_held_goes_on_to_be_though_all_are_there)
{
    trial_look_t known = started;
    state_t state = {0};

    go_on_with(&state, 10e3, started, 100, held_better);
    known.known = true;
    go_on_with(&state, 4 * MINUTE, known, 100, held_better);
    cr_expect_eq(state.ms[TRIAL_HELD], 4 * MINUTE);
}

/* Three seconds of each five minutes, then of ten, … */
Test(held, holding_that_loses_more_is_tried_more_and_more_seldom)
{
    state_t state = {0};

    go_on_with(&state, 4 * MINUTE, started, 100, held_worse);
    double first_ms = state.ms[TRIAL_HELD];
    cr_expect(0 < first_ms && first_ms < 4000, "%.0f ms", first_ms);
    go_on_with(&state, 600 * MINUTE, started, 100, held_worse);
    double more = state.ms[TRIAL_HELD] / first_ms;
    cr_expect(9 < more && more < 15, "%.0f", more);
}

/* 5 % or 19 % for 20 %, of 40 a second: one second says little, and ten seconds enough. */
Test(held, holding_that_seems_to_lose_fewer_is_looked_at_for_longer)
{
    static const double fewer[TRIAL_WAYS] = {[TRIAL_PLANNED] = 0.2, [TRIAL_HELD] = 0.05},
                        as_many[TRIAL_WAYS] = {[TRIAL_PLANNED] = 0.2, [TRIAL_HELD] = 0.19};
    state_t state = {0}, other = {0};

    go_on_with(&state, 31e3, started, 40, fewer);
    cr_expect_gt(state.ms[TRIAL_HELD], 25e3);
    go_on_with(&other, MINUTE, started, 40, as_many);
    cr_expect(9000 < other.ms[TRIAL_HELD] && other.ms[TRIAL_HELD] < 11e3, "%.0f ms", other.ms[TRIAL_HELD]);
}

/* A tenth in the mean, all of it in two of ten seconds, for a quarter as planned. */
Test(held, what_holding_loses_in_lumps_is_taken_together)
{
    static const double lump[TRIAL_WAYS] = {[TRIAL_PLANNED] = 0.25, [TRIAL_HELD] = 0.5},
                        between[TRIAL_WAYS] = {[TRIAL_PLANNED] = 0.25};
    state_t state = {0};

    go_on_with(&state, 20e3, started, 100, held_better);
    for (double past = 0; past < 3 * MINUTE; past += 10e3) {
        go_on_with(&state, 2e3, started, 100, lump);
        go_on_with(&state, 8e3, started, 100, between);
        cr_expect_eq(state.trial.way, TRIAL_HELD);
    }
}

/* As planned a fifth is lost while it is looked at: for less than five seconds each time, 5, 10, 20, … minutes apart. */
Test(held, what_holding_is_better_than_is_looked_at_again_now_and_then)
{
    state_t state = {0};

    go_on_with(&state, 600 * MINUTE, started, 100, held_better);
    double times = state.ms[TRIAL_PLANNED] / 4700;
    cr_expect(9 < times && times < 16, "%.0f", times);
    go_on_with(&state, 61 * MINUTE, started, 100, none);
    cr_expect_eq(state.trial.way, TRIAL_PLANNED, "none are lost any more");
}

/* Where some are held already all are started at once first, as that answers sooner; and held where that loses too many. */
Test(held, all_are_held_when_starting_them_at_once_is_no_better)
{
    static const double lost[TRIAL_WAYS] = {[TRIAL_PLANNED] = 0.2, [TRIAL_AT_ONCE] = 0.5};
    state_t state = {0};

    go_on_with(&state, 3000, partly, 100, lost);
    cr_expect_eq(state.trial.way, TRIAL_AT_ONCE);
    go_on_with(&state, 20e3, partly, 100, lost);
    cr_expect_eq(state.trial.way, TRIAL_HELD);
}

/* Where starting at once loses as many as what was planned, and that is more than who finds a place loses, eleven seconds later. */
Test(held, who_is_started_at_once_is_held_where_that_loses_fewer)
{
    static const double lost[TRIAL_WAYS] = {[TRIAL_PLANNED] = 0.2, [TRIAL_AT_ONCE] = 0.2};
    state_t state = {0};

    go_on_with(&state, 12e3, partly, 100, lost);
    cr_expect_eq(state.trial.way, TRIAL_AT_ONCE);
    trial_look_t known = partly;
    known.known = true;
    go_on_with(&state, 20e3, known, 100, lost);
    cr_expect_eq(state.trial.way, TRIAL_AT_ONCE, "they are clients");
    go_on_with(&state, 20e3, single, 100, lost);
    cr_expect_eq(state.trial.way, TRIAL_AT_ONCE, "they do not come in bunches");
    go_on_with(&state, 20e3, partly, 100, lost);
    cr_expect_eq(state.trial.way, TRIAL_HELD);
}

/* A twentieth may be lost by clients that look for their places. */
Test(held, who_loses_some_by_starting_at_once_is_held_when_places_have_been_found)
{
    static const double lost[TRIAL_WAYS] = {[TRIAL_PLANNED] = 0.05, [TRIAL_AT_ONCE] = 0.05};
    state_t state = {0};

    go_on_with(&state, 33e3, partly, 1000, lost);
    cr_expect(at_once(&state));
    cr_expect_eq(state.ms[TRIAL_HELD], 0);
    go_on_with(&state, 2e3, partly, 1000, lost);
    cr_expect_eq(state.trial.way, TRIAL_HELD);
}

/* Of the first rounds nothing counts, though half is lost, as it was by what was planned. */
Test(held, what_is_lost_before_the_first_have_found_a_place_does_not_hold_all)
{
    static const double half[TRIAL_WAYS] = {0.5, 0.5, 0.5},
                        some[TRIAL_WAYS] = {[TRIAL_PLANNED] = 0.5, [TRIAL_AT_ONCE] = 0.05};
    state_t state = {0};

    go_on_with(&state, 12.9e3, partly, 100, half);
    cr_expect(at_once(&state));
    go_on_with(&state, 10e3, partly, 100, some);
    cr_expect_eq(state.ms[TRIAL_AT_ONCE], 10e3);
}

/* Holding loses as many. */
Test(held, who_is_started_at_once_is_again_where_holding_is_no_better)
{
    static const double lost[TRIAL_WAYS] = {[TRIAL_PLANNED] = 0.2, [TRIAL_AT_ONCE] = 0.2, [TRIAL_HELD] = 0.2};
    state_t state = {0};

    go_on_with(&state, 4 * MINUTE, partly, 100, lost);
    cr_expect_gt(state.ms[TRIAL_HELD], 0);
    cr_expect_leq(state.ms[TRIAL_PLANNED], 3000);
    cr_expect(at_once(&state));
}

/* They may be clients, of whom there is not enough known yet. */
Test(held, nobody_is_held_before_starting_at_once_was_no_better)
{
    trial_look_t unsure = partly;
    state_t state = {0};

    unsure.doubtful = false;
    go_on_with(&state, 59e3, unsure, 100, held_better);
    cr_expect_eq(state.ms[TRIAL_HELD], 0);
    go_on_with(&state, MINUTE, unsure, 100, held_better);
    cr_expect_gt(state.ms[TRIAL_HELD], 55e3, "it is not to be");
}

Test(held, others_are_held_without_delay)
{
    state_t state = {0};

    go_on_with(&state, MINUTE, started, 100, held_worse);
    go_on_with(&state, 50e3, started, 100, none);
    go_on_with(&state, 4000, started, 100, held_better);
    cr_expect_eq(state.ms[TRIAL_HELD], 0, "they may be the same");
    go_on_with(&state, 150e3, started, 100, none); /* what was lost before is remembered for a while */
    go_on_with(&state, 30e3, started, 100, held_better);
    cr_expect_gt(state.ms[TRIAL_HELD], 0);
}

/* One model in eleven loses more when it is held, and the others fewer. */
Test(held, holding_is_for_all_together)
{
    state_t state = {0};
    trial_model_t few = {0};
    trial_look_t look = started;

    look.ms = LOOK_MS;
    for (double past = 0; past < MINUTE; past += LOOK_MS) {
        bool held = state.trial.way == TRIAL_HELD;
        trial_count(&state.trial, &state.model, 10, held ? 0 : 2, LOOK_MS);
        trial_count(&state.trial, &few, 1, held ? 1 : 0.5, LOOK_MS);
        trial_step(&state.trial, &look);
    }
    cr_expect_eq(state.trial.way, TRIAL_HELD);
}

/* After hours, of which it has been kept for up to one at a time. */
static state_t held_for_long(void)
{
    state_t state = {0};
    go_on_with(&state, 240 * MINUTE, started, 100, held_better);
    while (state.trial.way != TRIAL_HELD)
        go_on_with(&state, LOOK_MS, started, 100, held_better);
    go_on_with(&state, MINUTE, started, 100, held_better);
    cr_assert_eq(state.trial.way, TRIAL_HELD);
    return state;
}

/* Or goes on to be, if it was for a moment. */
Test(held, who_was_held_is_again_after_an_outage)
{
    state_t state = held_for_long();
    trial_look_t impossible = started;

    impossible.possible = false;
    for (int i = 0; i < 10; i++) {
        go_on_with(&state, LOOK_MS, impossible, 100, (const double[TRIAL_WAYS]){1, 1, 1});
        go_on_with(&state, 5e3, started, 100, held_better);
        cr_expect_eq(state.ms[TRIAL_HELD], 5e3);
    }
    go_on_with(&state, 15e3, impossible, 100, held_better);
    cr_expect_eq(state.trial.way, TRIAL_PLANNED);
    go_on_with(&state, MINUTE, started, 100, held_better);
    cr_expect_gt(state.ms[TRIAL_HELD], MINUTE - 5000);
}

/* One of fifty requests is of the model that loses some. */
Test(held, a_model_that_is_seldom_asked_is_held_too)
{
    state_t state = {0};
    trial_model_t few = {0};
    trial_look_t look = started;

    look.ms = LOOK_MS;
    for (double past = 0; past < MINUTE; past += LOOK_MS) {
        trial_count(&state.trial, &state.model, 100, 0, LOOK_MS);
        trial_count(&state.trial, &few, 2, state.trial.way == TRIAL_HELD ? 0 : 0.5, LOOK_MS);
        trial_step(&state.trial, &look);
    }
    cr_expect_eq(state.trial.way, TRIAL_HELD);
}

/* More come: three times as many are lost as planned, and a quarter when they are held, where it had been a fifth as planned. */
Test(held, what_holding_is_compared_with_is_looked_at_anew)
{
    static const double more[TRIAL_WAYS] = {[TRIAL_PLANNED] = 0.6, [TRIAL_HELD] = 0.25};
    state_t state = held_for_long();

    go_on_with(&state, 5 * MINUTE, started, 100, more);
    cr_expect_gt(state.ms[TRIAL_PLANNED], 0);
    cr_expect_gt(state.ms[TRIAL_HELD], 5 * MINUTE - 5000);
}

Test(held, who_comes_in_bunches_no_more_is_held_no_more)
{
    state_t state = held_for_long();

    go_on_with(&state, 2 * MINUTE, single, 100, none);
    cr_expect_eq(state.trial.way, TRIAL_PLANNED);
    cr_expect_leq(state.ms[TRIAL_HELD], 61e3);
    cr_expect_not(trial_explains(&state.trial, 10 * MINUTE), "those were others");
    go_on_with(&state, 4 * MINUTE, started, 100, held_better);
    cr_assert_eq(state.trial.way, TRIAL_HELD);
    go_on_with(&state, 3 * MINUTE, started, 100, held_better);
    cr_expect_gt(state.ms[TRIAL_PLANNED], 0, "so these are held for 5 minutes first");
}

Test(held, what_was_better_once_is_tried_as_seldom_as_else)
{
    state_t state = held_for_long();

    go_on_with(&state, 120 * MINUTE, started, 100, held_worse);
    cr_expect_lt(state.ms[TRIAL_HELD], MINUTE, "for %.0f s", state.ms[TRIAL_HELD] / 1e3);
}

/* Of five minutes they are known to be clients in four, and they lose half when they are started at once. */
Test(held, who_is_known_now_and_then_is_not_taken_for_others)
{
    static const double lost[TRIAL_WAYS] = {[TRIAL_AT_ONCE] = 0.5};
    trial_look_t held = held_bunches, known = held_bunches;
    state_t state = {0};
    double at_once_ms = 0;

    known.known = true;
    for (int i = 0; i < 24; i++) {
        go_on_with(&state, 4 * MINUTE, known, 100, lost);
        at_once_ms += state.ms[TRIAL_AT_ONCE];
        go_on_with(&state, MINUTE, held, 100, lost);
        at_once_ms += state.ms[TRIAL_AT_ONCE];
    }
    cr_expect_lt(at_once_ms, 8 * 3500, "%.0f ms in two hours", at_once_ms);
}

/* It had failed for hours before. */
Test(held, who_is_held_now_is_again_after_each_look)
{
    state_t state = {0};

    go_on_with(&state, 240 * MINUTE, started, 100, held_worse);
    go_on_with(&state, 62 * MINUTE, started, 100, held_better);
    cr_assert_gt(state.ms[TRIAL_HELD], 0);
    go_on_with(&state, 60 * MINUTE, started, 100, held_better);
    cr_expect_gt(state.ms[TRIAL_HELD], 59 * MINUTE);
    go_on_with(&state, 2 * MINUTE, started, 100, held_worse);
    cr_expect_eq(state.trial.wait_ms[TRIAL_HELD], 5 * MINUTE, "as if it had never failed");
}

/* It may be that no longer: then it is tried again at once, however often it has failed before. */
Test(held, who_starts_at_once_and_loses_some_is_looked_at_as_planned)
{
    trial_t trial = {
        .way = TRIAL_AT_ONCE, .ms = 6 * MINUTE, .wait_ms[TRIAL_AT_ONCE] = 40 * MINUTE, .some = true};
    const trial_look_t held = {
        .holds = true, .bunched = true, .doubtful = true, .possible = true, .round_ms = 500, .ms = LOOK_MS};

    cr_expect_eq(trial_step(&trial, &held), TRIAL_PLANNED);
    for (double past = 0; past < 2900; past += LOOK_MS)
        cr_expect_eq(trial_step(&trial, &held), TRIAL_PLANNED);
    cr_expect_eq(trial_step(&trial, &held), TRIAL_AT_ONCE);
}

/* Nothing was better for half a day; now holding is. It is tried an hour later, whatever else is tried meanwhile. */
static void expect_held_in_the_end(double lost_at_once)
{
    const double vain[TRIAL_WAYS] = {0.2, lost_at_once, 0.5}, now[TRIAL_WAYS] = {0.2, lost_at_once, 0};
    state_t state = {0};

    go_on_with(&state, 720 * MINUTE, partly, 100, vain);
    go_on_with(&state, 125 * MINUTE, partly, 100, now);
    cr_expect_gt(state.ms[TRIAL_HELD], 5 * MINUTE, "held for %.0f s", state.ms[TRIAL_HELD] / 1e3);
}

Test(held, holding_has_its_turn_where_starting_at_once_is_as_good_as_what_is_planned)
{
    expect_held_in_the_end(0.2);
}

Test(held, holding_has_its_turn_where_starting_at_once_is_worse)
{
    expect_held_in_the_end(0.5);
}

/* Few are remembered for minutes: before bunches came half of them were lost for a while, and none is now. */
Test(held, what_was_lost_before_is_no_reason_to_hold)
{
    static const double half[TRIAL_WAYS] = {[TRIAL_PLANNED] = 0.5};
    state_t state = {0};

    go_on_with(&state, 15e3, single, 10, half);
    go_on_with(&state, MINUTE, started, 10, none);
    cr_expect_eq(state.ms[TRIAL_HELD], 0);
}

Test(held, what_a_trial_lost_is_known_to_be_its)
{
    state_t state = {0};

    cr_expect_not(trial_explains(&state.trial, 10e3));
    go_on_with(&state, 5000, started, 100, held_worse);
    cr_expect(trial_explains(&state.trial, 10e3), "it is tried");
    go_on_with(&state, 6000, started, 100, held_worse);
    cr_assert_eq(state.trial.way, TRIAL_PLANNED);
    cr_expect(trial_explains(&state.trial, 10e3), "it was");
    go_on_with(&state, 20e3, started, 100, held_worse);
    cr_expect_not(trial_explains(&state.trial, 10e3));
    state = held_for_long();
    cr_expect(trial_explains(&state.trial, 10e3), "it goes on");
    while (state.trial.way == TRIAL_HELD)
        go_on_with(&state, LOOK_MS, started, 100, held_better);
    cr_expect(trial_explains(&state.trial, 10e3), "it was better, and did not fail");
    trial_look_t impossible = started;
    impossible.possible = false;
    go_on_with(&state, 12e3, impossible, 100, held_better);
    cr_expect_not(trial_explains(&state.trial, 10e3));
}
