/*
 * A way past the socket that breaks while its TCP connection lives: what was under way on it is asked for again through the socket,
 * and it is tried anew after a while. The way is shared memory, whose jobs the test can hold back and whose link it can break.
 */
#include "harness.h"

#include "base/clock.h"
#include "transfer/carrier.h"
#include "transfer/pool.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static rig_t rig;

/* ---- shared memory that holds its jobs back and breaks when it is told to ---- */

static struct {
    carrier_ops_t ops;
    carrier_watch_t watch; /* of the link opened last */
    int opened;
    bool holds;
    TAILQ_HEAD(, carrier_job) held;
} brittle;

static status_t brittle_link_open(carrier_client_t *client, const carrier_blob_t *answer,
                                  const carrier_watch_t *watch, carrier_link_t **link, err_t *err)
{
    brittle.opened++;
    brittle.watch = *watch;
    return carrier_shm.link_open(client, answer, watch, link, err);
}

static void end_held(void)
{
    carrier_job_t *job;

    while ((job = TAILQ_FIRST(&brittle.held))) {
        TAILQ_REMOVE(&brittle.held, job, entry);
        job->done(job, STATUS_UNAVAILABLE);
    }
}

static void brittle_link_close(carrier_link_t *link)
{
    end_held();
    carrier_shm.link_close(link);
}

static void brittle_get(carrier_link_t *link, carrier_job_t *job)
{
    if (brittle.holds)
        TAILQ_INSERT_TAIL(&brittle.held, job, entry);
    else
        carrier_shm.get(link, job);
}

static void brittle_put(carrier_link_t *link, carrier_job_t *job)
{
    if (brittle.holds)
        TAILQ_INSERT_TAIL(&brittle.held, job, entry);
    else
        carrier_shm.put(link, job);
}

/* As carrier.h has it: all its jobs end first. */
static void break_link(void)
{
    brittle.holds = false;
    end_held();
    brittle.watch.changed(brittle.watch.ctx, STATUS_UNAVAILABLE, "the test breaks it");
}

static void start(const transfer_limits_t *limits)
{
    setenv("FERMATA_TEST_TRANSPORT", "shm", 1);
    rig_init_apart(&rig, NULL, limits);
    brittle.ops = carrier_shm;
    brittle.ops.link_open = brittle_link_open;
    brittle.ops.link_close = brittle_link_close;
    brittle.ops.get = brittle_get;
    brittle.ops.put = brittle_put;
    TAILQ_INIT(&brittle.held);
    for (client_t *client = rig.pool->clients; client->ops; client++) {
        if (client->ops == &carrier_shm)
            client->ops = &brittle.ops;
    }
    rig_link(&rig);
    cr_assert_eq(brittle.opened, 1);
}

static void fini(void)
{
    rig_dispose(&rig);
    cr_assert_eq(carrier_shm.registered(), 0, "nothing stays mapped");
}

TestSuite(relink, .fini = fini);

static transfer_stats_t pool_stats(void)
{
    transfer_stats_t stats;

    transfer_pool_stats(rig.pool, &stats);
    return stats;
}

enum { FETCHES = 3, LEN = 40000 };

typedef struct {
    uint8_t bytes[LEN];
    struct iovec iov;
    transfer_item_t item;
    outcome_t outcome;
} fetch_t;

static void fetch_begin(fetch_t *fetch, size_t at)
{
    *fetch = (fetch_t){0};
    fetch->iov = (struct iovec){fetch->bytes, LEN};
    fetch->item = (transfer_item_t){
        .handle = rig_publish(&rig, at, LEN, NULL), .len_bytes = LEN, .iov = &fetch->iov, .iov_count = 1};
    cr_assert_eq(transfer_fetch(rig.peer, &fetch->item, 1, 0, outcome_set, &fetch->outcome, NULL), STATUS_OK);
}

static void fetch_end(fetch_t *fetch, size_t at)
{
    rig_until(&rig, &fetch->outcome.calls, 1);
    cr_assert_eq(fetch->outcome.calls, 1);
    cr_assert_eq(fetch->outcome.status, STATUS_OK);
    cr_assert_eq(fetch->item.status, STATUS_OK);
    cr_assert_arr_eq(fetch->bytes, rig.arena + at, LEN);
    transfer_unpublish(rig.owner, fetch->item.handle);
}

static void fetch_one(void)
{
    static fetch_t fetch;

    fetch_begin(&fetch, 7);
    fetch_end(&fetch, 7);
}

static const transfer_limits_t never_again = {.link_again_ns = 3600 * NS_PER_S};

Test(relink, what_was_under_way_is_asked_for_again_through_the_socket)
{
    static fetch_t fetches[FETCHES];
    static uint8_t payload[LEN];
    struct iovec iov = {payload, LEN};
    outcome_t pushed = {0};

    start(&never_again);
    brittle.holds = true;
    for (int i = 0; i < FETCHES; i++)
        fetch_begin(&fetches[i], (size_t)i * 1000);
    transfer_result_t result = {.task_id = 5, .handle = fetches[0].item.handle, .iov = &iov, .iov_count = 1};
    memset(payload, 0x6b, LEN);
    cr_assert_eq(transfer_push(rig.peer, &result, 1, 0, outcome_set, &pushed, NULL), STATUS_OK);
    rig_settle(&rig);
    cr_assert_eq(fetches[0].outcome.calls, 0, "it is held back");

    break_link();
    for (int i = 0; i < FETCHES; i++)
        fetch_end(&fetches[i], (size_t)i * 1000);
    rig_until(&rig, &pushed.calls, 1);
    cr_assert_eq(pushed.status, STATUS_OK);
    cr_assert_eq(rig.done_count, 1, "told of once");
    cr_assert_arr_eq(rig.received[0].buffer, payload, LEN);
    transfer_stats_t stats = pool_stats();
    cr_assert_eq(stats.by[TRANSFER_BY_TCP].items, FETCHES);
    cr_assert_eq(stats.by[TRANSFER_BY_TCP].results, 1);
    cr_assert_eq(stats.by[TRANSFER_BY_SHM].connections, 0);
    cr_assert_eq(stats.by[TRANSFER_BY_TCP].connections, 1);
    cr_assert_eq(stats.fallbacks, 1);
    cr_assert_eq(stats.connects, 1, "the connection lives on");
}

Test(relink, it_is_not_tried_again_before_its_time)
{
    start(&never_again);
    fetch_one();
    break_link();
    for (int i = 0; i < 20; i++)
        fetch_one();
    cr_assert_eq(brittle.opened, 1);
    cr_assert_eq(pool_stats().by[TRANSFER_BY_SHM].items, 1);
    cr_assert_eq(pool_stats().by[TRANSFER_BY_TCP].items, 20);
}

Test(relink, it_is_tried_anew_after_it)
{
    start(&(transfer_limits_t){.link_again_ns = 1});
    for (int round = 1; round <= 3; round++) {
        break_link();
        cr_assert_eq(pool_stats().by[TRANSFER_BY_SHM].connections, 0);
        int64_t end = clock_now_ns() + 20 * NS_PER_S;
        while (pool_stats().by[TRANSFER_BY_SHM].connections == 0) {
            cr_assert_lt(clock_now_ns(), end, "not tried anew");
            fetch_one();
        }
        cr_assert_eq(brittle.opened, 1 + round);
        uint64_t before = pool_stats().by[TRANSFER_BY_SHM].items;
        fetch_one();
        cr_assert_eq(pool_stats().by[TRANSFER_BY_SHM].items, before + 1);
    }
    cr_assert_eq(pool_stats().connects, 1);
    cr_assert_eq(pool_stats().by[TRANSFER_BY_TCP].connections, 0, "the connection is counted once");
}

Test(relink, one_that_stalls_is_given_up_and_its_reads_go_through_the_socket)
{
    static fetch_t fetch;

    start(&(transfer_limits_t){.link_again_ns = never_again.link_again_ns, .stall_ns = NS_PER_S});
    brittle.holds = true;
    fetch_begin(&fetch, 0);
    fetch_end(&fetch, 0);
    cr_assert_eq(pool_stats().by[TRANSFER_BY_TCP].items, 1);
    cr_assert_eq(pool_stats().fallbacks, 1);
    cr_assert_eq(pool_stats().connects, 1);
}
