/*
 * While enough GPUs are free a batch goes before it is ready, and leaves the others to those whose time has come. Models R and B have
 * l(b) = b + 5 and an SLO of 40: a batch of one that is held goes 33 after it came.
 */
#include "play.h"
#include "sched/core.h"

#include <criterion/criterion.h>

/* What the slow loop would have found. It has run, and does so again at 20, as if nothing had come. */
static void plan(play_t *play, uint32_t idle, double margin)
{
    for (uint32_t m = 0; m < 2; m++) {
        shard_plan_t *of = &play->sched->shards[m].plan;
        of->idle = idle;
        of->idle_margin_ns = (int64_t)(margin * 1e6);
        of->margin_ns = 0;
        of->min_batch = PROFILE_BATCH_MAX;
    }
}

static void start(play_t *play, uint32_t gpus, uint32_t idle, double margin)
{
    play_start(play, "fermata", NULL, gpus);
    play_model(play, 0, 'R', 1, 5, 40);
    play_model(play, 1, 'B', 1, 5, 40);
    play_until(play, 0);
    plan(play, idle, margin);
}

static void expect(play_t *play, double until, const char *schedule)
{
    cr_expect_str_eq(play_until(play, until), schedule);
    play_stop(play);
}

/* R1 comes at 1 and B1 at 2. */
static void start_both(play_t *play, uint32_t gpus, uint32_t idle, double margin)
{
    start(play, gpus, idle, margin);
    play_arrive(play, 0, 1, 0, 1);
    play_arrive(play, 1, 2, 0, 1);
}

Test(reserve, nobody_goes_early_unless_it_is_planned)
{
    play_t play;
    start(&play, 3, 0, 34);
    play_arrive(&play, 0, 1, 0, 1);
    expect(&play, 19, "");
}

/* B1 goes as R1 has ended. */
Test(reserve, the_last_gpu_is_left)
{
    play_t play;
    start_both(&play, 2, 2, 34);
    expect(&play, 19,
           "1 gpu1 R1 until 7\n"
           "7 gpu1 B1 until 13\n");
}

Test(reserve, as_many_are_left_as_is_planned)
{
    play_t play;
    start_both(&play, 3, 3, 34);
    expect(&play, 6, "1 gpu1 R1 until 7\n");
}

/* R1 runs when B1's time has come, which it was only 6 before. */
Test(reserve, whose_time_has_come_takes_it)
{
    play_t play;
    start(&play, 2, 2, 34);
    play_arrive(&play, 0, 1, 0, 1);
    play_arrive_slo(&play, 1, 2, 11);
    expect(&play, 19,
           "1 gpu1 R1 until 7\n"
           "6 gpu2 B1 until 12\n");
}

/* Most of the slack is waited for. With one that is held until 34 that is until 12. */
Test(reserve, not_before_its_margin)
{
    play_t play;
    start(&play, 3, 2, 22);
    play_arrive(&play, 0, 1, 0, 1);
    expect(&play, 19, "12 gpu1 R1 until 18\n");
}

/* From 13 on B might go, but then one GPU is not enough. */
Test(reserve, nor_then_if_too_few_are_free)
{
    play_t play;
    start_both(&play, 2, 2, 22);
    expect(&play, 19,
           "12 gpu1 R1 until 18\n"
           "18 gpu1 B1 until 24\n");
}

Test(reserve, what_comes_meanwhile_goes_with_it)
{
    play_t play;
    start(&play, 3, 2, 22);
    play_arrive(&play, 0, 1, 2, 3);
    expect(&play, 19, "10 gpu1 R1-R3 until 18\n");
}

Test(reserve, the_more_urgent_goes_first)
{
    play_t play;
    start(&play, 2, 2, 34);
    play_arrive(&play, 0, 1, 0, 1);
    play_arrive(&play, 0, 2, 0, 1);
    play_arrive_slo(&play, 1, 3, 20);
    expect(&play, 19,
           "1 gpu1 R1 until 7\n"
           "7 gpu1 B1 until 13\n"
           "13 gpu1 R2 until 19\n");
}

/* Those that others may use are none of its own. */
Test(reserve, only_gpus_that_it_may_use_count)
{
    play_t play;
    start_both(&play, 3, 2, 34);
    cr_assert_eq(sched_allow(play.sched, 0, 0, 0, false), STATUS_OK);
    cr_assert_eq(sched_allow(play.sched, 0, 0, 1, false), STATUS_OK);
    expect(&play, 19, "2 gpu1 B1 until 8\n");
}
