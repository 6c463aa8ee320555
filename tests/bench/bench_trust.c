/*
 * What it costs that both sides prove who they are: a gateway and a worker by TCP on loopback, each with a loop and a thread, plain, with a
 * secret of the cluster, and over TLS, in turns in the same run.
 *
 *   rate     150 KB and 600 KB items, DEPTH under way
 *   alone    the same, one at a time: p50
 *   CPU      of the whole process for each byte, at the rate
 *   connect  from nothing to the first item, of one byte: median
 */
#include "base/clock.h"
#include "base/log.h"
#include "bench_net.h"
#include "tls/issue.h"
#include "tls/options.h"
#include "transfer/transfer.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

enum {
    ARENA_BYTES = 64 << 20,
    DEPTH = 8,
    ROUNDS = 9,
    ROUND_BYTES = 100 << 20,
    ALONE = 300,    /* items in each round */
    CONNECTS = 101, /* of each way */
    ITEM_BYTES_MAX = 1 << 20,
};

typedef enum { PLAIN, SECRET, TLS, WAYS } way_t;
static const char *const way_names[WAYS] = {"plain", "secret", "TLS"};

typedef struct {
    transfer_trust_t owner_trust, pool_trust;
    transfer_owner_t *owner;
    transfer_memory_t *memory;
    transfer_handle_t handle;
    transfer_pool_t *pool;
    transfer_peer_t *peer;
} side_t;

typedef struct {
    transfer_item_t item;
    struct iovec iov;
} lane_t;

static struct {
    char folder[32];
    uv_loop_t gateway, worker;
    uv_async_t stop;
    side_t sides[WAYS];
    uint8_t *arena, *buffers;
    lane_t lanes[DEPTH];
    side_t *asked; /* whose turn it is */
    uint32_t item_bytes;
    int left, under_way;
} bench;

/* ---- whom they believe ---- */

static const char *in_folder(const char *name)
{
    static char paths[8][64];
    static uint32_t next;
    char *path = paths[next++ % 8];

    snprintf(path, sizeof(paths[0]), "%s/%s", bench.folder, name);
    return path;
}

static void issue(const tls_pair_t *ca, const char *role)
{
    const tls_subject_t subject = {.name = role, .role = role, .valid_s = 86400};
    tls_pair_t pair;

    must(tls_pair_in(bench.folder, role, &pair, NULL) == STATUS_OK &&
             tls_issue(ca, &pair, &subject, NULL) == STATUS_OK,
         "a certificate");
}

static void make_files(void)
{
    const tls_subject_t subject = {.name = "bench-ca", .valid_s = 86400};
    tls_pair_t ca;

    snprintf(bench.folder, sizeof(bench.folder), "/tmp/fermata-bench-XXXXXX");
    must(mkdtemp(bench.folder) != NULL, "a folder");
    must(tls_pair_in(bench.folder, "ca", &ca, NULL) == STATUS_OK &&
             tls_make_authority(&ca, &subject, NULL) == STATUS_OK,
         "an authority");
    issue(&ca, "gateway");
    issue(&ca, "worker");
    int fd = open(in_folder("secret"), O_WRONLY | O_CREAT | O_EXCL, 0600);
    must(fd >= 0 && write(fd, "a secret of no other use than this", 34) == 34, "a secret");
    close(fd);
}

static void remove_files(void)
{
    static const char *const names[] = {"ca.crt",     "ca.key",     "gateway.crt", "gateway.key",
                                        "worker.crt", "worker.key", "secret"};

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        unlink(in_folder(names[i]));
    rmdir(bench.folder);
}

static void open_trust(way_t way, bool owner, transfer_trust_t *trust)
{
    const tls_cluster_options_t none = {0};
    const tls_cluster_options_t certificates = {.ca = in_folder("ca.crt"),
                                                .cert = in_folder(owner ? "gateway.crt" : "worker.crt"),
                                                .key = in_folder(owner ? "gateway.key" : "worker.key")};
    err_t err;

    must(transfer_trust_open(way == TLS ? &certificates : &none, way == SECRET ? in_folder("secret") : NULL,
                             owner, trust, &err) == STATUS_OK,
         "trust");
}

/* ---- both sides ---- */

static void on_stop(uv_async_t *async)
{
    for (int way = 0; way < WAYS; way++)
        transfer_owner_destroy(bench.sides[way].owner);
    uv_close((uv_handle_t *)async, NULL);
}

static void *gateway_main(void *arg)
{
    (void)arg;
    uv_run(&bench.gateway, UV_RUN_DEFAULT);
    return NULL;
}

static void open_side(way_t way)
{
    side_t *side = &bench.sides[way];

    open_trust(way, true, &side->owner_trust);
    open_trust(way, false, &side->pool_trust);
    const transfer_owner_options_t owner = {.loop = &bench.gateway,
                                            .address = "127.0.0.1:0",
                                            .instance_id = 1,
                                            .choice = TRANSFER_CHOOSE_TCP,
                                            .trust = side->owner_trust};
    const transfer_pool_options_t pool = {
        .loop = &bench.worker, .choice = TRANSFER_CHOOSE_TCP, .trust = side->pool_trust};
    must(transfer_owner_create(&owner, &side->owner, NULL) == STATUS_OK, "listening");
    must(transfer_memory_register(side->owner, bench.arena, ARENA_BYTES, NULL, &side->memory, NULL) ==
                 STATUS_OK &&
             transfer_publish(side->memory, bench.arena, ARENA_BYTES, NULL, NULL, &side->handle) == STATUS_OK,
         "publishing");
    must(transfer_pool_create(&pool, &side->pool, NULL) == STATUS_OK, "a pool");
}

static void open_peer(side_t *side)
{
    must(transfer_peer_open(side->pool, transfer_owner_address(side->owner), 1, &side->peer, NULL) ==
             STATUS_OK,
         "a peer");
}

static void start(pthread_t *thread)
{
    bench.arena = malloc(ARENA_BYTES);
    bench.buffers = malloc((size_t)DEPTH * ITEM_BYTES_MAX);
    must(bench.arena && bench.buffers, "memory");
    memset(bench.arena, 7, ARENA_BYTES);
    memset(bench.buffers, 1, (size_t)DEPTH * ITEM_BYTES_MAX);
    make_files();
    uv_loop_init(&bench.gateway);
    uv_loop_init(&bench.worker);
    uv_async_init(&bench.gateway, &bench.stop, on_stop);
    for (int way = 0; way < WAYS; way++)
        open_side((way_t)way);
    must(pthread_create(thread, NULL, gateway_main, NULL) == 0, "starting a thread");
}

static void stop(pthread_t thread)
{
    uv_async_send(&bench.stop);
    pthread_join(thread, NULL);
    for (int way = 0; way < WAYS; way++)
        transfer_pool_destroy(bench.sides[way].pool);
    uv_run(&bench.worker, UV_RUN_DEFAULT);
    for (int way = 0; way < WAYS; way++) {
        transfer_memory_unregister(bench.sides[way].memory);
        transfer_trust_close(&bench.sides[way].owner_trust);
        transfer_trust_close(&bench.sides[way].pool_trust);
    }
    remove_files();
    free(bench.arena);
    free(bench.buffers);
}

/* ---- asking ---- */

static void ask_next(lane_t *lane);

static void on_done(void *ctx, status_t status)
{
    lane_t *lane = ctx;

    must(status == STATUS_OK && lane->item.status == STATUS_OK, "a request");
    bench.under_way--;
    ask_next(lane);
}

static void ask_next(lane_t *lane)
{
    if (bench.left == 0)
        return;
    bench.left--;
    bench.under_way++;
    lane->iov =
        (struct iovec){bench.buffers + (size_t)(lane - bench.lanes) * ITEM_BYTES_MAX, bench.item_bytes};
    lane->item = (transfer_item_t){
        .handle = bench.asked->handle, .len_bytes = bench.item_bytes, .iov = &lane->iov, .iov_count = 1};
    must(transfer_fetch(bench.asked->peer, &lane->item, 1, 0, on_done, lane, NULL) == STATUS_OK, "asking");
}

static int64_t ask(side_t *side, uint32_t item_bytes, int count, int depth)
{
    int64_t begin = clock_now_ns();

    bench.asked = side;
    bench.item_bytes = item_bytes;
    bench.left = count;
    for (int i = 0; i < depth; i++)
        ask_next(&bench.lanes[i]);
    while (bench.under_way > 0)
        uv_run(&bench.worker, UV_RUN_ONCE);
    return clock_now_ns() - begin;
}

static double cpu_ns(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return 1e9 * (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e3 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
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

static double alone_p50_us(side_t *side, uint32_t item_bytes)
{
    static int64_t samples[ALONE];

    for (int i = 0; i < ALONE; i++)
        samples[i] = ask(side, item_bytes, 1, 1);
    return percentile_us(samples, ALONE, 0.5);
}

static void compare(uint32_t item_bytes)
{
    static double rate[WAYS][ROUNDS], cpu[WAYS][ROUNDS], alone[WAYS][ROUNDS];
    int count = ROUND_BYTES / (int)item_bytes;
    double bytes = (double)count * item_bytes;

    for (int i = 0; i < ROUNDS * WAYS; i++) {
        side_t *side = &bench.sides[i % WAYS];
        double before = cpu_ns();
        rate[i % WAYS][i / WAYS] = bytes / (double)ask(side, item_bytes, count, DEPTH);
        cpu[i % WAYS][i / WAYS] = (cpu_ns() - before) / bytes;
        alone[i % WAYS][i / WAYS] = alone_p50_us(side, item_bytes);
    }
    for (int way = 0; way < WAYS; way++)
        printf("%u KB %-6s %d deep %.2f GB/s, CPU %.3f ns a byte; alone p50 %.1f us\n", item_bytes >> 10,
               way_names[way], DEPTH, median(rate[way], ROUNDS), median(cpu[way], ROUNDS),
               median(alone[way], ROUNDS));
}

/* In turns; from a peer that is not connected to its first byte. */
static void compare_connects(void)
{
    static double took_us[WAYS][CONNECTS];

    for (int i = 0; i < CONNECTS * WAYS; i++) {
        side_t *side = &bench.sides[i % WAYS];
        open_peer(side);
        took_us[i % WAYS][i / WAYS] = (double)ask(side, 1, 1, 1) / 1e3;
        transfer_peer_close(side->peer);
        uv_run(&bench.worker, UV_RUN_NOWAIT);
    }
    for (int way = 0; way < WAYS; way++)
        printf("connect and the first byte, %s: %.0f us\n", way_names[way], median(took_us[way], CONNECTS));
}

int main(void)
{
    pthread_t thread;

    log_init("bench", LOG_WARN, LOG_FORMAT_TEXT);
    start(&thread);
    compare_connects();
    for (int way = 0; way < WAYS; way++)
        open_peer(&bench.sides[way]);
    compare(150 * 1024);
    compare(600 * 1024);
    stop(thread);
    return 0;
}
