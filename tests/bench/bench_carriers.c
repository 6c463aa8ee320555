/*
 * A fetch and a push past the socket, beside the socket: each transport that was built, in turns, between two threads that
 * have a loop each (--spin: RDMA does not sleep; --one: the same input again and again; --loose: into buffers that are not registered
 * before). Prints latency of one fetch at a time, CPU time per byte of both sides, and items per second.
 */
#include "bench_net.h"

#include "base/clock.h"
#include "base/log.h"
#include "transfer/transfer.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <uv.h>

enum {
    ARENA_BYTES = 64 << 20,
    PLACES =
        64, /* inputs in the arena, in turn, so that no cache has them all; with --one it is always the same */
    ITEM_BYTES = 150 * 1024,
    ROUNDS = 5,
    FETCHES = 4000,
    DEPTH = 4,
    RESULT_BYTES = 64 << 10,
    PUSHES = 1000,
};

static const struct {
    transfer_way_t way;
    transfer_choice_t choice;
} ways[] = {
    {TRANSFER_BY_TCP, TRANSFER_CHOOSE_TCP},
    {TRANSFER_BY_SHM, TRANSFER_CHOOSE_AUTO},
#ifdef FERMATA_RDMA
    {TRANSFER_BY_RDMA, TRANSFER_CHOOSE_RDMA},
#endif
};
enum { WAYS = sizeof ways / sizeof *ways };

/* ---- the gateway's side, on its own thread ---- */

typedef struct {
    uv_loop_t loop;
    uv_async_t stop;
    pthread_t thread;
    transfer_owner_t *owner;
    transfer_block_t *block;
    transfer_memory_t *memory;
    transfer_handle_t handle;
    uint8_t *results;
} gateway_t;

static transfer_dest_t on_begin(void *ctx, const transfer_incoming_t *result)
{
    (void)result;
    return (transfer_dest_t){.buffer = ((gateway_t *)ctx)->results};
}

static void on_end(void *ctx, void *token, uint64_t task_id, status_t status)
{
    (void)ctx;
    (void)token;
    (void)task_id;
    (void)status;
}

static void on_stop(uv_async_t *async)
{
    transfer_owner_destroy(((gateway_t *)async->data)->owner);
    uv_close((uv_handle_t *)async, NULL);
}

static void *gateway_main(void *arg)
{
    uv_run(&((gateway_t *)arg)->loop, UV_RUN_DEFAULT);
    return NULL;
}

static void gateway_start(gateway_t *gateway, transfer_choice_t choice, bool spin)
{
    transfer_owner_options_t options = {.loop = &gateway->loop,
                                        .address = "127.0.0.1:0",
                                        .instance_id = 1,
                                        .choice = choice,
                                        .spin = spin,
                                        .receiver = {.begin = on_begin, .done = on_end},
                                        .ctx = gateway};

    gateway->results = malloc(RESULT_BYTES);
    uv_loop_init(&gateway->loop);
    uv_async_init(&gateway->loop, &gateway->stop, on_stop);
    gateway->stop.data = gateway;
    must(transfer_owner_create(&options, &gateway->owner, NULL) == STATUS_OK, "listening");
    must(transfer_block_create(choice, options.address, ARENA_BYTES, &gateway->block, NULL) == STATUS_OK,
         "memory");
    void *arena = transfer_block_base(gateway->block);
    memset(arena, 7, ARENA_BYTES);
    must(transfer_memory_register(gateway->owner, arena, ARENA_BYTES, gateway->block, &gateway->memory,
                                  NULL) == STATUS_OK,
         "registering");
    must(transfer_publish(gateway->memory, arena, ARENA_BYTES, NULL, NULL, &gateway->handle) == STATUS_OK,
         "publishing");
    must(pthread_create(&gateway->thread, NULL, gateway_main, gateway) == 0, "a thread");
}

/* ---- the worker's side ---- */

typedef struct bench bench_t;

typedef struct {
    bench_t *bench;
    transfer_item_t item;
    transfer_result_t result;
    struct iovec iov;
    uint8_t *buffer;
    int64_t start_ns;
} lane_t;

struct bench {
    uv_loop_t loop;
    transfer_pool_t *pool;
    transfer_peer_t *peer;
    gateway_t gateway;
    lane_t lanes[DEPTH];
    bool push, loose;
    int left, under_way, place, places;
    int64_t *samples;
};

typedef struct {
    int64_t samples[FETCHES * ROUNDS], pushes[PUSHES * ROUNDS];
    double alone_cpu_ns, deep_ns, deep_cpu_ns;
} figures_t;

static void lane_next(lane_t *lane);

static void lane_on_done(void *ctx, status_t status)
{
    lane_t *lane = ctx;
    bench_t *bench = lane->bench;

    must(status == STATUS_OK && (bench->push || lane->item.status == STATUS_OK), "a request");
    if (bench->samples)
        *bench->samples++ = clock_now_ns() - lane->start_ns;
    bench->under_way--;
    lane_next(lane);
}

static void lane_next(lane_t *lane)
{
    bench_t *bench = lane->bench;

    if (bench->left == 0)
        return;
    bench->left--;
    bench->under_way++;
    lane->iov = (struct iovec){lane->buffer, bench->push ? RESULT_BYTES : ITEM_BYTES};
    lane->item =
        (transfer_item_t){.handle = bench->gateway.handle,
                          .offset = (uint64_t)(bench->place++ % bench->places) * (ARENA_BYTES / PLACES),
                          .len_bytes = ITEM_BYTES,
                          .iov = &lane->iov,
                          .iov_count = 1};
    lane->result =
        (transfer_result_t){.task_id = 1, .handle = bench->gateway.handle, .iov = &lane->iov, .iov_count = 1};
    lane->start_ns = clock_now_ns();
    must((bench->push
              ? transfer_push(bench->peer, &lane->result, 1, 0, lane_on_done, lane, NULL)
              : transfer_fetch(bench->peer, &lane->item, 1, 0, lane_on_done, lane, NULL)) == STATUS_OK,
         "asking");
}

static double cpu_ns(void)
{
    struct rusage use;

    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1e9 +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1e3;
}

static void bench_run(bench_t *bench, int requests, int depth, bool push, int64_t *samples)
{
    bench->left = requests;
    bench->push = push;
    bench->samples = samples;
    for (int i = 0; i < depth; i++)
        lane_next(&bench->lanes[i]);
    while (bench->left > 0 || bench->under_way > 0)
        uv_run(&bench->loop, UV_RUN_ONCE);
}

/* False: this transport cannot be had here. */
static bool bench_open(bench_t *bench, transfer_choice_t choice, transfer_way_t way, bool spin)
{
    transfer_pool_options_t pool = {.loop = &bench->loop, .choice = choice, .spin = spin};
    transfer_stats_t stats = {0};
    int64_t end = clock_now_ns() + 5 * NS_PER_S;

    gateway_start(&bench->gateway, choice, spin);
    uv_loop_init(&bench->loop);
    must(transfer_pool_create(&pool, &bench->pool, NULL) == STATUS_OK, "pool");
    must(transfer_peer_open(bench->pool, transfer_owner_address(bench->gateway.owner), 1, &bench->peer,
                            NULL) == STATUS_OK,
         "peer");
    for (int i = 0; i < DEPTH; i++) {
        bench->lanes[i].bench = bench;
        must((bench->lanes[i].buffer = malloc(ITEM_BYTES)) != NULL, "memory");
        memset(bench->lanes[i].buffer, 1, ITEM_BYTES);
        if (!bench->loose)
            transfer_buffer_add(bench->pool, TRANSFER_IN_HOST, bench->lanes[i].buffer, ITEM_BYTES);
    }
    transfer_peer_connect(bench->peer);
    while (stats.by[way].connections == 0 && clock_now_ns() < end) {
        uv_run(&bench->loop, UV_RUN_NOWAIT);
        transfer_pool_stats(bench->pool, &stats);
    }
    return stats.by[way].connections > 0;
}

static void bench_close(bench_t *bench)
{
    uv_async_send(&bench->gateway.stop);
    pthread_join(bench->gateway.thread, NULL);
    transfer_memory_unregister(bench->gateway.memory);
    transfer_block_destroy(bench->gateway.block);
    transfer_pool_destroy(bench->pool);
    uv_run(&bench->loop, UV_RUN_DEFAULT);
    for (int i = 0; i < DEPTH; i++)
        free(bench->lanes[i].buffer);
    free(bench->gateway.results);
}

static void measure(bench_t *bench, figures_t *figures, int round)
{
    double cpu = cpu_ns();

    bench_run(bench, FETCHES, 1, false, figures->samples + round * FETCHES);
    figures->alone_cpu_ns += cpu_ns() - cpu;
    cpu = cpu_ns();
    int64_t start = clock_now_ns();
    bench_run(bench, FETCHES, DEPTH, false, NULL);
    figures->deep_ns += (double)(clock_now_ns() - start);
    figures->deep_cpu_ns += cpu_ns() - cpu;
    bench_run(bench, PUSHES, 1, true, figures->pushes + round * PUSHES);
}

static bool said(int argc, char **argv, const char *word)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], word) == 0)
            return true;
    }
    return false;
}

int main(int argc, char **argv)
{
    static bench_t benches[WAYS];
    static figures_t figures[WAYS];
    bool spin = said(argc, argv, "--spin"), open[WAYS];
    int places = said(argc, argv, "--one") ? 1 : PLACES;
    const double bytes = (double)ITEM_BYTES * FETCHES * ROUNDS;

    log_init("bench", LOG_WARN, LOG_FORMAT_TEXT);
    for (int w = 0; w < WAYS; w++) {
        benches[w].places = places;
        benches[w].loose = said(argc, argv, "--loose");
        open[w] = bench_open(&benches[w], ways[w].choice, ways[w].way, spin);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int w = 0; w < WAYS; w++) {
            if (open[w])
                measure(&benches[w], &figures[w], round);
        }
    }
    printf("%-6s %28s %12s %12s %12s %26s\n", "", "150 KB, one at a time: p50", "p99 us", "CPU ns/B",
           "GB/s 4 deep", "64 KB pushed: p50, p99 us");
    for (int w = 0; w < WAYS; w++) {
        figures_t *f = &figures[w];
        if (open[w])
            printf("%-6s %28.1f %12.1f %12.3f %12.2f %14.1f %11.1f\n", transfer_way_name(ways[w].way),
                   percentile_us(f->samples, FETCHES * ROUNDS, .5),
                   percentile_us(f->samples, FETCHES * ROUNDS, .99), f->alone_cpu_ns / bytes,
                   bytes / f->deep_ns, percentile_us(f->pushes, PUSHES * ROUNDS, .5),
                   percentile_us(f->pushes, PUSHES * ROUNDS, .99));
        else
            printf("%-6s cannot be had here\n", transfer_way_name(ways[w].way));
    }
    for (int w = 0; w < WAYS; w++)
        bench_close(&benches[w]);
    return 0;
}
