/* A running batch is stopped for a larger one: what the worker is told, and what its answer does. */
#include "support.h"

#define READY CONTROL__MODEL_STATE__MODEL_STATE_READY

static stage_t stage;
static fake_gateway_t gateway;
static fake_worker_t worker;

enum { SLOW = 0, QUICK = 1 }; /* in the order in which they are reported */

/* Far longer than any machine needs for the rest of a test: when the quick batch is planned to end, the stopped one is granted
 * again, without a word of either. */
#define QUICK_NS (100 * NS_PER_S)
#define SLOW_NS (4 * QUICK_NS)

/* One device with a batch of one that runs for a long time, and eight tasks that cannot wait for it. */
static void stop_the_slow_one(const char *policy, int64_t slow_ns, int64_t quick_ns)
{
    stage_init(&stage);
    stage.options.control.policy = policy;
    stage_start(&stage);
    worker_init(&worker, &stage.fakes, 7, 1);
    worker.exit_points = 100;
    worker_connect(&worker);
    gateway_init(&gateway, &stage.fakes, 9);
    gateway_connect(&gateway);
    stage_until(&stage, worker.fake.welcomes == 1);
    worker_report(&worker, "slow", READY, slow_ns / 2, slow_ns / 2);
    worker_report(&worker, "quick", READY, 0, quick_ns);
    stage_until(&stage, gateway.models == 2 && worker.peer_count == 1);
    gateway_send(&gateway, SLOW, 1, 1, 5 * slow_ns);
    stage_until(&stage, worker.grant_count == 1);
    stage_pass(&stage, 20 * NS_PER_MS); /* so that it has begun, as the core sees it */
    gateway_send(&gateway, QUICK, 10, 8, slow_ns / 2);
    stage_until(&stage, worker.grant_count == 2);
    cr_assert_eq(worker.revokes, 1);
    cr_assert_eq(worker.grants[1].rows, 8);
}

static void leave(void)
{
    fake_kill(&gateway.fake);
    fake_kill(&worker.fake);
    stage_dispose(&stage);
}

Test(preempt, a_stopped_batch_is_granted_again)
{
    stop_the_slow_one("shepherd", SLOW_NS, QUICK_NS);
    worker_done(&worker, worker.grants[0].batch_id, 0, STATUS_CANCELLED);
    worker_done(&worker, worker.grants[1].batch_id, 0, STATUS_OK);
    stage_until(&stage, worker.grant_count == 3);
    cr_expect_eq(worker.grants[2].row[0].task_id, 1);
    worker_done(&worker, worker.grants[2].batch_id, 0, STATUS_OK);
    stage_barrier(&stage);
    cr_expect_eq(gateway.drop_count, 0);
    leave();
}

Test(preempt, the_default_policy_stops_it_too)
{
    /* Once its rates are known this policy holds the stopped task until frontrun. A batch of two takes two seconds longer than one,
     * so the grant may come so late. */
    stop_the_slow_one("fermata", 4 * NS_PER_S, NS_PER_MS);
    worker_done(&worker, worker.grants[0].batch_id, 0, STATUS_CANCELLED);
    worker_done(&worker, worker.grants[1].batch_id, 0, STATUS_OK);
    stage_until(&stage, worker.grant_count == 3);
    cr_expect_eq(worker.grants[2].row[0].task_id, 1);
    leave();
}

Test(preempt, a_batch_that_had_ended_does_not_run_again)
{
    stop_the_slow_one("shepherd", SLOW_NS, QUICK_NS);
    worker_done(&worker, worker.grants[0].batch_id, 0, STATUS_OK);
    worker_done(&worker, worker.grants[1].batch_id, 0, STATUS_OK);
    gateway_send(&gateway, QUICK, 20, 1, SLOW_NS);
    stage_until(&stage, worker.grant_count == 3);
    worker_done(&worker, worker.grants[2].batch_id, 0, STATUS_OK);
    stage_barrier(&stage);
    cr_expect_eq(worker.grant_count, 3, "task 1 ran twice");
    cr_expect_eq(worker.grants[2].row[0].task_id, 20);
    cr_expect_eq(gateway.drop_count, 0);
    leave();
}

Test(preempt, a_worker_that_dies_after_the_word_loses_nothing)
{
    stop_the_slow_one("shepherd", SLOW_NS, QUICK_NS);
    static fake_worker_t second;
    worker_init(&second, &stage.fakes, 8, 1);
    second.auto_done = true;
    worker_connect(&second);
    stage_until(&stage, second.fake.welcomes == 1);
    fake_kill(&worker.fake);
    worker_report(&second, "slow", READY, NS_PER_MS, 0);
    worker_report(&second, "quick", READY, NS_PER_MS, 0);
    stage_until(&stage, worker_has_task(&second, 1));
    fake_kill(&gateway.fake);
    fake_kill(&second.fake);
    stage_dispose(&stage);
}
