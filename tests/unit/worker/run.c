#include "support.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

static rig_t rig;

Test(run, rows_of_two_gateways_go_there_and_back)
{
    grant_t grant;

    rig_init(&rig);
    grant_init(&grant, 1, 0);
    grant_add(&rig, &grant, 10, 100, 5);
    grant_add(&rig, &grant, 11, 200, 6);
    grant_add(&rig, &grant, 10, 101, 7);
    int64_t before_ns = clock_now_ns();
    grant_send(&rig, &grant);
    rig_until(&rig, engine_held() == 1);
    cr_assert_geq(atomic_load(&rig.devices.list[0].granted_ns), before_ns, "measuring sees the traffic");
    cr_assert_eq(atomic_load(&rig.devices.list[1].granted_ns), 0);
    cr_assert_eq(engine_oldest()->batch, 3);
    cr_assert_eq(rig.report_count, 0);
    engine_finish(STATUS_OK, NULL);
    rig_until(&rig, rig.gateways[0].done == 2 && rig.gateways[1].done == 1);

    cr_assert_eq(rig.report_count, 1);
    const run_report_t *report = &rig.reports[0].report;
    cr_assert_eq(report->batch_id, 1);
    cr_assert_eq(report->generation, 7);
    cr_assert_eq(report->status, STATUS_OK);
    cr_assert_eq(report->exec_ns, 12345);
    cr_assert_gt(report->fetch_ns, 0);
    cr_assert_eq(report->failed_count, 0);
    const pushed_t *first = pushed_of(&rig.gateways[0], 100), *second = pushed_of(&rig.gateways[0], 101);
    const pushed_t *other = pushed_of(&rig.gateways[1], 200);
    cr_assert_float_eq(first->values[0], 50, 0);
    cr_assert_float_eq(first->values[1], 54, 0);
    cr_assert_float_eq(second->values[0], 70, 0);
    cr_assert_float_eq(other->values[0], 1060, 0);
    cr_assert_float_eq(other->values[1], 1064, 0);
    cr_assert_eq(first->timing.batch_size, 3);
    cr_assert_eq(first->timing.exec_ns, 12345);
    cr_assert(transfer_handle_equal(first->handle, rig.gateways[0].handle));
    rig_until(&rig, run_under_way(rig.run) == 0);
    rig_dispose(&rig);
}

Test(run, the_next_batch_is_fetched_and_submitted_while_one_executes)
{
    grant_t grant;

    rig_init(&rig);
    for (uint64_t id = 1; id <= 3; id++) {
        grant_init(&grant, id, 1);
        grant_add(&rig, &grant, 10, id, (uint32_t)id);
        grant_send(&rig, &grant);
    }
    rig_until(&rig, engine_held() == 3);
    engine_finish(STATUS_OK, NULL);
    rig_until(&rig, rig.report_count == 1);
    cr_assert_eq(rig.reports[0].report.batch_id, 1);
    cr_assert_eq(rig.reports[0].report.free_in_ns, 2 * 2 * NS_PER_MS, "two batches of one are still to run");
    engine_finish(STATUS_OK, NULL);
    engine_finish(STATUS_OK, NULL);
    rig_until(&rig, run_under_way(rig.run) == 0);
    cr_assert_eq(rig.gateways[0].done, 3);
    cr_assert_eq(rig.reports[2].report.free_in_ns, 0);
    rig_dispose(&rig);
}

Test(run, rows_that_cannot_be_fetched_are_left_out)
{
    grant_t grant;

    rig_init(&rig);
    grant_init(&grant, 1, 0);
    grant_add(&rig, &grant, 10, 100, 1);
    grant_add(&rig, &grant, 99, 300, 1); /* a gateway nobody spoke of */
    grant_add(&rig, &grant, 10, 101, 2);
    grant_row_t row = grant_rows_at(&grant.grant, 2);
    row.handle_lo ^= 1; /* that was never given out */
    grant_rows_put(&grant.grant, 2, &row);
    grant_add(&rig, &grant, 11, 200, 3);
    grant_add(&rig, &grant, 10, 102, 4);
    grant_add(&rig, &grant, 10, 103, 4);
    row = grant_rows_at(&grant.grant, 5);
    row.len_bytes = 8; /* not a row of this model */
    grant_rows_put(&grant.grant, 5, &row);
    grant_send(&rig, &grant);
    rig_until(&rig, engine_held() == 1);
    cr_assert_eq(engine_oldest()->batch, 3);
    engine_finish(STATUS_OK, NULL);
    rig_until(&rig, run_under_way(rig.run) == 0);

    const reported_t *reported = &rig.reports[0];
    cr_assert_eq(reported->report.status, STATUS_OK);
    cr_assert_eq(reported->report.failed_count, 3);
    uint32_t want[6] = {0, STATUS_UNAVAILABLE, STATUS_NOT_FOUND, 0, 0, STATUS_INVALID_ARGUMENT};
    for (uint32_t i = 0; i < 3; i++)
        cr_assert_eq(reported->failed_status[i], want[reported->failed_row[i]], "row %u",
                     reported->failed_row[i]);
    cr_assert_float_eq(pushed_of(&rig.gateways[0], 100)->values[0], 10, 0);
    cr_assert_float_eq(pushed_of(&rig.gateways[0], 102)->values[0], 40, 0);
    cr_assert_float_eq(pushed_of(&rig.gateways[1], 200)->values[0], 1030, 0);
    cr_assert_eq(rig.gateways[0].begun, 2);
    rig_dispose(&rig);
}

/* Gateway 12 takes connections, and that is all. Returns its listener. */
static int add_silent_gateway(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    char address[32];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    cr_assert_eq(bind(fd, (struct sockaddr *)&at, len), 0);
    cr_assert_eq(listen(fd, 8), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    snprintf(address, sizeof address, "127.0.0.1:%u", ntohs(at.sin_port));
    cr_assert_eq(peers_set(rig.peers, 12, 1012, address, NULL), STATUS_OK);
    return fd;
}

static void grant_rows_of(uint64_t batch, uint32_t silent, uint32_t well)
{
    grant_t grant;

    grant_init(&grant, batch, 0);
    for (uint32_t i = 0; i < silent; i++) {
        grant_add(&rig, &grant, 10, 1000 * batch + i, 1);
        grant_row_t row = grant_rows_at(&grant.grant, i);
        row.gateway = 12;
        grant_rows_put(&grant.grant, i, &row);
    }
    for (uint32_t i = 0; i < well; i++)
        grant_add(&rig, &grant, 10, 100 * batch + i, 1);
    grant_send(&rig, &grant);
}

Test(run, a_batch_whose_inputs_are_here_passes_one_that_waits_for_a_silent_gateway)
{
    rig_init(&rig);
    int fd = add_silent_gateway();
    grant_rows_of(1, 1, 0);
    grant_rows_of(2, 0, 2);
    rig_until(&rig, engine_held() == 1);
    cr_assert_eq(engine_oldest()->batch, 2);
    cr_assert_eq(rig.report_count, 0, "the first one is still waited for");
    engine_finish(STATUS_OK, NULL);
    rig_until(&rig, run_under_way(rig.run) == 0);
    cr_assert_eq(rig.reports[0].report.batch_id, 2);
    cr_assert_eq(rig.reports[1].report.status, STATUS_CANCELLED, "nobody else would fetch it either");
    rig_dispose(&rig);
    close(fd);
}

Test(run, a_batch_starts_with_the_rows_that_came)
{
    rig_init(&rig);
    int fd = add_silent_gateway();
    grant_rows_of(1, 2, 3);
    rig_until(&rig, engine_held() == 1);
    cr_assert_eq(engine_oldest()->batch, 3);
    engine_finish(STATUS_OK, NULL);
    rig_until(&rig, run_under_way(rig.run) == 0);
    cr_assert_eq(rig.reports[0].report.status, STATUS_OK);
    cr_assert_eq(rig.reports[0].report.failed_count, 2);
    cr_assert_eq(rig.reports[0].failed_status[0], STATUS_DEADLINE_EXCEEDED);
    rig_dispose(&rig);
    close(fd);
}

/* After some times it is known: a batch of such rows is over before the loop has turned. */
Test(run, rows_of_a_gateway_that_stays_silent_fail_at_once)
{
    rig_init(&rig);
    int fd = add_silent_gateway();
    for (uint64_t batch = 1; batch <= 3; batch++) {
        grant_rows_of(batch, 1, 1);
        rig_until(&rig, engine_held() == 1);
        engine_finish(STATUS_OK, NULL);
        rig_until(&rig, run_under_way(rig.run) == 0);
    }
    grant_rows_of(4, 1, 0);
    cr_assert_eq(run_under_way(rig.run), 0);
    cr_assert_eq(rig.report_count, 4);
    cr_assert_eq(rig.reports[3].failed_status[0], STATUS_UNAVAILABLE);
    rig_dispose(&rig);
    close(fd);
}

static void grant_four(void)
{
    grant_t grant;

    grant_init(&grant, 1, 0);
    for (uint64_t id = 100; id < 104; id++)
        grant_add(&rig, &grant, 10, id, (uint32_t)id - 99);
    grant_send(&rig, &grant);
    rig_until(&rig, engine_held() == 1);
    cr_assert_eq(engine_oldest()->batch, 4);
}

/* The next job is of so many rows, and ends so. */
static void finish_rows(uint32_t rows, status_t status)
{
    rig_until(&rig, engine_held() == 1);
    cr_assert_eq(engine_oldest()->batch, rows);
    engine_finish(status, status == STATUS_OK ? NULL : "an unknown category");
}

Test(run, rows_whose_contents_the_engine_refuses_are_found_and_cost_the_others_nothing)
{
    rig_init(&rig);
    grant_four();
    finish_rows(4, STATUS_INVALID_ARGUMENT);
    finish_rows(2, STATUS_OK);
    finish_rows(2, STATUS_INVALID_ARGUMENT);
    finish_rows(1, STATUS_INVALID_ARGUMENT);
    finish_rows(1, STATUS_OK);
    rig_until(&rig, run_under_way(rig.run) == 0);

    const reported_t *reported = &rig.reports[0];
    cr_assert_eq(rig.report_count, 1);
    cr_assert_eq(reported->report.status, STATUS_OK);
    cr_assert_eq(reported->report.failed_count, 1);
    cr_assert_eq(reported->failed_row[0], 2);
    cr_assert_eq(reported->failed_status[0], STATUS_INVALID_ARGUMENT);
    cr_assert_eq(rig.gateways[0].done, 3);
    cr_assert_null(pushed_of(&rig.gateways[0], 102));
    cr_assert_float_eq(pushed_of(&rig.gateways[0], 100)->values[0], 10, 0);
    cr_assert_float_eq(pushed_of(&rig.gateways[0], 101)->values[0], 20, 0);
    cr_assert_float_eq(pushed_of(&rig.gateways[0], 103)->values[0], 40, 0);
    rig_dispose(&rig);
}

Test(run, a_batch_of_refused_rows_alone_is_over_without_a_result)
{
    grant_t grant;

    rig_init(&rig);
    grant_init(&grant, 1, 0);
    grant_add(&rig, &grant, 10, 100, 1);
    grant_send(&rig, &grant);
    finish_rows(1, STATUS_INVALID_ARGUMENT);
    rig_until(&rig, run_under_way(rig.run) == 0);
    cr_assert_eq(rig.reports[0].report.status, STATUS_OK);
    cr_assert_eq(rig.reports[0].report.failed_count, 1);
    cr_assert_eq(rig.gateways[0].begun, 0);
    rig_dispose(&rig);
}

Test(run, what_breaks_while_refused_rows_are_looked_for_fails_the_rest)
{
    rig_init(&rig);
    grant_four();
    finish_rows(4, STATUS_INVALID_ARGUMENT);
    finish_rows(2, STATUS_OK);
    finish_rows(2, STATUS_INTERNAL);
    rig_until(&rig, run_under_way(rig.run) == 0);
    cr_assert_eq(rig.report_count, 1);
    cr_assert_eq(rig.reports[0].report.status, STATUS_INTERNAL);
    cr_assert_eq(engine_held(), 0);
    rig_dispose(&rig);
}

Test(run, a_batch_without_any_input_is_not_executed)
{
    grant_t grant;

    rig_init(&rig);
    grant_init(&grant, 1, 0);
    grant_add(&rig, &grant, 99, 300, 1);
    grant_send(&rig, &grant);
    rig_until(&rig, rig.report_count == 1);
    cr_assert_eq(rig.reports[0].report.status, STATUS_UNAVAILABLE);
    cr_assert_eq(rig.reports[0].report.failed_count, 1);
    cr_assert_eq(engine_held(), 0);
    cr_assert_eq(run_under_way(rig.run), 0);
    rig_dispose(&rig);
}

Test(run, a_gateway_that_dies_takes_only_its_own_rows_along)
{
    grant_t grant;

    rig_init(&rig);
    transfer_owner_destroy(rig.gateways[1].owner);
    rig.gateways[1].owner = NULL;
    grant_init(&grant, 1, 0);
    grant_add(&rig, &grant, 11, 200, 1);
    grant_add(&rig, &grant, 10, 100, 2);
    grant_send(&rig, &grant);
    rig_until(&rig, engine_held() == 1);
    cr_assert_eq(engine_oldest()->batch, 1);
    engine_finish(STATUS_OK, NULL);
    rig_until(&rig, run_under_way(rig.run) == 0);
    cr_assert_eq(rig.reports[0].report.failed_count, 1);
    cr_assert_eq(rig.reports[0].failed_row[0], 0);
    cr_assert_eq(rig.reports[0].failed_status[0], STATUS_UNAVAILABLE);
    cr_assert_float_eq(pushed_of(&rig.gateways[0], 100)->values[0], 20, 0);
    rig_dispose(&rig);
}

Test(run, a_gateway_that_dies_before_the_push_does_not_hold_the_batch)
{
    grant_t grant;

    rig_init(&rig);
    grant_init(&grant, 1, 0);
    grant_add(&rig, &grant, 10, 100, 1);
    grant_add(&rig, &grant, 11, 200, 1);
    grant_send(&rig, &grant);
    rig_until(&rig, engine_held() == 1);
    transfer_owner_destroy(rig.gateways[1].owner);
    rig.gateways[1].owner = NULL;
    engine_finish(STATUS_OK, NULL);
    rig_until(&rig, run_under_way(rig.run) == 0);
    cr_assert_eq(rig.reports[0].report.status, STATUS_OK);
    cr_assert_eq(rig.gateways[0].done, 1);
    rig_dispose(&rig);
}

/* Rows of a size that varies, and so outputs whose size only the engine knows. */
static void begin_varying(model_mode_t mode)
{
    static uint32_t exits[] = {3};
    grant_t grant;

    rig_init(&rig);
    rig_vary(&rig);
    rig.model->choice = (mode_choice_t){.mode = mode, .exits = exits, .exit_points = 1};
    grant_init(&grant, 1, 0);
    grant.size = IN_A;
    grant_add(&rig, &grant, 10, 100, 2);
    grant_send(&rig, &grant);
    rig_until(&rig, engine_held() == 1);
    *(size_t *)(uintptr_t)engine_oldest()->output_capacity_bytes = 1; /* as of the first batch of its shape */
}

static void end_varying(void)
{
    rig_until(&rig, run_under_way(rig.run) == 0);
    rig.model->choice = (mode_choice_t){.mode = MODE_WHOLE};
    rig_dispose(&rig);
}

Test(run, outputs_that_need_more_room_get_it_and_the_batch_runs_again)
{
    begin_varying(MODE_WHOLE);
    engine_finish(STATUS_TOO_LARGE, "one output needs more");
    rig_until(&rig, engine_held() == 1);
    cr_assert_geq(engine_oldest()->output_capacity_bytes[0], OUT * 4);
    engine_finish(STATUS_OK, NULL);
    rig_until(&rig, rig.gateways[0].done == 1);
    cr_assert_eq(rig.reports[0].report.status, STATUS_OK);
    end_varying();
}

static void *no_memory(engine_t *engine, size_t len_bytes)
{
    (void)engine, (void)len_bytes;
    return NULL;
}

static void expect_no_memory(model_mode_t mode)
{
    engine_ops_t ops = *engine_manual();

    ops.buffer_alloc = no_memory;
    begin_varying(mode);
    rig.devices.ops = &ops;
    engine_finish(STATUS_TOO_LARGE, "one output needs more");
    rig_until(&rig, rig.report_count == 1 || engine_held() == 1);
    cr_assert_eq(engine_held(), 0, "it was submitted again into the same room");
    cr_assert_eq(rig.reports[0].report.status, STATUS_NO_MEMORY);
    cr_assert_str_eq(rig.reports[0].reason, "no memory for output 'o'");
    rig.devices.ops = engine_manual();
    end_varying();
}

Test(run, without_memory_for_an_output_the_batch_fails)
{
    expect_no_memory(MODE_WHOLE);
    expect_no_memory(MODE_PREEMPT);
}

Test(run, a_revoked_batch_does_not_run_again_for_want_of_room)
{
    const model_mode_t modes[] = {MODE_WHOLE, MODE_PREEMPT};

    for (int i = 0; i < 2; i++) {
        begin_varying(modes[i]);
        run_revoke(rig.run, 7, 1);
        engine_finish(STATUS_TOO_LARGE, "one output needs more");
        rig_until(&rig, rig.report_count == 1 || engine_held() == 1);
        cr_assert_eq(engine_held(), 0);
        cr_assert_eq(rig.reports[0].report.status, STATUS_CANCELLED);
        cr_assert_str_eq(rig.reports[0].reason, "revoked");
        end_varying();
    }
}

Test(run, a_result_that_cannot_be_sent_is_a_row_that_failed)
{
    grant_t grant;

    rig_init(&rig);
    grant_init(&grant, 1, 0);
    grant_add(&rig, &grant, 10, 100, 1);
    grant_add(&rig, &grant, 11, 200, 1);
    grant_add(&rig, &grant, 11, 201, 1);
    grant_send(&rig, &grant);
    rig_until(&rig, engine_held() == 1);
    peers_disconnect(rig.peers);
    engine_finish(STATUS_OK, NULL);
    rig_until(&rig, run_under_way(rig.run) == 0);
    cr_assert_eq(rig.reports[0].report.status, STATUS_OK);
    cr_assert_eq(rig.reports[0].report.failed_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert_eq(rig.reports[0].failed_row[i], i);
        cr_assert_eq(rig.reports[0].failed_status[i], STATUS_UNAVAILABLE);
    }
    cr_assert_eq(metrics_value(rig.model->serving->push_failed), 3);
    cr_assert_eq(metrics_value(rig.model->serving->tasks_ok), 0);
    rig_dispose(&rig);
}

Test(run, times_beyond_all_reason_on_the_wire_do_no_harm)
{
    grant_t grant;

    rig_init(&rig);
    grant_init(&grant, 1, 0);
    grant_add(&rig, &grant, 10, 100, 1);
    grant_add(&rig, &grant, 10, 101, 1); /* whose budget is INT64_MAX */
    grant_row_t row = grant_rows_at(&grant.grant, 0);
    row.budget_ns = INT64_MIN;
    grant_rows_put(&grant.grant, 0, &row);
    grant_send(&rig, &grant);
    rig_until(&rig, engine_held() == 1);
    engine_finish(STATUS_OK, NULL);
    rig_until(&rig, run_under_way(rig.run) == 0);
    rig_dispose(&rig);
}

Test(run, a_revoke_is_for_the_batches_of_its_own_scheduler)
{
    grant_t grant;

    rig_init(&rig);
    for (uint64_t id = 1; id <= 2; id++) {
        grant_init(&grant, id, 0);
        grant_add(&rig, &grant, 10, id, 1);
        grant_send(&rig, &grant);
    }
    rig_until(&rig, engine_held() == 2);
    run_revoke(rig.run, 8, 2);
    cr_assert_eq(rig.report_count, 0, "batch 2 of another one");
    run_revoke(rig.run, 7, 2);
    cr_assert_eq(rig.report_count, 1);
    engine_finish(STATUS_OK, NULL);
    rig_until(&rig, run_under_way(rig.run) == 0);
    rig_dispose(&rig);
}

Test(run, a_failure_of_the_engine_fails_the_batch_and_pushes_nothing)
{
    grant_t grant;

    rig_init(&rig);
    grant_init(&grant, 1, 0);
    grant_add(&rig, &grant, 10, 100, 1);
    grant_send(&rig, &grant);
    rig_until(&rig, engine_held() == 1);
    engine_finish(STATUS_INTERNAL, "conv7: no such primitive");
    rig_until(&rig, rig.report_count == 1);
    cr_assert_eq(rig.reports[0].report.status, STATUS_INTERNAL);
    cr_assert_str_eq(rig.reports[0].reason, "conv7: no such primitive");
    cr_assert_eq(run_under_way(rig.run), 0);
    cr_assert_eq(rig.gateways[0].begun, 0);
    rig_dispose(&rig);
}

Test(run, wrong_grants_are_refused_with_a_reason)
{
    grant_t grant;
    struct {
        status_t status;
        const char *reason;
    } want[] = {
        {STATUS_INVALID_ARGUMENT, "the grant has no rows"},
        {STATUS_INVALID_ARGUMENT, "the grant's rows are not of the length that this version knows"},
        {STATUS_NOT_FOUND, "unknown model id"},
        {STATUS_NOT_FOUND, "the model is not ready on this worker"},
        {STATUS_INVALID_ARGUMENT, "no such device"},
        {STATUS_TOO_LARGE, "the batch is larger than the model's max_batch"},
    };

    rig_init(&rig);
    grant_init(&grant, 0, 0);
    grant_send(&rig, &grant); /* empty */
    grant_add(&rig, &grant, 10, 1, 1);
    grant.grant.batch_id = 1;
    grant.grant.n_word--; /* as from one that knows shorter rows */
    run_grant(rig.run, 7, rig.model, &grant.grant);
    grant.grant.batch_id = 2;
    grant.grant.n_word++;
    run_grant(rig.run, 7, NULL, &grant.grant);
    grant.grant.batch_id = 3;
    rig.model->serving->state = MODEL_LOADING;
    grant_send(&rig, &grant);
    rig.model->serving->state = MODEL_READY;
    grant.grant.batch_id = 4;
    grant.grant.device = 2;
    grant_send(&rig, &grant);
    grant.grant.batch_id = 5;
    grant.grant.device = 0;
    for (int i = 0; i < MAX_BATCH; i++)
        grant_add(&rig, &grant, 10, 1, 1);
    grant_send(&rig, &grant);

    cr_assert_eq(rig.report_count, 6);
    for (int i = 0; i < 6; i++) {
        cr_assert_eq(rig.reports[i].report.batch_id, (uint64_t)i);
        cr_assert_eq(rig.reports[i].report.status, want[i].status, "case %d", i);
        cr_assert_str_eq(rig.reports[i].reason, want[i].reason, "case %d", i);
    }
    cr_assert_eq(run_under_way(rig.run), 0);
    rig_dispose(&rig);
}

Test(run, a_devices_queue_is_bounded)
{
    grant_t grant;

    rig_init(&rig);
    for (uint64_t id = 0; id <= RUN_QUEUE_MAX; id++) {
        grant_init(&grant, id, 0);
        grant_add(&rig, &grant, 10, id, 1);
        grant_send(&rig, &grant);
    }
    cr_assert_eq(rig.report_count, 1);
    cr_assert_eq(rig.reports[0].report.batch_id, RUN_QUEUE_MAX);
    cr_assert_eq(rig.reports[0].report.status, STATUS_UNAVAILABLE);
    rig_until(&rig, engine_held() == RUN_QUEUE_MAX);
    for (int i = 0; i < RUN_QUEUE_MAX; i++)
        engine_finish(STATUS_OK, NULL);
    rig_until(&rig, run_under_way(rig.run) == 0);
    cr_assert_eq(rig.gateways[0].done, RUN_QUEUE_MAX);
    rig_dispose(&rig);
}

Test(run, revoked_batches_are_reported_once_in_every_state)
{
    grant_t grant;

    rig_init(&rig);
    grant_init(&grant, 1, 0);
    grant_add(&rig, &grant, 10, 1, 1);
    grant_send(&rig, &grant);
    run_revoke(rig.run, 7, 1); /* while it fetches */
    cr_assert_eq(rig.report_count, 1);

    for (grant.grant.batch_id = 2; grant.grant.batch_id <= 3; grant.grant.batch_id++)
        grant_send(&rig, &grant);
    rig_until(&rig, engine_held() == 2);
    run_revoke(rig.run, 7, 3); /* in the engine's queue */
    cr_assert_eq(rig.report_count, 2);
    run_revoke(rig.run, 7, 2); /* executing: too late */
    run_revoke(rig.run, 7, 12345);
    cr_assert_eq(rig.report_count, 2);
    engine_finish(STATUS_OK, NULL);
    rig_until(&rig, run_under_way(rig.run) == 0);

    uint64_t ids[3] = {1, 3, 2};
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(rig.reports[i].report.batch_id, ids[i]);
        cr_assert_eq(rig.reports[i].report.status, i == 2 ? STATUS_OK : STATUS_CANCELLED);
    }
    cr_assert_eq(rig.gateways[0].done, 1);
    rig_dispose(&rig);
}

/* Batches of one row each, 1 to count, for a model that can be stopped at two places. */
static void grant_preemptible(uint64_t count)
{
    static uint32_t exits[] = {3, 6};
    grant_t grant;

    rig_init(&rig);
    rig.model->choice = (mode_choice_t){.mode = MODE_PREEMPT, .exits = exits, .exit_points = 2};
    for (uint64_t id = 1; id <= count; id++) {
        grant_init(&grant, id, 0);
        grant_add(&rig, &grant, 10, id, 1);
        grant_send(&rig, &grant);
    }
    rig_until(&rig, engine_held() == 1);
}

static void end_preemptible(void)
{
    rig_until(&rig, run_under_way(rig.run) == 0);
    rig.model->choice = (mode_choice_t){.mode = MODE_WHOLE}; /* the exits are not the model's to free */
    rig_dispose(&rig);
}

static uint64_t revocations(const char *outcome)
{
    return (uint64_t)metrics_value(metrics_series(rig.metrics, METRIC_WORKER_REVOCATIONS, outcome));
}

Test(run, a_running_batch_stops_at_its_exit_and_tells_how_long_it_ran)
{
    grant_preemptible(2);
    cr_assert_eq(engine_oldest()->exit_count, 2);
    run_revoke(rig.run, 7, 1);
    run_revoke(rig.run, 7, 1); /* twice is harmless */
    cr_assert_eq(engine_stops(), 1);
    cr_assert_eq(rig.report_count, 0, "it has not reached its exit");
    engine_finish(STATUS_CANCELLED, "");
    rig_until(&rig, rig.report_count == 1);
    cr_assert_eq(rig.reports[0].report.batch_id, 1);
    cr_assert_eq(rig.reports[0].report.status, STATUS_CANCELLED);
    cr_assert_eq(rig.reports[0].report.exec_ns, 12345);
    cr_assert_eq(rig.gateways[0].begun, 0);
    rig_until(&rig, engine_held() == 1);
    engine_finish(STATUS_OK, NULL);
    rig_until(&rig, rig.gateways[0].done == 1);
    cr_assert_eq(rig.gateways[0].pushed[0].task_id, 2);
    cr_assert_eq(revocations("stopped"), 1);
    end_preemptible();
}

Test(run, a_batch_past_its_last_exit_ends_as_usual)
{
    grant_preemptible(1);
    run_revoke(rig.run, 7, 1);
    engine_finish(STATUS_OK, NULL);
    rig_until(&rig, rig.gateways[0].done == 1);
    cr_assert_eq(rig.reports[0].report.status, STATUS_OK);
    run_revoke(rig.run, 7, 1); /* it has ended */
    cr_assert_eq(revocations("late"), 2);
    cr_assert_eq(rig.report_count, 1);
    end_preemptible();
}

Test(run, a_preemptible_batch_that_waits_is_given_back_at_once)
{
    grant_preemptible(4); /* one runs, one is the executor's, two wait for it */
    rig_barrier(&rig);
    cr_assert_eq(engine_held(), 1);
    run_revoke(rig.run, 7, 2);
    run_revoke(rig.run, 7, 4);
    cr_assert_eq(rig.report_count, 2);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(rig.reports[i].report.status, STATUS_CANCELLED);
        cr_assert_eq(rig.reports[i].report.exec_ns, 0);
    }
    engine_finish(STATUS_OK, NULL);
    rig_until(&rig, engine_held() == 1);
    engine_finish(STATUS_OK, NULL);
    rig_until(&rig, rig.gateways[0].done == 2);
    cr_assert_eq(engine_stops(), 0);
    cr_assert_eq(revocations("waiting"), 2);
    end_preemptible();
}

Test(run, what_has_begun_outlives_its_scheduler)
{
    grant_preemptible(3);
    run_revoke_all(rig.run);
    cr_assert_eq(rig.report_count, 2);
    cr_assert_eq(engine_stops(), 0);
    engine_finish(STATUS_OK, NULL);
    rig_until(&rig, rig.gateways[0].done == 1);
    end_preemptible();
}

Test(run, a_failure_in_mode_preempt_fails_its_batch_alone)
{
    grant_preemptible(2);
    engine_finish(STATUS_INTERNAL, "gone");
    rig_until(&rig, rig.report_count == 1);
    cr_assert_eq(rig.reports[0].report.status, STATUS_INTERNAL);
    cr_assert_str_eq(rig.reports[0].reason, "gone");
    rig_until(&rig, engine_held() == 1);
    engine_finish(STATUS_OK, NULL);
    rig_until(&rig, rig.gateways[0].done == 1);
    end_preemptible();
}

Test(run, stopping_in_the_middle_leaks_nothing)
{
    grant_t grant;

    rig_init(&rig);
    for (uint64_t id = 1; id <= 3; id++) {
        grant_init(&grant, id, 0);
        grant_add(&rig, &grant, 10, id, 1);
        grant_add(&rig, &grant, 11, id, 1);
        grant_send(&rig, &grant);
    }
    rig_until(&rig, engine_held() == 3);
    grant.grant.batch_id = 4;
    grant_send(&rig, &grant);
    engine_finish(STATUS_OK, NULL);
    rig_dispose(&rig);
    cr_assert_eq(rig.report_count, 4);
}

Test(run, a_lost_device_is_told_once_and_takes_no_more)
{
    grant_t grants[3];

    rig_init(&rig);
    for (uint32_t i = 0; i < 3; i++) {
        grant_init(&grants[i], i + 1, 0);
        grant_add(&rig, &grants[i], 10, 100 + i, i);
    }
    grant_send(&rig, &grants[0]);
    grant_send(&rig, &grants[1]);
    rig_until(&rig, engine_held() == 2);
    engine_lose();
    cr_assert_eq(rig.lost_count, 0, "nobody knows yet");
    engine_finish(STATUS_UNAVAILABLE, "the GPU is lost");
    engine_finish(STATUS_UNAVAILABLE, "the GPU is lost");
    rig_until(&rig, rig.report_count == 2);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(rig.reports[i].report.status, STATUS_UNAVAILABLE);
    cr_assert_eq(rig.lost_count, 1);
    cr_assert_eq(rig.lost[0], 0);
    grant_send(&rig, &grants[2]);
    cr_assert_eq(rig.report_count, 3, "refused at once");
    cr_assert_eq(rig.reports[2].report.status, STATUS_UNAVAILABLE);
    cr_assert_str_eq(rig.reports[2].reason, "the device is lost");
    cr_assert_eq(engine_held(), 0);
    grant_init(&grants[0], 4, 1);
    grant_add(&rig, &grants[0], 10, 104, 4);
    grant_send(&rig, &grants[0]);
    rig_until(&rig, engine_held() == 1);
    engine_finish(STATUS_OK, NULL);
    rig_until(&rig, rig.report_count == 4 && run_under_way(rig.run) == 0);
    cr_assert_eq(rig.reports[3].report.status, STATUS_OK, "the other device goes on");
    rig_dispose(&rig);
}
