/*
 * A queue of UCX that is stuck: a process was killed within a message, and UCX says for ever that there is something to do. Such a moment
 * is not to be had at will, so the functions of UCX are replaced by some that say so, and read nothing, of the worker that a test names.
 */
#include "harness.h"

#include "base/clock.h"
#include "transfer/carrier.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <ucp/api/ucp.h>

enum { WORKERS_MAX = 16, LOOKS_MAX = 10000 };

static ucp_worker_h created[WORKERS_MAX], stuck;
static uint32_t created_count, looks;

ucs_status_t ucp_worker_create(ucp_context_h context, const ucp_worker_params_t *params, ucp_worker_h *worker)
{
    ucs_status_t (*real)(ucp_context_h, const ucp_worker_params_t *, ucp_worker_h *) = (ucs_status_t(*)(
        ucp_context_h, const ucp_worker_params_t *, ucp_worker_h *))dlsym(RTLD_NEXT, "ucp_worker_create");
    ucs_status_t status = real(context, params, worker);

    cr_assert_lt(created_count, WORKERS_MAX);
    created[created_count++] = *worker;
    return status;
}

void ucp_worker_destroy(ucp_worker_h worker)
{
    void (*real)(ucp_worker_h) = (void (*)(ucp_worker_h))dlsym(RTLD_NEXT, "ucp_worker_destroy");

    if (worker == stuck)
        stuck = NULL;
    real(worker);
}

ucs_status_t ucp_worker_arm(ucp_worker_h worker)
{
    ucs_status_t (*real)(ucp_worker_h) = (ucs_status_t(*)(ucp_worker_h))dlsym(RTLD_NEXT, "ucp_worker_arm");

    if (worker != stuck)
        return real(worker);
    looks++;
    return UCS_ERR_BUSY;
}

unsigned ucp_worker_progress(ucp_worker_h worker)
{
    unsigned (*real)(ucp_worker_h) = (unsigned (*)(ucp_worker_h))dlsym(RTLD_NEXT, "ucp_worker_progress");

    return worker == stuck ? 0 : real(worker);
}

static rig_t rig;

static void init(void)
{
    setenv("FERMATA_TEST_TRANSPORT", "rdma", 1);
    setenv("UCX_TLS", "posix,sysv,cma,self", 1);
}

TestSuite(rdma_stuck, .init = init);

static void fetch_by(transfer_way_t way)
{
    uint8_t out[5000];
    struct iovec iov = {out, sizeof(out)};
    transfer_item_t item = {.handle = rig_publish(&rig, 100, sizeof(out), NULL),
                            .len_bytes = sizeof(out),
                            .iov = &iov,
                            .iov_count = 1};
    transfer_stats_t before, after;
    outcome_t outcome = {0};

    transfer_pool_stats(rig.pool, &before);
    cr_assert_eq(transfer_fetch(rig.peer, &item, 1, 0, outcome_set, &outcome, NULL), STATUS_OK);
    rig_until(&rig, &outcome.calls, 1);
    cr_assert(outcome.status == STATUS_OK && item.status == STATUS_OK);
    cr_assert_arr_eq(out, rig.arena + 100, sizeof(out));
    transfer_pool_stats(rig.pool, &after);
    cr_assert_eq(after.by[way].items, before.by[way].items + 1, "it went by %s", transfer_way_name(way));
    transfer_unpublish(rig.owner, item.handle);
}

static void begin(void)
{
    const transfer_limits_t limits = {.link_again_ns = 1};

    rig_init_apart(&rig, NULL, &limits);
    rig_link(&rig);
    cr_assert_eq(created_count, 2, "the gateway's and the link's");
    fetch_by(TRANSFER_BY_RDMA);
}

static void end(void)
{
    rig_dispose(&rig);
    cr_assert_eq(carrier_rdma.registered(), 0, "nothing stays registered");
}

/* Until it was given up, and that without spinning: it is looked at once a millisecond, and as often at first as a turn does. */
static void until_given_up(void)
{
    int64_t end_ns = clock_now_ns() + 20 * NS_PER_S;

    while (stuck) {
        cr_assert_lt(clock_now_ns(), end_ns, "it was not given up in time");
        rig_settle(&rig);
    }
    cr_assert_lt(looks, LOOKS_MAX);
}

static bool are_linked(uint32_t count)
{
    transfer_stats_t stats;

    transfer_pool_stats(rig.pool, &stats);
    return stats.by[TRANSFER_BY_RDMA].connections == count;
}

Test(rdma_stuck, a_gateway_takes_a_new_queue_and_its_links_go_on)
{
    int64_t end_ns = clock_now_ns() + 40 * NS_PER_S;
    transfer_peer_t *second;

    begin();
    stuck = created[0];
    cr_assert_eq(transfer_peer_open(rig.pool, transfer_owner_address(rig.owner), 77, &second, NULL),
                 STATUS_OK);
    transfer_peer_connect(second); /* its link does not come about, and shows that the queue is stuck */
    while (created_count < 3)
        rig_settle(&rig);
    fetch_by(TRANSFER_BY_RDMA);
    cr_assert_not_null(stuck);
    until_given_up();
    cr_assert_eq(created_count, 4, "another in its place");
    fetch_by(TRANSFER_BY_RDMA);
    transfer_peer_close(second);
    cr_assert_eq(transfer_peer_open(rig.pool, transfer_owner_address(rig.owner), 77, &second, NULL),
                 STATUS_OK);
    transfer_peer_connect(second);
    while (!are_linked(2)) {
        cr_assert_lt(clock_now_ns(), end_ns, "no link in time");
        rig_settle(&rig);
    }
    end();
}

Test(rdma_stuck, a_link_is_given_up_and_made_anew)
{
    begin();
    stuck = created[1];
    fetch_by(TRANSFER_BY_RDMA);
    until_given_up();
    fetch_by(TRANSFER_BY_TCP);
    rig_link(&rig);
    fetch_by(TRANSFER_BY_RDMA);
    cr_assert_eq(created_count, 3, "another in its place");
    end();
}
