#include "scheduler/gateways.h"

#include "base/container.h"
#include "base/log.h"
#include "loop/loop.h"
#include "scheduler/catalogue.h"
#include "scheduler/registry.h"
#include "scheduler/requests.h"
#include "scheduler/service.h"
#include "scheduler/submit.h"
#include "scheduler/workers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void on_open(rpc_stream_t *stream, void *arg)
{
    (void)peer_open(arg, stream, sizeof(gateway_t), "gateway");
}

/* ---- Joining ---- */

static void announce_peer(scheduler_t *s)
{
    for (uint32_t i = 0; i < PEERS_MAX; i++)
        if (s->workers[i] != NULL)
            s->workers[i]->peers_due = true;
    scheduler_touch(s);
}

static void send_welcome(gateway_t *gateway)
{
    Control__Welcome welcome = peer_welcome(&gateway->peer);
    Control__SchedulerToGateway frame = CONTROL__SCHEDULER_TO_GATEWAY__INIT;
    frame.epoch = gateway->peer.scheduler->epoch;
    frame.welcome = &welcome;
    peer_send(&gateway->peer, &frame.base);
}

static void join(peer_t *peer, const Control__Hello *hello)
{
    gateway_t *gateway = CONTAINER_OF(peer, gateway_t, peer);
    scheduler_t *s = peer->scheduler;
    size_t len = strlen(hello->data_address);
    if (len == 0 || len >= PEER_ADDRESS_BYTES) {
        peer_complain(&gateway->peer, NONSENSE_HELLO, "data_address is empty or too long");
        peer_close(&gateway->peer, RPC_INVALID_ARGUMENT, "hello.data_address is empty or too long");
        return;
    }
    if (!peer_join(&gateway->peer, hello, (void **)s->gateways, "gateway"))
        return;
    memcpy(gateway->data_address, hello->data_address, len + 1);
    if (idmap_init(&gateway->by_id, s->options.tasks_max, NULL) != STATUS_OK) {
        peer_close(&gateway->peer, RPC_RESOURCE_EXHAUSTED, "no memory for this gateway's tasks");
        return;
    }
    gateway->catalogue_due = true;
    send_welcome(gateway);
    announce_peer(s);
}

/* ---- Messages ---- */

static void handle(gateway_t *gateway, const Control__GatewayToScheduler *frame)
{
    const frame_head_t head = {frame->epoch, frame->hello, frame->ping, frame->pong};
    if (!peer_begin(&gateway->peer, &head, join))
        return;
    if (frame->tasks != NULL)
        submit_tasks(gateway, frame->tasks);
    if (frame->cancels != NULL)
        submit_cancels(gateway, frame->cancels);
    for (size_t i = 0; i < frame->n_model_requests; i++)
        request_submit(gateway, frame->model_requests[i]);
    if (frame->catalogue_seen > gateway->catalogue_seen)
        gateway->catalogue_seen = frame->catalogue_seen;
}

static void on_message(rpc_stream_t *stream, void *arg, rpc_bytes_t *bytes, bool *keep)
{
    (void)stream;
    (void)keep;
    gateway_t *gateway = arg;
    if (gateway == NULL || gateway->peer.closing)
        return;
    const Control__GatewayToScheduler *frame =
        peer_read(&gateway->peer, &control__gateway_to_scheduler__descriptor, bytes);
    if (frame != NULL)
        handle(gateway, frame);
    rpc_arena_reset(&gateway->peer.scheduler->arena);
}

static void on_close(rpc_stream_t *stream, void *arg, rpc_code_t code, const char *text)
{
    (void)stream;
    gateway_t *gateway = arg;
    if (gateway == NULL)
        return;
    scheduler_t *s = gateway->peer.scheduler;
    peer_closed(&gateway->peer);
    if (gateway->peer.joined) {
        log_info("peer_left", LOG_STR("kind", "gateway"), LOG_STR("name", gateway->peer.name),
                 LOG_STR("code", rpc_code_name(code)), LOG_STR("reason", text));
        submit_gateway_gone(gateway);
        requests_gateway_gone(gateway);
        s->gateways[gateway->peer.index] = NULL;
        idmap_dispose(&gateway->by_id);
        announce_peer(s);
    }
    free(gateway->drops.id);
    free(gateway->drops.status);
    free(gateway->drops.stage);
    free(gateway->drops.retry_after_ms);
    free(gateway);
}

const rpc_stream_ops_t gateway_stream_ops = {
    .on_open = on_open, .on_message = on_message, .on_close = on_close};

/* ---- What goes out ---- */

/* The arrays of drops grow to the largest turn ever and stay; tasks_max bounds them. */
static bool drops_grow(drops_t *drops)
{
    uint32_t capacity = drops->capacity == 0 ? 64 : drops->capacity * 2;
    uint64_t *id = realloc(drops->id, capacity * sizeof *id);
    drops->id = id != NULL ? id : drops->id;
    uint32_t **columns[] = {&drops->status, &drops->stage, &drops->retry_after_ms};
    bool ok = id != NULL;
    for (size_t i = 0; i < 3; i++) {
        uint32_t *column = realloc(*columns[i], capacity * sizeof *column);
        *columns[i] = column != NULL ? column : *columns[i];
        ok = ok && column != NULL;
    }
    if (ok)
        drops->capacity = capacity;
    return ok;
}

void gateway_drop(gateway_t *gateway, uint64_t id, status_t status, Control__Stage stage,
                  uint32_t retry_after_ms)
{
    drops_t *drops = &gateway->drops;
    if (drops->count == drops->capacity && !drops_grow(drops))
        return; /* without memory the gateway's own deadline timer answers */
    drops->id[drops->count] = id;
    drops->status[drops->count] = (uint32_t)status;
    drops->stage[drops->count] = (uint32_t)stage;
    drops->retry_after_ms[drops->count] = retry_after_ms;
    drops->count++;
    scheduler_touch(gateway->peer.scheduler);
}

/* A catalogue that is due, and the answers that come behind it, wait while the last one may still be on its way:
 * each may be large. True: they wait, until the next frame. */
static bool put_catalogue(gateway_t *gateway, Control__SchedulerToGateway *frame)
{
    scheduler_t *s = gateway->peer.scheduler;
    if (gateway->catalogue_due) {
        frame->catalogue = peer_takes_large(&gateway->peer) ? catalogue_message(s, &s->scratch) : NULL;
        if (frame->catalogue == NULL)
            return true;
    }
    requests_put(gateway, frame);
    return false;
}

static void flush(gateway_t *gateway)
{
    scheduler_t *s = gateway->peer.scheduler;
    peer_t *peer = &gateway->peer;
    Control__SchedulerToGateway frame = CONTROL__SCHEDULER_TO_GATEWAY__INIT;
    Control__Ping ping = CONTROL__PING__INIT;
    Control__Pong pong = CONTROL__PONG__INIT;
    Control__DropBatch drops = CONTROL__DROP_BATCH__INIT;
    int64_t now_ns = loop_now_ns();
    ping.sent_ns = (uint64_t)now_ns;
    pong.sent_ns = peer->pong_sent_ns;
    pong.held_ns = now_ns - peer->pong_heard_ns;
    drops.n_id = drops.n_status = drops.n_stage = drops.n_retry_after_ms = gateway->drops.count;
    drops.id = gateway->drops.id;
    drops.status = gateway->drops.status;
    drops.stage = gateway->drops.stage;
    drops.retry_after_ms = gateway->drops.retry_after_ms;
    frame.epoch = s->epoch;
    frame.ping = peer->has_ping ? &ping : NULL;
    frame.pong = peer->has_pong ? &pong : NULL;
    frame.drops = drops.n_id > 0 ? &drops : NULL;
    gateway->catalogue_due = put_catalogue(gateway, &frame);
    peer->has_ping = peer->has_pong = false;
    gateway->drops.count = 0;
    if (frame.ping != NULL || frame.pong != NULL || frame.drops != NULL || frame.catalogue != NULL ||
        frame.n_model_answers > 0)
        peer_send(peer, &frame.base);
    if (!gateway->catalogue_due)
        requests_sent(gateway);
}

void gateways_flush(scheduler_t *s)
{
    for (uint32_t i = 0; i < PEERS_MAX; i++) {
        gateway_t *gateway = s->gateways[i];
        if (gateway == NULL)
            continue;
        gateway->catalogue_due |= s->catalogue_changed;
        flush(gateway);
    }
    s->catalogue_changed = false;
}
