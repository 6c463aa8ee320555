#include "scheduler/workers.h"

#include "base/container.h"
#include "base/log.h"
#include "loop/loop.h"
#include "repeated.h"
#include "scheduler/batches.h"
#include "scheduler/catalogue.h"
#include "scheduler/commands.h"
#include "scheduler/devices.h"
#include "scheduler/gateways.h"
#include "scheduler/placement.h"
#include "scheduler/registry.h"
#include "scheduler/service.h"

#include <stdio.h>
#include <stdlib.h>

static void on_open(rpc_stream_t *stream, void *arg)
{
    worker_t *worker = peer_open(arg, stream, sizeof *worker, "worker");
    if (worker != NULL)
        worker->grants_tail = &worker->grants;
}

static void send_welcome(worker_t *worker)
{
    Control__Welcome welcome = peer_welcome(&worker->peer);
    Control__SchedulerToWorker frame = CONTROL__SCHEDULER_TO_WORKER__INIT;
    frame.epoch = worker->peer.scheduler->epoch;
    frame.welcome = &welcome;
    peer_send(&worker->peer, &frame.base);
}

static void join(peer_t *peer, const Control__Hello *hello)
{
    worker_t *worker = CONTAINER_OF(peer, worker_t, peer);
    if (!peer_join(&worker->peer, hello, (void **)worker->peer.scheduler->workers, "worker"))
        return;
    err_t err = {0};
    status_t status = devices_add(worker, hello, &err);
    if (status == STATUS_OK) {
        worker->peers_due = true;
        send_welcome(worker);
        return;
    }
    if (status == STATUS_INVALID_ARGUMENT)
        peer_complain(&worker->peer, NONSENSE_HELLO, err.text);
    peer_close(&worker->peer,
               status == STATUS_INVALID_ARGUMENT ? RPC_INVALID_ARGUMENT : RPC_RESOURCE_EXHAUSTED, err.text);
}

static void handle(worker_t *worker, const Control__WorkerToScheduler *frame)
{
    const frame_head_t head = {frame->epoch, frame->hello, frame->ping, frame->pong};
    if (!peer_begin(&worker->peer, &head, join))
        return;
    for (size_t i = 0; i < frame->n_models; i++)
        catalogue_report(worker, frame->models[i]);
    for (size_t i = 0; i < frame->n_devices; i++)
        device_state(worker, frame->devices[i]);
    if (frame->data_links != NULL) {
        worker->data_tcp = frame->data_links->tcp;
        worker->data_shm = frame->data_links->shm;
        worker->data_rdma = frame->data_links->rdma;
    }
    for (size_t i = 0; i < frame->n_done; i++)
        batch_done(worker, frame->done[i]);
    for (size_t i = 0; i < frame->n_commands_done; i++)
        command_answered(worker, frame->commands_done[i]);
}

static void on_message(rpc_stream_t *stream, void *arg, rpc_bytes_t *bytes, bool *keep)
{
    (void)stream;
    (void)keep;
    worker_t *worker = arg;
    if (worker == NULL || worker->peer.closing)
        return;
    const Control__WorkerToScheduler *frame =
        peer_read(&worker->peer, &control__worker_to_scheduler__descriptor, bytes);
    if (frame != NULL)
        handle(worker, frame);
    rpc_arena_reset(&worker->peer.scheduler->arena);
}

static void on_close(rpc_stream_t *stream, void *arg, rpc_code_t code, const char *text)
{
    (void)stream;
    worker_t *worker = arg;
    if (worker == NULL)
        return;
    scheduler_t *s = worker->peer.scheduler;
    peer_closed(&worker->peer);
    worker->peer.closing = true;
    if (worker->peer.joined) {
        log_info("peer_left", LOG_STR("kind", "worker"), LOG_STR("name", worker->peer.name),
                 LOG_STR("code", rpc_code_name(code)), LOG_STR("reason", text));
        devices_remove(worker);
        catalogue_worker_gone(worker);
        commands_worker_gone(worker);
        s->workers[worker->peer.index] = NULL;
        scheduler_touch(s);
    }
    free(worker);
}

const rpc_stream_ops_t worker_stream_ops = {
    .on_open = on_open, .on_message = on_message, .on_close = on_close};

void worker_drain(worker_t *worker, bool drain, bool leave)
{
    if (worker->draining == drain && worker->leaving >= leave)
        return;
    worker->draining = drain;
    worker->leaving |= leave;
    worker->drain_due = true;
    for (uint32_t i = 0; i < worker->device_count; i++)
        device_sync(&worker->devices[i]);
    placement_devices_changed(worker);
    log_info("worker_drain", LOG_STR("name", worker->peer.name), LOG_STR("drain", drain ? "yes" : "no"),
             LOG_STR("leave", worker->leaving ? "yes" : "no"));
}

/* ---- What goes out ---- */

static void *scratch_array(scheduler_t *s, size_t count, size_t element_bytes)
{
    return rpc_arena_alloc(&s->scratch, count * element_bytes);
}

static bool put_model_ids(worker_t *worker, Control__SchedulerToWorker *frame)
{
    scheduler_t *s = worker->peer.scheduler;
    frame->model_ids = repeated_make(&control__model_id__descriptor, s->model_count, &s->scratch.allocator);
    if (frame->model_ids == NULL)
        return false;
    for (uint32_t m = 0; m < s->model_count; m++) {
        instance_t *instance = s->models[m]->instances;
        while (instance != NULL && instance->worker != worker)
            instance = instance->next;
        if (instance == NULL)
            continue;
        Control__ModelId *id = frame->model_ids[frame->n_model_ids++];
        id->name = s->models[m]->name;
        id->version = s->models[m]->version;
        id->id = m;
    }
    return true;
}

static bool put_peers(worker_t *worker, Control__PeerTable *table)
{
    scheduler_t *s = worker->peer.scheduler;
    table->peers = repeated_make(&control__peer__descriptor, PEERS_MAX, &s->scratch.allocator);
    table->gone = scratch_array(s, PEERS_MAX, sizeof *table->gone);
    if (table->peers == NULL || table->gone == NULL)
        return false;
    for (uint32_t i = 0; i < PEERS_MAX; i++) {
        gateway_t *gateway = s->gateways[i];
        if (gateway == NULL) {
            table->gone[table->n_gone++] = i;
            continue;
        }
        Control__Peer *peer = table->peers[table->n_peers++];
        peer->index = i;
        peer->instance_id = gateway->peer.instance_id;
        peer->data_address = gateway->data_address;
        peer->name = gateway->peer.name;
    }
    return true;
}

static void put_grants(worker_t *worker, Control__SchedulerToWorker *frame)
{
    if (worker->grant_count == 0)
        return;
    frame->grants = scratch_array(worker->peer.scheduler, worker->grant_count, sizeof *frame->grants);
    for (grant_node_t *node = worker->grants; node != NULL && frame->grants != NULL; node = node->next)
        frame->grants[frame->n_grants++] = &node->grant;
}

static bool flush(worker_t *worker)
{
    scheduler_t *s = worker->peer.scheduler;
    peer_t *peer = &worker->peer;
    Control__SchedulerToWorker frame = CONTROL__SCHEDULER_TO_WORKER__INIT;
    Control__Ping ping = CONTROL__PING__INIT;
    Control__Pong pong = CONTROL__PONG__INIT;
    Control__PeerTable peers = CONTROL__PEER_TABLE__INIT;
    Control__Revoke revoke = CONTROL__REVOKE__INIT;
    Control__Drain drain = CONTROL__DRAIN__INIT;
    int64_t now_ns = loop_now_ns();
    ping.sent_ns = (uint64_t)now_ns;
    pong.sent_ns = peer->pong_sent_ns;
    pong.held_ns = now_ns - peer->pong_heard_ns;
    drain.drain = worker->draining;
    drain.exit = worker->leaving;
    revoke.batch_id = worker->revoked;
    revoke.n_batch_id = worker->revoked_count;
    frame.epoch = s->epoch;
    frame.ping = peer->has_ping ? &ping : NULL;
    frame.pong = peer->has_pong ? &pong : NULL;
    frame.revoke = worker->revoked_count > 0 ? &revoke : NULL;
    frame.drain = worker->drain_due ? &drain : NULL;
    if (worker->model_ids_due)
        worker->model_ids_due = !put_model_ids(worker, &frame);
    if (worker->peers_due && put_peers(worker, &peers)) {
        frame.peers = &peers;
        worker->peers_due = false;
    }
    put_grants(worker, &frame);
    commands_put(worker, &frame);
    bool anything = frame.ping != NULL || frame.pong != NULL || frame.revoke != NULL || frame.drain != NULL ||
                    frame.peers != NULL || frame.n_model_ids > 0 || frame.n_grants > 0 ||
                    frame.n_commands > 0;
    bool complete = frame.n_grants == worker->grant_count;
    peer->has_ping = peer->has_pong = worker->drain_due = false;
    worker->grants = NULL;
    worker->grants_tail = &worker->grants;
    worker->grant_count = worker->revoked_count = 0;
    if (anything)
        peer_send(peer, &frame.base);
    return complete;
}

void workers_flush(scheduler_t *s)
{
    for (uint32_t i = 0; i < PEERS_MAX; i++) {
        worker_t *worker = s->workers[i];
        if (worker == NULL || flush(worker))
            continue;
        /* Without memory for its grants the worker is as good as lost: its batches are queued again. */
        log_error("grants_lost", LOG_STR("worker", worker->peer.name));
        worker->peer.closing = true;
        rpc_stream_cancel(worker->peer.stream);
    }
}
