#include "harness.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <unistd.h>

static rig_t rig;

Test(push, payload_status_text_and_timing_arrive)
{
    uint8_t a[30], b[50];
    struct iovec iov[2] = {{a, 30}, {b, 50}};
    outcome_t outcome = {0};

    memset(a, 'a', sizeof(a));
    memset(b, 'b', sizeof(b));
    rig_init(&rig, NULL, NULL);
    transfer_timing_t timing = {.batch_size = 3, .queue_ns = 4, .fetch_ns = 5, .exec_ns = UINT64_C(1) << 40};
    transfer_result_t results[3] = {
        {.task_id = 11, .handle = {1, 2}, .timing = timing, .iov = iov, .iov_count = 2},
        {.task_id = 12, .status = STATUS_INTERNAL, .text = "conv7\nfailed"},
        {.task_id = 13, .iov = iov + 1, .iov_count = 1},
    };
    cr_assert_eq(transfer_push(rig.peer, results, 3, 0, outcome_set, &outcome, NULL), STATUS_OK);
    rig_until(&rig, &outcome.calls, 1);
    cr_assert_eq(outcome.status, STATUS_OK);
    cr_assert_eq(rig.received_count, 3);
    cr_assert_eq(rig.done_count, 3);
    const received_t *r = rig.received;
    cr_assert_eq(r[0].header.task_id, 11);
    cr_assert(transfer_handle_equal(r[0].header.handle, (transfer_handle_t){1, 2}));
    cr_assert_eq(r[0].header.timing.batch_size, 3);
    cr_assert_eq(r[0].header.timing.queue_ns, 4);
    cr_assert_eq(r[0].header.timing.fetch_ns, 5);
    cr_assert_eq(r[0].header.timing.exec_ns, UINT64_C(1) << 40);
    cr_assert_eq(r[0].header.len_bytes, 80);
    cr_assert_arr_eq(r[0].buffer, a, 30);
    cr_assert_arr_eq(r[0].buffer + 30, b, 50);
    cr_assert_eq(r[1].header.status, STATUS_INTERNAL);
    cr_assert_str_eq(r[1].text, "conv7?failed");
    cr_assert_eq(r[1].status, STATUS_OK, "the transfer itself went well");
    cr_assert_arr_eq(r[2].buffer, b, 50);
    rig_dispose(&rig);
}

Test(push, discarded_payloads_are_read_and_thrown_away)
{
    enum { LEN = 3 << 20 };
    uint8_t *data = calloc(1, LEN);
    struct iovec iov = {data, LEN};
    outcome_t outcome = {0};
    transfer_result_t results[2] = {{.task_id = 1, .iov = &iov, .iov_count = 1},
                                    {.task_id = 2, .iov = &iov, .iov_count = 1}};

    rig_init(&rig, NULL, NULL);
    rig.discard = true;
    cr_assert_eq(transfer_push(rig.peer, results, 2, 0, outcome_set, &outcome, NULL), STATUS_OK);
    rig_until(&rig, &outcome.calls, 1);
    rig.discard = false;
    cr_assert_eq(rig.done_count, 2);
    cr_assert_eq(transfer_push(rig.peer, results, 2, 0, outcome_set, &outcome, NULL), STATUS_OK);
    rig_until(&rig, &outcome.calls, 2);
    cr_assert_eq(memcmp(rig.received[3].buffer, data, LEN), 0);
    rig_dispose(&rig);
    free(data);
}

Test(push, many_results_with_long_texts)
{
    enum { RESULTS = 1000 };
    static transfer_result_t results[RESULTS];
    static char text[300];
    outcome_t outcome = {0};
    size_t texts = 0;

    memset(text, 'x', sizeof(text) - 1);
    for (int i = 0; i < RESULTS; i++)
        results[i] = (transfer_result_t){.task_id = (uint64_t)i, .status = STATUS_UNAVAILABLE, .text = text};
    rig_init(&rig, NULL, NULL);
    cr_assert_eq(transfer_push(rig.peer, results, RESULTS, 0, outcome_set, &outcome, NULL), STATUS_OK);
    rig_until(&rig, &outcome.calls, 1);
    cr_assert_eq(outcome.status, STATUS_OK);
    cr_assert_eq(rig.done_count, RESULTS);
    cr_assert_eq(strlen(rig.received[0].text), TRANSFER_TEXT_BYTES - 1);
    for (int i = 0; i < RESULTS; i++)
        texts += strlen(rig.received[i].text);
    cr_assert_eq(texts, WIRE_EXTRA_MAX, "the sum is cut to what a frame may carry");
    rig_dispose(&rig);
}

Test(push, refuses_what_makes_no_sense)
{
    transfer_limits_t limits = {.max_item_bytes = 10};
    uint8_t data[20];
    struct iovec ten = {data, 10}, twenty = {data, 20};
    outcome_t outcome = {0};

    rig_init(&rig, NULL, &limits);
    transfer_result_t failed_with_payload = {.status = STATUS_INTERNAL, .iov = &ten, .iov_count = 1};
    transfer_result_t large = {.iov = &twenty, .iov_count = 1};
    cr_assert_eq(transfer_push(rig.peer, &failed_with_payload, 1, 0, outcome_set, &outcome, NULL),
                 STATUS_INVALID_ARGUMENT);
    cr_assert_eq(transfer_push(rig.peer, &large, 1, 0, outcome_set, &outcome, NULL), STATUS_TOO_LARGE);
    cr_assert_eq(transfer_push(rig.peer, &large, 0, 0, outcome_set, &outcome, NULL), STATUS_INVALID_ARGUMENT);
    rig_dispose(&rig);
}

Test(push, a_worker_that_dies_half_way_gives_every_buffer_back_once)
{
    uint8_t frame[WIRE_HEADER_BYTES + 3 * WIRE_RESULT_BYTES + 100 + 50] = {0};
    uint8_t *to = frame;

    if (rig_is_trusted())
        return; /* a raw peer proves nothing */
    rig_init(&rig, NULL, NULL);
    int fd = raw_connect(&rig);
    raw_greet(&rig, fd);
    to = wire_put_header(to, &(wire_header_t){.type = WIRE_PUSH, .count = 3});
    for (uint64_t i = 0; i < 3; i++)
        to = wire_put_result(to, &(wire_result_t){.task_id = i, .len_bytes = 100});
    raw_send(&rig, fd, frame, sizeof(frame));
    close(fd);
    rig_until(&rig, &rig.done_count, 3);
    rig_settle(&rig);
    cr_assert_eq(rig.done_count, 3);
    cr_assert_eq(rig.received[0].status, STATUS_OK);
    cr_assert_eq(rig.received[1].status, STATUS_UNAVAILABLE);
    cr_assert_eq(rig.received[2].status, STATUS_UNAVAILABLE);
    rig_dispose(&rig);
}

Test(push, one_that_is_stuck_half_way_ends_at_its_time_out)
{
    enum { LEN = 32 << 20 };
    transfer_limits_t limits = {.stall_ns = 3600 * NS_PER_S};
    uint8_t *data = calloc(1, LEN);
    struct iovec iov = {data, LEN};
    outcome_t outcome = {0};
    transfer_request_t id;
    uv_loop_t other;
    transfer_owner_t *deaf;
    transfer_peer_t *peer;
    transfer_result_t result = {.task_id = 1, .iov = &iov, .iov_count = 1};

    /* An owner on a loop that greets and is then not turned any more. */
    rig_init(&rig, NULL, &limits);
    uv_loop_init(&other);
    transfer_owner_options_t options = {
        .loop = &other, .address = "127.0.0.1:0", .instance_id = 5, .trust = rig_owner_trust};
    cr_assert_eq(transfer_owner_create(&options, &deaf, NULL), STATUS_OK);
    cr_assert_eq(transfer_peer_open(rig.pool, transfer_owner_address(deaf), 5, &peer, NULL), STATUS_OK);
    transfer_peer_connect(peer);
    transfer_stats_t stats = {0};
    for (int turns = 0; turns < 1000 || stats.connections == 0; turns++) {
        uv_run(&other, UV_RUN_NOWAIT);
        uv_run(&rig.loop, UV_RUN_NOWAIT);
        transfer_pool_stats(rig.pool, &stats);
    }
    cr_assert_eq(transfer_push(peer, &result, 1, 30 * NS_PER_MS, outcome_set, &outcome, &id), STATUS_OK);
    cr_assert_not(transfer_cancel(rig.pool, id), "its bytes are partly sent");
    rig_until(&rig, &outcome.calls, 1);
    cr_assert_eq(outcome.status, STATUS_UNAVAILABLE);
    cr_assert_eq(outcome.calls, 1);
    transfer_owner_destroy(deaf);
    uv_run(&other, UV_RUN_DEFAULT);
    uv_loop_close(&other);
    rig_dispose(&rig);
    free(data);
}
