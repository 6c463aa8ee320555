/* From texts to what OpenSSL works with. */
#include "tls/internal.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <string.h>

enum { TICKET_SECONDS = 300 };

/* Keys of 128 bits first: nobody breaks those either, and tensors are many bytes. A client whose CPU has no AES gets ChaCha20. */
#define CIPHERS_TLS12 "ECDHE+AESGCM+AES128:ECDHE+AESGCM:ECDHE+CHACHA20"
#define CIPHERS_TLS13 "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
#define PROTOCOL_USUAL "http/1.1"
enum { PROTOCOL_BYTES = 32 };

const char *tls_openssl_reason(void)
{
    unsigned long code = ERR_peek_last_error();
    const char *reason = code ? ERR_reason_error_string(code) : NULL;
    ERR_clear_error();
    return reason ? reason : "it cannot be read";
}

/* A key with a pass phrase is not asked for one: nobody sits there. */
static int no_pass_phrase(char *to, int cap, int writing, void *arg)
{
    (void)to;
    (void)cap;
    (void)writing;
    (void)arg;
    return -1;
}

static BIO *text_bio(const char *text)
{
    return BIO_new_mem_buf(text, -1);
}

/* The first certificate is its own, the others lead to the authority. */
static bool use_chain(SSL_CTX *ctx, const char *text)
{
    BIO *bio = text_bio(text);
    X509 *cert = bio ? PEM_read_bio_X509_AUX(bio, NULL, no_pass_phrase, NULL) : NULL;
    bool good = cert && SSL_CTX_use_certificate(ctx, cert) == 1;
    X509_free(cert);
    while (good && (cert = PEM_read_bio_X509(bio, NULL, no_pass_phrase, NULL))) {
        good = SSL_CTX_add0_chain_cert(ctx, cert) == 1;
        if (!good)
            X509_free(cert);
    }
    BIO_free(bio);
    if (good)
        ERR_clear_error(); /* the end of the file */
    return good;
}

static bool use_key(SSL_CTX *ctx, const char *text)
{
    BIO *bio = text_bio(text);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_pass_phrase, NULL) : NULL;
    bool good = key && SSL_CTX_use_PrivateKey(ctx, key) == 1;
    EVP_PKEY_free(key);
    BIO_free(bio);
    return good;
}

static bool trust(SSL_CTX *ctx, const char *text, bool name_them)
{
    X509_STORE *store = SSL_CTX_get_cert_store(ctx);
    BIO *bio = text_bio(text);
    X509 *cert;
    int count = 0;
    while (bio && (cert = PEM_read_bio_X509(bio, NULL, no_pass_phrase, NULL))) {
        if (X509_STORE_add_cert(store, cert) == 1 && (!name_them || SSL_CTX_add_client_CA(ctx, cert) == 1))
            count++;
        X509_free(cert);
    }
    BIO_free(bio);
    if (count > 0)
        ERR_clear_error();
    return count > 0;
}

/* As ALPN has it: a length and the name. Its bytes; of a name too long none. */
static unsigned protocol_list(const tls_config_t *config, unsigned char list[PROTOCOL_BYTES])
{
    const char *name = config->protocol ? config->protocol : PROTOCOL_USUAL;
    size_t len = strlen(name);
    if (len >= PROTOCOL_BYTES)
        return 0;
    list[0] = (unsigned char)len;
    memcpy(list + 1, name, len);
    return (unsigned)len + 1;
}

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                           const unsigned char *offered, unsigned offered_len, void *arg)
{
    (void)ssl;
    unsigned char ours[PROTOCOL_BYTES], *chosen;
    unsigned len = protocol_list(arg, ours);
    if (SSL_select_next_proto(&chosen, out_len, offered, offered_len, ours, len) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static bool set_rules(SSL_CTX *ctx, const tls_config_t *config, bool wants_peer)
{
    unsigned char protocol[PROTOCOL_BYTES];
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_timeout(ctx, TICKET_SECONDS);
    bool good = SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1 &&
                SSL_CTX_set_cipher_list(ctx, CIPHERS_TLS12) == 1 &&
                SSL_CTX_set_ciphersuites(ctx, CIPHERS_TLS13) == 1;
    if (!config->server) {
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
        return good && SSL_CTX_set_alpn_protos(ctx, protocol, protocol_list(config, protocol)) == 0;
    }
    SSL_CTX_set_options(ctx, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, (void *)(uintptr_t)config);
    if (wants_peer)
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return good && SSL_CTX_set_session_id_context(ctx, (const unsigned char *)"fermata", 7) == 1;
}

static status_t fill(SSL_CTX *ctx, const tls_config_t *names, const tls_texts_t *texts, err_t *err)
{
    if (!set_rules(ctx, names, texts->ca))
        return err_set(err, STATUS_INTERNAL, "OpenSSL: %s", tls_openssl_reason());
    if (texts->cert && !use_chain(ctx, texts->cert))
        return err_set(err, STATUS_INVALID_ARGUMENT, "%s is no certificate: %s", names->cert,
                       tls_openssl_reason());
    if (texts->key && !use_key(ctx, texts->key))
        return err_set(err, STATUS_INVALID_ARGUMENT, "%s is no private key of the certificate %s: %s",
                       names->key, names->cert, tls_openssl_reason());
    if (texts->cert && SSL_CTX_check_private_key(ctx) != 1)
        return err_set(err, STATUS_INVALID_ARGUMENT, "the key %s is not that of the certificate %s",
                       names->key, names->cert);
    if (texts->ca && !trust(ctx, texts->ca, names->server))
        return err_set(err, STATUS_INVALID_ARGUMENT, "%s holds no certificate of an authority: %s", names->ca,
                       tls_openssl_reason());
    if (!texts->ca && !names->server && SSL_CTX_set_default_verify_paths(ctx) != 1)
        return err_set(err, STATUS_IO, "the system's authorities cannot be read: %s", tls_openssl_reason());
    return STATUS_OK;
}

status_t tls_material_load(const tls_config_t *names, const tls_texts_t *texts, SSL_CTX **out, err_t *err)
{
    ERR_clear_error();
    SSL_CTX *ctx = SSL_CTX_new(names->server ? TLS_server_method() : TLS_client_method());
    if (!ctx)
        return err_set(err, STATUS_NO_MEMORY, "no memory for TLS");
    status_t status = fill(ctx, names, texts, err);
    if (status != STATUS_OK) {
        SSL_CTX_free(ctx);
        return status;
    }
    *out = ctx;
    return STATUS_OK;
}
