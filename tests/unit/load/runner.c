#include "load/runner.h"

#include "base/clock.h"
#include "loop/timer.h"

#include <criterion/criterion.h>
#include <stdlib.h>

/* A server of the test: answers each call after a while, one timer for each. */
struct target {
    loop_t *loop;
    int64_t delay_ns;
    outcome_t outcome;
    unsigned in_flight, in_flight_max, calls;
};

typedef struct {
    loop_timer_t timer;
    target_t *target;
    target_done_fn done;
    void *arg;
} pending_t;

static void on_due(loop_timer_t *timer, void *arg)
{
    pending_t *pending = arg;
    answer_t answer = {.outcome = pending->target->outcome, .body = (const uint8_t *)"{}", .len_bytes = 2};
    pending->target->in_flight--;
    loop_timer_dispose(timer);
    pending->done(pending->arg, &answer);
    free(pending);
}

static status_t fake_infer(target_t *target, const model_t *model, const payload_t *payload,
                           target_done_fn done, void *arg)
{
    (void)model;
    (void)payload;
    pending_t *pending = calloc(1, sizeof *pending);
    *pending = (pending_t){.target = target, .done = done, .arg = arg};
    cr_assert_eq(loop_timer_init(&pending->timer, target->loop, on_due, pending, NULL), STATUS_OK);
    loop_timer_start_in(&pending->timer, target->delay_ns);
    target->calls++;
    if (++target->in_flight > target->in_flight_max)
        target->in_flight_max = target->in_flight;
    return STATUS_OK;
}

static status_t refusing_infer(target_t *target, const model_t *model, const payload_t *payload,
                               target_done_fn done, void *arg)
{
    (void)model;
    (void)payload;
    (void)done;
    (void)arg;
    target->calls++;
    return STATUS_UNAVAILABLE;
}

static const target_ops_t fake_ops = {.infer = fake_infer}, refusing_ops = {.infer = refusing_infer};

static loop_t *loop;
static target_t target;
static flow_t flows[2];
static payload_t payload;
static runner_options_t options;

static void on_done(void *arg)
{
    (void)arg;
    loop_stop(loop);
}

static void set_up(void)
{
    cr_assert_eq(loop_create(&loop, NULL), STATUS_OK);
    target = (target_t){.loop = loop, .delay_ns = NS_PER_MS};
    for (unsigned i = 0; i < 2; i++) {
        flows[i] = (flow_t){.rate_per_s = 1000, .payloads = {.items = &payload, .count = 1}};
        tally_init(&flows[i].tally);
        arrivals_init(&flows[i].arrivals, ARRIVALS_UNIFORM, 1000, 1, i);
    }
    static target_t *targets[] = {&target};
    options = (runner_options_t){.loop = loop,
                                 .protocol = PROTOCOL_REST,
                                 .ops = &fake_ops,
                                 .targets = targets,
                                 .target_count = 1,
                                 .flows = flows,
                                 .flow_count = 2,
                                 .duration_ns = 100 * NS_PER_MS,
                                 .on_done = on_done};
}

static void tear_down(void)
{
    loop_destroy(loop);
}

TestSuite(runner, .init = set_up, .fini = tear_down);

static runner_t *run(void)
{
    runner_t *runner;
    cr_assert_eq(runner_create(&runner, &options, NULL), STATUS_OK);
    runner_start(runner);
    loop_run(loop);
    return runner;
}

Test(runner, open_loop_sends_every_arrival_of_the_duration)
{
    runner_t *runner = run();
    /* 1,000 a second for a tenth of a second, phase and rounding aside. */
    for (int i = 0; i < 2; i++) {
        cr_assert_geq(flows[i].tally.offered, 99);
        cr_assert_leq(flows[i].tally.offered, 101);
        cr_assert_eq(tally_bad(&flows[i].tally), 0);
    }
    cr_assert_eq(runner_window_ns(runner), 100 * NS_PER_MS);
    runner_destroy(runner);
}

Test(runner, steps_change_the_rates_while_it_runs)
{
    static const rate_step_t steps[] = {{.at_s = 0, .model = 1, .factor = 0},
                                        {.at_s = 0.05, .model = 0, .factor = 3},
                                        {.at_s = 9, .model = RATE_STEP_ALL, .factor = 1}};
    options.steps = steps;
    options.step_count = 3;
    runner_t *runner = run();
    cr_assert_float_eq((double)flows[0].tally.offered, 50 + 150, 2);
    cr_assert_eq(flows[1].tally.offered, 0, "it was told to stop at once");
    cr_assert_eq(runner_window_ns(runner), 100 * NS_PER_MS);
    runner_destroy(runner);
}

Test(runner, latency_counts_from_the_intended_time)
{
    /* A loop that is blocked cannot send; what it should have sent meanwhile pays for that. */
    runner_t *runner;
    cr_assert_eq(runner_create(&runner, &options, NULL), STATUS_OK);
    runner_start(runner);
    const int64_t until = clock_now_ns() + 50 * NS_PER_MS;
    while (clock_now_ns() < until)
        ;
    loop_run(loop);
    cr_assert_geq(flows[0].tally.offered, 99, "nothing is left out");
    cr_assert_geq(flows[0].tally.latency.max_ns, 45 * NS_PER_MS);
    cr_assert_geq(histogram_quantile_ns(&flows[0].tally.latency, 0.66), 10 * NS_PER_MS);
    cr_assert_geq(runner_send_lag(runner)->max_ns, 45 * NS_PER_MS);
    runner_destroy(runner);
}

Test(runner, the_warm_up_is_not_counted)
{
    options.warmup_ns = 50 * NS_PER_MS;
    runner_t *runner = run();
    cr_assert_leq(flows[0].tally.offered, 51);
    cr_assert_geq(target.calls, 198);
    cr_assert_eq(runner_window_ns(runner), 50 * NS_PER_MS);
    runner_destroy(runner);
}

Test(runner, closed_loop_keeps_so_many_under_way)
{
    options.concurrency = 7;
    options.requests_max = 100;
    options.duration_ns = 60 * NS_PER_S;
    runner_t *runner = run();
    cr_assert_eq(target.in_flight_max, 7);
    cr_assert_eq(target.calls, 100);
    cr_assert_eq(flows[0].tally.offered, 50, "flows in turn");
    cr_assert_eq(flows[1].tally.offered, 50);
    runner_destroy(runner);
}

Test(runner, a_dead_server_is_not_hammered)
{
    options.concurrency = 4;
    target.outcome = OUTCOME_CONNECTION;
    target.delay_ns = 0;
    runner_t *runner = run();
    cr_assert_leq(target.calls, 4 * 11, "%u calls in 100 ms", target.calls);
    cr_assert_eq(flows[0].tally.outcomes[OUTCOME_CONNECTION] + flows[1].tally.outcomes[OUTCOME_CONNECTION],
                 target.calls);
    runner_destroy(runner);
}

Test(runner, what_cannot_be_sent_is_counted)
{
    options.ops = &refusing_ops;
    runner_t *runner = run();
    cr_assert_eq(flows[0].tally.outcomes[OUTCOME_NOT_SENT] + flows[1].tally.outcomes[OUTCOME_NOT_SENT],
                 target.calls);
    cr_assert_geq(target.calls, 198);
    runner_destroy(runner);
}

static void stop_early(loop_timer_t *timer, void *arg)
{
    (void)timer;
    runner_stop(arg);
}

Test(runner, an_early_stop_waits_for_what_is_under_way)
{
    loop_timer_t timer;
    runner_t *runner;
    options.duration_ns = 60 * NS_PER_S;
    target.delay_ns = 20 * NS_PER_MS;
    cr_assert_eq(runner_create(&runner, &options, NULL), STATUS_OK);
    cr_assert_eq(loop_timer_init(&timer, loop, stop_early, runner, NULL), STATUS_OK);
    loop_timer_start_in(&timer, 30 * NS_PER_MS);
    runner_start(runner);
    loop_run(loop);
    cr_assert_eq(target.in_flight, 0);
    cr_assert_eq(flows[0].tally.offered + flows[1].tally.offered, target.calls);
    loop_timer_dispose(&timer);
    runner_destroy(runner);
}
