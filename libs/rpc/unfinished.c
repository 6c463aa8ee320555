#include "rpc/unfinished.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "rpc/tcp_received.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static const int64_t LOOK_NS = 50 * NS_PER_MS; /* most messages are whole by then */
static const int64_t LOOK_STREAMS_NS = 200 * NS_PER_MS;
/* What HTTP/2 says beside messages, where a stream waits: for one that is whole (its frames' headers, and of a unary call those of the
 * request), in parts of its bytes, and in a look's time (pings). In parts of what was sent there (window updates). */
enum {
    BESIDE_STREAM_MESSAGE = 96,
    BESIDE_CALL = 1024,
    BESIDE_PART = 32,
    BESIDE_LOOK = 1024,
    BESIDE_SENT_PART = 256
};
enum {
    LOOK_SHARE = 10,           /* looking takes no more than a tenth of the time */
    LOOK_SHARE_STREAMS = 100,  /* and a hundredth while only streams wait, as they do all the time */
    STEP_BYTES = 64 << 10,     /* what a client must get on by, as in REST */
    CONNECTIONS_MAX = 1 << 16, /* more than a process may have descriptors, mostly */
    HOST_BYTES = INET6_ADDRSTRLEN,
};

struct rpc_connection {
    rpc_connection_t *next;
    uint64_t id;
    uint32_t round;
    uint32_t waiting, streams; /* unary calls and streams that wait */
    uint64_t received, sent;   /* when last looked at */
    uint64_t came, went;       /* since the look before */
    uint64_t taken, beside;    /* since the last look: messages that were whole, and what goes with them */
    uint64_t held;
    uint64_t step_at; /* received, when it last got on */
    int64_t step_ns, oldest_ns;
};

/* ---- who it is ---- */

static uint64_t id_of_text(const char *text)
{
    return hash_bytes(HASH_BEGIN, text, strlen(text));
}

static uint64_t id_of(rpc_waiting_t *waiting)
{
    char peer[RPC_PEER_BYTES];
    if (waiting->peer == 0) {
        rpc_peer_text(waiting->call, peer);
        waiting->peer = id_of_text(peer);
    }
    return waiting->peer;
}

/* As rpc_peer_text has it. */
static uint64_t id_of_address(const struct sockaddr_storage *address)
{
    char host[HOST_BYTES], peer[RPC_PEER_BYTES];
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
    bool is_v6 = address->ss_family == AF_INET6, mapped = is_v6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr);
    const void *bytes = mapped  ? (const void *)&v6->sin6_addr.s6_addr[12]
                        : is_v6 ? (const void *)&v6->sin6_addr
                                : (const void *)&v4->sin_addr;
    inet_ntop(is_v6 && !mapped ? AF_INET6 : AF_INET, bytes, host, sizeof host);
    snprintf(peer, sizeof peer, is_v6 && !mapped ? "[%s]:%u" : "%s:%u", host,
             ntohs(is_v6 ? v6->sin6_port : v4->sin_port));
    return id_of_text(peer);
}

static int port_of(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET)
        return ntohs(((const struct sockaddr_in *)address)->sin_port);
    return address->ss_family == AF_INET6 ? ntohs(((const struct sockaddr_in6 *)address)->sin6_port) : 0;
}

/* ---- samples ---- */

/* One that is not known yet has come since the last look; before the first, nothing is known of it. */
static rpc_connection_t *connection_of(rpc_unfinished_t *all, uint64_t id)
{
    rpc_connection_t *connection = idmap_get(&all->by_peer, id);
    if (connection || !(connection = calloc(1, sizeof *connection)))
        return connection;
    *connection = (rpc_connection_t){.next = all->connections, .id = id, .round = all->round};
    if (!idmap_put(&all->by_peer, id, connection)) {
        free(connection);
        return NULL;
    }
    all->connections = connection;
    return connection;
}

/* A descriptor of ours, if it is a connection to the port. */
static void sample(rpc_unfinished_t *all, int fd)
{
    struct sockaddr_storage own, peer;
    uint64_t received, sent;
    socklen_t own_len = sizeof own, peer_len = sizeof peer;
    if (getsockname(fd, (struct sockaddr *)&own, &own_len) != 0 || port_of(&own) != all->port ||
        getpeername(fd, (struct sockaddr *)&peer, &peer_len) != 0 || !tcp_counts(fd, &received, &sent))
        return;
    rpc_connection_t *connection = connection_of(all, id_of_address(&peer));
    if (!connection)
        return;
    bool known = all->round > 1; /* else what came before is not known to be unfinished */
    connection->came = known ? received - connection->received : 0;
    connection->went = known ? sent - connection->sent : 0;
    connection->round = all->round;
    connection->received = received;
    connection->sent = sent;
    connection->waiting = connection->streams = 0;
}

static void sample_all(rpc_unfinished_t *all)
{
    DIR *folder = opendir("/proc/self/fd");
    all->round++;
    for (const struct dirent *entry; folder && (entry = readdir(folder));)
        if (entry->d_name[0] != '.')
            sample(all, atoi(entry->d_name));
    if (folder)
        closedir(folder);
}

/* Those that were not seen in this round; of round 0: all. */
static void forget(rpc_unfinished_t *all)
{
    for (rpc_connection_t **at = &all->connections; *at;) {
        rpc_connection_t *connection = *at;
        if (all->round && connection->round == all->round) {
            at = &connection->next;
            continue;
        }
        *at = connection->next;
        idmap_remove(&all->by_peer, connection->id);
        free(connection);
    }
}

static void count_waiting(rpc_unfinished_t *all)
{
    for (rpc_waiting_t *w = all->waiting.next; w != &all->waiting; w = w->next) {
        rpc_connection_t *connection = idmap_get(&all->by_peer, id_of(w));
        if (connection && w->is_stream)
            connection->streams++;
        else if (connection && connection->waiting++ == 0)
            connection->oldest_ns = w->since_ns;
    }
}

static uint64_t less(uint64_t from, uint64_t what)
{
    return from > what ? from - what : 0;
}

/* What it holds, after what came and was taken since the last look. */
static void settle_one(rpc_connection_t *c)
{
    uint64_t beside = c->beside + c->taken / BESIDE_PART + c->went / BESIDE_SENT_PART + BESIDE_LOOK;
    c->held = less(c->held + c->came, c->taken);
    if (c->streams > 0)
        c->held = less(c->held, beside);
    else if (c->waiting == 0)
        c->held = 0;
    c->taken = c->beside = 0;
}

/* What they hold together; those without a waiting call hold nothing. */
static uint64_t settle(rpc_unfinished_t *all, int64_t now_ns)
{
    uint64_t bytes = 0;
    for (rpc_connection_t *c = all->connections; c; c = c->next) {
        bool on = c->received - c->step_at >= STEP_BYTES;
        settle_one(c);
        if (c->waiting == 0 || on) {
            c->step_at = c->received;
            c->step_ns = now_ns;
        }
        bytes += c->held;
    }
    return bytes;
}

/* ---- cutting ---- */

/* All that the connection waits for. */
static void cut(rpc_unfinished_t *all, const rpc_connection_t *connection, grpc_status_code code,
                const char *text, uint64_t *counter)
{
    char peer[RPC_PEER_BYTES] = "";
    for (rpc_waiting_t *w = all->waiting.next; w != &all->waiting; w = w->next) {
        if (w->cut || id_of(w) != connection->id)
            continue;
        rpc_peer_text(w->call, peer);
        w->cut = true;
        ++*counter;
        grpc_call_cancel_with_status(w->call, code, text, NULL);
    }
    if (peer[0])
        log_warn_limited("unfinished_cut", LOG_STR("peer", peer), LOG_U64("bytes", connection->held),
                         LOG_STR("reason", text));
}

static void cut_slow(rpc_unfinished_t *all, int64_t now_ns)
{
    for (const rpc_connection_t *c = all->connections; c; c = c->next) {
        int64_t from_ns = c->step_ns > c->oldest_ns ? c->step_ns : c->oldest_ns;
        if (c->waiting > 0 && now_ns - from_ns > all->limits.step_ns)
            cut(all, c, GRPC_STATUS_DEADLINE_EXCEEDED, "the rest of the message does not come",
                &all->stats.cut_slow);
    }
}

/* What is held after it. */
static uint64_t cut_most(rpc_unfinished_t *all, uint64_t bytes)
{
    while (bytes > (uint64_t)all->limits.bytes_max) {
        rpc_connection_t *most = all->connections;
        for (rpc_connection_t *c = all->connections; c; c = c->next)
            if (c->held > most->held)
                most = c;
        cut(all, most, GRPC_STATUS_RESOURCE_EXHAUSTED,
            "too much has been sent here of messages that are not whole", &all->stats.cut_full);
        bytes -= most->held;
        most->held = 0;
    }
    return bytes;
}

/* ---- looking ---- */

/* True: a call waits for long. */
static bool only_streams_wait(const rpc_unfinished_t *all)
{
    return all->unary == 0;
}

static bool is_slow(const rpc_unfinished_t *all, int64_t now_ns)
{
    return all->waiting.next != &all->waiting && now_ns - all->waiting.next->since_ns >= LOOK_NS;
}

static void look(rpc_unfinished_t *all, int64_t now_ns)
{
    if (!is_slow(all, now_ns)) {
        all->round = 0;
        all->stats.bytes = 0;
        forget(all);
        return;
    }
    sample_all(all);
    forget(all);
    count_waiting(all);
    uint64_t bytes = settle(all, now_ns);
    cut_slow(all, now_ns);
    all->stats.bytes = cut_most(all, bytes);
}

static void on_timer(rpc_timer_t *timer)
{
    rpc_unfinished_t *all = container_of(timer, rpc_unfinished_t, timer);
    pthread_mutex_lock(&all->lock);
    int64_t begun_ns = clock_now_ns();
    look(all, begun_ns);
    bool streams = only_streams_wait(all);
    int64_t now_ns = clock_now_ns(), least_ns = streams ? LOOK_STREAMS_NS : LOOK_NS;
    int64_t pause_ns = (now_ns - begun_ns) * (streams ? LOOK_SHARE_STREAMS : LOOK_SHARE);
    bool ends = all->waiting.next == &all->waiting;
    all->looking = !ends;
    if (!ends)
        rpc_timer_start(all->queue, &all->timer, now_ns + (pause_ns > least_ns ? pause_ns : least_ns));
    pthread_mutex_unlock(&all->lock);
    if (ends)
        all->on_look(all->arg, false);
}

void rpc_unfinished_wait(rpc_unfinished_t *all, rpc_waiting_t *waiting, grpc_call *call)
{
    if (all->limits.bytes_max == 0)
        return;
    waiting->call = call;
    waiting->since_ns = clock_now_ns();
    waiting->next = &all->waiting;
    pthread_mutex_lock(&all->lock);
    all->unary += !waiting->is_stream;
    waiting->prev = all->waiting.prev;
    waiting->prev->next = all->waiting.prev = waiting;
    bool begins = !all->looking;
    all->looking = true;
    if (begins) {
        all->on_look(all->arg, true);
        rpc_timer_start(all->queue, &all->timer, waiting->since_ns + LOOK_NS);
    }
    pthread_mutex_unlock(&all->lock);
}

void rpc_unfinished_take(rpc_unfinished_t *all, rpc_waiting_t *waiting, size_t bytes)
{
    if (!waiting->call)
        return;
    pthread_mutex_lock(&all->lock);
    waiting->prev->next = waiting->next;
    waiting->next->prev = waiting->prev;
    rpc_connection_t *connection = all->round ? connection_of(all, id_of(waiting)) : NULL;
    if (connection) {
        connection->taken += bytes;
        connection->beside += waiting->is_stream ? BESIDE_STREAM_MESSAGE : BESIDE_CALL;
    }
    all->unary -= !waiting->is_stream;
    waiting->call = NULL;
    pthread_mutex_unlock(&all->lock);
}

void rpc_unfinished_read(rpc_unfinished_t *all, rpc_unfinished_stats_t *stats)
{
    pthread_mutex_lock(&all->lock);
    *stats = all->stats;
    pthread_mutex_unlock(&all->lock);
}

/* ---- making and ending ---- */

status_t rpc_unfinished_init(rpc_unfinished_t *all, const rpc_unfinished_limits_t *limits,
                             void (*on_look)(void *arg, bool begins), void *arg, err_t *err)
{
    *all = (rpc_unfinished_t){.limits = *limits, .on_look = on_look, .arg = arg};
    all->waiting.next = all->waiting.prev = &all->waiting;
    all->timer.fire = on_timer;
    pthread_mutex_init(&all->lock, NULL);
    return limits->bytes_max == 0 ? STATUS_OK : idmap_init(&all->by_peer, CONNECTIONS_MAX, err);
}

void rpc_unfinished_start(rpc_unfinished_t *all, rpc_queue_t *queue, int port)
{
    all->queue = queue;
    all->port = port;
}

void rpc_unfinished_dispose(rpc_unfinished_t *all)
{
    all->round = 0;
    forget(all);
    if (all->limits.bytes_max > 0)
        idmap_dispose(&all->by_peer);
    pthread_mutex_destroy(&all->lock);
}
