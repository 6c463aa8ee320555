/* Who may join, and what a Hello can do to the others. */
#include "play.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define DAY_MS (UINT64_C(24) * 3600 * 1000)

static play_t play;

static void begin(void)
{
    play_init(&play, "fermata");
}

static void end(void)
{
    play_ends(&play);
    cr_expect(play_dispose(&play));
}

/* A worker that has seen that epoch; what comes of its Hello. */
static const char *join_with_epoch(uint64_t epoch)
{
    actor_t *worker = &play.odd_worker;
    actor_open(worker);
    worker->epoch = epoch;
    play_watch(&play);
    say_hello(worker);
    return play_seen(&play);
}

static void leave(void)
{
    play_ends(&play);
    if (play.odd_worker.worker)
        actor_leave(&play.odd_worker);
    play.odd_worker.epoch = 0;
}

Test(peers, an_epoch_near_the_clock_is_outgrown, .init = begin, .fini = end)
{
    cr_expect_str_eq(join_with_epoch(PLAY_EPOCH + DAY_MS), "others-away+welcome");
    cr_expect_eq(play.control->turn.epoch, PLAY_EPOCH + DAY_MS + 1);
    leave();
    cr_expect(play_honest_are_served(&play));
}

Test(peers, an_epoch_beyond_it_changes_nothing, .init = begin, .fini = end)
{
    static const uint64_t far[] = {PLAY_EPOCH + DAY_MS + 1, INT64_MAX - 1, INT64_MAX, UINT64_MAX - 1,
                                   UINT64_MAX};
    for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
        cr_expect_str_eq(join_with_epoch(far[i]), "closed");
        cr_expect_eq(play.control->turn.epoch, PLAY_EPOCH);
        leave();
    }
    cr_expect(play_honest_are_served(&play));
}

/* The clock goes on, and so does what is near it. */
Test(peers, what_is_near_the_clock_moves_with_it, .init = begin, .fini = end)
{
    play_pass(&play, 10 * NS_PER_S);
    (void)join_with_epoch(PLAY_EPOCH + DAY_MS + 10000);
    cr_expect_eq(play.control->turn.epoch, PLAY_EPOCH + DAY_MS + 10001);
    leave();
}

Test(peers, the_epoch_cannot_be_raised_again_and_again, .init = begin, .fini = end)
{
    for (uint32_t i = 0; i < 20; i++) {
        (void)join_with_epoch(play.control->turn.epoch + 1);
        leave();
    }
    cr_expect_eq(play.control->turn.epoch, PLAY_EPOCH + 8, "four times");
    cr_expect(play_honest_are_served(&play));
    play_pass(&play, 61 * NS_PER_S);
    (void)join_with_epoch(play.control->turn.epoch + 1);
    leave();
    cr_expect_eq(play.control->turn.epoch, PLAY_EPOCH + 10, "and once more a minute later");
}

Test(peers, who_knows_an_id_cannot_take_its_place_without_the_key, .init = begin, .fini = end)
{
    actor_t *rogue = &play.odd_worker;
    rogue->instance_id = play.worker.instance_id;
    actor_open(rogue);
    play_watch(&play);
    say_hello(rogue);
    cr_expect_str_eq(play_seen(&play), "noted+closed");
    leave();
    cr_expect(play_honest_are_served(&play));
}

/* Wherever it comes from now. */
Test(peers, who_has_the_key_takes_the_place_of_its_older_stream, .init = begin, .fini = end)
{
    actor_t *again = &play.odd_worker;
    again->instance_id = play.worker.instance_id;
    again->instance_key = play.worker.instance_key;
    again->address = "ipv4:10.0.0.66:4711";
    actor_open(again);
    play_watch(&play);
    say_hello(again);
    cr_expect_str_eq(play_seen(&play), "HARM+welcome");
    cr_expect(play.worker.ending);
    play_ends(&play);
    leave();
}

Test(peers, one_host_cannot_fill_the_table, .init = begin, .fini = end)
{
    static actor_t many[PEERS_MAX];
    static char addresses[PEERS_MAX][32];
    uint32_t joined = 0;
    for (uint32_t i = 0; i < PEERS_MAX; i++) {
        (void)snprintf(addresses[i], sizeof addresses[i], "ipv4:10.0.0.66:%u", i);
        many[i] = (actor_t){.play = &play, .instance_id = 1000 + i, .address = addresses[i]};
        actor_open(&many[i]);
        say_hello(&many[i]);
        joined += !many[i].ending;
    }
    cr_expect_eq(joined, PEERS_PER_HOST_MAX);
    play.odd_gateway.address = "ipv4:10.0.0.67:1";
    actor_open(&play.odd_gateway);
    play_watch(&play);
    say_hello(&play.odd_gateway);
    cr_expect_str_eq(play_seen(&play), "welcome+catalogue");
    for (uint32_t i = 0; i < PEERS_MAX; i++)
        if (many[i].gateway)
            actor_leave(&many[i]);
    actor_leave(&play.odd_gateway);
}

/* ---- models ---- */

#define READY CONTROL__MODEL_STATE__MODEL_STATE_READY

static void join_odd_worker(void)
{
    play.odd_worker.instance_id++;
    actor_open(&play.odd_worker);
    say_hello(&play.odd_worker);
}

static void report_many(uint32_t from, uint32_t count, Control__ModelState state)
{
    char name[32];
    for (uint32_t i = from; i < from + count; i++) {
        (void)snprintf(name, sizeof name, "odd-%u", i);
        say_report(&play.odd_worker, name, state, NS_PER_MS);
    }
}

/* Whether model "m" of the honest worker is taken up. */
static bool is_taken_up(void)
{
    say_report(&play.worker, "m", READY, NS_PER_MS);
    return strcmp(play.gateway.listed, "ready") == 0;
}

Test(peers, one_worker_cannot_fill_the_table_of_models, .init = begin, .fini = end)
{
    uint32_t most = play.control->turn.options.models_max;
    join_odd_worker();
    play_watch(&play);
    report_many(0, most + 10, CONTROL__MODEL_STATE__MODEL_STATE_LOADING);
    cr_expect_not_null(strstr(play_seen(&play), "noted"));
    cr_expect_eq(play.control->models.count, most - most / 8);
    cr_expect(is_taken_up());
    leave();
}

/* Each time other names, for days. */
Test(peers, models_that_have_left_make_room, .init = begin, .fini = end)
{
    uint32_t most = play.control->turn.options.models_max;
    for (uint32_t round = 0; round < 20; round++) {
        join_odd_worker();
        play_watch(&play);
        report_many(round * 1000, most / 4, CONTROL__MODEL_STATE__MODEL_STATE_LOADING);
        cr_expect_null(strstr(play_seen(&play), "noted"), "round %u: %s", round, play_seen(&play));
        leave();
    }
    cr_expect_eq(play.control->models.count, most);
    cr_expect(is_taken_up());
    cr_expect(play_honest_are_served(&play));
}

/* Its number may still be in a task that is on its way. */
Test(peers, a_place_is_not_given_away_before_every_gateway_knows, .init = begin, .fini = end)
{
    uint32_t most = play.control->turn.options.models_max;
    join_odd_worker();
    report_many(0, most - 1, READY); /* "good" has the first place */
    uint32_t had = play.odd_worker.worker->instance_count;
    leave();
    play_pass(&play, NS_PER_S); /* the grace of those that return is over */
    for (uint32_t i = 0; i < 2; i++) {
        join_odd_worker();
        play_watch(&play);
        report_many(5000, most / 2, READY);
        bool refused = strstr(play_seen(&play), "noted");
        cr_expect_eq(refused, i == 0 && had > most / 2, "round %u", i);
        leave();
        play_pass(&play, NS_PER_S);
        play.control->roster.gateways[play.gateway.gateway->peer.index]->catalogue_seen =
            play.control->models.version;
    }
}

static uint32_t listed_models(void)
{
    uint32_t listed = 0;
    for (uint32_t m = 0; m < play.control->models.count; m++)
        listed += !play.control->models.all[m]->forgotten;
    return listed;
}

/* A minute passes, in which the honest are not silent and gateways take over what they are told. */
static void wait_a_minute(void)
{
    for (uint32_t s = 0; s < 62; s++) {
        play_pass(&play, NS_PER_S);
        say_cancel(&play.gateway, 999);
        say_device(&play.worker, 0, CONTROL__DEVICE_STATUS__DEVICE_READY);
        say_seen(&play.gateway, play.control->models.version);
    }
}

/* Of what a stranger has brought by the thousand an eighth of the table stays known, and what comes back is known again. */
Test(peers, models_that_are_long_gone_are_forgotten, .init = begin, .fini = end)
{
    uint32_t most = play.control->turn.options.models_max;
    join_odd_worker();
    report_many(0, most / 2, READY);
    cr_expect_eq(listed_models(), most / 2 + 1);
    leave();
    play_pass(&play, NS_PER_S);
    cr_expect_eq(listed_models(), most / 2 + 1, "it may come back");
    wait_a_minute();
    cr_expect_eq(listed_models(), most / 8 + 1);
    join_odd_worker();
    report_many(most / 2 - 1, 1, READY);
    cr_expect_eq(listed_models(), most / 8 + 2);
    leave();
    cr_expect(play_honest_are_served(&play));
}

/* Each time of another class. */
Test(peers, classes_of_devices_that_have_left_make_room, .init = begin, .fini = end)
{
    char name[32];
    for (uint32_t i = 0; i < 3 * SUBCLUSTERS_MAX; i++) {
        (void)snprintf(name, sizeof name, "class-%u", i);
        play.odd_worker.device_class = name;
        join_odd_worker();
        cr_assert_not(play.odd_worker.ending, "class %u", i);
        say_report(&play.odd_worker, "odd", READY, NS_PER_MS);
        leave();
        play_pass(&play, NS_PER_S);     /* the grace of its model is over */
        say_cancel(&play.gateway, 999); /* the honest are not silent */
        say_device(&play.worker, 0, CONTROL__DEVICE_STATUS__DEVICE_READY);
    }
    cr_expect_leq(play.control->subclusters.count, SUBCLUSTERS_MAX);
    cr_expect_gt(play.control->subclusters.count, 1);
    for (uint32_t s = 0; s < 62; s++) {
        play_pass(&play, NS_PER_S);
        say_cancel(&play.gateway, 999);
        say_device(&play.worker, 0, CONTROL__DEVICE_STATUS__DEVICE_READY);
    }
    cr_expect_eq(play.control->subclusters.count, 1, "each has its memory, which is given back");
    cr_expect(play_honest_are_served(&play));
}
