/* How far what comes is from what was foretold, in GPUs. */
#include "sched/swing.h"

#include "base/prng.h"

#include <criterion/criterion.h>

enum { INTERVALS = 4000, MODELS = 2, MEAN = 50 };
static const double INTERVAL_MS = 100, EACH_MS = 10; /* 5 GPUs for each model */

/* As many as are to come in the mean, one by one at random. */
static double by_chance(prng_t *random, double mean)
{
    enum { TRIALS = 1000 };
    double came = 0;

    for (int i = 0; i < TRIALS; i++)
        came += prng_uniform(random) < mean / TRIALS;
    return came;
}

/* By turns of so many intervals `factor` times the mean come and the less for it; to the second model `later` intervals later. */
static swing_t swing_of(double factor, int turn, int later)
{
    swing_t swing = {0};
    prng_t random;

    prng_init(&random, 1);
    for (int i = 0; i < INTERVALS; i++) {
        for (int m = 0; m < MODELS; m++) {
            double mean = MEAN * ((i + later * m) / turn % 2 ? factor : 2 - factor);
            swing_add(&swing, by_chance(&random, mean), MEAN, EACH_MS, INTERVAL_MS);
        }
        swing_end(&swing, 1);
    }
    return swing;
}

Test(swing, random_arrivals_swing_by_chance_alone)
{
    const swing_t swing = swing_of(1, 1, 0);

    cr_expect_float_eq(swing_all(&swing), 1, 0.05, "the root of 100 requests, of .1 each");
    cr_expect_eq(swing_bursts(&swing), 0);
    cr_expect_eq(swing_lasting(&swing), 0);
}

Test(swing, bursts_in_step_count_for_more_than_those_that_even_out)
{
    const swing_t in_step = swing_of(1.8, 1, 0), by_turns = swing_of(1.8, 1, 1);

    cr_expect_float_eq(swing_bursts(&in_step), 8, 0.2);
    cr_expect_lt(swing_bursts(&by_turns), 0.5);
}

Test(swing, only_what_goes_on_in_the_next_interval_lasts)
{
    const swing_t brief = swing_of(1.8, 1, 0), longer = swing_of(1.8, 10, 0);

    cr_expect_eq(swing_lasting(&brief), 0);
    cr_expect_float_eq(swing_bursts(&longer), 8, 0.2);
    cr_expect_float_eq(swing_lasting(&longer), 7.1, 0.2, "of ten pairs eight are alike and two are not");
}

Test(swing, nothing_is_known_at_first_and_what_was_is_forgotten)
{
    swing_t swing = {0};

    cr_expect_eq(swing_all(&swing) + swing_bursts(&swing) + swing_lasting(&swing), 0);
    for (int i = 0; i < 200; i++) {
        swing_add(&swing, i < 100 ? 2 * MEAN : MEAN, MEAN, EACH_MS, INTERVAL_MS);
        swing_end(&swing, 0.95);
        if (i == 0)
            cr_expect_lt(swing_bursts(&swing), 1.2, "one interval says little");
        if (i == 99)
            cr_expect_gt(swing_bursts(&swing), 3);
    }
    cr_expect_lt(swing_bursts(&swing), 0.3);
}
