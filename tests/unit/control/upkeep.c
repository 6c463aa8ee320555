/* What the control plane does by itself from time to time, and that it does no more when it stops. */
#include "play.h"

#include "base/clock.h"

#include <criterion/criterion.h>

#define READY CONTROL__MODEL_STATE__MODEL_STATE_READY
#define UNLOADED CONTROL__MODEL_STATE__MODEL_STATE_UNLOADED

static void report(play_t *play, const char *name, Control__ModelState state, int64_t slo_ns)
{
    play->worker.slo_ns = slo_ns;
    say_report(&play->worker, name, state, NS_PER_MS);
}

/* Nothing was measured, so all are supposed to take 1 ms, and what goes before a batch a twelfth of the SLO at most. */
Test(upkeep, the_shortest_slo_of_those_served_bounds_what_goes_before_a_batch)
{
    play_t play;
    play_init(&play, "fermata");
    const subcluster_t *sub = play.control->models.all[0]->home; /* of "good", which has no SLO */
    cr_assert_not_null(sub);
    play_pass(&play, 2 * NS_PER_S);
    cr_expect_eq(sub->delays.sched.fixed_ns, NS_PER_MS);
    report(&play, "slow", READY, 6000 * NS_PER_US);
    play_pass(&play, 2 * NS_PER_S);
    cr_expect_eq(sub->delays.sched.fixed_ns, 500 * NS_PER_US);
    report(&play, "quick", READY, 2400 * NS_PER_US);
    report(&play, "patient", READY, 9600 * NS_PER_US);
    play_pass(&play, 2 * NS_PER_S);
    cr_expect_eq(sub->delays.sched.fixed_ns, 200 * NS_PER_US);
    report(&play, "elsewhere", UNLOADED, 1200 * NS_PER_US); /* is not served */
    play_pass(&play, 2 * NS_PER_S);
    cr_expect_eq(sub->delays.sched.fixed_ns, 200 * NS_PER_US);
    report(&play, "quick", UNLOADED, 2400 * NS_PER_US); /* no more */
    play_pass(&play, 2 * NS_PER_S);
    cr_expect_eq(sub->delays.sched.fixed_ns, 500 * NS_PER_US);
    cr_expect(play_dispose(&play));
}

/* The worker's pings took 1 ms, and one in ten 3; fetching took 1.5 ms, and one in ten 5. */
Test(upkeep, what_few_delays_need_is_told_apart)
{
    play_t play;
    play_init(&play, "fermata");
    subcluster_t *sub = play.control->models.all[0]->home;
    peer_t *worker = &sub->devices[0]->worker->peer;
    worker->rtt = (delay_window_t){0};
    for (int i = 0; i < 40; i++) {
        delay_add(&worker->rtt, play.now_ns, (i % 10 ? 1 : 3) * NS_PER_MS);
        fetch_delay_add(&sub->delays.fetch, play.now_ns, 1, (i % 10 ? 3 : 10) * NS_PER_MS / 2);
    }
    play_pass(&play, 200 * NS_PER_MS);
    const sched_delays_t *told = &sub->delays.sched;
    cr_expect_eq(told->ctrl_ns, 3 * NS_PER_MS);
    cr_expect_eq(told->ctrl_rare_ns, 2 * NS_PER_MS);
    cr_expect_eq(told->fixed_ns, 5 * NS_PER_MS);
    cr_expect_eq(told->fixed_rare_ns, 7 * NS_PER_MS / 2);
    report(&play, "slow", READY, 24 * NS_PER_MS); /* of that a twelfth at most */
    play_pass(&play, 100 * NS_PER_MS);
    cr_expect_eq(told->ctrl_ns, 2 * NS_PER_MS);
    cr_expect_eq(told->ctrl_rare_ns, NS_PER_MS);
    cr_expect_eq(told->fixed_ns, 2 * NS_PER_MS);
    cr_expect_eq(told->fixed_rare_ns, NS_PER_MS / 2);
    report(&play, "quick", READY, 6 * NS_PER_MS);
    play_pass(&play, 100 * NS_PER_MS);
    cr_expect_eq(told->ctrl_ns, NS_PER_MS / 2);
    cr_expect_eq(told->ctrl_rare_ns, 0);
    cr_expect_eq(told->fixed_ns, NS_PER_MS / 2);
    cr_expect_eq(told->fixed_rare_ns, 0);
    cr_expect(play_dispose(&play));
}

/* There is no solver in a play, so a plan fails there, too. */
Test(upkeep, who_stops_makes_no_more_plans)
{
    play_t play;
    play_init(&play, "fermata");
    play_watch(&play);
    cr_expect_eq(control_plan(play.control, play.now_ns, true, NULL, NULL), STATUS_UNAVAILABLE);
    cr_expect_str_eq(play_seen(&play), "solve");
    control_stop(play.control, play.now_ns);
    play_watch(&play);
    cr_expect_eq(control_plan(play.control, play.now_ns, true, NULL, NULL), STATUS_UNAVAILABLE);
    cr_expect_str_eq(play_seen(&play), "-");
    play_ends(&play);
    cr_expect(play_dispose(&play));
}
