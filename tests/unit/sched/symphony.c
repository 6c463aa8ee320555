/*
 * The worked example of Symphony 3.3: one model with l(b) = b + 5 and an SLO of 12 on 3 GPUs, a request every 0.75.
 */
#include "play.h"

#include <criterion/criterion.h>

static void worked_example(play_t *play, const char *policy)
{
    play_start(play, policy, NULL, 3);
    play_model(play, 0, 'R', 1, 5, 12);
}

Test(symphony, figure_4_deferral_staggers)
{
    play_t play;
    worked_example(&play, "deferred");
    play_arrive(&play, 0, 0, 0.75, 24);
    cr_assert_str_eq(play_until(&play, 17.5), "2.25 gpu1 R1-R4 until 11.25\n"
                                              "5.25 gpu2 R5-R8 until 14.25\n"
                                              "8.25 gpu3 R9-R12 until 17.25\n"
                                              "11.25 gpu1 R13-R16 until 20.25\n"
                                              "14.25 gpu2 R17-R20 until 23.25\n"
                                              "17.25 gpu3 R21-R24 until 26.25\n");
    play_stop(&play);
}

/* R13 to R15 are missing, and from R16 on the policy is eager. The paper draws R21-R24 on GPU 3 and R25 on GPU 1: both
 * are free at 17.25, and here the lower number goes first. Dropped are R35, R37 and R38, as the paper says. */
Test(symphony, figure_5a_eagerness_deteriorates)
{
    play_t play;
    worked_example(&play, "deferred");
    play_arrive(&play, 0, 0, 0.75, 12);
    play_skip(&play, 0, 3);
    play_arrive(&play, 0, 11.25, 0.75, 29);
    play_set_policy(&play, 11, "eager", NULL);
    cr_assert_str_eq(play_until(&play, 34.5), "2.25 gpu1 R1-R4 until 11.25\n"
                                              "5.25 gpu2 R5-R8 until 14.25\n"
                                              "8.25 gpu3 R9-R12 until 17.25\n"
                                              "11.25 gpu1 R16 until 17.25\n"
                                              "14.25 gpu2 R17-R20 until 23.25\n"
                                              "17.25 gpu1 R21-R24 until 26.25\n"
                                              "18 gpu3 R25 until 24\n"
                                              "23.25 gpu2 R26-R27 until 30.25\n"
                                              "24 gpu3 R28-R30 until 32\n"
                                              "26.25 gpu1 R31-R33 until 34.25\n"
                                              "30.25 gpu2 R34 until 36.25\n"
                                              "31.5 drop R35 expired\n"
                                              "32 gpu3 R36 until 38\n"
                                              "33 drop R37 expired\n"
                                              "33.75 drop R38 expired\n"
                                              "34.25 gpu1 R39 until 40.25\n");
    play_stop(&play);
}

Test(symphony, figure_5b_deferral_recovers)
{
    play_t play;
    worked_example(&play, "deferred");
    play_arrive(&play, 0, 0, 0.75, 12);
    play_skip(&play, 0, 3);
    play_arrive(&play, 0, 11.25, 0.75, 20);
    cr_assert_str_eq(play_until(&play, 25), "2.25 gpu1 R1-R4 until 11.25\n"
                                            "5.25 gpu2 R5-R8 until 14.25\n"
                                            "8.25 gpu3 R9-R12 until 17.25\n"
                                            "13.5 gpu1 R16-R19 until 22.5\n"
                                            "16.5 gpu2 R20-R23 until 25.5\n"
                                            "19.5 gpu3 R24-R27 until 28.5\n"
                                            "22.5 gpu1 R28-R31 until 31.5\n");
    play_stop(&play);
}
