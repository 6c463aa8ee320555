/*
 * Small cases, one schedule per policy, worked out by hand.
 */
#include "play.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Two models, one GPU. A is urgent and small, B patient and large. */
static void two_models(play_t *play, const char *policy, const char *params)
{
    play_start(play, policy, params, 1);
    play_model(play, 0, 'A', 1, 2, 10);
    play_model(play, 1, 'B', 1, 4, 30);
    play_arrive(play, 1, 0, 1, 3);
    play_arrive(play, 0, 1, 1, 3);
}

Test(policies, eager_takes_what_is_there_the_most_urgent_first)
{
    play_t play;
    two_models(&play, "eager", NULL);
    cr_assert_str_eq(play_until(&play, 60), "0 gpu1 B1 until 5\n"
                                            "5 gpu1 A1-A3 until 10\n"
                                            "10 gpu1 B2-B3 until 16\n");
    play_stop(&play);
}

/* A's frontrun is 11 - l(2) = 7, then with A2 6, with A3 5. B's is 30 - l(4) = 22. */
Test(policies, deferred_waits_until_one_more_would_not_fit)
{
    play_t play;
    two_models(&play, "deferred", NULL);
    cr_assert_str_eq(play_until(&play, 60), "5 gpu1 A1-A3 until 10\n"
                                            "22 gpu1 B1-B3 until 29\n");
    play_stop(&play);
}

/* B1 has waited 2 at 2; A1, from 1, would at 3 but the GPU is busy until 9: then only A3 can still make it. */
Test(policies, timeout_waits_k_from_the_first_arrival)
{
    play_t play;
    two_models(&play, "timeout", "k_ms=2");
    cr_assert_str_eq(play_until(&play, 60), "2 gpu1 B1-B3 until 9\n"
                                            "8 drop A1 expired\n"
                                            "9 gpu1 A2 until 12\n"
                                            "10 drop A3 expired\n");
    play_stop(&play);
}

Test(policies, timeout_goes_at_once_when_full_or_of_a_preferred_size)
{
    play_t play;
    profile_t profile;
    err_t err;
    cr_assert_eq(profile_from_line(&profile, play_ns(1), play_ns(2), 4, &err), STATUS_OK);
    play_start(&play, "timeout", "k_ms=20", 4);
    play_model_opts(&play, 0, 'F', &profile, (sched_model_opts_t){.slo_ns = play_ns(100)});
    play_model_opts(&play, 1, 'P', &profile,
                    (sched_model_opts_t){.slo_ns = play_ns(100), .preferred = 1 << 1});
    play_model_opts(&play, 2, 'O', &profile,
                    (sched_model_opts_t){.slo_ns = play_ns(100), .timeout_ns = play_ns(3)});
    play_arrive(&play, 0, 0, 1, 5);
    play_arrive(&play, 1, 0.5, 1, 3);
    play_arrive(&play, 2, 0.75, 1, 1);
    cr_assert_str_eq(play_until(&play, 60), "1.5 gpu1 P1-P2 until 5.5\n"
                                            "3 gpu2 F1-F4 until 9\n"
                                            "3.75 gpu3 O1 until 6.75\n"
                                            "22.5 gpu1 P3 until 25.5\n"
                                            "24 gpu2 F5 until 27\n");
    play_stop(&play);
}

Test(policies, clockwork_offers_every_size_or_powers_of_two)
{
    play_t play;
    two_models(&play, "clockwork", NULL);
    cr_assert_str_eq(play_until(&play, 60), "0 gpu1 B1 until 5\n"
                                            "5 gpu1 A1-A3 until 10\n"
                                            "10 gpu1 B2-B3 until 16\n");
    play_stop(&play);
    two_models(&play, "clockwork", "sizes=pow2");
    cr_assert_str_eq(play_until(&play, 60), "0 gpu1 B1 until 5\n"
                                            "5 gpu1 A1-A2 until 9\n"
                                            "9 gpu1 A3 until 12\n"
                                            "12 gpu1 B2-B3 until 18\n");
    play_stop(&play);
}

/* R1 can wait for a batch of two at most, the others for one of five. */
static void urgent_head(play_t *play, const char *params, double head_slo, double slo)
{
    play_start(play, "clockwork", params, 2);
    play_model(play, 0, 'R', 1, 2, 10);
    play_model(play, 1, 'X', 0, 10, 10);
    play_arrive(play, 1, 0, 0.5, 2); /* GPU 1 is busy until 10, GPU 2 until 10.5 */
    play_arrive_slo(play, 0, 1, head_slo);
    for (int i = 0; i < 5; i++)
        play_arrive_slo(play, 0, 1, slo);
}

/* At 10 the latest starts are 11 - l(0) for R1 alone (13.9 - 3 = 10.9), 14.5, 13.5, 12.5, 11.5 and 10.5
 * for 1 to 5 of those behind it. R1 stays for the next GPU. */
Test(policies, clockwork_takes_the_earliest_latest_start_wherever_it_begins)
{
    play_t play;
    urgent_head(&play, NULL, 12.9, 16.5);
    cr_assert_str_eq(play_until(&play, 60), "0 gpu1 X1 until 10\n"
                                            "0.5 gpu2 X2 until 10.5\n"
                                            "10 gpu1 R2-R6 until 17\n"
                                            "10.5 gpu2 R1 until 13.5\n");
    play_stop(&play);
}

/* As before, but those behind R1 have time: R1 with R2 (14 - l(2) = 10) before all five (21 - l(5) = 14). */
Test(policies, clockwork_takes_the_candidate_or_the_largest_of_its_model)
{
    play_t play;
    urgent_head(&play, NULL, 13, 20);
    cr_assert_str_eq(play_until(&play, 60), "0 gpu1 X1 until 10\n"
                                            "0.5 gpu2 X2 until 10.5\n"
                                            "10 gpu1 R1-R2 until 14\n"
                                            "10.5 gpu2 R3-R6 until 16.5\n");
    play_stop(&play);
    urgent_head(&play, "take=largest", 13, 20);
    cr_assert_str_eq(play_until(&play, 60), "0 gpu1 X1 until 10\n"
                                            "0.5 gpu2 X2 until 10.5\n"
                                            "10 gpu1 R2-R6 until 17\n"
                                            "10.5 gpu2 R1 until 13.5\n");
    play_stop(&play);
}

/* Deadlines out of order: R3 is the head, and those behind it are R2, R1, R4, R5. Four of them must start
 * by 10.75, R3 alone by 10.9. */
Test(policies, clockwork_walks_the_queue_by_deadline)
{
    play_t play;
    play_start(&play, "clockwork", NULL, 1);
    play_model(&play, 0, 'R', 1, 2, 10);
    play_model(&play, 1, 'X', 0, 10, 10);
    play_arrive(&play, 1, 0, 0, 1);
    play_arrive_slo(&play, 0, 1, 16);
    play_arrive_slo(&play, 0, 1, 15.75);
    play_arrive_slo(&play, 0, 2, 11.9);
    play_arrive_slo(&play, 0, 3, 14);
    play_arrive_slo(&play, 0, 4, 13.25);
    cr_assert_str_eq(play_until(&play, 60), "0 gpu1 X1 until 10\n"
                                            "10 gpu1 R2,R1,R4-R5 until 16\n"
                                            "10.9 drop R3 expired\n");
    play_stop(&play);
}

/* A request every 1.5 ms for one GPU. */
static const char *clockwork_on_one_gpu(play_t *play, const char *params)
{
    play_start(play, "clockwork", params, 1);
    play_model(play, 0, 'R', 1, 2, 12);
    play_arrive(play, 0, 0, 1.5, 7);
    return play_until(play, 60);
}

/* R2 is committed at 1.5 for the GPU that is free at 3, so R3 cannot join it any more. With 3 ms of the
 * SLO kept back R6 must end by 16.5, too soon for a batch with R7, and R7 by 18, too soon for one behind
 * it. */
Test(policies, clockwork_commits_ahead_and_keeps_a_buffer)
{
    play_t play;
    cr_assert_str_eq(clockwork_on_one_gpu(&play, NULL), "0 gpu1 R1 until 3\n"
                                                        "3 gpu1 R2-R3 until 7\n"
                                                        "7 gpu1 R4-R5 until 11\n"
                                                        "11 gpu1 R6-R7 until 15\n");
    play_stop(&play);
    cr_assert_str_eq(clockwork_on_one_gpu(&play, "ahead_ms=3"), "0 gpu1 R1 until 3\n"
                                                                "3 gpu1 R2 until 6\n"
                                                                "6 gpu1 R3 until 9\n"
                                                                "9 gpu1 R4-R5 until 13\n"
                                                                "13 gpu1 R6-R7 until 17\n");
    play_stop(&play);
    cr_assert_str_eq(clockwork_on_one_gpu(&play, "ahead_ms=3,buffer_ms=3"), "0 gpu1 R1 until 3\n"
                                                                            "3 gpu1 R2 until 6\n"
                                                                            "6 gpu1 R3 until 9\n"
                                                                            "9 gpu1 R4-R5 until 13\n"
                                                                            "13 gpu1 R6 until 16\n"
                                                                            "15 drop R7 expired\n");
    play_stop(&play);
}

/* Twice what one GPU can do. Dropping only the hopeless leaves heads that force small batches; the window drop settles
 * near the batches of the staggered schedule, 2·l(b) <= 24, about 50 of them. */
Test(policies, window_drop_gives_up_heads_to_keep_batches_large)
{
    play_t play;
    play_start(&play, "deferred", "drop=window", 1);
    play_model(&play, 0, 'R', 1, 5, 24);
    play_arrive(&play, 0, 0, 0.5, 1200);
    play_until(&play, 590);
    size_t grants = play.grants, drops = play.drops;
    cr_assert_gt(drops, 500);
    cr_assert_leq(grants, 66, "%zu batches: they are small", grants);
    play_stop(&play);
    play_start(&play, "deferred", "drop=head", 1);
    play_model(&play, 0, 'R', 1, 5, 24);
    play_arrive(&play, 0, 0, 0.5, 1200);
    play_until(&play, 590);
    cr_assert_gt(play.grants, grants + 20, "%zu batches: dropping only the hopeless makes small batches",
                 play.grants);
    play_stop(&play);
}

Test(policies, shepherd_prefers_the_larger_batch)
{
    play_t play;
    play_start(&play, "shepherd", "preempt=off", 1);
    play_model(&play, 0, 'A', 1, 2, 40);
    play_model(&play, 1, 'B', 1, 4, 60);
    play_arrive(&play, 0, 0, 1, 2);
    play_arrive(&play, 1, 0.5, 0.5, 3);
    cr_assert_str_eq(play_until(&play, 60), "0 gpu1 A1 until 3\n"
                                            "3 gpu1 B1-B3 until 10\n"
                                            "10 gpu1 A2 until 13\n");
    play_stop(&play);
}

/* Shepherd's Figure 3: each request takes 10 and may take 10. On one GPU 7 of 10 are lost, on six none. */
static size_t figure_3_drops(uint32_t gpus)
{
    play_t play;
    play_start(&play, "shepherd", NULL, gpus);
    play_model(&play, 0, 'R', 10, 0, 10);
    play_arrive(&play, 0, 0, 0, 3);
    play_arrive(&play, 0, 40, 0, 1);
    play_arrive(&play, 0, 80, 0, 6);
    play_until(&play, 200);
    size_t drops = play.drops;
    play_stop(&play);
    return drops;
}

Test(policies, shepherd_figure_3)
{
    cr_assert_eq(figure_3_drops(1), 7);
    cr_assert_eq(figure_3_drops(6), 0);
}

/* Shepherd's Figure 4: r must run at once. In scenario A nothing else comes. In B a burst of K comes at 5,
 * as urgent. With preemption both are decided well; without it, B is lost. */
static void figure_4(play_t *play, const char *params, unsigned burst)
{
    play_start(play, "shepherd", params, 1);
    play_model(play, 0, 'R', 0, 10, 10);
    play_arrive(play, 0, 0, 0, 1);
    play_arrive(play, 0, 5, 0, burst);
}

Test(policies, shepherd_figure_4_scenario_a)
{
    play_t play;
    figure_4(&play, "exits=1000000", 0);
    cr_assert_str_eq(play_until(&play, 60), "0 gpu1 R1 until 10\n");
    play_stop(&play);
}

Test(policies, shepherd_figure_4_scenario_b)
{
    play_t play;
    profile_t profile;
    err_t err;
    cr_assert_eq(profile_from_line(&profile, 0, play_ns(10), 256, &err), STATUS_OK);
    play_start(&play, "shepherd", "exits=1000000", 1);
    play_model_opts(&play, 0, 'R', &profile, (sched_model_opts_t){.slo_ns = play_ns(10)});
    play_arrive(&play, 0, 0, 0, 1);
    for (int i = 0; i < 5; i++)
        play_arrive_slo(&play, 0, 5, 10.001); /* the exit point is a moment away */
    cr_assert_str_eq(play_until(&play, 60), "0 gpu1 R1 until 10\n"
                                            "5 preempt gpu1\n"
                                            "5 gpu1 R2-R6 until 15\n"
                                            "5 drop R1 expired\n");
    play_stop(&play);
}

/* R runs from 0 to 12: one exit point is at 6, three are at 3, 6 and 9, and behind the last it runs to its
 * end. With 2 for the way to the worker it runs from 2 on, and being told at 9 it is past the exit point
 * at 8. */
Test(policies, a_batch_stops_at_the_exit_points_inside_its_model)
{
    static const struct {
        uint32_t exits;
        double at, ctrl;
        const char *text;
    } cases[] = {
        {1, 4, 0, "4 preempt gpu1\n6 gpu1 S1-S4 until 7\n"},
        {1, 7, 0, ""},
        {3, 4, 0, "4 preempt gpu1\n6 gpu1 S1-S4 until 7\n"},
        {3, 7, 0, "7 preempt gpu1\n9 gpu1 S1-S4 until 10\n"},
        {3, 10, 0, ""},
        {3, 7, 2, "7 preempt gpu1\n11 gpu1 S1-S4 until 12\n"},
        {0, 4, 0, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        play_t play;
        profile_t profile;
        err_t err;
        cr_assert_eq(profile_from_line(&profile, 0, play_ns(12), 8, &err), STATUS_OK);
        play_start(&play, "shepherd", NULL, 1);
        play_delays(&play, cases[i].ctrl, 0);
        play_model_opts(&play, 0, 'R', &profile,
                        (sched_model_opts_t){.slo_ns = play_ns(60), .exit_points = cases[i].exits});
        play_model(&play, 1, 'S', 0, 1, 50);
        play_arrive(&play, 0, 0, 0, 1);
        play_arrive(&play, 1, cases[i].at, 0, 4);
        const char *text = play_until(&play, cases[i].at);
        cr_expect_str_eq(strchr(text, '\n') + 1, cases[i].text, "%zu: %s", i, text);
        play_stop(&play);
    }
}

/* R runs from 0 to 12 with exit points at 3, 6 and 9 when S comes at 4. Stopped at 6 it costs a half of
 * each row of R that can run behind S, and all of one that cannot; S, which must end by 12, saves all its
 * rows. The factor is 5. */
Test(policies, fermata_stops_a_batch_where_that_saves_much_more_than_it_costs)
{
    static const struct {
        const char *params;
        double slo_r, slo_s;
        unsigned rows_s;
        const char *text;
    } cases[] = {
        {NULL, 60, 8, 3, "4 preempt gpu1\n6 gpu1 S1-S3 until 7\n"},
        {NULL, 60, 8, 2, ""}, /* 2 < 5 · 1/2 */
        {NULL, 15, 8, 4, ""}, /* R would be late at 19, and 4 < 5 */
        {NULL, 15, 8, 5, "4 preempt gpu1\n6 gpu1 S1-S5 until 7\n4 drop R1 expired\n"},
        {NULL, 60, 20, 5, ""},  /* S can wait */
        {NULL, 60, 2.5, 5, ""}, /* too late at 6 */
        {"preempt=0", 60, 8, 5, ""},
        {"preempt=8", 60, 8, 3, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        play_t play;
        profile_t profile;
        err_t err;
        cr_assert_eq(profile_from_line(&profile, 0, play_ns(12), 8, &err), STATUS_OK);
        play_start(&play, "fermata", cases[i].params, 1);
        play_model_opts(&play, 0, 'R', &profile,
                        (sched_model_opts_t){.slo_ns = play_ns(cases[i].slo_r), .exit_points = 3});
        play_model(&play, 1, 'S', 0, 1, cases[i].slo_s);
        play_arrive_slo(&play, 0, 0, cases[i].slo_r);
        for (unsigned r = 0; r < cases[i].rows_s; r++)
            play_arrive_slo(&play, 1, 4, cases[i].slo_s);
        const char *text = play_until(&play, 4);
        cr_expect_str_eq(strchr(text, '\n') + 1, cases[i].text, "%zu: %s", i, text);
        play_stop(&play);
    }
}

/* Bursts of 2 to 5, a second apart. The GPU is idle but for 1 % of the time, and the first of a burst could start at once: the
 * others would find it busy for longer than they can wait. */
Test(policies, fermata_learns_that_others_follow_the_first_of_a_burst)
{
    play_t play;
    play_start(&play, "fermata", NULL, 1);
    play_model(&play, 0, 'R', 0.2, 3, 6);
    for (unsigned i = 0; i < 20; i++)
        play_arrive(&play, 0, 1000 * i + 13 * (i % 7), 0.4, 2 + i * 3 % 4);
    const char *text = play_until(&play, 19900);
    size_t learned = strlen(text), requests = play.next_tag[0];
    play_arrive(&play, 0, 20000, 0.4, 3);
    text = play_until(&play, 20100) + learned;
    char alone[64];
    snprintf(alone, sizeof alone, " R%zu until ", requests);
    cr_expect_null(strstr(text, alone), "%s", text);
    play_stop(&play);
}

/* A client that waits for its answer and asks again at once. */
typedef struct {
    double one_ms, slo_ms;
    unsigned early_every; /* so often the word that its batch is done comes only after its next request, */
    unsigned early;       /* so many times in a row */
    unsigned pause_every; /* so often it asks nothing for 15 s; 0: never */
    unsigned requests;
} client_t;

/* The longest answer that it has, in ms, once it is known. */
static double longest_answer(const char *params, const client_t *client)
{
    play_t play;
    play_start(&play, "fermata", params, 1);
    play_delays(&play, 0.2, 0);
    play_model(&play, 0, 'A', 0.3 * client->one_ms, 0.7 * client->one_ms, client->slo_ms);
    double longest = 0, at = 0;
    for (unsigned i = 1; i <= client->requests; i++) {
        play_arrive_slo(&play, 0, at, client->slo_ms);
        double now = at;
        for (size_t before = play.grants; play.grants == before;)
            play_until(&play, now += 0.5);
        double end = (double)play.events[0].at_ns / 1e6;
        if (at > 12 * client->slo_ms) /* by then it is known that there is only one */
            longest = fmax(longest, end - at);
        bool early = (i + client->early_every / 2) % client->early_every < client->early;
        at = early ? end - 0.1 : end + 0.2;
        if (client->pause_every && i % client->pause_every == 0)
            at = end + 15000;
    }
    cr_expect_eq(play.drops, 0);
    play_stop(&play);
    return longest;
}

Test(policies, fermata_does_not_hold_a_client_that_waits_for_its_answers)
{
    static const client_t clients[] = {
        {.one_ms = 3, .slo_ms = 100, .early_every = 400, .early = 1, .requests = 1500},
        {.one_ms = 36, .slo_ms = 800, .early_every = 80, .early = 4, .requests = 800},
        {.one_ms = 36, .slo_ms = 800, .early_every = 1000, .pause_every = 61, .requests = 700},
    };
    for (unsigned i = 0; i < sizeof clients / sizeof clients[0]; i++) {
        double most_ms = clients[i].one_ms + 1;
        cr_expect_lt(longest_answer("spare=latency", &clients[i]), most_ms, "client %u", i);
        cr_expect_lt(longest_answer("spare=release", &clients[i]), most_ms, "client %u", i);
    }
}

Test(policies, shepherd_without_preemption_loses_the_burst)
{
    play_t play;
    figure_4(&play, "preempt=off,exits=1000000", 3);
    cr_assert_str_eq(play_until(&play, 60), "0 gpu1 R1 until 10\n"
                                            "5 drop R2 expired\n"
                                            "5 drop R3 expired\n"
                                            "5 drop R4 expired\n");
    play_stop(&play);
}

/* Nexus' plan for two models on two GPUs: one each, and requests go there whatever else is free. B is longer than A, so
 * the shared order shows on GPU 1 of the second case: with one GPU both are in turn. */
Test(policies, nexus_gives_each_model_its_gpu)
{
    play_t play;
    play_start(&play, "nexus", NULL, 2);
    play_model(&play, 0, 'A', 1, 5, 24);
    play_model(&play, 1, 'B', 1, 5, 24);
    play_arrive(&play, 0, 0, 1, 400);
    play_arrive(&play, 1, 0.5, 1, 400);
    play_until(&play, 300);
    const char *text = play.text + play.text_len / 2;
    const char *line = strchr(text, '\n');
    char of_a = '\0', of_b = '\0';
    while (line && line[1]) { /* from half-way on every model is always on the same GPU */
        const char *gpu = strstr(line, "gpu"), *end = strchr(line + 1, '\n');
        if (gpu && gpu < end) {
            char *of = gpu[5] == 'A' ? &of_a : &of_b;
            cr_assert(*of == '\0' || *of == gpu[3], "%.*s", (int)(end - line), line);
            *of = gpu[3];
        }
        line = end;
    }
    cr_assert_neq(of_a, of_b);
    play_stop(&play);
}

/* One model on two GPUs, each of which can do one request every 3 ms; one comes every 2 ms. */
static const char *nexus_on_two_gpus(play_t *play, const char *params)
{
    profile_t profile;
    play_start(play, "nexus", params, 2);
    cr_assert_eq(profile_from_line(&profile, 0, play_ns(3), 1, NULL), STATUS_OK);
    play_model_opts(play, 0, 'A', &profile, (sched_model_opts_t){.slo_ns = play_ns(6), .rate_hint = 500});
    play_arrive(play, 0, 0, 2, 8);
    return play_until(play, 100);
}

/* One frontend deals in turn, so nobody waits. Of two, A4 comes to the other than A3, and both are for GPU 2. */
Test(policies, nexus_frontends_deal_without_knowing_of_each_other)
{
    play_t play;
    cr_assert_str_eq(nexus_on_two_gpus(&play, NULL), "0 gpu2 A1 until 3\n"
                                                     "2 gpu1 A2 until 5\n"
                                                     "4 gpu2 A3 until 7\n"
                                                     "6 gpu1 A4 until 9\n"
                                                     "8 gpu2 A5 until 11\n"
                                                     "10 gpu1 A6 until 13\n"
                                                     "12 gpu2 A7 until 15\n"
                                                     "14 gpu1 A8 until 17\n");
    play_stop(&play);
    cr_assert_str_eq(nexus_on_two_gpus(&play, "frontends=2"), "0 gpu2 A1 until 3\n"
                                                              "2 gpu1 A2 until 5\n"
                                                              "4 gpu2 A3 until 7\n"
                                                              "7 gpu2 A4 until 10\n"
                                                              "8 gpu1 A5 until 11\n"
                                                              "11 gpu1 A6 until 14\n"
                                                              "12 gpu2 A7 until 15\n"
                                                              "14 gpu1 A8 until 17\n");
    play_stop(&play);
}

Test(policies, nexus_keeps_to_the_gpus_that_a_model_is_on)
{
    static play_t play;
    play_start(&play, "nexus", NULL, 2);
    play_model(&play, 0, 'A', 0.1, 1, 20);
    play_model(&play, 1, 'B', 0.1, 1, 20);
    cr_assert_eq(sched_allow(play.sched, 0, 0, 0, false), STATUS_OK);
    cr_assert_eq(sched_allow(play.sched, 0, 1, 1, false), STATUS_OK);
    play_arrive(&play, 0, 0, 1, 50);
    play_arrive(&play, 1, 0, 1, 50);
    const char *text = play_until(&play, 100);
    cr_expect_not_null(strstr(text, "gpu2 A"));
    cr_expect_not_null(strstr(text, "gpu1 B"));
    cr_expect_null(strstr(text, "gpu1 A"), "%s", text);
    cr_expect_null(strstr(text, "gpu2 B"), "%s", text);
    play_stop(&play);
}

/* What is said of each parameter may be given. */
static void expect_taken(sched_t *sched, const char *policy, const sched_param_t *param)
{
    char text[100];
    cr_expect(param->name && param->help, "%s", policy);
    for (uint32_t i = 0; param->choices && param->choices[i]; i++) {
        snprintf(text, sizeof text, "%s=%s", param->name, param->choices[i]);
        cr_expect_eq(sched_set_policy(sched, 0, policy, text, NULL), STATUS_OK, "%s: %s", policy, text);
    }
    const double numbers[] = {param->least, param->preset, param->most};
    for (uint32_t i = 0; !param->choices && i < 3; i++) {
        snprintf(text, sizeof text, "%s=%.17g", param->name, numbers[i]);
        cr_expect_eq(sched_set_policy(sched, 0, policy, text, NULL), STATUS_OK, "%s: %s", policy, text);
    }
}

Test(policies, each_says_what_it_does_and_takes)
{
    play_t play;
    uint32_t params = 0;
    play_start(&play, "fermata", NULL, 1);
    for (uint32_t i = 0; sched_policy_name(i); i++) {
        cr_expect_not_null(sched_policy_help(i));
        for (const sched_param_t *param = sched_policy_params(i); param && param->name; param++, params++)
            expect_taken(play.sched, sched_policy_name(i), param);
    }
    cr_expect_gt(params, 20);
    cr_expect_null(sched_policy_params(2), "eager has none");
    const sched_param_t *drop = sched_policy_params(1);
    cr_assert_not_null(drop);
    cr_expect_str_eq(drop->name, "drop");
    cr_expect_str_eq(drop->choices[(int)drop->preset], "head");
    play_stop(&play);
}
