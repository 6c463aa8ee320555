/* When a worker is believed, shunned, tried and trusted again; told as a line of states. */
#include "control/cluster/standing.h"

#include "base/clock.h"

#include <criterion/criterion.h>

static standing_t s;
static int64_t now_ns;

static void begin(void)
{
    s = (standing_t){0};
    now_ns = 1000 * NS_PER_S;
}

static void pass(int64_t duration_ns)
{
    now_ns += duration_ns;
    (void)standing_tick(&s, now_ns);
}

static const char *state(void)
{
    return standing_state_name(s.state);
}

static void trial_goes_well(void)
{
    standing_granted(&s, now_ns, now_ns + 100 * NS_PER_MS);
    cr_assert_not(standing_allows(&s), "one batch at a time");
    standing_well(&s, now_ns, 4);
    pass(100 * NS_PER_MS);
}

/* A new one has to show that results arrive; so has who missed some, or failed rows that ran elsewhere, but not who failed honestly. */
Test(standing, who_has_shown_enough_rows_is_believed_until_something_is_missed, .init = begin)
{
    for (uint32_t i = 0; i < STANDING_PROVEN; i++) {
        cr_expect(standing_wants_proof(&s));
        standing_prove(&s, now_ns);
    }
    cr_expect_not(standing_wants_proof(&s));
    standing_ill(&s, now_ns, ILL_FAILED, 1);
    cr_expect_not(standing_wants_proof(&s));
    standing_ill(&s, now_ns, ILL_MISSED, 1);
    cr_expect(standing_wants_proof(&s));
}

/* A moment in which its host stood still makes many rows late; so says one that is late all the time, a second later. */
Test(standing, a_moment_of_lateness_is_borne_and_a_second_is_not, .init = begin)
{
    for (uint32_t i = 0; i < 100; i++)
        standing_ill(&s, now_ns, ILL_LATE, 8);
    cr_expect_not(standing_is_suspect(&s));
    for (uint32_t i = 0; i < 4; i++) {
        pass(250 * NS_PER_MS);
        standing_ill(&s, now_ns, ILL_LATE, 8);
    }
    cr_expect(standing_is_suspect(&s));
    cr_expect_str_eq(ill_text(s.worst), "what it ran was late, and others' was not");
}

Test(standing, a_few_failures_among_many_successes_make_nobody_suspect, .init = begin)
{
    for (uint32_t i = 0; i < 1000; i++) {
        standing_well(&s, now_ns, 9);
        standing_ill(&s, now_ns, ILL_FAILED, 1);
        cr_assert_not(standing_is_suspect(&s));
        now_ns += NS_PER_S / 100;
    }
}

Test(standing, two_rows_are_no_evidence_and_three_are, .init = begin)
{
    standing_ill(&s, now_ns, ILL_ROWS, 2);
    cr_expect_not(standing_is_suspect(&s));
    standing_ill(&s, now_ns, ILL_ROWS, 1);
    cr_expect(standing_is_suspect(&s));
    standing_well(&s, now_ns, 4);
    cr_expect_not(standing_is_suspect(&s), "more went well");
}

/* As when each failure has its worker left out for a second. */
Test(standing, a_row_a_second_is_enough_in_the_end, .init = begin)
{
    uint32_t seconds = 0;
    for (; seconds < 20 && !standing_is_suspect(&s); seconds++) {
        standing_ill(&s, now_ns, ILL_FAILED, 1);
        now_ns += NS_PER_S;
    }
    cr_expect_leq(seconds, 8, "%u s", seconds);
}

Test(standing, what_was_long_ago_counts_for_nothing, .init = begin)
{
    standing_ill(&s, now_ns, ILL_FAILED, 100);
    now_ns += 60 * NS_PER_S;
    standing_well(&s, now_ns, 1);
    cr_expect_not(standing_is_suspect(&s));
}

/* What is missed was reported, and so counted, as done before. */
Test(standing, one_that_reports_and_never_delivers_is_found_out, .init = begin)
{
    for (uint32_t i = 0; i < 400; i++) { /* 200 rows a second, for two seconds */
        standing_well(&s, now_ns, 1);
        now_ns += 5 * NS_PER_MS;
    }
    int64_t turned_ns = now_ns;
    for (uint32_t i = 0; !standing_is_suspect(&s) && i < 1000;
         i++) { /* and its gateways miss those of 100 ms ago */
        standing_well(&s, now_ns, 1);
        standing_ill(&s, now_ns, ILL_MISSED, 1);
        now_ns += 5 * NS_PER_MS;
    }
    cr_expect_lt(now_ns - turned_ns, NS_PER_S / 2);
}

Test(standing, shunned_then_tried_with_single_batches_then_trusted, .init = begin)
{
    cr_expect_eq(standing_strike(&s, now_ns), 2 * NS_PER_S);
    cr_expect_not(standing_allows(&s));
    pass(2 * NS_PER_S - 1);
    cr_expect_str_eq(state(), "shunned");
    pass(1);
    cr_expect_str_eq(state(), "tried");
    for (uint32_t i = 0; i < STANDING_TRIALS; i++) {
        cr_expect_str_eq(state(), "tried");
        cr_expect(standing_allows(&s));
        trial_goes_well();
    }
    cr_expect_str_eq(state(), "trusted");
}

Test(standing, each_strike_in_a_row_lasts_longer_up_to_a_minute, .init = begin)
{
    static const int64_t seconds[] = {2, 8, 32, 60, 60};
    for (uint32_t i = 0; i < 5; i++) {
        int64_t for_ns = standing_strike(&s, now_ns);
        cr_expect_eq(for_ns, seconds[i] * NS_PER_S);
        pass(for_ns);
        cr_assert_str_eq(state(), "tried");
        standing_granted(&s, now_ns, now_ns + NS_PER_S);
        standing_ill(&s, now_ns, ILL_ROWS, 1);
        cr_assert(standing_is_suspect(&s), "a single row is enough in a trial");
    }
    now_ns += 200 * NS_PER_S;
    cr_expect_eq(standing_strike(&s, now_ns), 2 * NS_PER_S, "after a long time it is as good as new");
}

Test(standing, a_trial_of_which_nothing_is_heard_is_followed_by_another, .init = begin)
{
    pass(standing_strike(&s, now_ns));
    standing_granted(&s, now_ns, now_ns + 100 * NS_PER_MS);
    pass(100 * NS_PER_MS);
    cr_expect_not(standing_allows(&s), "it is waited for");
    pass(10 * NS_PER_S);
    cr_expect(standing_allows(&s));
    cr_expect_eq(s.trials, 0);
}

Test(standing, a_pardon_keeps_the_record, .init = begin)
{
    (void)standing_strike(&s, now_ns);
    standing_pardon(&s);
    cr_expect(standing_allows(&s));
    cr_expect_eq(standing_strike(&s, now_ns + NS_PER_S), 8 * NS_PER_S);
}
