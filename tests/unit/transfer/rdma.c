/*
 * RDMA by UCX (libs/transfer/ucx), over the transports of UCX that need no hardware: whoever greets with nonsense is refused, and who goes away in
 * the middle of a read costs one error for each request, and nothing stays registered.
 */
#include "harness.h"

#include "base/clock.h"
#include "base/log.h"
#include "transfer/carrier.h"
#include "transfer/ucx/context.h"
#include "transfer/ucx/hello.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static rig_t rig;

static void use(const char *transports)
{
    setenv("FERMATA_TEST_TRANSPORT", "rdma", 1);
    setenv("UCX_TLS", transports, 1);
    setenv("UCX_WARN_UNUSED_ENV_VARS", "n", 1);
}

static transfer_item_t item_of(transfer_handle_t handle, const struct iovec *iov)
{
    return (transfer_item_t){.handle = handle, .len_bytes = iov->iov_len, .iov = iov, .iov_count = 1};
}

static void fetch_a_batch(const char *transports)
{
    enum { ITEMS = 40 };
    static uint8_t out[ITEMS][15000];
    struct iovec iov[ITEMS];
    transfer_item_t items[ITEMS];
    outcome_t outcome = {0};

    use(transports);
    rig_init(&rig, NULL, NULL);
    cr_assert_geq(carrier_rdma.registered(), 3, "the arena, the directory and a window");
    transfer_handle_t good = rig_publish(&rig, 0, 15000, NULL), gone = rig_publish(&rig, 0, 15000, NULL);
    transfer_handle_t beyond = {.hi = good.hi | 0xffffff, .lo = good.lo};
    transfer_unpublish(rig.owner, gone);
    for (int i = 0; i < ITEMS; i++) {
        iov[i] = (struct iovec){out[i], i == 3 ? 0 : 15000};
        items[i] = item_of(i == 1 ? gone : i == 2 ? beyond : good, &iov[i]);
    }
    items[4].offset = 1;
    cr_assert_eq(transfer_fetch(rig.peer, items, ITEMS, 0, outcome_set, &outcome, NULL), STATUS_OK);
    cr_assert_eq(outcome.calls, 0, "never from within the call");
    rig_until(&rig, &outcome.calls, 1);
    for (int i = 0; i < ITEMS; i++) {
        status_t want = i == 1 || i == 2 ? STATUS_NOT_FOUND : i == 4 ? STATUS_INVALID_ARGUMENT : STATUS_OK;
        cr_assert_eq(items[i].status, want, "item %d", i);
        if (want == STATUS_OK)
            cr_assert_eq(memcmp(out[i], rig.arena, iov[i].iov_len), 0);
    }
    rig_dispose(&rig);
    cr_assert_eq(carrier_rdma.registered(), 0, "nothing stays registered");
}

Test(rdma, a_batch_is_read_in_bursts_over_tcp)
{
    fetch_a_batch("tcp,self");
}

Test(rdma, and_over_shared_memory)
{
    fetch_a_batch("posix,sysv,cma,self");
}

/* ---- a gateway in a process of its own, which dies ---- */

typedef struct {
    char address[TRANSFER_ADDRESS_BYTES];
    transfer_handle_t handle;
} told_t;

static void gateway_main(int to)
{
    told_t told;

    rig_init_owner(&rig);
    snprintf(told.address, sizeof(told.address), "%s", transfer_owner_address(rig.owner));
    told.handle = rig_publish(&rig, 0, ARENA_BYTES, NULL);
    if (write(to, &told, sizeof(told)) != sizeof(told))
        _exit(1);
    uv_run(&rig.loop, UV_RUN_DEFAULT);
    _exit(0);
}

static pid_t fork_gateway(told_t *told)
{
    int pipes[2];

    cr_assert_eq(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0)
        gateway_main(pipes[1]);
    cr_assert_eq(read(pipes[0], told, sizeof(*told)), sizeof(*told));
    return child;
}

static pid_t start_gateway(const char *transports, told_t *told)
{
    use(transports);
    return fork_gateway(told);
}

enum { REQUESTS = 1000, LEN = 40000 };
static uint8_t out[REQUESTS][LEN];
static struct iovec iov[REQUESTS];
static transfer_item_t items[REQUESTS];
static outcome_t outcome[REQUESTS];

/* A gateway of its own, and a thousand reads from it under way, of which the first is through. */
static pid_t begin_reads(const char *transports)
{
    told_t told;
    pid_t child = start_gateway(transports, &told);

    rig_init_pool(&rig, told.address, NULL);
    rig_link(&rig);
    for (int i = 0; i < REQUESTS; i++) {
        iov[i] = (struct iovec){out[i], LEN};
        items[i] = item_of(told.handle, &iov[i]);
        cr_assert_eq(transfer_fetch(rig.peer, &items[i], 1, 0, outcome_set, &outcome[i], NULL), STATUS_OK);
    }
    rig_until(&rig, &outcome[0].calls, 1);
    return child;
}

static void each_ended_once(void)
{
    for (int i = 0; i < REQUESTS; i++)
        cr_assert_eq(outcome[i].calls, 1);
}

static void close_in_the_middle(const char *transports)
{
    pid_t child = begin_reads(transports);

    transfer_peer_close(rig.peer);
    each_ended_once();
    memset(out, 0, sizeof(out));
    rig_settle(&rig);
    for (int i = 0; i < REQUESTS; i++) {
        for (int k = 0; k < LEN; k++)
            cr_assert_eq(out[i][k], 0, "written to after the end");
    }
    cr_assert_eq(waitpid(child, NULL, WNOHANG), 0, "the gateway lives");
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    rig_dispose(&rig);
}

Test(rdma, a_peer_that_is_closed_in_the_middle_of_reads_writes_nothing_any_more_over_tcp)
{
    close_in_the_middle("tcp,self");
}

Test(rdma, nor_over_shared_memory)
{
    close_in_the_middle("posix,sysv,cma,self");
}

static void kill_in_the_middle(const char *transports)
{
    pid_t child = begin_reads(transports);

    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    for (int i = 0; i < REQUESTS; i++)
        rig_until(&rig, &outcome[i].calls, 1);
    rig_settle(&rig);
    each_ended_once();
    for (int i = 0; i < REQUESTS; i++)
        cr_assert(outcome[i].status == STATUS_OK || outcome[i].status == STATUS_UNAVAILABLE);
    rig_dispose(&rig);
    cr_assert_eq(carrier_rdma.registered(), 0);
}

Test(rdma, a_gateway_that_is_killed_in_the_middle_of_reads_costs_each_one_error_at_most)
{
    kill_in_the_middle("tcp,self");
}

Test(rdma, and_the_same_over_shared_memory)
{
    kill_in_the_middle("posix,sysv,cma,self");
}

static void close_peer(void *ctx, status_t status)
{
    outcome_set(ctx, status);
    transfer_peer_close(rig.peer);
}

Test(rdma, a_read_that_timed_out_is_told_when_its_link_is_given_up_and_may_close_the_peer_then)
{
    const transfer_limits_t limits = {.stall_ns = 100 * NS_PER_MS};
    told_t told;
    pid_t child = start_gateway("tcp,self", &told);

    rig_init_pool(&rig, told.address, &limits);
    rig_link(&rig);
    kill(child, SIGSTOP);
    for (int i = 0; i < 2; i++) {
        iov[i] = (struct iovec){out[i], LEN};
        items[i] = item_of(told.handle, &iov[i]);
    }
    cr_assert_eq(transfer_fetch(rig.peer, &items[0], 1, 20 * NS_PER_MS, close_peer, &outcome[0], NULL),
                 STATUS_OK);
    cr_assert_eq(transfer_fetch(rig.peer, &items[1], 1, 0, outcome_set, &outcome[1], NULL), STATUS_OK);
    rig_until(&rig, &outcome[0].calls, 1);
    rig_until(&rig, &outcome[1].calls, 1);
    cr_assert_eq(outcome[0].status, STATUS_DEADLINE_EXCEEDED);
    cr_assert_eq(outcome[1].status, STATUS_UNAVAILABLE);
    rig_settle(&rig);
    cr_assert(outcome[0].calls == 1 && outcome[1].calls == 1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    rig_dispose(&rig);
}

Test(rdma, a_peer_that_is_closed_while_its_link_is_made_does_not_end_the_gateway)
{
    enum { STEPS = 40, ROUNDS = 3 };
    told_t told;
    pid_t child = start_gateway("tcp,self", &told);

    for (int round = 0; round < ROUNDS * STEPS; round++) {
        rig_init_pool(&rig, told.address, NULL);
        transfer_peer_connect(rig.peer);
        for (int step = 0; step < round % STEPS; step++)
            uv_run(&rig.loop, UV_RUN_NOWAIT);
        rig_dispose(&rig);
        cr_assert_eq(waitpid(child, NULL, WNOHANG), 0, "the gateway ended in round %d", round);
    }
    rig_init_pool(&rig, told.address, NULL);
    rig_link(&rig);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    rig_dispose(&rig);
}

/* ---- UCX's own connections break, the data plane's lives ---- */

static bool is_of_data_plane(int fd)
{
    const char *port = strrchr(transfer_owner_address(rig.owner), ':') + 1;
    struct sockaddr_in ends[2] = {{0}, {0}};
    socklen_t len[2] = {sizeof(ends[0]), sizeof(ends[1])};
    uint16_t wanted = htons((uint16_t)atoi(port));

    return getsockname(fd, (struct sockaddr *)&ends[0], &len[0]) == 0 &&
           getpeername(fd, (struct sockaddr *)&ends[1], &len[1]) == 0 &&
           (ends[0].sin_port == wanted || ends[1].sin_port == wanted);
}

/* Ends each TCP connection of this process but those of the data plane; returns how many. */
static int cut_connections(void)
{
    int cut = 0;

    for (int fd = 3; fd < 1024; fd++) {
        struct sockaddr_in peer;
        socklen_t len = sizeof(peer);
        if (getpeername(fd, (struct sockaddr *)&peer, &len) == 0 && peer.sin_family == AF_INET &&
            !is_of_data_plane(fd))
            cut += shutdown(fd, SHUT_RDWR) == 0;
    }
    return cut;
}

static transfer_stats_t pool_stats(void)
{
    transfer_stats_t stats;

    transfer_pool_stats(rig.pool, &stats);
    return stats;
}

Test(rdma, when_only_its_connections_break_reads_go_through_the_socket_and_later_by_rdma_again)
{
    enum { READS = 100 };
    const transfer_limits_t limits = {.link_again_ns = 1};
    int64_t end = clock_now_ns() + 20 * NS_PER_S;

    use("tcp,self");
    rig_init(&rig, NULL, &limits);
    for (int i = 0; i < READS; i++) {
        iov[i] = (struct iovec){out[i], LEN};
        items[i] = item_of(rig_publish(&rig, (size_t)i, LEN, NULL), &iov[i]);
        cr_assert_eq(transfer_fetch(rig.peer, &items[i], 1, 0, outcome_set, &outcome[i], NULL), STATUS_OK);
    }
    rig_until(&rig, &outcome[0].calls, 1);
    cr_assert_gt(cut_connections(), 0);
    for (int i = 0; i < READS; i++) {
        rig_until(&rig, &outcome[i].calls, 1);
        cr_assert(outcome[i].calls == 1 && outcome[i].status == STATUS_OK && items[i].status == STATUS_OK);
        cr_assert_eq(memcmp(out[i], rig.arena + i, LEN), 0);
    }
    cr_assert_gt(pool_stats().by[TRANSFER_BY_TCP].items, 0);
    cr_assert_eq(pool_stats().connects, 1, "the connection lives on");
    while (pool_stats().by[TRANSFER_BY_RDMA].connections == 0) {
        cr_assert_lt(clock_now_ns(), end, "not tried anew");
        outcome[0] = (outcome_t){0};
        cr_assert_eq(transfer_fetch(rig.peer, &items[0], 1, 0, outcome_set, &outcome[0], NULL), STATUS_OK);
        rig_until(&rig, &outcome[0].calls, 1);
    }
    rig_dispose(&rig);
    cr_assert_eq(carrier_rdma.registered(), 0, "nothing stays registered");
}

/* ---- peers that have it not, or another ---- */

static bool other_version;

void ucp_get_version(unsigned *major, unsigned *minor, unsigned *release)
{
    ((void (*)(unsigned *, unsigned *, unsigned *))dlsym(RTLD_NEXT, "ucp_get_version"))(major, minor,
                                                                                        release);
    *minor += other_version;
}

/* A fetch goes through the socket, and of the log's lines about that so many have the word. */
static void fetch_by_socket(pid_t child, const told_t *told, uint64_t fallbacks, const char *word, int lines)
{
    int64_t end = clock_now_ns() + 20 * NS_PER_S;
    FILE *log = tmpfile();
    char line[1024];

    rig_init_pool(&rig, told->address, NULL);
    cr_assert_geq(dup2(fileno(log), STDERR_FILENO), 0);
    log_init("test", LOG_INFO, LOG_FORMAT_TEXT);
    transfer_peer_connect(rig.peer);
    while (pool_stats().fallbacks < fallbacks) {
        cr_assert_lt(clock_now_ns(), end, "it was not told that it has to fall back");
        rig_settle(&rig);
    }
    iov[0] = (struct iovec){out[0], LEN};
    items[0] = item_of(told->handle, &iov[0]);
    items[0].len_bytes = LEN;
    cr_assert_eq(transfer_fetch(rig.peer, &items[0], 1, 0, outcome_set, &outcome[0], NULL), STATUS_OK);
    rig_until(&rig, &outcome[0].calls, 1);
    cr_assert(outcome[0].status == STATUS_OK && items[0].status == STATUS_OK);
    cr_assert_eq(pool_stats().by[TRANSFER_BY_TCP].items, 1);
    cr_assert_eq(pool_stats().fallbacks, fallbacks);
    rewind(log);
    while (fgets(line, sizeof(line), log))
        lines -= strstr(line, "data_peer_by_socket") && strstr(line, word);
    cr_assert_eq(lines, 0);
    fclose(log);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    rig_dispose(&rig);
    cr_assert_eq(carrier_rdma.registered(), 0, "nothing stays registered");
}

Test(rdma, a_gateway_with_another_version_of_ucx_is_read_from_through_the_socket)
{
    told_t told;

    other_version = true;
    pid_t child = start_gateway("tcp,self", &told);
    other_version = false;
    fetch_by_socket(child, &told, 1, "it says: UCX", 1);
}

Test(rdma, so_is_one_without_it)
{
    told_t told;

    use("tcp,self");
    setenv("FERMATA_TEST_TRANSPORT", "tcp", 1);
    pid_t child = fork_gateway(&told);
    setenv("FERMATA_TEST_TRANSPORT", "rdma", 1);
    fetch_by_socket(child, &told, 0, "", 0);
}

Test(rdma, and_one_with_it_by_a_worker_without)
{
    told_t told;
    pid_t child = start_gateway("tcp,self", &told);

    setenv("FERMATA_TEST_TRANSPORT", "tcp", 1);
    fetch_by_socket(child, &told, 0, "", 0);
}

Test(rdma, where_ucx_finds_nothing_to_work_with_both_say_so_and_use_the_socket)
{
    FILE *log = tmpfile();
    char line[1024];
    int lines = 0;

    use("no_such_transport");
    cr_assert_geq(dup2(fileno(log), STDERR_FILENO), 0);
    log_init("test", LOG_INFO, LOG_FORMAT_TEXT);
    transfer_pool_t *pool;
    uv_loop_t loop;
    uv_loop_init(&loop);
    const transfer_pool_options_t options = {.loop = &loop, .choice = TRANSFER_CHOOSE_RDMA};
    cr_assert_eq(transfer_pool_create(&options, &pool, NULL), STATUS_OK);
    transfer_pool_destroy(pool);
    uv_run(&loop, UV_RUN_DEFAULT);
    rewind(log);
    while (fgets(line, sizeof(line), log))
        lines += strstr(line, "data_carrier_closed") && strstr(line, "UCX does not start");
    cr_assert_eq(lines, 1);
    fclose(log);

    told_t told;
    pid_t child = start_gateway("no_such_transport", &told);
    fetch_by_socket(child, &told, 0, "", 0);
}

/* ---- nonsense ---- */

Test(rdma, another_version_and_garbage_are_refused)
{
    carrier_blob_t hello = {.len = 8}, answer;
    carrier_seat_t *seat;
    carrier_door_t *door;
    carrier_client_t *client;
    carrier_link_t *link;
    err_t err;
    static uint8_t arena[65536];
    static directory_entry_t directory[16];
    uv_loop_t loop;

    use("tcp,self");
    uv_loop_init(&loop);
    const carrier_door_options_t options = {
        .loop = &loop, .arena = {arena, sizeof(arena), -1}, .directory = {directory, sizeof(directory), -1}};
    cr_assert_eq(carrier_rdma.door_open(&options, &door, &err), STATUS_OK, "%s", err.text);
    wire_put64(hello.bytes, (uint64_t)UCX_MAGIC << 32 | (ucx_version() + 1));
    cr_assert_eq(carrier_rdma.seat_take(door, &hello, &answer, &seat, &err), STATUS_UNSUPPORTED);
    cr_assert(strstr(err.text, "UCX") && strstr(err.text, "there"), "%s", err.text);
    wire_put64(hello.bytes, 12345);
    cr_assert_eq(carrier_rdma.seat_take(door, &hello, &answer, &seat, &err), STATUS_INVALID_ARGUMENT);
    hello.len = 3;
    cr_assert_eq(carrier_rdma.seat_take(door, &hello, &answer, &seat, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(carrier_rdma.registered(), 2);

    cr_assert_eq(carrier_rdma.client_open(&loop, false, &client, &err), STATUS_OK);
    carrier_rdma.client_hello(client, &hello);
    cr_assert_eq(carrier_rdma.seat_take(door, &hello, &answer, &seat, &err), STATUS_OK);
    cr_assert_eq(carrier_rdma.registered(), 3);
    const carrier_watch_t watch = {0};
    const uint32_t whole = answer.len;
    for (answer.len = 0; answer.len < whole; answer.len++)
        cr_assert_eq(carrier_rdma.link_open(client, &answer, &watch, &link, &err), STATUS_INVALID_ARGUMENT,
                     "cut to %u", answer.len);
    answer.len = whole;
    wire_put64(answer.bytes + 8, UINT64_MAX); /* the length of the first piece */
    cr_assert_eq(carrier_rdma.link_open(client, &answer, &watch, &link, &err), STATUS_INVALID_ARGUMENT);
    carrier_rdma.seat_give_up(seat);
    carrier_rdma.client_close(client);
    carrier_rdma.door_close(door);
    cr_assert_eq(carrier_rdma.registered(), 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    cr_assert_eq(uv_loop_close(&loop), 0);
}
