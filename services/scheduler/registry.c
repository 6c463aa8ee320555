#include "scheduler/registry.h"

#include "base/log.h"
#include "loop/loop.h"
#include "scheduler/catalogue.h"
#include "scheduler/commands.h"
#include "scheduler/deadline.h"
#include "scheduler/delay.h"
#include "scheduler/devices.h"
#include "scheduler/draining.h"
#include "scheduler/gateways.h"
#include "scheduler/placement.h"
#include "scheduler/service.h"
#include "scheduler/subcluster.h"
#include "scheduler/workers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTROL_VERSION_MIN = 1, CONTROL_VERSION_MAX = 1 };

static const char *const nonsense_names[NONSENSE_KINDS] = {
    [NONSENSE_GARBAGE] = "unreadable_message",
    [NONSENSE_EPOCH] = "stale_epoch",
    [NONSENSE_ARRAYS] = "unequal_arrays",
    [NONSENSE_TIME] = "impossible_time",
    [NONSENSE_DUPLICATE] = "duplicate_task",
    [NONSENSE_BATCH] = "unknown_batch",
    [NONSENSE_DEVICE] = "unknown_device",
    [NONSENSE_MODEL] = "bad_model",
    [NONSENSE_HELLO] = "bad_hello",
    [NONSENSE_FLOOD] = "flood",
};

void peer_complain(peer_t *peer, nonsense_t kind, const char *detail)
{
    uint32_t bit = UINT32_C(1) << kind;
    if (peer->complained & bit)
        return;
    peer->complained |= bit;
    log_warn("peer_nonsense", LOG_STR("peer", peer->name), LOG_STR("what", nonsense_names[kind]),
             LOG_STR("detail", detail));
}

int64_t peer_duration(peer_t *peer, int64_t value_ns)
{
    if (value_ns >= 0 && value_ns <= DURATION_MOST_NS)
        return value_ns;
    peer_complain(peer, NONSENSE_TIME, value_ns < 0 ? "negative duration" : "duration over an hour");
    return value_ns < 0 ? 0 : DURATION_MOST_NS;
}

void peer_close(peer_t *peer, rpc_code_t code, const char *text)
{
    if (peer->closing)
        return;
    peer->closing = true;
    rpc_stream_close(peer->stream, code, text);
}

/* That wait to be sent, but for a large frame among them. */
static size_t waiting_bytes(peer_t *peer)
{
    size_t pending = rpc_stream_pending_bytes(peer->stream);
    if (pending < peer->large_bytes)
        peer->large_bytes = 0; /* it has left */
    return pending - peer->large_bytes;
}

bool peer_takes_large(peer_t *peer)
{
    return waiting_bytes(peer) <= FRAMES_BYTES_MAX / 2 && peer->large_bytes == 0;
}

/* False: the peer takes no more. */
static bool send_bytes(peer_t *peer, rpc_bytes_t *bytes)
{
    size_t len = rpc_bytes_len(bytes), waiting = waiting_bytes(peer);
    bool large = len >= FRAMES_BYTES_MAX / 2 && peer->large_bytes == 0;
    if (waiting + (large ? 0 : len) > FRAMES_BYTES_MAX) {
        rpc_bytes_free(bytes);
        return false;
    }
    if (large)
        peer->large_bytes = len;
    return rpc_stream_send(peer->stream, bytes) != STATUS_NO_MEMORY;
}

void peer_send(peer_t *peer, const ProtobufCMessage *frame)
{
    if (peer->closing)
        return;
    if (send_bytes(peer, rpc_pack(frame)))
        return; /* sent, or closed already: its on_close is under way */
    log_warn("peer_stuck", LOG_STR("peer", peer->name),
             LOG_U64("pending_bytes", rpc_stream_pending_bytes(peer->stream)));
    peer->closing = true;
    rpc_stream_cancel(peer->stream);
}

/* ---- Opening and closing ---- */

void *peer_open(scheduler_t *s, rpc_stream_t *stream, size_t size_bytes, const char *kind)
{
    peer_t *peer = s->streams < 4 * PEERS_MAX && !s->stopping ? calloc(1, size_bytes) : NULL;
    rpc_stream_set_arg(stream, peer);
    if (peer == NULL) {
        rpc_stream_close(stream, RPC_UNAVAILABLE, s->stopping ? "the scheduler stops" : "too many streams");
        return NULL;
    }
    *peer = (peer_t){.scheduler = s, .stream = stream, .heard_ns = loop_now_ns(), .next = s->strangers};
    (void)snprintf(peer->name, sizeof peer->name, "%s@%s", kind, rpc_stream_peer(stream));
    if (s->strangers != NULL)
        s->strangers->prev = peer;
    s->strangers = peer;
    s->streams++;
    return peer;
}

static void no_stranger(peer_t *peer)
{
    scheduler_t *s = peer->scheduler;
    if (peer->prev != NULL)
        peer->prev->next = peer->next;
    else if (s->strangers == peer)
        s->strangers = peer->next;
    if (peer->next != NULL)
        peer->next->prev = peer->prev;
    peer->prev = peer->next = NULL;
}

void peer_closed(peer_t *peer)
{
    no_stranger(peer);
    peer->scheduler->streams--;
}

/* ---- Joining ---- */

static bool check_hello(peer_t *peer, const Control__Hello *hello, const char *kind)
{
    char text[160];
    if (hello->min_version > CONTROL_VERSION_MAX || hello->max_version < CONTROL_VERSION_MIN ||
        hello->min_version > hello->max_version) {
        (void)snprintf(text, sizeof text,
                       "control protocol versions do not meet: scheduler speaks %d to %d, %s speaks %u to %u",
                       CONTROL_VERSION_MIN, CONTROL_VERSION_MAX, kind, hello->min_version,
                       hello->max_version);
        log_warn("peer_version_mismatch", LOG_STR("peer", rpc_stream_peer(peer->stream)),
                 LOG_STR("reason", text));
        peer_close(peer, RPC_FAILED_PRECONDITION, text);
        return false;
    }
    if (hello->instance_id == 0) {
        peer_complain(peer, NONSENSE_HELLO, "instance_id is 0");
        peer_close(peer, RPC_INVALID_ARGUMENT, "hello.instance_id is 0");
        return false;
    }
    return true;
}

/* A process that reconnects before its old stream was found broken takes its own place. */
static void displace(void **table, uint64_t instance_id)
{
    for (uint32_t i = 0; i < PEERS_MAX; i++) {
        peer_t *other = table[i];
        if (other != NULL && other->instance_id == instance_id && !other->closing) {
            other->closing = true;
            rpc_stream_cancel(other->stream);
        }
    }
}

static void send_away(void **table)
{
    for (uint32_t i = 0; i < PEERS_MAX; i++)
        if (table[i] != NULL)
            peer_close(table[i], RPC_UNAVAILABLE, "the scheduler has taken a newer epoch");
}

/* The Hello tells the newest epoch that the peer has ever seen. Ours must be newer, or a clock that was set back would
 * make all peers deaf to us. Who had joined before joins again. */
static void outgrow_epoch(scheduler_t *s, uint64_t seen)
{
    if (seen <= s->epoch || seen >= UINT64_MAX / 2)
        return; /* older, or it has been here before, or nonsense */
    log_warn("epoch_outgrown", LOG_U64("seen", seen), LOG_U64("was", s->epoch));
    s->epoch = seen + 1;
    metrics_set(metrics_series(s->metrics, METRIC_SCHED_EPOCH), (double)s->epoch);
    send_away((void **)s->gateways);
    send_away((void **)s->workers);
}

bool peer_join(peer_t *peer, const Control__Hello *hello, void **table, const char *kind)
{
    if (!check_hello(peer, hello, kind))
        return false;
    displace(table, hello->instance_id);
    uint32_t index = 0;
    while (index < PEERS_MAX && table[index] != NULL)
        index++;
    if (index == PEERS_MAX) {
        peer_close(peer, RPC_RESOURCE_EXHAUSTED, "too many peers of this kind");
        return false;
    }
    no_stranger(peer);
    table[index] = peer;
    peer->index = index;
    peer->instance_id = hello->instance_id;
    peer->version = hello->max_version < CONTROL_VERSION_MAX ? hello->max_version : CONTROL_VERSION_MAX;
    (void)snprintf(peer->name, sizeof peer->name, "%s", hello->name[0] != '\0' ? hello->name : kind);
    peer->joined = true;
    peer->delay_ns = delay_bound_ns(&peer->rtt, loop_now_ns(), peer->scheduler->options.initial_delay_ns);
    peer->has_ping = true;
    log_info("peer_joined", LOG_STR("kind", kind), LOG_STR("name", peer->name), LOG_U64("index", index),
             LOG_STR("address", rpc_stream_peer(peer->stream)), LOG_U64("version", peer->version));
    return true;
}

Control__Welcome peer_welcome(const peer_t *peer)
{
    Control__Welcome welcome = CONTROL__WELCOME__INIT;
    welcome.version = peer->version;
    welcome.scheduler_id = peer->scheduler->scheduler_id;
    welcome.peer_index = peer->index;
    welcome.ping_interval_ns = peer->scheduler->options.ping_interval_ns;
    return welcome;
}

/* ---- Pings ---- */

static void ping_parts(peer_t *peer, const Control__Ping *ping, const Control__Pong *pong)
{
    int64_t now_ns = loop_now_ns();
    if (ping != NULL) {
        peer->has_pong = true;
        peer->pong_sent_ns = ping->sent_ns;
        peer->pong_heard_ns = now_ns;
        scheduler_touch(peer->scheduler);
    }
    if (pong == NULL)
        return;
    bool fits = pong->sent_ns <= (uint64_t)now_ns && pong->held_ns >= 0 &&
                pong->held_ns <= now_ns - (int64_t)pong->sent_ns &&
                now_ns - (int64_t)pong->sent_ns <= DURATION_MOST_NS;
    if (fits)
        delay_add(&peer->rtt, now_ns, (now_ns - (int64_t)pong->sent_ns - pong->held_ns) / 2);
    else
        peer_complain(peer, NONSENSE_TIME, "pong does not fit any ping");
}

/* ---- What every message begins with ---- */

void *peer_read(peer_t *peer, const ProtobufCMessageDescriptor *type, rpc_bytes_t *bytes)
{
    peer->heard_ns = loop_now_ns();
    void *frame = rpc_unpack(type, bytes, &peer->scheduler->arena);
    if (frame == NULL) {
        peer_complain(peer, NONSENSE_GARBAGE, "stream closed");
        peer_close(peer, RPC_INVALID_ARGUMENT, "unreadable message");
    }
    return frame;
}

/* False when the frame is of an older epoch. */
static bool check_epoch(peer_t *peer, uint64_t epoch)
{
    scheduler_t *s = peer->scheduler;
    if (!peer->joined)
        outgrow_epoch(s, epoch);
    if (!peer->joined || epoch == s->epoch)
        return true;
    peer_complain(peer, NONSENSE_EPOCH, "frame of another epoch ignored");
    return false;
}

bool peer_begin(peer_t *peer, const frame_head_t *head, void (*join)(peer_t *, const Control__Hello *))
{
    if (!check_epoch(peer, head->epoch))
        return false;
    if (peer->joined && head->hello != NULL)
        peer_complain(peer, NONSENSE_HELLO, "a second hello is ignored");
    else if (head->hello != NULL)
        join(peer, head->hello);
    else if (!peer->joined)
        peer_close(peer, RPC_INVALID_ARGUMENT, "the first message must carry hello");
    if (!peer->joined || peer->closing)
        return false;
    ping_parts(peer, head->ping, head->pong);
    return true;
}

/* While the scheduler itself stood still (a host that gives it no CPU, a long turn) it could hear nobody:
 * what was said then is still to be read, and does not count as silence. */
static void forgive(peer_t *peer, int64_t now_ns, int64_t stood_ns)
{
    peer->heard_ns += stood_ns;
    if (peer->heard_ns > now_ns)
        peer->heard_ns = now_ns;
}

static void tick_peer(peer_t *peer, int64_t now_ns, int64_t stood_ns)
{
    scheduler_t *s = peer->scheduler;
    forgive(peer, now_ns, stood_ns);
    if (now_ns - peer->heard_ns > s->options.peer_timeout_ns) {
        log_warn("peer_silent", LOG_STR("name", peer->name), LOG_MS("silent_ms", now_ns - peer->heard_ns));
        peer->closing = true;
        rpc_stream_cancel(peer->stream);
        return;
    }
    peer->delay_ns = delay_bound_ns(&peer->rtt, now_ns, s->options.initial_delay_ns);
    peer->has_ping = true;
}

/* Who connects and says nothing, or nothing that makes sense, is shown the door. */
static void tick_strangers(scheduler_t *s, int64_t now_ns, int64_t stood_ns)
{
    for (peer_t *peer = s->strangers; peer != NULL; peer = peer->next) {
        forgive(peer, now_ns, stood_ns);
        if (peer->closing || now_ns - peer->heard_ns <= s->options.peer_timeout_ns)
            continue;
        log_warn("peer_without_hello", LOG_STR("name", peer->name));
        peer_close(peer, RPC_DEADLINE_EXCEEDED, "no hello came");
    }
}

/* ---- Delays ---- */

/* Of the models that a sub-cluster serves. */
static int64_t shortest_slo_ns(const scheduler_t *s, const subcluster_t *sub)
{
    int64_t shortest_ns = INT64_MAX;
    for (uint32_t m = 0; m < s->model_count; m++)
        if (s->models[m]->home == sub && s->models[m]->slo_ns > 0 && s->models[m]->slo_ns < shortest_ns)
            shortest_ns = s->models[m]->slo_ns;
    return shortest_ns;
}

/* Of the workers that have a device in a sub-cluster. */
static int64_t slowest_way_ns(const subcluster_t *sub)
{
    int64_t slowest_ns = 0;
    for (uint32_t gpu = 0; gpu < sub->devices_max; gpu++) {
        const device_t *device = sub->devices[gpu];
        if (device != NULL && !device->worker->peer.closing && device->worker->peer.delay_ns > slowest_ns)
            slowest_ns = device->worker->peer.delay_ns;
    }
    return slowest_ns;
}

static void update_delays(scheduler_t *s, subcluster_t *sub, int64_t now_ns)
{
    int64_t initial_ns = s->options.initial_delay_ns, ctrl_ns = slowest_way_ns(sub);
    subcluster_update_delays(sub, now_ns, ctrl_ns > 0 ? ctrl_ns : initial_ns,
                             delay_bound_ns(&s->lateness, now_ns, initial_ns), shortest_slo_ns(s, sub),
                             initial_ns);
}

static uint32_t serving_devices(const subcluster_t *sub)
{
    uint32_t count = 0;
    for (uint32_t gpu = 0; gpu < sub->devices_max; gpu++)
        count += sub->devices[gpu] != NULL && device_serves(sub->devices[gpu]);
    return count;
}

void registry_tick(scheduler_t *s)
{
    int64_t now_ns = loop_now_ns();
    int64_t stood_ns = s->ticked_ns != 0 ? now_ns - s->ticked_ns - s->options.ping_interval_ns : 0;
    if (stood_ns < 0)
        stood_ns = 0;
    s->ticked_ns = now_ns;
    for (uint32_t i = 0; i < PEERS_MAX; i++) {
        if (s->gateways[i] != NULL && !s->gateways[i]->peer.closing)
            tick_peer(&s->gateways[i]->peer, now_ns, stood_ns);
        if (s->workers[i] == NULL || s->workers[i]->peer.closing)
            continue;
        tick_peer(&s->workers[i]->peer, now_ns, stood_ns);
        commands_tick(s->workers[i], now_ns);
    }
    tick_strangers(s, now_ns, stood_ns);
    for (uint32_t i = 0; i < s->subcluster_count; i++) {
        subcluster_t *sub = s->subclusters[i];
        update_delays(s, sub, now_ns);
        uint32_t devices = serving_devices(sub);
        subcluster_autoscale(sub, devices);
        shed_tick(&sub->shed, now_ns, devices, sub->sums.busy_ns);
    }
    catalogue_tick(s);
    placement_tick(s);
    deadlines_tick(s);
    draining_tick(s);
    scheduler_touch(s);
}
