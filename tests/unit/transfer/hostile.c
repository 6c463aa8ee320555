/* What a broken or malicious peer can say: it loses its own connection, and nothing else happens. */
#include "harness.h"

#include "base/clock.h"
#include "base/prng.h"
#include "support/until.h"
#include "transfer/places.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static rig_t rig;

static void still_serves(void)
{
    uint8_t out[10];
    struct iovec iov = {out, 10};
    outcome_t outcome = {0};
    transfer_handle_t handle = rig_publish(&rig, 3, 10, NULL);
    transfer_item_t item = {.handle = handle, .len_bytes = 10, .iov = &iov, .iov_count = 1};

    cr_assert_eq(transfer_fetch(rig.peer, &item, 1, 0, outcome_set, &outcome, NULL), STATUS_OK);
    rig_until(&rig, &outcome.calls, 1);
    cr_assert_eq(item.status, STATUS_OK);
    cr_assert_arr_eq(out, rig.arena + 3, 10);
    transfer_unpublish(rig.owner, handle);
}

static transfer_stats_t owner_stats(void)
{
    transfer_stats_t stats;

    transfer_owner_stats(rig.owner, &stats);
    return stats;
}

static uint64_t protocol_errors(void)
{
    return owner_stats().protocol_errors;
}

/* Those that had not said whom they look for. */
static uint64_t refused(void)
{
    const transfer_stats_t stats = owner_stats();
    uint64_t sum = 0;

    for (uint32_t i = 0; i < TRANSFER_REFUSALS; i++)
        sum += stats.refused[i];
    return sum;
}

Test(hostile, frames_split_at_every_byte_mean_the_same)
{
    uint8_t wire[WIRE_HEADER_BYTES + WIRE_HELLO_BYTES + WIRE_HEADER_BYTES + 2 * WIRE_ITEM_BYTES +
                 WIRE_HEADER_BYTES + 2 * WIRE_RESULT_BYTES + 3 + 20];
    uint8_t want[WIRE_HEADER_BYTES + WIRE_HELLO_BYTES + WIRE_HEADER_BYTES + 2 * WIRE_STATE_BYTES + 30 +
                 WIRE_HEADER_BYTES];
    uint8_t first[sizeof(want)], got[sizeof(want)];

    rig_init(&rig, NULL, NULL);
    transfer_handle_t handle = rig_publish(&rig, 0, 100, NULL);
    uint8_t *to = wire_put_header(wire, &(wire_header_t){.type = WIRE_HELLO, .count = 1});
    to = wire_put_hello(
        to,
        &(wire_hello_t){
            .min_version = 1, .max_version = 9, .max_items = 10, .max_item_bytes = 99, .instance_id = 77});
    to = wire_put_header(to, &(wire_header_t){.type = WIRE_FETCH, .seq = 7, .count = 2});
    to = wire_put_item(to, &(wire_item_t){.handle = handle, .offset = 0, .len_bytes = 10});
    to = wire_put_item(to, &(wire_item_t){.handle = handle, .offset = 50, .len_bytes = 20});
    to = wire_put_header(to, &(wire_header_t){.type = WIRE_PUSH, .seq = 8, .count = 2, .extra_bytes = 3});
    to = wire_put_result(to, &(wire_result_t){.task_id = 1, .len_bytes = 20});
    to = wire_put_result(to, &(wire_result_t){.task_id = 2, .status = STATUS_IO, .text_bytes = 3});
    memcpy(to, "why", 3);
    memset(to + 3, 'p', 20);

    for (size_t cut = 0; cut <= sizeof(wire); cut++) {
        int fd = raw_connect(&rig);
        raw_send(&rig, fd, wire, cut);
        raw_send(&rig, fd, wire + cut, sizeof(wire) - cut);
        cr_assert_eq(raw_recv(&rig, fd, got, sizeof(got)), sizeof(got), "cut at %zu", cut);
        if (cut == 0)
            memcpy(first, got, sizeof(got));
        cr_assert_arr_eq(got, first, sizeof(got), "cut at %zu", cut);
        cr_assert_eq(rig.done_count, (int)(cut + 1) * 2);
        cr_assert_eq(rig.received[rig.received_count - 2].buffer[19], 'p');
        cr_assert_str_eq(rig.received[rig.received_count - 1].text, "why");
        close(fd);
    }

    int fd = raw_connect(&rig);
    for (size_t i = 0; i < sizeof(wire); i++)
        raw_send(&rig, fd, wire + i, 1);
    cr_assert_eq(raw_recv(&rig, fd, got, sizeof(got)), sizeof(got));
    cr_assert_arr_eq(got, first, sizeof(got));
    close(fd);
    cr_assert_eq(protocol_errors(), 0);
    rig_dispose(&rig);
}

static void expect_refused(const void *wire, size_t len, bool greet)
{
    uint64_t before = greet ? protocol_errors() : refused();
    int fd = raw_connect(&rig);

    if (greet)
        raw_greet(&rig, fd);
    raw_send(&rig, fd, wire, len);
    raw_expect_end(&rig, fd);
    cr_assert_eq(greet ? protocol_errors() : refused(), before + 1);
}

Test(hostile, wrong_headers_end_the_connection)
{
    uint8_t wire[WIRE_HEADER_BYTES + WIRE_RESULT_BYTES] = {0};
    wire_header_t greeted[] = {
        {.type = WIRE_HELLO, .count = 1},
        {.type = 0, .count = 1},
        {.type = WIRE_BYE, .count = 1},
        {.type = WIRE_DATA, .count = 1},
        {.type = WIRE_ACK, .count = 1},
        {.type = 200, .count = 1},
        {.type = WIRE_FETCH, .count = 0},
        {.type = WIRE_FETCH, .count = 4097},
        {.type = WIRE_FETCH, .count = UINT32_MAX},
        {.type = WIRE_FETCH, .count = 1, .extra_bytes = 1},
        {.type = WIRE_PUSH, .count = 0},
        {.type = WIRE_PUSH, .count = UINT32_MAX},
        {.type = WIRE_PUSH, .count = 1, .extra_bytes = WIRE_EXTRA_MAX + 1},
        {.type = WIRE_PUSH, .count = 1, .extra_bytes = UINT32_MAX},
    };

    rig_init(&rig, NULL, NULL);
    for (size_t i = 0; i < sizeof(greeted) / sizeof(greeted[0]); i++) {
        wire_put_header(wire, &greeted[i]);
        expect_refused(wire, WIRE_HEADER_BYTES, true);
    }
    wire_put_header(wire, &(wire_header_t){.type = WIRE_FETCH, .count = 1});
    expect_refused(wire, WIRE_HEADER_BYTES, false);
    for (int at = 0; at < 3; at++) {
        wire_put_header(wire, &(wire_header_t){.type = WIRE_HELLO, .count = 1});
        wire[at] ^= 0x40;
        expect_refused(wire, WIRE_HEADER_BYTES, false);
    }
    expect_refused("GET / HTTP/1.1\r\n\r\n", 18, false);
    still_serves();
    rig_dispose(&rig);
}

Test(hostile, wrong_results_end_the_connection_before_anything_is_handed_on)
{
    uint8_t wire[WIRE_HEADER_BYTES + 2 * WIRE_RESULT_BYTES + 300] = {0};
    struct {
        wire_result_t result;
        uint32_t extra;
    } cases[] = {
        {{.len_bytes = (64 << 20) + 1}, 0},
        {{.len_bytes = UINT64_MAX}, 0},
        {{.status = STATUS_INTERNAL + 1}, 0},
        {{.status = UINT32_MAX}, 0},
        {{.status = STATUS_IO, .len_bytes = 1}, 0},
        {{.text_bytes = 1}, 0},
        {{.text_bytes = 0}, 8},
        {{.text_bytes = UINT32_MAX}, 8},
        {{.text_bytes = TRANSFER_TEXT_BYTES}, TRANSFER_TEXT_BYTES},
    };

    rig_init(&rig, NULL, NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t *to = wire_put_header(
            wire, &(wire_header_t){.type = WIRE_PUSH, .count = 2, .extra_bytes = cases[i].extra});
        to = wire_put_result(to, &(wire_result_t){.task_id = 1, .len_bytes = 5});
        wire_put_result(to, &cases[i].result);
        expect_refused(wire, sizeof(wire) - 300 + cases[i].extra, true);
    }
    cr_assert_eq(rig.received_count, 0);
    still_serves();
    rig_dispose(&rig);
}

Test(hostile, items_over_the_limits_are_refused_one_by_one)
{
    transfer_limits_t limits = {.max_item_bytes = 50};
    uint8_t wire[WIRE_HEADER_BYTES + 2 * WIRE_ITEM_BYTES], got[WIRE_HEADER_BYTES + 2 * WIRE_STATE_BYTES + 50];
    wire_state_t state;

    rig_init(&rig, &limits, NULL);
    transfer_handle_t handle = rig_publish(&rig, 0, 100, NULL);
    int fd = raw_connect(&rig);
    raw_greet(&rig, fd);
    uint8_t *to = wire_put_header(wire, &(wire_header_t){.type = WIRE_FETCH, .count = 2});
    to = wire_put_item(to, &(wire_item_t){.handle = handle, .len_bytes = 51});
    wire_put_item(to, &(wire_item_t){.handle = handle, .len_bytes = 50});
    raw_send(&rig, fd, wire, sizeof(wire));
    cr_assert_eq(raw_recv(&rig, fd, got, sizeof(got)), sizeof(got));
    wire_get_state(got + WIRE_HEADER_BYTES, &state);
    cr_assert_eq(state.status, STATUS_TOO_LARGE);
    wire_get_state(got + WIRE_HEADER_BYTES + WIRE_STATE_BYTES, &state);
    cr_assert_eq(state.status, STATUS_OK);
    cr_assert_arr_eq(got + WIRE_HEADER_BYTES + 2 * WIRE_STATE_BYTES, rig.arena, 50);
    close(fd);
    rig_dispose(&rig);
}

Test(hostile, another_version_or_instance_is_told_so)
{
    wire_hello_t hellos[3] = {
        {.min_version = 2, .max_version = 3, .max_items = 1, .max_item_bytes = 1},
        {.min_version = 1, .max_version = 1, .max_items = 1, .max_item_bytes = 1, .instance_id = 78},
        {.min_version = 1, .max_version = 1, .max_items = 1, .max_item_bytes = 1},
    };
    const char *texts[3] = {"this gateway's data plane speaks version 1 only",
                            "another instance listens here now",
                            "the instance that is looked for is to be named"};
    uint8_t wire[WIRE_HEADER_BYTES + WIRE_HELLO_BYTES], got[WIRE_HEADER_BYTES + WIRE_BYE_BYTES];

    rig_init(&rig, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        int fd = raw_connect(&rig);
        wire_put_hello(wire_put_header(wire, &(wire_header_t){.type = WIRE_HELLO, .count = 1}), &hellos[i]);
        raw_send(&rig, fd, wire, sizeof(wire));
        cr_assert_eq(raw_recv(&rig, fd, got, sizeof(got)), sizeof(got));
        cr_assert_eq(got[3], WIRE_BYE);
        cr_assert_str_eq((char *)got + WIRE_HEADER_BYTES, texts[i]);
        raw_expect_end(&rig, fd);
    }
    cr_assert_eq(owner_stats().refused[TRANSFER_REFUSED_INSTANCE], 2);
    still_serves();
    rig_dispose(&rig);
}

Test(hostile, garbage_never_harms)
{
    prng_t prng;
    uint8_t junk[600];

    rig_init(&rig, NULL, NULL);
    prng_init(&prng, 4711);
    for (int round = 0; round < 300; round++) {
        int fd = raw_connect(&rig);
        size_t len = prng_u64(&prng) % sizeof(junk);
        for (size_t i = 0; i < len; i++)
            junk[i] = (uint8_t)prng_u64(&prng);
        if (round % 3)
            raw_greet(&rig, fd);
        if (round % 2 && len >= 16) {
            static const uint8_t types[2] = {WIRE_FETCH, WIRE_PUSH};
            wire_put_header(junk, &(wire_header_t){.type = types[round / 2 % 2],
                                                   .count = (uint32_t)(prng_u64(&prng) % 8),
                                                   .extra_bytes = (uint32_t)(prng_u64(&prng) % 4)});
        }
        raw_send(&rig, fd, junk, len);
        shutdown(fd, SHUT_WR);
        raw_expect_end(&rig, fd);
    }
    cr_assert_eq(rig.done_count, rig.received_count);
    still_serves();
    rig_dispose(&rig);
}

Test(hostile, one_that_asks_without_reading_is_cut_off)
{
    enum { ITEMS = 64 };
    transfer_limits_t limits = {.stall_ns = 40 * NS_PER_MS, .max_items = ITEMS};
    uint8_t wire[WIRE_HEADER_BYTES + ITEMS * WIRE_ITEM_BYTES];
    int released = 0;
    transfer_stats_t stats;

    rig_init(&rig, &limits, NULL);
    transfer_handle_t handle = rig_publish(&rig, 0, ARENA_BYTES, &released);
    int fd = raw_connect(&rig);
    raw_greet(&rig, fd);
    uint8_t *to = wire_put_header(wire, &(wire_header_t){.type = WIRE_FETCH, .count = ITEMS});
    for (int i = 0; i < ITEMS; i++)
        to = wire_put_item(to, &(wire_item_t){.handle = handle, .len_bytes = ARENA_BYTES});
    for (int i = 0; i < 5; i++)
        raw_send(&rig, fd, wire, sizeof(wire));
    transfer_owner_stats(rig.owner, &stats);
    cr_assert_leq(transfer_stats_sum(&stats).items, 2 * ITEMS, "reading stops while answers wait");
    transfer_unpublish(rig.owner, handle);
    rig_until(&rig, &released, 1);
    cr_assert_eq(protocol_errors(), 1);
    close(fd);
    rig_dispose(&rig);
}

Test(hostile, a_slow_talker_is_cut_off_and_an_idle_one_is_not)
{
    transfer_limits_t limits = {.stall_ns = 30 * NS_PER_MS, .prove_ns = 30 * NS_PER_MS};
    uint8_t wire[WIRE_HEADER_BYTES];
    char byte;

    rig_init(&rig, &limits, NULL);
    int silent = raw_connect(&rig), slow = raw_connect(&rig), idle = raw_connect(&rig);
    raw_greet(&rig, slow);
    raw_greet(&rig, idle);
    wire_put_header(wire, &(wire_header_t){.type = WIRE_FETCH, .count = 1});
    raw_send(&rig, slow, wire, 7);
    raw_expect_end(&rig, slow);
    raw_expect_end(&rig, silent);
    cr_assert_eq(recv(idle, &byte, 1, MSG_DONTWAIT), -1, "an idle connection stays");
    close(idle);
    rig_dispose(&rig);
}

static void expect_told_to_leave(int fd, const char *why)
{
    uint8_t bye[WIRE_HEADER_BYTES + WIRE_BYE_BYTES];
    wire_header_t header;

    cr_assert_eq(raw_recv(&rig, fd, bye, sizeof(bye)), sizeof(bye));
    cr_assert(wire_get_header(bye, &header));
    cr_assert_eq(header.type, WIRE_BYE);
    cr_assert_eq(header.count, STATUS_OK);
    cr_assert_str_eq((char *)bye + WIRE_HEADER_BYTES, why);
}

/* Asks for ten bytes of the arena, and gets them. */
static void raw_fetch(int fd)
{
    uint8_t wire[WIRE_HEADER_BYTES + WIRE_ITEM_BYTES], got[WIRE_HEADER_BYTES + WIRE_STATE_BYTES + 10];
    transfer_handle_t handle = rig_publish(&rig, 0, 10, NULL);

    wire_put_item(wire_put_header(wire, &(wire_header_t){.type = WIRE_FETCH, .count = 1}),
                  &(wire_item_t){.handle = handle, .len_bytes = 10});
    raw_send(&rig, fd, wire, sizeof(wire));
    cr_assert_eq(raw_recv(&rig, fd, got, sizeof(got)), sizeof(got));
    cr_assert_eq(got[3], WIRE_DATA);
    transfer_unpublish(rig.owner, handle);
}

Test(hostile, idle_connections_take_no_place_from_one_that_works)
{
    enum { MOST = 8, CROWD = MOST + PLACES_LEAVING_MOST + 20 };
    const transfer_limits_t limits = {.max_connections = MOST};
    int fds[CROWD];

    rig_init(&rig, &limits, NULL);
    still_serves();
    for (int i = 0; i < CROWD; i++) {
        fds[i] = raw_connect(&rig);
        raw_greet(&rig, fds[i]);
    }
    still_serves();
    cr_assert_eq(owner_stats().connects, CROWD + 1, "the first is still there");
    /* One host has six of the eight places, and the first one of them: all but five of the crowd had to leave. */
    cr_assert_eq(owner_stats().asked_crowded, CROWD - 5);
    cr_assert_eq(owner_stats().connections, 6 + PLACES_LEAVING_MOST);
    expect_told_to_leave(fds[0], "others need the place");
    raw_expect_end(&rig, fds[0]);
    int late = raw_connect(&rig);
    raw_greet(&rig, late);
    raw_fetch(late);
    for (int i = 0; i < CROWD; i++)
        close(fds[i]);
    close(late);
    rig_dispose(&rig);
}

Test(hostile, one_that_is_told_to_leave_may_still_ask_and_stays_then)
{
    const transfer_limits_t limits = {.max_connections = 2};
    char byte;

    rig_init(&rig, &limits, NULL);
    int first = raw_connect(&rig), second = raw_connect(&rig), third = raw_connect(&rig);
    raw_greet(&rig, first);
    raw_greet(&rig, second);
    raw_greet(&rig, third);
    expect_told_to_leave(first, "others need the place");
    raw_fetch(first);
    expect_told_to_leave(second, "others need the place");
    cr_assert_eq(recv(third, &byte, 1, MSG_DONTWAIT), -1);
    close(first);
    close(second);
    close(third);
    rig_dispose(&rig);
}

Test(hostile, one_that_does_nothing_for_long_is_told_to_leave_and_then_closed)
{
    const transfer_limits_t limits = {.idle_ns = 10 * NS_PER_MS, .stall_ns = 30 * NS_PER_MS};

    rig_init(&rig, &limits, NULL);
    int fd = raw_connect(&rig);
    raw_greet(&rig, fd);
    expect_told_to_leave(fd, "idle");
    raw_expect_end(&rig, fd);
    cr_assert_geq(owner_stats().asked_idle, 1);
    close(fd);
    still_serves();
    rig_dispose(&rig);
}

/* ---- a hostile owner ---- */

typedef struct {
    int listener, fd;
    transfer_peer_t *peer;
} liar_t;

static void liar_meet(liar_t *liar)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(name);
    char address[64];

    liar->listener = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(bind(liar->listener, (struct sockaddr *)&name, len), 0);
    cr_assert_eq(listen(liar->listener, 1), 0);
    getsockname(liar->listener, (struct sockaddr *)&name, &len);
    snprintf(address, sizeof(address), "127.0.0.1:%d", ntohs(name.sin_port));
    cr_assert_eq(transfer_peer_open(rig.pool, address, 0, &liar->peer, NULL), STATUS_OK);
    transfer_peer_connect(liar->peer);
    liar->fd = accept(liar->listener, NULL, NULL);
    uint8_t hello[WIRE_HEADER_BYTES + WIRE_HELLO_BYTES];
    cr_assert_eq(raw_recv(&rig, liar->fd, hello, sizeof(hello)), sizeof(hello));
}

static void liar_greet(liar_t *liar)
{
    uint8_t hello[WIRE_HEADER_BYTES + WIRE_HELLO_BYTES];

    wire_put_header(hello, &(wire_header_t){.type = WIRE_HELLO, .count = 1});
    wire_put_hello(
        hello + WIRE_HEADER_BYTES,
        &(wire_hello_t){.min_version = 1, .max_version = 1, .max_items = 100, .max_item_bytes = 1000});
    raw_send(&rig, liar->fd, hello, sizeof(hello));
}

static void liar_leave(liar_t *liar)
{
    close(liar->fd);
    close(liar->listener);
}

Test(hostile, wrong_answers_fail_the_requests_and_the_connection)
{
    uint8_t out[20], asked[256];
    struct iovec iov = {out, 10};
    struct {
        wire_header_t header;
        wire_state_t state;
    } cases[] = {
        {{.type = WIRE_DATA, .seq = 1, .count = 1}, {.len_bytes = 10}},
        {{.type = WIRE_DATA, .seq = 0, .count = 2}, {.len_bytes = 10}},
        {{.type = WIRE_DATA, .seq = 0, .count = UINT32_MAX}, {.len_bytes = 10}},
        {{.type = WIRE_ACK, .seq = 0, .count = 1}, {.len_bytes = 10}},
        {{.type = WIRE_HELLO, .seq = 0, .count = 1}, {.len_bytes = 10}},
        {{.type = WIRE_FETCH, .seq = 0, .count = 1}, {.len_bytes = 10}},
        {{.type = WIRE_DATA, .seq = 0, .count = 1, .extra_bytes = 1}, {.len_bytes = 10}},
        {{.type = WIRE_DATA, .seq = 0, .count = 1}, {.len_bytes = 11}},
        {{.type = WIRE_DATA, .seq = 0, .count = 1}, {.len_bytes = UINT64_MAX}},
        {{.type = WIRE_DATA, .seq = 0, .count = 1}, {.status = STATUS_NOT_FOUND, .len_bytes = 10}},
        {{.type = WIRE_DATA, .seq = 0, .count = 1}, {.status = 99}},
        {{.type = WIRE_BYE, .count = STATUS_NOT_FOUND}, {.status = 0}},
    };

    rig_init(&rig, NULL, NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        liar_t liar;
        outcome_t outcome = {0};
        uint8_t wire[WIRE_HEADER_BYTES + WIRE_BYE_BYTES] = {0};
        transfer_item_t item = {.handle = {1, 2}, .len_bytes = 10, .iov = &iov, .iov_count = 1};
        liar_meet(&liar);
        liar_greet(&liar);
        cr_assert_eq(transfer_fetch(liar.peer, &item, 1, 0, outcome_set, &outcome, NULL), STATUS_OK);
        cr_assert_eq(raw_recv(&rig, liar.fd, asked, WIRE_HEADER_BYTES + WIRE_ITEM_BYTES), 48);
        wire_put_state(wire_put_header(wire, &cases[i].header), &cases[i].state);
        raw_send(&rig, liar.fd, wire, sizeof(wire));
        rig_until(&rig, &outcome.calls, 1);
        cr_assert_eq(outcome.status, STATUS_UNAVAILABLE, "case %zu", i);
        cr_assert_eq(item.status, STATUS_UNAVAILABLE, "case %zu", i);
        liar_leave(&liar);
        transfer_peer_close(liar.peer);
    }
    still_serves();
    rig_dispose(&rig);
}

/* The owner says that it may leave, and the request is on its way already. */
Test(hostile, a_request_that_crosses_the_word_to_leave_is_answered)
{
    uint8_t out[10], asked[WIRE_HEADER_BYTES + WIRE_ITEM_BYTES],
        bye[WIRE_HEADER_BYTES + WIRE_BYE_BYTES] = {0}, wire[WIRE_HEADER_BYTES + WIRE_STATE_BYTES + 10] = {0};
    struct iovec iov = {out, 10};
    outcome_t outcome = {0};
    liar_t liar;
    transfer_item_t item = {.handle = {1, 2}, .len_bytes = 10, .iov = &iov, .iov_count = 1};

    rig_init(&rig, NULL, NULL);
    liar_meet(&liar);
    liar_greet(&liar);
    cr_assert_eq(transfer_fetch(liar.peer, &item, 1, 0, outcome_set, &outcome, NULL), STATUS_OK);
    wire_put_header(bye, &(wire_header_t){.type = WIRE_BYE, .count = STATUS_OK});
    raw_send(&rig, liar.fd, bye, sizeof(bye));
    cr_assert_eq(raw_recv(&rig, liar.fd, asked, sizeof(asked)), sizeof(asked));
    wire_put_state(wire_put_header(wire, &(wire_header_t){.type = WIRE_DATA, .count = 1}),
                   &(wire_state_t){.len_bytes = 10});
    raw_send(&rig, liar.fd, wire, sizeof(wire));
    rig_until(&rig, &outcome.calls, 1);
    cr_assert_eq(item.status, STATUS_OK);
    raw_send(&rig, liar.fd, bye, sizeof(bye)); /* and now that nothing is under way it leaves */
    raw_expect_end(&rig, liar.fd);
    liar_leave(&liar);
    transfer_peer_close(liar.peer);
    rig_dispose(&rig);
}

Test(hostile, an_owner_that_dies_in_the_middle_of_the_payload)
{
    uint8_t out[20], asked[256], wire[WIRE_HEADER_BYTES + 2 * WIRE_STATE_BYTES + 15] = {0};
    struct iovec iov[2] = {{out, 10}, {out + 10, 10}};
    liar_t liar;
    outcome_t first = {0}, second = {0};
    transfer_item_t items[2] = {{.len_bytes = 10, .iov = iov, .iov_count = 1},
                                {.len_bytes = 10, .iov = iov + 1, .iov_count = 1}};
    transfer_item_t other = items[0];

    rig_init(&rig, NULL, NULL);
    liar_meet(&liar);
    liar_greet(&liar);
    cr_assert_eq(transfer_fetch(liar.peer, items, 2, 0, outcome_set, &first, NULL), STATUS_OK);
    cr_assert_eq(transfer_fetch(liar.peer, &other, 1, 0, outcome_set, &second, NULL), STATUS_OK);
    cr_assert_eq(raw_recv(&rig, liar.fd, asked, WIRE_HEADER_BYTES + 2 * WIRE_ITEM_BYTES), 80);
    uint8_t *to = wire_put_header(wire, &(wire_header_t){.type = WIRE_DATA, .seq = 0, .count = 2});
    to = wire_put_state(to, &(wire_state_t){.len_bytes = 10});
    wire_put_state(to, &(wire_state_t){.len_bytes = 10});
    raw_send(&rig, liar.fd, wire, sizeof(wire));
    cr_assert_eq(first.calls, 0);
    liar_leave(&liar);
    rig_until(&rig, &second.calls, 1);
    rig_settle(&rig);
    cr_assert_eq(first.calls, 1);
    cr_assert_eq(first.status, STATUS_UNAVAILABLE);
    cr_assert_eq(items[0].status, STATUS_UNAVAILABLE);
    cr_assert_eq(items[1].status, STATUS_UNAVAILABLE);
    cr_assert_eq(second.calls, 1);
    cr_assert_eq(second.status, STATUS_UNAVAILABLE);
    rig_dispose(&rig);
}

Test(hostile, a_fetch_cancelled_in_the_middle_of_its_payload_is_not_written_any_more)
{
    uint8_t out[40], asked[256], wire[WIRE_HEADER_BYTES + 2 * WIRE_STATE_BYTES] = {0}, blank[20] = {0};
    struct iovec iov[4] = {{out, 10}, {out + 10, 10}, {out + 20, 10}, {out + 30, 10}};
    liar_t liar;
    outcome_t first = {0}, second = {0};
    transfer_request_t id;
    transfer_item_t items[2] = {{.len_bytes = 10, .iov = iov, .iov_count = 1},
                                {.len_bytes = 10, .iov = iov + 1, .iov_count = 1}};
    transfer_item_t others[2] = {{.len_bytes = 10, .iov = iov + 2, .iov_count = 1},
                                 {.len_bytes = 10, .iov = iov + 3, .iov_count = 1}};

    rig_init(&rig, NULL, NULL);
    liar_meet(&liar);
    liar_greet(&liar);
    cr_assert_eq(transfer_fetch(liar.peer, items, 2, 0, outcome_set, &first, &id), STATUS_OK);
    cr_assert_eq(raw_recv(&rig, liar.fd, asked, WIRE_HEADER_BYTES + 2 * WIRE_ITEM_BYTES), 80);
    uint8_t *to = wire_put_header(wire, &(wire_header_t){.type = WIRE_DATA, .seq = 0, .count = 2});
    to = wire_put_state(to, &(wire_state_t){.len_bytes = 10});
    wire_put_state(to, &(wire_state_t){.len_bytes = 10});
    raw_send(&rig, liar.fd, wire, sizeof(wire));
    raw_send(&rig, liar.fd, "abcdefg", 7);
    for (int64_t end = clock_now_ns() + HANG_NS; out[6] != 'g'; rig_settle(&rig))
        cr_assert(clock_now_ns() < end, "the first bytes never came");
    cr_assert(transfer_cancel(rig.pool, id));
    memset(out, 0, sizeof(out));
    raw_send(&rig, liar.fd, "hijklmnopqrst", 13);

    cr_assert_eq(transfer_fetch(liar.peer, others, 2, 0, outcome_set, &second, NULL), STATUS_OK);
    cr_assert_eq(raw_recv(&rig, liar.fd, asked, WIRE_HEADER_BYTES + 2 * WIRE_ITEM_BYTES), 80);
    wire_put_header(wire, &(wire_header_t){.type = WIRE_DATA, .seq = 1, .count = 2});
    raw_send(&rig, liar.fd, wire, sizeof(wire));
    raw_send(&rig, liar.fd, "0123456789abcdefghij", 20);
    rig_until(&rig, &second.calls, 1);
    cr_assert_eq(second.status, STATUS_OK);
    cr_assert_arr_eq(out + 20, "0123456789abcdefghij", 20);
    cr_assert_arr_eq(out, blank, 20, "what came after the cancel went nowhere");
    cr_assert_eq(first.calls, 1);
    liar_leave(&liar);
    rig_dispose(&rig);
}

Test(hostile, an_owner_that_hangs_is_given_up_after_the_stall_time)
{
    transfer_limits_t limits = {.stall_ns = 40 * NS_PER_MS};
    uint8_t out[10];
    struct iovec iov = {out, 10};
    liar_t liar;
    outcome_t outcome = {0};
    transfer_item_t item = {.len_bytes = 10, .iov = &iov, .iov_count = 1};

    rig_init(&rig, NULL, &limits);
    liar_meet(&liar);
    liar_greet(&liar);
    int64_t begin = clock_now_ns();
    cr_assert_eq(transfer_fetch(liar.peer, &item, 1, 0, outcome_set, &outcome, NULL), STATUS_OK);
    rig_until(&rig, &outcome.calls, 1);
    cr_assert_eq(outcome.status, STATUS_UNAVAILABLE);
    cr_assert_geq(clock_now_ns() - begin, 20 * NS_PER_MS,
                  "a look every quarter of the time may count it a little early");
    liar_leave(&liar);
    rig_dispose(&rig);
}
