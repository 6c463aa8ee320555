/* What deadlines mean (scheduler/deadline.h): those that nobody could keep, and those that leave more time than a model is for. */
#include "base/strbuf.h"
#include "scheduler/admin/state.h"
#include "scheduler/shell.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

#define ALONE_NS (80 * NS_PER_MS) /* the model's SLO is 100 ms */
#define SLO_NS (100 * NS_PER_MS)

static duo_t *begin(const char *policy)
{
    duo_t *s = duo_new(1);
    s->stage.options.control.policy = policy;
    duo_begin(s, ALONE_NS, 0);
    return s;
}

/* The first number of this name in /state; -1 if there is none. */
static long state_number(const duo_t *s, const char *name)
{
    strbuf_t text;
    char key[64];
    strbuf_init(&text, 1 << 20);
    (void)snprintf(key, sizeof key, "\"%s\":", name);
    state_json(s->stage.scheduler->control, loop_now_ns(), &text);
    const char *at = strstr(text.data, key);
    long value = at != NULL ? strtol(at + strlen(key), NULL, 10) : -1;
    strbuf_dispose(&text);
    return value;
}

static void refused_at_the_door(const duo_t *s, uint64_t id)
{
    const drop_t *drop = gateway_dropped(&s->gateway, id);
    cr_assert(drop != NULL, "%lu", (unsigned long)id);
    cr_expect_eq(drop->status, STATUS_DEADLINE_EXCEEDED);
    cr_expect_eq(drop->stage, CONTROL__STAGE__STAGE_ADMISSION);
}

Test(deadlines, what_nobody_could_keep_is_counted_apart)
{
    duo_t *s = begin("fermata");
    gateway_send(&s->gateway, s->gateway.model_id, 1, 50, NS_PER_US);
    gateway_send(&s->gateway, s->gateway.model_id, 51, 1, -NS_PER_S);
    stage_until(&s->stage, s->gateway.drop_count == 51);
    for (uint64_t id = 1; id <= 51; id++)
        refused_at_the_door(s, id);
    cr_expect_eq(s->worker.grant_count, 0);
    cr_expect_eq(state_number(s, "infeasible"), 51);
    cr_expect_eq(state_number(s, "requests"), 0);
    cr_expect_eq(state_number(s, "bad"), 0);
    cr_expect_eq(state_number(s, "dropped"), 0);
    duo_free(s);
}

Test(deadlines, what_looks_infeasible_is_tried_once_where_nothing_runs)
{
    duo_t *s = begin("fermata");
    gateway_send(&s->gateway, s->gateway.model_id, 1, 1, ALONE_NS / 2);
    stage_until(&s->stage, s->worker.grant_count == 1);
    cr_expect_eq(s->worker.grants[0].row[0].task_id, 1);
    gateway_send(&s->gateway, s->gateway.model_id, 2, 1, ALONE_NS / 2); /* nothing was learned yet */
    stage_until(&s->stage, s->gateway.drop_count == 1);
    refused_at_the_door(s, 2);
    cr_expect_eq(state_number(s, "requests"), 0);
    worker_ran(&s->worker, s->worker.grants[0].batch_id, ALONE_NS / 4);
    stage_barrier(&s->stage);
    cr_expect_eq(state_number(s, "bad"), 0);
    duo_free(s);
}

Test(deadlines, nobody_is_held_for_longer_than_the_slo)
{
    duo_t *s = begin("deferred");
    stage_note_plans(&s->stage);
    gateway_send(&s->gateway, s->gateway.model_id, 1, 1, 60 * NS_PER_S);
    stage_until(&s->stage, s->worker.grant_count == 1);
    cr_expect_leq(s->stage.plan_ns[0], 2 * ALONE_NS, "%ld", (long)s->stage.plan_ns[0]);
    cr_expect_gt(s->worker.grants[0].row[0].budget_ns, 30 * NS_PER_S); /* it may be tried again until then */
    duo_free(s);
}

Test(deadlines, who_has_time_waits_for_his_turn)
{
    enum { MANY = 6 };
    duo_t *s = begin("fermata");
    gateway_send(&s->gateway, s->gateway.model_id, 1, MANY, 20 * NS_PER_S);
    uint32_t ran = 0; /* two rows take longer than the SLO, but those that waited for one may share a batch */
    for (uint32_t rows = 0; rows < MANY; ran++) {
        stage_until(&s->stage, s->worker.grant_count > ran);
        int64_t exec_ns = (int64_t)s->worker.grants[ran].rows * ALONE_NS;
        stage_pass(&s->stage, exec_ns);
        rows += s->worker.grants[ran].rows;
        worker_ran(&s->worker, s->worker.grants[ran].batch_id, exec_ns);
    }
    stage_barrier(&s->stage);
    cr_expect_eq(s->gateway.drop_total, 0);
    cr_expect_eq(s->worker.rows_total, MANY);
    gateway_send(&s->gateway, s->gateway.model_id, 100, MANY, SLO_NS); /* and who has not is told so */
    stage_until(&s->stage, s->gateway.drop_total > 0);
    duo_free(s);
}

Test(deadlines, a_model_that_takes_longer_than_its_slo_serves_who_waits)
{
    duo_t *s = duo_new(1);
    duo_begin(s, 3 * SLO_NS, 0);
    gateway_send(&s->gateway, s->gateway.model_id, 1, 1, 20 * NS_PER_S);
    stage_until(&s->stage, s->worker.grant_count == 1);
    gateway_send(&s->gateway, s->gateway.model_id, 2, 1, 2 * SLO_NS);
    stage_until(&s->stage, s->gateway.drop_count == 1);
    refused_at_the_door(s, 2);
    duo_free(s);
}

/* The first batches of a model were late by far, as on a host that stood still: what was learned of them speaks against any batch
 * within the SLO. Who would wait longer is served all the same. */
Test(deadlines, an_estimate_beyond_the_slo_refuses_nobody_who_waits)
{
    enum { LATE = 6 };
    duo_t *s = duo_new(1);
    duo_begin(s, 10 * NS_PER_MS, 0);
    for (uint64_t id = 1; id <= LATE; id++) {
        gateway_send(&s->gateway, s->gateway.model_id, id, 1, 20 * NS_PER_S);
        stage_until(&s->stage, worker_has_task(&s->worker, id));
        stage_pass(&s->stage, 2 * SLO_NS);
        worker_ran(&s->worker, s->worker.grants[s->worker.grant_count - 1].batch_id, 2 * SLO_NS);
    }
    cr_expect_eq(s->gateway.drop_total, 0);
    duo_free(s);
}
