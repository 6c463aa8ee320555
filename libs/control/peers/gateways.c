#include "control/peers/gateways.h"

#include "base/container.h"
#include "control/models/announce.h"
#include "control/peers/requests.h"
#include "control/tasks/foretell.h"
#include "control/tasks/prove.h"
#include "control/tasks/submit.h"

#include <stdlib.h>
#include <string.h>

gateway_t *gateway_open(peers_t *peers, void *link, const char *address)
{
    return peer_open(peers, link, address, sizeof(gateway_t), "gateway");
}

/* ---- Joining ---- */

static void announce_peer(const peers_t *peers)
{
    for (uint32_t i = 0; i < PEERS_MAX; i++)
        if (peers->roster->workers[i])
            peers->roster->workers[i]->peers_due = true;
    turn_touch(peers->turn);
}

static void send_welcome(gateway_t *gateway)
{
    Control__Welcome welcome = peer_welcome(&gateway->peer);
    Control__SchedulerToGateway frame = CONTROL__SCHEDULER_TO_GATEWAY__INIT;
    frame.epoch = gateway->peer.turn->epoch;
    frame.welcome = &welcome;
    peer_send(&gateway->peer, &frame.base);
}

static void join(peers_t *peers, peer_t *peer, const frame_head_t *head)
{
    const Control__Hello *hello = head->hello;
    gateway_t *gateway = CONTAINER_OF(peer, gateway_t, peer);
    size_t len = strlen(hello->data_address);
    if (len == 0 || len >= PEER_ADDRESS_BYTES) {
        peer_complain(&gateway->peer, NONSENSE_HELLO, "data_address is empty or too long");
        peer_close(&gateway->peer, CLOSE_INVALID, "hello.data_address is empty or too long");
        return;
    }
    if (!peer_join(peers, &gateway->peer, hello, (void **)peers->roster->gateways, "gateway"))
        return;
    memcpy(gateway->data_address, hello->data_address, len + 1);
    if (idmap_init(&gateway->by_id, peers->turn->options.tasks_max, NULL) != STATUS_OK) {
        peer_close(&gateway->peer, CLOSE_EXHAUSTED, "no memory for this gateway's tasks");
        return;
    }
    if (!peer_outgrow_epoch(peers, peer, head->epoch))
        return;
    gateway->catalogue_due = true;
    send_welcome(gateway);
    announce_peer(peers);
}

/* ---- Messages ---- */

void gateway_said(peers_t *peers, gateway_t *gateway, const Control__GatewayToScheduler *frame)
{
    if (gateway->peer.closing)
        return;
    const frame_head_t head = {frame->epoch, frame->hello, frame->ping, frame->pong};
    if (!peer_begin(peers, &gateway->peer, &head, join))
        return;
    if (frame->tasks)
        submit_tasks(peers->tasks, gateway, frame->tasks);
    if (frame->cancels)
        submit_cancels(peers->tasks, gateway, frame->cancels);
    if (frame->n_arrived > 0)
        proofs_came(peers->tasks, gateway, frame->arrived, frame->n_arrived);
    for (size_t i = 0; i < frame->n_model_requests; i++)
        request_submit(peers, gateway, frame->model_requests[i]);
    if (frame->refused)
        foretell_refused(peers->tasks, gateway, frame->refused);
    if (frame->catalogue_seen > gateway->catalogue_seen) {
        gateway->catalogue_seen = frame->catalogue_seen;
        turn_touch(peers->turn); /* an answer may wait for it */
    }
}

void gateway_closed(peers_t *peers, gateway_t *gateway, const char *code, const char *text)
{
    peer_closed(peers, &gateway->peer);
    if (gateway->peer.joined) {
        note_info(peers->turn, "peer_left", LOG_STR("kind", "gateway"), LOG_STR("name", gateway->peer.name),
                  LOG_STR("code", code), LOG_STR("reason", text));
        submit_gateway_gone(peers->tasks, gateway);
        requests_gateway_gone(peers, gateway);
        peers->roster->gateways[gateway->peer.index] = NULL;
        idmap_dispose(&gateway->by_id);
        announce_peer(peers);
    }
    gateway_dispose_words(gateway);
    free(gateway);
}

/* ---- What goes out ---- */

/* A catalogue that is due, and the answers that come behind it, wait while the last one may still be on its way:
 * each may be large. True: they wait, until the next frame. */
static bool put_catalogue(const peers_t *peers, gateway_t *gateway, Control__SchedulerToGateway *frame)
{
    turn_t *turn = peers->turn;
    if (gateway->catalogue_due) {
        frame->catalogue = turn->world.takes_large(gateway->peer.link)
                               ? announce_catalogue(peers->models, &turn->scratch)
                               : NULL;
        if (!frame->catalogue)
            return true;
    }
    requests_put(peers, gateway, frame);
    return false;
}

/* estimate: that is due for all, or NULL. */
static void flush(const peers_t *peers, gateway_t *gateway, Control__Estimate *estimate)
{
    peer_t *peer = &gateway->peer;
    Control__SchedulerToGateway frame = CONTROL__SCHEDULER_TO_GATEWAY__INIT;
    Control__Ping ping = CONTROL__PING__INIT;
    Control__Pong pong = CONTROL__PONG__INIT;
    Control__DropBatch drops = CONTROL__DROP_BATCH__INIT;
    int64_t now_ns = peers->turn->now_ns;
    ping.sent_ns = (uint64_t)now_ns;
    pong.sent_ns = peer->pong_sent_ns;
    pong.held_ns = now_ns - peer->pong_heard_ns;
    drops.n_id = drops.n_status = drops.n_stage = drops.n_retry_after_ms = gateway->drops.count;
    drops.id = gateway->drops.id;
    drops.status = gateway->drops.status;
    drops.stage = gateway->drops.stage;
    drops.retry_after_ms = gateway->drops.retry_after_ms;
    frame.epoch = peers->turn->epoch;
    frame.ping = peer->has_ping ? &ping : NULL;
    frame.pong = peer->has_pong ? &pong : NULL;
    frame.drops = drops.n_id > 0 ? &drops : NULL;
    frame.n_doubted = gateway->doubt_count;
    frame.doubted = gateway->doubts;
    frame.estimate = estimate;
    gateway->estimates += estimate ? 1 : 0;
    gateway->catalogue_due = put_catalogue(peers, gateway, &frame);
    peer->has_ping = peer->has_pong = false;
    gateway->drops.count = gateway->doubt_count = 0;
    if (frame.ping || frame.pong || frame.drops || frame.n_doubted > 0 || frame.catalogue ||
        frame.n_model_answers > 0 || frame.estimate)
        peer_send(peer, &frame.base);
    if (!gateway->catalogue_due)
        requests_sent(gateway);
}

void gateways_flush(peers_t *peers)
{
    Control__Estimate *estimate = foretell_message(peers->tasks, &peers->turn->scratch);
    for (uint32_t i = 0; i < PEERS_MAX; i++) {
        gateway_t *gateway = peers->roster->gateways[i];
        if (!gateway)
            continue;
        gateway->catalogue_due |= peers->models->changed;
        flush(peers, gateway, estimate);
    }
    peers->models->changed = false;
}
