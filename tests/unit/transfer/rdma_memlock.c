/*
 * RDMA at the limit of locked memory (ulimit -l). Hardware pins what is registered, and the kernel refuses what is beyond the limit; the
 * transports here pin nothing, so ucp_mem_map is replaced by one that counts against the limit as verbs do, and then calls the real one.
 */
#include "harness.h"

#include "base/clock.h"
#include "base/log.h"
#include "transfer/carrier.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

enum { MAPPED_MAX = 64, WINDOW = CARRIER_WINDOW_BYTES };

static struct {
    ucp_mem_h handle;
    size_t bytes;
} mapped[MAPPED_MAX];
static size_t locked_bytes;

ucs_status_t ucp_mem_map(ucp_context_h context, const ucp_mem_map_params_t *params, ucp_mem_h *handle)
{
    ucs_status_t (*real)(ucp_context_h, const ucp_mem_map_params_t *, ucp_mem_h *) =
        (ucs_status_t(*)(ucp_context_h, const ucp_mem_map_params_t *, ucp_mem_h *))dlsym(RTLD_NEXT,
                                                                                         "ucp_mem_map");
    struct rlimit limit;
    int i = 0;

    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (locked_bytes + params->length > limit.rlim_cur)
        return UCS_ERR_IO_ERROR;
    ucs_status_t status = real(context, params, handle);
    if (status != UCS_OK)
        return status;
    while (mapped[i].handle)
        cr_assert_lt(++i, MAPPED_MAX);
    mapped[i].handle = *handle;
    mapped[i].bytes = params->length;
    locked_bytes += params->length;
    return UCS_OK;
}

ucs_status_t ucp_mem_unmap(ucp_context_h context, ucp_mem_h handle)
{
    ucs_status_t (*real)(ucp_context_h, ucp_mem_h) =
        (ucs_status_t(*)(ucp_context_h, ucp_mem_h))dlsym(RTLD_NEXT, "ucp_mem_unmap");
    int i = 0;

    while (mapped[i].handle != handle)
        cr_assert_lt(++i, MAPPED_MAX, "it was never mapped");
    mapped[i].handle = NULL;
    locked_bytes -= mapped[i].bytes;
    return real(context, handle);
}

static rig_t rig;

static void allow(size_t bytes)
{
    struct rlimit limit;

    getrlimit(RLIMIT_MEMLOCK, &limit);
    limit.rlim_cur = bytes;
    cr_assert_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0, "the hard limit of this machine is %llu",
                 (unsigned long long)limit.rlim_max);
}

static void init(void)
{
    setenv("FERMATA_TEST_TRANSPORT", "rdma", 1);
    setenv("UCX_TLS", "tcp,self", 1);
}

static void fini(void)
{
    rig_dispose(&rig);
    cr_assert_eq(carrier_rdma.registered(), 0, "nothing stays registered");
    cr_assert_eq(locked_bytes, 0, "nothing stays locked");
}

TestSuite(rdma_memlock, .init = init);

enum { LEN = 5000 };

static void fetch_into(transfer_peer_t *peer, transfer_way_t way, uint8_t *out)
{
    struct iovec iov = {out, LEN};
    transfer_item_t item = {
        .handle = rig_publish(&rig, 100, LEN, NULL), .len_bytes = LEN, .iov = &iov, .iov_count = 1};
    transfer_stats_t before, after;
    outcome_t outcome = {0};

    transfer_pool_stats(rig.pool, &before);
    cr_assert_eq(transfer_fetch(peer, &item, 1, 0, outcome_set, &outcome, NULL), STATUS_OK);
    rig_until(&rig, &outcome.calls, 1);
    cr_assert(outcome.status == STATUS_OK && item.status == STATUS_OK);
    cr_assert_arr_eq(out, rig.arena + 100, LEN);
    transfer_pool_stats(rig.pool, &after);
    cr_assert_eq(after.by[way].items, before.by[way].items + 1, "it went by %s", transfer_way_name(way));
    transfer_unpublish(rig.owner, item.handle);
}

static void fetch_through(transfer_peer_t *peer, transfer_way_t way)
{
    uint8_t out[LEN];

    fetch_into(peer, way, out);
}

static uint64_t fallbacks(void)
{
    transfer_stats_t stats;

    transfer_pool_stats(rig.pool, &stats);
    return stats.fallbacks;
}

static bool fell_back(void)
{
    return fallbacks() > 0;
}

static bool window_is_gone(void)
{
    return carrier_rdma.registered() == 2;
}

static void settle_until(bool (*is)(void))
{
    int64_t end = clock_now_ns() + 20 * NS_PER_S;

    while (!is()) {
        cr_assert_lt(clock_now_ns(), end, "nothing happened in time");
        rig_settle(&rig);
    }
}

Test(rdma_memlock, an_arena_beyond_it_is_served_through_the_socket)
{
    carrier_memory_t memory;
    err_t err = {0};

    allow(ARENA_BYTES - 1);
    cr_assert_eq(carrier_rdma.memory_make(NULL, NULL, ARENA_BYTES, &memory, &err), STATUS_NO_MEMORY);
    cr_assert_not_null(strstr(err.text, "1 MiB cannot be registered (ulimit -l?)"), "%s", err.text);
    rig_init_apart(&rig, NULL, NULL);
    cr_assert_eq(carrier_rdma.registered(), 0);
    fetch_through(rig.peer, TRANSFER_BY_TCP);
    rig_settle(&rig);
    cr_assert_eq(fallbacks(), 0, "it was not even offered");
    fini();
}

Test(rdma_memlock, a_directory_beyond_it_too)
{
    allow(ARENA_BYTES);
    rig_init_apart(&rig, NULL, NULL);
    cr_assert_eq(carrier_rdma.registered(), 1, "the arena");
    fetch_through(rig.peer, TRANSFER_BY_TCP);
    rig_settle(&rig);
    cr_assert_eq(fallbacks(), 0, "it was not even offered");
    fini();
}

Test(rdma_memlock, a_window_beyond_it_costs_that_connection_its_link_until_another_ends)
{
    transfer_peer_t *second, *third;

    allow(8 << 20);
    rig_init_apart(&rig, NULL, NULL);
    allow(locked_bytes + WINDOW + WINDOW / 2);
    rig_link(&rig);
    fetch_through(rig.peer, TRANSFER_BY_RDMA);
    cr_assert_eq(transfer_peer_open(rig.pool, transfer_owner_address(rig.owner), 77, &second, NULL),
                 STATUS_OK);
    fetch_through(second, TRANSFER_BY_TCP);
    settle_until(fell_back);
    fetch_through(second, TRANSFER_BY_TCP);
    fetch_through(rig.peer, TRANSFER_BY_RDMA);
    cr_assert_eq(carrier_rdma.registered(), 3, "the arena, the directory and one window");

    transfer_peer_close(rig.peer);
    settle_until(window_is_gone);
    cr_assert_eq(transfer_peer_open(rig.pool, transfer_owner_address(rig.owner), 77, &third, NULL),
                 STATUS_OK);
    rig.peer = third;
    rig_link(&rig);
    fetch_through(third, TRANSFER_BY_RDMA);
    fini();
}

/* ---- buffers of a worker ---- */

static int lines_with(FILE *log, const char *word)
{
    char line[1024];
    int count = 0;

    rewind(log);
    while (fgets(line, sizeof(line), log))
        count += strstr(line, word) != NULL;
    return count;
}

Test(rdma_memlock, buffers_beyond_it_are_used_as_they_are_and_one_line_says_so)
{
    enum { BYTES = 1 << 20 };
    static uint8_t buffers[3][BYTES];
    transfer_stats_t stats;
    FILE *log = tmpfile();

    allow(8 << 20);
    rig_init_apart(&rig, NULL, NULL);
    rig_link(&rig);
    allow(locked_bytes + BYTES + BYTES / 2);
    cr_assert_geq(dup2(fileno(log), STDERR_FILENO), 0);
    log_init("test", LOG_WARN, LOG_FORMAT_TEXT);
    for (int i = 0; i < 3; i++)
        transfer_buffer_add(rig.pool, TRANSFER_IN_HOST, buffers[i], BYTES);
    cr_assert_eq(lines_with(log, "data_buffers_not_registered"), 1);
    cr_assert_eq(lines_with(log, "1 MiB cannot be registered (ulimit -l?)"), 1);
    transfer_pool_stats(rig.pool, &stats);
    cr_assert_eq(stats.registered_bytes, BYTES);
    cr_assert_eq(stats.refused_bytes, 2 * BYTES);
    for (int i = 0; i < 3; i++)
        fetch_into(rig.peer, TRANSFER_BY_RDMA, buffers[i]);
    transfer_buffer_drop(rig.pool, buffers[0]);
    transfer_buffer_drop(rig.pool, buffers[1]);
    transfer_buffer_add(rig.pool, TRANSFER_IN_HOST, buffers[0], BYTES);
    transfer_pool_stats(rig.pool, &stats);
    cr_assert(stats.registered_bytes == BYTES && stats.refused_bytes == BYTES,
              "what was given back can be had");
    fini();
    fclose(log);
}
