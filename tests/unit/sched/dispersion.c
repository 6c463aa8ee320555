/* How much arrivals scatter: at random, evenly, in bursts, and as those of clients that are always as many. */
#include "sched/dispersion.h"

#include "base/prng.h"

#include <criterion/criterion.h>

enum { LOOKS = 20000, MEAN = 20, LONG = 5 };
static const double LOOK_MS = 100;

/* Over a look, and over five of them. */
typedef struct {
    dispersion_t over_look, over_long;
    dispersion_series_t series;
    double before, most_apart; /* the last look, and by how much two of the longer times differ at most */
} scatter_t;

static void look(scatter_t *scatter, double came)
{
    if (scatter->before >= 0)
        dispersion_add(&scatter->over_look, came, LOOK_MS, scatter->before, LOOK_MS);
    scatter->before = came;
    double apart = dispersion_count(&scatter->over_long, &scatter->series, came, LOOK_MS, LONG * LOOK_MS);
    scatter->most_apart = apart > scatter->most_apart ? apart : scatter->most_apart;
}

/* `bunch` come at a time, at random. */
static scatter_t at_random(double bunch)
{
    enum { TRIALS = 1000 };
    scatter_t scatter = {.before = -1};
    prng_t random;

    prng_init(&random, 1);
    for (int i = 0; i < LOOKS; i++) {
        double came = 0;
        for (int t = 0; t < TRIALS; t++)
            came += prng_uniform(&random) < MEAN / bunch / TRIALS ? bunch : 0;
        look(&scatter, came);
    }
    return scatter;
}

Test(dispersion, of_random_arrivals_is_one_over_any_time)
{
    const scatter_t scatter = at_random(1);

    cr_expect_float_eq(dispersion_of(&scatter.over_look), 1, 0.05);
    cr_expect_float_eq(dispersion_of(&scatter.over_long), 1, 0.08);
}

Test(dispersion, of_bunches_is_their_size_over_any_time)
{
    const scatter_t scatter = at_random(5);

    cr_expect_float_eq(dispersion_of(&scatter.over_look), 5, 0.3);
    cr_expect_float_eq(dispersion_of(&scatter.over_long), 5, 0.5);
}

Test(dispersion, of_even_arrivals_is_none)
{
    scatter_t scatter = {.before = -1};

    for (int i = 0; i < LOOKS; i++)
        look(&scatter, MEAN);
    cr_expect_lt(dispersion_of(&scatter.over_look), 1e-3);
    cr_expect_lt(dispersion_of(&scatter.over_long), 1e-3);
}

/* So many come back together every 110 ms: in some look none does. */
Test(dispersion, clients_differ_by_no_more_than_they_are_over_any_time)
{
    enum { CLIENTS = 30, CYCLE_MS = 110 };
    const scatter_t bunches = at_random(5);
    scatter_t scatter = {.before = -1};

    for (int i = 0; i < LOOKS; i++) {
        int ended = (i + 1) * (int)LOOK_MS / CYCLE_MS, before = i * (int)LOOK_MS / CYCLE_MS;
        look(&scatter, (ended - before) * CLIENTS);
    }
    cr_expect_gt(dispersion_of(&scatter.over_look), 1);
    cr_expect_eq(scatter.most_apart, CLIENTS);
    cr_expect_gt(bunches.most_apart, CLIENTS, "a stream of fewer");
}

Test(dispersion, intervals_of_other_lengths_are_brought_to_the_same)
{
    dispersion_t dispersion = {0};

    for (int i = 0; i < LOOKS; i++)
        dispersion_add(&dispersion, MEAN, LOOK_MS, MEAN / 2.0, LOOK_MS / 2);
    cr_expect_lt(dispersion_of(&dispersion), 1e-3);
}

Test(dispersion, is_that_of_chance_before_anything_is_known)
{
    const dispersion_t nothing = {0};

    cr_expect_eq(dispersion_of(&nothing), 1);
}

Test(dispersion, is_counted_when_an_interval_has_ended)
{
    dispersion_t dispersion = {0};
    dispersion_series_t series = {0};

    cr_expect_lt(dispersion_count(&dispersion, &series, 5, 300, 500), 0);
    cr_expect_lt(dispersion_count(&dispersion, &series, 5, 300, 500), 0, "the first has none before it");
    cr_expect_lt(dispersion_count(&dispersion, &series, 5, 300, 500), 0);
    cr_expect_eq(dispersion_count(&dispersion, &series, 9, 300, 500), 4);
}

Test(dispersion, what_was_is_forgotten)
{
    scatter_t scatter = at_random(5);

    dispersion_fade(&scatter.over_look, 0);
    cr_expect_eq(dispersion_of(&scatter.over_look), 1);
}
