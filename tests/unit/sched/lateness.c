/*
 * The caller's timers fire late. A model so fast that one more request costs next to nothing has a window of
 * l(b+1) - l(b) between ready and too late: without wake_ns any lateness is a missed deadline.
 */
#include "play.h"

#include <criterion/criterion.h>

typedef struct {
    unsigned grants, drops;
} outcome_t;

static void count(void *ctx, const sched_action_t *action)
{
    outcome_t *outcome = ctx;
    outcome->grants += action->kind == SCHED_GRANT;
    outcome->drops += action->kind == SCHED_DROP;
}

/* One request of 100 ms to a model of 0.01 ms a row; every sched_run comes `late` ms after it was asked for. */
static outcome_t serve_one(double wake, double late)
{
    play_t play;
    outcome_t outcome = {0};
    play_start(&play, "deferred", NULL, 1);
    play_model(&play, 0, 'A', 0.01, 0, 100);
    sched_set_delays(play.sched, 0, &(sched_delays_t){.wake_ns = play_ns(wake)});
    sched_task_t task = {.deadline_ns = play_ns(100)};
    cr_assert_eq(sched_submit(play.sched, 0, 0, &task, NULL), STATUS_OK);
    int64_t now_ns = 0;
    for (int i = 0; i < 1000 && outcome.grants + outcome.drops == 0; i++) {
        int64_t wake_ns = sched_run(play.sched, now_ns, count, &outcome);
        if (wake_ns == INT64_MAX) /* nothing left to come back for */
            break;
        now_ns = wake_ns + play_ns(late);
    }
    play_stop(&play);
    return outcome;
}

Test(lateness, a_timer_on_time_needs_no_reserve)
{
    cr_expect_eq(serve_one(0, 0).grants, 1);
}

Test(lateness, without_a_reserve_a_late_timer_costs_the_request)
{
    cr_expect_eq(serve_one(0, 0.5).drops, 1);
}

Test(lateness, the_reserve_covers_lateness_up_to_its_size)
{
    cr_expect_eq(serve_one(1, 0.5).grants, 1);
    cr_expect_eq(serve_one(1, 0.99).grants, 1);
    cr_expect_eq(serve_one(1, 1.5).drops, 1);
}
