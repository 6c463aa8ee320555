/* Making keys and certificates, and writing them where nothing is. */
#include "tls/issue.h"
#include "base/file.h"
#include "tls/internal.h"

#include <arpa/inet.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    EARLY_SECONDS = 3600,
    SERIAL_BYTES = 16,
    NAME_LETTERS_MAX = 64,
    ALT_NAMES_BYTES = 8192,
    HOST_LETTERS_MAX = 253
};

status_t tls_pair_in(const char *dir, const char *name, tls_pair_t *pair, err_t *err)
{
    int cert = snprintf(pair->cert, sizeof pair->cert, "%s/%s.crt", dir, name);
    int key = snprintf(pair->key, sizeof pair->key, "%s/%s.key", dir, name);
    if (cert >= TLS_PATH_BYTES || key >= TLS_PATH_BYTES)
        return err_set(err, STATUS_INVALID_ARGUMENT, "the path %.100s… is too long", dir);
    return STATUS_OK;
}

/* ---- files ---- */

static status_t write_key(const char *path, EVP_PKEY *key, err_t *err)
{
    file_writer_t writer;
    status_t status = file_write_begin(&writer, path, FILE_CREATE, S_IRUSR | S_IWUSR, err);
    if (status != STATUS_OK)
        return status;
    return file_write_end(&writer, PEM_write_PrivateKey(writer.file, key, NULL, NULL, 0, NULL, NULL) == 1,
                          err);
}

static status_t write_cert(const char *path, X509 *cert, err_t *err)
{
    file_writer_t writer;
    status_t status =
        file_write_begin(&writer, path, FILE_CREATE, S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH, err);
    if (status != STATUS_OK)
        return status;
    return file_write_end(&writer, PEM_write_X509(writer.file, cert) == 1, err);
}

/* Both or none. */
static status_t write_pair(const tls_pair_t *to, EVP_PKEY *key, X509 *cert, err_t *err)
{
    status_t status = write_key(to->key, key, err);
    if (status != STATUS_OK)
        return status;
    status = write_cert(to->cert, cert, err);
    if (status != STATUS_OK)
        unlink(to->key);
    return status;
}

static X509 *read_cert(const char *path, err_t *err)
{
    char *text;
    if (tls_read_file(path, "certificate", &text, err) != STATUS_OK)
        return NULL;
    BIO *bio = BIO_new_mem_buf(text, -1);
    X509 *cert = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    BIO_free(bio);
    free(text);
    if (!cert)
        err_set(err, STATUS_INVALID_ARGUMENT, "%s is no certificate: %s", path, tls_openssl_reason());
    return cert;
}

static EVP_PKEY *read_key(const char *path, err_t *err)
{
    char *text;
    if (tls_read_file(path, "private key", &text, err) != STATUS_OK)
        return NULL;
    char none[] = "";
    BIO *bio = BIO_new_mem_buf(text, -1);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, none) : NULL;
    BIO_free(bio);
    explicit_bzero(text, strlen(text));
    free(text);
    if (!key)
        err_set(err, STATUS_INVALID_ARGUMENT, "%s is no private key: %s", path, tls_openssl_reason());
    return key;
}

/* ---- what it says ---- */

static bool is_plain(const char *text, size_t max)
{
    size_t len = strlen(text);
    if (len == 0 || len > max)
        return false;
    for (size_t i = 0; i < len; i++)
        if (text[i] <= ' ' || text[i] >= 127 || strchr(",;:/\\\"'=", text[i]))
            return false;
    return true;
}

static bool is_address(const char *host)
{
    unsigned char room[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, host, room) == 1 || inet_pton(AF_INET6, host, room) == 1;
}

static status_t check_subject(const tls_subject_t *subject, err_t *err)
{
    if (!is_plain(subject->name, NAME_LETTERS_MAX))
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "\"%.80s\" is no name of a certificate: up to %d letters, digits, '.', '_' and '-'",
                       subject->name, NAME_LETTERS_MAX);
    if (subject->role && !tls_role_is_known(subject->role))
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "\"%.40s\" is no role: gateway, scheduler, worker, client or admin", subject->role);
    if (subject->host_count > TLS_HOSTS_MAX)
        return err_set(err, STATUS_INVALID_ARGUMENT, "a certificate takes up to %d hosts", TLS_HOSTS_MAX);
    for (size_t i = 0; i < subject->host_count; i++)
        if (!is_address(subject->hosts[i]) && !is_plain(subject->hosts[i], HOST_LETTERS_MAX))
            return err_set(err, STATUS_INVALID_ARGUMENT, "\"%.80s\" is no name or address of a host",
                           subject->hosts[i]);
    if (subject->valid_s <= 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "a certificate is valid for more than nothing");
    return STATUS_OK;
}

/* Every text was checked: none has a comma or a colon, but for addresses. */
static void alt_names(const tls_subject_t *subject, char text[ALT_NAMES_BYTES + TLS_HOSTS_MAX * 256])
{
    char *at = text;
    if (subject->role)
        at += sprintf(at, "URI:" TLS_ROLE_URI "%s,DNS:%s" TLS_ROLE_DOMAIN, subject->role, subject->role);
    for (size_t i = 0; i < subject->host_count; i++)
        at += sprintf(at, "%s%s:%s", at > text ? "," : "", is_address(subject->hosts[i]) ? "IP" : "DNS",
                      subject->hosts[i]);
    *at = '\0';
}

static bool extend(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    bool good = extension && X509_add_ext(cert, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return good;
}

/* A client or an admin serves nobody; a service serves, and calls others. */
static const char *uses(const tls_subject_t *subject)
{
    const char *role = subject->role ? subject->role : "";
    return strcmp(role, "client") == 0 || strcmp(role, "admin") == 0 ? "clientAuth" : "serverAuth,clientAuth";
}

static bool extend_leaf(X509 *cert, X509 *issuer, const tls_subject_t *subject)
{
    char names[ALT_NAMES_BYTES + TLS_HOSTS_MAX * 256];
    alt_names(subject, names);
    return extend(cert, issuer, NID_basic_constraints, "critical,CA:FALSE") &&
           extend(cert, issuer, NID_key_usage, "critical,digitalSignature") &&
           extend(cert, issuer, NID_ext_key_usage, uses(subject)) &&
           (!names[0] || extend(cert, issuer, NID_subject_alt_name, names));
}

static bool extend_authority(X509 *cert)
{
    return extend(cert, cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
           extend(cert, cert, NID_key_usage, "critical,keyCertSign,cRLSign");
}

static bool set_serial(X509 *cert)
{
    unsigned char bytes[SERIAL_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return false;
    bytes[0] &= 0x7f;
    BIGNUM *number = BN_bin2bn(bytes, sizeof bytes, NULL);
    bool good = number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert));
    BN_free(number);
    return good;
}

static bool set_times(X509 *cert, const X509 *issuer, int64_t valid_s)
{
    time_t now = time(NULL);
    bool good =
        X509_time_adj_ex(X509_getm_notBefore(cert), 0, -EARLY_SECONDS, &now) &&
        X509_time_adj_ex(X509_getm_notAfter(cert), (int)(valid_s / 86400), (long)(valid_s % 86400), &now);
    if (good && issuer != cert && ASN1_TIME_compare(X509_get0_notAfter(cert), X509_get0_notAfter(issuer)) > 0)
        good = X509_set1_notAfter(cert, X509_get0_notAfter(issuer)) == 1;
    return good;
}

/* issuer NULL: itself. */
static X509 *make_cert(const tls_subject_t *subject, EVP_PKEY *key, X509 *issuer, EVP_PKEY *issuer_key)
{
    X509 *cert = X509_new();
    X509 *by = issuer ? issuer : cert;
    X509_NAME *name = cert ? X509_get_subject_name(cert) : NULL;
    bool good =
        cert && X509_set_version(cert, X509_VERSION_3) == 1 && set_serial(cert) &&
        X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)subject->name, -1, -1,
                                   0) == 1 &&
        X509_set_issuer_name(cert, X509_get_subject_name(by)) == 1 && X509_set_pubkey(cert, key) == 1 &&
        set_times(cert, by, subject->valid_s) && extend(cert, by, NID_subject_key_identifier, "hash") &&
        (issuer ? extend(cert, by, NID_authority_key_identifier, "keyid") && extend_leaf(cert, by, subject)
                : extend_authority(cert)) &&
        X509_sign(cert, issuer_key, EVP_sha256()) > 0;
    if (good)
        return cert;
    X509_free(cert);
    return NULL;
}

static status_t make_pair(const tls_pair_t *to, const tls_subject_t *subject, X509 *issuer,
                          EVP_PKEY *issuer_key, err_t *err)
{
    ERR_clear_error();
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = key ? make_cert(subject, key, issuer, issuer_key ? issuer_key : key) : NULL;
    status_t status = cert ? write_pair(to, key, cert, err)
                           : err_set(err, STATUS_INVALID_ARGUMENT, "cannot make a certificate for \"%s\": %s",
                                     subject->name, tls_openssl_reason());
    X509_free(cert);
    EVP_PKEY_free(key);
    return status;
}

status_t tls_make_authority(const tls_pair_t *to, const tls_subject_t *subject, err_t *err)
{
    status_t status = check_subject(subject, err);
    return status == STATUS_OK ? make_pair(to, subject, NULL, NULL, err) : status;
}

static status_t check_authority(const tls_pair_t *authority, X509 *cert, EVP_PKEY *key, err_t *err)
{
    if (X509_check_ca(cert) == 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%s is not the certificate of an authority",
                       authority->cert);
    if (X509_check_private_key(cert, key) != 1)
        return err_set(err, STATUS_INVALID_ARGUMENT, "the key %s is not that of the authority %s",
                       authority->key, authority->cert);
    if (X509_cmp_current_time(X509_get0_notAfter(cert)) < 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "the time of the authority %s is over", authority->cert);
    return STATUS_OK;
}

status_t tls_issue(const tls_pair_t *authority, const tls_pair_t *to, const tls_subject_t *subject,
                   err_t *err)
{
    err_t reason = {0};
    status_t status = check_subject(subject, &reason);
    X509 *cert = status == STATUS_OK ? read_cert(authority->cert, &reason) : NULL;
    EVP_PKEY *key = cert ? read_key(authority->key, &reason) : NULL;
    if (key && check_authority(authority, cert, key, &reason) == STATUS_OK)
        make_pair(to, subject, cert, key, &reason);
    EVP_PKEY_free(key);
    X509_free(cert);
    return reason.code == STATUS_OK ? STATUS_OK : err_set(err, reason.code, "%s", reason.text);
}
