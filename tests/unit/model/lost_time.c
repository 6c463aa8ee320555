/* How much of its time a process did not get. */
#include "model/measure/lost_time.h"

#include <criterion/criterion.h>

#define CS INT64_C(10000000)

Test(lost_time, what_is_waited_for_and_what_is_stolen_count)
{
    lost_time_t from = {.ran_ns = 5 * CS, .waited_ns = 7 * CS, .busy_ticks = 100, .stolen_ticks = 7},
                to = from;

    cr_expect_eq(lost_time_share(&from, &to), 0.0, "nothing ran");
    to.ran_ns += 30 * CS;
    cr_expect_eq(lost_time_share(&from, &to), 0.0, "nothing was lost");
    to.waited_ns += 10 * CS;
    cr_expect_float_eq(lost_time_share(&from, &to), 0.25, 1e-9);
    to.busy_ticks += 4;
    to.stolen_ticks += 4;
    cr_expect_float_eq(lost_time_share(&from, &to), 0.25, 1e-9, "too few ticks to tell");
    to.busy_ticks += 8;
    to.stolen_ticks += 8; /* as much as ran */
    cr_expect_float_eq(lost_time_share(&from, &to), 4.0 / 7, 1e-9);
    to.waited_ns = INT64_MAX;
    cr_expect_lt(lost_time_share(&from, &to), 1.0);
    to.waited_ns = 0;
    cr_expect_eq(lost_time_share(&from, &to), 0.0, "a thread has ended");
    to = (lost_time_t){.ran_ns = 9 * CS, .waited_ns = 7 * CS};
    cr_expect_eq(lost_time_share(&from, &to), 0.0, "a few runs tell nothing");
}

Test(lost_time, reads_what_the_kernel_writes)
{
    lost_time_t now = {0};

    cr_expect(lost_time_add_thread(&now, "1035075617 523115 22\n"));
    cr_expect(lost_time_add_thread(&now, "5 7 1\n"));
    cr_expect_eq(now.ran_ns, 1035075622);
    cr_expect_eq(now.waited_ns, 523122);
    cr_expect_not(lost_time_add_thread(&now, "5"));
    cr_expect_not(lost_time_add_thread(&now, ""));
    cr_expect_eq(now.ran_ns, 1035075622);
    cr_expect(lost_time_parse_stat(&now, "cpu  1000 200 30 99999 88888 4 5 60 0 0\n"));
    cr_expect_eq(now.busy_ticks, 1239);
    cr_expect_eq(now.stolen_ticks, 60);
    cr_expect_not(lost_time_parse_stat(&now, "cpu  1 2 3 4\n"), "of a kernel that does not tell");
    cr_expect_not(lost_time_parse_stat(&now, "intr 1 2 3 4 5 6 7 8 9\n"));
}

Test(lost_time, of_this_process_is_a_share)
{
    lost_time_t from, to;

    lost_time_look(&from);
    lost_time_look(&to);
    cr_expect_geq(to.ran_ns, from.ran_ns);
    double share = lost_time_share(&from, &to);
    cr_expect(share >= 0 && share < 1, "it is %g", share);
}
