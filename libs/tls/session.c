/*
 * Hot path. OpenSSL reads and writes through a BIO of ours, straight from what was fed and into what goes out, so that bytes are copied
 * once each way beside the ciphers' own work.
 */
#include "tls/session.h"
#include "tls/internal.h"

#include <openssl/err.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { OUTPUT_BYTES_MIN = 4 << 10 };

struct tls_session {
    SSL *ssl;
    const uint8_t *in; /* fed, not used up */
    size_t in_bytes;
    uint8_t *kept; /* where `in` lies if it was kept */
    uint8_t *out;  /* NULL: nothing to send */
    size_t out_at, out_len, out_cap;
    bool ready, failed;
    const char *role;
    char *reason;
};

/* ---- between OpenSSL and the network ---- */

static int bio_read(BIO *bio, char *to, int cap)
{
    tls_session_t *session = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (session->in_bytes == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    size_t len = session->in_bytes < (size_t)cap ? session->in_bytes : (size_t)cap;
    memcpy(to, session->in, len);
    session->in += len;
    session->in_bytes -= len;
    return (int)len;
}

static bool reserve_output(tls_session_t *session, size_t more)
{
    size_t need = session->out_len + more;
    if (need <= session->out_cap)
        return true;
    size_t cap = session->out_cap ? session->out_cap * 2 : OUTPUT_BYTES_MIN;
    if (cap < need)
        cap = need;
    uint8_t *out = realloc(session->out, cap);
    if (!out)
        return false;
    session->out = out;
    session->out_cap = cap;
    return true;
}

static int bio_write(BIO *bio, const char *from, int len)
{
    tls_session_t *session = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (len <= 0 || !reserve_output(session, (size_t)len))
        return -1;
    memcpy(session->out + session->out_len, from, (size_t)len);
    session->out_len += (size_t)len;
    return len;
}

static long bio_ctrl(BIO *bio, int command, long number, void *arg)
{
    (void)bio;
    (void)number;
    (void)arg;
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *method;

static void make_method(void)
{
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "fermata");
    if (!method)
        return;
    BIO_meth_set_read(method, bio_read);
    BIO_meth_set_write(method, bio_write);
    BIO_meth_set_ctrl(method, bio_ctrl);
}

static bool attach(tls_session_t *session)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_method);
    BIO *bio = method ? BIO_new(method) : NULL;
    if (!bio)
        return false;
    BIO_set_data(bio, session);
    BIO_set_init(bio, 1);
    SSL_set_bio(session->ssl, bio, bio);
    return true;
}

/* ---- making and ending ---- */

status_t tls_session_create(tls_context_t *context, const char *host, tls_session_t **session, err_t *err)
{
    tls_session_t *made = calloc(1, sizeof *made);
    SSL_CTX *ctx = tls_context_take(context);
    bool good = made && (made->ssl = SSL_new(ctx)) && attach(made);
    SSL_CTX_free(ctx);
    if (good && tls_context_is_server(context))
        SSL_set_accept_state(made->ssl);
    else if (good)
        good = tls_expect_server(made->ssl, context, host ? host : "", true);
    if (!good) {
        tls_session_destroy(made);
        ERR_clear_error();
        return err_set(err, STATUS_NO_MEMORY, "no memory for a connection with TLS");
    }
    *session = made;
    return STATUS_OK;
}

void tls_session_destroy(tls_session_t *session)
{
    if (!session)
        return;
    if (session->ready && !session->failed) /* else OpenSSL takes the ticket for spoilt */
        SSL_set_shutdown(session->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_free(session->ssl);
    free(session->kept);
    free(session->out);
    free(session->reason);
    free(session);
}

/* ---- the handshake, and what goes wrong ---- */

static void note_failure(tls_session_t *session)
{
    char text[TLS_REASON_BYTES];
    tls_failure_text(session->ssl, session->ready, text);
    session->failed = true;
    free(session->reason);
    session->reason = strdup(text);
}

static void note_ready(tls_session_t *session)
{
    session->ready = true;
    session->role = tls_peer_role(session->ssl);
}

/* True: go on. */
static bool shake_hands(tls_session_t *session, tls_read_t *result)
{
    if (session->ready)
        return true;
    ERR_clear_error();
    int rc = SSL_do_handshake(session->ssl);
    if (rc == 1) {
        note_ready(session);
        return true;
    }
    int error = SSL_get_error(session->ssl, rc);
    *result = error == SSL_ERROR_WANT_READ ? TLS_READ_WANT : TLS_READ_FAILED;
    if (*result == TLS_READ_FAILED)
        note_failure(session);
    return false;
}

/* ---- reading ---- */

void tls_session_feed(tls_session_t *session, const void *data, size_t len_bytes)
{
    free(session->kept);
    session->kept = NULL;
    session->in = data;
    session->in_bytes = len_bytes;
}

status_t tls_session_keep(tls_session_t *session)
{
    if (session->in_bytes == 0 || session->kept)
        return STATUS_OK;
    session->kept = malloc(session->in_bytes);
    if (!session->kept)
        return STATUS_NO_MEMORY;
    session->in = memcpy(session->kept, session->in, session->in_bytes);
    return STATUS_OK;
}

tls_read_t tls_session_read(tls_session_t *session, void *to, size_t cap_bytes, size_t *len_bytes)
{
    tls_read_t result = TLS_READ_FAILED;
    size_t got = 0, more;
    *len_bytes = 0;
    if (session->failed || !shake_hands(session, &result))
        return result;
    while (got < cap_bytes) {
        ERR_clear_error();
        if (SSL_read_ex(session->ssl, (uint8_t *)to + got, cap_bytes - got, &more) != 1)
            break;
        got += more;
    }
    *len_bytes = got;
    if (got > 0) /* what ended it comes again */
        return TLS_READ_BYTES;
    int error = SSL_get_error(session->ssl, 0);
    if (error == SSL_ERROR_WANT_READ)
        return TLS_READ_WANT;
    if (error == SSL_ERROR_ZERO_RETURN)
        return TLS_READ_END;
    note_failure(session);
    return TLS_READ_FAILED;
}

bool tls_session_is_ready(const tls_session_t *session)
{
    return session->ready;
}

const char *tls_session_reason(const tls_session_t *session)
{
    return session->reason ? session->reason : "TLS failed";
}

/* ---- writing ---- */

size_t tls_session_write(tls_session_t *session, const struct iovec *pieces, size_t count, size_t max_bytes)
{
    uint8_t room[TLS_RECORD_BYTES];
    size_t want = 0, done = 0, skip = 0, taken;
    for (size_t i = 0; i < count; i++)
        want += pieces[i].iov_len;
    if (want > max_bytes)
        want = max_bytes;
    if (session->failed || !session->ready || !reserve_output(session, tls_records_bytes(want)))
        return 0;
    while (done < want) {
        const uint8_t *from;
        for (; pieces->iov_len == skip; skip = 0, count--)
            pieces++;
        size_t len = tls_next_record(pieces, count, skip, room, &from);
        ERR_clear_error();
        if (SSL_write_ex(session->ssl, from, len < want - done ? len : want - done, &taken) != 1) {
            note_failure(session);
            break;
        }
        done += taken;
        for (skip += taken; count > 0 && skip >= pieces->iov_len; pieces++, count--)
            skip -= pieces->iov_len;
    }
    return done;
}

void tls_session_end(tls_session_t *session)
{
    ERR_clear_error();
    if (session->ready && !session->failed)
        SSL_shutdown(session->ssl);
    ERR_clear_error();
}

const uint8_t *tls_session_output(const tls_session_t *session, size_t *len_bytes)
{
    *len_bytes = session->out_len - session->out_at;
    return session->out + session->out_at;
}

void tls_session_output_sent(tls_session_t *session, size_t len_bytes)
{
    session->out_at += len_bytes;
    if (session->out_at < session->out_len)
        return;
    free(session->out);
    session->out = NULL;
    session->out_at = session->out_len = session->out_cap = 0;
}

/* ---- who is there ---- */

const char *tls_session_peer_role(const tls_session_t *session)
{
    return session->role ? session->role : "";
}

bool tls_session_resumed(const tls_session_t *session)
{
    return SSL_session_reused(session->ssl) == 1;
}
