/* Which engines a model should run on, by latencies that were measured. */
#include "model/measure/pick_engine.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <stdio.h>

enum { ENGINES = 3 };
static const uint32_t sizes[] = {1, 4, 32};
static model_engine_t engines[ENGINES];
static const picked_from_t from = {engines, ENGINES, sizes, 3};

/* In ms; 0: there was no time for it. */
static void measured(const double ms[ENGINES][3])
{
    for (uint32_t i = 0; i < ENGINES; i++) {
        engines[i] = (model_engine_t){.status = STATUS_OK};
        snprintf(engines[i].name, sizeof(engines[i].name), "%c", 'a' + (int)i);
        for (uint32_t s = 0; s < 3; s++)
            engines[i].latency_ns[s] = (int64_t)(ms[i][s] * (double)NS_PER_MS);
    }
}

static void expect_two(uint32_t small, uint32_t rows, uint32_t large)
{
    pick_two_t two;
    cr_assert(pick_two(&from, pick_fastest(&from, 0), &two));
    cr_expect_eq(two.small, small);
    cr_expect_eq(two.rows, rows);
    cr_expect_eq(two.large, large);
}

static void expect_one(uint32_t best)
{
    pick_two_t two;
    cr_expect_eq(pick_fastest(&from, 0), best);
    cr_expect_not(pick_two(&from, best, &two));
}

Test(pick_engine, the_fastest_serves_alone_where_it_is_the_fastest_everywhere)
{
    measured((const double[ENGINES][3]){{11, 48, 400}, {12, 46, 380}, {10, 42, 340}});
    expect_one(2);
}

Test(pick_engine, the_first_is_not_displaced_for_little)
{
    measured((const double[ENGINES][3]){{10, 40, 320}, {9.9, 39.6, 316}, {9.95, 40, 320}});
    expect_one(0);
}

Test(pick_engine, another_serves_small_batches_where_it_is_faster_with_them)
{
    measured((const double[ENGINES][3]){{8.8, 27, 220}, {5.9, 24, 200}, {6.5, 21, 170}});
    expect_two(1, 2, 2);
}

Test(pick_engine, another_serves_large_batches)
{
    measured((const double[ENGINES][3]){{92, 330, 2500}, {79, 324, 2600}, {148, 580, 4600}});
    expect_two(1, 11, 0);
}

Test(pick_engine, sizes_that_were_run_speak_for_those_that_there_was_no_time_for)
{
    measured((const double[ENGINES][3]){{8.8, 27, 0}, {5.9, 24.3, 0}, {6.5, 21.7, 0}});
    expect_two(1, 2, 2);
}

/* Its border lies where most is saved. */
Test(pick_engine, the_border_lies_where_most_is_saved)
{
    measured((const double[ENGINES][3]){{10, 40, 320}, {8, 32, 500}, {20, 80, 640}});
    expect_two(1, 11, 0);
    measured((const double[ENGINES][3]){{10, 40, 320}, {8, 44, 500}, {20, 80, 640}});
    expect_two(1, 2, 0);
}

Test(pick_engine, what_two_measurements_differ_by_is_not_worth_two)
{
    measured((const double[ENGINES][3]){{9.9, 40.5, 324}, {20, 80, 640}, {10, 40, 320}});
    expect_one(0);
}

Test(pick_engine, a_size_that_one_was_not_run_at_says_nothing)
{
    measured((const double[ENGINES][3]){{10, 40, 0}, {20, 80, 100}, {12, 48, 0}});
    expect_one(0);
}

Test(pick_engine, those_that_fail_or_do_not_fit_have_no_part)
{
    measured((const double[ENGINES][3]){{10, 40, 320}, {5, 80, 640}, {5, 80, 640}});
    engines[1].status = STATUS_UNSUPPORTED;
    engines[2].unfit = true;
    expect_one(0);
    engines[0].status = STATUS_UNSUPPORTED;
    cr_expect_eq(pick_fastest(&from, 0), 2, "better one that does not fit the mode than none");
}
