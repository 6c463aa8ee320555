/* Joining and leaving: versions, epochs, catalogue, peer tables, restarts. */
#include "support.h"

#include <string.h>

#define READY CONTROL__MODEL_STATE__MODEL_STATE_READY
#define FAILED CONTROL__MODEL_STATE__MODEL_STATE_FAILED

Test(join, gateway_and_worker_hear_of_each_other)
{
    stage_t stage;
    fake_gateway_t gateway;
    fake_worker_t worker;
    stage_init(&stage);
    stage_start(&stage);
    worker_init(&worker, &stage.fakes, 7, 2);
    worker_connect(&worker);
    stage_until(&stage, worker.fake.welcomes == 1);
    worker_report(&worker, "net", READY, NS_PER_MS, NS_PER_MS);
    stage_until(&stage, worker.model_ids == 1);
    gateway_init(&gateway, &stage.fakes, 9);
    gateway_connect(&gateway);
    stage_until(&stage, gateway.fake.welcomes == 1 && gateway.models == 1);
    cr_expect(gateway.ready);
    cr_expect_eq(gateway.ready_workers, 1);
    cr_expect_eq(gateway.slo_ns, 100 * NS_PER_MS);
    cr_expect_eq(gateway.model_id, worker.model_id);
    cr_expect_gt(gateway.fake.epoch, 0);
    cr_expect_eq(gateway.fake.epoch, worker.fake.epoch);
    stage_until(&stage, worker.peer_count == 1);
    cr_expect_str_eq(worker.peer_address, "127.0.0.1:8003");

    fake_kill(&gateway.fake);
    stage_until(&stage, worker.peer_count == 0);
    fake_kill(&worker.fake);
    stage_dispose(&stage);
}

Test(join, versions_that_do_not_meet)
{
    stage_t stage;
    fake_gateway_t gateway;
    stage_init(&stage);
    stage_start(&stage);
    gateway_init(&gateway, &stage.fakes, 9);
    gateway.fake.hello.min_version = 2;
    gateway.fake.hello.max_version = 3;
    gateway_connect(&gateway);
    stage_until(&stage, gateway.fake.closes >= 1);
    cr_expect_eq(gateway.fake.code, RPC_FAILED_PRECONDITION);
    cr_expect(strstr(gateway.fake.text, "1 to 1") != NULL && strstr(gateway.fake.text, "2 to 3") != NULL,
              "%s", gateway.fake.text);
    cr_expect_eq(gateway.fake.welcomes, 0);
    fake_kill(&gateway.fake);
    stage_dispose(&stage);
}

Test(join, a_newer_peer_that_also_speaks_ours_is_welcome)
{
    stage_t stage;
    fake_gateway_t gateway;
    stage_init(&stage);
    stage_start(&stage);
    gateway_init(&gateway, &stage.fakes, 9);
    gateway.fake.hello.max_version = 5;
    gateway_connect(&gateway);
    stage_until(&stage, gateway.fake.welcomes == 1);
    fake_kill(&gateway.fake);
    stage_dispose(&stage);
}

Test(join, a_restarted_scheduler_has_a_newer_epoch_and_gets_everybody_back)
{
    stage_t stage;
    fake_gateway_t gateway;
    fake_worker_t worker;
    stage_init(&stage);
    stage_start(&stage);
    gateway_init(&gateway, &stage.fakes, 9);
    gateway_connect(&gateway);
    worker_init(&worker, &stage.fakes, 7, 1);
    worker_connect(&worker);
    stage_until(&stage, gateway.fake.welcomes == 1 && worker.fake.welcomes == 1);
    uint64_t before = gateway.fake.epoch;
    gateway.fake.hello_epoch = worker.fake.hello_epoch = before;
    stage_stop(&stage);
    stage_pass(&stage, 2 * NS_PER_MS); /* the epoch counts milliseconds */
    stage_start(&stage);
    stage_until(&stage, gateway.fake.welcomes == 2 && worker.fake.welcomes == 2);
    cr_expect_gt(gateway.fake.epoch, before);
    fake_kill(&gateway.fake);
    fake_kill(&worker.fake);
    stage_dispose(&stage);
}

Test(join, a_clock_set_back_does_not_make_the_epoch_older)
{
    stage_t stage;
    fake_gateway_t gateway;
    stage_init(&stage);
    stage.options.control.epoch = 1000;
    stage_start(&stage);
    fake_worker_t worker;
    worker_init(&worker, &stage.fakes, 7, 1);
    worker_connect(&worker);
    stage_until(&stage, worker.fake.welcomes == 1);
    cr_expect_eq(worker.fake.epoch, 1000);
    gateway_init(&gateway, &stage.fakes, 9);
    gateway.fake.hello_epoch = 5000; /* it has obeyed a scheduler of epoch 5000 */
    gateway_connect(&gateway);
    stage_until(&stage, gateway.fake.welcomes == 1 && worker.fake.welcomes == 2);
    cr_expect_gt(gateway.fake.epoch, 5000);
    cr_expect_eq(worker.fake.epoch, gateway.fake.epoch, "all obey the same");
    fake_kill(&worker.fake);
    fake_kill(&gateway.fake);
    stage_dispose(&stage);
}

Test(join, a_model_is_ready_while_one_worker_has_it)
{
    stage_t stage;
    fake_gateway_t gateway;
    fake_worker_t one, two;
    stage_init(&stage);
    stage_start(&stage);
    gateway_init(&gateway, &stage.fakes, 9);
    gateway_connect(&gateway);
    worker_init(&one, &stage.fakes, 1, 1);
    worker_init(&two, &stage.fakes, 2, 1);
    worker_connect(&one);
    worker_connect(&two);
    stage_until(&stage, one.fake.welcomes == 1 && two.fake.welcomes == 1);
    worker_report(&one, "net", FAILED, 0, 0);
    stage_until(&stage, gateway.models == 1);
    cr_expect(!gateway.ready);
    cr_expect(strstr(gateway.reason, "operator Foo of node bar") != NULL, "%s", gateway.reason);
    worker_report(&two, "net", READY, NS_PER_MS, 0);
    stage_until(&stage, gateway.ready && gateway.ready_workers == 1);
    worker_report(&one, "net", READY, NS_PER_MS, 0);
    stage_until(&stage, gateway.ready_workers == 2);
    uint32_t id = gateway.model_id;
    fake_kill(&two.fake);
    stage_until(&stage, gateway.ready_workers == 1);
    cr_expect(gateway.ready);
    fake_kill(&one.fake);
    stage_until(&stage, !gateway.ready);
    cr_expect(strstr(gateway.reason, "no worker") != NULL, "%s", gateway.reason);

    worker_init(&one, &stage.fakes, 3, 1);
    worker_connect(&one);
    stage_until(&stage, one.fake.welcomes == 1);
    worker_report(&one, "net", READY, NS_PER_MS, 0);
    stage_until(&stage, gateway.ready);
    cr_expect_eq(gateway.model_id, id, "a model keeps its id within an epoch");
    fake_kill(&one.fake);
    fake_kill(&gateway.fake);
    stage_dispose(&stage);
}

/* The second worker's model of the same name has another input. */
Test(join, a_conflicting_worker_is_left_out)
{
    stage_t stage;
    fake_gateway_t gateway;
    fake_worker_t one, two;
    stage_init(&stage);
    stage_start(&stage);
    gateway_init(&gateway, &stage.fakes, 9);
    gateway_connect(&gateway);
    worker_init(&one, &stage.fakes, 1, 1);
    worker_init(&two, &stage.fakes, 2, 1);
    worker_connect(&one);
    worker_connect(&two);
    stage_until(&stage, one.fake.welcomes == 1 && two.fake.welcomes == 1);
    worker_report(&one, "net", READY, NS_PER_MS, 0);
    stage_until(&stage, gateway.ready);
    int catalogues = gateway.catalogues;

    Control__Tensor input = CONTROL__TENSOR__INIT;
    Control__Tensor *inputs[] = {&input};
    Control__Latency latency = CONTROL__LATENCY__INIT;
    Control__ModelReport other = CONTROL__MODEL_REPORT__INIT;
    Control__ModelReport *reports[] = {&other};
    Control__WorkerToScheduler frame = CONTROL__WORKER_TO_SCHEDULER__INIT;
    input.name = (char *)"z";
    other.name = (char *)"net";
    other.version = 1;
    other.state = READY;
    other.n_inputs = 1;
    other.inputs = inputs;
    latency.beta_ns = NS_PER_MS;
    other.latency = &latency;
    frame.n_models = 1;
    frame.models = reports;
    worker_send(&two, &frame);
    stage_until(&stage, gateway.catalogues > catalogues);
    cr_expect(gateway.ready);
    cr_expect_eq(gateway.ready_workers, 1);

    two.auto_done = one.auto_done = true;
    gateway_send(&gateway, gateway.model_id, 1, 40, 10 * NS_PER_S);
    stage_until(&stage, one.rows_total == 40);
    cr_expect_eq(two.rows_total, 0);
    fake_kill(&one.fake); /* now the other one is the only one: its model is what the name means */
    stage_until(&stage, gateway.ready && gateway.ready_workers == 1 && gateway.slo_ns == 0);
    fake_kill(&two.fake);
    fake_kill(&gateway.fake);
    stage_dispose(&stage);
}

Test(join, a_reconnecting_process_takes_its_own_place)
{
    stage_t stage;
    fake_worker_t old, young;
    stage_init(&stage);
    stage_start(&stage);
    worker_init(&old, &stage.fakes, 7, 1);
    worker_connect(&old);
    stage_until(&stage, old.fake.welcomes == 1);
    worker_init(&young, &stage.fakes, 7, 1); /* the same instance over a second connection */
    worker_connect(&young);
    stage_until(&stage, young.fake.welcomes >= 1 && old.fake.closes >= 1);
    fake_kill(&old.fake);
    fake_kill(&young.fake);
    stage_dispose(&stage);
}

Test(join, a_silent_peer_counts_as_lost)
{
    stage_t stage;
    fake_worker_t worker;
    stage_init(&stage);
    stage.options.control.ping_interval_ns = 5 * NS_PER_MS;
    stage.options.control.peer_timeout_ns =
        500 * NS_PER_MS; /* a busy host may keep a thread waiting for some 50 ms */
    stage_start(&stage);
    worker_init(&worker, &stage.fakes, 7, 1);
    worker_connect(&worker);
    stage_until(&stage, worker.fake.pings >= 20);
    cr_expect_eq(worker.fake.closes, 0);
    worker.fake.silent = true;
    stage_until(&stage, worker.fake.closes >= 1);
    fake_kill(&worker.fake);
    stage_dispose(&stage);
}
