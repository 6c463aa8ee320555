#include "control/peers/registry.h"

#include "base/clock.h"
#include "control/models/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTROL_VERSION_MIN = 1, CONTROL_VERSION_MAX = 1 };

/* ---- Opening and closing ---- */

void *peer_open(peers_t *peers, void *link, const char *address, size_t size_bytes, const char *kind)
{
    turn_t *turn = peers->turn;
    peer_t *peer = peers->streams < 4 * PEERS_MAX && !turn->stopping ? calloc(1, size_bytes) : NULL;
    if (!peer) {
        turn->world.close(link, CLOSE_STOPPING, turn->stopping ? "the scheduler stops" : "too many streams");
        return NULL;
    }
    *peer = (peer_t){
        .turn = turn, .link = link, .address = address, .heard_ns = turn->now_ns, .next = peers->strangers};
    (void)snprintf(peer->name, sizeof peer->name, "%s@%s", kind, address);
    if (peers->strangers)
        peers->strangers->prev = peer;
    peers->strangers = peer;
    peers->streams++;
    return peer;
}

static void no_stranger(peers_t *peers, peer_t *peer)
{
    if (peer->prev)
        peer->prev->next = peer->next;
    else if (peers->strangers == peer)
        peers->strangers = peer->next;
    if (peer->next)
        peer->next->prev = peer->prev;
    peer->prev = peer->next = NULL;
}

void peer_closed(peers_t *peers, peer_t *peer)
{
    no_stranger(peers, peer);
    peers->streams--;
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
        note_warn(peer->turn, "peer_version_mismatch", LOG_STR("peer", peer->address),
                  LOG_STR("reason", text));
        peer_close(peer, CLOSE_VERSION, text);
        return false;
    }
    if (hello->instance_id == 0) {
        peer_complain(peer, NONSENSE_HELLO, "instance_id is 0");
        peer_close(peer, CLOSE_INVALID, "hello.instance_id is 0");
        return false;
    }
    return true;
}

/* Without its port. */
static bool are_of_one_host(const peer_t *a, const peer_t *b)
{
    const char *end_a = strrchr(a->address, ':'), *end_b = strrchr(b->address, ':');
    size_t len = end_a ? (size_t)(end_a - a->address) : strlen(a->address);
    return len == (end_b ? (size_t)(end_b - b->address) : strlen(b->address)) &&
           memcmp(a->address, b->address, len) == 0;
}

/* A process that reconnects before its old stream was found broken takes its own place; and nobody else's. */
static bool displace(void **table, const Control__Hello *hello)
{
    for (uint32_t i = 0; i < PEERS_MAX; i++) {
        peer_t *other = table[i];
        if (!other || other->instance_id != hello->instance_id || other->closing)
            continue;
        if (other->instance_key != hello->instance_key)
            return false;
        peer_cancel(other);
    }
    return true;
}

/* NULL, and the lowest free place; else why there is none for it. */
static const char *find_place(void **table, const peer_t *peer, uint32_t *place)
{
    uint32_t of_its_host = 0;
    *place = PEERS_MAX;
    for (uint32_t i = PEERS_MAX; i-- > 0;) {
        if (!table[i])
            *place = i;
        else
            of_its_host += are_of_one_host(table[i], peer);
    }
    if (*place == PEERS_MAX)
        return "too many peers of this kind";
    return of_its_host >= PEERS_PER_HOST_MAX ? "too many peers of this kind from one address" : NULL;
}

static void send_away(void **table, const peer_t *but)
{
    for (uint32_t i = 0; i < PEERS_MAX; i++)
        if (table[i] && table[i] != but)
            peer_close(table[i], CLOSE_STOPPING, "the scheduler has taken a newer epoch");
}

/* An epoch is the time at which its scheduler began, in ms. Clocks that are set are off by hours, and who says more wants us to
 * be deaf after the next start. */
static bool is_near_the_clock(const peers_t *peers, uint64_t seen)
{
    const uint64_t ahead_ms = UINT64_C(24) * 3600 * 1000;
    int64_t since_ns = peers->turn->now_ns - peers->began_ns;
    return seen <= peers->turn->options.epoch + (uint64_t)(since_ns / NS_PER_MS) + ahead_ms;
}

/* Each time all are sent away for a moment: peers of several schedulers may need it more than once, and not for ever. */
static bool may_raise(peers_t *peers)
{
    enum { RAISES_MAX = 4 };
    const int64_t within_ns = 60 * NS_PER_S;
    int64_t now_ns = peers->turn->now_ns;
    if (peers->raises == 0 || now_ns - peers->raised_ns > within_ns) {
        peers->raised_ns = now_ns;
        peers->raises = 0;
    }
    if (peers->raises == RAISES_MAX)
        return false;
    peers->raises++;
    return true;
}

static bool refuse_epoch(peer_t *peer, uint64_t seen, const char *text)
{
    note_warn(peer->turn, "epoch_refused", LOG_STR("peer", peer->name), LOG_STR("address", peer->address),
              LOG_U64("seen", seen), LOG_STR("reason", text));
    peer_close(peer, CLOSE_INVALID, text);
    return false;
}

bool peer_outgrow_epoch(peers_t *peers, peer_t *peer, uint64_t seen)
{
    turn_t *turn = peers->turn;
    if (seen <= turn->epoch)
        return true; /* older, or it has been here before */
    if (!is_near_the_clock(peers, seen))
        return refuse_epoch(
            peer, seen,
            "its epoch is more than a day ahead of this host's clock: set the clock, or start it anew");
    if (!may_raise(peers))
        return refuse_epoch(peer, seen, "the epoch was raised too often of late");
    note_warn(turn, "epoch_outgrown", LOG_U64("seen", seen), LOG_U64("was", turn->epoch));
    turn->epoch = seen + 1;
    metrics_set(metrics_series(turn->metrics, METRIC_SCHED_EPOCH), (double)turn->epoch);
    send_away((void **)peers->roster->gateways, peer);
    send_away((void **)peers->roster->workers, peer);
    return true;
}

bool peer_join(peers_t *peers, peer_t *peer, const Control__Hello *hello, void **table, const char *kind)
{
    if (!check_hello(peer, hello, kind))
        return false;
    if (!displace(table, hello)) {
        peer_complain(peer, NONSENSE_HELLO, "another process has this instance_id");
        peer_close(peer, CLOSE_INVALID, "hello.instance_id is in use by another process");
        return false;
    }
    uint32_t index;
    const char *full = find_place(table, peer, &index);
    if (full) {
        note_warn(peer->turn, "peer_refused", LOG_STR("kind", kind), LOG_STR("address", peer->address),
                  LOG_STR("reason", full));
        peer_close(peer, CLOSE_EXHAUSTED, full);
        return false;
    }
    no_stranger(peers, peer);
    table[index] = peer;
    peer->index = index;
    peer->instance_id = hello->instance_id;
    peer->instance_key = hello->instance_key;
    peer->version = hello->max_version < CONTROL_VERSION_MAX ? hello->max_version : CONTROL_VERSION_MAX;
    (void)snprintf(peer->name, sizeof peer->name, "%s", hello->name[0] != '\0' ? hello->name : kind);
    peer->joined = true;
    peer->delay = delay_bounds(&peer->rtt, peer->turn->now_ns, peer->turn->options.initial_delay_ns);
    peer->has_ping = true;
    note_info(peer->turn, "peer_joined", LOG_STR("kind", kind), LOG_STR("name", peer->name),
              LOG_U64("index", index), LOG_STR("address", peer->address), LOG_U64("version", peer->version));
    return true;
}

Control__Welcome peer_welcome(const peer_t *peer)
{
    Control__Welcome welcome = CONTROL__WELCOME__INIT;
    welcome.version = peer->version;
    welcome.scheduler_id = peer->turn->scheduler_id;
    welcome.peer_index = peer->index;
    welcome.ping_interval_ns = peer->turn->options.ping_interval_ns;
    return welcome;
}

/* ---- Pings ---- */

static void ping_parts(peer_t *peer, const Control__Ping *ping, const Control__Pong *pong)
{
    int64_t now_ns = peer->turn->now_ns;
    if (ping) {
        peer->has_pong = true;
        peer->pong_sent_ns = ping->sent_ns;
        peer->pong_heard_ns = now_ns;
        turn_touch(peer->turn);
    }
    if (!pong)
        return;
    bool fits = pong->sent_ns <= (uint64_t)now_ns && pong->held_ns >= 0 &&
                pong->held_ns <= now_ns - (int64_t)pong->sent_ns &&
                now_ns - (int64_t)pong->sent_ns <= DURATION_MOST_NS;
    if (fits && stall_excuses(&peer->turn->stall, (int64_t)pong->sent_ns))
        return;
    if (fits)
        delay_add(&peer->rtt, now_ns, (now_ns - (int64_t)pong->sent_ns - pong->held_ns) / 2);
    else
        peer_complain(peer, NONSENSE_TIME, "pong does not fit any ping");
}

/* ---- What every message begins with ---- */

static void hear(turn_t *turn)
{
    int64_t asked_ns = turn->stall.asked_ns;
    if (stall_heard(&turn->stall, turn->now_ns))
        note_stall(turn, turn->now_ns - asked_ns, "all peers");
}

void peer_unreadable(peer_t *peer)
{
    peer->heard_ns = peer->turn->now_ns;
    peer_complain(peer, NONSENSE_GARBAGE, "stream closed");
    peer_close(peer, CLOSE_INVALID, "unreadable message");
}

/* False when the frame is of an older epoch. */
static bool check_epoch(peer_t *peer, uint64_t epoch)
{
    if (!peer->joined || epoch == peer->turn->epoch)
        return true;
    peer_complain(peer, NONSENSE_EPOCH, "frame of another epoch ignored");
    return false;
}

bool peer_begin(peers_t *peers, peer_t *peer, const frame_head_t *head, peer_join_fn join)
{
    peer->heard_ns = peer->turn->now_ns;
    if (!check_epoch(peer, head->epoch))
        return false;
    if (peer->joined && head->hello)
        peer_complain(peer, NONSENSE_HELLO, "a second hello is ignored");
    else if (head->hello)
        join(peers, peer, head);
    else if (!peer->joined)
        peer_close(peer, CLOSE_INVALID, "the first message must carry hello");
    if (!peer->joined || peer->closing)
        return false;
    hear(peer->turn);
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
    const control_options_t *o = &peer->turn->options;
    forgive(peer, now_ns, stood_ns);
    if (now_ns - peer->heard_ns > o->peer_timeout_ns) {
        note_warn(peer->turn, "peer_silent", LOG_STR("name", peer->name),
                  LOG_MS("silent_ms", now_ns - peer->heard_ns));
        peer_cancel(peer);
        return;
    }
    peer->delay = delay_bounds(&peer->rtt, now_ns, o->initial_delay_ns);
    peer->has_ping = true;
}

/* Who connects and says nothing, or nothing that makes sense, is shown the door. */
static void tick_strangers(const peers_t *peers, int64_t now_ns, int64_t stood_ns)
{
    for (peer_t *peer = peers->strangers; peer; peer = peer->next) {
        forgive(peer, now_ns, stood_ns);
        if (peer->closing || now_ns - peer->heard_ns <= peers->turn->options.peer_timeout_ns)
            continue;
        note_warn(peers->turn, "peer_without_hello", LOG_STR("name", peer->name));
        peer_close(peer, CLOSE_SILENT, "no hello came");
    }
}

void registry_tick(peers_t *peers)
{
    roster_t *roster = peers->roster;
    int64_t now_ns = peers->turn->now_ns;
    int64_t stood_ns =
        peers->ticked_ns != 0 ? now_ns - peers->ticked_ns - peers->turn->options.ping_interval_ns : 0;
    if (stood_ns < 0)
        stood_ns = 0;
    peers->ticked_ns = now_ns;
    for (uint32_t i = 0; i < PEERS_MAX; i++) {
        if (roster->gateways[i] && !roster->gateways[i]->peer.closing)
            tick_peer(&roster->gateways[i]->peer, now_ns, stood_ns);
        if (!roster->workers[i] || roster->workers[i]->peer.closing)
            continue;
        tick_peer(&roster->workers[i]->peer, now_ns, stood_ns);
        commands_tick(roster->workers[i], now_ns);
    }
    tick_strangers(peers, now_ns, stood_ns);
    if (roster_gateways(roster) + roster_workers(roster) > 1) /* of one alone nobody knows what is slow */
        stall_asked(&peers->turn->stall, now_ns);
}

static void close_all(void **table)
{
    for (uint32_t i = 0; i < PEERS_MAX; i++)
        if (table[i])
            peer_close(table[i], CLOSE_STOPPING, "the scheduler stops");
}

void registry_stop(peers_t *peers)
{
    close_all((void **)peers->roster->gateways);
    close_all((void **)peers->roster->workers);
    for (peer_t *peer = peers->strangers; peer; peer = peer->next)
        peer_close(peer, CLOSE_STOPPING, "the scheduler stops");
}
