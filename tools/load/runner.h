/*
 * The run: sends the requests of all flows at their times, or keeps a number of them under way, and tallies
 * what comes back.
 *
 *   open loop     each flow's arrivals say when; a request is sent then or, if the loop was busy, as soon as
 *                 possible after, and its latency counts from when it was meant to go
 *   closed loop   `concurrency` requests under way, flows in turn; latency counts from the send
 *
 * One loop, one thread. Nothing is allocated per request.
 */
#ifndef LOAD_RUNNER_H
#define LOAD_RUNNER_H

#include "base/rate_steps.h"
#include "load/arrivals.h"
#include "load/payload.h"
#include "load/tally.h"
#include "load/target.h"

/* The requests of one model. */
typedef struct {
    model_t model;
    double rate_per_s;
    int64_t deadline_ns; /* 0 = the model's own, and every answer counts as good */
    arrivals_t arrivals;
    payloads_t payloads;
    uint32_t next_payload;
    tally_t tally;
} flow_t;

enum { RUNNER_FLOWS_MAX = 64, RUNNER_TARGETS_MAX = 16 };

typedef struct {
    const flow_t *flow;
    const payload_t *payload;
    outcome_t outcome;
    int64_t latency_ns;
    timing_t timing;
    const answer_t *answer;
} result_t;

typedef struct {
    loop_t *loop;
    protocol_t protocol;
    const target_ops_t *ops;
    target_t **targets; /* taken in turn */
    uint32_t target_count;
    flow_t *flows;
    uint32_t flow_count;
    const rate_step_t *steps; /* by time; open loop only */
    uint32_t step_count;
    uint32_t concurrency; /* 0 = open loop */
    int64_t duration_ns, warmup_ns;
    uint64_t requests_max;                                /* 0 = no limit */
    void (*on_result)(void *arg, const result_t *result); /* NULL: nobody looks */
    void (*on_done)(void *arg);
    void *arg;
} runner_options_t;

typedef struct runner runner_t;

status_t runner_create(runner_t **runner, const runner_options_t *options, err_t *err);
void runner_destroy(runner_t *runner); /* after on_done */

/* on_done follows when the last answer has come. */
void runner_start(runner_t *runner);

/* Sends no more; what is under way still counts. */
void runner_stop(runner_t *runner);

/* What was counted: from the end of the warm-up to the end of sending (or the last answer, when the number of
 * requests ended it). */
int64_t runner_window_ns(const runner_t *runner);
/* So far: requests sent, time since the start, and whether more are to go. */
uint64_t runner_issued(const runner_t *runner);
int64_t runner_elapsed_ns(const runner_t *runner, int64_t now_ns);
bool runner_is_sending(const runner_t *runner);
/* Open loop: how long after its time each request really went. */
const histogram_t *runner_send_lag(const runner_t *runner);

#endif
