/*
 * What an owner refuses whoever reaches it by UCX: bytes beyond what it laid open, and keys of a connection that has ended. The liar is a link
 * that was told other lengths and tokens than its owner gave.
 */
#include "base/clock.h"
#include "base/log.h"
#include "transfer/carrier.h"
#include "transfer/ucx/hello.h"
#include "transfer/ucx/window.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <uv.h>

enum { ARENA_BYTES = 1 << 20, SLOTS = 16, LEN = 40000 };

static const carrier_ops_t *const ops = &carrier_rdma;
static uv_loop_t loop;
static uint8_t arena[2 * ARENA_BYTES]; /* the first half is laid open */
static directory_entry_t directory[SLOTS];
static carrier_door_t *door;
static carrier_client_t *client;
static carrier_link_t *liar;
static int ready, broken, ended;
static status_t how;

static void on_guard(uv_timer_t *timer)
{
    (void)timer;
}

static void until(const int *value)
{
    int64_t end = clock_now_ns() + 20 * NS_PER_S;
    uv_timer_t guard;

    uv_timer_init(&loop, &guard);
    uv_timer_start(&guard, on_guard, 5, 5);
    while (!*value) {
        cr_assert_lt(clock_now_ns(), end, "in time");
        uv_run(&loop, UV_RUN_ONCE);
    }
    uv_close((uv_handle_t *)&guard, NULL);
    uv_run(&loop, UV_RUN_NOWAIT);
}

static void init(void)
{
    err_t err;

    setenv("UCX_TLS", "tcp,self", 1);
    log_init("test", LOG_OFF, LOG_FORMAT_TEXT);
    uv_loop_init(&loop);
    const carrier_door_options_t options = {
        .loop = &loop, .arena = {arena, ARENA_BYTES, -1}, .directory = {directory, sizeof(directory), -1}};
    cr_assert_eq(ops->door_open(&options, &door, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(ops->client_open(&loop, false, &client, &err), STATUS_OK, "%s", err.text);
}

static void fini(void)
{
    ops->link_close(liar);
    ops->client_close(client);
    ops->door_close(door);
    uv_run(&loop, UV_RUN_DEFAULT);
    cr_assert_eq(uv_loop_close(&loop), 0, "nothing is left on the loop");
    cr_assert_eq(ops->registered(), 0, "nothing stays registered");
}

TestSuite(rdma_refused, .init = init, .fini = fini);

static carrier_seat_t *take_seat(carrier_blob_t *answer)
{
    carrier_seat_t *seat;
    carrier_blob_t hello;
    err_t err;

    ops->client_hello(client, &hello);
    cr_assert_eq(ops->seat_take(door, &hello, answer, &seat, &err), STATUS_OK, "%s", err.text);
    return seat;
}

static void on_changed(void *ctx, status_t status, const char *why)
{
    (void)ctx, (void)why;
    if (status == STATUS_OK)
        ready++;
    else
        broken++;
}

static void link_with(const ucx_answer_t *answer)
{
    const carrier_watch_t watch = {.changed = on_changed};
    carrier_blob_t blob;
    err_t err;

    cr_assert_eq(ucx_answer_write(&blob, answer, &err), STATUS_OK);
    cr_assert_eq(ops->link_open(client, &blob, &watch, &liar, &err), STATUS_OK, "%s", err.text);
    until(&ready);
}

static void on_done(carrier_job_t *job, status_t status)
{
    (void)job;
    how = status;
    ended++;
}

static const transfer_handle_t handle = {.hi = UINT64_C(7) << 32 | 3, .lo = 99};

static void expect_a_read_refused(transfer_handle_t which)
{
    static uint8_t out[LEN];
    struct iovec iov = {out, LEN};
    transfer_item_t item = {.handle = which, .len_bytes = LEN, .iov = &iov, .iov_count = 1};
    carrier_job_t job = {.done = on_done, .items = &item, .count = 1, .max_item_bytes = ARENA_BYTES};

    ops->get(liar, &job);
    until(&ended);
    cr_assert_eq(how, STATUS_UNAVAILABLE);
    until(&broken);
    for (int i = 0; i < LEN; i++)
        cr_assert_eq(out[i], 0);
}

Test(rdma_refused, bytes_beyond_the_arena)
{
    carrier_blob_t blob;
    ucx_answer_t answer;
    carrier_seat_t *seat = take_seat(&blob);

    memset(arena, 0x5a, sizeof(arena));
    cr_assert(ucx_answer_read(&blob, &answer));
    answer.arena.len_bytes *= 2;
    link_with(&answer);
    directory_enter(&directory[3], handle, ARENA_BYTES - 10, LEN);
    expect_a_read_refused(handle);
    ops->seat_give_up(seat);
}

Test(rdma_refused, entries_beyond_the_directory)
{
    carrier_blob_t blob;
    ucx_answer_t answer;
    carrier_seat_t *seat = take_seat(&blob);

    cr_assert(ucx_answer_read(&blob, &answer));
    answer.directory.len_bytes *= 2;
    link_with(&answer);
    expect_a_read_refused((transfer_handle_t){.hi = UINT64_C(7) << 32 | SLOTS, .lo = 99});
    ops->seat_give_up(seat);
}

static uint8_t payload[LEN];

static void expect_a_write_refused(const uint8_t *window)
{
    const struct iovec iov = {payload, LEN};
    carrier_job_t job = {.done = on_done, .iov = &iov, .count = 1};

    memset(payload, 'x', LEN);
    ops->put(liar, &job);
    until(&ended);
    cr_assert_eq(how, STATUS_UNAVAILABLE);
    until(&broken);
    for (int i = 0; i < CARRIER_WINDOW_BYTES; i++)
        cr_assert_eq(window[i], 0);
}

Test(rdma_refused, results_with_the_key_of_a_connection_that_has_ended)
{
    carrier_blob_t blob, others;
    ucx_answer_t answer, ended_answer;
    carrier_seat_t *gone = take_seat(&others), *seat = take_seat(&blob);

    cr_assert(ucx_answer_read(&others, &ended_answer) && ucx_answer_read(&blob, &answer));
    cr_assert_neq(answer.token, ended_answer.token);
    const uint8_t *window = ops->seat_window(gone); /* its memory is kept for a while */
    ops->seat_give_up(gone);
    answer.token = ended_answer.token;
    link_with(&answer);
    expect_a_write_refused(window);
    for (int i = 0; i < CARRIER_WINDOW_BYTES; i++)
        cr_assert_eq(ops->seat_window(seat)[i], 0);
    ops->seat_give_up(seat);
}

Test(rdma_refused, results_with_a_key_that_nobody_was_given)
{
    carrier_blob_t blob;
    ucx_answer_t answer;
    carrier_seat_t *seat = take_seat(&blob);

    cr_assert(ucx_answer_read(&blob, &answer));
    answer.token ^= 2;
    link_with(&answer);
    expect_a_write_refused(ops->seat_window(seat));
    ops->seat_give_up(seat);
}

/* Over UCX's shared memory a key cannot be taken back: the memory itself is kept from others until nobody writes any more. */
Test(rdma_windows, memory_of_a_connection_that_has_ended_is_not_anothers_at_once)
{
    window_store_t store;

    window_store_init(&store);
    window_memory_t *first = window_make(&store), *second;
    window_retire(&store, first);
    second = window_make(&store);
    cr_assert(second && second != first && second->base != first->base);
    first->given_up_ns -= 3600 * NS_PER_S;
    window_retire(&store, second);
    cr_assert_eq(window_make(&store), first, "an hour later it is");
    window_retire(&store, first);
    window_store_dispose(&store);
}
