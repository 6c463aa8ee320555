/*
 * TLS 1.3 on a connected socket that does not block, with the calls that a socket has: what was readv and writev stays so.
 *
 *   writev   the kernel encrypts (kTLS) where OpenSSL and the kernel can, and sends what it is given in one call; else OpenSSL encrypts
 *            straight from the pieces into records, some of which are sent together
 *   readv    OpenSSL reads from the socket, many records a call, and decrypts; one copy from there into the pieces
 *
 * No tickets, no renegotiation. Keys are made anew long before a cipher's limit (2^24.5 records of AES-GCM, 380 GB).
 * One thread at a time. A session without a socket, which serves 1.2 too, is tls/session.h.
 */
#ifndef TLS_STREAM_H
#define TLS_STREAM_H

#include "tls/context.h"

#include <stddef.h>
#include <sys/uio.h>

typedef struct tls_stream tls_stream_t;

/* fd stays the caller's, open and where it is until the stream is destroyed. A client's context must name the server's role. NO_MEMORY. */
status_t tls_stream_create(tls_context_t *context, int fd, tls_stream_t **stream, err_t *err);
/* Says to the peer that no more will come, as far as the socket takes it. NULL is fine. */
void tls_stream_destroy(tls_stream_t *stream);

typedef enum { TLS_SHAKE_DONE, TLS_SHAKE_WAITS, TLS_SHAKE_FAILED } tls_shake_t;

/* The handshake, as far as it goes now; to be called again when the socket is readable. FAILED: tls_stream_reason. */
tls_shake_t tls_stream_shake(tls_stream_t *stream);

/* After the handshake. Bytes read into the pieces in order; 0: the peer has said that no more will come; -1 with errno: EAGAIN (nothing more
 * now), EPROTO (tls_stream_reason), or the socket's. Fewer than there is room for: the socket has no more, or the next call says what ended it.
 * dry: only what was read from the socket before, of which there is otherwise no notice. */
ssize_t tls_stream_readv(tls_stream_t *stream, const struct iovec *pieces, int count, bool dry);

/* After the handshake. Bytes taken of the pieces in order, which need not be kept; -1 likewise. */
ssize_t tls_stream_writev(tls_stream_t *stream, const struct iovec *pieces, int count);

/* Some of what was taken waits in here: for tls_stream_flush, when the socket is writable. */
bool tls_stream_holds(const tls_stream_t *stream);
/* False: broken, errno says how. */
bool tls_stream_flush(tls_stream_t *stream);

/* It has ended or broken: the next read says so at once, without the socket's having anything. */
bool tls_stream_is_over(const tls_stream_t *stream);
const char *tls_stream_reason(const tls_stream_t *stream);

/* Once the handshake is done: the role (tls/role.h) of the peer's certificate, which was checked; "" if it has none. */
const char *tls_stream_peer_role(const tls_stream_t *stream);
/* Whether the kernel encrypts what is sent. */
bool tls_stream_in_kernel(const tls_stream_t *stream);
/* What is written from now on has new keys; happens by itself. False: it cannot be done (the kernel encrypts). */
bool tls_stream_renew_keys(tls_stream_t *stream);

#endif
