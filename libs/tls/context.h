/*
 * One end's side of TLS, from files: what it shows (certificate and private key) and whom it believes (certificates of authorities).
 *
 * The files are looked at again when something is asked of the context, once a second at most. What they hold then counts for
 * connections made from there on; those that are there go on. Files that cannot be used change nothing, which is logged once
 * (tls_files_not_read). Any thread; one context serves the connections of all.
 *
 * TLS 1.2 and 1.3 with forward secrecy and authenticated ciphers only; no renegotiation, no compression. Sessions are resumed by
 * tickets: a server keeps nothing of them. A ticket lives for five minutes, and no longer than the authorities stay the same.
 */
#ifndef TLS_CONTEXT_H
#define TLS_CONTEXT_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tls_context tls_context_t;

/* Paths of PEM files, copied. */
typedef struct {
    bool server;
    const char *cert, *key; /* its chain, its private key; NULL both: a client that shows nothing */
    /* Server: only clients with a certificate of these authorities get in; NULL: it asks for none. Client: who may have signed the server's; NULL:
     * those of the system. */
    const char *ca;
    /* Of a client: the role (tls/role.h) that the server's certificate must have, whatever its host; NULL: it must be of the host that was called. */
    const char *server_role;
    const char *protocol; /* what is spoken over it (ALPN); NULL: "http/1.1" */
} tls_config_t;

/* INVALID_ARGUMENT, which names the file: cannot be read, holds no certificate or key, or they do not fit. */
status_t tls_context_create(const tls_config_t *config, tls_context_t **context, err_t *err);
/* Its sessions are gone. NULL is fine. */
void tls_context_destroy(tls_context_t *context);

bool tls_context_is_server(const tls_context_t *context);
/* A server: whether it wants a certificate of its clients. */
bool tls_context_wants_client(const tls_context_t *context);
const char *tls_context_server_role(const tls_context_t *context); /* NULL: none */

/* Looks at the files if it is time; counts up with each change that was taken; the first is 1. */
uint64_t tls_context_generation(tls_context_t *context);

/* Looks at the files whether or not it is time. NULL is fine. */
void tls_context_look(tls_context_t *context);

/* What the files held when they were read last; NULL where there is none. */
typedef struct {
    char *cert, *key, *ca;
} tls_texts_t;

/* A copy, for libraries that speak TLS themselves; the key is a secret. */
status_t tls_context_texts(tls_context_t *context, tls_texts_t *texts, err_t *err);
void tls_texts_dispose(tls_texts_t *texts); /* wipes the key */

#endif
