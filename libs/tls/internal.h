/* Shared by the files of libs/tls only. */
#ifndef TLS_INTERNAL_H
#define TLS_INTERNAL_H

#include "tls/context.h"

#include <openssl/ssl.h>
#include <sys/uio.h>

/* files.c: which state of the files it was. */
typedef struct {
    int64_t changed_ns;
    uint64_t size, inode;
} tls_stamp_t;

void tls_stamp_of(const char *path, tls_stamp_t *stamp); /* all zero: it is not there; path NULL likewise */
status_t tls_read_file(const char *path, const char *what, char **text, err_t *err);

/* material.c: an SSL_CTX of texts; the texts are checked against each other. names: the paths, for errors. */
status_t tls_material_load(const tls_config_t *names, const tls_texts_t *texts, SSL_CTX **out, err_t *err);
/* The last error of OpenSSL in words; clears them. */
const char *tls_openssl_reason(void);

/* context.c */
/* The SSL_CTX that counts now, with a reference for the caller. */
SSL_CTX *tls_context_take(tls_context_t *context);
/* Of a client: the session to try to resume; the caller frees it; NULL: none yet. */
SSL_SESSION *tls_context_last_session(tls_context_t *context);

/* records.c */
enum { TLS_RECORD_BYTES = 16 << 10 }; /* the largest, before it is encrypted */

/* What the next record shall hold, of pieces (one at least, and the first has more than skip bytes) behind the first skip bytes: small ones
 * together, copied into room, for each record costs 22 bytes and a call; or part of a large one, where it lies. Returns its bytes. */
size_t tls_next_record(const struct iovec *pieces, size_t count, size_t skip, uint8_t room[TLS_RECORD_BYTES],
                       const uint8_t **from);
/* The most that so many bytes are once they are encrypted in whole records. */
size_t tls_records_bytes(size_t len_bytes);

/* peer.c */
enum { TLS_REASON_BYTES = 160 };

/* A client's: whom it must find; host does not matter where the context names a role. resume: with the context's last session. */
bool tls_expect_server(SSL *ssl, tls_context_t *context, const char *host, bool resume);
const char *tls_peer_role(const SSL *ssl); /* NULL: none. Not the caller's to free */
/* What OpenSSL's last error means; clears it. ready: after the handshake. */
void tls_failure_text(const SSL *ssl, bool ready, char text[TLS_REASON_BYTES]);

#endif
