/* Who reports rows done is taken at his word once he has shown that their results arrive. */
#include "play.h"

#include "base/clock.h"
#include "control/cluster/standing.h"

#include <criterion/criterion.h>
#include <string.h>

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
