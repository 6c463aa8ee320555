/* Hot path: one pool slot and one timer for everything, no allocation per request. */
#include "load/runner.h"

#include "base/clock.h"
#include "base/pool.h"
#include "load/answer.h"
#include "load/steps.h"
#include "loop/timer.h"

#include <stdlib.h>

/* Requests without an answer. At 10,000 a second that is six seconds of silence: the server is lost. */
enum { IN_FLIGHT_MAX = 65536 };

/* Requests sent in one turn before answers are looked at again, so that a late generator does not burst
 * through its whole backlog while answers age in the sockets. */
enum { SENDS_PER_TURN = 256 };

/* In closed loop a refused connection would be tried again at once, for ever. */
#define RETRY_DELAY_NS (10 * NS_PER_MS)

struct runner {
    runner_options_t o;
    pool_t slots;
    loop_timer_t send_timer, retry_timer;
    uint32_t to_retry, next_flow, next_target, next_step;
    uint64_t issued;
    int64_t start_ns, end_ns;
    bool sending, finished;
    histogram_t send_lag;
};

typedef struct {
    runner_t *runner;
    flow_t *flow;
    const payload_t *payload;
    int64_t intended_ns;
} slot_t;

static bool runner_open_loop(const runner_t *r)
{
    return r->o.concurrency == 0;
}

static void runner_finish_if_idle(runner_t *r)
{
    if (r->sending || r->finished || r->slots.lent > 0)
        return;
    r->finished = true;
    r->o.on_done(r->o.arg);
}

static void runner_end_sending(runner_t *r, int64_t end_ns)
{
    if (!r->sending)
        return;
    r->sending = false;
    r->end_ns = end_ns;
    loop_timer_stop(&r->send_timer);
    loop_timer_stop(&r->retry_timer);
    runner_finish_if_idle(r);
}

void runner_stop(runner_t *r)
{
    runner_end_sending(r, clock_now_ns());
}

static bool runner_may_send(runner_t *r, int64_t intended_ns)
{
    return r->sending && intended_ns < r->start_ns + r->o.duration_ns &&
           (r->o.requests_max == 0 || r->issued < r->o.requests_max);
}

static void runner_record(runner_t *r, const slot_t *slot, const answer_t *answer, int64_t now_ns)
{
    result_t result = {.flow = slot->flow,
                       .payload = slot->payload,
                       .outcome = answer->outcome,
                       .latency_ns = now_ns - slot->intended_ns,
                       .answer = answer};
    if (slot->intended_ns < r->start_ns + r->o.warmup_ns)
        return;
    if (answer->outcome == OUTCOME_OK)
        answer_timing(r->o.protocol, answer->body, answer->len_bytes, &result.timing);
    tally_record(&slot->flow->tally, result.outcome, result.latency_ns, slot->flow->deadline_ns,
                 &result.timing);
    if (r->o.on_result)
        r->o.on_result(r->o.arg, &result);
}

static void runner_issue(runner_t *r, flow_t *flow, int64_t intended_ns);

/* The next request of the closed loop, from whichever flow's turn it is. */
static void runner_issue_next(runner_t *r)
{
    const int64_t now_ns = clock_now_ns();
    if (!runner_may_send(r, now_ns)) {
        runner_stop(r);
        return;
    }
    flow_t *flow = &r->o.flows[r->next_flow];
    r->next_flow = (r->next_flow + 1) % r->o.flow_count;
    runner_issue(r, flow, now_ns);
}

static void runner_retry_later(runner_t *r)
{
    r->to_retry++;
    if (!loop_timer_active(&r->retry_timer))
        loop_timer_start_in(&r->retry_timer, RETRY_DELAY_NS);
}

static void on_retry(loop_timer_t *timer, void *arg)
{
    (void)timer;
    runner_t *r = arg;
    uint32_t count = r->to_retry;
    r->to_retry = 0;
    while (count-- > 0 && r->sending)
        runner_issue_next(r);
}

static void on_answer(void *arg, const answer_t *answer)
{
    const slot_t slot = *(slot_t *)arg;
    runner_t *r = slot.runner;
    const int64_t now_ns = clock_now_ns();

    pool_put(&r->slots, arg);
    runner_record(r, &slot, answer, now_ns);
    if (!r->sending && r->o.requests_max > 0)
        r->end_ns = now_ns;
    if (r->sending && !runner_open_loop(r)) {
        if (answer->outcome == OUTCOME_CONNECTION)
            runner_retry_later(r);
        else
            runner_issue_next(r);
    }
    runner_finish_if_idle(r);
}

static void runner_not_sent(runner_t *r, slot_t *slot)
{
    answer_t answer = {.outcome = OUTCOME_NOT_SENT, .text = "too many requests wait for an answer"};
    runner_record(r, slot, &answer, clock_now_ns());
    if (r->sending && !runner_open_loop(r))
        runner_retry_later(r);
}

static void runner_issue(runner_t *r, flow_t *flow, int64_t intended_ns)
{
    const payload_t *payload = &flow->payloads.items[flow->next_payload];
    target_t *target = r->o.targets[r->next_target];
    slot_t request = {.runner = r, .flow = flow, .payload = payload, .intended_ns = intended_ns};

    flow->next_payload = (flow->next_payload + 1) % flow->payloads.count;
    r->next_target = (r->next_target + 1) % r->o.target_count;
    r->issued++;
    slot_t *slot = pool_get(&r->slots);
    if (!slot) {
        runner_not_sent(r, &request);
        return;
    }
    *slot = request;
    if (r->o.ops->infer(target, &flow->model, payload, on_answer, slot) != STATUS_OK) {
        pool_put(&r->slots, slot);
        runner_not_sent(r, &request);
    }
}

/* The flow whose arrival is next; flows are few, so a walk does. */
static flow_t *runner_first(runner_t *r)
{
    flow_t *first = &r->o.flows[0];
    for (uint32_t i = 1; i < r->o.flow_count; i++) {
        if (arrivals_next_ns(&r->o.flows[i].arrivals) < arrivals_next_ns(&first->arrivals))
            first = &r->o.flows[i];
    }
    return first;
}

/* With the rates as they will be then. */
static flow_t *runner_earliest(runner_t *r, int64_t *at_ns)
{
    flow_t *first = runner_first(r);
    while (r->next_step < r->o.step_count &&
           step_at_ns(&r->o.steps[r->next_step]) <= arrivals_next_ns(&first->arrivals)) {
        step_apply(&r->o.steps[r->next_step++], r->o.flows, r->o.flow_count);
        first = runner_first(r);
    }
    const int64_t offset_ns = arrivals_next_ns(&first->arrivals);
    *at_ns = offset_ns < r->o.duration_ns ? r->start_ns + offset_ns : r->start_ns + r->o.duration_ns;
    return first;
}

static void on_send_time(loop_timer_t *timer, void *arg)
{
    runner_t *r = arg;
    int64_t at_ns;
    for (int sent = 0;; sent++) {
        flow_t *flow = runner_earliest(r, &at_ns);
        const int64_t now_ns = clock_now_ns(), end_ns = r->start_ns + r->o.duration_ns;
        if (!runner_may_send(r, at_ns)) {
            /* No arrival before the end is left: the run is over now, but it was meant to last that long. */
            runner_end_sending(r, at_ns >= end_ns ? end_ns : now_ns);
            return;
        }
        if (at_ns > now_ns || sent == SENDS_PER_TURN)
            break;
        histogram_record(&r->send_lag, now_ns - at_ns);
        arrivals_advance(&flow->arrivals);
        runner_issue(r, flow, at_ns);
    }
    loop_timer_start(timer, at_ns);
}

void runner_start(runner_t *r)
{
    r->sending = true;
    r->start_ns = clock_now_ns();
    if (runner_open_loop(r)) {
        loop_timer_start(&r->send_timer, r->start_ns);
        return;
    }
    for (uint32_t i = 0; i < r->o.concurrency && r->sending; i++)
        runner_issue_next(r);
}

status_t runner_create(runner_t **out, const runner_options_t *options, err_t *err)
{
    runner_t *r = calloc(1, sizeof *r);
    if (!r)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a run");
    r->o = *options;
    histogram_init(&r->send_lag);
    status_t st = pool_init(&r->slots, sizeof(slot_t), IN_FLIGHT_MAX, err);
    if (st != STATUS_OK)
        goto no_pool;
    st = loop_timer_init(&r->send_timer, options->loop, on_send_time, r, err);
    if (st != STATUS_OK)
        goto no_send_timer;
    st = loop_timer_init(&r->retry_timer, options->loop, on_retry, r, err);
    if (st != STATUS_OK)
        goto no_retry_timer;
    *out = r;
    return STATUS_OK;
no_retry_timer:
    loop_timer_dispose(&r->send_timer);
no_send_timer:
    pool_dispose(&r->slots);
no_pool:
    free(r);
    return st;
}

void runner_destroy(runner_t *r)
{
    loop_timer_dispose(&r->retry_timer);
    loop_timer_dispose(&r->send_timer);
    pool_dispose(&r->slots);
    free(r);
}

int64_t runner_window_ns(const runner_t *r)
{
    const int64_t window_ns = r->end_ns - r->start_ns - r->o.warmup_ns;
    return window_ns > 0 ? window_ns : 1;
}

uint64_t runner_issued(const runner_t *r)
{
    return r->issued;
}

int64_t runner_elapsed_ns(const runner_t *r, int64_t now_ns)
{
    return now_ns - r->start_ns;
}

bool runner_is_sending(const runner_t *r)
{
    return r->sending;
}

const histogram_t *runner_send_lag(const runner_t *r)
{
    return &r->send_lag;
}
