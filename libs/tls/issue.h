/*
 * A cluster's own authority, and certificates by it: what `fermata cert` and `fermata up --tls` make. Keys are of the curve P-256.
 *
 * Files are never overwritten. A private key's is 0600 from its first moment on.
 */
#ifndef TLS_ISSUE_H
#define TLS_ISSUE_H

#include "tls/role.h"

#include <stddef.h>
#include <stdint.h>

enum { TLS_PATH_BYTES = 4096, TLS_HOSTS_MAX = 64 };

/* DIR/NAME.crt and DIR/NAME.key. */
typedef struct {
    char cert[TLS_PATH_BYTES], key[TLS_PATH_BYTES];
} tls_pair_t;

status_t tls_pair_in(const char *dir, const char *name, tls_pair_t *pair, err_t *err);

/* What a certificate says of its holder. */
typedef struct {
    const char *name;         /* for people; up to 64 letters */
    const char *role;         /* one of tls/role.h; NULL: none */
    const char *const *hosts; /* names and addresses that it may be called by */
    size_t host_count;
    int64_t valid_s; /* from now, which the clock of others may see an hour late */
} tls_subject_t;

/* INVALID_ARGUMENT: a file is there already, or the subject is none. Of subject, role and hosts do not count. */
status_t tls_make_authority(const tls_pair_t *to, const tls_subject_t *subject, err_t *err);
/* Signed by the authority of these files. It is valid no longer than that one. */
status_t tls_issue(const tls_pair_t *authority, const tls_pair_t *to, const tls_subject_t *subject,
                   err_t *err);

enum { TLS_NAMES_BYTES = 1024 };

typedef struct {
    char name[80], role[TLS_ROLE_BYTES]; /* role "": none */
    char issuer[80];
    char names[TLS_NAMES_BYTES];  /* "localhost, 127.0.0.1" */
    char from[32], until[32];     /* "2026-11-25T03:00:00Z" */
    char fingerprint[2 * 32 + 1]; /* SHA-256, as hexadecimal digits */
    int64_t left_s;               /* until it ends; negative: it is over */
    bool authority;
} tls_facts_t;

/* Of the first certificate in the file. */
status_t tls_describe(const char *path, tls_facts_t *facts, err_t *err);

#endif
