/* When another way of starting than what is planned is tried, and what comes of it. Of holding all: held.c. */
#include "trial_play.h"

/* So long 100 requests/s come that are held, and bunches only as long as they are. Returns for how much of it all start at once, in ms. */
static double go_on(state_t *state, double ms, bool doubtful, bool possible, double lost_held,
                    double lost_at_once)
{
    trial_t *trial = &state->trial;
    double at_once_ms = 0;

    for (double past = 0; past < ms; past += LOOK_MS) {
        bool bunches = doubtful && !at_once(state);
        trial_count(trial, &state->model, 10, 10 * (at_once(state) ? lost_at_once : lost_held), LOOK_MS);
        const trial_look_t look = {.holds = true,
                                   .bunched = bunches,
                                   .doubtful = bunches,
                                   .possible = possible,
                                   .round_ms = bunches ? 500 : 0,
                                   .ms = LOOK_MS};
        at_once_ms += trial_step(trial, &look) == TRIAL_AT_ONCE ? LOOK_MS : 0;
    }
    return at_once_ms;
}

/* Starting at once after holding that lost such a part. */
static state_t started_after(double lost_held)
{
    state_t state = {0};

    go_on(&state, 3100, true, true, lost_held, 0);
    cr_assert(at_once(&state));
    return state;
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
    cr_expect(at_once(&state));
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

/* .4 % of what comes in ten seconds, when all have found their places, may be chance; 2 % is none. */
Test(trial, a_few_that_are_lost_by_chance_do_not_end_it)
{
    state_t state = {0};

    go_on(&state, 3100, true, true, 0, 0);
    go_on(&state, 40e3, true, true, 0, 0.004);
    cr_expect(at_once(&state));
    go_on(&state, 10e3, true, true, 0, 0.02);
    cr_expect_not(at_once(&state));
}

Test(trial, so_few_that_nobody_minds_do_not_end_it)
{
    static const double lost[TRIAL_WAYS] = {[TRIAL_AT_ONCE] = 0.0015};
    state_t state = {0};

    go_on_with(&state, 4 * MINUTE, held_bunches, 100000, lost);
    cr_expect(at_once(&state));
}

/* One that is asked ten thousand times a second, and one five times. Of both together .025 % are lost. */
Test(trial, one_model_that_loses_by_it_ends_it)
{
    state_t many = {0};
    trial_model_t few = {0};
    const trial_look_t look = {.possible = true, .ms = LOOK_MS};

    go_on(&many, 3100, true, true, 0, 0);
    cr_assert(at_once(&many));
    for (double past = 0; past < 10e3; past += LOOK_MS) {
        trial_count(&many.trial, &many.model, 1000, 0, LOOK_MS);
        cr_assert_not(many.trial.more);
        trial_count(&many.trial, &few, 0.5, 0.25, LOOK_MS);
        trial_step(&many.trial, &look);
    }
    cr_expect_not(at_once(&many));
}

/* Clients lose some until they have found their places. */
Test(trial, what_is_lost_at_first_does_not_count)
{
    state_t state = {0};

    go_on(&state, 3100, true, true, 0, 0);
    cr_assert(at_once(&state));
    go_on(&state, 1900, true, true, 0, 0.5);
    go_on(&state, MINUTE, true, true, 0, 0);
    cr_expect(at_once(&state));
}

/* For up to sixty rounds. What they lost in those is forgotten. */
Test(trial, a_tenth_may_be_lost_by_those_who_find_their_places)
{
    state_t state = started_after(0);

    go_on(&state, 29.8e3, true, true, 0, 0.1);
    cr_expect(at_once(&state));
    go_on(&state, MINUTE, true, true, 0, 0);
    cr_expect(at_once(&state));
}

Test(trial, who_has_not_found_a_place_in_sixty_rounds_is_held_again)
{
    state_t state = started_after(0);
    double at_once_ms = go_on(&state, MINUTE, true, true, 0, 0.1);

    cr_expect(29e3 < at_once_ms && at_once_ms < 32e3, "%.0f ms", at_once_ms);
    cr_expect_not(at_once(&state));
}

/* All start at once after `held_ms`. Two thousand a second come, so that one look would tell. */
static void expect_forgotten(double round_ms, double held_ms, double finding_ms)
{
    static const double some[TRIAL_WAYS] = {[TRIAL_AT_ONCE] = 0.08};
    trial_look_t look = held_bunches;
    state_t state = {0};

    look.round_ms = round_ms;
    go_on_with(&state, held_ms, look, 2000, none);
    cr_assert(at_once(&state) && state.trial.ms == 0);
    go_on_with(&state, finding_ms, look, 2000, some);
    go_on_with(&state, MINUTE, look, 2000, none);
    cr_expect_eq(state.ms[TRIAL_AT_ONCE], MINUTE);
}

Test(trial, what_is_lost_to_the_last_moment_of_sixty_rounds_does_not_count)
{
    expect_forgotten(200, 3000, 12e3);
    expect_forgotten(500, 3000, 30e3);
    expect_forgotten(1000, 6000, 60e3);
}

/* A model loses a tenth either way; of all together next to nothing was lost as planned, so what they lost in sixty rounds is forgotten. */
Test(trial, all_are_held_only_after_a_look_at_who_has_found_a_place)
{
    static const double lost[TRIAL_WAYS] = {0.1, 0.1, 0.1};
    static const trial_losses_t tenth = {.came = 1000, .lost = 100};
    const trial_look_t bunched = {.bunched = true, .possible = true, .round_ms = 500};
    state_t state = {.trial = {.way = TRIAL_AT_ONCE, .ms = 29950, .round_ms = 500},
                     .model = {.by = {[TRIAL_PLANNED] = tenth, [TRIAL_AT_ONCE] = tenth}}};

    go_on_with(&state, 500, bunched, 1000, lost);
    cr_expect(at_once(&state));
    go_on_with(&state, 800, bunched, 1000, lost);
    cr_expect_eq(state.trial.way, TRIAL_HELD);
    cr_expect_gt(state.trial.all.by[TRIAL_AT_ONCE].came, 300);
}

/* No GPUs are there for a second, and all is lost, which says nothing. */
Test(trial, what_is_lost_for_want_of_gpus_does_not_end_it)
{
    state_t state = started_after(0);

    go_on(&state, MINUTE, true, true, 0, 0);
    state.trial.impossible_ms = LOOK_MS;
    go_on(&state, 1000, true, false, 1, 1);
    go_on(&state, MINUTE, true, true, 0, 0);
    cr_expect(at_once(&state));
}

/* Rounds of a second: what is lost counts after four, and a tenth may be in sixty. */
Test(trial, who_comes_again_later_has_as_many_rounds)
{
    static const double none_yet[TRIAL_WAYS] = {[TRIAL_AT_ONCE] = 0.5},
                        tenth[TRIAL_WAYS] = {[TRIAL_AT_ONCE] = 0.1};
    trial_look_t slow = held_bunches;
    state_t state = {0};

    slow.round_ms = 1000;
    go_on_with(&state, 5900, slow, 100, none);
    cr_expect_eq(state.ms[TRIAL_AT_ONCE], 0);
    go_on_with(&state, 200, slow, 100, none);
    cr_expect(at_once(&state));
    go_on_with(&state, 3800, slow, 100, none_yet);
    go_on_with(&state, 55.9e3, slow, 100, tenth);
    cr_expect(at_once(&state));
    go_on_with(&state, 4e3, slow, 100, tenth);
    cr_expect_not(at_once(&state));
}

static void expect_taken_apart(double round_ms, double held_ms, double apart_ms)
{
    trial_look_t look = held_bunches;
    state_t state = {0};

    look.round_ms = round_ms;
    go_on_with(&state, held_ms - LOOK_MS, look, 100, none);
    cr_expect_not(trial_takes_apart(&state.trial));
    go_on_with(&state, LOOK_MS, look, 100, none);
    cr_assert(at_once(&state));
    go_on_with(&state, apart_ms - LOOK_MS, look, 100, none);
    cr_expect(trial_takes_apart(&state.trial));
    go_on_with(&state, LOOK_MS, look, 100, none);
    cr_expect_not(trial_takes_apart(&state.trial));
    cr_expect(at_once(&state));
}

/* Those who come back together as they were held, each at least once. */
Test(trial, who_was_held_is_taken_apart_in_the_first_round)
{
    expect_taken_apart(200, 3000, 500);
    expect_taken_apart(500, 3000, 800);
    expect_taken_apart(1000, 6000, 1500);
}

Test(trial, nobody_is_taken_apart_when_all_are_held)
{
    state_t state = started_after(0);

    cr_assert(trial_takes_apart(&state.trial));
    state.trial.way = TRIAL_HELD;
    cr_expect_not(trial_takes_apart(&state.trial));
}

/* What comes meanwhile tells of those who were taken apart, not of their rounds. */
Test(trial, how_long_rounds_are_is_known_from_what_is_planned)
{
    trial_look_t slow = held_bunches, quick = held_bunches;
    state_t state = {0};

    slow.round_ms = 1000;
    quick.round_ms = 200;
    go_on_with(&state, 6100, slow, 100, none);
    cr_assert(at_once(&state));
    go_on_with(&state, 1000, quick, 100, none);
    cr_expect_eq(state.trial.round_ms, 1000);
}

Test(trial, more_than_a_tenth_is_too_much_for_places)
{
    state_t state = started_after(0);

    cr_expect_lt(go_on(&state, MINUTE, true, true, 0, 0.3), 5e3);
}

/* They are no clients that are held in vain. */
Test(trial, who_loses_by_holding_as_well_does_not_look_for_places)
{
    static const double lost[TRIAL_WAYS] = {[TRIAL_PLANNED] = 0.05, [TRIAL_AT_ONCE] = 0.12};
    state_t state = {0};

    go_on_with(&state, MINUTE, held_bunches, 2000, lost);
    cr_expect(0 < state.ms[TRIAL_AT_ONCE] && state.ms[TRIAL_AT_ONCE] < 5e3, "%.0f ms",
              state.ms[TRIAL_AT_ONCE]);
}

/* One of fifty, while they were held. */
Test(trial, who_lost_one_by_chance_may_look_for_a_place)
{
    state_t state = started_after(0);

    state.model.by[TRIAL_PLANNED] = (trial_losses_t){.came = 50, .lost = 1};
    go_on(&state, 29e3, true, true, 0, 0.1);
    cr_expect(at_once(&state));
}

/* Nobody looks for a place while all are held. */
Test(trial, what_is_lost_while_all_are_held_is_not_forgotten)
{
    trial_t trial = {.way = TRIAL_HELD, .ms = 29950, .round_ms = 500};
    trial_model_t model = {.by[TRIAL_HELD] = {.came = 1000, .lost = 5}};

    trial_count(&trial, &model, 10, 0, LOOK_MS);
    cr_expect_gt(model.by[TRIAL_HELD].lost, 4);
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
    cr_assert(at_once(&state));
    double at_once_ms = go_on(&state, 10 * MINUTE, true, true, 0, 0.05);
    cr_expect_lt(at_once_ms, 3 * MINUTE, "%.0f ms", at_once_ms);
    cr_expect_not(at_once(&state));
}

Test(trial, it_ends_where_all_cannot_start_at_once_any_more)
{
    state_t state = {0};

    go_on(&state, MINUTE, true, true, 0, 0);
    cr_assert(at_once(&state));
    cr_expect_lt(go_on(&state, MINUTE, true, false, 0, 0), 2500);
    cr_expect_eq(go_on(&state, 3 * MINUTE, true, true, 0, 0), 0, "not from one moment to the next");
    cr_expect_gt(go_on(&state, 2 * MINUTE, true, true, 0, 0), 0);
}

/* As many ask as make it possible and impossible in turns. */
Test(trial, it_goes_on_where_all_cannot_start_at_once_for_a_moment)
{
    state_t state = started_after(0);

    for (int i = 0; i < 100; i++) {
        go_on(&state, 1500, true, false, 0, 0);
        go_on(&state, LOOK_MS, true, true, 0, 0);
    }
    cr_expect(at_once(&state));
}

/* No GPUs are there for a while, and all is lost. */
Test(trial, what_is_lost_where_nothing_is_possible_does_not_count)
{
    state_t state = {0};

    go_on(&state, 20e3, true, false, 1, 0);
    cr_expect_eq(go_on(&state, 2500, true, true, 0, 0.5), 0, "holding is looked at first");
    cr_expect_lt(go_on(&state, 4 * MINUTE, true, true, 0, 0.5), 4000);
}

/* Ten a second, one of fifty of which is lost; and as many as were lost as planned, of which 300 are known. */
Test(trial, few_requests_are_remembered_for_longer)
{
    const trial_t tried = {.way = TRIAL_AT_ONCE, .ms = 10e3};
    trial_t few = tried, same = tried;
    trial_model_t some = {.by[TRIAL_PLANNED] = {.came = 300}},
                  as_many = {.by[TRIAL_PLANNED] = {.came = 300, .lost = 6}};

    for (double past = 0; past < 5 * MINUTE; past += LOOK_MS) {
        few.some = few.more = same.some = same.more = false;
        trial_count(&few, &some, 1, 0.02, LOOK_MS);
        trial_count(&same, &as_many, 1, 0.025, LOOK_MS);
    }
    cr_expect(few.some);
    cr_expect(few.more);
    cr_expect(same.some);
    cr_expect_not(same.more);
}

/* A tenth was lost as planned, of a hundred or of ten thousand; now it is 15 %. */
Test(trial, what_few_requests_say_of_what_is_planned_is_doubted)
{
    const trial_losses_t now = {.came = 1000, .lost = 150};
    trial_model_t few = {.by = {[TRIAL_PLANNED] = {.came = 100, .lost = 10}, [TRIAL_AT_ONCE] = now}},
                  many = {.by = {[TRIAL_PLANNED] = {.came = 10000, .lost = 1000}, [TRIAL_AT_ONCE] = now}};
    trial_t trial = {.way = TRIAL_AT_ONCE, .ms = 10e3};

    trial_count(&trial, &few, 0, 0, 0);
    cr_expect_not(trial.more);
    trial_count(&trial, &many, 0, 0, 0);
    cr_expect(trial.more);
}

Test(trial, a_longer_wait_is_kept_where_nothing_is_possible)
{
    trial_t trial = {
        .way = TRIAL_AT_ONCE, .ms = 5000, .impossible_ms = 2000, .wait_ms[TRIAL_AT_ONCE] = 40 * MINUTE};
    const trial_look_t look = {.possible = false, .ms = LOOK_MS};

    cr_expect_eq(trial_step(&trial, &look), TRIAL_PLANNED);
    cr_expect_eq(trial.wait_ms[TRIAL_AT_ONCE], 40 * MINUTE);
}

Test(trial, others_are_tried_without_delay)
{
    state_t state = {0};

    go_on(&state, MINUTE, true, true, 0, 0.5);
    cr_assert_not(at_once(&state));
    go_on(&state, 50e3, false, true, 0, 0);
    cr_expect_eq(go_on(&state, 4000, true, true, 0, 0), 0, "they may be the same");
    go_on(&state, 61e3, false, true, 0, 0);
    cr_expect_gt(go_on(&state, 4000, true, true, 0, 0), 0);
}
