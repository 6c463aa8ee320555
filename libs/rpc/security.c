#include "rpc/security.h"
#include "tls/role.h"

#include <stdio.h>
#include <string.h>

/* ---- servers ---- */

static grpc_ssl_server_certificate_config *make_config(tls_context_t *tls)
{
    tls_texts_t texts;
    if (tls_context_texts(tls, &texts, NULL) != STATUS_OK)
        return NULL;
    const grpc_ssl_pem_key_cert_pair pair = {.private_key = texts.key, .cert_chain = texts.cert};
    /* Debian's gRPC ends the program where a fetched configuration has no roots, also where clients are not asked. */
    grpc_ssl_server_certificate_config *config =
        grpc_ssl_server_certificate_config_create(texts.ca ? texts.ca : texts.cert, &pair, 1);
    tls_texts_dispose(&texts);
    return config;
}

/* gRPC takes what is new, and keeps what it has where there is nothing. */
static grpc_ssl_certificate_config_reload_status fetch(void *arg, grpc_ssl_server_certificate_config **config)
{
    rpc_shown_t *shown = arg;
    uint64_t generation = tls_context_generation(shown->tls);
    if (atomic_load(&shown->generation) == generation)
        return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    *config = make_config(shown->tls);
    if (!*config)
        return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_FAIL;
    atomic_store(&shown->generation, generation);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
}

grpc_server_credentials *rpc_server_credentials(rpc_shown_t *shown)
{
    if (!shown->tls)
        return grpc_insecure_server_credentials_create();
    grpc_ssl_client_certificate_request_type asked =
        tls_context_wants_client(shown->tls) ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                             : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
    grpc_ssl_server_credentials_options *options =
        grpc_ssl_server_credentials_create_options_using_config_fetcher(asked, fetch, shown);
    return options ? grpc_ssl_server_credentials_create_with_options(options) : NULL;
}

/* ---- clients ---- */

grpc_channel_credentials *rpc_channel_credentials(tls_context_t *tls)
{
    tls_texts_t texts;
    if (!tls)
        return grpc_insecure_credentials_create();
    if (tls_context_texts(tls, &texts, NULL) != STATUS_OK)
        return NULL;
    grpc_ssl_pem_key_cert_pair pair = {.private_key = texts.key, .cert_chain = texts.cert};
    grpc_channel_credentials *made =
        grpc_ssl_credentials_create(texts.ca, texts.cert ? &pair : NULL, NULL, NULL);
    tls_texts_dispose(&texts);
    return made;
}

char *rpc_server_name(const tls_context_t *tls)
{
    const char *role = tls ? tls_context_server_role(tls) : NULL;
    char *name = NULL;
    return role && asprintf(&name, "%s" TLS_ROLE_DOMAIN, role) >= 0 ? name : NULL;
}

/* ---- who is there ---- */

const char *rpc_peer_role(grpc_call *call)
{
    grpc_auth_context *context = grpc_call_auth_context(call);
    const char *role = NULL;
    if (!context)
        return "";
    grpc_auth_property_iterator each =
        grpc_auth_context_find_properties_by_name(context, GRPC_PEER_URI_PROPERTY_NAME);
    const grpc_auth_property *uri;
    while (!role && (uri = grpc_auth_property_iterator_next(&each)))
        role = tls_role_of_uri(uri->value, uri->value_length);
    grpc_auth_context_release(context);
    return role ? role : "";
}
