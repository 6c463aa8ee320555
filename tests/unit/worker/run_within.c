/* Batches whose gateways are of the worker's own process: rows are read, and made, where they lie. */
#include "support.h"

static rig_t rig;

static void count_release(void *released)
{
    ++*(int *)released;
}

/* Of the gateway's arena, which says when nobody reads it any more. */
static void publish_anew(gateway_t *gateway, int *released)
{
    transfer_unpublish(gateway->owner, gateway->handle);
    cr_assert_eq(transfer_publish(gateway->memory, gateway->arena, ARENA_BYTES, count_release, released,
                                  &gateway->handle),
                 STATUS_OK);
}

static const float *row_of(const gateway_t *gateway, uint32_t row)
{
    return gateway->arena + row * (IN_A + IN_B);
}

Test(run_within, inputs_of_its_own_process_are_read_where_they_lie_and_kept_until_then)
{
    grant_t grant;
    int released = 0;

    rig_init_within(&rig);
    publish_anew(&rig.gateways[0], &released);
    grant_init(&grant, 1, 0);
    grant_add(&rig, &grant, 10, 100, 2);
    grant_send(&rig, &grant);
    cr_assert_eq(engine_held(), 1);
    cr_assert_eq(engine_oldest()->inputs[0], row_of(&rig.gateways[0], 2));
    cr_assert_eq(engine_oldest()->inputs[1], row_of(&rig.gateways[0], 2) + IN_A);
    cr_assert(transfer_unpublish(rig.gateways[0].owner, rig.gateways[0].handle), "its client is gone");
    cr_assert_eq(released, 0);
    engine_finish(STATUS_OK, NULL);
    rig_until(&rig, run_under_way(rig.run) == 0);
    cr_assert_eq(released, 1);
    cr_assert_eq(rig.gateways[0].done, 1);
    cr_assert_float_eq(rig.gateways[0].pushed[0].values[0], 20, 0);
    rig_dispose(&rig);
}

/* Row 1 is not aligned; two rows of two inputs lie in turns, and the engine wants each input by itself. */
Test(run_within, inputs_of_its_own_process_that_do_not_lie_right_are_copied)
{
    static const uint32_t rows[][2] = {{1, 1}, {2, 3}};
    grant_t grant;

    rig_init_within(&rig);
    for (uint32_t i = 0; i < 2; i++) {
        grant_init(&grant, i, 0);
        for (uint32_t row = rows[i][0]; row <= rows[i][1]; row++)
            grant_add(&rig, &grant, 10, 100 + row, row);
        grant_send(&rig, &grant);
        cr_assert_neq(engine_oldest()->inputs[0], row_of(&rig.gateways[0], rows[i][0]));
        engine_finish(STATUS_OK, NULL);
        rig_until(&rig, run_under_way(rig.run) == 0);
    }
    cr_assert_float_eq(pushed_of(&rig.gateways[0], 101)->values[0], 10, 0);
    cr_assert_float_eq(pushed_of(&rig.gateways[0], 103)->values[0], 30, 0);
    rig_dispose(&rig);
}

Test(run_within, a_revoked_batch_lets_go_of_what_it_would_have_read)
{
    grant_t grant;
    int released = 0;

    rig_init_within(&rig);
    for (uint64_t id = 1; id <= 2; id++) {
        if (id == 2)
            publish_anew(&rig.gateways[1], &released);
        grant_init(&grant, id, 0);
        grant_add(&rig, &grant, 10 + (uint32_t)id - 1, id, 2);
        grant_send(&rig, &grant);
    }
    transfer_unpublish(rig.gateways[1].owner, rig.gateways[1].handle);
    cr_assert_eq(released, 0);
    run_revoke(rig.run, 7, 2);
    rig_until(&rig, released == 1);
    engine_finish(STATUS_OK, NULL);
    rig_until(&rig, run_under_way(rig.run) == 0);
    rig_dispose(&rig);
}

/* ---- an engine that takes rows apart, in the process of its gateways ---- */

static void rig_init_apart(uint32_t places)
{
    rig_init_within(&rig);
    rig.devices.ops = engine_manual_apart();
    rig.gateways[0].places = places;
}

/* Rows 1 and 3 are not aligned; 4 and 5 are one request. Its fourth row is made in the buffers, as its gateway has no place for it. */
Test(run_within, rows_that_lie_apart_stay_where_they_are)
{
    static const struct {
        uint32_t gateway, row;
        uint64_t task;
    } rows[] = {{10, 1, 100}, {10, 4, 200}, {10, 5, 201}, {11, 3, 300}};
    gateway_t *gateway = &rig.gateways[0];
    grant_t grant;

    rig_init_apart(3);
    grant_init(&grant, 1, 0);
    for (uint32_t i = 0; i < 4; i++)
        grant_add(&rig, &grant, rows[i].gateway, rows[i].task, rows[i].row);
    grant_send(&rig, &grant);
    const engine_job_t *job = engine_oldest();
    cr_assert_eq(job->batch, 4);
    for (uint32_t i = 0; i < 4; i++) {
        const float *row = row_of(&rig.gateways[rows[i].gateway - 10], rows[i].row);
        cr_assert_eq(job->row_inputs[2 * i], row);
        cr_assert_eq(job->row_inputs[2 * i + 1], row + IN_A);
    }
    for (uint32_t i = 0; i < 3; i++)
        cr_assert_eq(job->row_outputs[i], gateway->place[i]);
    engine_finish(STATUS_OK, NULL);
    rig_until(&rig, run_under_way(rig.run) == 0);
    cr_assert_eq(gateway->done, 3);
    cr_assert_eq(gateway->vacated, 2, "one for each request");
    for (uint32_t i = 0; i < 3; i++)
        cr_assert_float_eq(gateway->place[i][0], 10 * (float)rows[i].row, 0);
    cr_assert_float_eq(pushed_of(&rig.gateways[1], 300)->values[0], 1030, 0);
    cr_assert_eq(rig.gateways[1].vacated, 0);
    rig_dispose(&rig);
}

Test(run_within, halves_of_a_batch_that_lies_apart_lie_apart)
{
    grant_t grant;

    rig_init_apart(0);
    grant_init(&grant, 1, 0);
    grant_add(&rig, &grant, 10, 100, 7);
    grant_add(&rig, &grant, 10, 200, 3);
    grant_send(&rig, &grant);
    engine_finish(STATUS_INVALID_ARGUMENT, "one of them is bad");
    rig_until(&rig, engine_held() == 1);
    cr_assert_eq(engine_oldest()->row_inputs[0], row_of(&rig.gateways[0], 7));
    engine_finish(STATUS_INVALID_ARGUMENT, "this one");
    rig_until(&rig, engine_held() == 1);
    cr_assert_eq(engine_oldest()->row_inputs[0], row_of(&rig.gateways[0], 3));
    engine_finish(STATUS_OK, NULL);
    rig_until(&rig, run_under_way(rig.run) == 0);
    cr_assert_null(pushed_of(&rig.gateways[0], 100));
    cr_assert_float_eq(pushed_of(&rig.gateways[0], 200)->values[0], 30, 0);
    rig_dispose(&rig);
}

Test(run_within, a_batch_of_which_a_row_is_gone_lets_go_of_the_others_and_copies_them)
{
    grant_t grant;
    int released = 0;

    rig_init_apart(0);
    publish_anew(&rig.gateways[0], &released);
    grant_init(&grant, 1, 0);
    grant_add(&rig, &grant, 10, 100, 2);
    grant_add(&rig, &grant, 11, 200, 2);
    grant_row_t row = grant_rows_at(&grant.grant, 1);
    row.handle_lo ^= 1;
    grant_rows_put(&grant.grant, 1, &row);
    grant_send(&rig, &grant);
    transfer_unpublish(rig.gateways[0].owner, rig.gateways[0].handle);
    cr_assert_eq(released, 1);
    cr_assert_eq(engine_oldest()->batch, 1);
    cr_assert_null(engine_oldest()->row_inputs);
    engine_finish(STATUS_OK, NULL);
    rig_until(&rig, run_under_way(rig.run) == 0);
    cr_assert_float_eq(pushed_of(&rig.gateways[0], 100)->values[0], 20, 0);
    cr_assert_eq(rig.reports[0].report.failed_count, 1);
    rig_dispose(&rig);
}
