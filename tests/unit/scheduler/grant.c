/* The life of tasks: grants, drops, cancellations, lost workers and gateways. */
#include "support.h"

#include <string.h>

#define READY CONTROL__MODEL_STATE__MODEL_STATE_READY

/* The model takes 1 ms a row, and 1 ms for the batch, and nobody is held to an SLO: a busy machine stands still for longer than any. */
static duo_t *begin_policy(uint32_t devices, const char *policy)
{
    duo_t *s = duo_new(devices);
    s->worker.slo_ns = HANG_NS;
    s->stage.options.control.policy = policy;
    duo_begin(s, NS_PER_MS, NS_PER_MS);
    return s;
}

static duo_t *begin(uint32_t devices)
{
    return begin_policy(devices, "fermata");
}

Test(grant, a_task_reaches_the_worker_with_all_it_needs)
{
    duo_t *s = duo_new(1);
    duo_begin(s, 250 * NS_PER_MS, 250 * NS_PER_MS); /* long beside what the machine may take to grant */
    gateway_send(&s->gateway, s->gateway.model_id, 41, 1, 2 * NS_PER_S);
    stage_until(&s->stage, s->worker.grant_count == 1);
    const grant_t *grant = &s->worker.grants[0];
    cr_expect_eq(grant->rows, 1);
    cr_expect_eq(grant->row[0].task_id, 41);
    cr_expect_eq(grant->row[0].handle_lo, 41 * 3);
    cr_expect_eq(grant->row[0].gateway, s->gateway.fake.index);
    cr_expect_eq(grant->model, s->gateway.model_id);
    cr_expect(grant->row[0].budget_ns > 0 && grant->row[0].budget_ns <= 2 * NS_PER_S);
    worker_done(&s->worker, grant->batch_id, 0, STATUS_OK);
    stage_barrier(&s->stage);
    cr_expect_eq(s->gateway.drop_count, 0);
    duo_free(s);
}

Test(grant, many_tasks_come_in_batches_and_each_once)
{
    enum { MANY = 600 };
    duo_t *s = duo_new(2);
    s->worker.slo_ns =
        10 * NS_PER_S; /* a tenth of a second is too little where other programs run, and some are shed */
    s->worker.auto_done = true;
    duo_begin(s, NS_PER_MS, NS_PER_MS);
    gateway_send(&s->gateway, s->gateway.model_id, 1, MANY, 10 * NS_PER_S);
    stage_until(&s->stage, s->worker.rows_total >= MANY);
    cr_expect_eq(s->worker.rows_total, MANY);
    cr_expect_leq(s->worker.grant_count, MANY / 4, "%u batches", s->worker.grant_count);
    for (uint64_t id = 1; id <= MANY; id++)
        cr_assert(worker_has_task(&s->worker, id), "task %lu", (unsigned long)id);
    cr_expect_eq(s->gateway.drop_count, 0);
    duo_free(s);
}

Test(grant, what_cannot_make_it_is_dropped_at_once)
{
    duo_t *s = begin(1);
    gateway_send(&s->gateway, s->gateway.model_id, 1, 1, NS_PER_US);
    gateway_send(&s->gateway, s->gateway.model_id, 2, 1, -5);
    gateway_send(&s->gateway, s->gateway.model_id, 3, 1, INT64_MIN);
    stage_until(&s->stage, s->gateway.drop_count == 3);
    for (uint64_t id = 1; id <= 3; id++) {
        cr_expect_eq(gateway_dropped(&s->gateway, id)->status, STATUS_DEADLINE_EXCEEDED);
        cr_expect_eq(gateway_dropped(&s->gateway, id)->stage, CONTROL__STAGE__STAGE_ADMISSION);
    }
    cr_expect_eq(s->worker.grant_count, 0);
    duo_free(s);
}

Test(grant, an_overload_is_answered_for_every_task)
{
    enum { MANY = 1000, ROW_MS = 20 };
    duo_t *s = begin(1);
    worker_report(&s->worker, "slow", READY, ROW_MS * NS_PER_MS, ROW_MS * NS_PER_MS);
    stage_until(&s->stage, s->gateway.models == 2);
    /* 8 rows take 180 ms: a thousand in a second cannot be done, whatever the policy, and some always,
     * however busy the host. */
    gateway_send(&s->gateway, s->gateway.model_id + 1, 1, MANY, NS_PER_S);
    uint32_t done = 0;
    int64_t until_ns = clock_now_ns() + 10 * NS_PER_S, free_ns = 0;
    while (s->worker.rows_total + s->gateway.drop_count < MANY && clock_now_ns() < until_ns) {
        loop_run_once(s->stage.fakes.loop, NS_PER_MS);
        if (done == s->worker.grant_count || clock_now_ns() < free_ns)
            continue;
        free_ns = clock_now_ns() + (s->worker.grants[done].rows + 1) * ROW_MS * NS_PER_MS;
        worker_done(&s->worker, s->worker.grants[done++].batch_id, 0, STATUS_OK);
    }
    cr_expect_eq(s->worker.rows_total + s->gateway.drop_count, MANY, "%u + %u", s->worker.rows_total,
                 s->gateway.drop_count);
    cr_expect_gt(s->worker.rows_total, 0);
    cr_expect_gt(s->gateway.drop_count, 0);
    duo_free(s);
}

Test(grant, cancelled_tasks_are_never_granted)
{
    duo_t *s = begin(1);
    /* The device is busy with two batches, so that the third task waits. */
    gateway_send(&s->gateway, s->gateway.model_id, 1, 16, NS_PER_S);
    stage_until(&s->stage, s->worker.grant_count == 2);
    gateway_send(&s->gateway, s->gateway.model_id, 100, 2, NS_PER_S);
    gateway_cancel(&s->gateway, 100);
    gateway_cancel(&s->gateway, 100);                   /* twice is harmless */
    gateway_cancel(&s->gateway, 12345);                 /* unknown as well */
    gateway_send(&s->gateway, 4711, 7777, 1, NS_PER_S); /* refused: then all before it has been handled */
    stage_until(&s->stage, s->gateway.drop_count == 1);
    for (uint32_t i = 0; i < s->worker.grant_count; i++)
        worker_done(&s->worker, s->worker.grants[i].batch_id, 0, STATUS_OK);
    stage_until(&s->stage, worker_has_task(&s->worker, 101));
    cr_expect_not(worker_has_task(&s->worker, 100));
    cr_expect_eq(s->gateway.drop_count, 1);
    duo_free(s);
}

Test(grant, tasks_of_a_killed_worker_go_to_another)
{
    duo_t *s = begin(1);
    gateway_send(&s->gateway, s->gateway.model_id, 1, 4, 5 * NS_PER_S);
    stage_until(&s->stage, s->worker.rows_total == 4);
    static fake_worker_t second;
    duo_add_worker(s, &second);
    fake_kill(&s->worker.fake);
    stage_until(&s->stage, second.rows_total == 4);
    for (uint64_t id = 1; id <= 4; id++)
        cr_expect(worker_has_task(&second, id));
    cr_expect_eq(s->gateway.drop_count, 0);
    worker_done(&second, second.grants[0].batch_id, 0, STATUS_OK);
    fake_kill(&second.fake);
    duo_free(s);
}

Test(grant, without_any_worker_left_the_tasks_are_answered)
{
    duo_t *s = begin(1);
    gateway_send(&s->gateway, s->gateway.model_id, 1, 4, 20 * NS_PER_S);
    stage_until(&s->stage, s->worker.rows_total == 4);
    fake_kill(&s->worker.fake);
    stage_until(&s->stage, s->gateway.drop_count == 4);
    cr_expect_eq(s->gateway.drops[0].status, STATUS_UNAVAILABLE);
    cr_expect_eq(s->gateway.drops[0].stage, CONTROL__STAGE__STAGE_LOST);
    gateway_send(&s->gateway, s->gateway.model_id, 10, 1, 20 * NS_PER_S);
    stage_until(&s->stage, s->gateway.drop_count == 5);
    cr_expect_eq(gateway_dropped(&s->gateway, 10)->status, STATUS_UNAVAILABLE);
    cr_expect_eq(gateway_dropped(&s->gateway, 10)->stage, CONTROL__STAGE__STAGE_ADMISSION);
    duo_free(s);
}

Test(grant, a_worker_that_comes_back_in_time_serves_what_waited)
{
    duo_t *s = begin(1);
    gateway_send(&s->gateway, s->gateway.model_id, 1, 4, 600 * NS_PER_S);
    stage_until(&s->stage, s->worker.rows_total == 4);
    rpc_stream_cancel(s->worker.fake.stream);
    stage_until(&s->stage, s->worker.fake.welcomes == 2);
    worker_report(&s->worker, "net", READY, NS_PER_MS, NS_PER_MS);
    stage_until(&s->stage, s->worker.rows_total == 8);
    cr_expect_eq(s->gateway.drop_count, 0);
    duo_free(s);
}

Test(grant, a_failed_batch_is_tried_once_more)
{
    duo_t *s = begin(1);
    gateway_send(&s->gateway, s->gateway.model_id, 1, 3, 20 * NS_PER_S);
    stage_until(&s->stage, s->worker.rows_total == 3);
    uint32_t first = s->worker.grant_count;
    for (uint32_t i = 0; i < first; i++)
        worker_done(&s->worker, s->worker.grants[i].batch_id, 0, STATUS_INTERNAL);
    stage_until(&s->stage, s->worker.rows_total == 6);
    cr_expect_eq(s->gateway.drop_count, 0);
    for (uint32_t i = first; i < s->worker.grant_count; i++)
        worker_done(&s->worker, s->worker.grants[i].batch_id, 0, STATUS_INTERNAL);
    stage_until(&s->stage, s->gateway.drop_count == 3);
    cr_expect_eq(s->gateway.drops[0].status, STATUS_INTERNAL);
    cr_expect_eq(s->gateway.drops[0].stage, CONTROL__STAGE__STAGE_WORKER);
    cr_expect_eq(s->worker.rows_total, 6);
    duo_free(s);
}

/* The first worker is free and comes first by its number; what failed there goes to the other all the same, which comes when the first
 * has all rows: threads may grant each some. */
Test(grant, a_failed_batch_is_tried_on_another_worker)
{
    duo_t *s = begin(1);
    static fake_worker_t second;
    gateway_send(&s->gateway, s->gateway.model_id, 1, 3, 20 * NS_PER_S);
    stage_until(&s->stage, s->worker.rows_total == 3);
    duo_add_worker(s, &second);
    for (uint32_t i = 0; i < s->worker.grant_count; i++)
        worker_done(&s->worker, s->worker.grants[i].batch_id, 0, STATUS_INTERNAL);
    stage_until(&s->stage, second.rows_total == 3);
    cr_expect_eq(s->worker.rows_total, 3);
    fake_kill(&second.fake); /* now the first is the only one, and good enough */
    stage_until(&s->stage, s->gateway.ready_workers == 1);
    gateway_send(&s->gateway, s->gateway.model_id, 10, 1, 20 * NS_PER_S);
    stage_until(&s->stage, worker_has_task(&s->worker, 10));
    duo_free(s);
}

/* Both workers have all that they take; what the first then gives up for its most urgent row is no failure: that row is
 * answered, and the others go to the first as soon as it takes more. */
Test(grant, what_a_worker_gives_up_for_its_most_urgent_row_is_not_held_against_it)
{
    duo_t *s = begin_policy(1, "eager");
    fake_worker_t *first = &s->worker;
    static fake_worker_t second;
    duo_add_worker(s, &second);
    for (uint32_t i = 0; i < 4; i++) {
        gateway_send(&s->gateway, s->gateway.model_id, 1 + i, 1, 60 * NS_PER_S);
        stage_until(&s->stage, first->grant_count + second.grant_count == 1 + i);
    }
    gateway_send(&s->gateway, s->gateway.model_id, 10, 2, 30 * NS_PER_S);
    gateway_send(&s->gateway, s->gateway.model_id, 20, 3, 60 * NS_PER_S);
    /* Nobody waits for its result any more, so it is not tried elsewhere if nothing shows in time that it came. */
    gateway_cancel(&s->gateway, first->grants[0].row[0].task_id);
    gateway_send(&s->gateway, 4711, 7777, 1, NS_PER_S); /* refused: then all before it has been handled */
    stage_until(&s->stage, s->gateway.drop_count == 1);
    worker_done(first, first->grants[0].batch_id, 0, STATUS_OK);
    stage_until(&s->stage, first->grant_count == 3);
    cr_assert_eq(first->grants[2].rows, 5);
    worker_done(first, first->grants[2].batch_id, 0, STATUS_DEADLINE_EXCEEDED);
    stage_until(&s->stage, first->grant_count == 4);
    cr_expect_eq(first->grants[3].rows, 3, "%u rows", first->grants[3].rows);
    cr_expect_eq(first->grants[3].row[0].task_id, 20, "task %lu",
                 (unsigned long)first->grants[3].row[0].task_id);
    stage_until(&s->stage, s->gateway.drop_count == 3);
    for (uint64_t id = 10; id < 12; id++) {
        const drop_t *drop = gateway_dropped(&s->gateway, id);
        cr_assert_not_null(drop);
        cr_expect_eq(drop->status, STATUS_DEADLINE_EXCEEDED);
        cr_expect_eq(drop->stage, CONTROL__STAGE__STAGE_WORKER);
    }
    cr_expect_eq(second.grant_count, 2);
    fake_kill(&second.fake);
    duo_free(s);
}

/* It is passed over for that model and for that while only. */
Test(grant, a_worker_that_failed_once_serves_again)
{
    duo_t *s = begin(1);
    static fake_worker_t second;
    duo_add_worker(s, &second);
    second.auto_done = true;
    gateway_send(&s->gateway, s->gateway.model_id, 1, 1, 20 * NS_PER_S);
    stage_until(&s->stage, s->worker.rows_total == 1);
    worker_done(&s->worker, s->worker.grants[0].batch_id, 0, STATUS_INTERNAL);
    stage_until(&s->stage, worker_has_task(&second, 1));
    s->worker.auto_done = true;
    for (uint64_t id = 100; s->worker.rows_total == 1 && id < 10000; id++) {
        gateway_send(&s->gateway, s->gateway.model_id, id, 1, NS_PER_S);
        stage_pass(&s->stage, 5 * NS_PER_MS);
    }
    cr_expect_gt(s->worker.rows_total, 1);
    cr_expect_gt(second.rows_total, 0);
    fake_kill(&second.fake);
    duo_free(s);
}

/* Half a minute of everything being slow must not make the scheduler refuse for ever what would be quick again. */
Test(grant, terrible_measurements_leave_room_to_try)
{
    duo_t *s = duo_new(1);
    duo_begin(s, NS_PER_MS, NS_PER_MS); /* with the SLO of 100 ms that bounds what is believed of them */
    for (uint64_t id = 1; id <= 20; id++) {
        gateway_send(&s->gateway, s->gateway.model_id, id, 1, 20 * NS_PER_S);
        stage_until(&s->stage, s->worker.grant_count == id);
        Control__BatchDone done = CONTROL__BATCH_DONE__INIT;
        done.batch_id = s->worker.grants[id - 1].batch_id;
        done.exec_ns = done.device_ns = NS_PER_MS;
        done.fetch_ns = done.push_ns = 500 * NS_PER_MS;
        worker_tell_done(&s->worker, &done);
    }
    stage_upkeep(&s->stage); /* the bounds are made anew */
    gateway_send(&s->gateway, s->gateway.model_id, 100, 1, 80 * NS_PER_MS);
    stage_until(&s->stage, s->worker.grant_count == 21 || s->gateway.drop_count > 0);
    cr_expect_eq(s->gateway.drop_count, 0);
    cr_expect_eq(s->worker.grant_count, 21);
    duo_free(s);
}

Test(grant, failed_rows_are_answered_alone)
{
    duo_t *s = begin(1);
    gateway_send(&s->gateway, s->gateway.model_id, 1, 4, 20 * NS_PER_S);
    stage_until(&s->stage, s->worker.rows_total == 4);
    const grant_t *grant = &s->worker.grants[0];
    cr_assert_eq(grant->rows, 4);
    uint32_t rows[] = {2, 2, 77}, statuses[] = {STATUS_IO, STATUS_IO, STATUS_IO};
    Control__BatchDone done = CONTROL__BATCH_DONE__INIT;
    done.batch_id = grant->batch_id;
    done.n_failed_row = done.n_failed_status = 3;
    done.failed_row = rows;
    done.failed_status = statuses;
    worker_tell_done(&s->worker, &done);
    stage_until(&s->stage, s->gateway.drop_count == 1);
    stage_barrier(&s->stage);
    cr_expect_eq(s->gateway.drop_count, 1);
    cr_expect_eq(s->gateway.drops[0].id, grant->row[2].task_id);
    cr_expect_eq(s->gateway.drops[0].status, STATUS_IO);
    cr_expect_eq(s->gateway.drops[0].stage, CONTROL__STAGE__STAGE_FETCH);
    duo_free(s);
}

Test(grant, tasks_of_a_gateway_that_has_gone_are_forgotten)
{
    duo_t *s = begin(1);
    gateway_send(&s->gateway, s->gateway.model_id, 1, 16, 20 * NS_PER_S);
    stage_until(&s->stage, s->worker.rows_total == 16);
    gateway_send(&s->gateway, s->gateway.model_id, 100, 50, 20 * NS_PER_S);
    stage_barrier(&s->stage);
    fake_kill(&s->gateway.fake);
    stage_until(&s->stage, s->worker.peer_count == 0);
    for (uint32_t i = 0; i < s->worker.grant_count; i++)
        worker_done(&s->worker, s->worker.grants[i].batch_id, 0, STATUS_OK);

    /* The next gateway is served; of the other's fifty none was granted. */
    gateway_init(&s->gateway, &s->stage.fakes, 10);
    gateway_connect(&s->gateway);
    stage_until(&s->stage, s->gateway.ready);
    gateway_send(&s->gateway, s->gateway.model_id, 500, 1, 20 * NS_PER_S);
    stage_until(&s->stage, worker_has_task(&s->worker, 500));
    cr_expect_eq(s->worker.rows_total, 17);
    duo_free(s);
}

Test(grant, a_full_table_refuses_and_recovers)
{
    duo_t *s = duo_new(1);
    s->stage.options.control.tasks_max = 20;
    duo_begin(s, NS_PER_MS, 0);
    gateway_send(&s->gateway, s->gateway.model_id, 1, 30, 20 * NS_PER_S);
    stage_until(&s->stage, s->gateway.drop_count == 10);
    cr_expect_eq(s->gateway.drops[0].status, STATUS_UNAVAILABLE);
    cr_expect_eq(s->gateway.drops[0].stage, CONTROL__STAGE__STAGE_ADMISSION);
    s->worker.auto_done = true;
    stage_until(&s->stage, s->worker.grant_count > 0);
    for (uint32_t i = 0, n = s->worker.grant_count; i < n; i++)
        worker_done(&s->worker, s->worker.grants[i].batch_id, 0, STATUS_OK);
    stage_until(&s->stage, s->worker.rows_total == 20);
    stage_barrier(
        &s->stage); /* the last reports of the worker travel on another stream than the next tasks */
    gateway_send(&s->gateway, s->gateway.model_id, 100, 20, 20 * NS_PER_S);
    stage_until(&s->stage, s->worker.rows_total == 40);
    cr_expect_eq(s->gateway.drop_count, 10);
    duo_free(s);
}

/* The two may have been granted to one device, or one to each. */
Test(grant, a_failed_device_loses_its_batches_to_the_other)
{
    duo_t *s = begin(2);
    gateway_send(&s->gateway, s->gateway.model_id, 1, 2, 20 * NS_PER_S);
    stage_until(&s->stage, s->worker.rows_total == 2);
    uint32_t first = s->worker.grant_count, lost = 0;
    for (uint32_t i = 0; i < first; i++)
        lost += s->worker.grants[i].device == 0 ? s->worker.grants[i].rows : 0;
    cr_assert_eq(s->worker.grants[0].device, 0);
    worker_tell_device(&s->worker, 0, CONTROL__DEVICE_STATUS__DEVICE_FAILED, "fell off the bus");
    stage_until(&s->stage, s->worker.rows_total == 2 + lost);
    for (uint32_t i = first; i < s->worker.grant_count; i++)
        cr_expect_eq(s->worker.grants[i].device, 1);
    worker_done(&s->worker, s->worker.grants[0].batch_id, 0, STATUS_OK); /* late: harmless */
    stage_barrier(&s->stage);
    cr_expect_eq(s->gateway.drop_count, 0);
    duo_free(s);
}
