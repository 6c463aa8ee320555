/* Who reports rows done is taken at his word once he has shown that their results arrive. */
#include "play.h"

#include "base/clock.h"
#include "control/cluster/standing.h"
#include "control/models/instance.h"

#include <criterion/criterion.h>
#include <string.h>

enum { STEP_NS = 100000 }; /* a row takes ten */

static play_t play;
static uint64_t last_id;

/* The model of the honest worker, "good", at another one, too. */
static void begin(void)
{
    play_init(&play, "eager");
    last_id = 0;
    actor_open(&play.odd_worker);
    say_hello(&play.odd_worker);
    say_report(&play.odd_worker, "good", CONTROL__MODEL_STATE__MODEL_STATE_READY, NS_PER_MS);
}

static void leave(void)
{
    cr_expect(play_dispose(&play), "something was kept");
}

TestSuite(prove, .init = begin, .fini = leave);

/* Who got it. */
static actor_t *grant(void)
{
    uint32_t odd = play.odd_worker.grant_count;
    say_task(&play.gateway, 0, ++last_id);
    play_pass(&play, NS_PER_MS);
    return play.odd_worker.grant_count > odd ? &play.odd_worker : &play.worker;
}

static actor_t *other_than(const actor_t *worker)
{
    return worker == &play.worker ? &play.odd_worker : &play.worker;
}

static const char *is_done_at(actor_t *worker)
{
    play_watch(&play);
    say_done(worker, worker->grants[worker->grant_count - 1], 0, STATUS_OK);
    return play_seen(&play);
}

static const char *arrives(void)
{
    play_watch(&play);
    say_arrived(&play.gateway, last_id);
    return play_seen(&play);
}

static const char *passes(int64_t duration_ns)
{
    play_watch(&play);
    play_pass(&play, duration_ns);
    return play_seen(&play);
}

static const standing_t *standing_of(const actor_t *worker)
{
    return &instance_of(models_get(&play.control->models, 0), worker->worker)->standing;
}

/* True: it is not there in time, and was just granted to the other. */
static bool fails_to_show(actor_t *worker)
{
    uint32_t granted = other_than(worker)->grant_count;
    (void)is_done_at(worker);
    for (int64_t ns = 0; ns < 100 * NS_PER_MS && other_than(worker)->grant_count == granted; ns += STEP_NS)
        (void)passes(STEP_NS);
    return other_than(worker)->grant_count > granted;
}

Test(prove, a_row_of_a_new_worker_ends_when_its_result_is_there)
{
    actor_t *worker = grant();
    cr_expect_str_eq(is_done_at(worker), "doubted+queued");
    cr_expect_str_eq(arrives(), "ended");
    cr_expect_str_eq(passes(NS_PER_S), "-");
}

Test(prove, what_does_not_arrive_runs_elsewhere)
{
    actor_t *worker = grant();
    (void)is_done_at(worker);
    uint32_t granted = other_than(worker)->grant_count;
    cr_expect_str_eq(passes(100 * NS_PER_MS), "granted");
    cr_assert_eq(other_than(worker)->grant_count, granted + 1);
    (void)is_done_at(other_than(worker));
    cr_expect_str_eq(arrives(), "ended");
}

Test(prove, the_other_is_asked_too_while_the_first_is_left_out)
{
    actor_t *worker = grant();
    (void)is_done_at(worker);
    (void)passes(100 * NS_PER_MS);
    cr_expect_str_eq(is_done_at(other_than(worker)), "doubted+queued");
    uint32_t granted = worker->grant_count;
    cr_expect_str_eq(passes(100 * NS_PER_MS), "granted");
    cr_expect_eq(worker->grant_count, granted + 1, "who was left out longer is tried first");
}

Test(prove, what_arrives_after_all_is_waited_for_no_more)
{
    actor_t *worker = grant();
    (void)is_done_at(worker);
    (void)passes(100 * NS_PER_MS);
    (void)arrives();
    cr_expect_str_eq(is_done_at(other_than(worker)), "ended");
}

Test(prove, what_arrives_before_another_can_have_run_it_is_its_own)
{
    actor_t *worker = grant();
    cr_assert(fails_to_show(worker));
    (void)arrives();
    cr_expect_eq(standing_of(worker)->proven, 1);
    (void)is_done_at(other_than(worker));
    cr_expect_eq(standing_of(other_than(worker))->proven, 0);
}

Test(prove, what_arrives_before_another_was_granted_it_is_its_own)
{
    enum { MORE = 6 }; /* than both can have */
    actor_t *worker = grant();
    uint64_t first = last_id;
    uint64_t batch = worker->grants[0];
    for (int i = 0; i < MORE; i++)
        (void)grant();
    say_done(worker, batch, 0, STATUS_OK);
    cr_expect_str_eq(passes(20 * NS_PER_MS), "-", "there is nobody to run it again");
    say_arrived(&play.gateway, first);
    cr_expect_eq(standing_of(worker)->proven, 1);
}

Test(prove, what_either_may_have_sent_shows_nothing_of_them)
{
    actor_t *worker = grant();
    cr_assert(fails_to_show(worker));
    (void)passes(2 * NS_PER_MS);
    cr_expect_str_eq(is_done_at(other_than(worker)), "doubted+queued");
    cr_expect_str_eq(arrives(), "ended");
    for (uint32_t i = 0; i < 2; i++, worker = other_than(worker)) {
        cr_expect_eq(standing_of(worker)->proven, 0, "worker %u", i);
        cr_expect_eq(standing_of(worker)->ill, 0, "worker %u", i);
    }
}

/* Nor when the first has gone meanwhile, and a third has come. */
Test(prove, what_one_may_have_sent_who_has_gone_shows_nothing_of_the_other)
{
    actor_t *worker = grant();
    (void)is_done_at(worker);
    actor_leave(worker);
    worker->instance_id += 100;
    actor_open(worker);
    say_hello(worker);
    say_report(worker, "good", CONTROL__MODEL_STATE__MODEL_STATE_READY, NS_PER_MS);
    uint32_t granted = worker->grant_count;
    cr_expect_str_eq(passes(20 * NS_PER_MS), "granted");
    actor_t *next = worker->grant_count > granted ? worker : other_than(worker);
    cr_expect_str_eq(is_done_at(next), "doubted+queued");
    (void)arrives();
    cr_expect_eq(standing_of(next)->proven, 0);
}

Test(prove, what_comes_when_two_have_failed_shows_nothing_of_them)
{
    say_report(&play.worker, "good", CONTROL__MODEL_STATE__MODEL_STATE_READY, 50 * NS_PER_MS);
    say_report(&play.odd_worker, "good", CONTROL__MODEL_STATE__MODEL_STATE_READY, 50 * NS_PER_MS);
    actor_t *worker = grant();
    cr_assert(fails_to_show(worker));
    cr_assert(fails_to_show(other_than(worker))); /* long before it can have run it */
    (void)arrives();
    cr_expect_eq(standing_of(worker)->proven, 0);
    cr_expect_eq(standing_of(other_than(worker))->proven, 0);
}

Test(prove, who_shows_what_another_gave_up_is_proven)
{
    actor_t *worker = grant();
    say_done(worker, worker->grants[0], 0, STATUS_CANCELLED);
    (void)passes(NS_PER_MS);
    actor_t *next = other_than(worker)->grant_count > 0 ? other_than(worker) : worker;
    cr_expect_str_eq(is_done_at(next), "doubted+queued");
    (void)arrives();
    cr_expect_eq(standing_of(next)->proven, 1);
}

/* 200 rows: the honest worker shows its own; the other says at once that it is done, and `then` tells what comes of it, as soon as it is
 * granted to the honest one. Until that one is struck, or believed. Returns how many it had. */
static uint32_t go_on_beside_an_honest_one(actor_t *odd, void (*then)(void))
{
    enum { ROWS = 200 };
    actor_t *honest = other_than(odd);
    uint32_t failed = 0;
    for (uint32_t i = 0; i < ROWS && standing_of(odd)->strikes == 0 && standing_wants_proof(standing_of(odd));
         i++) {
        odd->grant_count = honest->grant_count = 0; /* only the last is looked at */
        if (grant() == honest) {
            (void)is_done_at(honest);
            (void)arrives();
            (void)passes(50 * NS_PER_MS);
            continue;
        }
        failed++;
        cr_assert(fails_to_show(odd));
        then();
        (void)is_done_at(honest);
    }
    cr_expect_eq(standing_of(honest)->strikes, 0);
    cr_expect_geq(standing_of(honest)->proven, STANDING_PROVEN);
    return failed;
}

static void arrives_from_the_other(void)
{
    (void)passes(2 * NS_PER_MS);
    (void)arrives();
}

/* The gateway's word and the other worker's are on two streams. */
Test(prove, who_shows_nothing_is_found_out_whichever_is_heard_first)
{
    actor_t *mute = &play.worker;
    uint32_t missed = go_on_beside_an_honest_one(mute, arrives_from_the_other);
    cr_expect_eq(standing_of(mute)->strikes, 1, "%u rows of it did not come", missed);
    cr_expect_eq(standing_of(mute)->worst, ILL_UNSHOWN);
    cr_expect_eq(standing_of(mute)->proven, 0);
}

static void arrives_late(void)
{
    (void)arrives();
}

Test(prove, who_is_late_is_not_taken_for_one_who_shows_nothing)
{
    actor_t *late = &play.worker;
    cr_expect_eq(go_on_beside_an_honest_one(late, arrives_late), STANDING_PROVEN);
    cr_expect_eq(standing_of(late)->strikes, 0);
    cr_expect_eq(standing_of(late)->proven, STANDING_PROVEN);
}

static void is_cancelled(void)
{
    say_cancel(&play.gateway, last_id);
}

/* What the other reports then says nothing of the first. */
Test(prove, nobody_is_accused_of_what_nobody_waits_for)
{
    cr_expect_geq(go_on_beside_an_honest_one(&play.worker, is_cancelled), 5);
    cr_expect_eq(standing_of(&play.worker)->strikes, 0);
}

Test(prove, who_has_shown_enough_is_believed)
{
    uint32_t doubted = 0, rows = 4 * STANDING_PROVEN;
    for (uint32_t i = 0; i < rows; i++) {
        bool asked = strstr(is_done_at(grant()), "doubted");
        doubted += asked;
        if (asked)
            (void)arrives();
    }
    cr_expect_geq(doubted, STANDING_PROVEN);
    cr_expect_leq(doubted, 2 * STANDING_PROVEN);
}

Test(prove, it_is_asked_for_also_while_the_host_stood_still)
{
    for (uint32_t i = 0; i < 40; i++) { /* it runs well, and hears of its peers */
        (void)passes(50 * NS_PER_MS);
        say_seen(&play.gateway, 0);
    }
    actor_t *worker = grant();
    play.now_ns += 300 * NS_PER_MS;
    cr_expect_str_eq(is_done_at(worker), "doubted+queued");
    cr_expect(stall_excuses(&play.control->turn.stall, play.now_ns - NS_PER_MS));
    cr_expect_str_eq(arrives(), "ended");
}

Test(prove, nobody_is_asked_where_nobody_else_could_do_it)
{
    actor_leave(&play.odd_worker);
    cr_expect_str_eq(is_done_at(grant()), "ended");
}

Test(prove, cancelled_while_it_is_asked_for)
{
    (void)is_done_at(grant());
    play_watch(&play);
    say_cancel(&play.gateway, last_id);
    cr_expect_str_eq(play_seen(&play), "ended");
    cr_expect_str_eq(passes(NS_PER_S), "-");
}

Test(prove, its_gateway_leaves_while_it_is_asked_for)
{
    (void)is_done_at(grant());
    actor_leave(&play.gateway);
    cr_expect_eq(play.control->tasks.pool.lent, 0);
    play_pass(&play, NS_PER_S);
}

Test(prove, its_worker_leaves_while_it_is_asked_for)
{
    actor_t *worker = grant();
    (void)is_done_at(worker);
    actor_leave(worker);
    cr_expect_str_eq(passes(100 * NS_PER_MS), "granted");
}
