/* What a certificate says, for people. */
#include "tls/internal.h"
#include "tls/issue.h"

#include <arpa/inet.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void put_name(const X509_NAME *name, char *to, int cap)
{
    if (X509_NAME_get_text_by_NID((X509_NAME *)(uintptr_t)name, NID_commonName, to, cap) < 0)
        snprintf(to, (size_t)cap, "?");
}

static void put_time(const ASN1_TIME *at, char to[32])
{
    struct tm tm;
    if (ASN1_TIME_to_tm(at, &tm) != 1 || strftime(to, 32, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
        snprintf(to, 32, "?");
}

/* Text of one alternative name; "" for what is no host. */
static void name_text(const GENERAL_NAME *name, char *to, size_t cap)
{
    const unsigned char *data = name->type == GEN_IPADD ? ASN1_STRING_get0_data(name->d.iPAddress) : NULL;
    int len = data ? ASN1_STRING_length(name->d.iPAddress) : 0;
    to[0] = '\0';
    if (name->type == GEN_DNS)
        snprintf(to, cap, "%.*s", ASN1_STRING_length(name->d.dNSName),
                 (const char *)ASN1_STRING_get0_data(name->d.dNSName));
    else if (len == 4 || len == 16)
        inet_ntop(len == 4 ? AF_INET : AF_INET6, data, to, (socklen_t)cap);
}

static void take_uri(const GENERAL_NAME *name, char role[TLS_ROLE_BYTES])
{
    const ASN1_STRING *uri = name->d.uniformResourceIdentifier;
    const char *found =
        tls_role_of_uri((const char *)ASN1_STRING_get0_data(uri), (size_t)ASN1_STRING_length(uri));
    if (found)
        snprintf(role, TLS_ROLE_BYTES, "%s", found);
}

static void put_names(const X509 *cert, tls_facts_t *facts)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    size_t len = 0;
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        char text[256];
        if (name->type == GEN_URI)
            take_uri(name, facts->role);
        name_text(name, text, sizeof text);
        if (text[0] && len + strlen(text) + 3 < sizeof facts->names)
            len += (size_t)sprintf(facts->names + len, "%s%s", len ? ", " : "", text);
    }
    GENERAL_NAMES_free(names);
}

static void put_facts(const X509 *cert, tls_facts_t *facts)
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    int days = 0, seconds = 0;
    put_name(X509_get_subject_name(cert), facts->name, sizeof facts->name);
    put_name(X509_get_issuer_name(cert), facts->issuer, sizeof facts->issuer);
    put_names(cert, facts);
    put_time(X509_get0_notBefore(cert), facts->from);
    put_time(X509_get0_notAfter(cert), facts->until);
    ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(cert));
    facts->left_s = (int64_t)days * 86400 + seconds;
    facts->authority = X509_check_ca((X509 *)(uintptr_t)cert) != 0;
    X509_digest(cert, EVP_sha256(), hash, &len);
    for (unsigned i = 0; i < len && i < 32; i++)
        sprintf(facts->fingerprint + 2 * (size_t)i, "%02x", hash[i]);
}

status_t tls_describe(const char *path, tls_facts_t *facts, err_t *err)
{
    char *text;
    status_t status = tls_read_file(path, "certificate", &text, err);
    if (status != STATUS_OK)
        return status;
    BIO *bio = BIO_new_mem_buf(text, -1);
    X509 *cert = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    if (cert) {
        *facts = (tls_facts_t){0};
        put_facts(cert, facts);
    } else {
        status =
            err_set(err, STATUS_INVALID_ARGUMENT, "%s is no certificate: %s", path, tls_openssl_reason());
    }
    X509_free(cert);
    BIO_free(bio);
    free(text);
    return status;
}
