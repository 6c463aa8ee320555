/* Whether as many requests come over any longer time, though they come in bunches, and over which. */
#include "sched/steady.h"

#include "base/prng.h"

#include <criterion/criterion.h>
#include <math.h>

static const double LOOK_MS = 100;
enum { BUNCH = 8 };

/* So long bunches come each `period_ms`; those of one look are counted together. */
static void come(steady_t *steady, double period_ms, double ms)
{
    double before = 0;
    for (double at_ms = LOOK_MS; at_ms <= ms; at_ms += LOOK_MS) {
        double bunches = floor(at_ms / period_ms);
        steady_count(steady, BUNCH * (bunches - before), LOOK_MS);
        before = bunches;
    }
}

static double one_look_at_random(prng_t *random, double period_ms)
{
    double came = 0;
    for (int part = 0; part < LOOK_MS; part++)
        came += prng_uniform(random) < 1 / period_ms ? BUNCH : 0;
    return came;
}

/* As many in the mean, but by chance. */
static void come_at_random(steady_t *steady, double period_ms, double ms)
{
    prng_t random;
    prng_init(&random, 1);
    for (double at_ms = LOOK_MS; at_ms <= ms; at_ms += LOOK_MS)
        steady_count(steady, one_look_at_random(&random, period_ms), LOOK_MS);
}

static void expect_found(double period_ms, double bunch, double round_ms)
{
    steady_t steady = {0};
    come(&steady, period_ms, 60e3);
    const steady_found_t found = steady_find(&steady, bunch);

    cr_expect(found.bunched && found.sure, "each %.0f ms", period_ms);
    cr_expect_eq(found.round_ms, round_ms, "each %.0f ms: %.0f ms for %.0f", period_ms, found.round_ms,
                 round_ms);
}

static void expect_round(double period_ms, double round_ms)
{
    expect_found(period_ms, BUNCH, round_ms);
}

Test(steady, is_found_over_the_shortest_time_that_shows_it)
{
    expect_round(100, 200);
    expect_round(200, 200);
    expect_round(210, 200);
    expect_round(300, 500);
    expect_round(450, 500);
    expect_round(510, 500);
    expect_round(800, 800);
    expect_round(1010, 800);
    expect_round(1200, 1000);
}

/* Crowds of eight, each of several bunches. At random they would scatter as much over any time. */
Test(steady, is_found_of_crowds_whose_bunches_are_small)
{
    expect_found(200, BUNCH / 2, 200);
    expect_found(400, BUNCH / 2, 500);
    expect_found(600, BUNCH / 4, 500);
    expect_found(720, BUNCH / 4, 800);
    expect_found(1010, BUNCH / 4, 1000);
}

/* A trial begins at the first look of all that is sure by chance. */
Test(steady, is_hardly_ever_what_comes_at_random)
{
    static const double periods_ms[] = {50, 200, 1000};
    enum { RUNS = 40, RUN_LOOKS = 600 };
    for (int i = 0; i < 3; i++) {
        prng_t random;
        int bunched = 0, sure = 0;
        prng_init(&random, 1);
        for (int run = 0; run < RUNS; run++) {
            steady_t steady = {0};
            for (int look = 0; look < RUN_LOOKS; look++) {
                steady_count(&steady, one_look_at_random(&random, periods_ms[i]), LOOK_MS);
                const steady_found_t found = steady_find(&steady, BUNCH);
                bunched += found.bunched;
                sure += found.sure;
            }
        }
        cr_expect_lt(bunched, RUNS * RUN_LOOKS * 12 / 100, "each %.0f ms: %d", periods_ms[i], bunched);
        cr_expect_lt(sure, RUNS * RUN_LOOKS / 200, "each %.0f ms: %d", periods_ms[i], sure);
    }
}

/* Crowds whose bunches are small come at random now, where single bunches came before: of longer times less is known than of short ones. */
Test(steady, is_hardly_ever_what_comes_in_larger_crowds_than_before)
{
    enum { RUNS = 200, CROWD = 2 * BUNCH };
    prng_t random;
    int sure = 0;
    prng_init(&random, 1);
    for (int run = 0; run < RUNS; run++) {
        steady_t steady = {0};
        bool was_sure = false;
        for (int look = 0; look < 600; look++)
            steady_count(&steady, one_look_at_random(&random, 100) * 2 / BUNCH, LOOK_MS);
        for (int look = 0; look < 600; look++) {
            steady_count(&steady, one_look_at_random(&random, 800) * CROWD / BUNCH, LOOK_MS);
            was_sure |= steady_find(&steady, 2).sure;
        }
        sure += was_sure;
    }
    cr_expect_lt(sure, RUNS * 8 / 100, "%d of %d", sure, RUNS);
}

Test(steady, is_not_what_comes_more_slowly_than_any_time_shows)
{
    steady_t steady = {0};
    come(&steady, 5000, 60e3);
    cr_expect_not(steady_find(&steady, BUNCH).bunched);
}

/* They may come evenly, one by one. */
Test(steady, is_not_asked_of_what_does_not_come_in_bunches)
{
    steady_t steady = {0};
    come(&steady, 200, 60e3);
    cr_expect_not(steady_find(&steady, 1.2).bunched);
    cr_expect(steady_find(&steady, BUNCH).bunched);
}

/* Four pairs of half seconds say nothing, and of some more those little in which one bunch comes in some and two in others. */
Test(steady, is_sure_when_enough_has_been_looked_at)
{
    steady_t steady = {0};
    come(&steady, 400, 2900);
    cr_expect_not(steady_find(&steady, BUNCH).bunched);
    come(&steady, 400, 1500);
    cr_expect(steady_find(&steady, BUNCH).bunched);
    cr_expect_not(steady_find(&steady, BUNCH).sure);
    come(&steady, 400, 20e3);
    cr_expect(steady_find(&steady, BUNCH).sure);
}

/* A fifth of a second is looked at more often, but says too little. */
Test(steady, is_not_sure_by_what_comes_in_fifths_of_seconds)
{
    steady_t steady = {0};
    come(&steady, 100, 2400);
    const steady_found_t found = steady_find(&steady, BUNCH);

    cr_expect(!found.bunched && !found.sure);
    cr_expect_eq(found.round_ms, 200);
}

/* Forty of each span, so of the longest there are as many in the end; of the shortest as many as come in the time of those. */
Test(steady, is_remembered_for_as_many_times_of_any_length)
{
    steady_t steady = {0};
    come(&steady, 100, 600e3);
    for (int i = 0; i < STEADY_SPANS; i++)
        cr_expect_float_eq(steady.spans[i].pairs, i > 0 ? 40.5 : 200.5, 0.1, "%.1f", steady.spans[i].pairs);
    cr_expect_float_eq(steady_half_keep(20e3), exp(-1), 1e-9);
}

Test(steady, what_was_is_forgotten)
{
    steady_t steady = {0};
    come(&steady, 200, 60e3);
    come_at_random(&steady, 200, 120e3);
    cr_expect_not(steady_find(&steady, BUNCH).bunched);
}

/* By the requests of each: one that is asked seldom, by chance, hardly counts. */
Test(steady, of_several_models_is_that_of_most_requests)
{
    steady_t often = {0}, seldom = {0}, all = {0}, other = {0};
    come(&often, 200, 60e3);
    come_at_random(&seldom, 4000, 60e3);
    steady_add(&all, &often);
    steady_add(&all, &seldom);
    cr_expect(steady_find(&all, BUNCH).sure);

    come_at_random(&other, 100, 60e3);
    steady_add(&all, &other);
    cr_expect_not(steady_find(&all, BUNCH).bunched);
}

Test(steady, of_several_models_is_as_sure_as_of_one)
{
    steady_t one = {0}, all = {0};
    come(&one, 200, 5000);
    for (int i = 0; i < 10; i++)
        steady_add(&all, &one);
    cr_expect_float_eq(steady_half(&all)->pairs, steady_half(&one)->pairs, 1e-9);
}

Test(steady, tells_what_half_seconds_differ_by)
{
    steady_t steady = {0};
    for (int half = 0; half < 4; half++) {
        for (int i = 0; i < 4; i++)
            cr_expect_lt(steady_count(&steady, half, LOOK_MS), 0);
        double apart = steady_count(&steady, half, LOOK_MS);
        cr_expect_eq(apart, half == 0 ? -1 : 5, "%.0f", apart);
    }
}
