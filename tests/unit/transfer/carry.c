/*
 * Payloads past the socket (carrier.h), over shared memory: links come and go, what cannot go that way goes through the
 * socket, and who lies loses his own connection only.
 */
#include "harness.h"

#include "base/clock.h"
#include "transfer/carrier.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static rig_t rig;

static void init(void)
{
    setenv("FERMATA_TEST_TRANSPORT", "shm", 1);
    rig_init(&rig, NULL, NULL);
}

static void fini(void)
{
    rig_dispose(&rig);
    cr_assert_eq(carrier_shm.registered(), 0, "nothing stays mapped");
}

TestSuite(carry, .init = init, .fini = fini);

static transfer_traffic_t pool_by(transfer_way_t way)
{
    transfer_stats_t stats;

    transfer_pool_stats(rig.pool, &stats);
    return stats.by[way];
}

static transfer_item_t item_of(transfer_handle_t handle, const struct iovec *iov)
{
    return (transfer_item_t){.handle = handle, .len_bytes = iov->iov_len, .iov = iov, .iov_count = 1};
}

Test(carry, a_large_result_lands_in_the_window_and_a_small_one_comes_through_the_socket)
{
    static uint8_t large[40000], small[100];
    struct iovec iov[2] = {{large, sizeof(large)}, {small, sizeof(small)}};
    transfer_handle_t handle = rig_publish(&rig, 0, 100, NULL);
    transfer_result_t results[2] = {
        {.task_id = 1, .handle = handle, .iov = &iov[0], .iov_count = 1, .timing.batch_size = 3},
        {.task_id = 2, .handle = handle, .status = STATUS_INTERNAL, .text = "it broke"}};
    transfer_result_t alone = {.task_id = 3, .handle = handle, .iov = &iov[1], .iov_count = 1};
    outcome_t outcome = {0};

    for (size_t i = 0; i < sizeof(large); i++)
        large[i] = (uint8_t)(i * 7);
    cr_assert_eq(transfer_push(rig.peer, results, 2, 0, outcome_set, &outcome, NULL), STATUS_OK);
    cr_assert_eq(outcome.calls, 0, "never from within the call");
    rig_until(&rig, &outcome.calls, 1);
    cr_assert_eq(outcome.status, STATUS_OK);
    cr_assert_eq(pool_by(TRANSFER_BY_SHM).results, 2);
    cr_assert_eq(pool_by(TRANSFER_BY_SHM).result_bytes, sizeof(large));
    cr_assert_eq(rig.received[0].done, 1);
    cr_assert_eq(rig.received[0].header.timing.batch_size, 3);
    cr_assert_arr_eq(rig.received[0].buffer, large, sizeof(large));
    cr_assert_eq(rig.received[1].header.status, STATUS_INTERNAL);
    cr_assert_str_eq(rig.received[1].text, "it broke");

    cr_assert_eq(transfer_push(rig.peer, &alone, 1, 0, outcome_set, &outcome, NULL), STATUS_OK);
    rig_until(&rig, &outcome.calls, 2);
    cr_assert_eq(pool_by(TRANSFER_BY_TCP).results, 1);
    cr_assert_eq(rig.done_count, 3);
}

Test(carry, results_that_find_no_room_in_the_window_go_through_the_socket)
{
    enum { PUSHES = 40, LEN = 300 << 10 };
    static uint8_t payload[PUSHES][LEN];
    struct iovec iov[PUSHES];
    transfer_result_t results[PUSHES];
    outcome_t outcome = {0};

    for (int i = 0; i < PUSHES; i++) {
        memset(payload[i], i + 1, LEN);
        iov[i] = (struct iovec){payload[i], LEN};
        results[i] = (transfer_result_t){.task_id = (uint64_t)i, .iov = &iov[i], .iov_count = 1};
        cr_assert_eq(transfer_push(rig.peer, &results[i], 1, 0, outcome_set, &outcome, NULL), STATUS_OK);
    }
    rig_until(&rig, &outcome.calls, PUSHES);
    cr_assert_gt(pool_by(TRANSFER_BY_SHM).results, 0);
    cr_assert_gt(pool_by(TRANSFER_BY_TCP).results, 0);
    cr_assert_eq(pool_by(TRANSFER_BY_SHM).results + pool_by(TRANSFER_BY_TCP).results, PUSHES);
    for (int i = 0; i < PUSHES; i++)
        cr_assert_arr_eq(rig.received[i].buffer, payload[rig.received[i].header.task_id], LEN);
    /* The window is free again. */
    cr_assert_eq(transfer_push(rig.peer, &results[0], 1, 0, outcome_set, &outcome, NULL), STATUS_OK);
    rig_until(&rig, &outcome.calls, PUSHES + 1);
}

Test(carry, what_was_used_anew_in_the_middle_of_a_read_is_not_taken_for_the_input)
{
    static uint8_t out[ARENA_BYTES], other[ARENA_BYTES];
    struct iovec iov = {out, ARENA_BYTES}, others = {other, ARENA_BYTES};
    transfer_handle_t handle = rig_publish(&rig, 0, ARENA_BYTES, NULL);
    transfer_item_t item = item_of(handle, &iov), second = item_of(handle, &others);
    outcome_t outcome = {0}, told = {0};

    /* Two at once: neither is through after one turn. */
    cr_assert_eq(transfer_fetch(rig.peer, &item, 1, 0, outcome_set, &outcome, NULL), STATUS_OK);
    cr_assert_eq(transfer_fetch(rig.peer, &second, 1, 0, outcome_set, &told, NULL), STATUS_OK);
    uv_run(&rig.loop, UV_RUN_NOWAIT);
    cr_assert_eq(outcome.calls, 0);
    cr_assert(transfer_unpublish(rig.owner, handle));
    memset(rig.arena, 0x5a, ARENA_BYTES);
    rig_until(&rig, &outcome.calls, 1);
    rig_until(&rig, &told.calls, 1);
    cr_assert_eq(outcome.status, STATUS_OK);
    cr_assert_eq(item.status, STATUS_NOT_FOUND);
    cr_assert_eq(second.status, STATUS_NOT_FOUND);
}

static int sequence;

static void note_order(void *ctx, status_t status)
{
    cr_assert_eq(status, STATUS_OK);
    *(int *)ctx = ++sequence;
}

Test(carry, a_big_tensor_does_not_hold_up_a_small_one)
{
    static uint8_t out[ARENA_BYTES], little[64];
    struct iovec iov = {out, ARENA_BYTES}, small_iov = {little, sizeof(little)};
    transfer_handle_t handle = rig_publish(&rig, 0, ARENA_BYTES, NULL);
    transfer_item_t big = item_of(handle, &iov), small = item_of(handle, &small_iov);
    int big_at = 0, small_at = 0;

    cr_assert_eq(transfer_fetch(rig.peer, &big, 1, 0, note_order, &big_at, NULL), STATUS_OK);
    cr_assert_eq(transfer_fetch(rig.peer, &small, 1, 0, note_order, &small_at, NULL), STATUS_OK);
    rig_until(&rig, &big_at, 2);
    cr_assert_eq(small_at, 1);
    cr_assert_arr_eq(out, rig.arena, ARENA_BYTES);
}

Test(carry, memory_that_is_not_laid_open_is_asked_for_through_the_socket)
{
    static uint8_t elsewhere[5000], out[2][5000];
    struct iovec iov[2] = {{out[0], 5000}, {out[1], 5000}};
    transfer_memory_t *memory;
    transfer_handle_t handle;
    outcome_t outcome = {0};

    memset(elsewhere, 9, sizeof(elsewhere));
    cr_assert_eq(transfer_memory_register(rig.owner, elsewhere, sizeof(elsewhere), NULL, &memory, NULL),
                 STATUS_OK);
    cr_assert_eq(transfer_publish(memory, elsewhere, sizeof(elsewhere), NULL, NULL, &handle), STATUS_OK);
    transfer_item_t items[2] = {item_of(rig_publish(&rig, 0, 5000, NULL), &iov[0]), item_of(handle, &iov[1])};
    cr_assert_eq(transfer_fetch(rig.peer, items, 2, 0, outcome_set, &outcome, NULL), STATUS_OK);
    rig_until(&rig, &outcome.calls, 1);
    cr_assert_eq(items[0].status, STATUS_OK);
    cr_assert_eq(items[1].status, STATUS_OK);
    cr_assert_arr_eq(out[1], elsewhere, 5000);
    cr_assert_eq(pool_by(TRANSFER_BY_TCP).items, 2);
    transfer_unpublish(rig.owner, handle);
    transfer_memory_unregister(memory);
}

Test(carry, cancelled_and_timed_out_reads_touch_nothing_any_more)
{
    static uint8_t out[2][ARENA_BYTES];
    struct iovec iov[2] = {{out[0], ARENA_BYTES}, {out[1], ARENA_BYTES}};
    transfer_handle_t handle = rig_publish(&rig, 0, ARENA_BYTES, NULL);
    transfer_item_t items[2] = {item_of(handle, &iov[0]), item_of(handle, &iov[1])};
    outcome_t outcome[2] = {{0}};
    transfer_request_t requests[2];

    for (int i = 0; i < 2; i++)
        cr_assert_eq(transfer_fetch(rig.peer, &items[i], 1, 0, outcome_set, &outcome[i], &requests[i]),
                     STATUS_OK);
    uv_run(&rig.loop, UV_RUN_NOWAIT);
    cr_assert(transfer_cancel(rig.pool, requests[0]));
    cr_assert_eq(outcome[0].calls, 1);
    cr_assert_eq(outcome[0].status, STATUS_CANCELLED);
    memset(out[0], 0, ARENA_BYTES);
    rig_until(&rig, &outcome[1].calls, 1);
    cr_assert_eq(items[1].status, STATUS_OK);
    for (size_t i = 0; i < ARENA_BYTES; i++)
        cr_assert_eq(out[0][i], 0);
    cr_assert_not(transfer_cancel(rig.pool, requests[0]));
}

Test(carry, the_owners_end_ends_the_link_and_each_request_once)
{
    enum { REQUESTS = 1000 };
    static uint8_t out[REQUESTS][10000];
    struct iovec iov[REQUESTS];
    transfer_item_t items[REQUESTS];
    outcome_t outcome[REQUESTS] = {{0}};
    transfer_handle_t handle = rig_publish(&rig, 0, 10000, NULL);

    for (int i = 0; i < REQUESTS; i++) {
        iov[i] = (struct iovec){out[i], 10000};
        items[i] = item_of(handle, &iov[i]);
        cr_assert_eq(transfer_fetch(rig.peer, &items[i], 1, 0, outcome_set, &outcome[i], NULL), STATUS_OK);
    }
    rig_stop_owner(&rig);
    transfer_peer_close(rig.peer);
    rig_settle(&rig);
    for (int i = 0; i < REQUESTS; i++)
        cr_assert_eq(outcome[i].calls, 1);
    cr_assert_eq(outcome[REQUESTS - 1].status, STATUS_UNAVAILABLE);
    cr_assert_eq(pool_by(TRANSFER_BY_SHM).connections, 0);
    cr_assert_eq(pool_by(TRANSFER_BY_TCP).connections, 0);
}

/* ---- who lies ---- */

static void raw_frame(int fd, uint8_t type, uint32_t count, const void *body, uint32_t extra,
                      size_t body_bytes)
{
    uint8_t frame[WIRE_HEADER_BYTES + 4096];

    wire_put_header(frame, &(wire_header_t){.type = type, .count = count, .extra_bytes = extra});
    memcpy(frame + WIRE_HEADER_BYTES, body, body_bytes);
    raw_send(&rig, fd, frame, WIRE_HEADER_BYTES + body_bytes);
}

/* The status in an ATTACHED, and what came with it. */
static uint32_t raw_attach(int fd, const void *blob, uint32_t len, uint8_t answer[CARRIER_BLOB_BYTES])
{
    uint8_t head[WIRE_HEADER_BYTES];
    wire_header_t header;

    raw_frame(fd, WIRE_ATTACH, carrier_shm.bit, blob, len, len);
    cr_assert_eq(raw_recv(&rig, fd, head, sizeof(head)), sizeof(head));
    cr_assert(wire_get_header(head, &header));
    cr_assert_eq(header.type, WIRE_ATTACHED);
    cr_assert_eq(header.count, carrier_shm.bit);
    cr_assert_leq(header.extra_bytes, CARRIER_BLOB_BYTES);
    cr_assert_eq(raw_recv(&rig, fd, answer, header.extra_bytes), header.extra_bytes);
    return header.seq;
}

static void other_still_served(void)
{
    uint8_t out[100];
    struct iovec iov = {out, sizeof(out)};
    transfer_item_t item = item_of(rig_publish(&rig, 0, 100, NULL), &iov);
    outcome_t outcome = {0};

    cr_assert_eq(transfer_fetch(rig.peer, &item, 1, 0, outcome_set, &outcome, NULL), STATUS_OK);
    rig_until(&rig, &outcome.calls, 1);
    cr_assert_eq(item.status, STATUS_OK);
}

Test(carry, results_are_not_said_to_have_landed_without_a_window)
{
    uint8_t record[WIRE_RESULT_BYTES];
    int fd = raw_connect(&rig);

    raw_greet(&rig, fd);
    wire_put_result(record, &(wire_result_t){.task_id = 1, .len_bytes = 10});
    raw_frame(fd, WIRE_LANDED, 1, record, 0, sizeof(record));
    raw_expect_end(&rig, fd);
    cr_assert_eq(rig.received_count, 0);
    other_still_served();
}

Test(carry, nor_beyond_the_window)
{
    const uint64_t places[][2] = {{CARRIER_WINDOW_BYTES, 1},
                                  {CARRIER_WINDOW_BYTES - 9, 10},
                                  {0, CARRIER_WINDOW_BYTES + 1},
                                  {UINT32_MAX, 1},
                                  {16, UINT64_MAX - 8}};
    uint8_t record[WIRE_RESULT_BYTES], hello[4], answer[CARRIER_BLOB_BYTES];

    wire_put32(hello, 1);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        int fd = raw_connect(&rig);
        raw_greet(&rig, fd);
        cr_assert_eq(raw_attach(fd, hello, sizeof(hello), answer), STATUS_OK);
        wire_put_result(record, &(wire_result_t){.task_id = 1,
                                                 .len_bytes = places[i][1],
                                                 .window_offset = (uint32_t)places[i][0]});
        raw_frame(fd, WIRE_LANDED, 1, record, 0, sizeof(record));
        raw_expect_end(&rig, fd);
    }
    cr_assert_eq(rig.received_count, 0);
    other_still_served();
}

Test(carry, who_attaches_with_nonsense_is_told_so_and_keeps_the_socket)
{
    uint8_t hello[CARRIER_BLOB_BYTES] = {0}, answer[CARRIER_BLOB_BYTES], record[WIRE_RESULT_BYTES];
    uint8_t ack[WIRE_HEADER_BYTES];
    int fd = raw_connect(&rig);

    raw_greet(&rig, fd);
    wire_put32(hello, 2);
    cr_assert_eq(raw_attach(fd, hello, 4, answer), STATUS_UNSUPPORTED, "another version");
    cr_assert_eq(raw_attach(fd, hello, 0, answer), STATUS_UNSUPPORTED);
    cr_assert_eq(raw_attach(fd, hello, sizeof(hello), answer), STATUS_UNSUPPORTED);
    wire_put_result(record, &(wire_result_t){.task_id = 5});
    raw_frame(fd, WIRE_PUSH, 1, record, 0, sizeof(record));
    cr_assert_eq(raw_recv(&rig, fd, ack, sizeof(ack)), sizeof(ack));
    cr_assert_eq(rig.done_count, 1);
    close(fd);
    rig_settle(&rig);
}

static int ask_for_memory(const uint8_t *token, const uint8_t *name)
{
    struct sockaddr_un own = {.sun_family = AF_UNIX}, to = {.sun_family = AF_UNIX};
    size_t len = strlen((const char *)name);
    uint8_t got[16];
    union {
        struct cmsghdr align;
        uint8_t bytes[CMSG_SPACE(8 * sizeof(int))];
    } control = {0};
    struct iovec iov = {got, sizeof(got)};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0), fds[3] = {-1, -1, -1};

    memcpy(to.sun_path + 1, name, len);
    cr_assert_eq(bind(fd, (struct sockaddr *)&own, sizeof(sa_family_t)), 0);
    cr_assert_eq(
        connect(fd, (struct sockaddr *)&to, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len)),
        0);
    cr_assert_eq(send(fd, token, 16, 0), 16);
    rig_settle(&rig);
    ssize_t n = recvmsg(fd, &message, 0);
    close(fd);
    if (n < 0)
        return -1;
    cr_assert_eq(CMSG_FIRSTHDR(&message)->cmsg_len, CMSG_LEN(sizeof(fds)));
    memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fds));
    close(fds[1]);
    close(fds[2]);
    return fds[0];
}

Test(carry, memory_is_handed_over_once_for_each_token_and_only_for_reading)
{
    uint8_t hello[4], answer[CARRIER_BLOB_BYTES], wrong[16];
    int fd = raw_connect(&rig);

    raw_greet(&rig, fd);
    wire_put32(hello, 1);
    cr_assert_eq(raw_attach(fd, hello, sizeof(hello), answer), STATUS_OK);
    const uint8_t *token = answer + 8, *name = answer + 8 + 16 + 16;
    memcpy(wrong, token, sizeof(wrong));
    wrong[15] ^= 1;
    cr_assert_eq(ask_for_memory(wrong, name), -1);
    int arena = ask_for_memory(token, name);
    cr_assert_geq(arena, 0);
    cr_assert_eq(fcntl(arena, F_GETFL) & O_ACCMODE, O_RDONLY);
    cr_assert_eq(write(arena, "x", 1), -1);
    cr_assert_eq(ftruncate(arena, 0), -1);
    cr_assert_eq(ask_for_memory(token, name), -1, "once");
    close(arena);
    close(fd);
    rig_settle(&rig);
    other_still_served();
}

/* What this thread sends is from a process of that user then, as the kernel sees it. False: only root can say so. */
static bool seem_to_be(uid_t user)
{
    return syscall(SYS_setresuid, user, -1, -1) == 0;
}

Test(carry, memory_is_handed_over_to_nobody_elses_process)
{
    uint8_t hello[4], answer[CARRIER_BLOB_BYTES];
    int fd = raw_connect(&rig);

    raw_greet(&rig, fd);
    wire_put32(hello, 1);
    cr_assert_eq(raw_attach(fd, hello, sizeof(hello), answer), STATUS_OK);
    const uint8_t *token = answer + 8, *name = answer + 8 + 16 + 16;
    if (seem_to_be(65534)) {
        cr_assert_eq(ask_for_memory(token, name), -1);
        cr_assert(seem_to_be(0));
    }
    int arena = ask_for_memory(token, name);
    cr_assert_geq(arena, 0, "the token is as good as it was");
    close(arena);
    close(fd);
    rig_settle(&rig);
}

/* Between the worker's question and its answer the gateway's process becomes another's. */
Test(carry, nor_is_it_taken_from_one)
{
    transfer_stats_t stats;
    int fallbacks = 0;

    transfer_peer_close(rig.peer);
    rig_settle(&rig);
    cr_assert_eq(carrier_shm.registered(), 0);
    cr_assert_eq(transfer_peer_open(rig.pool, transfer_owner_address(rig.owner), 77, &rig.peer, NULL),
                 STATUS_OK);
    transfer_peer_connect(rig.peer);
    int64_t end = clock_now_ns() + 20 * NS_PER_S;
    while (carrier_shm.registered() < 2 &&
           clock_now_ns() < end) /* the owner's window, and the link that has asked */
        uv_run(&rig.loop, UV_RUN_NOWAIT);
    bool other = seem_to_be(65534);
    while (fallbacks == 0 && pool_by(TRANSFER_BY_SHM).connections == 0 && clock_now_ns() < end) {
        uv_run(&rig.loop, UV_RUN_NOWAIT);
        transfer_pool_stats(rig.pool, &stats);
        fallbacks = (int)stats.fallbacks;
    }
    cr_assert(!other || seem_to_be(0));
    cr_assert_eq(fallbacks, other);
    cr_assert_eq(pool_by(TRANSFER_BY_SHM).connections, !other);
}
