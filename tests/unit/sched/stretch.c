/*
 * GPUs that do more than run one batch after the other: rows that join a running batch, batches side by side. One model
 * with l(b) = b + 5 in four stages of equal time, an SLO of 12.
 */
#include "play.h"

#include <criterion/criterion.h>

static const sched_inside_t quarters = {.stages = 4, .until = {250, 500, 750, 1000}};

static void start(play_t *play, const char *policy, sched_gpu_mode_t mode, sched_inside_t inside,
                  uint32_t gpus)
{
    err_t err;
    play_start_inflight(play, policy, NULL, gpus, 4);
    for (uint32_t m = 0; m < 2; m++) {
        play_model(play, m, m ? 'S' : 'R', 1, 5, 12);
        cr_assert_eq(sched_set_inside(play->sched, 0, m, &inside, &err), STATUS_OK, "%s", err.text);
    }
    for (uint32_t g = 0; g < gpus; g++)
        cr_assert_eq(sched_set_gpu_mode(play->sched, 0, g, &mode), STATUS_OK);
}

static void start_stretching(play_t *play, sched_inside_t inside)
{
    start(play, "eager", (sched_gpu_mode_t){.stretches = true}, inside, 1);
}

/* R2 comes in the first stage of R1: from 1.5 on it goes through that stage while R1 waits, 1.5 for a
 * quarter of l(1), and from 3 on both go through the other three, 5.25 of l(2) = 7. R3 comes while R2
 * still catches up, R4 when both are in their second stage, which ends at 4.75: half of l(1) for R3, half
 * of l(3), is until 11.75, and R4 besides would be too late for R1. */
Test(stretch, rows_catch_up_and_join)
{
    play_t play;
    start_stretching(&play, quarters);
    play_arrive(&play, 0, 0, 0.5, 3);
    play_arrive_slo(&play, 0, 3.1, 20);
    cr_assert_str_eq(play_until(&play, 13), "0 gpu1 R1 until 6\n"
                                            "0.5 gpu1 R2 join until 8.25\n"
                                            "3.1 gpu1 R3 join until 11.75\n"
                                            "11.75 gpu1 R4 until 17.75\n");
    sched_model_stats_t stats;
    cr_assert(sched_model_stats(play.sched, 0, &stats));
    cr_expect_eq(stats.batches, 4);
    cr_expect_eq(stats.stretches, 2);
    cr_expect_eq(stats.in_flight, 1);
    cr_expect_eq((int64_t)stats.busy_ns, play_ns(17.75) + 2, "%lld", (long long)stats.busy_ns);
    play_stop(&play);
}

/* As above, but the GPU takes two at a time: R3 waits for them. */
Test(stretch, a_gpu_takes_as_many_as_its_mode_says)
{
    play_t play;
    sched_gpu_mode_t wide = {.inflight = 5};
    start(&play, "eager", (sched_gpu_mode_t){.stretches = true, .inflight = 2}, quarters, 1);
    play_arrive(&play, 0, 0, 0.5, 2);
    play_arrive_slo(&play, 0, 3.1, 20);
    cr_assert_str_eq(play_until(&play, 13), "0 gpu1 R1 until 6\n"
                                            "0.5 gpu1 R2 join until 8.25\n"
                                            "8.25 gpu1 R3 until 14.25\n");
    cr_expect_eq(sched_set_gpu_mode(play.sched, play_ns(13), 0, &wide), STATUS_INVALID_ARGUMENT);
    play_stop(&play);
}

Test(stretch, a_gpu_that_runs_whole_batches_is_left_alone)
{
    play_t play;
    start(&play, "eager", (sched_gpu_mode_t){0}, quarters, 1);
    play_arrive(&play, 0, 0, 0.5, 2);
    cr_assert_str_eq(play_until(&play, 13), "0 gpu1 R1 until 6\n"
                                            "6 gpu1 R2 until 12\n");
    play_stop(&play);
}

Test(stretch, not_beyond_the_deadline_of_the_batch)
{
    play_t play;
    start_stretching(&play, quarters);
    play_arrive_slo(&play, 0, 0, 8); /* with R2 it would end at 8.25 */
    play_arrive_slo(&play, 0, 0.5, 20);
    cr_assert_str_eq(play_until(&play, 6), "0 gpu1 R1 until 6\n"
                                           "6 gpu1 R2 until 12\n");
    play_stop(&play);
}

Test(stretch, not_in_the_last_stage_nor_after_the_wait)
{
    play_t play;
    start_stretching(&play, quarters);
    play_arrive(&play, 0, 0, 4.5, 2);
    cr_assert_str_eq(play_until(&play, 6), "0 gpu1 R1 until 6\n"
                                           "6 gpu1 R2 until 12\n");
    play_stop(&play);

    sched_inside_t inside = quarters;
    inside.comp_wait_ns = play_ns(0.4);
    start_stretching(&play, inside);
    play_arrive(&play, 0, 0, 0.4, 3);
    cr_assert_str_eq(play_until(&play, 1), "0 gpu1 R1 until 6\n"
                                           "0.4 gpu1 R2 join until 8.25\n");
    play_stop(&play);
}

/* In its second stage R1 would end at 9.5 with R2, which is 3.5 later, and R2 2.5 earlier than behind it:
 * it waits. With R3 besides 10.5, 4.5 later, and both 2.5 earlier, which is 5. Where a GPU has slots, too. */
Test(stretch, rows_join_when_they_gain_more_than_the_batch_loses)
{
    for (uint32_t slots = 1; slots <= 2; slots++) {
        play_t play;
        start(&play, "eager", (sched_gpu_mode_t){.stretches = true, .slots = slots}, quarters, 1);
        play_arrive_slo(&play, 0, 0, 30);
        play_arrive_slo(&play, 0, 2, 30);
        play_arrive_slo(&play, 0, 2.5, 30);
        cr_assert_str_eq(play_until(&play, 8), "0 gpu1 R1 until 6\n"
                                               "2.5 gpu1 R2-R3 join until 10.5\n");
        play_stop(&play);
    }
}

Test(stretch, not_while_another_model_waits_for_a_gpu)
{
    play_t play;
    start_stretching(&play, quarters);
    play_arrive(&play, 0, 0, 1, 1);
    play_arrive(&play, 1, 0.1, 1, 1);
    play_arrive(&play, 0, 0.2, 1, 1);
    cr_assert_str_eq(play_until(&play, 6), "0 gpu1 R1 until 6\n"
                                           "6 gpu1 S1 until 12\n");
    play_stop(&play);
}

/* Deferral: R1 could be held until 12 - l(2) = 5. Here one row may catch up in the first stage, until 12 - 8.25 = 3.75,
 * and R2 does: a quarter of l(1) until 5.25, another until 6.75, and three quarters of l(2) besides. */
Test(stretch, a_deferred_batch_is_let_go_while_rows_may_still_join)
{
    play_t play;
    start(&play, "deferred", (sched_gpu_mode_t){.stretches = true}, quarters, 1);
    play_arrive(&play, 0, 0, 4, 2);
    cr_assert_str_eq(play_until(&play, 12), "3.75 gpu1 R1 until 9.75\n"
                                            "4 gpu1 R2 join until 12\n");
    play_stop(&play);

    start(&play, "deferred", (sched_gpu_mode_t){0}, quarters, 1);
    play_arrive(&play, 0, 0, 4, 2);
    cr_assert_str_eq(play_until(&play, 12), "4 gpu1 R1-R2 until 11\n");
    play_stop(&play);
}

/* As above, but rows that come in the middle of the first stage, 0.75 after R1 began, may not join; and four rows, of which
 * none ever gain as much by others as they lose: those are held until 30 - l(5). */
Test(stretch, a_batch_that_no_rows_may_join_is_not_let_go_for_them)
{
    play_t play;
    sched_inside_t inside = quarters;
    inside.comp_wait_ns = play_ns(0.7);
    start(&play, "deferred", (sched_gpu_mode_t){.stretches = true}, inside, 1);
    play_arrive(&play, 0, 0, 4, 2);
    cr_expect_str_eq(play_until(&play, 12), "4 gpu1 R1-R2 until 11\n");
    play_stop(&play);

    start(&play, "deferred", (sched_gpu_mode_t){.stretches = true}, quarters, 1);
    for (uint32_t i = 0; i < 4; i++)
        play_arrive_slo(&play, 0, 0, 30);
    cr_expect_str_eq(play_until(&play, 29), "20 gpu1 R1-R4 until 29\n");
    play_stop(&play);
}

/* The parts of a split batch may end apart; what ends last frees the GPU. */
Test(stretch, one_of_two_that_run_together_ends_first)
{
    play_t play;
    start_stretching(&play, quarters);
    play_arrive(&play, 0, 0, 0.5, 2);
    play_until(&play, 2);
    cr_assert_eq(play.events[0].kind, PLAY_DONE);
    uint64_t first = play.events[0].batch_id, second = play.events[1].batch_id;
    cr_assert(sched_batch_done(play.sched, play_ns(2), first, play_ns(2)));
    cr_assert_null(sched_validate(play.sched));
    play.count = 0;
    play_arrive(&play, 1, 3, 1, 1);
    cr_assert_str_eq(play_until(&play, 8.2), "0 gpu1 R1 until 6\n"
                                             "0.5 gpu1 R2 join until 8.25\n");
    cr_assert(sched_batch_done(play.sched, play_ns(8.2), second, play_ns(8.4)));
    cr_assert_str_eq(play_until(&play, 8.6), "0 gpu1 R1 until 6\n"
                                             "0.5 gpu1 R2 join until 8.25\n"
                                             "8.4 gpu1 S1 until 14.4\n");
    play_stop(&play);
}

/* A batch of b keeps 0.1 + 0.3 b busy. R1 and S1 leave too little of the first GPU for a third, and do not
 * slow each other. R2 and R3 go beside S2, slowed by 1.1 until S2 ends at 8.05, and have run for 5.5 of
 * their 7 then. When R1 has ended, S3 takes its place. */
Test(stretch, batches_side_by_side_slow_each_other)
{
    play_t play;
    start(&play, "eager", (sched_gpu_mode_t){.slots = 3},
          (sched_inside_t){.busy_fixed = 100, .busy_row = 300}, 2);
    play_arrive(&play, 0, 0, 1, 1);
    play_arrive(&play, 1, 0.5, 1, 2);
    play_arrive(&play, 0, 2, 0, 2);
    play_arrive(&play, 1, 2.5, 1, 1);
    cr_assert_str_eq(play_until(&play, 7.5), "0 gpu1 R1 until 6\n"
                                             "0.5 gpu1 S1 until 6.5\n"
                                             "1.5 gpu2 S2 until 7.5\n"
                                             "2 gpu2 R2-R3 until 9.55\n"
                                             "6 gpu1 S3 until 12\n");
    play_stop(&play);
}

/* S1 beside R1 would slow both by 1.4: R1 would end at 8, and must by 7. */
Test(stretch, no_batch_beside_one_that_would_miss)
{
    play_t play;
    start(&play, "eager", (sched_gpu_mode_t){.slots = 2},
          (sched_inside_t){.busy_fixed = 400, .busy_row = 300}, 1);
    play_arrive_slo(&play, 0, 0, 7);
    play_arrive(&play, 1, 1, 1, 1);
    cr_assert_str_eq(play_until(&play, 7), "0 gpu1 R1 until 6\n"
                                           "6 gpu1 S1 until 12\n");
    play_stop(&play);
}

/* Deferral: R1 keeps 0.6 busy and R1-R2 0.9, which beside 0.75 takes l(2) 1.65 times as long, and a
 * sixteenth: held until 15 - 12.272, it has the time to let S1 in, which was held likewise, and both are
 * slowed by 1.2 until R1 ends. Held until 15 - l(2) = 8 it could not be slowed any more, and S1 would be
 * late. */
Test(stretch, a_deferred_batch_is_let_go_while_it_may_still_be_slowed)
{
    static const uint32_t slots[] = {2, 1};
    static const char *const texts[] = {"2.728 gpu1 R1 until 8.728\n"
                                        "3.228 gpu1 S1 until 10.328\n",
                                        "8 gpu1 R1 until 14\n"
                                        "9.5 drop S1 expired\n"};
    for (uint32_t i = 0; i < 2; i++) {
        play_t play;
        start(&play, "deferred", (sched_gpu_mode_t){.slots = slots[i]},
              (sched_inside_t){.busy_fixed = 300, .busy_row = 300}, 1);
        play_arrive_slo(&play, 0, 0, 15);
        play_arrive_slo(&play, 1, 0.5, 15);
        cr_expect_str_eq(play_until(&play, 12), texts[i]);
        play_stop(&play);
    }
}

/* Two that keep 0.6 busy go side by side, two of 0.65 do not, however late they may be. */
Test(stretch, what_would_fill_a_gpu_too_far_waits)
{
    static const uint32_t fixed[] = {300, 350};
    static const char *const texts[] = {"0 gpu1 R1 until 6\n"
                                        "1 gpu1 S1 until 8\n",
                                        "0 gpu1 R1 until 6\n"
                                        "6 gpu1 S1 until 12\n"};
    for (uint32_t i = 0; i < 2; i++) {
        play_t play;
        start(&play, "eager", (sched_gpu_mode_t){.slots = 2},
              (sched_inside_t){.busy_fixed = fixed[i], .busy_row = 300}, 1);
        play_arrive_slo(&play, 0, 0, 40);
        play_arrive_slo(&play, 1, 1, 40);
        cr_expect_str_eq(play_until(&play, 6.5), texts[i]);
        play_stop(&play);
    }
}

/* Each fills four fifths of the GPU, of which as much again may be granted for the next group: three of
 * the four are. */
Test(stretch, what_waits_for_the_next_group_is_granted_beyond_what_fills_the_gpu)
{
    static const uint32_t ahead[] = {0, SCHED_WHOLE}, granted[] = {1, 3};
    for (uint32_t i = 0; i < 2; i++) {
        play_t play;
        start(&play, "eager", (sched_gpu_mode_t){.slots = 4, .ahead = ahead[i]},
              (sched_inside_t){.busy_fixed = 800}, 1);
        for (uint32_t n = 0; n < 4; n++)
            play_arrive_slo(&play, n % 2, 1 + n, 100);
        const char *text = play_until(&play, 5);
        uint32_t count = 0;
        for (const char *at = text; (at = strstr(at, "gpu1")); at++)
            count++;
        cr_expect_eq(count, granted[i], "%s", text);
        play_stop(&play);
    }
}

Test(stretch, what_makes_no_sense_is_refused)
{
    play_t play;
    err_t err;
    start_stretching(&play, quarters);
    sched_inside_t falls = {.stages = 2, .until = {1001, 1000}}, open = {.stages = 2, .until = {500, 900}};
    sched_inside_t many = {.stages = SCHED_STAGES_MAX + 1};
    cr_expect_eq(sched_set_inside(play.sched, 0, 0, &falls, &err), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(sched_set_inside(play.sched, 0, 0, &open, &err), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(sched_set_inside(play.sched, 0, 0, &many, &err), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(sched_set_inside(play.sched, 0, 9, &quarters, &err), STATUS_NOT_FOUND);
    cr_expect_eq(sched_set_gpu_mode(play.sched, 0, 9, &(sched_gpu_mode_t){0}), STATUS_NOT_FOUND);
    sched_gpu_mode_t wide = {.slots = SCHED_SLOTS_MAX + 1};
    cr_expect_eq(sched_set_gpu_mode(play.sched, 0, 0, &wide), STATUS_INVALID_ARGUMENT);
    play_arrive(&play, 0, 0, 1, 1);
    play_until(&play, 1);
    cr_expect_eq(sched_set_gpu_mode(play.sched, play_ns(1), 0, &(sched_gpu_mode_t){0}), STATUS_UNAVAILABLE);
    play_stop(&play);
}
