/* When the answer to a load or an unload goes: once every gateway knows of what was done. */
#include "play.h"

#include "base/clock.h"

#include <criterion/criterion.h>

#define LOAD CONTROL__MODEL_ACTION__MODEL_ACTION_LOAD
#define UNLOAD CONTROL__MODEL_ACTION__MODEL_ACTION_UNLOAD
#define READY CONTROL__MODEL_STATE__MODEL_STATE_READY
#define UNLOADED CONTROL__MODEL_STATE__MODEL_STATE_UNLOADED

/* Both gateways know of all that there is; then the honest one asks, and the worker does it. */
static void do_it(play_t *play, Control__ModelAction action, status_t status)
{
    play_init(play, "fermata");
    actor_open(&play->odd_gateway);
    say_hello(&play->odd_gateway);
    say_seen(&play->gateway, play->gateway.catalogue);
    say_seen(&play->odd_gateway, play->odd_gateway.catalogue);
    say_request(&play->gateway, action, "m");
    if (status == STATUS_OK)
        say_report(&play->worker, "m", action == LOAD ? READY : UNLOADED, NS_PER_MS);
    play_watch(play);
    say_command_done(&play->worker, status);
}

Test(requests, the_answer_waits_until_every_gateway_knows)
{
    play_t play;
    do_it(&play, LOAD, STATUS_OK);
    cr_expect_str_eq(play.odd_gateway.listed, "ready", "it was told");
    cr_expect_str_eq(play_seen(&play), "-", "and may not have taken it over");
    say_seen(&play.gateway, play.gateway.catalogue);
    cr_expect_str_eq(play_seen(&play), "-", "who asks is not the only one");
    say_seen(&play.odd_gateway, play.odd_gateway.catalogue - 1);
    cr_expect_str_eq(play_seen(&play), "-", "an older one does not show it");
    say_seen(&play.odd_gateway, play.odd_gateway.catalogue);
    cr_expect_str_eq(play_seen(&play), "answer");
    cr_expect(play_dispose(&play));
}

Test(requests, of_an_unload_too)
{
    play_t play;
    do_it(&play, UNLOAD, STATUS_OK);
    say_seen(&play.odd_gateway, play.odd_gateway.catalogue);
    cr_expect_str_eq(play_seen(&play), "-");
    say_seen(&play.gateway, play.gateway.catalogue);
    cr_expect_str_eq(play_seen(&play), "answer");
    cr_expect(play_dispose(&play));
}

Test(requests, a_gateway_that_leaves_is_not_waited_for)
{
    play_t play;
    do_it(&play, LOAD, STATUS_OK);
    say_seen(&play.gateway, play.gateway.catalogue);
    cr_expect_str_eq(play_seen(&play), "-");
    actor_leave(&play.odd_gateway);
    cr_expect_str_eq(play_seen(&play), "answer");
    cr_expect(play_dispose(&play));
}

Test(requests, one_that_stands_still_is_waited_for_a_second)
{
    play_t play;
    do_it(&play, LOAD, STATUS_OK);
    play_pass(&play, NS_PER_S - 1);
    cr_expect_str_eq(play_seen(&play), "-");
    play_pass(&play, play.control->turn.options.ping_interval_ns);
    cr_expect_str_eq(play_seen(&play), "answer");
    cr_expect(play_dispose(&play));
}

Test(requests, what_failed_is_told_at_once)
{
    play_t play;
    do_it(&play, LOAD, STATUS_NOT_FOUND);
    cr_expect_str_eq(play_seen(&play), "answer");
    cr_expect(play_dispose(&play));
}

Test(requests, an_answer_that_waits_ends_with_its_gateway)
{
    play_t play;
    do_it(&play, LOAD, STATUS_OK);
    actor_leave(&play.gateway);
    say_seen(&play.odd_gateway, play.odd_gateway.catalogue);
    cr_expect_str_eq(play_seen(&play), "-");
    cr_expect(play_dispose(&play));
}
