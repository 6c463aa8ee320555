/* Whom a connection expects at its other end, who is there, and why it failed. */
#include "tls/internal.h"
#include "tls/role.h"

#include <arpa/inet.h>
#include <openssl/x509v3.h>
#include <stdio.h>

/* An address is none to SNI, and stands in a certificate as one. */
static bool expect_host(SSL *ssl, const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];
    if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

bool tls_expect_server(SSL *ssl, tls_context_t *context, const char *host, bool resume)
{
    char name[TLS_ROLE_BYTES + sizeof TLS_ROLE_DOMAIN];
    const char *role = tls_context_server_role(context);
    if (role) {
        snprintf(name, sizeof name, "%s" TLS_ROLE_DOMAIN, role);
        host = name;
    }
    SSL_SESSION *last = resume ? tls_context_last_session(context) : NULL;
    if (last)
        SSL_set_session(ssl, last);
    SSL_SESSION_free(last);
    SSL_set_connect_state(ssl);
    return expect_host(ssl, host);
}

/* What alternative names say. */
const char *tls_peer_role(const SSL *ssl)
{
    const X509 *cert = SSL_get0_peer_certificate(ssl);
    GENERAL_NAMES *names = cert ? X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL) : NULL;
    const char *role = NULL;
    for (int i = 0; !role && i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        if (name->type == GEN_URI)
            role = tls_role_of_uri((const char *)ASN1_STRING_get0_data(name->d.uniformResourceIdentifier),
                                   (size_t)ASN1_STRING_length(name->d.uniformResourceIdentifier));
    }
    GENERAL_NAMES_free(names);
    return role;
}

void tls_failure_text(const SSL *ssl, bool ready, char text[TLS_REASON_BYTES])
{
    long verified = ready ? X509_V_OK : SSL_get_verify_result(ssl);
    const char *reason = tls_openssl_reason();
    if (verified != X509_V_OK)
        snprintf(text, TLS_REASON_BYTES, "the certificate is refused: %s",
                 X509_verify_cert_error_string(verified));
    else
        snprintf(text, TLS_REASON_BYTES, "TLS: %s", reason);
}
