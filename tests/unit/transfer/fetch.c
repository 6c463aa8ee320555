#include "harness.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static rig_t rig;

static transfer_item_t item_of(transfer_handle_t handle, uint64_t offset, struct iovec *iov, uint32_t iovs)
{
    transfer_item_t item = {.handle = handle, .offset = offset, .iov = iov, .iov_count = iovs, .status = 99};

    for (uint32_t i = 0; i < iovs; i++)
        item.len_bytes += iov[i].iov_len;
    return item;
}

Test(fetch, scatters_many_items_straight_into_slots)
{
    enum { ITEMS = 300 };
    static uint8_t a[ITEMS][40], b[ITEMS][60];
    struct iovec iov[ITEMS][2];
    transfer_item_t items[ITEMS];
    outcome_t outcome = {0};
    transfer_stats_t stats;

    rig_init(&rig, NULL, NULL);
    transfer_handle_t handle = rig_publish(&rig, 0, ITEMS * 100, NULL);
    for (int i = 0; i < ITEMS; i++) {
        iov[i][0] = (struct iovec){a[i], 40};
        iov[i][1] = (struct iovec){b[i], 60};
        items[i] = item_of(handle, (uint64_t)i * 100, iov[i], 2);
    }
    cr_assert_eq(transfer_fetch(rig.peer, items, ITEMS, 0, outcome_set, &outcome, NULL), STATUS_OK);
    cr_assert_eq(outcome.calls, 0, "never from within the call");
    rig_until(&rig, &outcome.calls, 1);
    cr_assert_eq(outcome.status, STATUS_OK);
    for (int i = 0; i < ITEMS; i++) {
        cr_assert_eq(items[i].status, STATUS_OK);
        cr_assert_arr_eq(a[i], rig.arena + i * 100, 40);
        cr_assert_arr_eq(b[i], rig.arena + i * 100 + 40, 60);
    }
    transfer_pool_stats(rig.pool, &stats);
    cr_assert_eq(transfer_stats_sum(&stats).items, ITEMS);
    cr_assert_eq(transfer_stats_sum(&stats).item_bytes, ITEMS * 100);
    cr_assert_eq(stats.by[rig_way()].items, ITEMS);
    transfer_owner_stats(rig.owner, &stats);
    cr_assert_eq(transfer_stats_sum(&stats).items, rig_way() == TRANSFER_BY_TCP ? ITEMS : 0);
    rig_dispose(&rig);
}

Test(fetch, each_item_has_its_own_status)
{
    uint8_t out[5][10] = {{0}};
    struct iovec iov[5];
    transfer_item_t items[5];
    outcome_t outcome = {0};

    rig_init(&rig, NULL, NULL);
    transfer_handle_t good = rig_publish(&rig, 0, 100, NULL), stale = rig_publish(&rig, 200, 100, NULL);
    transfer_handle_t wrong = good;
    wrong.lo ^= 1;
    transfer_unpublish(rig.owner, stale);
    transfer_handle_t handles[5] = {good, wrong, stale, good, good};
    uint64_t offsets[5] = {0, 0, 0, 95, 90};
    for (int i = 0; i < 5; i++) {
        iov[i] = (struct iovec){out[i], 10};
        items[i] = item_of(handles[i], offsets[i], &iov[i], 1);
    }
    cr_assert_eq(transfer_fetch(rig.peer, items, 5, 0, outcome_set, &outcome, NULL), STATUS_OK);
    rig_until(&rig, &outcome.calls, 1);
    cr_assert_eq(outcome.status, STATUS_OK);
    status_t want[5] = {STATUS_OK, STATUS_NOT_FOUND, STATUS_NOT_FOUND, STATUS_INVALID_ARGUMENT, STATUS_OK};
    if (rig_way() != TRANSFER_BY_TCP)
        want[1] = STATUS_OK; /* who may read it all needs no handle to read: directory.h */
    for (int i = 0; i < 5; i++)
        cr_assert_eq(items[i].status, want[i], "item %d", i);
    cr_assert_arr_eq(out[0], rig.arena, 10);
    cr_assert_arr_eq(out[4], rig.arena + 90, 10);
    rig_dispose(&rig);
}

Test(fetch, refuses_what_cannot_be_asked)
{
    transfer_limits_t limits = {.max_item_bytes = 100, .max_items = 2, .max_requests = 1};
    uint8_t out[200];
    struct iovec iov = {out, 200}, small = {out, 10};
    outcome_t outcome = {0};

    rig_init(&rig, NULL, &limits);
    transfer_handle_t handle = rig_publish(&rig, 0, 200, NULL);
    transfer_item_t items[3] = {item_of(handle, 0, &small, 1), item_of(handle, 0, &small, 1),
                                item_of(handle, 0, &small, 1)};
    cr_assert_eq(transfer_fetch(rig.peer, items, 0, 0, outcome_set, &outcome, NULL), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(transfer_fetch(rig.peer, items, 3, 0, outcome_set, &outcome, NULL), STATUS_TOO_LARGE);
    transfer_item_t big = item_of(handle, 0, &iov, 1), odd = item_of(handle, 0, &small, 1);
    odd.len_bytes = 11;
    cr_assert_eq(transfer_fetch(rig.peer, &big, 1, 0, outcome_set, &outcome, NULL), STATUS_TOO_LARGE);
    cr_assert_eq(transfer_fetch(rig.peer, &odd, 1, 0, outcome_set, &outcome, NULL), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(transfer_fetch(rig.peer, items, 1, 0, outcome_set, &outcome, NULL), STATUS_OK);
    cr_assert_eq(transfer_fetch(rig.peer, items + 1, 1, 0, outcome_set, &outcome, NULL), STATUS_NO_MEMORY);
    rig_until(&rig, &outcome.calls, 1);
    rig_settle(&rig);
    cr_assert_eq(outcome.calls, 1);
    rig_dispose(&rig);
}

Test(fetch, the_owners_smaller_limits_hold)
{
    transfer_limits_t limits = {.max_item_bytes = 100, .max_items = 2};
    uint8_t out[200];
    struct iovec iov = {out, 200};
    outcome_t first = {0}, second = {0};

    rig_init(&rig, &limits, NULL);
    transfer_item_t big = item_of(rig_publish(&rig, 0, 200, NULL), 0, &iov, 1);
    if (rig_way() == TRANSFER_BY_TCP) { /* the others have greeted already */
        cr_assert_eq(transfer_fetch(rig.peer, &big, 1, 0, outcome_set, &first, NULL), STATUS_OK);
        rig_until(&rig, &first.calls, 1);
        cr_assert_eq(first.status, STATUS_TOO_LARGE, "known only after the greeting");
    }
    cr_assert_eq(transfer_fetch(rig.peer, &big, 1, 0, outcome_set, &second, NULL), STATUS_TOO_LARGE);
    rig_settle(&rig);
    cr_assert_eq(second.calls, 0);
    rig_dispose(&rig);
}

Test(fetch, a_region_unpublished_while_it_is_written_stays_until_the_end)
{
    enum { LEN = 64 << 20 };
    transfer_memory_t *memory;
    uint8_t *big = malloc(LEN), *out = malloc(LEN);
    struct iovec iov = {out, LEN};
    outcome_t outcome = {0};
    int released = 0;
    transfer_handle_t handle;
    transfer_stats_t stats = {0};

    for (size_t i = 0; i < LEN; i++)
        big[i] = (uint8_t)(i ^ i >> 11);
    rig_init(&rig, NULL, &(transfer_limits_t){.credit_bytes = UINT64_MAX}); /* asked for at once */
    cr_assert_eq(transfer_memory_register(rig.owner, big, LEN, NULL, &memory, NULL), STATUS_OK);
    cr_assert_eq(transfer_publish(memory, big, LEN, count_release, &released, &handle), STATUS_OK);
    transfer_item_t item = item_of(handle, 0, &iov, 1);
    cr_assert_eq(transfer_fetch(rig.peer, &item, 1, 0, outcome_set, &outcome, NULL), STATUS_OK);
    while (transfer_stats_sum(&stats).items == 0) {
        uv_run(&rig.loop, UV_RUN_ONCE);
        transfer_owner_stats(rig.owner, &stats);
    }
    cr_assert_eq(outcome.calls, 0, "too much for the socket buffers");
    cr_assert(transfer_unpublish(rig.owner, handle));
    cr_assert_eq(released, 0);
    rig_until(&rig, &outcome.calls, 1);
    cr_assert_eq(item.status, STATUS_OK);
    cr_assert_eq(memcmp(big, out, LEN), 0);
    rig_settle(&rig);
    cr_assert_eq(released, 1);
    rig_dispose(&rig);
    transfer_memory_unregister(memory);
    free(big);
    free(out);
}

Test(fetch, many_requests_share_the_connection)
{
    enum { REQUESTS = 200, LEN = 3000 };
    static uint8_t out[REQUESTS][LEN];
    struct iovec iov[REQUESTS];
    transfer_item_t items[REQUESTS];
    outcome_t outcome[REQUESTS] = {{0}};
    transfer_stats_t stats;

    rig_init(&rig, NULL, NULL);
    transfer_handle_t handle = rig_publish(&rig, 0, ARENA_BYTES, NULL);
    for (int i = 0; i < REQUESTS; i++) {
        iov[i] = (struct iovec){out[i], LEN};
        items[i] = item_of(handle, (uint64_t)i * 1000, &iov[i], 1);
        cr_assert_eq(transfer_fetch(rig.peer, &items[i], 1, 0, outcome_set, &outcome[i], NULL), STATUS_OK);
    }
    rig_until(&rig, &outcome[REQUESTS - 1].calls, 1);
    for (int i = 0; i < REQUESTS; i++) {
        cr_assert_eq(outcome[i].calls, 1);
        cr_assert_eq(outcome[i].status, STATUS_OK);
        cr_assert_arr_eq(out[i], rig.arena + i * 1000, LEN);
    }
    transfer_pool_stats(rig.pool, &stats);
    cr_assert_eq(stats.connects, 1);
    rig_dispose(&rig);
}

Test(fetch, small_limits_on_unread_answers_do_not_lose_requests)
{
    enum { REQUESTS = 50, LEN = 100000 };
    transfer_limits_t limits = {.max_items = 2};
    uint8_t *out = malloc((size_t)REQUESTS * LEN);
    struct iovec iov[REQUESTS];
    transfer_item_t items[REQUESTS];
    outcome_t outcome = {0};

    rig_init(&rig, &limits, NULL);
    transfer_handle_t handle = rig_publish(&rig, 0, ARENA_BYTES, NULL);
    for (int i = 0; i < REQUESTS; i++) {
        iov[i] = (struct iovec){out + (size_t)i * LEN, LEN};
        items[i] = item_of(handle, (uint64_t)i * 7, &iov[i], 1);
        cr_assert_eq(transfer_fetch(rig.peer, &items[i], 1, 0, outcome_set, &outcome, NULL), STATUS_OK);
    }
    rig_until(&rig, &outcome.calls, REQUESTS);
    for (int i = 0; i < REQUESTS; i++)
        cr_assert_eq(memcmp(out + (size_t)i * LEN, rig.arena + i * 7, LEN), 0);
    rig_dispose(&rig);
    free(out);
}

Test(fetch, cancelled_ones_end_at_once_and_the_rest_goes_on)
{
    enum { REQUESTS = 40, VICTIM = 30, LEN = 900000 };
    uint8_t *out = calloc(REQUESTS, LEN), *blank = calloc(1, LEN);
    struct iovec iov[REQUESTS];
    transfer_item_t items[REQUESTS];
    outcome_t outcome[REQUESTS] = {{0}};
    transfer_request_t ids[REQUESTS];

    rig_init(&rig, NULL, NULL);
    transfer_handle_t handle = rig_publish(&rig, 0, ARENA_BYTES, NULL);
    for (int i = 0; i < REQUESTS; i++) {
        iov[i] = (struct iovec){out + (size_t)i * LEN, LEN};
        items[i] = item_of(handle, (uint64_t)i, &iov[i], 1);
        cr_assert_eq(transfer_fetch(rig.peer, &items[i], 1, 0, outcome_set, &outcome[i], &ids[i]), STATUS_OK);
    }
    if (rig_way() == TRANSFER_BY_RDMA) {
        /* By messages its memory is written to, so it is waited for; what UCX maps it copies at once, and nothing is under way. */
        bool cancelled = transfer_cancel(rig.pool, ids[0]);
        cr_assert(!cancelled || strncmp(getenv("UCX_TLS"), "tcp", 3) != 0);
        cr_assert_eq(outcome[0].calls, cancelled);
        memset(out, 0, LEN);
        for (int i = 0; i < REQUESTS; i++)
            rig_until(&rig, &outcome[i].calls, 1);
        rig_settle(&rig);
        for (int i = 0; i < REQUESTS; i++)
            cr_assert(outcome[i].calls == 1 &&
                      outcome[i].status == (i == 0 && cancelled ? STATUS_CANCELLED : STATUS_OK));
        cr_assert_eq(memcmp(out, cancelled ? blank : rig.arena, LEN), 0);
        rig_dispose(&rig);
        free(out);
        free(blank);
        return;
    }
    cr_assert(transfer_cancel(rig.pool, ids[0]), "while it waits for the connection");
    cr_assert_not(transfer_cancel(rig.pool, ids[0]));
    rig_until(&rig, &outcome[1].calls, 1);
    cr_assert(transfer_cancel(rig.pool, ids[VICTIM]), "sent, its answer not yet here");
    cr_assert_eq(outcome[VICTIM].calls, 1);
    cr_assert_eq(outcome[VICTIM].status, STATUS_CANCELLED);
    cr_assert_eq(items[VICTIM].status, STATUS_CANCELLED);
    memset(out + VICTIM * (size_t)LEN, 0, LEN);
    rig_until(&rig, &outcome[REQUESTS - 1].calls, 1);
    cr_assert_eq(memcmp(out + VICTIM * (size_t)LEN, blank, LEN), 0, "nothing is written after a cancel");
    for (int i = 0; i < REQUESTS; i++) {
        cr_assert_eq(outcome[i].calls, 1);
        cr_assert_eq(outcome[i].status, i == 0 || i == VICTIM ? STATUS_CANCELLED : STATUS_OK);
    }
    cr_assert_not(transfer_cancel(rig.pool, ids[REQUESTS - 1]));
    cr_assert_not(transfer_cancel(rig.pool, 0));
    rig_dispose(&rig);
    free(out);
    free(blank);
}

Test(fetch, the_owners_end_fails_all_that_is_under_way_once)
{
    enum { REQUESTS = 60, LEN = 1 << 20 }; /* more than one turn of the loop moves */
    uint8_t *out = calloc(REQUESTS, LEN);
    struct iovec iov[REQUESTS];
    transfer_item_t items[REQUESTS];
    outcome_t outcome[REQUESTS] = {{0}};
    int released = 0;

    rig_init(&rig, NULL, NULL);
    transfer_handle_t handle = rig_publish(&rig, 0, ARENA_BYTES, &released);
    for (int i = 0; i < REQUESTS; i++) {
        iov[i] = (struct iovec){out + (size_t)i * LEN, LEN};
        items[i] = item_of(handle, 0, &iov[i], 1);
        cr_assert_eq(transfer_fetch(rig.peer, &items[i], 1, 0, outcome_set, &outcome[i], NULL), STATUS_OK);
    }
    rig_until(&rig, &outcome[0].calls, 1);
    rig_stop_owner(&rig);
    cr_assert_eq(released, 1);
    rig_until(&rig, &outcome[REQUESTS - 1].calls, 1);
    rig_settle(&rig);
    int failed = 0;
    for (int i = 0; i < REQUESTS; i++) {
        cr_assert_eq(outcome[i].calls, 1);
        cr_assert(outcome[i].status == STATUS_OK || outcome[i].status == STATUS_UNAVAILABLE);
        bool withdrawn = rig_way() != TRANSFER_BY_TCP && items[i].status == STATUS_NOT_FOUND;
        cr_assert(items[i].status == outcome[i].status || withdrawn);
        failed += items[i].status != STATUS_OK;
    }
    cr_assert_gt(failed, 0);
    rig_dispose(&rig);
    free(out);
}

static transfer_owner_t *listen_again(rig_t *r, const char *address, uint64_t instance_id)
{
    transfer_owner_options_t options = {
        .loop = &r->loop, .address = address, .instance_id = instance_id, .trust = rig_owner_trust};
    transfer_owner_t *owner;
    err_t err;

    cr_assert_eq(transfer_owner_create(&options, &owner, &err), STATUS_OK, "%s", err.text);
    return owner;
}

static status_t fetch_once(transfer_peer_t *peer, transfer_item_t *item)
{
    outcome_t outcome = {0};
    status_t status = transfer_fetch(peer, item, 1, 0, outcome_set, &outcome, NULL);

    if (status != STATUS_OK)
        return status;
    rig_until(&rig, &outcome.calls, 1);
    return outcome.status;
}

Test(fetch, reconnects_after_a_back_off_and_only_to_the_same_instance)
{
    char address[TRANSFER_ADDRESS_BYTES];
    uint8_t out[10];
    struct iovec iov = {out, 10};

    rig_init(&rig, NULL, NULL);
    snprintf(address, sizeof(address), "%s", transfer_owner_address(rig.owner));
    transfer_item_t item = item_of(rig_publish(&rig, 0, 10, NULL), 0, &iov, 1);
    cr_assert_eq(fetch_once(rig.peer, &item), STATUS_OK);
    rig_stop_owner(&rig);
    rig_settle(&rig);
    cr_assert_eq(fetch_once(rig.peer, &item), STATUS_UNAVAILABLE, "nobody listens");
    cr_assert_eq(transfer_fetch(rig.peer, &item, 1, 0, outcome_set, NULL, NULL), STATUS_UNAVAILABLE,
                 "backs off");

    rig.owner = listen_again(&rig, address, 77);
    int64_t end = clock_now_ns() + 5 * NS_PER_S;
    status_t status;
    while ((status = fetch_once(rig.peer, &item)) == STATUS_UNAVAILABLE)
        cr_assert(clock_now_ns() < end, "never came back");
    cr_assert_eq(status, STATUS_OK);
    cr_assert_eq(item.status, STATUS_NOT_FOUND, "the handle is of the old owner");

    rig_stop_owner(&rig);
    rig_settle(&rig);
    rig.owner = listen_again(&rig, address, 78);
    cr_assert_eq(fetch_once(rig.peer, &item), STATUS_UNAVAILABLE, "another instance");
    rig_dispose(&rig);
}

Test(fetch, a_silent_owner_is_given_up_at_the_time_out)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(name);
    int mute = socket(AF_INET, SOCK_STREAM, 0); /* the kernel accepts for it, and that is all */
    transfer_peer_t *peer;
    char address[64];
    uint8_t out[10];
    struct iovec iov = {out, 10};
    outcome_t outcome = {0};

    rig_init(&rig, NULL, NULL);
    cr_assert_eq(bind(mute, (struct sockaddr *)&name, len), 0);
    cr_assert_eq(listen(mute, 5), 0);
    getsockname(mute, (struct sockaddr *)&name, &len);
    snprintf(address, sizeof(address), "127.0.0.1:%d", ntohs(name.sin_port));
    cr_assert_eq(transfer_peer_open(rig.pool, address, 0, &peer, NULL), STATUS_OK);
    transfer_item_t item = item_of((transfer_handle_t){1, 2}, 0, &iov, 1);
    int64_t start = clock_now_ns();
    cr_assert_eq(transfer_fetch(peer, &item, 1, 20 * NS_PER_MS, outcome_set, &outcome, NULL), STATUS_OK);
    rig_until(&rig, &outcome.calls, 1);
    cr_assert_eq(outcome.status, STATUS_DEADLINE_EXCEEDED);
    cr_assert_eq(item.status, STATUS_DEADLINE_EXCEEDED);
    cr_assert_geq(clock_now_ns() - start, 20 * NS_PER_MS);
    close(mute);
    rig_dispose(&rig);
}

Test(fetch, names_are_resolved_and_bad_addresses_refused)
{
    transfer_peer_t *peer;
    char address[64];
    err_t err;
    uint8_t out[10];
    struct iovec iov = {out, 10};
    const char *bad[] = {"", "localhost", "localhost:", ":80", "[]:80", "h:123456789"};

    rig_init(&rig, NULL, NULL);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_assert_eq(transfer_peer_open(rig.pool, bad[i], 0, &peer, &err), STATUS_INVALID_ARGUMENT, "%s",
                     bad[i]);
    snprintf(address, sizeof(address), "localhost%s", strrchr(transfer_owner_address(rig.owner), ':'));
    cr_assert_eq(transfer_peer_open(rig.pool, address, 77, &peer, &err), STATUS_OK);
    transfer_item_t item = item_of(rig_publish(&rig, 5, 10, NULL), 0, &iov, 1);
    cr_assert_eq(fetch_once(peer, &item), STATUS_OK);
    cr_assert_arr_eq(out, rig.arena + 5, 10);
    cr_assert_eq(transfer_peer_open(rig.pool, "no-such-host.invalid:1", 0, &peer, &err), STATUS_OK);
    cr_assert_eq(fetch_once(peer, &item), STATUS_UNAVAILABLE);
    rig_dispose(&rig);
}

Test(fetch, idle_connections_are_closed_and_made_again)
{
    transfer_limits_t limits = {.idle_ns = 20 * NS_PER_MS};
    uint8_t out[10];
    struct iovec iov = {out, 10};
    transfer_stats_t stats;

    rig_init(&rig, NULL, &limits);
    transfer_item_t item = item_of(rig_publish(&rig, 5, 10, NULL), 0, &iov, 1);
    cr_assert_eq(fetch_once(rig.peer, &item), STATUS_OK);
    int64_t end = clock_now_ns() + 10 * NS_PER_S;
    do {
        uv_run(&rig.loop, UV_RUN_ONCE);
        transfer_owner_stats(rig.owner, &stats);
        cr_assert(clock_now_ns() < end);
    } while (stats.connections > 0);
    cr_assert_eq(fetch_once(rig.peer, &item), STATUS_OK);
    transfer_pool_stats(rig.pool, &stats);
    cr_assert_eq(stats.connects, 2);
    rig_dispose(&rig);
}

static transfer_item_t again_item;
static int again_status = -1;

/* Closes the peer and asks it for more, both from within a callback of its failure. */
static void close_and_ask(void *ctx, status_t status)
{
    outcome_set(ctx, status);
    again_status = (int)transfer_fetch(rig.peer, &again_item, 1, 0, outcome_set, ctx, NULL);
}

Test(fetch, a_peer_that_is_being_closed_takes_nothing_more)
{
    uint8_t out[10];
    struct iovec iov = {out, 10};
    outcome_t outcome = {0};

    rig_init(&rig, NULL, NULL);
    again_item = item_of(rig_publish(&rig, 5, 10, NULL), 0, &iov, 1);
    transfer_item_t item = again_item;
    cr_assert_eq(transfer_fetch(rig.peer, &item, 1, 0, close_and_ask, &outcome, NULL), STATUS_OK);
    transfer_peer_close(rig.peer);
    cr_assert_eq(outcome.calls, 1);
    cr_assert_eq(outcome.status, STATUS_UNAVAILABLE);
    cr_assert_eq(again_status, STATUS_UNAVAILABLE);
    rig_dispose(&rig);
}
