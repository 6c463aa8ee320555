/* An authority and certificates of its own in a fresh folder, for tests. */
#ifndef TESTS_TLS_PKI_H
#define TESTS_TLS_PKI_H

#include "tls/issue.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    char dir[64];
    tls_pair_t ca;
} pki_t;

static inline void pki_open(pki_t *pki)
{
    err_t err;
    snprintf(pki->dir, sizeof pki->dir, "/tmp/fermata-pki-XXXXXX");
    cr_assert(mkdtemp(pki->dir));
    cr_assert(tls_pair_in(pki->dir, "ca", &pki->ca, &err) == STATUS_OK);
    const tls_subject_t subject = {.name = "test-ca", .valid_s = 86400};
    cr_assert(tls_make_authority(&pki->ca, &subject, &err) == STATUS_OK, "%s", err.text);
}

static inline void pki_close(const pki_t *pki)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r '%s'", pki->dir);
    cr_assert(system(command) == 0);
}

/* NAME.crt and NAME.key in its folder, for localhost and 127.0.0.1. */
static inline tls_pair_t pki_issue(const pki_t *pki, const char *name, const char *role)
{
    static const char *const hosts[] = {"localhost", "127.0.0.1"};
    tls_pair_t pair;
    err_t err;
    const tls_subject_t subject = {
        .name = name, .role = role, .hosts = hosts, .host_count = 2, .valid_s = 3600};
    cr_assert(tls_pair_in(pki->dir, name, &pair, &err) == STATUS_OK);
    cr_assert(tls_issue(&pki->ca, &pair, &subject, &err) == STATUS_OK, "%s", err.text);
    return pair;
}

#endif
