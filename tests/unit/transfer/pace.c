#include "transfer/pace.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { K = 1024, WINDOW = 128 * K, PART = 16 * K };

static pace_t pace;
static pace_turn_t turns[8];

/* Takes all that may go now; "A16 B2" = 16 KiB of the turn 0, 2 KiB of turn 1. */
static const char *go(void)
{
    static char text[512];
    size_t at = 0;
    pace_turn_t *turn;
    uint64_t bytes;

    text[0] = '\0';
    while ((turn = pace_next(&pace, &bytes))) {
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%c%u", at ? " " : "",
                               'A' + (int)(turn - turns), (unsigned)(bytes / K));
        pace_take(&pace, turn, bytes);
        cr_assert_lt(at, sizeof(text));
    }
    return text;
}

static void start(uint64_t credit_bytes)
{
    pace_init(&pace, credit_bytes);
}

Test(pace, the_first_may_always_go_and_larger_ones_go_in_parts)
{
    start(20 * K);
    pace_enter(&pace, &turns[0], 100 * K);
    cr_assert_str_eq(go(), "A16");
    cr_assert_str_eq(go(), "", "out, and nothing more fits");
    pace_give(&pace, 16 * K, true);
    cr_assert_str_eq(go(), "A16");
    start(1 * K);
    pace_enter(&pace, &turns[0], 10 * K);
    cr_assert_str_eq(go(), "A10", "more than the window, but nothing is out");
}

Test(pace, first_come_first_served_until_the_window_is_out)
{
    start(WINDOW);
    for (int i = 0; i < 3; i++)
        pace_enter(&pace, &turns[i], 64 * K);
    cr_assert_str_eq(go(), "A16 A16 A16 A16 B16 B16 B16 B16");
    pace_give(&pace, 48 * K, true);
    cr_assert_str_eq(go(), "C16 C16 C16");
    cr_assert_eq(pace.out_bytes, WINDOW);
}

Test(pace, no_small_rest)
{
    start(WINDOW);
    pace_enter(&pace, &turns[0], 23 * K);
    pace_enter(&pace, &turns[1], 39 * K);
    cr_assert_str_eq(go(), "A23 B16 B23");
}

Test(pace, a_small_one_goes_before_a_big_one_and_beyond_the_window)
{
    start(WINDOW);
    pace_enter(&pace, &turns[0], 64 * K * K);
    cr_assert_str_eq(go(), "A16 A16 A16 A16 A16 A16 A16 A16");
    pace_enter(&pace, &turns[1], 10 * K);
    pace_enter(&pace, &turns[2], 10 * K);
    cr_assert_str_eq(go(), "B10", "an eighth beyond, not more");
    pace_enter(&pace, &turns[3], 150 * K);
    pace_give(&pace, 16 * K, true);
    pace_give(&pace, 16 * K, true);
    cr_assert_str_eq(go(), "C10", "before the big ones");
    pace_give(&pace, 20 * K, true);
    cr_assert_str_eq(go(), "D16 D16", "before the tensor, which came first");
}

Test(pace, who_is_passed_over_often_has_a_turn)
{
    char all[1024] = "";

    start(WINDOW);
    pace_enter(&pace, &turns[0], 8 * K * K);
    cr_assert_str_eq(go(), "A16 A16 A16 A16 A16 A16 A16 A16");
    pace_enter(&pace, &turns[1], 250 * K);
    pace_enter(&pace, &turns[2], 250 * K);
    for (int i = 0; i < 20; i++) {
        pace_give(&pace, PART, true);
        strcat(strcat(all, go()), " ");
    }
    cr_assert_str_eq(all, "B16 B16 B16 B16 B16 B16 B16 B16 B16 B16 B16 B16 B16 B16 B16 B10 A16 C16 C16 C16 ");
}

Test(pace, who_leaves_is_passed_by_and_nothing_is_a_turn_too)
{
    start(WINDOW);
    pace_enter(&pace, &turns[0], 16 * K);
    pace_enter(&pace, &turns[1], 0);
    pace_leave(&pace, &turns[0]);
    pace_leave(&pace, &turns[0]);
    cr_assert(pace_waiting(&pace));
    cr_assert_str_eq(go(), "B0");
    cr_assert_not(pace_waiting(&pace));
    cr_assert_eq(pace.out_bytes, 0);
}

Test(pace, without_a_limit_all_goes_at_once)
{
    start(UINT64_MAX);
    for (int i = 0; i < 4; i++)
        pace_enter(&pace, &turns[i], 1000 * K);
    cr_assert_str_eq(go(), "A1000 B1000 C1000 D1000");
}

/* Receives windows as long as there is somebody who waits. */
static void receive(int windows)
{
    for (int i = 0; i < windows; i++) {
        uint64_t bytes = pace.window_bytes;
        pace_enter(&pace, &turns[0], bytes * 2);
        go();
        pace_leave(&pace, &turns[0]);
        while (pace.out_bytes > 0)
            pace_give(&pace, pace.out_bytes < PART ? pace.out_bytes : PART, true);
    }
}

Test(pace, the_window_grows_while_it_limits_and_shrinks_once_for_a_loss)
{
    start(0);
    cr_assert_eq(pace.window_bytes, PACE_START_BYTES);
    receive(1);
    cr_assert_eq(pace.window_bytes, PACE_START_BYTES + PACE_STEP_BYTES);
    receive(2000);
    cr_assert_eq(pace.window_bytes, PACE_MOST_BYTES);
    pace_lost(&pace);
    pace_lost(&pace);
    cr_assert_eq(pace.window_bytes, PACE_MOST_BYTES / 4 * 3, "once in a window");
    receive(2);
    pace_lost(&pace);
    uint64_t window = pace.window_bytes;
    cr_assert_lt(window, PACE_MOST_BYTES / 4 * 3);
    receive(3 * PACE_CALM);
    cr_assert_gt(pace.window_bytes, window, "slowly");
    cr_assert_leq(pace.window_bytes, window + PACE_STEP_BYTES);
    for (int i = 0; i < 20; i++) {
        receive(2);
        pace_lost(&pace);
    }
    cr_assert_eq(pace.window_bytes, PACE_LEAST_BYTES);
}

Test(pace, the_window_stays_when_it_does_not_limit_or_is_given)
{
    start(0);
    for (int i = 0; i < 100; i++) {
        pace_enter(&pace, &turns[0], 64 * K);
        go();
        pace_give(&pace, 64 * K, true);
    }
    cr_assert_eq(pace.window_bytes, PACE_START_BYTES);
    start(WINDOW);
    receive(100);
    pace_lost(&pace);
    cr_assert_eq(pace.window_bytes, WINDOW);
}
