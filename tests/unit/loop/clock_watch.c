#include "loop/clock_watch.h"

#include "base/clock.h"

#include <criterion/criterion.h>

#define HOUR_NS (3600 * NS_PER_S)

Test(clock_watch, an_hour_either_way_is_told_once)
{
    clock_gap_t gap = {0};
    int64_t wall_ns = 1000 * HOUR_NS;

    cr_expect_eq(clock_gap_look(&gap, wall_ns, 0), 0, "that they differ is no jump");
    cr_expect_eq(clock_gap_look(&gap, wall_ns + 10 * NS_PER_S, 10 * NS_PER_S), 0);
    cr_expect_eq(clock_gap_look(&gap, wall_ns + HOUR_NS + 20 * NS_PER_S, 20 * NS_PER_S), HOUR_NS);
    cr_expect_eq(clock_gap_look(&gap, wall_ns + HOUR_NS + 30 * NS_PER_S, 30 * NS_PER_S), 0);
    cr_expect_eq(clock_gap_look(&gap, wall_ns + 40 * NS_PER_S, 40 * NS_PER_S), -HOUR_NS);
    cr_expect_eq(clock_gap_look(&gap, wall_ns + 50 * NS_PER_S, 50 * NS_PER_S), 0);
}

/* As a clock drifts that is brought back in step: 500 parts in a million. */
Test(clock_watch, what_creeps_does_not_jump)
{
    clock_gap_t gap = {0};

    for (int64_t s = 0; s < 100000; s += 10)
        cr_assert_eq(clock_gap_look(&gap, s * NS_PER_S + s * 500 * NS_PER_US, s * NS_PER_S), 0);
}

Test(clock_watch, looks_as_soon_as_the_loop_turns_and_can_be_stopped)
{
    loop_t *loop;
    clock_watch_t *watch;

    cr_assert_eq(loop_create(&loop, NULL), STATUS_OK);
    cr_assert_eq(clock_watch_create(&watch, loop, NULL), STATUS_OK);
    loop_run_once(loop, NS_PER_MS);
    clock_watch_destroy(watch);
    clock_watch_destroy(NULL);
    loop_destroy(loop);
}
