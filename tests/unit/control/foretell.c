/* What gateways are told ahead of what admission would answer, and what they say that they refused by it. */
#include "play.h"

#include "base/clock.h"
#include "control/tasks/deadline.h"
#include "control/tasks/foretell.h"

#include <criterion/criterion.h>

static void say_tasks_of(actor_t *actor, uint64_t first_id, uint32_t count, int64_t budget_ns, bool admitted,
                         uint32_t priority)
{
    for (uint64_t id = first_id; id < first_id + count; id++) {
        uint64_t zero = 0, own = id;
        uint32_t model = 0, len = 1, yes = 1;
        int64_t budget = budget_ns;
        Control__TaskBatch tasks = CONTROL__TASK_BATCH__INIT;
        Control__GatewayToScheduler frame = CONTROL__GATEWAY_TO_SCHEDULER__INIT;
        tasks.n_id = tasks.n_model = tasks.n_budget_ns = 1;
        tasks.n_handle_hi = tasks.n_handle_lo = tasks.n_offset_bytes = tasks.n_len_bytes = 1;
        tasks.id = &own;
        tasks.model = &model;
        tasks.budget_ns = &budget;
        tasks.handle_hi = tasks.handle_lo = tasks.offset_bytes = &zero;
        tasks.len_bytes = &len;
        tasks.n_priority = priority > 0;
        tasks.priority = &priority;
        tasks.n_admitted = admitted;
        tasks.admitted = &yes;
        frame.tasks = &tasks;
        say(actor, &frame.base);
    }
}

static void say_tasks(actor_t *actor, uint64_t first_id, uint32_t count, int64_t budget_ns, bool admitted)
{
    say_tasks_of(actor, first_id, count, budget_ns, admitted, 0);
}

typedef struct {
    uint32_t model, priority, overload, infeasible, backlog;
} refused_t;

static void say_refused(actor_t *actor, refused_t *entry)
{
    Control__Refused refused = CONTROL__REFUSED__INIT;
    Control__GatewayToScheduler frame = CONTROL__GATEWAY_TO_SCHEDULER__INIT;
    refused.n_model = refused.n_priority = refused.n_overload = refused.n_infeasible = 1;
    refused.model = &entry->model;
    refused.priority = &entry->priority;
    refused.overload = &entry->overload;
    refused.infeasible = &entry->infeasible;
    refused.n_backlog = entry->backlog > 0;
    refused.backlog = &entry->backlog;
    frame.refused = &refused;
    say(actor, &frame.base);
}

static model_t *model_of(const play_t *play)
{
    return play->control->models.all[0];
}

/* "good" has batches of 1 ms; two of its tasks are given less, of which one is tried. */
static void begin(play_t *play)
{
    play_init(play, "fermata");
    play_pass(play, 2 * NS_PER_S);
    cr_assert_eq(play->gateway.estimates, 0);
    say_tasks(&play->gateway, 1000, 2, NS_PER_US, false);
    play_pass(play, 200 * NS_PER_MS);
    cr_assert_gt(play->gateway.estimates, 0);
}

Test(foretell, the_least_time_is_told_while_less_is_asked_for)
{
    play_t play;
    begin(&play);
    cr_expect_eq(play.gateway.estimated, 1);
    cr_expect_eq(play.gateway.least_ns, deadline_least_ns(model_of(&play)));
    cr_expect_gt(play.gateway.least_ns, NS_PER_MS / 2);
    cr_expect_eq(play.gateway.refuse[0], 0);
    play_pass(&play, 2 * NS_PER_S);
    cr_expect_eq(play.gateway.estimated, 0, "the last one takes all back");
    uint32_t told = play.gateway.estimates;
    play_pass(&play, 2 * NS_PER_S);
    cr_expect_eq(play.gateway.estimates, told);
    cr_expect(play_dispose(&play));
}

Test(foretell, the_least_time_is_where_the_scheduler_begins_to_refuse)
{
    play_t play;
    play_init(&play, "fermata");
    const model_t *model = model_of(&play);
    const task_t any = {0};
    for (int64_t usual_ns = 0; usual_ns <= 2 * NS_PER_MS; usual_ns += 50 * NS_PER_US) {
        model->home->delays.usual_ns = usual_ns;
        int64_t alone_ns = deadline_alone_ns(&any, model), least_ns = deadline_least_ns(model);
        cr_expect_not(deadline_infeasible(model->home, alone_ns, least_ns));
        cr_expect(deadline_infeasible(model->home, alone_ns, least_ns - 4), "usual %ld", (long)usual_ns);
    }
    cr_expect(play_dispose(&play));
}

Test(foretell, parts_are_told_while_requests_come)
{
    play_t play;
    play_init(&play, "fermata");
    shed_t *shed = &model_of(&play)->home->shed;
    shed->window_ns = INT64_MAX; /* as it is now, it stays */
    shed->refuse[0] = 0.5;
    play_pass(&play, NS_PER_S);
    cr_expect_eq(play.gateway.estimates, 0);
    say_tasks(&play.gateway, 1000, 1, 60 * NS_PER_S, false);
    play_pass(&play, 200 * NS_PER_MS);
    cr_expect_eq(play.gateway.estimated, 1);
    cr_expect_eq(play.gateway.refuse[0], 0.5);
    cr_expect_eq(play.gateway.least_ns, 0);
    play_pass(&play, 2 * NS_PER_S);
    cr_expect_eq(play.gateway.estimated, 0);
    shed->refuse[0] = 0;
    cr_expect(play_dispose(&play));
}

Test(foretell, what_its_gateway_has_admitted_is_not_refused)
{
    enum { MANY = 6 };
    play_t play;
    play_init(&play, "fermata");
    shed_t *shed = &model_of(&play)->home->shed;
    shed->window_ns = INT64_MAX;
    shed->refuse[0] = 1;
    say_tasks(&play.gateway, 1000, MANY, 60 * NS_PER_S, false);
    cr_expect_eq(play.gateway.drop_count, MANY);
    cr_expect_eq(play.gateway.dropped, STATUS_UNAVAILABLE);
    say_tasks(&play.gateway, 2000, MANY, 60 * NS_PER_S, true);
    cr_expect_eq(play.gateway.drop_count, MANY);
    cr_expect_eq(shed->seen[0], 2 * MANY);
    cr_expect_eq(shed->admitted, MANY);
    say_tasks(&play.gateway, 3000, 1, -1, true); /* a deadline is still the scheduler's to judge */
    cr_expect_eq(play.gateway.dropped, STATUS_DEADLINE_EXCEEDED);
    shed->refuse[0] = 0;
    cr_expect(play_dispose(&play));
}

Test(foretell, what_a_gateway_refused_counts_as_if_it_had_come)
{
    play_t play;
    begin(&play);
    model_t *model = model_of(&play);
    const autoscale_sums_t before = model->home->sums;
    uint64_t infeasible = model->infeasible, dropped = model->dropped, requests = model->ran.requests;
    play_watch(&play);
    say_refused(&play.gateway, &(refused_t){.model = 0, .priority = 3, .overload = 40, .infeasible = 5});
    cr_expect_str_eq(play_seen(&play), "-");
    cr_expect_eq(model->home->sums.requests, before.requests + 40);
    cr_expect_eq(model->home->sums.bad, before.bad + 40);
    cr_expect_eq(model->home->shed.seen[3], 40);
    cr_expect_eq(model->home->shed.admitted, 0);
    cr_expect_eq(model->dropped, dropped + 40);
    cr_expect_eq(model->ran.requests, requests + 40);
    cr_expect_eq(model->infeasible, infeasible + 5);
    cr_expect(play_dispose(&play));
}

/* The priorities that are seen are those of a window of half a second; none is to end with the next tick. */
static const int64_t SHED_AHEAD_NS = 200 * NS_PER_MS;

/* The worker has two batches and is silent: what else came waits, each row 7/8 of 1 ms, and both batches before it. */
Test(foretell, what_waits_is_told_while_it_does)
{
    enum { WAIT = 100 };
    play_t play;
    play_init(&play, "fermata");
    play_pass(&play, 2 * NS_PER_S + SHED_AHEAD_NS);
    model_of(&play)->slo_ns = NS_PER_S;
    say_tasks_of(&play.gateway, 1000, WAIT, NS_PER_S, false, 3);
    play_pass(&play, 100 * NS_PER_MS);
    const sched_backlog_t *seen = &model_of(&play)->foretold.backlog;
    cr_assert(model_of(&play)->foretold.waits);
    cr_expect_eq(play.gateway.estimated, 1);
    cr_expect_eq(play.gateway.least_ns, 0);
    cr_expect_eq(play.gateway.row_ns, seen->row_ns);
    cr_expect_gt(play.gateway.row_ns, 0);
    cr_expect_gt(play.gateway.backlog_ns, 0);
    cr_expect_leq(play.gateway.backlog_ns, seen->row_ns * (WAIT + 4));
    cr_expect_eq(play.gateway.backlog_priority, 3);
    /* No client's budget is longer than what it gave, less what has passed. */
    cr_expect_leq(play.gateway.behind_ns, NS_PER_S);
    cr_expect_geq(play.gateway.behind_ns, seen->deadline_ns - play.now_ns);
    play_pass(&play, 2 * NS_PER_S); /* they are given up */
    cr_expect_eq(play.gateway.estimated, 0);
    cr_expect(play_dispose(&play));
}

/* Those of higher priority are not to wait for them. */
Test(foretell, what_waits_counts_for_the_lowest_priority)
{
    play_t play;
    play_init(&play, "fermata");
    play_pass(&play, 2 * NS_PER_S + SHED_AHEAD_NS);
    model_of(&play)->slo_ns = 10 * NS_PER_S;
    say_tasks_of(&play.gateway, 1000, 100, 10 * NS_PER_S, false, 5);
    play_pass(&play, 100 * NS_PER_MS);
    cr_expect_eq(play.gateway.backlog_priority, 5);
    say_tasks_of(&play.gateway, 2000, 1, 10 * NS_PER_S, false, 1);
    play_pass(&play, 100 * NS_PER_MS);
    cr_expect_eq(play.gateway.backlog_priority, 1);
    say_tasks_of(&play.gateway, 3000, 1, 10 * NS_PER_S, false, 5);
    play_pass(&play, 500 * NS_PER_MS);
    cr_expect_eq(play.gateway.backlog_priority, 1, "as there was one lately");
    for (uint64_t i = 0; i < 20; i++) {
        say_tasks_of(&play.gateway, 4000 + i, 1, 10 * NS_PER_S, false, 5);
        play_pass(&play, 100 * NS_PER_MS);
    }
    cr_expect_eq(play.gateway.backlog_priority, 5);
    cr_expect(play_dispose(&play));
}

Test(foretell, what_was_refused_for_what_waits_is_known_to_the_core)
{
    play_t play;
    begin(&play);
    model_t *model = model_of(&play);
    sched_model_stats_t before, after;
    subcluster_model_stats(model->home, 0, &before);
    uint64_t bad = model->home->sums.bad, requests = model->ran.requests;
    say_refused(&play.gateway, &(refused_t){.model = 0, .backlog = 40});
    subcluster_model_stats(model->home, 0, &after);
    cr_expect_eq(after.submitted, before.submitted + 40);
    cr_expect_eq(after.dropped[SCHED_DROP_WINDOW], before.dropped[SCHED_DROP_WINDOW] + 40);
    cr_expect_eq(model->home->sums.bad, bad + 40);
    cr_expect_eq(model->ran.requests, requests + 40);
    cr_expect(play_dispose(&play));
}

/* Once for each estimate, and no more than can be. */
Test(foretell, what_a_gateway_makes_up_is_bounded)
{
    play_t play;
    begin(&play);
    const model_t *model = model_of(&play);
    uint64_t requests = model->ran.requests;
    uint32_t owed = play.gateway.estimates;
    for (uint32_t i = 0; i < owed + 10; i++)
        say_refused(&play.gateway,
                    &(refused_t){.overload = UINT32_MAX, .infeasible = UINT32_MAX, .priority = UINT32_MAX});
    cr_expect_eq(model->ran.requests, requests + (uint64_t)owed * FORETELL_REFUSED_MOST);
    cr_expect(play_honest_are_served(&play));
    cr_expect(play_dispose(&play));
}
