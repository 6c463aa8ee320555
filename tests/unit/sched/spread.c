/*
 * Clients that wait for their answers come back together. What they ask goes to all GPUs that are free, not to one of them as one batch.
 * Model R has l(b) = b + 5 and an SLO of 40; it has learned that 6 requests are all that come.
 */
#include "play.h"
#include "sched/core.h"

#include <criterion/criterion.h>

enum { CLIENTS = 6 };

/* What the slow loop would have found. It has run, and does so again at 20. */
static void learn(play_t *play, uint32_t spread)
{
    shard_t *shard = &play->sched->shards[0];
    play_until(play, 0);
    shard->crowd.all = CLIENTS;
    shard->plan.min_batch = 1;
    shard->plan.spread = spread;
    shard->plan.spread_streams = false;
}

static void start(play_t *play, uint32_t gpus, uint32_t spread)
{
    play_start_inflight(play, "fermata", NULL, gpus, 4);
    play_model(play, 0, 'R', 1, 5, 40);
    learn(play, spread);
}

/* On GPUs where rows may join a batch. */
static void start_stretching(play_t *play, uint32_t gpus, uint32_t spread)
{
    const sched_inside_t quarters = {.stages = 4, .until = {250, 500, 750, 1000}};
    err_t err;
    start(play, gpus, spread);
    cr_assert_eq(sched_set_inside(play->sched, 0, 0, &quarters, &err), STATUS_OK, "%s", err.text);
    for (uint32_t g = 0; g < gpus; g++)
        cr_assert_eq(sched_set_gpu_mode(play->sched, 0, g, &(sched_gpu_mode_t){.stretches = true}),
                     STATUS_OK);
    learn(play, spread);
}

static void expect(play_t *play, const char *schedule)
{
    play_arrive(play, 0, 1, 0, CLIENTS);
    cr_expect_str_eq(play_until(play, 15), schedule);
    play_stop(play);
}

Test(spread, over_all_gpus)
{
    play_t play;
    start(&play, 3, 3);
    expect(&play, "1 gpu1 R1-R2 until 8\n"
                  "1 gpu2 R3-R4 until 8\n"
                  "1 gpu3 R5-R6 until 8\n");
}

Test(spread, not_over_what_others_need)
{
    play_t play;
    start(&play, 3, 2);
    expect(&play, "1 gpu1 R1-R3 until 9\n"
                  "1 gpu2 R4-R6 until 9\n");
}

Test(spread, not_unless_it_is_planned)
{
    play_t play;
    start(&play, 3, 0);
    expect(&play, "1 gpu1 R1-R6 until 12\n");
}

/* Who would come while larger batches are waited for? */
Test(spread, however_large_batches_are_planned)
{
    play_t play;
    start(&play, 3, 3);
    play.sched->shards[0].plan.min_batch = PROFILE_BATCH_MAX;
    expect(&play, "1 gpu1 R1-R2 until 8\n"
                  "1 gpu2 R3-R4 until 8\n"
                  "1 gpu3 R5-R6 until 8\n");
}

/* All come at 1, to be taken apart. */
static void expect_broken_up(uint32_t gpus, uint32_t spread, uint32_t max_batch, const char *schedule)
{
    play_t play;
    start(&play, gpus, spread);
    play.sched->shards[0].plan.max_batch = max_batch;
    expect(&play, schedule);
}

Test(spread, one_gpu_takes_the_parts_in_turn)
{
    expect_broken_up(1, 1, 4,
                     "1 gpu1 R1-R4 until 10\n"
                     "10 gpu1 R5-R6 until 17\n");
    expect_broken_up(1, 1, 6, "1 gpu1 R1-R6 until 12\n");
}

/* The others would gain more by joining the first two than those lose. */
Test(spread, the_parts_do_not_join)
{
    play_t play;
    start_stretching(&play, 1, 1);
    play.sched->shards[0].plan.max_batch = 2;
    expect(&play, "1 gpu1 R1-R2 until 8\n"
                  "8 gpu1 R3-R4 until 15\n"
                  "15 gpu1 R5-R6 until 22\n");
}

Test(spread, the_parts_are_no_larger_than_is_planned)
{
    expect_broken_up(2, 2, 2,
                     "1 gpu1 R1-R2 until 8\n"
                     "1 gpu2 R3-R4 until 8\n"
                     "8 gpu1 R5-R6 until 15\n");
}

Test(spread, only_over_those_that_it_may_use)
{
    play_t play;
    start(&play, 3, 3);
    cr_assert_eq(sched_allow(play.sched, 0, 0, 0, false), STATUS_OK);
    expect(&play, "1 gpu2 R1-R3 until 9\n"
                  "1 gpu3 R4-R6 until 9\n");
}

/* Whoever else comes would find no GPU. */
Test(spread, not_while_one_has_not_asked)
{
    play_t play;
    start(&play, 3, 3);
    play_arrive(&play, 0, 1, 0, CLIENTS - 1);
    cr_expect_str_eq(play_until(&play, 15), "1 gpu1 R1-R5 until 11\n");
    play_stop(&play);
}

/* A request that is alone would go at once, so there are GPUs for each. */
Test(spread, a_stream_that_starts_at_once)
{
    play_t play;
    start(&play, 3, 3);
    play.sched->shards[0].crowd.all = 0;
    play.sched->shards[0].plan.spread_streams = true;
    expect(&play, "1 gpu1 R1-R2 until 8\n"
                  "1 gpu2 R3-R4 until 8\n"
                  "1 gpu3 R5-R6 until 8\n");
}

/* Four would gain more by joining the first two than those lose, but there are GPUs of their own for them. */
Test(spread, rather_than_join)
{
    play_t play;
    start_stretching(&play, 3, 3);
    expect(&play, "1 gpu1 R1-R2 until 8\n"
                  "1 gpu2 R3-R4 until 8\n"
                  "1 gpu3 R5-R6 until 8\n");
}

Test(spread, the_last_part_may_be_smaller)
{
    const candidate_t seven = {.batch = 7, .part = 1}, whole = {.batch = 7}, few = {.batch = 7, .part = 9};

    cr_expect_eq(candidate_share(&seven, 3), 3);
    cr_expect_eq(candidate_share(&seven, 1), 7);
    cr_expect_eq(candidate_share(&seven, 20), 1);
    cr_expect_eq(candidate_share(&whole, 3), 7);
    cr_expect_eq(candidate_share(&few, 3), 7);
}
