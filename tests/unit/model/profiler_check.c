#include "model/measure/profiler_check.h"

#include <criterion/criterion.h>

static profile_t profile; /* 100 ns a row */
static double room[3 * 16];

static void line(void)
{
    cr_assert_eq(profile_from_line(&profile, 100, 0, 8, NULL), STATUS_OK);
}

TestSuite(profiler_check, .init = line);

Test(profiler_check, a_machine_that_jitters_around_a_right_profile)
{
    profiler_run_t runs[] = {{2, 200}, {1, 100}, {2, 160}, {1, 80}, {1, 125}, {2, 250}};
    profiler_check_t check;

    profiler_check_sum_up(runs, 6, &profile, room, &check);
    cr_expect_eq(check.runs, 6);
    cr_expect_float_eq(check.fit_p90, 0, 1e-9);
    cr_expect_float_eq(check.worst, 0, 1e-9);
    cr_expect_float_eq(check.jitter_p50, 0.2, 1e-9);
    cr_expect_float_eq(check.jitter_p90, 0.25, 1e-9);
    cr_expect_float_eq(check.off_p90, 0.25, 1e-9, "80 where 100 was predicted");
    cr_expect_float_eq(check.late, 2 / 6.0, 1e-9);
}

Test(profiler_check, a_steady_machine_and_a_profile_that_is_off_at_one_size)
{
    profiler_run_t runs[] = {{4, 400}, {1, 100}, {3, 400}, {3, 400}, {4, 400}, {1, 100}};
    profiler_check_t check;

    profiler_check_sum_up(runs, 6, &profile, room, &check);
    cr_expect_float_eq(check.jitter_p90, 0, 1e-9);
    cr_expect_float_eq(check.fit_p50, 0, 1e-9);
    cr_expect_float_eq(check.fit_p90, 0.25, 1e-9);
    cr_expect_float_eq(check.off_p90, 0.25, 1e-9);
    cr_expect_eq(check.worst_batch, 3);
    cr_expect_float_eq(check.worst, -0.25, 1e-9, "too short, so negative");
    cr_expect_float_eq(check.late, 2 / 6.0, 1e-9);
}

Test(profiler_check, one_run_of_no_time)
{
    profiler_run_t run = {1, 0};
    profiler_check_t check;

    profiler_check_sum_up(&run, 1, &profile, room, &check);
    cr_expect_eq(check.runs, 1);
    cr_expect_float_eq(check.jitter_p90, 0, 1e-9);
    cr_expect_float_eq(check.fit_p90, 99, 1e-9);
}
