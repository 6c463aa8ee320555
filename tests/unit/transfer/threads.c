/* Owner and pool on two threads, as in two processes: fetch and push at full speed. */
#include "transfer/transfer.h"

#include "base/log.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum { ROUNDS = 300, LEN = 20000, RESULT_LEN = 400 };

typedef struct {
    uv_loop_t loop;
    transfer_owner_t *owner;
    uv_async_t stop;
    uint8_t arena[LEN];
    uint8_t result[RESULT_LEN];
    int results;
} gateway_t;

static transfer_dest_t gateway_begin(void *ctx, const transfer_incoming_t *result)
{
    gateway_t *gateway = ctx;

    cr_assert_eq(result->len_bytes, RESULT_LEN);
    return (transfer_dest_t){.buffer = gateway->result};
}

static void gateway_done(void *ctx, void *token, uint64_t task_id, status_t status)
{
    gateway_t *gateway = ctx;

    (void)token;
    (void)task_id;
    gateway->results += status == STATUS_OK;
}

static void gateway_on_stop(uv_async_t *async)
{
    gateway_t *gateway = async->data;

    transfer_owner_destroy(gateway->owner);
    uv_close((uv_handle_t *)async, NULL);
}

static void *gateway_main(void *arg)
{
    gateway_t *gateway = arg;

    uv_run(&gateway->loop, UV_RUN_DEFAULT);
    return NULL;
}

typedef struct {
    transfer_peer_t *peer;
    transfer_pool_t *pool;
    transfer_item_t item;
    transfer_result_t result;
    struct iovec in, out;
    uint8_t buffer[LEN];
    int rounds;
} worker_t;

static void worker_next(worker_t *worker);

static void worker_on_pushed(void *ctx, status_t status)
{
    worker_t *worker = ctx;

    cr_assert_eq(status, STATUS_OK);
    if (++worker->rounds < ROUNDS)
        worker_next(worker);
}

static void worker_on_fetched(void *ctx, status_t status)
{
    worker_t *worker = ctx;
    transfer_result_t *result = &worker->result;

    cr_assert_eq(status, STATUS_OK);
    cr_assert_eq(worker->item.status, STATUS_OK);
    worker->out = (struct iovec){worker->buffer, RESULT_LEN};
    *result = (transfer_result_t){.task_id = 1, .iov = &worker->out, .iov_count = 1};
    cr_assert_eq(transfer_push(worker->peer, result, 1, 0, worker_on_pushed, worker, NULL), STATUS_OK);
}

static void worker_next(worker_t *worker)
{
    cr_assert_eq(transfer_fetch(worker->peer, &worker->item, 1, 0, worker_on_fetched, worker, NULL),
                 STATUS_OK);
}

Test(threads, fetch_and_push_between_two_loops)
{
    static gateway_t gateway;
    static worker_t worker;
    transfer_memory_t *memory;
    uv_loop_t loop;
    pthread_t thread;

    log_init("test", LOG_OFF, LOG_FORMAT_TEXT);
    for (int i = 0; i < LEN; i++)
        gateway.arena[i] = (uint8_t)(i * 7);
    uv_loop_init(&gateway.loop);
    uv_async_init(&gateway.loop, &gateway.stop, gateway_on_stop);
    gateway.stop.data = &gateway;
    transfer_owner_options_t options = {.loop = &gateway.loop,
                                        .address = "127.0.0.1:0",
                                        .instance_id = 1,
                                        .receiver = {.begin = gateway_begin, .done = gateway_done},
                                        .ctx = &gateway};
    cr_assert_eq(transfer_owner_create(&options, &gateway.owner, NULL), STATUS_OK);
    cr_assert_eq(transfer_memory_register(gateway.owner, gateway.arena, LEN, NULL, &memory, NULL), STATUS_OK);
    worker.in = (struct iovec){worker.buffer, LEN};
    worker.item = (transfer_item_t){.len_bytes = LEN, .iov = &worker.in, .iov_count = 1};
    cr_assert_eq(transfer_publish(memory, gateway.arena, LEN, NULL, NULL, &worker.item.handle), STATUS_OK);

    uv_loop_init(&loop);
    cr_assert_eq(transfer_pool_create(&(transfer_pool_options_t){.loop = &loop}, &worker.pool, NULL),
                 STATUS_OK);
    cr_assert_eq(
        transfer_peer_open(worker.pool, transfer_owner_address(gateway.owner), 1, &worker.peer, NULL),
        STATUS_OK);
    pthread_create(&thread, NULL, gateway_main, &gateway);
    worker_next(&worker);
    while (worker.rounds < ROUNDS)
        uv_run(&loop, UV_RUN_ONCE);
    uv_async_send(&gateway.stop);
    pthread_join(thread, NULL);

    cr_assert_eq(gateway.results, ROUNDS);
    cr_assert_arr_eq(worker.buffer, gateway.arena, LEN);
    cr_assert_arr_eq(gateway.result, gateway.arena, RESULT_LEN);
    transfer_memory_unregister(memory);
    transfer_pool_destroy(worker.pool);
    uv_run(&loop, UV_RUN_DEFAULT);
    cr_assert_eq(uv_loop_close(&loop), 0);
    cr_assert_eq(uv_loop_close(&gateway.loop), 0);
}
