#include "control/peers/workers.h"

#include "base/container.h"
#include "control/models/catalogue.h"
#include "control/models/commands.h"
#include "control/models/placement.h"
#include "control/tasks/batches.h"
#include "control/tasks/devices.h"
#include "repeated.h"

#include <stdlib.h>

worker_t *worker_open(peers_t *peers, void *link, const char *address)
{
    worker_t *worker = peer_open(peers, link, address, sizeof *worker, "worker");
    if (worker)
        worker->grants_tail = &worker->grants;
    return worker;
}

static void send_welcome(worker_t *worker)
{
    Control__Welcome welcome = peer_welcome(&worker->peer);
    Control__SchedulerToWorker frame = CONTROL__SCHEDULER_TO_WORKER__INIT;
    frame.epoch = worker->peer.turn->epoch;
    frame.welcome = &welcome;
    peer_send(&worker->peer, &frame.base);
}

static void join(peers_t *peers, peer_t *peer, const frame_head_t *head)
{
    worker_t *worker = CONTAINER_OF(peer, worker_t, peer);
    if (!peer_join(peers, &worker->peer, head->hello, (void **)peers->roster->workers, "worker"))
        return;
    err_t err = {0};
    status_t status = devices_add(peers->tasks, worker, head->hello, &err);
    if (status == STATUS_OK) {
        if (!peer_outgrow_epoch(peers, peer, head->epoch))
            return;
        worker->peers_due = true;
        send_welcome(worker);
        return;
    }
    if (status == STATUS_INVALID_ARGUMENT)
        peer_complain(&worker->peer, NONSENSE_HELLO, err.text);
    peer_close(&worker->peer, status == STATUS_INVALID_ARGUMENT ? CLOSE_INVALID : CLOSE_EXHAUSTED, err.text);
}

void worker_said(peers_t *peers, worker_t *worker, const Control__WorkerToScheduler *frame)
{
    if (worker->peer.closing)
        return;
    const frame_head_t head = {frame->epoch, frame->hello, frame->ping, frame->pong};
    if (!peer_begin(peers, &worker->peer, &head, join))
        return;
    for (size_t i = 0; i < frame->n_models; i++)
        catalogue_report(peers->models, worker, frame->models[i]);
    for (size_t i = 0; i < frame->n_devices; i++)
        device_state(peers->tasks, worker, frame->devices[i]);
    if (frame->data_links) {
        worker->data_tcp = frame->data_links->tcp;
        worker->data_shm = frame->data_links->shm;
        worker->data_rdma = frame->data_links->rdma;
        worker->inputs_land = frame->data_links->inputs_land;
    }
    for (size_t i = 0; i < frame->n_done; i++) {
        device_t *device = batch_done(peers->tasks, worker, frame->done[i]);
        if (device)
            device_settle(peers->tasks, device);
    }
    for (size_t i = 0; i < frame->n_commands_done; i++)
        command_answered(worker, frame->commands_done[i]);
}

void worker_closed(peers_t *peers, worker_t *worker, const char *code, const char *text)
{
    peer_closed(peers, &worker->peer);
    worker->peer.closing = true;
    if (worker->peer.joined) {
        note_info(peers->turn, "peer_left", LOG_STR("kind", "worker"), LOG_STR("name", worker->peer.name),
                  LOG_STR("code", code), LOG_STR("reason", text));
        devices_remove(peers->tasks, worker);
        catalogue_worker_gone(peers->models, worker);
        commands_worker_gone(worker);
        peers->roster->workers[worker->peer.index] = NULL;
        turn_touch(peers->turn);
    }
    free(worker);
}

void worker_drain(peers_t *peers, worker_t *worker, bool drain, bool leave)
{
    if (worker->draining == drain && worker->leaving >= leave)
        return;
    worker->draining = drain;
    worker->leaving |= leave;
    worker->drain_due = true;
    for (uint32_t i = 0; i < worker->device_count; i++)
        device_sync(peers->tasks, &worker->devices[i]);
    placement_devices_changed(peers->models, worker);
    note_info(peers->turn, "worker_drain", LOG_STR("name", worker->peer.name),
              LOG_STR("drain", drain ? "yes" : "no"), LOG_STR("leave", worker->leaving ? "yes" : "no"));
}

/* ---- What goes out ---- */

static void *scratch_array(turn_t *turn, size_t count, size_t element_bytes)
{
    return pb_arena_alloc(&turn->scratch, count * element_bytes);
}

static bool put_model_ids(const models_t *models, const worker_t *worker, Control__SchedulerToWorker *frame)
{
    frame->model_ids =
        repeated_make(&control__model_id__descriptor, models->count, &models->turn->scratch.allocator);
    if (!frame->model_ids)
        return false;
    for (uint32_t m = 0; m < models->count; m++) {
        instance_t *instance = models->all[m]->instances;
        while (instance && instance->worker != worker)
            instance = instance->next;
        if (!instance)
            continue;
        Control__ModelId *id = frame->model_ids[frame->n_model_ids++];
        id->name = models->all[m]->name;
        id->version = models->all[m]->version;
        id->id = m;
    }
    return true;
}

static bool put_peers(const peers_t *peers, Control__PeerTable *table)
{
    turn_t *turn = peers->turn;
    table->peers = repeated_make(&control__peer__descriptor, PEERS_MAX, &turn->scratch.allocator);
    table->gone = scratch_array(turn, PEERS_MAX, sizeof *table->gone);
    if (!table->peers || !table->gone)
        return false;
    for (uint32_t i = 0; i < PEERS_MAX; i++) {
        gateway_t *gateway = peers->roster->gateways[i];
        if (!gateway) {
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
    frame->grants = scratch_array(worker->peer.turn, worker->grant_count, sizeof *frame->grants);
    for (grant_node_t *node = worker->grants; node && frame->grants; node = node->next)
        frame->grants[frame->n_grants++] = &node->grant;
}

static bool flush(const peers_t *peers, worker_t *worker)
{
    peer_t *peer = &worker->peer;
    Control__SchedulerToWorker frame = CONTROL__SCHEDULER_TO_WORKER__INIT;
    Control__Ping ping = CONTROL__PING__INIT;
    Control__Pong pong = CONTROL__PONG__INIT;
    Control__PeerTable table = CONTROL__PEER_TABLE__INIT;
    Control__Revoke revoke = CONTROL__REVOKE__INIT;
    Control__Drain drain = CONTROL__DRAIN__INIT;
    int64_t now_ns = peers->turn->now_ns;
    ping.sent_ns = (uint64_t)now_ns;
    pong.sent_ns = peer->pong_sent_ns;
    pong.held_ns = now_ns - peer->pong_heard_ns;
    drain.drain = worker->draining;
    drain.exit = worker->leaving;
    revoke.batch_id = worker->revoked;
    revoke.n_batch_id = worker->revoked_count;
    frame.epoch = peers->turn->epoch;
    frame.ping = peer->has_ping ? &ping : NULL;
    frame.pong = peer->has_pong ? &pong : NULL;
    frame.revoke = worker->revoked_count > 0 ? &revoke : NULL;
    frame.drain = worker->drain_due ? &drain : NULL;
    if (worker->model_ids_due)
        worker->model_ids_due = !put_model_ids(peers->models, worker, &frame);
    if (worker->peers_due && put_peers(peers, &table)) {
        frame.peers = &table;
        worker->peers_due = false;
    }
    put_grants(worker, &frame);
    commands_put(worker, &frame);
    bool anything = frame.ping || frame.pong || frame.revoke || frame.drain || frame.peers ||
                    frame.n_model_ids > 0 || frame.n_grants > 0 || frame.n_commands > 0;
    bool complete = frame.n_grants == worker->grant_count;
    peer->has_ping = peer->has_pong = worker->drain_due = false;
    worker->grants = NULL;
    worker->grants_tail = &worker->grants;
    worker->grant_count = worker->revoked_count = 0;
    if (anything)
        peer_send(peer, &frame.base);
    return complete;
}

void workers_flush(peers_t *peers)
{
    for (uint32_t i = 0; i < PEERS_MAX; i++) {
        worker_t *worker = peers->roster->workers[i];
        if (!worker || flush(peers, worker))
            continue;
        /* Without memory for its grants the worker is as good as lost: its batches are queued again. */
        note_error(peers->turn, "grants_lost", LOG_STR("worker", worker->peer.name));
        peer_cancel(&worker->peer);
    }
}
