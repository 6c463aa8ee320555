/*
 * Incast: one worker fetches from N gateways at once; round after round, each of them OBJECTS objects, a round begins when the last
 * has ended. Latency is that of each object from the round's begin. Two processes, so that they can be put into two network
 * namespaces (bench-transfer does):
 *
 *   bench_incast serve tcp|shm|rdma|naive HOST PORT N BYTES                  prints the handles, a line each, then "ready"; serves until killed
 *   bench_incast fetch tcp|shm|rdma|naive HOST PORT N BYTES OBJECTS ROUNDS [CREDIT_BYTES]    reads the handles; 0 = adapts, -1 = unpaced
 *   bench_incast zerocopy send|sink HOST PORT [BYTES]                  one sender, with MSG_ZEROCOPY and without, by size
 *
 * tcp, shm, rdma: the data plane, that way; naive: a blocking socket for each, all objects asked for at once.
 */
#include "base/clock.h"
#include "base/log.h"
#include "bench_net.h"
#include "transfer/transfer.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

enum { PEERS_MAX = 256, OBJECTS_MAX = 64, ZEROCOPY_TOTAL = 2000 << 20 };

typedef struct {
    transfer_way_t way;
    const char *host;
    uint16_t port;
    int peers, objects, rounds;
    uint32_t bytes;
    uint64_t credit_bytes;
} plan_t;

static transfer_choice_t choice_of(const plan_t *plan)
{
    static const transfer_choice_t choices[TRANSFER_WAYS] = {[TRANSFER_BY_TCP] = TRANSFER_CHOOSE_TCP,
                                                             [TRANSFER_BY_SHM] = TRANSFER_CHOOSE_AUTO,
                                                             [TRANSFER_BY_RDMA] = TRANSFER_CHOOSE_RDMA};

    return choices[plan->way];
}

static uint8_t *filled(size_t bytes)
{
    uint8_t *memory = malloc(bytes);

    must(memory != NULL, "memory");
    memset(memory, 7, bytes);
    return memory;
}

/* ---- serving ---- */

static void serve_owners(const plan_t *plan)
{
    static uv_loop_t loop;

    uv_loop_init(&loop);
    for (int i = 0; i < plan->peers; i++) {
        char address[64];
        transfer_owner_options_t options = {
            .loop = &loop, .address = address, .instance_id = 1, .choice = choice_of(plan)};
        transfer_owner_t *owner;
        transfer_block_t *block;
        snprintf(address, sizeof(address), "%s:%d", plan->host, plan->port + i);
        must(transfer_block_create(options.choice, address, plan->bytes, &block, NULL) == STATUS_OK,
             "memory");
        void *arena = transfer_block_base(block);
        memset(arena, 7, plan->bytes);
        transfer_memory_t *memory;
        transfer_handle_t handle;
        must(transfer_owner_create(&options, &owner, NULL) == STATUS_OK &&
                 transfer_memory_register(owner, arena, plan->bytes, block, &memory, NULL) == STATUS_OK &&
                 transfer_publish(memory, arena, plan->bytes, NULL, NULL, &handle) == STATUS_OK,
             "an owner");
        printf("%" PRIx64 " %" PRIx64 "\n", handle.hi, handle.lo);
    }
    printf("ready\n");
    fflush(stdout);
    uv_run(&loop, UV_RUN_DEFAULT);
}

typedef struct {
    int listener;
    const uint8_t *data;
    uint32_t bytes;
} naive_t;

/* One connection after the other. */
static void *serve_naive_one(void *arg)
{
    const naive_t *naive = arg;
    uint8_t request[32];

    for (;;) {
        int fd = accept_one(naive->listener);
        while (recv_all(fd, request, sizeof(request)) && send_all(fd, naive->data, naive->bytes))
            ;
        close(fd);
    }
    return NULL;
}

static void serve_naive(const plan_t *plan)
{
    static naive_t naive[PEERS_MAX];
    uint8_t *data = filled(plan->bytes);
    pthread_t thread;

    for (int i = 0; i < plan->peers; i++) {
        naive[i] = (naive_t){listen_at(plan->host, (uint16_t)(plan->port + i), NULL), data, plan->bytes};
        must(pthread_create(&thread, NULL, serve_naive_one, &naive[i]) == 0, "starting a thread");
    }
    printf("ready\n");
    fflush(stdout);
    pthread_join(thread, NULL);
}

/* ---- fetching ---- */

static int64_t *samples, round_start_ns;
static int sampled, under_way;

static void report(const plan_t *plan, int64_t took_ns)
{
    double bytes = (double)sampled * plan->bytes;

    printf("goodput_MBps %.2f min_us %.1f p50_us %.1f p99_us %.1f p9999_us %.1f max_us %.1f fetches %d\n",
           bytes / (double)took_ns * 1e3, percentile_us(samples, sampled, 0),
           percentile_us(samples, sampled, 0.5), percentile_us(samples, sampled, 0.99),
           percentile_us(samples, sampled, 0.9999), percentile_us(samples, sampled, 1), sampled);
}

typedef struct {
    transfer_item_t item;
    struct iovec iov;
} object_t;

static void object_done(void *ctx, status_t status)
{
    must(status == STATUS_OK && ((object_t *)ctx)->item.status == STATUS_OK, "a fetch");
    samples[sampled++] = clock_now_ns() - round_start_ns;
    under_way--;
}

static void round_owners(uv_loop_t *loop, transfer_peer_t **peers, object_t *objects, const plan_t *plan)
{
    round_start_ns = clock_now_ns();
    for (int i = 0; i < plan->peers * plan->objects; i++) {
        under_way++;
        must(transfer_fetch(peers[i % plan->peers], &objects[i].item, 1, 0, object_done, &objects[i], NULL) ==
                 STATUS_OK,
             "asking");
    }
    while (under_way > 0)
        uv_run(loop, UV_RUN_ONCE);
}

static void link_all(uv_loop_t *loop, transfer_pool_t *pool, transfer_peer_t **peers, const plan_t *plan)
{
    transfer_stats_t stats;
    int64_t end = clock_now_ns() + 10 * NS_PER_S;

    for (int i = 0; i < plan->peers; i++)
        transfer_peer_connect(peers[i]);
    do {
        must(clock_now_ns() < end, "links that way");
        uv_run(loop, UV_RUN_NOWAIT);
        transfer_pool_stats(pool, &stats);
    } while (stats.by[plan->way].connections < (uint32_t)plan->peers);
}

static void fetch_owners(const plan_t *plan)
{
    static uv_loop_t loop;
    static object_t objects[PEERS_MAX * OBJECTS_MAX];
    transfer_peer_t *peers[PEERS_MAX];
    transfer_handle_t handles[PEERS_MAX];
    transfer_pool_t *pool;
    uint8_t *buffer = filled((size_t)plan->peers * (size_t)plan->objects * plan->bytes);

    uv_loop_init(&loop);
    transfer_pool_options_t options = {
        .loop = &loop, .choice = choice_of(plan), .limits.credit_bytes = plan->credit_bytes};
    must(transfer_pool_create(&options, &pool, NULL) == STATUS_OK, "a pool");
    for (int i = 0; i < plan->peers; i++) {
        char address[64];
        must(scanf("%" SCNx64 " %" SCNx64, &handles[i].hi, &handles[i].lo) == 2, "reading the handles");
        must(transfer_peer_open(pool, address, 1, &peers[i], NULL) == STATUS_OK, "a peer");
    }
    for (int i = 0; i < plan->peers * plan->objects; i++) {
        objects[i].iov = (struct iovec){buffer + (size_t)i * plan->bytes, plan->bytes};
        objects[i].item = (transfer_item_t){.handle = handles[i % plan->peers],
                                            .len_bytes = plan->bytes,
                                            .iov = &objects[i].iov,
                                            .iov_count = 1};
    }
    link_all(&loop, pool, peers, plan);
    round_owners(&loop, peers, objects, plan);
    sampled = 0;
    int64_t start = clock_now_ns();
    for (int i = 0; i < plan->rounds; i++)
        round_owners(&loop, peers, objects, plan);
    report(plan, clock_now_ns() - start);
    transfer_pool_destroy(pool);
    uv_run(&loop, UV_RUN_DEFAULT);
    free(buffer);
}

static void naive_take(struct pollfd *from, size_t *have, const plan_t *plan, uint8_t *buffer)
{
    ssize_t got = recv(from->fd, buffer, plan->bytes - *have, MSG_DONTWAIT);

    must(got > 0 || (got < 0 && errno == EAGAIN), "receiving");
    *have += got > 0 ? (size_t)got : 0;
    if (*have < plan->bytes)
        return;
    *have = 0;
    samples[sampled++] = clock_now_ns() - round_start_ns;
    under_way--;
}

static void round_naive(struct pollfd *fds, const plan_t *plan, uint8_t *buffer)
{
    static uint8_t requests[OBJECTS_MAX * 32];
    static size_t have[PEERS_MAX];

    round_start_ns = clock_now_ns();
    under_way = plan->peers * plan->objects;
    for (int i = 0; i < plan->peers; i++)
        must(send_all(fds[i].fd, requests, (size_t)plan->objects * 32), "asking");
    while (under_way > 0) {
        must(poll(fds, (nfds_t)plan->peers, 10000) > 0, "waiting");
        for (int i = 0; i < plan->peers; i++) {
            if (fds[i].revents)
                naive_take(&fds[i], &have[i], plan, buffer + (size_t)i * plan->bytes);
        }
    }
}

static void fetch_naive(const plan_t *plan)
{
    static struct pollfd fds[PEERS_MAX];
    uint8_t *buffer = filled((size_t)plan->peers * plan->bytes);

    for (int i = 0; i < plan->peers; i++)
        fds[i] = (struct pollfd){.fd = connect_to(plan->host, (uint16_t)(plan->port + i)), .events = POLLIN};
    round_naive(fds, plan, buffer);
    sampled = 0;
    int64_t start = clock_now_ns();
    for (int i = 0; i < plan->rounds; i++)
        round_naive(fds, plan, buffer);
    report(plan, clock_now_ns() - start);
    free(buffer);
}

/* ---- MSG_ZEROCOPY ---- */

static void zerocopy_sink(const plan_t *plan)
{
    static uint8_t buffer[1 << 20];
    int listener = listen_at(plan->host, plan->port, NULL);

    printf("ready\n");
    fflush(stdout);
    for (;;) {
        int fd = accept_one(listener);
        while (recv(fd, buffer, sizeof(buffer), 0) > 0)
            ;
        close(fd);
    }
}

/* Collects completions; returns how many sends they cover, adds to *copied those that the kernel copied after all. */
static int64_t zerocopy_reap(int fd, int64_t *copied)
{
    int64_t ended = 0;

    for (;;) {
        char control[128];
        struct msghdr message = {.msg_control = control, .msg_controllen = sizeof(control)};
        if (recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
            return ended;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        must(header != NULL, "a completion");
        struct sock_extended_err error;
        memcpy(&error, CMSG_DATA(header), sizeof(error));
        int64_t count = (int64_t)error.ee_data - error.ee_info + 1;
        ended += count;
        *copied += error.ee_code == SO_EE_CODE_ZEROCOPY_COPIED ? count : 0;
    }
}

static double cpu_ns(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e9 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e3;
}

static void zerocopy_send(const plan_t *plan, uint32_t bytes, bool zerocopy)
{
    int on = 1, fd = connect_to(plan->host, plan->port);
    uint8_t *data = filled(bytes);
    int64_t sends = 0, ended = 0, copied = 0, start = clock_now_ns(), total = 0;
    double cpu = cpu_ns();

    if (zerocopy)
        must(setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on)) == 0, "SO_ZEROCOPY");
    while (total < ZEROCOPY_TOTAL) {
        for (uint32_t done = 0; done < bytes;) {
            ssize_t sent = send(fd, data + done, bytes - done, MSG_NOSIGNAL | (zerocopy ? MSG_ZEROCOPY : 0));
            if (sent < 0 && errno == ENOBUFS) {
                ended += zerocopy_reap(fd, &copied);
                continue;
            }
            must(sent > 0, "sending");
            done += (uint32_t)sent;
            sends++;
        }
        total += bytes;
        if (zerocopy)
            ended += zerocopy_reap(fd, &copied);
    }
    while (zerocopy && ended < sends)
        ended += zerocopy_reap(fd, &copied);
    double took = (double)(clock_now_ns() - start);
    printf("%8u %-8s %6.2f GB/s  sender %6.1f us of CPU per MB  copied after all %3.0f %%\n", bytes,
           zerocopy ? "zerocopy" : "copy", (double)total / took,
           (cpu_ns() - cpu) / 1e3 / ((double)total / 1e6),
           zerocopy ? 100.0 * (double)copied / (double)sends : 0);
    close(fd);
    free(data);
}

static void zerocopy_by_size(const plan_t *plan)
{
    static const uint32_t sizes[] = {16 << 10, 64 << 10, 150 << 10, 600 << 10, 4 << 20};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        zerocopy_send(plan, sizes[i], false);
        zerocopy_send(plan, sizes[i], true);
    }
}

static int usage(void)
{
    fprintf(stderr, "usage: bench_incast serve|fetch tcp|shm|rdma|naive HOST PORT N BYTES [OBJECTS ROUNDS "
                    "[CREDIT_BYTES]]\n"
                    "       bench_incast zerocopy send|sink HOST PORT\n");
    return 2;
}

static long number(char **argv, int argc, int i)
{
    return i < argc ? strtol(argv[i], NULL, 10) : 0;
}

int main(int argc, char **argv)
{
    if (argc == 1)
        return 0; /* run-all: bench-transfer runs it */
    if (argc < 5)
        return usage();
    plan_t plan = {.host = argv[3],
                   .port = (uint16_t)number(argv, argc, 4),
                   .peers = (int)number(argv, argc, 5),
                   .bytes = (uint32_t)number(argv, argc, 6),
                   .objects = (int)number(argv, argc, 7),
                   .rounds = (int)number(argv, argc, 8),
                   .credit_bytes = (uint64_t)number(argv, argc, 9)};
    bool naive = strcmp(argv[2], "naive") == 0;
    while (plan.way < TRANSFER_BY_RDMA && strcmp(argv[2], transfer_way_name(plan.way)) != 0)
        plan.way++;

    log_init("bench", LOG_ERROR, LOG_FORMAT_TEXT);
    if (strcmp(argv[1], "zerocopy") == 0) {
        if (strcmp(argv[2], "sink") == 0)
            zerocopy_sink(&plan);
        zerocopy_by_size(&plan);
        return 0;
    }
    if (plan.peers < 1 || plan.peers > PEERS_MAX || plan.bytes == 0 || plan.objects > OBJECTS_MAX)
        return usage();
    samples = malloc(sizeof(*samples) *
                     ((size_t)(plan.rounds + 1) * (size_t)plan.peers * (size_t)plan.objects + 1));
    must(samples != NULL, "memory");
    if (strcmp(argv[1], "serve") == 0)
        (naive ? serve_naive : serve_owners)(&plan);
    else
        (naive ? fetch_naive : fetch_owners)(&plan);
    free(samples);
    return 0;
}
