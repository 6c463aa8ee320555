/*
 * Batches whose inputs land in the device's memory. It is the host's here, and RDMA is replaced by the socket: what transfer/to_device.c
 * has, this file has in its place.
 */
#include "support.h"

#include <stdlib.h>

static rig_t rig;
static engine_ops_t ops;
static void *device_memory[2]; /* of the two inputs */
static uint32_t allocated, asked;
static bool lands, breaks;

transfer_reach_t transfer_pool_reach(const transfer_pool_t *pool)
{
    (void)pool;
    return (transfer_reach_t){true, true, true};
}

static uint32_t input_of(const void *bytes)
{
    for (uint32_t k = 0; k < 2; k++) {
        if ((const uint8_t *)bytes >= (uint8_t *)device_memory[k] &&
            (const uint8_t *)bytes < (uint8_t *)device_memory[k] + MAX_BATCH * IN_A * 4)
            return k;
    }
    cr_assert_fail("not memory of the device");
    return 0;
}

bool transfer_lands(const transfer_peer_t *peer, const void *bytes, size_t len_bytes)
{
    (void)peer, (void)len_bytes;
    input_of(bytes);
    return lands;
}

status_t transfer_fetch_to_device(transfer_peer_t *peer, transfer_item_t *items, uint32_t count,
                                  uint64_t timeout_ns, transfer_done_fn done, void *ctx,
                                  transfer_request_t *request)
{
    asked++;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < items[i].iov_count; k++)
            cr_assert_eq(input_of(items[i].iov[k].iov_base), k);
    }
    if (breaks)
        return STATUS_UNAVAILABLE;
    return transfer_fetch(peer, items, count, timeout_ns, done, ctx, request);
}

static void *input_alloc(engine_model_t *model, size_t len_bytes)
{
    (void)model;
    cr_assert_lt(allocated, 2);
    (void)len_bytes;
    return device_memory[allocated++] = calloc(MAX_BATCH, IN_A * 4);
}

static void input_free(engine_t *engine, void *input)
{
    (void)engine;
    free(input);
}

static void init(void)
{
    rig_init(&rig);
    ops = *engine_manual();
    ops.input_alloc = input_alloc;
    ops.input_free = input_free;
    rig.devices.ops = &ops;
    rig.devices.inputs_on_device = lands = true;
}

static void fini(void)
{
    rig_until(&rig, run_under_way(rig.run) == 0);
    rig_dispose(&rig);
}

TestSuite(device_inputs, .init = init, .fini = fini);

/* Rows of both gateways, and where the engine is to read them. */
static void run_batch(bool on_device)
{
    grant_t grant;
    int done = rig.gateways[0].done;

    grant_init(&grant, 1, 0);
    grant_add(&rig, &grant, 10, 100, 5);
    grant_add(&rig, &grant, 11, 200, 6);
    grant_add(&rig, &grant, 10, 101, 7);
    grant_send(&rig, &grant);
    rig_until(&rig, engine_held() == 1);
    cr_assert_eq(engine_oldest()->inputs[0] == device_memory[0], on_device);
    cr_assert_eq(engine_oldest()->inputs[1] == device_memory[1], on_device);
    engine_finish(STATUS_OK, NULL);
    rig_until(&rig, rig.gateways[0].done == done + 2 && rig.gateways[1].done > 0);
    cr_assert_float_eq(pushed_of(&rig.gateways[0], 100)->values[0], 50, 0);
    cr_assert_float_eq(pushed_of(&rig.gateways[0], 101)->values[0], 70, 0);
    cr_assert_float_eq(pushed_of(&rig.gateways[1], 200)->values[0], 1060, 0);
    cr_assert_eq(rig.reports[rig.report_count - 1].report.failed_count, 0);
    rig_until(&rig, run_under_way(rig.run) == 0);
}

Test(device_inputs, are_fetched_and_read_there)
{
    run_batch(true);
    cr_assert_eq(asked, 2, "one fetch for each gateway");
}

Test(device_inputs, land_in_the_hosts_memory_when_a_gateway_has_no_way_there)
{
    lands = false;
    run_batch(false);
    cr_assert_eq(asked, 0);
}

Test(device_inputs, are_fetched_anew_into_the_hosts_memory_when_the_way_breaks_and_there_again_later)
{
    breaks = true;
    run_batch(false);
    cr_assert_eq(asked, 2);
    breaks = false;
    run_batch(true);
}

Test(device_inputs, with_a_row_that_is_gone_are_those_that_are_there)
{
    grant_t grant;
    grant_row_t row;

    grant_init(&grant, 1, 0);
    grant_add(&rig, &grant, 10, 100, 5);
    grant_add(&rig, &grant, 10, 101, 6);
    grant_add(&rig, &grant, 10, 102, 7);
    row = grant_rows_at(&grant.grant, 1);
    grant.words[GRANT_ROW_WORDS + 2] ^= 1; /* the second row's handle */
    cr_assert_neq(grant_rows_at(&grant.grant, 1).handle_lo, row.handle_lo);
    grant_send(&rig, &grant);
    rig_until(&rig, engine_held() == 1);
    cr_assert_eq(engine_oldest()->batch, 2);
    cr_assert_neq(engine_oldest()->inputs[0], device_memory[0]);
    engine_finish(STATUS_OK, NULL);
    rig_until(&rig, rig.gateways[0].done == 2);
    cr_assert_float_eq(pushed_of(&rig.gateways[0], 100)->values[0], 50, 0);
    cr_assert_float_eq(pushed_of(&rig.gateways[0], 102)->values[0], 70, 0);
    cr_assert_eq(rig.reports[0].report.failed_count, 1);
    cr_assert_eq(rig.reports[0].failed_row[0], 1);
    cr_assert_eq(rig.reports[0].failed_status[0], STATUS_NOT_FOUND);
}

Test(device_inputs, of_a_batch_that_is_revoked_meanwhile_are_not_fetched_anew)
{
    grant_t grant;

    grant_init(&grant, 1, 0);
    grant_add(&rig, &grant, 10, 100, 5);
    grant_send(&rig, &grant);
    run_revoke(rig.run, 7, 1);
    rig_until(&rig, rig.report_count == 1);
    cr_assert_eq(rig.reports[0].report.status, STATUS_CANCELLED);
    cr_assert_eq(asked, 1);
}

Test(device_inputs, are_for_whole_batches_alone)
{
    rig.model->choice.mode = MODE_PREEMPT;
    run_batch(false);
    cr_assert_eq(asked, 0);
    rig.model->choice.mode = MODE_WHOLE;
}
