/*
 * TLS on one connection, without a socket: bytes of the network in, bytes of the program out, and the other way. One thread at a time.
 *
 *   network ─▶ feed ─▶ read  ─▶ program
 *   network ◀─ output ◀─ write ◀─ program
 *
 * The handshake happens within read. After each call of read, write and end there may be output, which the caller sends.
 *
 * An idle session holds no buffers: about 8 KiB beside what OpenSSL knows of the peer.
 */
#ifndef TLS_SESSION_H
#define TLS_SESSION_H

#include "tls/context.h"

#include <stddef.h>
#include <sys/uio.h>

typedef struct tls_session tls_session_t;

/* host: of a client, whom it called (a name or an address; goes along as SNI); NULL for a server. STATUS_NO_MEMORY. */
status_t tls_session_create(tls_context_t *context, const char *host, tls_session_t **session, err_t *err);
void tls_session_destroy(tls_session_t *session); /* NULL is fine */

typedef enum {
    TLS_READ_BYTES, /* *len of them, > 0 */
    TLS_READ_WANT,  /* all that was fed is used up */
    TLS_READ_END,   /* the peer has said that no more will come */
    TLS_READ_FAILED /* tls_session_reason; the output may hold an alert to send before the connection is closed */
} tls_read_t;

/* data stays the caller's, and is looked at until read says TLS_READ_WANT or keep is called. Only when nothing is left of what was fed before. */
void tls_session_feed(tls_session_t *session, const void *data, size_t len_bytes);
tls_read_t tls_session_read(tls_session_t *session, void *to, size_t cap_bytes, size_t *len_bytes);
/* Copies what was fed and is not used up, for a caller who reads on later. */
status_t tls_session_keep(tls_session_t *session);

bool tls_session_is_ready(const tls_session_t *session); /* the handshake is done */
const char *tls_session_reason(const tls_session_t *session);

/* Takes bytes of the pieces in order until all are taken, or max_bytes; returns how many. Only when it is ready. 0 of more than none:
 * broken, or no memory. */
size_t tls_session_write(tls_session_t *session, const struct iovec *pieces, size_t count, size_t max_bytes);
/* Says to the peer that no more will come. */
void tls_session_end(tls_session_t *session);

/* What is to be sent; valid until the next call. */
const uint8_t *tls_session_output(const tls_session_t *session, size_t *len_bytes);
void tls_session_output_sent(tls_session_t *session, size_t len_bytes);

/* ---- Who is there, once it is ready ---- */

/* The role (tls/role.h) that the peer's certificate, which was checked, names; "" when it shows none or has none. */
const char *tls_session_peer_role(const tls_session_t *session);
bool tls_session_resumed(const tls_session_t *session);

#endif
