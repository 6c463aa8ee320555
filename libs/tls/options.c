#include "tls/options.h"

#include <stddef.h>

status_t tls_server_open(const tls_server_options_t *options, tls_context_t **context, err_t *err)
{
    *context = NULL;
    if (!options->cert && !options->key && !options->client_ca)
        return STATUS_OK;
    const tls_config_t config = {
        .server = true, .cert = options->cert, .key = options->key, .ca = options->client_ca};
    return tls_context_create(&config, context, err);
}

status_t tls_client_open(const tls_client_options_t *options, const char *server_role, bool wanted,
                         tls_context_t **context, err_t *err)
{
    *context = NULL;
    if (!options->ca && !options->cert && !options->key && !wanted)
        return STATUS_OK;
    const tls_config_t config = {
        .cert = options->cert, .key = options->key, .ca = options->ca, .server_role = server_role};
    return tls_context_create(&config, context, err);
}
