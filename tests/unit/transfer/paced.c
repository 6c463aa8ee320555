/* Fetches through the socket, asked for in parts and in turns. The pool's inside is looked at for its credit. */
#include "harness.h"

#include "base/clock.h"
#include "transfer/pool.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WINDOW = 64 << 10, SMALL = 1024 };

static rig_t rig;
static const transfer_limits_t limits = {.credit_bytes = WINDOW};
static uint8_t *out;
static char order[64]; /* of the ends */

typedef struct {
    outcome_t outcome;
    char name;
    transfer_item_t item;
    struct iovec iov;
    transfer_request_t id;
} ask_t;

static void start(const transfer_limits_t *pool_limits)
{
    order[0] = '\0';
    out = calloc(4, ARENA_BYTES);
    rig_init(&rig, NULL, pool_limits);
    rig_link(&rig);
}

static void stop(void)
{
    cr_assert_eq(rig.pool->pace.out_bytes, 0, "all credit is back");
    cr_assert_not(pace_waiting(&rig.pool->pace));
    rig_dispose(&rig);
    free(out);
}

static void on_done(void *ctx, status_t status)
{
    ask_t *one = ctx;

    outcome_set(&one->outcome, status);
    strncat(order, &one->name, 1);
}

static void begin(ask_t *one, char name, transfer_peer_t *peer, transfer_handle_t handle, size_t len,
                  uint8_t *to, uint64_t timeout_ns)
{
    *one = (ask_t){.name = name, .iov = {to, len}};
    one->item =
        (transfer_item_t){.handle = handle, .len_bytes = len, .iov = &one->iov, .iov_count = 1, .status = 99};
    cr_assert_eq(transfer_fetch(peer, &one->item, 1, timeout_ns, on_done, one, &one->id), STATUS_OK);
    cr_assert_eq(one->outcome.calls, 0);
}

Test(paced, more_than_the_window_comes_whole_whatever_the_pieces)
{
    enum { ITEMS = 9 };
    static const uint64_t lens[ITEMS] = {0, 16384, 1, 100000, 0, 300000, 16383, 131072, 0};
    struct iovec iov[ITEMS][3];
    transfer_item_t items[ITEMS];
    outcome_t outcome = {0};
    uint64_t at = 0;
    transfer_stats_t stats;

    start(&limits);
    transfer_handle_t handle = rig_publish(&rig, 0, ARENA_BYTES, NULL);
    for (int i = 0; i < ITEMS; i++) {
        uint64_t third = lens[i] / 3;
        iov[i][0] = (struct iovec){out + at, third};
        iov[i][1] = (struct iovec){out + at + third, 0};
        iov[i][2] = (struct iovec){out + at + third, lens[i] - third};
        items[i] = (transfer_item_t){.handle = handle,
                                     .offset = at,
                                     .len_bytes = lens[i],
                                     .iov = iov[i],
                                     .iov_count = 3,
                                     .status = 99};
        at += lens[i];
    }
    cr_assert_eq(transfer_fetch(rig.peer, items, ITEMS, 0, outcome_set, &outcome, NULL), STATUS_OK);
    cr_assert_leq(rig.pool->pace.out_bytes, WINDOW);
    rig_until(&rig, &outcome.calls, 1);
    cr_assert_eq(outcome.status, STATUS_OK);
    for (int i = 0; i < ITEMS; i++)
        cr_assert_eq(items[i].status, STATUS_OK, "item %d", i);
    cr_assert_eq(memcmp(out, rig.arena, at), 0);
    transfer_pool_stats(rig.pool, &stats);
    cr_assert_eq(stats.by[TRANSFER_BY_TCP].items, ITEMS, "however many parts");
    cr_assert_eq(stats.by[TRANSFER_BY_TCP].item_bytes, at);
    stop();
}

Test(paced, a_small_one_overtakes_big_ones)
{
    ask_t big, second, small;

    start(&limits);
    transfer_handle_t handle = rig_publish(&rig, 0, ARENA_BYTES, NULL);
    begin(&big, 'A', rig.peer, handle, ARENA_BYTES, out, 0);
    begin(&second, 'B', rig.peer, handle, ARENA_BYTES, out + ARENA_BYTES, 0);
    begin(&small, 's', rig.peer, handle, SMALL, out + 2 * ARENA_BYTES, 0);
    rig_until(&rig, &second.outcome.calls, 1);
    cr_assert_str_eq(order, "sAB");
    cr_assert_eq(memcmp(out, rig.arena, ARENA_BYTES), 0);
    cr_assert_eq(memcmp(out + ARENA_BYTES, rig.arena, ARENA_BYTES), 0);
    stop();
}

Test(paced, peers_share_the_window_and_equals_go_as_they_came)
{
    enum { ASKS = 20, LEN = 40000 };
    static ask_t asks[ASKS];
    transfer_peer_t *other;

    start(&limits);
    cr_assert_eq(transfer_peer_open(rig.pool, transfer_owner_address(rig.owner), 77, &other, NULL),
                 STATUS_OK);
    transfer_peer_connect(other);
    while (other->state != PEER_READY)
        uv_run(&rig.loop, UV_RUN_ONCE);
    transfer_handle_t handle = rig_publish(&rig, 0, ARENA_BYTES, NULL);
    for (int i = 0; i < ASKS; i++) {
        begin(&asks[i], (char)('a' + i), i % 2 ? other : rig.peer, handle, LEN, out + (size_t)i * LEN, 0);
        cr_assert_leq(rig.pool->pace.out_bytes, WINDOW, "all peers together");
    }
    while (asks[ASKS - 1].outcome.calls == 0) {
        cr_assert_leq(rig.pool->pace.out_bytes, WINDOW);
        uv_run(&rig.loop, UV_RUN_ONCE);
    }
    for (int i = 0; i < ASKS; i++) {
        rig_until(&rig, &asks[i].outcome.calls, 1);
        cr_assert_eq(asks[i].item.status, STATUS_OK);
    }
    char last_even = 0, last_odd = 0;
    for (const char *at = order; *at; at++) {
        char *last = (*at - 'a') % 2 ? &last_odd : &last_even;
        cr_assert_gt(*at, *last, "%s", order);
        *last = *at;
    }
    stop();
}

Test(paced, an_item_that_cannot_be_had_gives_its_credit_back)
{
    ask_t bad, good;

    start(&limits);
    transfer_handle_t handle = rig_publish(&rig, 0, ARENA_BYTES / 2, NULL);
    begin(&bad, 'b', rig.peer, handle, ARENA_BYTES, out, 0); /* its second half is not there */
    begin(&good, 'g', rig.peer, handle, ARENA_BYTES / 2, out + ARENA_BYTES, 0);
    rig_until(&rig, &good.outcome.calls, 1);
    cr_assert_eq(bad.outcome.status, STATUS_OK);
    cr_assert_eq(bad.item.status, STATUS_INVALID_ARGUMENT);
    cr_assert_eq(good.item.status, STATUS_OK);
    stop();
}

Test(paced, a_cancelled_one_ends_at_once_its_parts_hold_credit_until_they_are_read)
{
    ask_t gone, queued, after;

    start(&limits);
    transfer_handle_t handle = rig_publish(&rig, 0, ARENA_BYTES, NULL);
    begin(&gone, 'g', rig.peer, handle, ARENA_BYTES, out, 0);
    begin(&queued, 'q', rig.peer, handle, ARENA_BYTES, out, 0);
    for (int i = 0; i < 3; i++)
        uv_run(&rig.loop, UV_RUN_ONCE);
    cr_assert_eq(gone.outcome.calls, 0);
    cr_assert(transfer_cancel(rig.pool, queued.id), "of which nothing is asked for yet");
    cr_assert_eq(queued.outcome.status, STATUS_CANCELLED);
    uint64_t held = rig.pool->pace.out_bytes;
    cr_assert_gt(held, 0);
    cr_assert(transfer_cancel(rig.pool, gone.id));
    cr_assert_not(transfer_cancel(rig.pool, gone.id));
    cr_assert_str_eq(order, "qg");
    cr_assert_eq(gone.item.status, STATUS_CANCELLED);
    cr_assert_gt(rig.pool->pace.out_bytes, 0, "they still come");
    cr_assert_leq(rig.pool->pace.out_bytes, held);
    memset(out, 0, ARENA_BYTES);
    begin(&after, 'a', rig.peer, handle, ARENA_BYTES, out + ARENA_BYTES, 0);
    rig_until(&rig, &after.outcome.calls, 1);
    cr_assert_eq(after.item.status, STATUS_OK);
    cr_assert_eq(memcmp(out + ARENA_BYTES, rig.arena, ARENA_BYTES), 0);
    for (size_t i = 0; i < ARENA_BYTES; i++)
        cr_assert_eq(out[i], 0, "nothing is written after a cancel");
    stop();
}

Test(paced, the_end_of_a_connection_gives_credit_back)
{
    ask_t asks[3];

    start(&limits);
    transfer_handle_t handle = rig_publish(&rig, 0, ARENA_BYTES, NULL);
    for (int i = 0; i < 3; i++)
        begin(&asks[i], (char)('a' + i), rig.peer, handle, ARENA_BYTES, out + (size_t)i * ARENA_BYTES, 0);
    rig_stop_owner(&rig);
    for (int i = 0; i < 3; i++)
        rig_until(&rig, &asks[i].outcome.calls, 1);
    rig_settle(&rig);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(asks[i].outcome.calls, 1);
        cr_assert_eq(asks[i].outcome.status, STATUS_UNAVAILABLE);
        cr_assert_eq(asks[i].item.status, STATUS_UNAVAILABLE);
    }
    stop();
}

/* An owner that greets and then says nothing. Returns its connection. */
static char silent_address[64];

static int silent_owner(transfer_peer_t **peer)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(name);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    uint8_t hello[WIRE_HEADER_BYTES + WIRE_HELLO_BYTES];

    cr_assert(bind(listener, (struct sockaddr *)&name, len) == 0 && listen(listener, 5) == 0);
    getsockname(listener, (struct sockaddr *)&name, &len);
    snprintf(silent_address, sizeof(silent_address), "127.0.0.1:%d", ntohs(name.sin_port));
    cr_assert_eq(transfer_peer_open(rig.pool, silent_address, 0, peer, NULL), STATUS_OK);
    transfer_peer_connect(*peer);
    int fd = accept(listener, NULL, NULL);
    close(listener);
    cr_assert_eq(raw_recv(&rig, fd, hello, sizeof(hello)), sizeof(hello));
    wire_put_header(hello, &(wire_header_t){.type = WIRE_HELLO, .count = 1});
    wire_put_hello(hello + WIRE_HEADER_BYTES, &(wire_hello_t){.min_version = WIRE_VERSION,
                                                              .max_version = WIRE_VERSION,
                                                              .max_items = 4096,
                                                              .max_item_bytes = 64 << 20});
    raw_send(&rig, fd, hello, sizeof(hello));
    while ((*peer)->state != PEER_READY)
        uv_run(&rig.loop, UV_RUN_ONCE);
    return fd;
}

Test(paced, a_silent_owner_does_not_hold_the_others_up)
{
    transfer_peer_t *mute;
    ask_t held, waits, small, other;

    start(&limits);
    transfer_handle_t handle = rig_publish(&rig, 0, ARENA_BYTES, NULL);
    int fd = silent_owner(&mute);
    begin(&held, 'h', mute, handle, ARENA_BYTES, out, 0);
    cr_assert_eq(rig.pool->pace.out_bytes, WINDOW, "it has all the credit");
    begin(&waits, 'w', rig.peer, handle, ARENA_BYTES, out + ARENA_BYTES, 0);
    rig_until(&rig, &waits.outcome.calls, 1);
    cr_assert_eq(waits.item.status, STATUS_OK);
    cr_assert_eq(held.outcome.calls, 0, "far from its stall");
    cr_assert(mute->muted);
    begin(&small, 's', mute, handle, SMALL, out + 2 * ARENA_BYTES, 30 * NS_PER_MS);
    cr_assert_eq(rig.pool->pace.out_bytes, 0, "it is asked for nothing more");
    rig_until(&rig, &small.outcome.calls, 1);
    cr_assert_eq(small.outcome.status, STATUS_DEADLINE_EXCEEDED, "while it waits for its turn");
    begin(&other, 'o', rig.peer, handle, SMALL, out + 2 * ARENA_BYTES, 0);
    rig_until(&rig, &other.outcome.calls, 1);
    close(fd);
    rig_until(&rig, &held.outcome.calls, 1);
    cr_assert_eq(held.outcome.status, STATUS_UNAVAILABLE);

    /* One that listens there later is asked again. */
    const transfer_owner_options_t options = {.loop = &rig.loop, .address = silent_address};
    transfer_owner_t *another;
    ask_t again;
    cr_assert_eq(transfer_owner_create(&options, &another, NULL), STATUS_OK);
    begin(&again, 'n', mute, handle, SMALL, out, 0);
    rig_until(&rig, &again.outcome.calls, 1);
    cr_assert_eq(again.outcome.status, STATUS_OK);
    cr_assert_eq(again.item.status, STATUS_NOT_FOUND, "another gateway's handle");
    transfer_owner_destroy(another);
    stop();
}

Test(paced, a_time_out_leaves_the_credit_with_what_may_still_come)
{
    transfer_peer_t *mute;
    ask_t late;

    start(&limits);
    int fd = silent_owner(&mute);
    begin(&late, 'l', mute, (transfer_handle_t){1, 2}, ARENA_BYTES, out, 20 * NS_PER_MS);
    rig_until(&rig, &late.outcome.calls, 1);
    cr_assert_eq(late.outcome.status, STATUS_DEADLINE_EXCEEDED);
    cr_assert_eq(late.item.status, STATUS_DEADLINE_EXCEEDED);
    cr_assert(rig.pool->pace.out_bytes == WINDOW || mute->muted);
    transfer_peer_close(mute);
    cr_assert_eq(rig.pool->pace.out_bytes, 0);
    close(fd);
    stop();
}
