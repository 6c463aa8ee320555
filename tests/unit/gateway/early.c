/* Requests that a gateway answers by what the scheduler has told ahead: at once, with nothing stored and no task sent. */
#include "rig.h"

#include "oip/rest_codec.h"

#include <string.h>

static rig_t rig;

static model_entry_t *one(void)
{
    model_entry_t *entry = NULL;
    cr_assert_eq(catalogue_find(rig.gateway.catalogue, "one", NULL, &entry, NULL), STATUS_OK);
    return entry;
}

/* Nothing here is to depend on how fast the machine is. */
static void setup(void)
{
    rig_start(&rig, 0, 16);
    rig.slo_ns = 60 * NS_PER_S;
    rig_send_catalogue(&rig, 5, 10, false);
    rig_until(&rig, one()->spec.slo_ns == rig.slo_ns);
}

static void teardown(void)
{
    rig_stop(&rig);
}

TestSuite(early, .init = setup, .fini = teardown, .timeout = 120);

#define ROW "\"inputs\":[{\"name\":\"x\",\"shape\":[1,2],\"datatype\":\"INT32\",\"data\":[7,8]}]}"
#define ONE_ROW "{" ROW
#define URGENT "{\"parameters\":{\"priority\":3}," ROW
#define LATE "{\"parameters\":{\"timeout\":20000000}," ROW /* 20 s */
#define THREE_ROWS \
    "{\"inputs\":[{\"name\":\"x\",\"shape\":[3,2],\"datatype\":\"INT32\",\"data\":[1,2,3,4,5,6]}]}"

static estimate_t *told(void)
{
    return &one()->estimate;
}

/* As it comes. */
static void tell_once(int64_t least_ns, double refuse)
{
    told()->until_ns = 0;
    rig_send_estimate(&rig, 5, least_ns, refuse);
    rig_until(&rig, told()->until_ns > 0);
}

/* And it never grows old. */
static void tell(int64_t least_ns, double refuse)
{
    tell_once(least_ns, refuse);
    told()->until_ns = INT64_MAX;
}

static const rig_answer_t *answer_of(int call)
{
    rig_until(&rig, rig.answers[call].status != 0);
    return &rig.answers[call];
}

static void expect_sent(const char *json, bool admitted)
{
    int index = rig.task_count, call = rig_infer_json(&rig, "one", json);
    rig_until(&rig, rig.task_count > index);
    cr_expect_eq(rig.tasks[index].admitted, admitted);
    cr_assert(rig_push(&rig, &rig.tasks[index], STATUS_OK, NULL, "\1\0\0\0\2\0\0\0", 8));
    cr_expect_eq(answer_of(call)->status, 200, "%s", rig.answers[call].body);
}

static void expect_refused(const char *json, int status, const char *why)
{
    int tasks = rig.task_count;
    const rig_answer_t *answer = answer_of(rig_infer_json(&rig, "one", json));
    cr_expect_eq(answer->status, status, "%d %s", answer->status, answer->body);
    cr_expect(strstr(answer->body, why), "%s", answer->body);
    cr_expect_eq(rig.task_count, tasks);
    cr_expect_eq(sessions_waiting(rig.gateway.sessions), 0);
}

static uint64_t counted(const char *reason)
{
    return metrics_value(metrics_series(rig.gateway.metrics, METRIC_GATEWAY_REFUSED_EARLY, reason));
}

Test(early, what_is_refused_for_others_is_503_with_retry_after)
{
    expect_sent(ONE_ROW, false); /* nothing was told */
    tell(0, 1);
    expect_refused(ONE_ROW, 503, "overloaded");
    cr_expect_str_eq(rig.answers[1].retry_after, "1");
    expect_sent(URGENT, true);
    cr_expect_eq(counted("overload"), 1);
    cr_expect_eq(counted("deadline"), 0);
}

Test(early, the_part_that_is_told_is_refused)
{
    tell(0, 0.5);
    for (int i = 0; i < 3; i++) {
        expect_sent(ONE_ROW, true);
        expect_refused(ONE_ROW, 503, "overloaded");
    }
    tell(0, 0);
    expect_sent(ONE_ROW, false);
}

Test(early, less_time_than_a_row_takes_is_504)
{
    tell(30 * NS_PER_S, 0);
    expect_sent(LATE, false); /* one a second is tried */
    told()->tried_ns = INT64_MAX;
    expect_refused(LATE, 504, "30000.0 ms");
    expect_sent(ONE_ROW, false); /* 60 s */
    cr_expect_eq(counted("deadline"), 1);
    cr_expect_eq(counted("overload"), 0);
}

Test(early, what_was_refused_is_told_with_the_next_estimate_and_once)
{
    tell(0, 1);
    expect_refused(THREE_ROWS, 503, "overloaded");
    expect_refused(ONE_ROW, 503, "overloaded");
    cr_expect_eq(rig.refused_count, 0);
    tell(0, 1);
    rig_until(&rig, rig.refused_count == 1);
    cr_expect(rig.refused_models == 1 && rig.refused_model == 10 && rig.refused_priority == 0);
    cr_expect_eq(rig.refused_overload, 4);
    cr_expect_eq(rig.refused_infeasible, 0);
    tell(0, 1);
    expect_refused(ONE_ROW, 503, "overloaded"); /* the answer to that has been heard, if there was one */
    cr_expect_eq(rig.refused_count, 1);
}

/* What waits: told as of now, and never older for the half second after which nothing that was told holds. */
static void tell_backlog(int64_t backlog_ns, int64_t row_ns)
{
    told()->until_ns = 0;
    rig_send_backlog(&rig, 5, backlog_ns, row_ns, 30 * NS_PER_S);
    rig_until(&rig, told()->until_ns > 0);
    told()->until_ns = INT64_MAX;
}

/* 60 s are the model's; a clock that goes on meanwhile changes nothing by a second. */
Test(early, what_waits_too_long_for_its_deadline_is_503)
{
    tell_backlog(58 * NS_PER_S, 4 * NS_PER_S);
    expect_refused(ONE_ROW, 503, "what waits for model 'one' takes 5");
    cr_expect_str_eq(rig.answers[0].retry_after, "1");
    expect_sent(URGENT, false); /* others may have to let it by, */
    expect_sent(LATE, false);   /* and it goes before some of them */
    cr_expect_eq(counted("backlog"), 1);
    cr_expect_eq(counted("overload"), 0);
    tell_backlog(50 * NS_PER_S, 4 * NS_PER_S);
    expect_sent(ONE_ROW, false);
    expect_refused(THREE_ROWS, 503, "overloaded"); /* 54 s and three times 4 */
    cr_expect_eq(counted("backlog"), 2);
    tell_backlog(58 * NS_PER_S, 4 * NS_PER_S);
    rig_until(&rig, rig.refused_count == 2);
    cr_expect_eq(rig.refused_backlog, 3);
    cr_expect_eq(rig.refused_overload, 0);
}

/* Each request that is sent is one more that waits, until that is told anew. */
Test(early, what_was_sent_since_waits_as_well)
{
    tell_backlog(0, 25 * NS_PER_S);
    expect_sent(ONE_ROW, false);
    expect_sent(ONE_ROW, false);
    expect_refused(ONE_ROW, 503, "overloaded");
    tell_backlog(0, 25 * NS_PER_S);
    expect_sent(ONE_ROW, false);
    tell(0, 0);
    for (int i = 0; i < 4; i++)
        expect_sent(ONE_ROW, false);
}

/* Half a minute later it is half a minute less. */
Test(early, what_waits_grows_less_with_its_age)
{
    int64_t before_ns = clock_now_ns();
    tell_backlog(80 * NS_PER_S, NS_PER_MS);
    cr_expect_geq(told()->ends_ns, before_ns + 80 * NS_PER_S);
    cr_expect_leq(told()->ends_ns, clock_now_ns() + 80 * NS_PER_S);
    expect_refused(ONE_ROW, 503, "overloaded");
    told()->ends_ns -= 30 * NS_PER_S; /* as if it had come so long ago */
    told()->behind_ns -= 30 * NS_PER_S;
    expect_sent(ONE_ROW, false);
}

Test(early, what_is_old_refuses_nobody)
{
    tell_once(0, 1);
    cr_expect_leq(told()->until_ns, clock_now_ns() + ESTIMATE_VALID_NS);
    rig_until(&rig, clock_now_ns() >= told()->until_ns);
    expect_sent(ONE_ROW, false);
}

/* Of the scheduler before; and who was admitted by that is the new one's to judge. */
Test(early, another_stream_knows_nothing_of_what_was_told)
{
    tell(0, 1);
    int call = rig_infer_json(&rig, "one", URGENT);
    rig_until(&rig, rig.task_count == 1);
    cr_expect(rig.tasks[0].admitted);
    fake_scheduler_unlisten(&rig.scheduler);
    rig_until(&rig, !gateway_control_is_up(rig.gateway.control));
    cr_expect_eq(told()->until_ns, 0);
    rig_scheduler_start(&rig, 6);
    rig_until(&rig, rig.scheduler.hellos == 2);
    rig_send_catalogue(&rig, 6, 10, false);
    rig_until(&rig, rig.task_count == 2 || rig.answers[call].status != 0);
    cr_expect(rig.task_count == 2 && !rig.tasks[1].admitted);
    expect_sent(ONE_ROW, false);
}

/* What comes to nothing with it begins again with the version that is trusted. */
Test(early, requests_that_a_version_on_trial_got_are_sent)
{
    enum { SHARE = 8, ON_TRIAL = 12 };
    model_entry_t *tried = NULL;
    rig.tried = true;
    rig_send_catalogue(&rig, 5, 10, false);
    rig_until(&rig, catalogue_count(rig.gateway.catalogue) == 3);
    cr_assert_eq(catalogue_find(rig.gateway.catalogue, "one", "2", &tried, NULL), STATUS_OK);
    const double all[SHED_LEVELS] = {1};
    estimate_tell(&tried->estimate, clock_now_ns(), 0, all);
    tried->estimate.until_ns = INT64_MAX;
    bool got = false;
    for (int i = 0; i < SHARE; i++) {
        expect_sent(ONE_ROW, false);
        got |= rig.tasks[rig.task_count - 1].model == ON_TRIAL;
    }
    cr_expect(got);
}

/* Each of its parts must be there. */
Test(early, an_estimate_that_makes_no_sense_is_left_alone)
{
    uint32_t model[] = {10, 10}, parts[] = {1, 2};
    int64_t least_ns[] = {NS_PER_S, NS_PER_S};
    double refuse[16] = {1};
    Control__Estimate estimate = CONTROL__ESTIMATE__INIT;
    Control__SchedulerToGateway message = CONTROL__SCHEDULER_TO_GATEWAY__INIT;
    message.estimate = &estimate;
    estimate.model = model;
    estimate.parts = parts;
    estimate.least_ns = least_ns;
    estimate.refuse = refuse;
    for (size_t i = 0; i < 5; i++) {
        estimate.n_row_ns = i == 4; /* and no backlog_ns with it */
        estimate.row_ns = least_ns;
        estimate.n_model = estimate.n_least_ns = i == 0 ? 2 : 1; /* twice the same model */
        estimate.n_parts = i == 1 ? 0 : estimate.n_model;
        estimate.n_refuse = i == 2 ? 15 : 16;
        parts[0] = i == 3 ? 2 : 1;
        fake_scheduler_tell_gateway(&rig.scheduler, &message, 5);
    }
    rig_send_catalogue(&rig, 5, 10, true); /* behind them */
    rig_until(&rig, told()->until_ns != 0 || catalogue_ready_count(rig.gateway.catalogue) == 0);
    cr_expect_eq(told()->until_ns, 0);
}

/* ------------------------------------------------------------------ without a transport */

typedef struct {
    bool done;
    status_t status;
} direct_t;

static void on_done(session_t *session, void *arg)
{
    direct_t *direct = arg;
    err_t err = {0};
    *direct = (direct_t){true, session_write(session, oip_rest_write, &err)};
    session_close(session);
}

Test(early, nothing_is_taken_of_the_arena_and_nothing_published)
{
    arena_stats_t before, after;
    direct_t direct = {0};
    err_t err = {0};
    tell(0, 1);
    session_t *session = session_open(&rig.gateway, PROTOCOL_REST, &err);
    cr_assert_eq(session_set_model(session, "one", "", &err), STATUS_OK);
    cr_assert_eq(oip_rest_parse(&session->request, &session->model->spec, ONE_ROW, strlen(ONE_ROW),
                                OIP_REST_ALL_JSON, &session->allocator, &err),
                 STATUS_OK, "%s", err.text);
    arena_stats(rig.gateway.arena, &before);
    session_submit(session, SESSION_NO_BUDGET, on_done, &direct);
    arena_stats(rig.gateway.arena, &after);
    cr_expect(direct.done && direct.status == STATUS_UNAVAILABLE, "it is answered from within");
    cr_expect_eq(after.allocs, before.allocs);
    cr_expect_eq(after.regions, 0);
}
