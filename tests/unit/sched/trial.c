/* When starting at once is tried, and what comes of it. */
#include "sched/trial.h"

#include <criterion/criterion.h>

static const double LOOK_MS = 100, MINUTE = 60e3;

/* So long 100 requests/s come. Returns for how much of it all start at once, in ms. */
static double go_on(trial_t *trial, double ms, bool doubtful, bool possible, double lost_held,
                    double lost_at_once)
{
    double at_once_ms = 0;

    for (double past = 0; past < ms; past += LOOK_MS) {
        const trial_look_t look = {.doubtful = doubtful && !trial->at_once,
                                   .possible = possible,
                                   .came = 10,
                                   .lost = 10 * (trial->at_once ? lost_at_once : lost_held),
                                   .ms = LOOK_MS};
        at_once_ms += trial_step(trial, &look) ? LOOK_MS : 0;
    }
    return at_once_ms;
}

Test(trial, none_without_doubt)
{
    trial_t trial = {0};

    cr_expect_eq(go_on(&trial, 10 * MINUTE, false, true, 0.1, 0), 0);
}

Test(trial, none_where_all_cannot_start_at_once)
{
    trial_t trial = {0};

    cr_expect_eq(go_on(&trial, 10 * MINUTE, true, false, 0.1, 0), 0);
}

/* Those who have been taken apart leave no doubt. */
Test(trial, who_loses_nothing_by_it_starts_at_once_from_then_on)
{
    trial_t trial = {0};

    cr_expect_gt(go_on(&trial, 10 * MINUTE, true, true, 0, 0), 10 * MINUTE - 5000);
    cr_expect(trial.at_once);
}

Test(trial, holding_is_looked_at_first)
{
    trial_t trial = {0};

    cr_expect_eq(go_on(&trial, 2500, true, true, 0.5, 0), 0);
    cr_expect_gt(go_on(&trial, 1000, true, true, 0.5, 0), 0);
}

/* Half of them, each time for less than four seconds. */
Test(trial, who_loses_by_it_is_left_alone_for_longer_each_time)
{
    trial_t trial = {0};
    double first_ms = go_on(&trial, 4 * MINUTE, true, true, 0, 0.5);

    cr_expect(0 < first_ms && first_ms < 4000, "%.0f ms", first_ms);
    cr_expect_eq(go_on(&trial, MINUTE, true, true, 0, 0.5), 0);
    double second_ms = go_on(&trial, 10 * MINUTE, true, true, 0, 0.5);
    cr_expect_leq(second_ms, first_ms);
    cr_expect_gt(second_ms, 0);
    double more = go_on(&trial, 600 * MINUTE, true, true, 0, 0.5) / first_ms;
    cr_expect(9 < more && more < 15, "%.0f, once an hour at last", more);
}

/* .4 % of what comes in some ten seconds may be chance, 2 % is none. */
Test(trial, a_few_that_are_lost_by_chance_do_not_end_it)
{
    trial_t trial = {0};

    go_on(&trial, 3100, true, true, 0, 0);
    go_on(&trial, 12e3, true, true, 0, 0.004);
    cr_expect(trial.at_once);
    go_on(&trial, 5e3, true, true, 0, 0.02);
    cr_expect_not(trial.at_once);
}

/* Clients lose some until they have found their places. */
Test(trial, what_is_lost_at_first_does_not_count)
{
    trial_t trial = {0};

    go_on(&trial, 3100, true, true, 0, 0);
    cr_assert(trial.at_once);
    go_on(&trial, 1900, true, true, 0, 0.5);
    go_on(&trial, MINUTE, true, true, 0, 0);
    cr_expect(trial.at_once);
}

/* What holding loses as well is no reason to hold. */
Test(trial, who_loses_as_much_either_way_starts_at_once)
{
    trial_t trial = {0};

    cr_expect_gt(go_on(&trial, 4 * MINUTE, true, true, 0.1, 0.1), 4 * MINUTE - 5000);
    cr_expect_lt(go_on(&(trial_t){0}, 4 * MINUTE, true, true, 0.1, 0.13), 30e3);
}

/* Holding lost a tenth when it was last looked at. Others have come since, that lose nothing by it. */
Test(trial, holding_is_looked_at_again_where_some_are_lost)
{
    trial_t trial = {0};

    go_on(&trial, 4 * MINUTE, true, true, 0.1, 0.05);
    cr_assert(trial.at_once);
    double at_once_ms = go_on(&trial, 10 * MINUTE, true, true, 0, 0.05);
    cr_expect_lt(at_once_ms, 3 * MINUTE, "%.0f ms", at_once_ms);
    cr_expect_not(trial.at_once);
}

Test(trial, it_ends_where_all_cannot_start_at_once_any_more)
{
    trial_t trial = {0};

    go_on(&trial, MINUTE, true, true, 0, 0);
    cr_assert(trial.at_once);
    cr_expect_eq(go_on(&trial, MINUTE, true, false, 0, 0), 0);
    cr_expect_eq(go_on(&trial, 3 * MINUTE, true, true, 0, 0), 0, "not from one moment to the next");
    cr_expect_gt(go_on(&trial, 2 * MINUTE, true, true, 0, 0), 0);
}

Test(trial, others_are_tried_without_delay)
{
    trial_t trial = {0};

    go_on(&trial, MINUTE, true, true, 0, 0.5);
    cr_assert_not(trial.at_once);
    go_on(&trial, 11e3, false, true, 0, 0);
    cr_expect_gt(go_on(&trial, 4000, true, true, 0, 0), 0);
}
