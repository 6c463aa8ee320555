/*
 * Hot path. Two BIOs of ours stand between OpenSSL and the socket: the one to read from can be told to leave the socket alone, the one
 * to write to never blocks: the end of a record that the socket does not take is held, so that what was encrypted counts as sent.
 */
#include "tls/stream.h"
#include "tls/internal.h"

#include <errno.h>
#include <openssl/err.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
    READ_AHEAD_BYTES =
        4 * (TLS_RECORD_BYTES + 64), /* records of one system call, which stay in the CPU's cache */
    GATHER_BYTES = READ_AHEAD_BYTES, /* sent with one call: likewise */
    RECORDS_PER_KEY = 1 << 23,       /* a third of what is safe */
};

struct tls_stream {
    SSL *ssl;
    int fd;
    bool ready, over, broken; /* over: the peer has ended it */
    bool dry;                 /* the socket is not to be read */
    bool more;                /* another record follows: they are sent together */
    bool full;                /* the socket has not taken all of it */
    bool in_kernel;
    int error; /* errno of the socket that broke it; 0: it was TLS */
    uint8_t *held;
    size_t held_at, held_len, held_cap;
    uint64_t records; /* with the present keys, at most */
    const char *role;
    char reason[TLS_REASON_BYTES];
};

/* ---- what the socket did not take ---- */

static bool hold(tls_stream_t *stream, const char *from, size_t len)
{
    size_t need = stream->held_len + len;
    if (need > stream->held_cap) {
        size_t cap = need > GATHER_BYTES ? need : GATHER_BYTES;
        uint8_t *grown = realloc(stream->held, cap);
        if (!grown)
            return false;
        stream->held = grown;
        stream->held_cap = cap;
    }
    memcpy(stream->held + stream->held_len, from, len);
    stream->held_len = need;
    return true;
}

bool tls_stream_holds(const tls_stream_t *stream)
{
    return stream->held_at < stream->held_len;
}

/* How much was sent; -1: broken. */
static ssize_t send_some(tls_stream_t *stream, const void *from, size_t len)
{
    ssize_t sent;
    do
        sent = send(stream->fd, from, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent >= 0)
        return sent;
    if (errno == EAGAIN || errno == EWOULDBLOCK)
        return 0;
    stream->error = errno;
    stream->broken = true;
    return -1;
}

bool tls_stream_flush(tls_stream_t *stream)
{
    while (tls_stream_holds(stream)) {
        ssize_t sent = send_some(stream, stream->held + stream->held_at, stream->held_len - stream->held_at);
        if (sent < 0) {
            errno = stream->error;
            return false;
        }
        stream->full = sent == 0;
        if (sent == 0)
            return true;
        stream->held_at += (size_t)sent;
    }
    stream->held_at = stream->held_len = 0;
    stream->full = false;
    return true;
}

/* ---- between OpenSSL and the socket ---- */

static int bio_read(BIO *bio, char *to, int cap)
{
    tls_stream_t *stream = BIO_get_data(bio);
    ssize_t got = -1;
    BIO_clear_retry_flags(bio);
    if (stream->dry)
        errno = EAGAIN;
    else
        do
            got = recv(stream->fd, to, (size_t)cap, MSG_DONTWAIT);
        while (got < 0 && errno == EINTR);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        BIO_set_retry_read(bio);
    else if (got < 0)
        stream->error = errno;
    stream->over |= got == 0; /* who frames what he says needs no farewell */
    return (int)got;
}

static long read_ctrl(BIO *bio, int command, long number, void *arg)
{
    (void)bio;
    (void)number;
    (void)arg;
    return command == BIO_CTRL_FLUSH;
}

/* Then OpenSSL gives what it has to say, which is an alert, to the socket's BIO, and that tells the kernel what it is. */
static bool is_for_kernel(const tls_stream_t *stream, BIO *bio)
{
    return stream->ready ? stream->in_kernel : BIO_get_ktls_send(BIO_next(bio)) != 0;
}

/* What comes in one call of writev goes out in few. */
static bool is_enough(const tls_stream_t *stream)
{
    return !stream->more || stream->held_len - stream->held_at > GATHER_BYTES - TLS_RECORD_BYTES - 64;
}

static int bio_write(BIO *bio, const char *from, int len)
{
    tls_stream_t *stream = BIO_get_data(bio);
    ssize_t sent = 0;
    BIO_clear_retry_flags(bio);
    if (is_for_kernel(stream, bio))
        return BIO_write(BIO_next(bio), from, len);
    if (!stream->more && !tls_stream_holds(stream))
        sent = send_some(stream, from, (size_t)len);
    if (sent < 0 || sent == len)
        return (int)sent;
    if (!hold(stream, from + sent, (size_t)(len - sent))) {
        stream->broken = true;
        stream->error = ENOMEM;
        return -1;
    }
    return !is_enough(stream) || tls_stream_flush(stream) ? len : -1;
}

/* The socket's own BIO knows of kTLS, which must not come before what is held. */
static long write_ctrl(BIO *bio, int command, long number, void *arg)
{
    tls_stream_t *stream = BIO_get_data(bio);
    if (command == BIO_CTRL_FLUSH)
        return tls_stream_flush(stream);
#ifdef BIO_CTRL_SET_KTLS
    if (command == BIO_CTRL_SET_KTLS && tls_stream_holds(stream))
        return 0;
#endif
    return BIO_ctrl(BIO_next(bio), command, number, arg);
}

static BIO_METHOD *reader, *writer;

static void make_methods(void)
{
    reader = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "fermata socket, in");
    writer = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_FILTER, "fermata socket, out");
    if (reader) {
        BIO_meth_set_read(reader, bio_read);
        BIO_meth_set_ctrl(reader, read_ctrl);
    }
    if (writer) {
        BIO_meth_set_write(writer, bio_write);
        BIO_meth_set_ctrl(writer, write_ctrl);
    }
}

static BIO *bio_of(const BIO_METHOD *method, tls_stream_t *stream)
{
    BIO *bio = method ? BIO_new(method) : NULL;
    if (bio) {
        BIO_set_data(bio, stream);
        BIO_set_init(bio, 1);
    }
    return bio;
}

static bool attach(tls_stream_t *stream)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_methods);
    BIO *in = bio_of(reader, stream), *out = bio_of(writer, stream);
    BIO *socket = BIO_new_socket(stream->fd, BIO_NOCLOSE);
    if (!in || !out || !socket) {
        BIO_free(in);
        BIO_free(out);
        BIO_free(socket);
        return false;
    }
    SSL_set0_rbio(stream->ssl, in);
    SSL_set0_wbio(stream->ssl, BIO_push(out, socket));
    return true;
}

/* ---- making and ending ---- */

static bool set_rules(SSL *ssl)
{
    SSL_set_options(ssl, SSL_OP_ENABLE_KTLS | SSL_OP_NO_TICKET);
    SSL_set_read_ahead(ssl, 1);
    SSL_set_default_read_buffer_len(ssl, READ_AHEAD_BYTES);
    return SSL_set_min_proto_version(ssl, TLS1_3_VERSION) == 1 && SSL_set_num_tickets(ssl, 0) == 1;
}

status_t tls_stream_create(tls_context_t *context, int fd, tls_stream_t **stream, err_t *err)
{
    tls_stream_t *made = calloc(1, sizeof *made);
    SSL_CTX *ctx = tls_context_take(context);
    bool good = made && (made->ssl = SSL_new(ctx));
    SSL_CTX_free(ctx);
    if (good) {
        made->fd = fd;
        good = attach(made) && set_rules(made->ssl);
    }
    if (good && tls_context_is_server(context))
        SSL_set_accept_state(made->ssl);
    else if (good)
        good = tls_expect_server(made->ssl, context, "", false);
    if (!good) {
        if (made)
            SSL_free(made->ssl);
        free(made);
        ERR_clear_error();
        return err_set(err, STATUS_NO_MEMORY, "no memory for a connection with TLS");
    }
    *stream = made;
    return STATUS_OK;
}

void tls_stream_destroy(tls_stream_t *stream)
{
    if (!stream)
        return;
    ERR_clear_error();
    if (stream->ready && !stream->broken)
        SSL_shutdown(stream->ssl);
    ERR_clear_error();
    SSL_free(stream->ssl);
    free(stream->held);
    free(stream);
}

/* ---- the handshake, and what goes wrong ---- */

/* Of OpenSSL's last call, which has not done what it should. */
static int note_trouble(tls_stream_t *stream, int rc)
{
    int error = SSL_get_error(stream->ssl, rc);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
        return EAGAIN;
    stream->over |= error == SSL_ERROR_ZERO_RETURN;
    if (stream->over)
        return 0;
    stream->broken = true;
    if (stream->error)
        return stream->error;
    tls_failure_text(stream->ssl, stream->ready, stream->reason);
    return EPROTO;
}

tls_shake_t tls_stream_shake(tls_stream_t *stream)
{
    if (!tls_stream_flush(stream))
        return TLS_SHAKE_FAILED;
    ERR_clear_error();
    int rc = SSL_do_handshake(stream->ssl);
    if (rc != 1)
        return note_trouble(stream, rc) == EAGAIN ? TLS_SHAKE_WAITS : TLS_SHAKE_FAILED;
    stream->ready = true;
    stream->role = tls_peer_role(stream->ssl);
    stream->in_kernel = BIO_get_ktls_send(SSL_get_wbio(stream->ssl)) != 0;
    return TLS_SHAKE_DONE;
}

bool tls_stream_is_over(const tls_stream_t *stream)
{
    return stream->over || stream->broken;
}

const char *tls_stream_reason(const tls_stream_t *stream)
{
    if (stream->error)
        return strerror(stream->error);
    return stream->over ? "closed by the other side" : stream->reason[0] ? stream->reason : "TLS failed";
}

static ssize_t how_it_ended(const tls_stream_t *stream)
{
    errno = stream->error ? stream->error : EPROTO;
    return stream->broken ? -1 : 0;
}

/* ---- reading ---- */

ssize_t tls_stream_readv(tls_stream_t *stream, const struct iovec *pieces, int count, bool dry)
{
    size_t all = 0, done = 0, got;
    int error = 0;
    if (tls_stream_is_over(stream))
        return how_it_ended(stream);
    stream->dry = dry;
    for (int i = 0; i < count; i++, all += done) {
        for (done = 0; done < pieces[i].iov_len; done += got) {
            ERR_clear_error();
            int rc = SSL_read_ex(stream->ssl, (uint8_t *)pieces[i].iov_base + done, pieces[i].iov_len - done,
                                 &got);
            if (rc != 1) {
                error = note_trouble(stream, rc);
                all += done;
                goto end;
            }
        }
    }
end:
    if (all > 0)
        return (ssize_t)all;
    errno = error;
    return stream->over ? 0 : -1;
}

/* ---- writing ---- */

bool tls_stream_renew_keys(tls_stream_t *stream)
{
    ERR_clear_error();
    if (stream->in_kernel || SSL_key_update(stream->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) != 1)
        return false;
    stream->records = 0;
    return true;
}

static bool write_record(tls_stream_t *stream, const uint8_t *from, size_t len)
{
    size_t taken;
    ERR_clear_error();
    int rc = SSL_write_ex(stream->ssl, from, len, &taken);
    if (rc == 1)
        return true; /* our BIO takes records whole */
    note_trouble(stream, rc);
    stream->broken = true;
    return false;
}

static ssize_t write_records(tls_stream_t *stream, const struct iovec *pieces, int count, size_t want)
{
    uint8_t room[TLS_RECORD_BYTES];
    size_t done = 0, skip = 0;
    while (done < want && !stream->full) {
        const uint8_t *from;
        while (pieces->iov_len == skip) {
            pieces++;
            count--;
            skip = 0;
        }
        size_t len = tls_next_record(pieces, (size_t)count, skip, room, &from);
        stream->more = done + len < want;
        if (!write_record(stream, from, len))
            return how_it_ended(stream);
        done += len;
        for (skip += len; count > 0 && skip >= pieces->iov_len; pieces++, count--)
            skip -= pieces->iov_len;
        if (++stream->records >= RECORDS_PER_KEY && !tls_stream_renew_keys(stream)) {
            stream->broken = true;
            return how_it_ended(stream);
        }
    }
    stream->more = false;
    return (ssize_t)done;
}

static ssize_t write_by_kernel(tls_stream_t *stream, const struct iovec *pieces, int count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)pieces, .msg_iovlen = (size_t)count};
    if (stream->records >= RECORDS_PER_KEY) { /* it cannot have new ones there: the next connection has */
        stream->broken = true;
        snprintf(stream->reason, sizeof stream->reason, "TLS: the connection's keys are used up");
        return how_it_ended(stream);
    }
    ssize_t sent = sendmsg(stream->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0)
        stream->records += (uint64_t)sent / TLS_RECORD_BYTES + 1;
    return sent;
}

ssize_t tls_stream_writev(tls_stream_t *stream, const struct iovec *pieces, int count)
{
    size_t want = 0;
    for (int i = 0; i < count; i++)
        want += pieces[i].iov_len;
    if (stream->broken)
        return how_it_ended(stream);
    if (stream->in_kernel)
        return write_by_kernel(stream, pieces, count);
    if (!tls_stream_flush(stream))
        return -1;
    if (tls_stream_holds(stream)) {
        errno = EAGAIN;
        return -1;
    }
    return write_records(stream, pieces, count, want);
}

/* ---- who is there ---- */

const char *tls_stream_peer_role(const tls_stream_t *stream)
{
    return stream->role ? stream->role : "";
}

bool tls_stream_in_kernel(const tls_stream_t *stream)
{
    return stream->in_kernel;
}
