/*
 * The data plane over loopback, beside a naive peer (blocking send and recv of the same bytes) in the same run.
 *
 *   150 KB fetch          one at a time: what one ResNet input costs a batch of one
 *   small items           batches of 32 items of 1 KB, 4 requests under way
 *   stream                8 MiB items, 2 under way
 *   push                  batches of 32 results of 4 KB, one at a time, acknowledged
 */
#include "bench_net.h"

#include "base/clock.h"
#include "base/log.h"
#include "transfer/transfer.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

enum {
    ARENA_BYTES = 64 << 20,
    PICTURE_BYTES = 150 * 1024,
    SAMPLES = 20000,
    ROUNDS = 20,
    WARM = 1000,
    SMALL_ITEMS = 32,
    SMALL_BYTES = 1024,
    SMALL_REQUESTS = 40000,
    STREAM_BYTES = 8 << 20,
    STREAM_REQUESTS = 600,
    PUSHES = 20000,
    RESULT_BYTES = 4096,
    DEPTH_MAX = 4,
};

/* ---- the gateway's side, on its own thread ---- */

typedef struct {
    uv_loop_t loop;
    uv_async_t stop;
    transfer_owner_t *owner;
    transfer_handle_t handle;
    uint8_t *arena, *results;
} gateway_t;

static transfer_dest_t gateway_begin(void *ctx, const transfer_incoming_t *result)
{
    gateway_t *gateway = ctx;

    return (transfer_dest_t){.buffer = gateway->results + result->task_id * RESULT_BYTES};
}

static void gateway_done(void *ctx, void *token, uint64_t task_id, status_t status)
{
    (void)ctx;
    (void)token;
    (void)task_id;
    (void)status;
}

static void gateway_on_stop(uv_async_t *async)
{
    gateway_t *gateway = async->data;

    transfer_owner_destroy(gateway->owner);
    uv_close((uv_handle_t *)async, NULL);
}

static void *gateway_main(void *arg)
{
    uv_run(&((gateway_t *)arg)->loop, UV_RUN_DEFAULT);
    return NULL;
}

static void gateway_start(gateway_t *gateway, transfer_memory_t **memory, pthread_t *thread)
{
    transfer_owner_options_t options = {.loop = &gateway->loop,
                                        .address = "127.0.0.1:0",
                                        .instance_id = 1,
                                        .receiver = {.begin = gateway_begin, .done = gateway_done},
                                        .ctx = gateway};

    gateway->arena = malloc(ARENA_BYTES);
    gateway->results = malloc((size_t)SMALL_ITEMS * RESULT_BYTES);
    memset(gateway->arena, 7, ARENA_BYTES);
    uv_loop_init(&gateway->loop);
    uv_async_init(&gateway->loop, &gateway->stop, gateway_on_stop);
    gateway->stop.data = gateway;
    must(transfer_owner_create(&options, &gateway->owner, NULL) == STATUS_OK, "listening");
    must(transfer_memory_register(gateway->owner, gateway->arena, ARENA_BYTES, NULL, memory, NULL) ==
             STATUS_OK,
         "registering");
    must(transfer_publish(*memory, gateway->arena, ARENA_BYTES, NULL, NULL, &gateway->handle) == STATUS_OK,
         "publishing");
    must(pthread_create(thread, NULL, gateway_main, gateway) == 0, "starting a thread");
}

/* ---- the worker's side ---- */

typedef struct bench bench_t;

/* One request that is repeated until the run has had its number. */
typedef struct {
    bench_t *bench;
    transfer_item_t items[SMALL_ITEMS];
    transfer_result_t results[SMALL_ITEMS];
    struct iovec iov[SMALL_ITEMS];
    uint8_t *buffer;
    int64_t start_ns;
} lane_t;

struct bench {
    uv_loop_t loop;
    transfer_pool_t *pool;
    transfer_peer_t *peer;
    lane_t lanes[DEPTH_MAX];
    uint32_t count; /* items or results of one request */
    bool push;
    int left, under_way;
    int64_t *samples;
    int sampled;
};

static void lane_next(lane_t *lane);

static void lane_on_done(void *ctx, status_t status)
{
    lane_t *lane = ctx;
    bench_t *bench = lane->bench;

    must(status == STATUS_OK && (bench->push || lane->items[0].status == STATUS_OK), "a request");
    if (bench->samples && bench->sampled < SAMPLES)
        bench->samples[bench->sampled++] = clock_now_ns() - lane->start_ns;
    bench->under_way--;
    lane_next(lane);
}

static void lane_next(lane_t *lane)
{
    bench_t *bench = lane->bench;
    status_t status;

    if (bench->left == 0)
        return;
    bench->left--;
    bench->under_way++;
    lane->start_ns = clock_now_ns();
    if (bench->push)
        status = transfer_push(bench->peer, lane->results, bench->count, 0, lane_on_done, lane, NULL);
    else
        status = transfer_fetch(bench->peer, lane->items, bench->count, 0, lane_on_done, lane, NULL);
    must(status == STATUS_OK, "asking");
}

static void lane_prepare(lane_t *lane, bench_t *bench, transfer_handle_t handle, size_t item_bytes)
{
    lane->bench = bench;
    for (uint32_t i = 0; i < bench->count; i++) {
        lane->iov[i] = (struct iovec){lane->buffer + i * item_bytes, item_bytes};
        lane->items[i] = (transfer_item_t){.handle = handle,
                                           .offset = i * item_bytes,
                                           .len_bytes = item_bytes,
                                           .iov = &lane->iov[i],
                                           .iov_count = 1};
        lane->results[i] =
            (transfer_result_t){.task_id = i, .handle = handle, .iov = &lane->iov[i], .iov_count = 1};
    }
}

/* Runs `requests` of `count` items, `depth` under way. Returns the ns it took. */
static int64_t bench_run(bench_t *bench, transfer_handle_t handle, int requests, int depth, uint32_t count,
                         size_t item_bytes, int64_t *samples)
{
    int64_t start = clock_now_ns();

    bench->left = requests;
    bench->count = count;
    bench->samples = samples;
    bench->sampled = 0;
    for (int i = 0; i < depth; i++) {
        lane_prepare(&bench->lanes[i], bench, handle, item_bytes);
        lane_next(&bench->lanes[i]);
    }
    while (bench->left > 0 || bench->under_way > 0)
        uv_run(&bench->loop, UV_RUN_ONCE);
    return clock_now_ns() - start;
}

/* ---- the naive peer: a thread that answers each 32-byte request with so many bytes ---- */

typedef struct {
    int fd;
    size_t reply_bytes;
    const uint8_t *data;
} naive_t;

static void *naive_main(void *arg)
{
    naive_t *naive = arg;
    uint8_t request[32];

    while (recv_all(naive->fd, request, sizeof(request)) &&
           send_all(naive->fd, naive->data, naive->reply_bytes))
        ;
    close(naive->fd);
    return NULL;
}

static void tcp_pair(int fds[2])
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(name);
    int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);

    must(bind(listener, (struct sockaddr *)&name, len) == 0 && listen(listener, 1) == 0, "listening");
    getsockname(listener, (struct sockaddr *)&name, &len);
    fds[0] = socket(AF_INET, SOCK_STREAM, 0);
    must(connect(fds[0], (struct sockaddr *)&name, len) == 0, "connecting");
    fds[1] = accept(listener, NULL, NULL);
    for (int i = 0; i < 2; i++)
        setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    close(listener);
}

/* The same bytes per request as bench_run moves, one request at a time. */
static int64_t naive_run(const uint8_t *data, uint8_t *buffer, int requests, size_t reply_bytes,
                         int64_t *samples)
{
    int fds[2];
    pthread_t thread;
    uint8_t request[32] = {0};

    tcp_pair(fds);
    naive_t naive = {.fd = fds[1], .reply_bytes = reply_bytes, .data = data};
    must(pthread_create(&thread, NULL, naive_main, &naive) == 0, "starting a thread");
    int64_t begin = clock_now_ns();
    for (int i = 0; i < requests; i++) {
        int64_t start = clock_now_ns();
        must(send_all(fds[0], request, sizeof(request)) && recv_all(fds[0], buffer, reply_bytes),
             "the naive peer");
        if (samples)
            samples[i] = clock_now_ns() - start;
    }
    int64_t took = clock_now_ns() - begin;
    close(fds[0]);
    pthread_join(thread, NULL);
    return took;
}

/* ---- figures ---- */

/* In turns, so that both see the same moods of the machine. */
static void compare_latency(bench_t *bench, gateway_t *gateway)
{
    static int64_t ours[SAMPLES], naive[SAMPLES];

    bench_run(bench, gateway->handle, WARM, 1, 1, PICTURE_BYTES, NULL);
    for (int at = 0; at < SAMPLES; at += SAMPLES / ROUNDS) {
        bench_run(bench, gateway->handle, SAMPLES / ROUNDS, 1, 1, PICTURE_BYTES, ours + at);
        naive_run(gateway->arena, bench->lanes[0].buffer, SAMPLES / ROUNDS, PICTURE_BYTES, naive + at);
    }
    double p50 = percentile_us(ours, SAMPLES, 0.5), naive_p50 = percentile_us(naive, SAMPLES, 0.5);
    printf("%-34s p50 %7.1f us  p99 %7.1f us   naive p50 %7.1f p99 %7.1f   ratio p50 %.2f\n",
           "fetch 150 KB, one at a time", p50, percentile_us(ours, SAMPLES, 0.99), naive_p50,
           percentile_us(naive, SAMPLES, 0.99), p50 / naive_p50);
}

static void compare_rate(const char *what, double per_s, double naive_per_s, const char *unit)
{
    printf("%-34s %10.2f %s   naive, one at a time %10.2f   ratio %.2f\n", what, per_s, unit, naive_per_s,
           per_s / naive_per_s);
}

int main(void)
{
    static gateway_t gateway;
    static bench_t bench;
    static int64_t samples[SAMPLES];
    transfer_memory_t *memory;
    pthread_t thread;

    log_init("bench", LOG_WARN, LOG_FORMAT_TEXT);
    gateway_start(&gateway, &memory, &thread);
    uv_loop_init(&bench.loop);
    must(transfer_pool_create(&(transfer_pool_options_t){.loop = &bench.loop}, &bench.pool, NULL) ==
             STATUS_OK,
         "pool");
    must(transfer_peer_open(bench.pool, transfer_owner_address(gateway.owner), 1, &bench.peer, NULL) ==
             STATUS_OK,
         "peer");
    for (int i = 0; i < DEPTH_MAX; i++) {
        must((bench.lanes[i].buffer = malloc(STREAM_BYTES)) != NULL, "memory");
        memset(bench.lanes[i].buffer, 1, STREAM_BYTES);
    }

    compare_latency(&bench, &gateway);

    int64_t took = bench_run(&bench, gateway.handle, SMALL_REQUESTS, 4, SMALL_ITEMS, SMALL_BYTES, NULL);
    int64_t naive = naive_run(gateway.arena, bench.lanes[0].buffer, SMALL_REQUESTS, SMALL_BYTES, NULL);
    compare_rate("1 KB items, 32 a request, 4 deep",
                 (double)SMALL_REQUESTS * SMALL_ITEMS / (double)took * 1e6,
                 (double)SMALL_REQUESTS / (double)naive * 1e6, "k items/s");

    took = bench_run(&bench, gateway.handle, STREAM_REQUESTS, 2, 1, STREAM_BYTES, NULL);
    naive = naive_run(gateway.arena, bench.lanes[0].buffer, STREAM_REQUESTS, STREAM_BYTES, NULL);
    compare_rate("8 MiB items, 2 deep", (double)STREAM_REQUESTS * STREAM_BYTES / (double)took,
                 (double)STREAM_REQUESTS * STREAM_BYTES / (double)naive, "GB/s     ");

    bench.push = true;
    bench_run(&bench, gateway.handle, PUSHES, 1, SMALL_ITEMS, RESULT_BYTES, samples);
    printf("%-34s p50 %7.1f us  p99 %7.1f us   until acknowledged\n", "push 32 results of 4 KB",
           percentile_us(samples, PUSHES, 0.5), percentile_us(samples, PUSHES, 0.99));

    uv_async_send(&gateway.stop);
    pthread_join(thread, NULL);
    transfer_memory_unregister(memory);
    transfer_pool_destroy(bench.pool);
    uv_run(&bench.loop, UV_RUN_DEFAULT);
    return 0;
}
