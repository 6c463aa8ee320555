#include "control_play.h"

#include <stdlib.h>
#include <string.h>

rig_t rig;
scheduler_t scheduler;

static void hear_batches(const Control__WorkerToScheduler *message)
{
    for (size_t i = 0; i < message->n_done; i++) {
        const Control__BatchDone *done = message->done[i];
        scheduler.batches[scheduler.done].id = done->batch_id;
        scheduler.batches[scheduler.done].status = done->status;
        scheduler.batches[scheduler.done].failed = done->n_failed_row;
        snprintf(scheduler.batches[scheduler.done].reason, 128, "%s", done->reason);
        scheduler.done++;
    }
}

static void on_worker(void *ctx, const Control__WorkerToScheduler *message)
{
    (void)ctx;
    for (size_t i = 0; i < message->n_devices; i++) {
        scheduler.draining += message->devices[i]->status == CONTROL__DEVICE_STATUS__DEVICE_DRAINING;
        scheduler.ready += message->devices[i]->status == CONTROL__DEVICE_STATUS__DEVICE_READY;
        if (message->devices[i]->status != CONTROL__DEVICE_STATUS__DEVICE_FAILED)
            continue;
        scheduler.failed++;
        scheduler.done_before_failed = scheduler.done;
    }
    for (size_t i = 0; i < message->n_models; i++) {
        scheduler.models++;
        scheduler.ready_models += message->models[i]->state == CONTROL__MODEL_STATE__MODEL_STATE_READY;
    }
    hear_batches(message);
}

static void set_flag(void *flag)
{
    *(bool *)flag = true;
}

static void on_device_lost(void *ctx, uint32_t device)
{
    (void)device;
    worker_control_report_devices(ctx);
}

void play_init(void)
{
    static model_t *models[1];
    err_t err;

    rig_init(&rig);
    memset(&scheduler, 0, sizeof(scheduler));
    scheduler.fake.loop = rig.loop;
    scheduler.fake.on_worker = on_worker;
    cr_assert_eq(
        rpc_runtime_create(&(rpc_runtime_options_t){.loop = rig.loop}, &scheduler.fake.runtime, &err),
        STATUS_OK);
    cr_assert_eq(
        rpc_runtime_create(&(rpc_runtime_options_t){.loop = rig.loop}, &scheduler.client_runtime, &err),
        STATUS_OK);
    fake_scheduler_listen(&scheduler.fake);
    models[0] = rig.model;
    scheduler.served = (served_t){.models = models, .count = 1, .capacity = 1};
    run_destroy(rig.run);
    worker_control_options_t options = {.loop = rig.loop,
                                        .rpc = scheduler.client_runtime,
                                        .scheduler = scheduler.fake.address,
                                        .name = "w",
                                        .instance_id = 5,
                                        .devices = &rig.devices,
                                        .served = &scheduler.served,
                                        .peers = rig.peers,
                                        .metrics = rig.metrics};
    cr_assert_eq(worker_control_create(&options, &scheduler.control, &err), STATUS_OK);
    run_options_t run = {.loop = rig.loop,
                         .devices = &rig.devices,
                         .peers = rig.peers,
                         .pool = rig.pool,
                         .metrics = rig.metrics,
                         .report = worker_control_report_batch,
                         .device_lost = on_device_lost,
                         .ctx = scheduler.control};
    cr_assert_eq(run_create(&run, &rig.run, &err), STATUS_OK);
}

void play_start(void)
{
    cr_assert_eq(worker_control_start(scheduler.control, rig.run, NULL, NULL), STATUS_OK);
}

void play_dispose(void)
{
    bool closed = false;

    worker_control_stop(scheduler.control, set_flag, &closed);
    rig_until(&rig, closed);
    if (scheduler.fake.server)
        fake_scheduler_unlisten(&scheduler.fake);
    run_destroy(rig.run);
    rig.run = NULL;
    worker_control_destroy(scheduler.control);
    rpc_runtime_destroy(scheduler.client_runtime);
    rpc_runtime_destroy(scheduler.fake.runtime);
    rig_dispose(&rig);
}

void say_grant(uint64_t epoch, uint64_t batch_id, uint32_t model)
{
    Control__SchedulerToWorker message = CONTROL__SCHEDULER_TO_WORKER__INIT;
    Control__ModelId id = CONTROL__MODEL_ID__INIT, *ids = &id;
    Control__PeerTable table = CONTROL__PEER_TABLE__INIT;
    Control__Peer peer = CONTROL__PEER__INIT, *peers = &peer;
    grant_t grant;
    Control__Grant *grants = &grant.grant;

    id.name = "m";
    id.version = 1;
    id.id = 42;
    peer.index = 10;
    peer.instance_id = 1000;
    peer.data_address = (char *)(uintptr_t)transfer_owner_address(rig.gateways[0].owner);
    table.n_peers = 1;
    table.peers = &peers;
    grant_init(&grant, batch_id, 0);
    grant_add(&rig, &grant, 10, 500 + batch_id, 3);
    grant.grant.model = model;
    message.n_model_ids = 1;
    message.model_ids = &ids;
    message.peers = &table;
    message.n_grants = 1;
    message.grants = &grants;
    fake_scheduler_tell_worker(&scheduler.fake, &message, epoch);
}
