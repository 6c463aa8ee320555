/*
 * One gateway and one worker by TCP on loopback, beside a bare pair of blocking sockets that keeps as many requests under way,
 * in turns in the same run:
 *
 *   bench_tcp [CREDIT_BYTES]      0 = adapts (the default), -1 = unpaced
 *
 *   rate       150 KB and 600 KB items, DEPTH under way
 *   half load  150 KB fetches that come by a Poisson process, or evenly, at half of the smaller measured rate; latency from the planned
 *              arrival. An ideal queue that serves one after the other in equal times has p99 = 3.6 p50 by Poisson arrivals
 *   beside     the same while 64 MiB tensors, one after the other, come from the same gateway
 */
#include "base/clock.h"
#include "base/log.h"
#include "bench_net.h"
#include "transfer/transfer.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

enum {
    ARENA_BYTES = 64 << 20,
    PICTURE_BYTES = 150 * 1024,
    DEPTH = 8,
    ROUNDS = 20,
    ROUND_BYTES = 200 << 20,
    LOAD_ROUNDS = 11,
    ARRIVALS = 2000, /* in each */
    LANES = 4096,    /* under way at once, open loop */
    SMALL_BYTES = 1024,
    SMALL_ARRIVALS = 1500,
};

/* ---- the gateway's side, on its own thread ---- */

typedef struct {
    uv_loop_t loop;
    uv_async_t stop;
    transfer_owner_t *owner;
    transfer_memory_t *memory;
    transfer_handle_t handle;
    uint8_t *arena;
} gateway_t;

static void gateway_on_stop(uv_async_t *async)
{
    transfer_owner_destroy(((gateway_t *)async->data)->owner);
    uv_close((uv_handle_t *)async, NULL);
}

static void *gateway_main(void *arg)
{
    uv_run(&((gateway_t *)arg)->loop, UV_RUN_DEFAULT);
    return NULL;
}

static void gateway_start(gateway_t *gateway, pthread_t *thread)
{
    transfer_owner_options_t options = {
        .loop = &gateway->loop, .address = "127.0.0.1:0", .instance_id = 1, .choice = TRANSFER_CHOOSE_TCP};

    gateway->arena = malloc(ARENA_BYTES);
    memset(gateway->arena, 7, ARENA_BYTES);
    uv_loop_init(&gateway->loop);
    uv_async_init(&gateway->loop, &gateway->stop, gateway_on_stop);
    gateway->stop.data = gateway;
    must(transfer_owner_create(&options, &gateway->owner, NULL) == STATUS_OK, "listening");
    must(transfer_memory_register(gateway->owner, gateway->arena, ARENA_BYTES, NULL, &gateway->memory,
                                  NULL) == STATUS_OK &&
             transfer_publish(gateway->memory, gateway->arena, ARENA_BYTES, NULL, NULL, &gateway->handle) ==
                 STATUS_OK,
         "publishing");
    must(pthread_create(thread, NULL, gateway_main, gateway) == 0, "starting a thread");
}

/* ---- the worker's side ---- */

typedef struct bench bench_t;

typedef struct lane {
    bench_t *bench;
    struct lane *next; /* free ones */
    transfer_item_t item;
    struct iovec iov;
    int64_t start_ns;
} lane_t;

struct bench {
    uv_loop_t loop;
    transfer_pool_t *pool;
    transfer_peer_t *peer;
    transfer_handle_t handle;
    uint8_t *buffers; /* DEPTH pictures, reused by all lanes */
    lane_t lanes[LANES], *free;
    uint32_t item_bytes;
    int left, under_way;
    int64_t *samples, *arrivals; /* open loop */
    int sampled, arrived;
    int timer_fd;
    lane_t big;
    bool big_on, big_under_way;
    uint64_t big_bytes;
};

static void lane_next(lane_t *lane);

static void lane_on_done(void *ctx, status_t status)
{
    lane_t *lane = ctx;
    bench_t *bench = lane->bench;

    must(status == STATUS_OK && lane->item.status == STATUS_OK, "a request");
    bench->under_way--;
    if (bench->samples) {
        bench->samples[bench->sampled++] = clock_now_ns() - lane->start_ns;
        lane->next = bench->free;
        bench->free = lane;
        return;
    }
    lane_next(lane);
}

static void lane_ask(lane_t *lane)
{
    bench_t *bench = lane->bench;

    bench->under_way++;
    lane->iov.iov_len = lane->item.len_bytes = bench->item_bytes;
    must(transfer_fetch(bench->peer, &lane->item, 1, 0, lane_on_done, lane, NULL) == STATUS_OK, "asking");
}

static void lane_next(lane_t *lane)
{
    if (lane->bench->left == 0)
        return;
    lane->bench->left--;
    lane_ask(lane);
}

static double bench_rate(bench_t *bench, uint32_t item_bytes, int requests)
{
    int64_t start = clock_now_ns();

    bench->item_bytes = item_bytes;
    bench->left = requests;
    bench->samples = NULL;
    for (int i = 0; i < DEPTH; i++)
        lane_next(&bench->lanes[i]);
    while (bench->under_way > 0)
        uv_run(&bench->loop, UV_RUN_ONCE);
    return (double)requests * item_bytes / (double)(clock_now_ns() - start);
}

static void timer_arm(int fd, int64_t at_ns)
{
    struct itimerspec when = {.it_value = {.tv_sec = at_ns / NS_PER_S, .tv_nsec = at_ns % NS_PER_S}};

    must(timerfd_settime(fd, TFD_TIMER_ABSTIME, &when, NULL) == 0, "a timer");
}

static void on_arrival(uv_poll_t *poll, int status, int events)
{
    bench_t *bench = poll->data;
    uint64_t ticks;

    (void)status;
    (void)events;
    if (read(bench->timer_fd, &ticks, sizeof(ticks)) < 0)
        return;
    while (bench->left > 0 && bench->arrivals[bench->arrived] <= clock_now_ns()) {
        lane_t *lane = bench->free;
        must(lane != NULL, "keeping up");
        bench->free = lane->next;
        lane->start_ns = bench->arrivals[bench->arrived++];
        bench->left--;
        lane_ask(lane);
    }
    if (bench->left > 0)
        timer_arm(bench->timer_fd, bench->arrivals[bench->arrived]);
}

static void big_next(bench_t *bench);

static void big_on_done(void *ctx, status_t status)
{
    bench_t *bench = ctx;

    must(status == STATUS_OK && bench->big.item.status == STATUS_OK, "a big request");
    bench->big_under_way = false;
    bench->big_bytes += bench->big.item.len_bytes;
    if (bench->big_on)
        big_next(bench);
}

static void big_next(bench_t *bench)
{
    bench->big_under_way = true;
    must(transfer_fetch(bench->peer, &bench->big.item, 1, 0, big_on_done, bench, NULL) == STATUS_OK,
         "asking");
}

static void arrivals_plan(int64_t *arrivals, int count, double gap_ns, bool even)
{
    uint64_t seed = 42;
    double at = (double)clock_now_ns() + 1e6;

    for (int i = 0; i < count; i++)
        arrivals[i] = (int64_t)(at += gap_ns * (even ? 1 : random_exp(&seed)));
}

/* `samples` gets the latencies. */
static void bench_open_loop(bench_t *bench, uint32_t item_bytes, double gap_ns, bool even, int count,
                            int64_t *samples)
{
    static int64_t arrivals[ARRIVALS];
    uv_poll_t poll;

    arrivals_plan(arrivals, count, gap_ns, even);
    bench->item_bytes = item_bytes;
    bench->arrivals = arrivals;
    bench->samples = samples;
    bench->sampled = bench->arrived = 0;
    bench->left = count;
    bench->free = NULL;
    for (int i = 0; i < LANES; i++) {
        bench->lanes[i].next = bench->free;
        bench->free = &bench->lanes[i];
    }
    uv_poll_init(&bench->loop, &poll, bench->timer_fd);
    poll.data = bench;
    uv_poll_start(&poll, UV_READABLE, on_arrival);
    timer_arm(bench->timer_fd, arrivals[0]);
    while (bench->left > 0 || bench->under_way > 0)
        uv_run(&bench->loop, UV_RUN_ONCE);
    bench->big_on = false;
    while (bench->big_under_way)
        uv_run(&bench->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&poll, NULL);
    uv_run(&bench->loop, UV_RUN_NOWAIT);
}

/* ---- the naive peer ---- */

typedef struct {
    int fd;
    uint32_t item_bytes;
    const uint8_t *data;
} naive_t;

static void *naive_main(void *arg)
{
    naive_t *naive = arg;
    uint8_t request[32];

    while (recv_all(naive->fd, request, sizeof(request)) &&
           send_all(naive->fd, naive->data, naive->item_bytes))
        ;
    close(naive->fd);
    return NULL;
}

static int naive_start(naive_t *naive, pthread_t *thread, const uint8_t *data, uint32_t item_bytes)
{
    uint16_t port;
    int listener = listen_at("127.0.0.1", 0, &port), fd = connect_to("127.0.0.1", port);

    *naive = (naive_t){.fd = accept_one(listener), .item_bytes = item_bytes, .data = data};
    close(listener);
    must(pthread_create(thread, NULL, naive_main, naive) == 0, "starting a thread");
    return fd;
}

static double naive_rate(const uint8_t *data, uint8_t *buffers, uint32_t item_bytes, int requests)
{
    uint8_t request[32] = {0};
    naive_t naive;
    pthread_t thread;
    int fd = naive_start(&naive, &thread, data, item_bytes);
    int64_t start = clock_now_ns();

    for (int i = 0; i < requests + DEPTH; i++) {
        if (i >= DEPTH)
            must(recv_all(fd, buffers + (size_t)(i % DEPTH) * item_bytes, item_bytes), "receiving");
        if (i < requests)
            must(send_all(fd, request, sizeof(request)), "sending");
    }
    double rate = (double)requests * item_bytes / (double)(clock_now_ns() - start);
    close(fd);
    pthread_join(thread, NULL);
    return rate;
}

typedef struct {
    int fd;
    const int64_t *arrivals;
} naive_asker_t;

static void *naive_ask(void *arg)
{
    naive_asker_t *asker = arg;
    uint8_t request[32] = {0};

    for (int i = 0; i < ARRIVALS; i++) {
        struct timespec at = {.tv_sec = asker->arrivals[i] / NS_PER_S,
                              .tv_nsec = asker->arrivals[i] % NS_PER_S};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
        must(send_all(asker->fd, request, sizeof(request)), "sending");
    }
    return NULL;
}

static void naive_open_loop(const uint8_t *data, uint8_t *buffers, double gap_ns, bool even, int64_t *samples)
{
    static int64_t arrivals[ARRIVALS];
    naive_t naive;
    pthread_t thread, asking;
    int fd = naive_start(&naive, &thread, data, PICTURE_BYTES);

    arrivals_plan(arrivals, ARRIVALS, gap_ns, even);
    naive_asker_t asker = {.fd = fd, .arrivals = arrivals};
    must(pthread_create(&asking, NULL, naive_ask, &asker) == 0, "starting a thread");
    for (int i = 0; i < ARRIVALS; i++) {
        must(recv_all(fd, buffers + (size_t)(i % DEPTH) * PICTURE_BYTES, PICTURE_BYTES), "receiving");
        samples[i] = clock_now_ns() - arrivals[i];
    }
    pthread_join(asking, NULL);
    close(fd);
    pthread_join(thread, NULL);
}

/* ---- figures ---- */

static int compare_double(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof(*values), compare_double);
    return values[count / 2];
}

/* The median of the rounds' ratios: each round's two runs stand side by side in time. Returns the smaller of the two rates. */
static double compare_rate(bench_t *bench, gateway_t *gateway, uint32_t item_bytes)
{
    double ours[ROUNDS], naive[ROUNDS], ratio[ROUNDS];
    int requests = ROUND_BYTES / (int)item_bytes;

    bench_rate(bench, item_bytes, requests);
    for (int i = 0; i < ROUNDS; i++) {
        ours[i] = bench_rate(bench, item_bytes, requests);
        naive[i] = naive_rate(gateway->arena, bench->buffers, item_bytes, requests);
        ratio[i] = ours[i] / naive[i];
    }
    double rate = median(ours, ROUNDS), bare = median(naive, ROUNDS);
    printf("rate %u KB, %d deep: %.2f GB/s naive %.2f ratio %.2f\n", item_bytes >> 10, DEPTH, rate, bare,
           median(ratio, ROUNDS));
    return rate < bare ? rate : bare;
}

/* Rounds in turns, and medians of their percentiles, so that what else the machine does now and then does not count. */
static void compare_half_load(bench_t *bench, gateway_t *gateway, double rate, bool even)
{
    static int64_t samples[ARRIVALS];
    double p50[2][LOAD_ROUNDS], p99[2][LOAD_ROUNDS], spread[2][LOAD_ROUNDS],
        gap_ns = PICTURE_BYTES / rate * 2;

    for (int i = 0; i < LOAD_ROUNDS * 2; i++) {
        bool bare = i % 2;
        if (bare)
            naive_open_loop(gateway->arena, bench->buffers, gap_ns, even, samples);
        else
            bench_open_loop(bench, PICTURE_BYTES, gap_ns, even, ARRIVALS, samples);
        p50[bare][i / 2] = percentile_us(samples, ARRIVALS, 0.5);
        p99[bare][i / 2] = percentile_us(samples, ARRIVALS, 0.99);
        spread[bare][i / 2] = p99[bare][i / 2] / p50[bare][i / 2];
    }
    printf("half load of %.2f GB/s, %s: p50 %.1f us p99 %.1f us p99/p50 %.2f", rate,
           even ? "even" : "Poisson", median(p50[0], LOAD_ROUNDS), median(p99[0], LOAD_ROUNDS),
           median(spread[0], LOAD_ROUNDS));
    printf(" naive p50 %.1f p99 %.1f p99/p50 %.2f\n", median(p50[1], LOAD_ROUNDS),
           median(p99[1], LOAD_ROUNDS), median(spread[1], LOAD_ROUNDS));
}

static void small_beside_big(bench_t *bench)
{
    static int64_t samples[SMALL_ARRIVALS];

    bench->big.bench = bench;
    bench->big.iov = (struct iovec){malloc(ARENA_BYTES), ARENA_BYTES};
    bench->big.item = (transfer_item_t){
        .handle = bench->handle, .len_bytes = ARENA_BYTES, .iov = &bench->big.iov, .iov_count = 1};
    memset(bench->big.iov.iov_base, 1, ARENA_BYTES);
    bench->big_on = true;
    int64_t start = clock_now_ns();
    big_next(bench);
    bench_open_loop(bench, SMALL_BYTES, 1e6, false, SMALL_ARRIVALS, samples);
    printf("1 KB beside 64 MiB tensors: p50 %.1f us p99 %.1f us; tensors %.2f GB/s\n",
           percentile_us(samples, SMALL_ARRIVALS, 0.5), percentile_us(samples, SMALL_ARRIVALS, 0.99),
           (double)bench->big_bytes / (double)(clock_now_ns() - start));
    free(bench->big.iov.iov_base);
}

static void bench_start(bench_t *bench, gateway_t *gateway, uint64_t credit_bytes)
{
    transfer_pool_options_t options = {
        .loop = &bench->loop, .choice = TRANSFER_CHOOSE_TCP, .limits.credit_bytes = credit_bytes};

    uv_loop_init(&bench->loop);
    bench->handle = gateway->handle;
    must(transfer_pool_create(&options, &bench->pool, NULL) == STATUS_OK, "a pool");
    must(transfer_peer_open(bench->pool, transfer_owner_address(gateway->owner), 1, &bench->peer, NULL) ==
             STATUS_OK,
         "a peer");
    must((bench->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK)) >= 0, "a timer");
    must((bench->buffers = malloc((size_t)DEPTH << 20)) != NULL, "memory");
    memset(bench->buffers, 1, (size_t)DEPTH << 20);
    for (int i = 0; i < LANES; i++) {
        lane_t *lane = &bench->lanes[i];
        lane->bench = bench;
        lane->iov.iov_base = bench->buffers + ((size_t)(i % DEPTH) << 20);
        lane->item = (transfer_item_t){.handle = gateway->handle, .iov = &lane->iov, .iov_count = 1};
    }
}

int main(int argc, char **argv)
{
    static gateway_t gateway;
    static bench_t bench;
    pthread_t thread;

    log_init("bench", LOG_WARN, LOG_FORMAT_TEXT);
    gateway_start(&gateway, &thread);
    bench_start(&bench, &gateway, argc > 1 ? (uint64_t)strtoll(argv[1], NULL, 10) : 0);
    double rate = compare_rate(&bench, &gateway, PICTURE_BYTES);
    compare_rate(&bench, &gateway, 600 * 1024);
    compare_half_load(&bench, &gateway, rate, false);
    compare_half_load(&bench, &gateway, rate, true);
    small_beside_big(&bench);
    uv_async_send(&gateway.stop);
    pthread_join(thread, NULL);
    transfer_memory_unregister(gateway.memory);
    transfer_pool_destroy(bench.pool);
    uv_run(&bench.loop, UV_RUN_DEFAULT);
    close(bench.timer_fd);
    free(bench.buffers);
    free(gateway.arena);
    return 0;
}
