#include "transfer/conn.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    BUF_BYTES = 16 << 10, /* headers and records of an ordinary frame; bounds what is copied of a payload */
    BUF_AHEAD_BYTES =
        256, /* read behind a large payload: the next header and its records, and little to be copied */
    BUF_KEPT_MAX = 1 << 16, /* grown beyond by an unusual frame: shrinks again */
    IOV_BATCH = 64,         /* iovs of one system call: a batch of 32 rows with two inputs */
    EVENT_BYTES =
        4 << 20, /* read or written at one event, so that one connection does not starve the others */
    LOWAT_BYTES = 1 << 16,      /* no more than must come in a stall time */
    CONN_STALL_BYTES = 1 << 16, /* in each stall time */
    REASON_BYTES = 256,
};

static void conn_on_poll(uv_poll_t *poll, int status, int events);

/* TLS has taken bytes that the socket has not. */
static bool conn_holds(const conn_t *conn)
{
    return conn->tls && tls_stream_holds(conn->tls);
}

static void conn_update_events(conn_t *conn)
{
    int events = 0;

    if (conn->closed)
        return;
    bool sends = conn_holds(conn) || (!conn->securing && !TAILQ_EMPTY(&conn->tx.queue));
    if (conn->connecting)
        events = UV_WRITABLE;
    else if (conn->broken)
        events = UV_READABLE;
    else
        events = (conn->paused ? 0 : UV_READABLE) | (sends ? UV_WRITABLE : 0);
    if (events == conn->events)
        return;
    conn->events = events;
    uv_poll_start(&conn->poll, events, conn_on_poll);
}

status_t conn_init(conn_t *conn, uv_loop_t *loop, int fd, bool connecting, const conn_ops_t *ops,
                   conn_shared_t *shared)
{
    int on = 1;

    *conn = (conn_t){.fd = fd, .ops = ops, .shared = shared, .connecting = connecting, .rx.lowat = 1};
    TAILQ_INIT(&conn->tx.queue);
    conn->rx.buf = malloc(BUF_BYTES);
    if (!conn->rx.buf) {
        close(fd);
        return STATUS_NO_MEMORY;
    }
    conn->rx.cap = BUF_BYTES;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (uv_poll_init(loop, &conn->poll, fd) != 0) {
        free(conn->rx.buf);
        close(fd);
        return STATUS_IO;
    }
    conn_update_events(conn);
    return STATUS_OK;
}

bool conn_secure(conn_t *conn, tls_context_t *tls)
{
    err_t err;

    conn->securing = tls_stream_create(tls, conn->fd, &conn->tls, &err) == STATUS_OK;
    return conn->securing;
}

/* ---- sending ---- */

static void conn_recycle(conn_t *conn, frame_t *frame)
{
    conn->ops->sent(conn, frame);
    frame_put(&conn->shared->frames, frame);
}

void conn_send(conn_t *conn, frame_t *frame)
{
    TAILQ_INSERT_TAIL(&conn->tx.queue, frame, link);
    conn->tx.weight += frame->weight;
    if (conn->pause_weight && conn->tx.weight >= conn->pause_weight)
        conn->paused = true;
}

void conn_withdraw(conn_t *conn, frame_t *frame)
{
    TAILQ_REMOVE(&conn->tx.queue, frame, link);
    conn->tx.weight -= frame->weight;
    frame_put(&conn->shared->frames, frame);
    conn_update_events(conn);
}

static int tx_vector(conn_t *conn, struct iovec *iov, size_t *want)
{
    frame_t *frame;
    int n = 0;

    *want = 0;
    TAILQ_FOREACH(frame, &conn->tx.queue, link)
    {
        for (uint32_t i = frame->iov_pos; i < frame->iov_count && n < IOV_BATCH; i++) {
            size_t off = i == frame->iov_pos ? frame->iov_off : 0;
            iov[n].iov_base = (uint8_t *)frame->iov[i].iov_base + off;
            iov[n].iov_len = frame->iov[i].iov_len - off;
            *want += iov[n++].iov_len;
        }
        if (n == IOV_BATCH)
            break;
    }
    return n;
}

static void tx_advance(conn_t *conn, size_t sent)
{
    frame_t *frame;

    conn->tx.bytes += sent;
    while ((frame = TAILQ_FIRST(&conn->tx.queue))) {
        size_t left = frame->iov[frame->iov_pos].iov_len - frame->iov_off;
        if (sent < left) {
            frame->iov_off += sent;
            return;
        }
        sent -= left;
        frame->iov_off = 0;
        if (++frame->iov_pos < frame->iov_count)
            continue;
        TAILQ_REMOVE(&conn->tx.queue, frame, link);
        conn->tx.weight -= frame->weight;
        conn->tx.frames++;
        conn_recycle(conn, frame);
    }
}

/* The caller may be in the middle of something; the shutdown makes the poll report it. */
static void conn_break(conn_t *conn)
{
    conn->broken = true;
    shutdown(conn->fd, SHUT_RDWR);
}

/* False: no frames can be sent now. */
static bool conn_can_send(conn_t *conn)
{
    if (conn->closed || conn->connecting || conn->securing || conn->broken)
        return false;
    if (conn_holds(conn) && !tls_stream_flush(conn->tls))
        conn_break(conn);
    return !conn->broken && !conn_holds(conn);
}

static ssize_t conn_write(conn_t *conn, struct iovec *iov, int count)
{
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = (size_t)count};

    return conn->tls ? tls_stream_writev(conn->tls, iov, count) : sendmsg(conn->fd, &message, MSG_NOSIGNAL);
}

void conn_flush(conn_t *conn)
{
    size_t budget = EVENT_BYTES;

    while (budget > 0 && conn_can_send(conn) && !TAILQ_EMPTY(&conn->tx.queue)) {
        struct iovec iov[IOV_BATCH];
        size_t want;
        int count = tx_vector(conn, iov, &want);
        ssize_t sent = conn_write(conn, iov, count);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
            conn_break(conn);
        if (sent < 0)
            break;
        tx_advance(conn, (size_t)sent);
        if ((size_t)sent < want)
            break;
        budget -= (size_t)sent < budget ? (size_t)sent : budget;
    }
    conn_update_events(conn);
}

/* ---- receiving ---- */

bool conn_expect(conn_t *conn, void *base, size_t len_bytes)
{
    if (!frame_grow(&conn->rx.segments, &conn->rx.segment_cap, conn->rx.count + 1, sizeof(struct iovec)))
        return false;
    conn->rx.segments[conn->rx.count++] = (struct iovec){.iov_base = base, .iov_len = len_bytes};
    return true;
}

void conn_discard(conn_t *conn)
{
    for (uint32_t i = conn->rx.pos; i < conn->rx.count; i++)
        conn->rx.segments[i].iov_base = NULL;
}

/* Makes room for `need` contiguous bytes from start on. */
static bool rx_reserve(conn_t *conn, size_t need)
{
    size_t held = conn->rx.end - conn->rx.start;
    size_t cap = need > BUF_BYTES ? need : BUF_BYTES;
    bool shrink = conn->rx.cap > BUF_KEPT_MAX && cap < conn->rx.cap && held <= cap;
    bool cramped = conn->rx.start > 0 && conn->rx.cap - conn->rx.end < BUF_BYTES / 4;

    if (conn->rx.start + need <= conn->rx.cap && !shrink && !cramped)
        return true;
    memmove(conn->rx.buf, conn->rx.buf + conn->rx.start, held);
    conn->rx.start = 0;
    conn->rx.end = held;
    if (need <= conn->rx.cap && !shrink)
        return true;
    uint8_t *buf = realloc(conn->rx.buf, cap);
    if (!buf)
        return shrink;
    conn->rx.buf = buf;
    conn->rx.cap = cap;
    return true;
}

/* Moves past n payload bytes that have arrived where they belong. */
static void rx_payload_advance(conn_t *conn, size_t n)
{
    conn->rx.off += n;
    while (!conn->closed && conn->rx.pos < conn->rx.count &&
           conn->rx.off >= conn->rx.segments[conn->rx.pos].iov_len) {
        conn->rx.off -= conn->rx.segments[conn->rx.pos].iov_len;
        conn->rx.pos++;
        if (conn->ops->segment)
            conn->ops->segment(conn, conn->rx.pos - 1);
    }
}

/* What came in behind the records belongs to the segments. */
static void rx_payload_from_buf(conn_t *conn)
{
    rx_payload_advance(conn, 0); /* leading empty ones */
    while (!conn->closed && conn->rx.pos < conn->rx.count && conn->rx.start < conn->rx.end) {
        struct iovec *segment = &conn->rx.segments[conn->rx.pos];
        size_t n = segment->iov_len - conn->rx.off;
        if (n > conn->rx.end - conn->rx.start)
            n = conn->rx.end - conn->rx.start;
        if (segment->iov_base)
            memcpy((uint8_t *)segment->iov_base + conn->rx.off, conn->rx.buf + conn->rx.start, n);
        conn->rx.start += n;
        rx_payload_advance(conn, n);
    }
}

static bool rx_header(conn_t *conn)
{
    if (conn->rx.end - conn->rx.start < WIRE_HEADER_BYTES)
        return false;
    if (!wire_get_header(conn->rx.buf + conn->rx.start, &conn->rx.header)) {
        conn_close(conn, true, "not a frame of this protocol");
        return false;
    }
    if (!conn->ops->accept(conn, &conn->rx.header, &conn->rx.records_bytes)) {
        conn_close(conn, true, "unexpected frame or one over the limits");
        return false;
    }
    conn->rx.start += WIRE_HEADER_BYTES;
    conn->rx.stage = CONN_RECORDS;
    return true;
}

static bool rx_records(conn_t *conn)
{
    if (conn->rx.end - conn->rx.start < conn->rx.records_bytes)
        return false;
    const uint8_t *records = conn->rx.buf + conn->rx.start;
    conn->rx.count = 0;
    conn->rx.pos = 0;
    conn->rx.off = 0;
    conn->rx.start += conn->rx.records_bytes;
    conn->rx.stage = CONN_PAYLOAD;
    if (!conn->ops->frame(conn, &conn->rx.header, records)) {
        conn_close(conn, true, "broken frame");
        return false;
    }
    return true;
}

static bool rx_payload(conn_t *conn)
{
    rx_payload_from_buf(conn);
    if (conn->closed || conn->rx.pos < conn->rx.count)
        return false;
    conn->rx.stage = CONN_HEADER;
    conn->rx.frames++;
    conn->ops->complete(conn);
    return true;
}

/* Takes as many steps as the bytes at hand allow. */
static void rx_run(conn_t *conn)
{
    bool more = true;

    while (more && !conn->closed && !(conn->paused && conn->rx.stage == CONN_HEADER)) {
        switch (conn->rx.stage) {
        case CONN_HEADER:
            more = rx_header(conn);
            break;
        case CONN_RECORDS:
            more = rx_records(conn);
            break;
        case CONN_PAYLOAD:
            more = rx_payload(conn);
            break;
        }
    }
    if (conn->rx.start == conn->rx.end)
        conn->rx.start = conn->rx.end = 0;
}

static size_t rx_need(const conn_t *conn)
{
    return conn->rx.stage == CONN_RECORDS ? conn->rx.records_bytes : WIRE_HEADER_BYTES;
}

/* Segments of the present payload, then the buffer. */
static int rx_vector(conn_t *conn, struct iovec *iov, size_t *want, size_t *payload)
{
    int n = 0;
    uint32_t i = conn->rx.pos;

    *payload = 0;
    if (conn->rx.stage == CONN_PAYLOAD) {
        for (; i < conn->rx.count && n < IOV_BATCH - 1; i++) {
            struct iovec *segment = &conn->rx.segments[i];
            size_t off = i == conn->rx.pos ? conn->rx.off : 0;
            size_t len = segment->iov_len - off;
            bool discard = !segment->iov_base;
            iov[n].iov_base = discard ? (void *)conn->shared->scratch : (uint8_t *)segment->iov_base + off;
            iov[n].iov_len = discard && len > CONN_SCRATCH_BYTES ? CONN_SCRATCH_BYTES : len;
            *payload += iov[n++].iov_len;
            if (discard && len > CONN_SCRATCH_BYTES) {
                *want = *payload;
                return n;
            }
        }
    }
    *want = *payload;
    if (conn->rx.stage != CONN_PAYLOAD || i == conn->rx.count) {
        iov[n].iov_base = conn->rx.buf + conn->rx.end;
        iov[n].iov_len = conn->rx.cap - conn->rx.end;
        if (*payload > BUF_BYTES && iov[n].iov_len > BUF_AHEAD_BYTES)
            iov[n].iov_len = BUF_AHEAD_BYTES;
        *want += iov[n++].iov_len;
    }
    return n;
}

/* TLS has read ahead; once the event's budget is used up only that is looked at, and the socket at the next event. */
static ssize_t conn_readv(conn_t *conn, const struct iovec *iov, int count, size_t budget)
{
    return conn->tls ? tls_stream_readv(conn->tls, iov, count, budget == 0) : readv(conn->fd, iov, count);
}

static void conn_read_ended(conn_t *conn, ssize_t got)
{
    bool protocol = got < 0 && errno == EPROTO;

    conn_close(conn, protocol,
               got == 0   ? "closed by the other side"
               : protocol ? tls_stream_reason(conn->tls)
                          : strerror(errno));
}

/* One readv and what follows from it. False: nothing more to read now. */
static bool conn_read_once(conn_t *conn, size_t *budget)
{
    struct iovec iov[IOV_BATCH];
    size_t want, payload;

    if (!rx_reserve(conn, rx_need(conn))) {
        conn_close(conn, false, "out of memory");
        return false;
    }
    int n = rx_vector(conn, iov, &want, &payload);
    ssize_t got = conn_readv(conn, iov, n, *budget);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return false;
    if (got < 0 && errno == EINTR)
        return true;
    if (got <= 0) {
        conn_read_ended(conn, got);
        return false;
    }

    size_t direct = (size_t)got < payload ? (size_t)got : payload;
    conn->rx.bytes += (size_t)got;
    conn->rx.end += (size_t)got - direct;
    if (direct)
        rx_payload_advance(conn, direct);
    rx_run(conn);
    *budget -= (size_t)got < *budget ? (size_t)got : *budget;
    return (size_t)got == want || (!conn->closed && conn->tls && tls_stream_is_over(conn->tls));
}

/* In the middle of a large payload the poll need not report every few packets: half of the wake-ups and reads. Less than that much
 * left, an end of the connection and a full receive buffer are reported at once all the same. */
static void conn_set_lowat(conn_t *conn)
{
    size_t left = 0;

    if (conn->closed || conn->tls) /* how much of it TLS has already the kernel does not know */
        return;
    if (conn->rx.stage == CONN_PAYLOAD && conn->rx.pos < conn->rx.count)
        left = conn->rx.segments[conn->rx.pos].iov_len - conn->rx.off;
    int lowat = left < LOWAT_BYTES / 2 ? 1 : left < LOWAT_BYTES ? (int)left : LOWAT_BYTES;
    if (lowat == conn->rx.lowat)
        return;
    conn->rx.lowat = lowat;
    setsockopt(conn->fd, SOL_SOCKET, SO_RCVLOWAT, &lowat, sizeof(lowat));
}

static void conn_read(conn_t *conn)
{
    size_t budget = EVENT_BYTES;

    while (!conn->closed && !conn->paused && (budget > 0 || conn->tls) && conn_read_once(conn, &budget))
        ;
    conn_set_lowat(conn);
}

/* ---- events ---- */

static bool conn_finish_connect(conn_t *conn, int status)
{
    int error =
        status < 0 ? ECONNREFUSED : 0; /* libuv knows only that there was one; the socket knows which */
    int known = 0;
    socklen_t len = sizeof(known);

    if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &known, &len) == 0 && known != 0)
        error = known;
    if (error) {
        conn_close(conn, false, strerror(error));
        return false;
    }
    conn->connecting = false;
    if (!conn->securing)
        conn->ops->connected(conn);
    return !conn->closed;
}

/* Reads and writes until neither can go on. A drained queue ends a pause, and frames may wait in the buffer
 * then. */
static void conn_pump(conn_t *conn, bool readable)
{
    if (readable)
        conn_read(conn);
    for (;;) {
        conn_flush(conn);
        if (conn->closed || !conn->paused || conn->tx.weight >= conn->pause_weight)
            break;
        conn->paused = false;
        rx_run(conn);
        if (conn->tls)
            conn_read(conn); /* of what it has read there is no event */
    }
    conn_update_events(conn);
}

/* Whoever dials and does not know that TLS is wanted begins with a frame's magic; TLS begins otherwise. */
static bool conn_hears_frames(const conn_t *conn)
{
    uint8_t first[2];

    return conn->ops->in_clear && recv(conn->fd, first, sizeof(first), MSG_PEEK | MSG_DONTWAIT) == 2 &&
           wire_get16(first) == WIRE_MAGIC;
}

/* What has come is thrown away, for a socket that is closed with bytes unread takes back what was sent. */
static void conn_drop_tls(conn_t *conn)
{
    while (recv(conn->fd, conn->shared->scratch, CONN_SCRATCH_BYTES, MSG_DONTWAIT) == CONN_SCRATCH_BYTES)
        ;
    tls_stream_destroy(conn->tls);
    conn->tls = NULL;
    conn->securing = false;
}

static void conn_shake(conn_t *conn)
{
    if (conn_hears_frames(conn)) {
        conn_drop_tls(conn);
        conn->ops->in_clear(conn);
        conn_close(conn, true, "frames without TLS");
        return;
    }
    switch (tls_stream_shake(conn->tls)) {
    case TLS_SHAKE_DONE:
        conn->securing = false;
        conn->ops->connected(conn);
        conn_pump(conn, true); /* there may be frames right behind the handshake */
        break;
    case TLS_SHAKE_WAITS:
        conn_update_events(conn);
        break;
    case TLS_SHAKE_FAILED:
        conn_close(conn, true, tls_stream_reason(conn->tls));
        break;
    }
}

static void conn_on_poll(uv_poll_t *poll, int status, int events)
{
    conn_t *conn = (conn_t *)poll;

    if (conn->connecting) {
        if (conn_finish_connect(conn, status) && !conn->securing)
            conn_pump(conn, false);
        if (conn->closed || !conn->securing)
            return;
    }
    if (status < 0 || conn->broken) {
        conn_close(conn, false, "connection reset");
        return;
    }
    if (conn->securing)
        conn_shake(conn);
    else
        conn_pump(conn, events & UV_READABLE);
}

static void conn_on_uv_close(uv_handle_t *handle)
{
    conn_t *conn = (conn_t *)handle;

    free(conn->rx.buf);
    free(conn->rx.segments);
    conn->ops->freed(conn);
}

void conn_close(conn_t *conn, bool protocol, const char *why)
{
    char reason[REASON_BYTES];
    frame_t *frame;

    if (conn->closed)
        return;
    conn->closed = true;
    uv_close((uv_handle_t *)&conn->poll, conn_on_uv_close);
    snprintf(reason, sizeof(reason), "%s", why); /* it may be TLS that says so */
    tls_stream_destroy(conn->tls);
    conn->tls = NULL;
    close(conn->fd);
    conn->fd = -1;
    while ((frame = TAILQ_FIRST(&conn->tx.queue))) {
        TAILQ_REMOVE(&conn->tx.queue, frame, link);
        conn_recycle(conn, frame);
    }
    conn->ops->closed(conn, protocol, reason);
}

static bool window_stalled(conn_window_t *window, bool busy, uint64_t bytes, uint64_t frames, uint64_t now_ns,
                           uint64_t stall_ns)
{
    if (!busy) {
        window->since_ns = 0;
        return false;
    }
    if (window->since_ns == 0 || window->frames != frames || bytes - window->bytes >= CONN_STALL_BYTES) {
        *window = (conn_window_t){.since_ns = now_ns, .bytes = bytes, .frames = frames};
        return false;
    }
    return now_ns - window->since_ns >= stall_ns;
}

bool conn_stalled(conn_t *conn, uint64_t now_ns, uint64_t stall_ns)
{
    bool receiving = !conn->paused && (conn->rx.stage != CONN_HEADER || conn->rx.end > conn->rx.start);
    bool sending = conn_holds(conn) || !TAILQ_EMPTY(&conn->tx.queue);
    bool rx = window_stalled(&conn->rx_window, receiving, conn->rx.bytes, conn->rx.frames, now_ns, stall_ns);
    bool tx = window_stalled(&conn->tx_window, sending, conn->tx.bytes, conn->tx.frames, now_ns, stall_ns);

    return rx || tx;
}
